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
from spark_usage.manifest import Catalog
from spark_usage.rounds import fold
from tests.integration.operations.certificates import make_certificate
from tests.spark_usage.service import PROJECT, Service, service
from tests.spark_usage.standalone import QUICK_JAVA, WORKERS, standalone
from tests.spark_usage.test_metered_brokers import cut_now, wait_until_calls_are_counted
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.drawn(shares=3, family="histories of usage"),
]
EXECUTOR_WAIT_S = 5
Digests = dict[str, tuple[str, str]]
"""Data set -> (run id, digest)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One folder of data sets on one cluster: bronze read from real brokers over TLS; a round in whose middle the whole
    cluster was lost; one in whose middle a worker and the master were. (Killed drivers: `test_killed_rounds.py`.)
    """

    events: Path
    expected: Digests
    """Of what one machine makes of the same bronze."""
    one_machine: Path
    at_the_gate: Digests
    """What the first round had published when it stood still."""
    command_lines: set[str]
    """Of driver and executors meanwhile."""
    api_key: str
    lost_status: int
    lost_output: str
    after_the_loss: Digests
    last_status: int
    last_output: str
    last: Digests
    pending: list[Path]
    """What is left unpublished at the end."""


def digests(folder: Path) -> Digests:
    """Of the current runs."""
    catalog = Catalog(folder)
    current = {dataset.name: catalog.current(dataset.name) for dataset in datasets.ALL}
    return {name: (run["run_id"], run["digest"]) for name, run in current.items() if run is not None}


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

    def __init__(self, folder: Path, config_file: Path, name: str) -> None:
        self.out = folder / "on-a-cluster"
        self._gate = folder / f"{name}.gate"
        self._gate.mkdir()
        self._output = folder / f"{name}.output"
        self._process = start(
            ["tests.spark_usage.gated_round", str(config_file), str(self.out), str(self._gate)], self._output
        )

    def command_lines(self) -> set[str]:
        """Of the driver, Python and Java."""
        return {_command_line(process) for process in _family(self._process.pid)}

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

    def result(self) -> tuple[int, str]:
        """Exit status and output."""
        return self._process.wait(PATIENCE_S), self._output.read_text()


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("story")
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
            with Round(folder, running.config_file, "lost") as first:
                first.wait_at_the_gate()
                command_lines = {*cluster.command_lines(), *first.command_lines()}
                at_the_gate = digests(first.out)
                cluster.kill_master()
                for number in range(WORKERS):
                    cluster.kill_worker(number)
                first.open()
                lost_status, lost_output = first.result()
            after_the_loss = digests(first.out)

        cluster.start()
        with Round(folder, running.config_file, "last") as second:
            waiting = second.wait_at_the_gate()
            cluster.kill_worker(next(one for one in range(WORKERS) if cluster.has(one, waiting[0])))
            cluster.kill_master()
            second.open()
            last_status, last_output = second.result()
    here = running.configuration.datasets
    one_machine = folder / "one-machine"
    rows, ends = bronze.read(spark, here), bronze.committed_offsets(here)
    fold(spark, one_machine, rows=rows, offsets=ends)
    yield Story(
        events=events,
        expected=digests(one_machine),
        one_machine=one_machine,
        at_the_gate=at_the_gate,
        command_lines=command_lines,
        api_key=running.api_key,
        lost_status=lost_status,
        lost_output=lost_output,
        after_the_loss=after_the_loss,
        last_status=last_status,
        last_output=last_output,
        last=digests(second.out),
        pending=list(second.out.glob("*/.pending-*")),
    )


def test_a_cluster_publishes_the_digests_of_one_machine_whatever_it_lost_meanwhile(story: Story) -> None:
    assert story.last_status == 0, story.last_output
    assert "tried once more" not in story.last_output, "Spark computed what was lost; no round was repeated"
    assert len(story.expected) == len(datasets.ALL)
    assert story.last == story.expected and story.pending == []
    catalog = Catalog(story.one_machine)
    rows = {name: manifest["rows"] for name in story.expected if (manifest := catalog.current(name))}
    assert rows["cut_usage"] >= 6 and rows["usage_hour"] >= 6 and rows["chain"] > 0, (
        "there was something to count"
    )


def test_the_usage_key_is_in_no_event_log_and_on_no_command_line(story: Story) -> None:
    logs = [file.read_text() for file in story.events.rglob("*") if file.is_file()]
    assert any("SparkListenerApplicationEnd" in log for log in logs)
    assert not any(story.api_key in log for log in logs)
    assert any("CoarseGrainedExecutorBackend" in line for line in story.command_lines)
    assert any("SparkSubmit" in line for line in story.command_lines)
    assert not any(story.api_key in line for line in story.command_lines)


def test_what_a_round_had_published_before_its_cluster_was_lost_is_right(story: Story) -> None:
    assert 0 < len(story.at_the_gate) < len(datasets.ALL)
    assert story.at_the_gate.items() <= story.expected.items()


def test_a_round_whose_cluster_is_lost_says_so_and_publishes_nothing_more(story: Story) -> None:
    assert story.lost_status == 1
    assert f"no executor for {EXECUTOR_WAIT_S} s; look at the cluster's workers" in story.lost_output
    assert "no master of Spark answers; start it, or correct spark.master: 127.0.0.1:" in story.lost_output
    assert story.after_the_loss == story.at_the_gate
