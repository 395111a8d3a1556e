"""On a standalone cluster the pipeline publishes what it publishes on one machine, whatever is lost meanwhile."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from spark_usage import bronze, datasets
from spark_usage.configuration import DEFAULT_ASSETS
from spark_usage.manifest import Catalog
from spark_usage.rounds import fold
from tests.integration.operations.certificates import make_certificate
from tests.spark_usage.service import PROJECT, Service, service
from tests.spark_usage.standalone import WORKERS, StandaloneCluster, standalone
from tests.spark_usage.test_metered_brokers import cut_now, wait_until_calls_are_counted
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes]
EXECUTOR_WAIT_S = 5
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
Digests = dict[str, tuple[str, str]]
"""Data set -> (run id, digest)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Bronze that a cluster read from real brokers over TLS, and what one machine makes of it."""

    cluster: StandaloneCluster
    folder: Path
    config_file: Path
    expected: Digests
    by_cluster: Digests
    once_output: str
    command_lines: set[str]
    api_key: str


def digests(folder: Path) -> Digests:
    """Of the current runs."""
    catalog = Catalog(folder)
    current = {dataset.name: catalog.current(dataset.name) for dataset in datasets.ALL}
    return {name: (run["run_id"], run["digest"]) for name, run in current.items() if run is not None}


def wait_for_end(process: "subprocess.Popen[bytes]", output: Path) -> str:
    """What a process wrote, once it has ended."""
    try:
        process.wait(PATIENCE_S)
    finally:
        end(process)
    return output.read_text()


def end(process: "subprocess.Popen[bytes]") -> None:
    """Python and Java."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def start(arguments: Sequence[str], output: Path) -> "subprocess.Popen[bytes]":
    with output.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=PROJECT,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def use_the_service(running: Service) -> None:
    """Messages of a tenant, metered, and a period's end."""
    tenant = running.brokers.tenant("tn_real")
    running.brokers.create_topic(tenant, "orders", partitions=3)
    with running.brokers.client(tenant) as client, client.producer() as producer:
        for number in range(300):
            producer.send("orders", b"%d" % number, partition=number % 3)
        producer.flush()
    cut_now(running, "tn_real", "cut_1", 0)
    wait_until_calls_are_counted(running, "tn_real")


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("on-a-cluster")
    events = folder / "events"
    events.mkdir()
    with standalone(folder / "cluster") as cluster:
        settings = {
            "master": cluster.master,
            "executor_wait_s": EXECUTOR_WAIT_S,
            "conf": {
                # Rounds here are small plans again, on two cores.
                "spark.driver.extraJavaOptions": QUICK_JAVA,
                "spark.executor.extraJavaOptions": QUICK_JAVA,
                "spark.sql.adaptive.enabled": "false",
                "spark.sql.codegen.factoryMode": "NO_CODEGEN",
                "spark.sql.codegen.wholeStage": "false",
                "spark.eventLog.compress": "false",
                "spark.eventLog.dir": events.as_uri(),
                "spark.eventLog.enabled": "true",
                "spark.executor.memory": "512m",
                "spark.sql.shuffle.partitions": "2",
            },
        }
        certificate = make_certificate(folder, "broker")
        with service(folder, metering=True, certificate=certificate, spark=settings) as running:
            use_the_service(running)
            output = folder / "once.output"
            process = start(["spark_usage", "once", "--config", str(running.config_file)], output)
            seen: set[str] = set()

            def ended() -> bool:
                seen.update(cluster.command_lines())
                seen.update(_command_line(child) for child in _family(process.pid))
                return process.poll() is not None

            try:
                wait_until("the round on the cluster has ended", ended, instead=cluster.last_words)
            finally:
                end(process)
        here = running.configuration.datasets
        by_cluster = digests(here)
        fold(
            spark,
            folder / "one-machine",
            DEFAULT_ASSETS,
            rows=bronze.read(spark, here),
            offsets=bronze.committed_offsets(here),
        )
        yield World(
            cluster=cluster,
            folder=folder,
            config_file=running.config_file,
            expected=digests(folder / "one-machine"),
            by_cluster=by_cluster,
            once_output=output.read_text(),
            command_lines=seen,
            api_key=running.api_key,
        )


