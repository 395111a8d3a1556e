"""A service of three brokers, a web process and a worker, in a folder; each process runs the code of one release and is
changed to another one's on the same files.
"""

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from data_plane.broker.metadata_config import open_store
from data_plane.contract import admin_pb2 as pb
from data_plane.metadata.image import ClusterImage
from local import processes, service_processes
from local.layout import DataDirectory
from local.provisioning import admin_of
from local.service_layout import ServiceDirectory
from local.service_processes import ServiceProcess
from local.status import is_ready, says_ready
from penstock.rest.client import RestClient
from tests.waiting import PATIENCE_S, wait_until

from .release import CURRENT, Release

HERE = Path(__file__).parent
_LAST_LINES = 15
_CONTROL_PLANE = (service_processes.WEB, service_processes.WORKER)
_COMMANDS_0_1 = {
    "web": ("-m", "control_plane.serve"),
    "worker": (
        *("-m", "celery", "-A", "control_plane.celery", "worker", "-B", "--concurrency", "2"),
        *("--loglevel", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"),
    ),
}
"""What ran the control plane of Penstock 0.1."""
SECRET = "cluster.secret"
"""By which brokers and control planes of Penstock 0.1 know each other."""


class Cluster:
    """Each release has configuration files of its own beside the same data."""

    def __init__(self, folder: Path, made_by: Release) -> None:
        self.directory = DataDirectory(folder)
        self.service = ServiceDirectory(self.directory)
        self._configurations: dict[tuple[str, Path], str] = {}
        """What a release reads: the text by its version and the file."""
        made_by.run(str(HERE / "lay_out.py"), str(folder), folder=folder.parent)
        self.spec = self.directory.load()
        self._keep_configurations(made_by)
        self.api_url = self.service.load().api_url
        self.bootstrap = [broker.client_address for broker in self.spec.brokers]
        self._running: dict[str, tuple[Release, subprocess.Popen[bytes]]] = {}

    # -- configuration ---------------------------------------------------------------------------------------

    def prepare(self, release: Release) -> None:
        """Write configurations of another release, before any process of it is started: its brokers serve those of
        Penstock 0.1 as well.
        """
        release.run(str(HERE / "lay_out.py"), str(self.directory.path), folder=self.directory.path.parent)
        self._keep_configurations(release)
        for number in self.numbers:
            secret = str(self.directory.path / SECRET)
            settings = {"transition": {"cluster_secret_file": secret}, "host": f"host-{number}"}
            self.configure_broker(number, release, settings)

    def configure_broker(self, number: int, release: Release, changes: Mapping[str, Any]) -> None:
        """From its next start on. None takes a setting out."""
        key = release.version, self.directory.config_file(number)
        values = json.loads(self._configurations[key]) | changes
        kept = {name: value for name, value in values.items() if value is not None}
        self._configurations[key] = json.dumps(kept)

    def _keep_configurations(self, release: Release) -> None:
        for file in (self.service.config_file, *map(self.directory.config_file, self.numbers)):
            self._configurations[release.version, file] = file.read_text()

    def _configure(self, release: Release, file: Path) -> None:
        file.write_text(self._configurations[release.version, file])

    @property
    def numbers(self) -> list[int]:
        """Of all brokers."""
        return [broker.id for broker in self.spec.brokers]

    # -- brokers ---------------------------------------------------------------------------------------------

    def start_broker(self, number: int, release: Release) -> None:
        """Start it and wait until it serves."""
        self.launch_broker(number, release)
        spec, (_, process) = self.spec.broker(number), self._running[f"broker {number}"]

        def ready() -> bool:
            if process.poll() is not None:
                pytest.fail(f"broker {number} ended with status {process.poll()}\n{self.last_words()}")
            return is_ready(spec)

        wait_until(f"broker {number} of {release.version} is ready", ready, instead=self.last_words)

    def launch_broker(self, number: int, release: Release) -> subprocess.Popen[bytes]:
        """Start it without waiting."""
        config = self.directory.config_file(number)
        self._configure(release, config)
        command = release.command("-m", "data_plane.broker", "--config", str(config))
        return self._start(f"broker {number}", release, command, self.directory.output_file(number))

    def stop_broker(self, number: int) -> None:
        """SIGTERM: it drains, and ends with status 0."""
        status = self._stop(f"broker {number}")
        assert status == 0, f"broker {number} ended with status {status}\n{self.last_words()}"

    def change_broker(self, number: int, release: Release) -> None:
        """Drain it, start the other release on its folder, and wait until every partition has all its copies again, as
        an operator does before the next one.
        """
        self.stop_broker(number)
        self.start_broker(number, release)
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        wait_until(
            "every partition has a leader and all copies in sync", self._whole, instead=self.last_words
        )

    def messages_counted(self, tenant: str) -> int:
        """What the brokers have metered of all topics that the tenant ever had, up to now."""
        end_ms = time.time_ns() // 1_000_000
        readings: list[pb.CutReading] = []
        with admin_of(self.directory) as admin:

            def read() -> bool:
                readings[:] = admin.cut("cut_upgrade", tenant, end_ms).readings
                return not any(reading.error for reading in readings)

            wait_until("every partition is read", read, instead=lambda: f"{readings}\n{self.last_words()}")
        return sum(reading.messages for reading in readings)

    def _whole(self) -> bool:
        image = self.metadata()
        records = [record for topic in image.topics for record in image.partitions_of(topic)]
        return bool(records) and all(
            record.leader >= 0 and len(record.in_sync) == len(record.replicas) and not record.target
            for record in records
        )

    def metadata(self) -> ClusterImage:
        """What the metadata store holds now, whatever runs."""

        async def read() -> ClusterImage:
            store = await open_store(str(self.directory.metadata_file), self.spec.cluster_id)
            try:
                listing = await store.range("/")
            finally:
                await store.close()
            image = ClusterImage()
            image.load(listing.items, listing.revision)
            return image

        return asyncio.run(read())

    def hosts(self) -> list[str]:
        """What the brokers' records name, by broker."""
        image = self.metadata()
        return [image.brokers[broker].record.host for broker in sorted(image.brokers)]

    def versions(self) -> dict[int, str]:
        """What each registered broker says that it runs; empty for one that says nothing."""
        image = self.metadata()
        return {int(b): image.supported_by(b).version for b in sorted(image.brokers) if image.epoch_of(b)}

    # -- control plane ---------------------------------------------------------------------------------------

    def manage(self, release: Release, *arguments: str) -> str:
        """A command of the control plane."""
        return self._run(release, "-m", "control_plane", *arguments)

    def _run(self, release: Release, *arguments: str) -> str:
        """Python with the control plane's configuration."""
        self._configure(release, self.service.config_file)
        environment = service_processes.environment_for(self.service, "control_plane")
        return release.run(
            *arguments,
            folder=self.service.path,
            **{name: environment[name] for name in (service_processes.CONFIG_VARIABLE,)},
        )

    def start_control_plane(self, release: Release) -> None:
        """Web process and worker, once they are ready."""
        self._configure(release, self.service.config_file)
        for process in _CONTROL_PLANE:
            self.service.heartbeat_file(process.name).unlink(missing_ok=True)
            marks = service_processes.environment_for(self.service, process.name)
            mine = {name: value for name, value in marks.items() if name.startswith("PENSTOCK_")}
            self._start(
                process.name,
                release,
                self._command(release, process),
                self.service.output_file(process.name),
                **mine,
            )
        port = self.service.load().web_port
        wait_until(
            f"the control plane of {release.version} is ready",
            lambda: says_ready(port),
            instead=self.last_words,
        )

    def _command(self, release: Release, process: ServiceProcess) -> list[str]:
        if release == CURRENT:
            return process.command_line(self.service.config_file)
        return release.command(*_COMMANDS_0_1[process.name])

    def stop_control_plane(self) -> None:
        for process in _CONTROL_PLANE:
            self._stop(process.name)

    def migrations(self, release: Release) -> dict[str, str]:
        """The newest migration of each app that the release has."""
        plan = self.manage(release, "showmigrations", "--plan")
        names = [line.split()[-1].partition(".") for line in plan.splitlines() if "." in line]
        return {app: name for app, _, name in names}

    def migrate_back(self, release: Release, to: Release) -> list[str]:
        """Take the database back to what `to` has, by the code that is newer: what was taken back."""
        wanted, there = self.migrations(to), self.migrations(release)
        changed = [app for app in there if there[app] != wanted.get(app)]
        back = [(app, wanted.get(app, "zero")) for app in reversed(changed)]
        self._run(release, str(HERE / "taking_back.py"), json.dumps(back))
        return changed

    def command(self, release: Release, *arguments: str, good: bool = True) -> Any:
        """A command of `penstock` with --json: what it printed, or its error."""
        ran = subprocess.run(
            release.command("-m", "penstock.cli", "--json", *arguments),
            env=release.environment(
                PENSTOCK_API_URL=self.api_url, PENSTOCK_BOOTSTRAP=",".join(self.bootstrap)
            ),
            cwd=self.directory.path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (ran.returncode == 0) == good, f"{arguments}: {ran.returncode}: {ran.stdout}{ran.stderr}"
        return json.loads(ran.stdout if good else ran.stderr)

    def output_of(self, number: int) -> str:
        """All that a broker printed."""
        return self.directory.output_file(number).read_text()

    def operator(self, tenant: str) -> RestClient:
        """REST of an operator in a tenant's name."""
        return RestClient(self.api_url, self.service.operator_token_file.read_text().strip(), tenant=tenant)

    # -- processes -------------------------------------------------------------------------------------------

    def _start(
        self, name: str, release: Release, command: list[str], output: Path, **environment: str
    ) -> subprocess.Popen[bytes]:
        with processes.open_output(output) as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=output.parent,
                env=release.environment(**environment),
                start_new_session=True,
            )
        self._running[name] = release, process
        return process

    def _stop(self, name: str) -> int:
        _, process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            pytest.fail(f"{name} has not ended after {PATIENCE_S:g} s\n{self.last_words()}")

    def end(self) -> None:
        """No process is left after this."""
        for _, process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for _, process in self._running.values():
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def last_words(self) -> str:
        """The end of what each process printed, and which release runs where."""
        files = {f"broker {number}": self.directory.output_file(number) for number in self.numbers}
        files |= {process.name: self.service.output_file(process.name) for process in _CONTROL_PLANE}
        parts = []
        for name, file in files.items():
            running = self._running.get(name)
            text = file.read_text(errors="backslashreplace") if file.exists() else ""
            parts.append(
                f"--- {name}, {'not running' if running is None else running[0].version}\n"
                + "\n".join(text.splitlines()[-_LAST_LINES:])
            )
        return "\n".join(parts)


@contextmanager
def cluster(folder: Path, made_by: Release) -> Iterator[Cluster]:
    """A service whose three brokers and control plane run that release at the start of the block."""
    made = Cluster(folder, made_by)
    try:
        for number in made.numbers:
            made.launch_broker(number, made_by)
        made.manage(made_by, "migrate")
        wait_until(
            "all brokers are ready",
            lambda: all(map(is_ready, made.spec.brokers)),
            instead=made.last_words,
        )
        made.manage(made_by, "bootstrap")
        made.start_control_plane(made_by)
        yield made
    finally:
        made.end()
