"""The command line against real brokers: a cluster is started, used, hurt, healed and stopped, all by commands."""

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

import pytest

from data_plane.placement.planner import BrokerView, plan
from local import cores, guardian, processes, supervision
from local.layout import DataDirectory
from local.profile import read_api_key
from local.provisioning import admin_of
from penstock.build import CORES
from penstock.contract.topic_settings import TopicSettings
from tests.integration.installed import ROOT
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PENSTOCK = Path(sys.executable).with_name("penstock")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document that it printed."""
        return json.loads(self.out)


class CommandLine:
    """Runs commands as a person with a home folder and a cluster's data directory."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "cluster"
        self.environment = {
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "HOME": str(home),
            "PENSTOCK_DEV_DATA": str(self.data),
            "PYTHONPATH": str(ROOT),
            **cores.inherited(),
            **guardian.mark(),
        }

    def try_to(self, *arguments: str, stdin: bytes | None = None) -> Ended:
        """Run a command, whatever comes of it."""
        ran = subprocess.run(
            [str(PENSTOCK), *arguments],
            cwd=self.home,
            env=self.environment,
            input=b"" if stdin is None else stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        ended = Ended(ran.returncode, ran.stdout.decode(), ran.stderr.decode())
        assert "Traceback" not in ended.err, ended.err
        return ended

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> Ended:
        """Run a command that must succeed."""
        ended = self.try_to(*arguments, stdin=stdin)
        assert ended.code == 0, f"penstock {' '.join(arguments)}: {ended.code}\n{ended.out}{ended.err}"
        return ended

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            [str(PENSTOCK), *arguments],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def create_topic(self, name: str, partitions: int = 1, **settings: Any) -> None:
        """What a control plane would do for the cluster's tenant."""
        directory = DataDirectory(self.data)
        spec = directory.load()
        wanted = TopicSettings(replication=spec.replication, min_insync_replicas=spec.min_insync, **settings)
        with admin_of(directory) as admin:
            brokers: list[BrokerView] = []

            def enough() -> bool:
                # One that a busy machine held up may be suspected for a moment.
                brokers[:] = [BrokerView(id=b.id, state=b.state) for b in admin.describe_cluster().brokers]
                return sum(broker.state == "active" for broker in brokers) >= spec.replication

            wait_until("enough brokers are active", enough)
            assignments = plan(partitions, spec.replication, brokers)
            admin.wait_until_seen(admin.create_topic(spec.tenant, name, wanted, assignments).outcome)

    def broker_processes(self) -> list[int]:
        """Process ids of the cluster's brokers that are there."""
        directory = DataDirectory(self.data)
        found = [processes.find(directory.config_file(number)) for number in range(1, 6)]
        return [process.pid for process in found if process is not None]


@pytest.fixture
def penstock(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path)
    yield command_line
    command_line.try_to("dev", "down", "--timeout", "5")
    assert command_line.broker_processes() == []


def wait_up(staying: subprocess.Popen[bytes]) -> None:
    """Until a foreground `dev up` says that everything runs."""
    assert staying.stderr is not None
    while not (line := staying.stderr.readline()).startswith(b"Ctrl-C stops everything."):
        assert line, "dev up ended"


def values(ended: Ended) -> list[str]:
    return [json.loads(line)["value"] for line in ended.out.splitlines()]


def test_a_cluster_is_started_used_hurt_healed_and_stopped(penstock: CommandLine) -> None:
    up = penstock("dev", "up", "--bare", "--detach", "--json").json
    assert [broker["state"] for broker in up["brokers"]] == ["ready"] * 3
    pids = {broker["id"]: broker["pid"] for broker in up["brokers"]}
    assert {broker["cores"] for broker in up["brokers"]} == {CORES}
    again = penstock("dev", "up", "--bare", "--detach", "--json").json
    assert {broker["id"]: broker["pid"] for broker in again["brokers"]} == pids
    assert again["started"] == []

    penstock.create_topic("orders", 4, retention_ms=3_600_000)
    listed = penstock("topic", "list", "--json").json
    assert [topic["topic"] for topic in listed["topics"]] == ["orders"]

    receipts = penstock("produce", "orders", "one", "two", "--key", "anna", "--json").out.splitlines()
    assert [json.loads(receipt)["offset"] for receipt in receipts] == [0, 1]
    penstock("dev", "broker", "kill", "2")
    dead = {b["id"]: b for b in penstock("dev", "status", "--json").json["brokers"]}[2]
    assert (dead["state"], dead["pid"]) == ("down", None)
    lines = b"".join(b"k%d:line %d\n" % (n % 7, n) for n in range(500))
    summary = penstock("produce", "orders", "--key-separator", ":", "--json", stdin=lines).json
    assert (summary["acknowledged"], summary["not_applied"], summary["unknown"]) == (500, 0, 0)
    started = penstock("dev", "broker", "start", "2", "--json").json
    assert started["state"] == "ready" and started["pid"] not in (None, pids[2])

    read = values(penstock("consume", "orders", "--json"))
    assert sorted(read) == sorted(["one", "two", *(f"line {n}" for n in range(500))])
    described = penstock("topic", "describe", "orders", "--offsets", "--json").json
    assert sum(p["next_offset"] - p["first_offset"] for p in described["partitions"]) == 502

    plain = [line.split("\t") for line in penstock("topic", "describe", "orders").out.splitlines()]
    assert plain[0] == ["topic", "orders", described["topic_id"]]
    assert {row[0] for row in plain[1:]} == {"setting", "survives", "partition"}
    assert {len(row) for row in plain if row[0] == "partition"} == {1 + len(described["partitions"][0]) - 2}
    assert penstock.try_to("topic", "describe", "nowhere").code == 3
    assert penstock.try_to("topic", "create", "more", "--partitions", "1").code == 5
    penstock("dev", "broker", "stop", "3")
    assert len(penstock.broker_processes()) == 2
    down = penstock("dev", "down", "--json").json
    assert (down["running"], down["killed"]) == (False, [])
    assert penstock.broker_processes() == []
    status = penstock("dev", "status", "--json").json
    assert status["running"] is False
    assert {broker["cores"] for broker in status["brokers"]} == {None}
    assert status["profile"] == "dev"


def test_messages_and_the_key_survive_a_stop_of_everything(penstock: CommandLine) -> None:
    penstock("dev", "up", "--bare", "--brokers", "1", "--detach")
    penstock.create_topic("kept")
    penstock("produce", "kept", "grüße", "--header", "shop=north")
    key = read_api_key(DataDirectory(penstock.data)) or ""
    penstock("dev", "down")
    refused = penstock.try_to("topic", "list", "--timeout", "1")
    assert refused.code == 6, refused
    penstock("dev", "up", "--bare", "--detach")
    (message,) = [json.loads(line) for line in penstock("consume", "kept", "--json").out.splitlines()]
    assert message["value"] == "grüße"
    assert message["headers"] == [{"name": "shop", "value": "north"}]
    penstock.environment["PENSTOCK_API_KEY"] = key
    assert penstock("consume", "kept", "--display", "values").out == "grüße\n"
    any_bytes = os.fsdecode(b"\xff\xfe")
    penstock("produce", "kept", any_bytes, "--key", any_bytes, "--header", f"shop={any_bytes}")
    *_, message = [json.loads(line) for line in penstock("consume", "kept", "--json").out.splitlines()]
    assert (message["key_hex"], message["value_hex"]) == ("fffe", "fffe")
    assert message["headers"] == [{"name": "shop", "value_hex": "fffe"}]
    penstock.environment["PYTHONIOENCODING"] = "ascii"
    assert penstock("consume", "kept", "--max", "1").out.endswith("\tgr\\xfc\\xdfe\tshop=north\n")
    assert values(penstock("consume", "kept", "--max", "1", "--json")) == ["grüße"]
    wrong = key[:-1] + ("a" if key[-1] != "a" else "b")
    penstock.environment["PENSTOCK_API_KEY"] = wrong
    denied = penstock.try_to("topic", "list")
    assert denied.code == 4, denied
    assert wrong not in denied.err


def test_one_broker_lowers_the_default_replication_and_says_so(penstock: CommandLine) -> None:
    up = penstock("dev", "up", "--bare", "--brokers", "1", "--detach")
    assert "1 broker: topics get replication 1 and min_insync 1 here" in up.err
    status = penstock("dev", "status", "--json").json
    assert (status["replication"], status["min_insync"]) == (1, 1)


def test_positions_of_reading_are_obeyed(penstock: CommandLine) -> None:
    penstock("dev", "up", "--bare", "--brokers", "1", "--detach")
    penstock.create_topic("t")
    penstock("produce", "t", "a", "b", "c")
    between = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    time.sleep(max(0.0, 1.1 - time.time() % 1))
    penstock("produce", "t", "d")
    assert values(penstock("consume", "t", "--from", "2", "--json")) == ["c", "d"]
    assert values(penstock("consume", "t", "--from", between, "--json")) == ["d"]
    assert values(penstock("consume", "t", "--from", "-1h", "--max", "2", "--json")) == ["a", "b"]
    assert penstock("consume", "t", "--from", "4").out == ""
    beyond = penstock.try_to("consume", "t", "--from", "9", "--timeout", "5")
    assert beyond.code == 5, beyond
    assert penstock.try_to("consume", "nowhere").code == 3
    assert penstock.try_to("produce", "nowhere", "x").code == 3


def test_following_shows_what_comes_and_ends_with_an_interrupt(penstock: CommandLine) -> None:
    penstock("dev", "up", "--bare", "--brokers", "1", "--detach")
    penstock.create_topic("t")
    penstock("produce", "t", "before")
    following = penstock.start("consume", "t", "--follow", "--display", "values")
    assert following.stdout is not None
    assert following.stdout.readline() == b"before\n"
    penstock("produce", "t", "after")
    assert following.stdout.readline() == b"after\n"
    following.send_signal(signal.SIGINT)
    _, errors = following.communicate(timeout=PATIENCE_S)
    assert (following.returncode, errors) == (0, b"")

    member = penstock.start("consume", "t", "--group", "readers", "--follow", "--display", "values")
    assert member.stdout is not None
    assert {member.stdout.readline() for _ in range(2)} == {b"before\n", b"after\n"}
    member.terminate()
    _, errors = member.communicate(timeout=PATIENCE_S)
    assert (member.returncode, errors) == (0, b""), "it commits what it showed, and leaves"
    described = penstock("group", "describe", "readers", "--json").json
    assert (described["state"], described["members"]) == ("empty", [])
    assert sum(partition["committed"] for partition in described["partitions"]) == 2


def test_a_foreground_cluster_stops_with_an_interrupt(penstock: CommandLine) -> None:
    staying = penstock.start("dev", "up", "--bare", "--brokers", "1")
    wait_up(staying)
    assert len(penstock.broker_processes()) == 1
    staying.send_signal(signal.SIGINT)
    staying.communicate(timeout=PATIENCE_S)
    assert staying.returncode == 0
    assert penstock.broker_processes() == []


def test_a_foreground_cluster_ends_with_its_command_even_when_that_is_killed(penstock: CommandLine) -> None:
    staying = penstock.start("dev", "up", "--bare", "--brokers", "1")
    wait_up(staying)
    assert len(penstock.broker_processes()) == 1
    staying.kill()
    staying.communicate(timeout=PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while penstock.broker_processes():
        assert time.monotonic() < deadline, "the broker is still there"
        time.sleep(0.05)


def test_what_ends_by_itself_is_started_again_and_what_a_command_killed_is_not(penstock: CommandLine) -> None:
    staying = penstock.start("dev", "up", "--bare", "--brokers", "2")
    wait_up(staying)
    first, second = penstock.broker_processes()
    penstock("dev", "broker", "kill", "2")
    os.kill(first, signal.SIGKILL)
    assert staying.stderr is not None
    assert staying.stderr.readline() == b"broker-1 has ended; it is started again in 1 s.\n"
    assert staying.stderr.readline() == b"broker-1 runs again.\n"
    (again,) = penstock.broker_processes()
    assert again not in (first, second)
    penstock("dev", "broker", "start", "2")
    assert len(penstock.broker_processes()) == 2
    penstock("dev", "down", "--timeout", "5")
    assert staying.wait(PATIENCE_S) == 0, "nothing is wanted any more"
    staying.communicate()


def test_a_detached_cluster_has_a_supervisor_that_ends_with_it(penstock: CommandLine) -> None:
    penstock("dev", "up", "--bare", "--brokers", "1", "--detach")
    directory = DataDirectory(penstock.data)
    assert penstock("dev", "status", "--json").json["supervised"] is True
    (pid,) = penstock.broker_processes()
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while penstock.broker_processes() in ([], [pid]):
        assert time.monotonic() < deadline, directory.supervisor_output_file.read_text()
        time.sleep(0.05)
    assert supervision.stop(directory), "its keeper would start one that was killed again"
    processes.kill(processes.find(directory.config_file(1)) or pytest.fail("the broker is gone"))
    assert (
        "Not running, though started: broker-1. `penstock dev up --detach`" in penstock("dev", "status").err
    )
    penstock("dev", "up", "--bare", "--detach")
    assert len(penstock.broker_processes()) == 1 and supervision.find(directory) is not None
    penstock("dev", "down", "--timeout", "5")
    assert penstock.broker_processes() == [] and supervision.find(directory) is None


def test_without_a_cluster_each_command_says_what_to_do(penstock: CommandLine) -> None:
    for arguments in (["dev", "status"], ["dev", "down"], ["dev", "broker", "kill", "1"]):
        refused = penstock.try_to(*arguments)
        assert refused.code == 3, arguments
        assert "penstock dev up" in refused.err
    assert not penstock.data.exists() or not any(penstock.data.glob("cluster.json"))