def _family(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


class Round:
    """A round on the cluster that stands still in its middle."""

    def __init__(self, world: World, name: str) -> None:
        self.out, self._gate = world.folder / name, world.folder / f"{name}.gate"
        self._gate.mkdir(exist_ok=True)
        self._output = world.folder / f"{name}.output"
        self._process = start(
            ["tests.spark_usage.gated_round", str(world.config_file), str(self.out), str(self._gate)],
            self._output,
        )

    def __enter__(self) -> "Round":
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)

    def wait_at_the_gate(self) -> list[int]:
        """Returns the processes that wait there: executors' Pythons."""

        def waits() -> bool:
            assert self._process.poll() is None, self._output.read_text()
            return any(self._gate.glob("waits-*"))

        wait_until("the round stands still", waits, instead=self._output.read_text)
        return [int(file.name.removeprefix("waits-")) for file in self._gate.glob("waits-*")]

    def open(self) -> None:
        (self._gate / "open").touch()

    def close_gate(self) -> None:
        """The round after an ended one stands still too: nothing of those that waited is left."""
        for file in self._gate.iterdir():
            file.unlink()

    def result(self) -> tuple[int, str]:
        """Exit status and output."""
        return self._process.wait(PATIENCE_S), self._output.read_text()

    def kill(self) -> None:
        end(self._process)


def test_a_cluster_publishes_the_digests_of_one_machine(world: World) -> None:
    assert len(world.expected) == len(datasets.ALL)
    assert world.by_cluster == world.expected, world.once_output
    catalog = Catalog(world.folder / "one-machine")
    rows = {name: manifest["rows"] for name in world.expected if (manifest := catalog.current(name))}
    assert rows["cut_usage"] >= 6 and rows["usage_hour"] >= 6 and rows["chain"] > 0, (
        "there was something to count"
    )


def test_the_usage_key_is_in_no_event_log_and_on_no_command_line(world: World) -> None:
    logs = [file.read_text() for file in (world.folder / "events").rglob("*") if file.is_file()]
    assert any("SparkListenerApplicationEnd" in log for log in logs)
    assert not any(world.api_key in log for log in logs)
    assert any("CoarseGrainedExecutorBackend" in line for line in world.command_lines)
    assert any("SparkSubmit" in line for line in world.command_lines)
    assert not any(world.api_key in line for line in world.command_lines)


def test_a_worker_lost_in_the_middle_of_a_round_changes_nothing(world: World) -> None:
    with Round(world, "worker-lost") as on_cluster:
        waiting = on_cluster.wait_at_the_gate()
        published = digests(on_cluster.out)
        assert 0 < len(published) < len(datasets.ALL)
        lost = next(number for number in range(WORKERS) if world.cluster.has(number, waiting[0]))
        world.cluster.kill_worker(lost)
        try:
            on_cluster.open()
            status, output = on_cluster.result()
        finally:
            world.cluster.start()
        assert status == 0, output
        assert "tried once more" not in output, "Spark computed what was lost; no round had to be repeated"
    assert digests(on_cluster.out) == world.expected
    assert published.items() <= world.expected.items()
    assert not list(on_cluster.out.glob("*/.pending-*"))


def test_a_round_outlives_the_master(world: World) -> None:
    with Round(world, "master-lost") as on_cluster:
        on_cluster.wait_at_the_gate()
        world.cluster.kill_master()
        try:
            on_cluster.open()
            status, output = on_cluster.result()
        finally:
            for number in range(WORKERS):  # a worker that lost its master tries again for a long time
                world.cluster.kill_worker(number)
            world.cluster.start()
        assert status == 0, output
    assert digests(on_cluster.out) == world.expected


def test_after_a_killed_driver_and_a_lost_cluster_a_round_has_the_same_digests(world: World) -> None:
    """One folder for both: a round that follows what they left shows of both that nothing of it stays."""
    with Round(world, "killed-and-lost") as on_cluster:
        on_cluster.wait_at_the_gate()
        on_cluster.kill()
    published = digests(on_cluster.out)
    assert 0 < len(published) < len(datasets.ALL) and published.items() <= world.expected.items()
    on_cluster.close_gate()
    with Round(world, "killed-and-lost") as on_cluster:
        on_cluster.wait_at_the_gate()
        world.cluster.kill_master()
        for number in range(WORKERS):
            world.cluster.kill_worker(number)
        try:
            on_cluster.open()
            status, output = on_cluster.result()
        finally:
            world.cluster.start()
    assert status == 1
    assert f"no executor for {EXECUTOR_WAIT_S} s; look at the cluster's workers" in output
    assert "no master of Spark answers; start it, or correct spark.master: 127.0.0.1:" in output
    assert digests(on_cluster.out) == published
    with Round(world, "killed-and-lost") as on_cluster:
        assert on_cluster.result()[0] == 0, on_cluster.result()[1]
    assert digests(on_cluster.out) == world.expected
    assert not list(on_cluster.out.glob("*/.pending-*"))
