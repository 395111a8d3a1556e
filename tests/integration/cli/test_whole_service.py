"""The whole service by commands alone: started, used over REST, hurt, healed and stopped."""

import contextlib
import errno
import json
import os
import signal
import socket
import sqlite3
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from benchmarks.load.__main__ import Target, load
from local import service_processes, supervision
from local.layout import DataDirectory
from local.service import DevService
from local.service_layout import ServiceDirectory
from penstock.contract.errors import Forbidden, NotFound
from penstock.profiles import PROFILE_FILE
from penstock.rest.client import RestClient
from tests.waiting import PATIENCE_S, wait_until

from .test_dev_cluster import CommandLine, Ended

pytestmark = [pytest.mark.processes, pytest.mark.slow]

NAMES = ["web", "worker", "runner", "prober"]


class Service(CommandLine):
    """The commands of one service."""

    @property
    def directory(self) -> ServiceDirectory:
        return ServiceDirectory(DataDirectory(self.data))

    def processes(self) -> dict[str, int]:
        """Process ids by name, of those that are there."""
        found = {
            process.name: service_processes.find(self.directory, process)
            for process in service_processes.PROCESSES
        }
        return {name: process.pid for name, process in found.items() if process is not None}

    def states(self) -> dict[str, str]:
        status = self("dev", "status", "--json").json
        return {process["name"]: process["state"] for process in status["processes"]}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Ended]]:
    """A service that runs, and what `dev up` said."""
    service = Service(tmp_path_factory.mktemp("service"))
    try:
        yield service, service("dev", "up", "--detach", "--pipeline-interval", "600")
    finally:
        service.try_to("dev", "down", "--timeout", "5")
        assert service.broker_processes() == [] and service.processes() == {}


@pytest.fixture
def penstock(up: tuple[Service, Ended]) -> Service:
    return up[0]


def test_every_process_is_listed_with_its_state_and_the_password_is_shown_once(
    up: tuple[Service, Ended],
) -> None:
    penstock, said = up
    account = json.loads(penstock.directory.account_file.read_text())
    assert account["password"] in said.err
    status = penstock("dev", "status", "--json").json
    assert [process["name"] for process in status["processes"]] == NAMES
    assert {process["state"] for process in status["processes"]} == {"ready"}
    assert {broker["state"] for broker in status["brokers"]} == {"ready"}
    assert status["tenant"] == account["tenant"].strip() and status["tenant"].startswith("tn_")
    assert status["running"] is True
    assert f"--token-file {status['operator_token_file']}" in said.err
    assert penstock.directory.account_file.stat().st_mode & 0o077 == 0
    again = penstock("dev", "up", "--detach")
    assert account["password"] not in again.err + again.out


def test_topics_are_created_altered_listed_and_deleted(penstock: Service) -> None:
    created = penstock("topic", "create", "orders", "--partitions", "3", "--retention-ms", "1h", "--json")
    assert created.json["delivered"] is True
    assert created.json["settings"]["retention_ms"] == 3_600_000
    assert penstock.try_to("topic", "create", "orders", "--partitions", "3").code == 5
    assert penstock.try_to("topic", "create", "a/b", "--partitions", "1").code == 5
    unknown = penstock.try_to("topic", "create", "t", "--partitions", "1", "--min-insync", "9", "--json")
    assert unknown.code == 5
    assert "min_insync_replicas" in json.loads(unknown.err)["error"]["message"]

    altered = penstock("topic", "alter", "orders", "--partitions", "4", "--retention-ms", "7200000", "--json")
    assert (altered.json["partitions"], altered.json["settings"]["retention_ms"]) == (4, 7_200_000)
    assert penstock.try_to("topic", "alter", "orders").code == 2
    assert penstock.try_to("topic", "alter", "orders", "--partitions", "2").code == 5
    listed = penstock("topic", "list", "--json").json["topics"]
    assert [(topic["topic"], topic["partitions"]) for topic in listed] == [("orders", 4)]

    penstock("produce", "orders", "one", "two", "--key", "anna")
    described = penstock("topic", "describe", "orders", "--offsets", "--json").json
    assert len(described["partitions"]) == 4 and described["delivered"] is True
    profile = tomllib.loads((penstock.home / ".config/penstock/profiles.toml").read_text())["dev"]
    with RestClient(profile["api_url"], profile["api_key"]) as rest:
        survives = rest.get("/v1/topics/orders")["survives"]
    assert described["survives"] == survives
    assert survives["text"] in penstock("topic", "describe", "orders").out
    assert sum(p["next_offset"] - p["first_offset"] for p in described["partitions"]) == 2
    penstock("topic", "delete", "orders", "--yes")
    assert penstock("topic", "list", "--json").json["topics"] == []
    assert penstock.try_to("topic", "delete", "orders", "--yes").code == 3


