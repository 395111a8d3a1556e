"""Two runners on one folder of data sets: the one that works is killed, the next one is paused and wakes up; every
record counts once, and what the earlier one still publishes counts no more. The one that is left is woken, ends at
SIGTERM with all of its processes, and is followed by one that needs no Spark.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from local.free_ports import HOST, free_port
from penstock.cli.exit_codes import ProcessEnd
from spark_usage.lease import DatabaseLease, Unavailable, hold_within
from spark_usage.manifest import Catalog
from tests.control_plane import configuration
from tests.integration.fail_over.database_pair import pair
from tests.spark_usage.service import PROJECT, Service, service
from tests.spark_usage.test_bronze import usage_values
from tests.spark_usage.test_runner import get, javas, members
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.drawn(shares=3, family="services that lose processes"),
]

_DATA_SET = "usage_hour"


@dataclass(slots=True)
class Runner:
    """One of the two, with a state folder of its own, as on a host of its own."""

    running: Service
    state: Path
    process: "subprocess.Popen[str]"

    def says(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.state / "runner.json").read_text())
        except FileNotFoundError:
            return {}
        return found if found["pid"] == self.process.pid else {}

    def wait_for(self, what: str, **wanted: Any) -> float:
        return wait_until(
            what,
            lambda: all(self.says().get(name) == value for name, value in wanted.items()),
            instead=lambda: f"{self.says()}\n{self.last_words()}",
        )

    def wait_for_records(self, count: int) -> float:
        return wait_until(
            f"a round over {count} records",
            lambda: self.says().get("round", {}).get("records", 0) >= count,
            instead=lambda: f"{self.says()}\n{self.last_words()}",
        )

    def last_words(self) -> str:
        return (self.state / "output").read_text(errors="backslashreplace")[-4000:]

    def signal(self, number: signal.Signals) -> None:
        """To Python and Java."""
        os.killpg(self.process.pid, number)


class Runners:
    """Starts them, and ends what is left of them. They begin a round when something is new or they are woken."""

    def __init__(self, running: Service, database_url: str) -> None:
        self._running = running
        self._started = list[Runner]()
        self._configure(database_url=database_url, pipeline_interval_s=600)

    def _configure(self, **changes: Any) -> None:
        values = json.loads(self._running.config_file.read_text())
        self._running.config_file.write_text(json.dumps(values | changes))

    def start(self, name: str, port: int = 0) -> Runner:
        """`port`: where it listens; 0 is any."""
        self._configure(runner_listen=f"{HOST}:{port}")
        state = self._running.config_file.parent / name
        state.mkdir(exist_ok=True)
        with (state / "output").open("ab") as output:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "penstock.cli", "server", "runner"),
                    *("--config", str(self._running.config_file)),
                ],
                cwd=PROJECT,
                env={**os.environ, "PENSTOCK_SERVER_STATE": str(state)},
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        started = Runner(self._running, state, process)
        self._started.append(started)
        return started

    def end(self) -> None:
        for runner in self._started:
            try:
                runner.signal(signal.SIGKILL)
            except ProcessLookupError:
                pass
            runner.process.wait(PATIENCE_S)


def make_table(folder: Path, database_url: str) -> None:
    """Of leases."""
    folder.mkdir()
    file = configuration.write(folder, database_url)
    subprocess.run(
        [sys.executable, "-m", "control_plane", "migrate", "processes", "-v0", "--skip-checks"],
        cwd=PROJECT,
        env={**os.environ, "PENSTOCK_CONFIG": str(file)},
        check=True,
        timeout=PATIENCE_S,
    )


@pytest.fixture
def runners(tmp_path: Path) -> Iterator[tuple[Service, Runners]]:
    with pair() as database, service(tmp_path) as running:
        make_table(tmp_path / "control", database.url)
        made = Runners(running, database.url)
        try:
            yield running, made
        finally:
            made.end()


def wake(datasets: Path) -> None:
    (datasets / "wake").touch()


def numbers(datasets: Path, dataset: str = _DATA_SET) -> list[int]:
    names = (file.stem for file in (datasets / dataset).glob("current-*.json"))
    return sorted(int(name.removeprefix("current-")) for name in names)


def records_that_count(datasets: Path) -> int:
    manifest = Catalog(datasets).current(_DATA_SET)
    assert manifest is not None
    return int(manifest["inputs"]["records"])


def test_of_two_runners_one_works_and_a_paused_or_killed_one_is_followed_by_the_other(
    runners: tuple[Service, Runners],
) -> None:
    running, made = runners
    datasets = running.configuration.datasets
    first = made.start("first")
    first.wait_for("the first one works", number=1, state="ready")
    second = made.start("second")
    second.wait_for("the second one waits", state="standby")
    first.signal(signal.SIGKILL)
    first.process.wait(PATIENCE_S)
    began = time.monotonic()
    running.write(usage_values(0, 15))

    # In the middle of publishing: what it has begun, it goes on with when it wakes up.
    wait_until(
        "it publishes",
        lambda: any((datasets / _DATA_SET).glob(".pending-2-*")),
        instead=second.last_words,
    )
    print(f"a runner killed: data sets went on after {time.monotonic() - began:.1f} s")
    second.signal(signal.SIGSTOP)
    began = time.monotonic()
    port = free_port(set())
    third = made.start("first", port)
    third.wait_for("it waits when it is started again", state="standby")
    assert numbers(datasets, "rejected") == [2], "one that waits publishes nothing"
    running.write(usage_values(15, 3))
    wake(datasets)
    third.wait_for_records(18)
    print(f"a runner paused: data sets went on after {time.monotonic() - began:.1f} s")
    assert third.says()["number"] == 3
    second.signal(signal.SIGCONT)
    assert second.process.wait(PATIENCE_S) == ProcessEnd.LEASE_LOST, second.last_words()
    assert max(numbers(datasets)) == 3 and records_that_count(datasets) == 18
    assert third.says()["round"]["missing"] == "" and third.says()["round"]["records"] == 18

    assert third.says()["state"] == "ready" and len(javas(third.process.pid)) == 1
    assert get(port, "/readyz")[0] == 200
    metrics = dict(line.split() for line in get(port, "/metrics")[1].splitlines() if line[0] != "#")
    said = third.says()
    assert float(metrics["penstock_runner_rounds_total"]) == said["rounds"] >= 1
    assert float(metrics["penstock_runner_number"]) == 3
    assert float(metrics["penstock_runner_last_success_seconds"]) == said["last_success_seconds"]

    running.write(usage_values(18, 6))
    wake(datasets)
    third.wait_for_records(24)
    done = third.says()["round"]
    current = Catalog(datasets).current("cut_coverage")
    assert current is not None and current["run_id"] == done["runs"]["cut_coverage"]

    third.process.send_signal(signal.SIGTERM)
    assert third.process.wait(PATIENCE_S) == 0, third.last_words()
    assert third.says()["state"] == "stopped"
    assert third.says()["bronze_files"] >= 2 and "failed_bronze_turns" not in third.says()
    assert '"message": "round"' in third.last_words()
    wait_until("all of its processes have ended", lambda: members(third.process.pid) == [])

    fourth = made.start("first")
    fourth.wait_for("the next one finds it at rest", number=4, state="ready")
    assert fourth.says()["round"] | {"seconds": 0} == done | {"seconds": 0}
    assert javas(fourth.process.pid) == [], "nothing is new, so Spark is not needed"
    running.write(usage_values(24, 3))
    wake(datasets)
    fourth.wait_for_records(27)
    (java,) = javas(fourth.process.pid)
    os.kill(java, signal.SIGKILL)
    assert fourth.process.wait(PATIENCE_S) == ProcessEnd.FAILED, "it is started again whole"
    wait_until("all of its processes have ended", lambda: members(fourth.process.pid) == [])


def test_a_lease_that_another_runner_had_meanwhile_is_not_held_and_a_restored_one_is_brought_up(
    tmp_path: Path,
) -> None:
    with pair() as database:
        make_table(tmp_path / "control", database.url)
        first, second = DatabaseLease(database.url, length_s=0.5), DatabaseLease(database.url)
        assert hold_within(first, 0.0) and first.number == 1
        assert hold_within(second, PATIENCE_S) and second.number == 2
        second.release()
        # It was paused all that time: what it publishes as number 1 counts no more.
        assert not first.hold() and not first.lasts

        third = DatabaseLease(database.url)
        assert third.hold() and third.number == 4
        with psycopg.connect(database.url, autocommit=True) as operator:
            operator.execute("DELETE FROM processes_lease")  # as an early backup has it
        with pytest.raises(Unavailable, match="another runner has taken the lease"):
            third.exceed(7)
        assert not third.hold(), "it is a lease of another time"
        fourth = DatabaseLease(database.url)
        assert fourth.hold() and fourth.number == 2
        fourth.exceed(4)
        assert fourth.hold() and fourth.number == 5
        for lease in (first, third, fourth):
            lease.release()
