"""The whole control plane as processes, beside three real brokers, in either of its two forms."""

import http.client
import json
import math
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from control_plane.brokers import answers, view
from data_plane.contract.admin_client import AdminClient
from local import processes
from local.cluster import DevCluster
from local.free_ports import HOST, free_port
from local.layout import ClusterSpec, DataDirectory
from penstock import Client, PenstockError
from penstock.contract.errors import BrokerUnavailable
from penstock.rest.client import RestClient
from tests import migrated
from tests.integration import servers
from tests.waiting import PATIENCE_S, wait_until

_POLL_S = 0.03
RECONCILE_S = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Where desired state rests, and what carries wake-ups."""

    database_url: str
    celery_broker_url: str
    empty: bool = False
    """Whether the database has no tables yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedUp:
    """A tenant, its owner's session and a key of it."""

    tenant: str
    email: str
    rest: RestClient
    api_key: str


@contextmanager
def embedded(folder: Path) -> Iterator[Form]:
    """SQLite and Celery's filesystem transport."""
    migrated.put_sqlite(folder / "control.sqlite")
    yield Form(
        database_url=f"sqlite:///{folder}/control.sqlite", celery_broker_url=f"filesystem://{folder}/celery"
    )


@contextmanager
def with_servers(folder: Path) -> Iterator[Form]:
    """A real PostgreSQL and a real Redis."""
    with servers.postgresql(data=migrated.postgresql_data()) as database, servers.redis() as redis:
        yield Form(
            database_url=f"postgresql://penstock@{HOST}:{database.port}/postgres",
            celery_broker_url=f"redis://{HOST}:{redis.port}/0",
        )


def _alive(rest: RestClient) -> bool:
    try:
        rest.get("/healthz")
    except PenstockError:
        return False
    return True