def test_a_key_is_shown_once_obeys_its_bounds_and_ends_when_it_is_revoked(penstock: Service) -> None:
    penstock("topic", "create", "shop.sales", "--partitions", "1")
    penstock("topic", "create", "private", "--partitions", "1")
    made = penstock("key", "create", "--name", "shop", "--topic-prefix", "shop.", "--json").json
    listed = {key["id"]: key for key in penstock("key", "list", "--json").json["keys"]}
    assert listed[made["id"]]["state"] == "valid"
    assert made["api_key"] not in penstock("key", "list", "--json").out

    mine = Service(penstock.home)
    mine.environment = {**penstock.environment, "PENSTOCK_API_KEY": made["api_key"]}
    mine("produce", "shop.sales", "sold")
    assert mine.try_to("produce", "private", "secret").code in (3, 4)
    penstock("key", "revoke", made["id"], "--yes")
    assert mine.try_to("produce", "shop.sales", "late").code == 4
    after = {key["id"]: key for key in penstock("key", "list", "--json").json["keys"]}
    assert after[made["id"]]["state"] == "revoked"
    assert penstock.try_to("key", "revoke", "key_none", "--yes").code == 3
    penstock("topic", "delete", "shop.sales", "--yes")
    penstock("topic", "delete", "private", "--yes")


def test_the_tenant_of_the_key_is_shown_with_its_limits(penstock: Service) -> None:
    shown = penstock("tenant", "show", "--json").json
    (tenant,) = shown["tenants"]
    assert tenant["id"] == penstock("dev", "status", "--json").json["tenant"]
    assert shown["quotas"]


def test_all_kinds_of_users_at_once_get_the_answers_that_they_expect(
    penstock: Service, tmp_path: Path
) -> None:
    profile = tomllib.loads((penstock.home / ".config/penstock/profiles.toml").read_text())["dev"]
    target = Target(api_url=profile["api_url"], bootstrap=tuple(profile["bootstrap"]))
    outcome = load(target, tmp_path, minutes=0.15)
    output = (tmp_path / "locust.log").read_text()
    assert outcome.problems == (), output
    assert outcome.acknowledged > 0, output
    # On a busy machine a sign-up alone takes that long.
    assert {"POST /v1/sign-up", "(SDK) produce", "(SDK) consume"} <= {row.name for row in outcome.rows}, (
        output
    )


def test_killed_processes_are_seen_and_started_again_and_brokers_serve_meanwhile(penstock: Service) -> None:
    penstock("topic", "create", "served", "--partitions", "1")
    before = penstock.processes()
    assert sorted(before) == sorted(NAMES)
    supervisor = supervision.find(DataDirectory(penstock.data))
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGSTOP)
    try:
        for name in ("web", "worker"):
            service_processes.end_session(before[name])
        assert {
            name: state for name, state in penstock.states().items() if name not in ("runner", "prober")
        } == {
            "web": "down",
            "worker": "down",
        }
        penstock("produce", "served", "without a control plane")
        assert penstock.try_to("topic", "create", "t", "--partitions", "1", "--timeout", "1").code == 6
    finally:
        os.kill(supervisor.pid, signal.SIGCONT)
    deadline = time.monotonic() + PATIENCE_S
    while set(penstock.states().values()) != {"ready"}:
        assert time.monotonic() < deadline, penstock.states()
        time.sleep(0.1)
    after = penstock.processes()
    assert sorted(after) == sorted(NAMES)
    assert after["web"] != before["web"] and after["runner"] == before["runner"]
    penstock("topic", "delete", "served", "--yes")