class Service:
    """Brokers, web process and worker; each can be hurt and started again."""

    def __init__(self, folder: Path, form: Form, cluster: DevCluster, spec: ClusterSpec) -> None:
        self.folder = folder
        self.form = form
        self.cluster = cluster
        self.spec = spec
        self.config_file = folder / "config.json"
        port = free_port(set())
        self.url = f"http://{HOST}:{port}"
        self.bootstrap = [broker.client_address for broker in spec.brokers]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._rest: list[RestClient] = []
        self._tenants = 0
        self._worker_ports: dict[str, int] = {}
        self.config_file.write_text(json.dumps(self._config(port)))
        addresses = [broker.internal_address for broker in spec.brokers]
        self.brokers = AdminClient(addresses, cluster.directory.certificates.operator())

    def seen(self, *, partitions: bool = False, objects: bool = False) -> view.ClusterView:
        """The cluster as the broker sees it that has seen most: on a busy machine one may be behind."""
        found = []
        for broker in self.spec.brokers:
            with suppress(BrokerUnavailable):
                found.append(
                    self.brokers.describe_cluster(
                        partitions=partitions, objects=objects, address=broker.internal_address
                    )
                )
        assert found, self.last_words()
        return answers.cluster_view(max(found, key=lambda answer: answer.revision))

    def _config(self, port: int) -> dict[str, Any]:
        return {
            "environment": "test",
            "identity": self.cluster.directory.certificates.settings("control-plane"),
            "secret_key": secrets.token_hex(32),
            "database_url": self.form.database_url,
            "celery_broker_url": self.form.celery_broker_url,
            "public_url": self.url,
            "listen": f"{HOST}:{port}",
            "brokers": {
                "bootstrap": self.bootstrap,
                "internal": [broker.internal_address for broker in self.spec.brokers],
                "pepper_file": str(self.cluster.directory.pepper_file),
                "pepper_version": 1,
            },
            "datasets": str(self.folder / "datasets"),
            "usage_key_file": str(self.folder / "usage.key"),
            "operator_token_file": str(self.folder / "operator.token"),
            "spark": {"master": "local[1]"},
            "pipeline_interval_s": 20,
            "price_book_file": None,
            "reconcile_interval_s": RECONCILE_S,
        }

    # -- processes -------------------------------------------------------------------------------------------

    def _environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
            "PENSTOCK_CONFIG": str(self.config_file),
        }

    def command(self, *arguments: str) -> str:
        """Run `python -m control_plane …`; it must succeed. Its output."""
        ran = subprocess.run(
            [sys.executable, "-m", "control_plane", *arguments],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ran.returncode == 0, f"{arguments}: {ran.stdout[-2000:]}{ran.stderr[-4000:]}"
        return ran.stdout

    @contextmanager
    def forking(self, file: Path) -> Iterator[Callable[..., int]]:
        """Start a program with the service's configuration that forks itself for each list of arguments that it gets.
        What is handed out takes such a list and returns the fork's exit status, negative for a signal. The program has
        ended at the end of the block.
        """
        with self.output_file(file.stem).open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, str(file)],
                cwd=self.folder,
                env=self._environment() | {"DJANGO_SETTINGS_MODULE": "control_plane.settings"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                start_new_session=True,
            )

        def in_a_fork(*arguments: str) -> int:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps(arguments) + "\n")
            process.stdin.flush()
            said = process.stdout.readline()
            assert said, self.output_file(file.stem).read_text()[-4000:]
            return int(said)

        try:
            yield in_a_fork
        finally:
            process.communicate(timeout=PATIENCE_S)

    def start_web(self) -> None:
        self._start("web", "web", self.config_file)

    @contextmanager
    def second_web(self) -> Iterator[str]:
        """Another web process of the same service, with its address; killed at the end of the block."""
        port = free_port(set())
        config = json.loads(self.config_file.read_text())
        # Beside the first one's: what the processes of a service share is in this folder.
        second = self.folder / "config-second.json"
        second.write_text(json.dumps({**config, "listen": f"{HOST}:{port}"}))
        self._start("web-2", "web", second)
        url = f"http://{HOST}:{port}"
        try:
            with RestClient(url, timeout_s=1) as rest:
                self.wait_until("the second web process serves", lambda: _alive(rest))
            yield url
        finally:
            self.kill("web-2")

    def start_worker(self) -> None:
        self._start_worker("worker")

    @contextmanager
    def second_worker(self) -> Iterator[None]:
        """Another worker of the same service, ready; killed at the end of the block."""
        self._start_worker("worker-2")
        try:
            self.wait_until("the second worker is ready", lambda: self.gauge("worker-2", "worker_ready") == 1)
            yield
        finally:
            if "worker-2" in self._processes:
                self.kill("worker-2")

    def start_again(self, worker: str) -> None:
        """Start a worker that was killed, and wait until it is ready."""
        self._start_worker(worker)
        self.wait_until(f"{worker} is ready", lambda: self.gauge(worker, "worker_ready") == 1)

    def _start_worker(self, name: str) -> None:
        port = self._worker_ports.setdefault(name, free_port(set(self._worker_ports.values())))
        self._start(name, "worker", self.config_file, PENSTOCK_SERVER_WORKER_LISTEN=f"{HOST}:{port}")

    def gauge(self, worker: str, name: str) -> float:
        """Of a worker's /metrics, summed over labels that the name leaves out; NaN while it cannot be asked."""
        connection = http.client.HTTPConnection(HOST, self._worker_ports[worker], timeout=5)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            return math.nan
        finally:
            connection.close()
        found = [float(line.split()[1]) for line in text.splitlines() if line.startswith(f"penstock_{name}")]
        return sum(found) if found else math.nan

    def address_of(self, worker: str) -> str:
        """Where it answers /healthz, /readyz and /metrics."""
        return f"http://{HOST}:{self._worker_ports[worker]}"

    def workers(self) -> list[str]:
        """Names of the workers that run."""
        return [name for name in self._processes if name.startswith("worker")]

    def signal(self, name: str, number: signal.Signals) -> None:
        """To the process and those that it forked."""
        os.killpg(self._processes[name].pid, number)

    def _start(self, name: str, what: str, config: Path, **environment: str) -> None:
        with self.output_file(name).open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli", "server", what, "--config", str(config)],
                cwd=self.folder,
                env=self._environment() | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """SIGKILL to the process and those it forked, as when a machine's memory runs out."""
        process = self._processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)

    def forked(self, name: str) -> list[psutil.Process]:
        """What the process forked and that runs now."""
        return psutil.Process(self._processes[name].pid).children(recursive=True)

    def kill_alone(self, name: str) -> list[psutil.Process]:
        """SIGKILL to the process alone; those that it had forked."""
        forked = self.forked(name)
        process = self._processes.pop(name)
        process.kill()
        process.wait(PATIENCE_S)
        return forked

    def wait_ended(self, name: str) -> int:
        """Its exit status, once it has ended by itself."""
        return self._processes.pop(name).wait(PATIENCE_S)

    def stop(self, name: str) -> None:
        """SIGTERM; it ends by itself."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)
            pytest.fail(f"{name} did not end within {PATIENCE_S:g} s\n{self.last_words()}")

    @contextmanager
    def brokers_paused(self) -> Iterator[None]:
        """SIGSTOP to all brokers within the block."""
        files = [self.cluster.directory.config_file(broker.id) for broker in self.spec.brokers]
        pids = [process.pid for process in map(processes.find, files) if process is not None]
        assert len(pids) == len(files), self.last_words()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows of the control plane's database, or none for a statement that has none; committed."""
        if self.form.database_url.startswith("sqlite:///"):
            file = self.form.database_url.removeprefix("sqlite:///")
            with closing(sqlite3.connect(file, timeout=PATIENCE_S)) as database, database:
                return database.execute(statement).fetchall()
        with psycopg.connect(self.form.database_url) as connection:
            cursor = connection.execute(statement)
            return [] if cursor.description is None else cursor.fetchall()

    def deliveries_under_way(self) -> int:
        """Outbox rows that somebody delivers now."""
        ((count,),) = self.sql(
            "SELECT count(*) FROM outbox_delivery WHERE lease_until IS NOT NULL AND delivered_at IS NULL"
        )
        return int(count)

    def until_delivered(self, *answers: Mapping[str, Any]) -> None:
        """Wait until the brokers have what was answered. A request itself waits for two seconds; what a busy machine
        does not deliver in them the worker delivers.
        """
        if not all(answer["delivered"] for answer in answers):
            self.wait_until(
                "everything is delivered",
                lambda: self.sql("SELECT count(*) FROM outbox_delivery WHERE delivered_at IS NULL") == [(0,)],
            )

    def end(self) -> None:
        """No process of ours is left after this."""
        for rest in self._rest:
            rest.close()
        self.brokers.close()
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(PATIENCE_S)

    def output_file(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def last_words(self) -> str:
        """The end of each process's output, for the message of a failure."""
        parts = []
        for name in ("web", "web-2", "worker", "worker-2"):
            file = self.output_file(name)
            text = file.read_text(errors="backslashreplace") if file.exists() else ""
            parts.append(f"--- {name}\n" + "\n".join(text.splitlines()[-25:]))
        return "\n".join(parts)

    def wait_until(
        self,
        what: str,
        holds: Callable[[], bool],
        *,
        instead: Callable[[], object] = lambda: "",
    ) -> float:
        """Seconds until `holds()`; fails with `instead()` and what the processes said when it never does."""
        return wait_until(what, holds, instead=lambda: f"{instead()}\n{self.last_words()}")

    def wait_ready(self) -> None:
        """Until /readyz says that database, worker and brokers are there."""

        def ready() -> bool:
            with RestClient(self.url, timeout_s=1) as rest:
                try:
                    return bool(rest.get("/readyz")["status"] == "ready")
                except Exception:
                    return False

        self.wait_until("the service is ready", ready)

    # -- callers ---------------------------------------------------------------------------------------------

    def client_of(self, credential: str | None, tenant: str | None = None) -> RestClient:
        rest = RestClient(self.url, credential, tenant=tenant)
        self._rest.append(rest)
        return rest

    def operator(self, tenant: str | None = None) -> RestClient:
        return self.client_of((self.folder / "operator.token").read_text().strip(), tenant)

    def sign_up(self) -> SignedUp:
        """A new tenant that the brokers know, with a key that they know."""
        self._tenants += 1
        name = f"tenant-{self._tenants}"
        made = self.client_of(None).post(
            "/v1/sign-up",
            {"email": f"{name}@example.com", "password": "a horse, a battery", "tenant": name},
        )
        rest = self.client_of(made["token"])
        key = rest.post("/v1/keys", {"name": "app"})
        self.until_delivered(made["tenant"], key)
        return SignedUp(
            tenant=made["tenant"]["id"], email=f"{name}@example.com", rest=rest, api_key=key["key"]
        )

    def sdk(self, api_key: str) -> Client:
        return Client(bootstrap=self.bootstrap, api_key=api_key)

    def topics_on_brokers(self, tenant: str) -> dict[str, str]:
        """Name -> topic id, as the brokers hold them; those in the recycle bin have no name."""
        seen = self.seen(objects=True)
        return {
            topic.name: topic.topic_id for topic in seen.topics if topic.tenant == tenant and not topic.binned
        }


@contextmanager
def service(folder: Path, form: Callable[[Path], Any], brokers: int = 3) -> Iterator[Service]:
    """The service, ready and bootstrapped; no process is left at its end."""
    with ExitStack() as stack:
        chosen = stack.enter_context(form(folder))
        cluster = DevCluster(DataDirectory(folder / "brokers"))
        stack.callback(cluster.down, timeout_s=5)
        result = cluster.up(brokers, lambda done, steps, note: None, provisioned=False)
        running = Service(folder, chosen, cluster, result.spec)
        stack.callback(running.end)
        running.command("bootstrap", *(["--migrate", "-v0"] if chosen.empty else []))
        running.start_web()
        running.start_worker()
        running.wait_ready()
        yield running