def test_the_prober_probes_in_the_services_own_tenant(penstock: Service) -> None:
    file = penstock.directory.path / "control.sqlite"

    def probed() -> bool:
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            found = database.execute(
                "SELECT DISTINCT operation FROM billing_probeminute WHERE prober = 'local' AND valid > bad"
            ).fetchall()
        return sorted(found) == [("fetch",), ("produce",)]

    wait_until("probes are written", probed)
    assert "probes" not in penstock("topic", "list").out, "no tenant sees its topic"


def test_a_paused_process_is_told_as_such(penstock: Service) -> None:
    pid = penstock.processes()["worker"]
    os.kill(pid, signal.SIGSTOP)
    try:
        assert penstock.states()["worker"] == "paused"
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until("it is ready again", lambda: penstock.states()["worker"] == "ready")


# The test does what a command does that ends and leaves processes behind.
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_up_waits_for_a_worker_that_is_just_ending_and_starts_it_again(
    penstock: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROFILE_FILE, str(penstock.home / ".config/penstock/profiles.toml"))
    directory = DataDirectory(penstock.data)
    supervision.stop(directory)
    worker = psutil.Process(penstock.processes()["worker"])
    held = next(child for child in worker.children() if child.name() == "pool")
    notes: list[str] = []

    def report(done: int, steps: int, note: str) -> None:
        if "worker" in note and not notes:
            notes.append(note)
            assert worker.is_running(), "it was there when the command began"
            held.resume()

    held.suspend()
    worker.terminate()
    try:
        DevService(directory).up(None, report)
    finally:
        supervision.leave_behind(directory)
    assert penstock.processes()["worker"] != worker.pid
    assert penstock.states()["worker"] == "ready"


def test_a_taken_port_is_named_with_who_holds_it_and_the_service_comes_back(penstock: Service) -> None:
    port = penstock.directory.load().web_port
    supervision.stop(DataDirectory(penstock.data))
    os.kill(penstock.processes()["web"], signal.SIGKILL)
    wait_until("its port is free", lambda: _is_free(port))
    with socket.create_server(("127.0.0.1", port)):
        refused = penstock.try_to("dev", "up", "--detach")
    assert refused.code != 0 and "This is a bug" not in refused.err
    assert f"web: 127.0.0.1:{port} is taken by process {os.getpid()} (" in refused.err
    assert "End the process that listens there" in refused.err
    penstock("dev", "up", "--detach")
    assert penstock.states()["web"] == "ready"


def _is_free(port: int) -> bool:
    """A killed process is in no list of processes a moment before the kernel closes what it listened on."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True


def test_the_operators_token_sees_the_cluster_and_the_tenants_key_does_not(penstock: Service) -> None:
    url = penstock("dev", "status", "--json").json["api_url"]
    profiles = tomllib.loads((penstock.home / ".config/penstock/profiles.toml").read_text())
    with RestClient(url, penstock.directory.operator_token_file.read_text().strip()) as rest:
        assert len(rest.get("/v1/cluster")["brokers"]) == 3
    with RestClient(url, profiles["dev"]["api_key"]) as rest, pytest.raises((Forbidden, NotFound)):
        rest.get("/v1/cluster")


def test_brokers_made_bare_do_not_become_a_service(tmp_path: Path) -> None:
    bare = Service(tmp_path)
    try:
        bare("dev", "up", "--bare", "--brokers", "1", "--detach")
        refused = bare.try_to("dev", "up", "--detach")
        assert refused.code == 5
        assert "was made with --bare" in refused.err and "--data" in refused.err
    finally:
        bare.try_to("dev", "down", "--timeout", "5")
    assert bare.broker_processes() == [] and bare.processes() == {}
