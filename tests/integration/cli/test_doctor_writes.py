"""`penstock doctor` beside real brokers that refuse to write: it finds why, and stores nothing itself."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from data_plane.contract.admin_pb2 import Binding
from local.layout import DataDirectory
from penstock.contract import limits
from tests.integration.bad_input.small_disk import Ballast, may_mount, small_disk
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.cli.test_doctor import examined, examined_until
from tests.integration.enforcement.test_access import Key

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.optional_peer,
    pytest.mark.skipif(not may_mount(), reason="needs root, to mount a small disk"),
]

SMALL = 1
"""The broker on the small disk."""
SOFT_BYTES = 2 * limits.MIB
SETTINGS = {
    "limits": {
        "journal_bytes": limits.MIB,
        "disk_soft_free_bytes": SOFT_BYTES,
        "disk_hard_free_bytes": 512 * limits.KIB,
        "ballast_bytes": 256 * limits.KIB,
    },
    "timings": {"revisit_ms": 100},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    path = tmp_path_factory.mktemp("cluster")
    disk = DataDirectory(path).log_directory(SMALL)
    with small_disk(disk, 24 * limits.MIB), brokers(path, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def show(cluster: Brokers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Makes a tenant's environment the doctor's."""

    def use(tenant: Tenant) -> None:
        for name in ("PROFILE", "API_URL", "CA_FILE"):
            monkeypatch.delenv(f"PENSTOCK_{name}", raising=False)
        monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "profiles.toml"))
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", ",".join(cluster.bootstrap))
        monkeypatch.setenv("PENSTOCK_API_KEY", tenant.api_key)

    yield use


def test_writes_that_are_taken_are_found_so_and_nothing_is_stored(
    cluster: Brokers, show: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = cluster.tenant("tn_well")
    show(tenant)
    examined_until(capsys, lambda found: found["writes"]["state"] == "skipped")
    cluster.create_topic(tenant, "orders", assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    cluster.wait_until("it is well", lambda: examined(capsys)[0] == 0)
    examined_until(capsys, lambda found: found["writes"]["fact"] == "taken by 3 brokers: 1, 2, 3")
    with cluster.client(tenant) as client, client.consumer(["orders"]) as consumer:
        assert set(consumer.end_offsets().values()) == {0}


def test_a_disk_without_room_is_found(
    cluster: Brokers, show: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = cluster.tenant("tn_full")
    topic_id = cluster.create_topic(tenant, "orders", assignments=[[SMALL, 2, 3]])
    cluster.wait_until("the small one leads", lambda: cluster.leader(topic_id) == SMALL)
    show(tenant)
    ballast = Ballast(cluster.directory.log_directory(SMALL))
    ballast.leave(SOFT_BYTES // 2)
    try:
        found = examined_until(capsys, lambda found: found["writes"]["code"] == "DISK_FULL")
        assert "orders-0: the disk has" in found["writes"]["fact"]
        assert "Free space" in found["writes"]["remedy"]
        cluster.wait_until("the command ends so", lambda: examined(capsys)[0] == 6)
    finally:
        ballast.drop()
    cluster.wait_until("it is well again", lambda: examined(capsys)[0] == 0)


def test_too_few_copies_in_sync_are_found(
    cluster: Brokers, show: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = cluster.tenant("tn_few")
    cluster.create_topic(tenant, "orders", assignments=[[2, 3, 1]], min_insync_replicas=3)
    show(tenant)
    cluster.wait_until("it is well", lambda: examined(capsys)[0] == 0)
    cluster.kill(3)
    try:
        found = examined_until(capsys, lambda found: found["writes"]["code"] == "NOT_ENOUGH_REPLICAS")
        assert "orders-0: 2 in sync, 3 required" in found["writes"]["fact"]
        cluster.wait_until("the command ends so", lambda: examined(capsys)[0] == 6)
    finally:
        cluster.start(3)


def test_a_suspended_tenant_is_found(cluster: Brokers, show: Any, capsys: pytest.CaptureFixture[str]) -> None:
    tenant = cluster.tenant("tn_suspended")
    cluster.create_topic(tenant, "orders")
    show(tenant)
    cluster.admin.wait_until_seen(cluster.admin.put_tenant(tenant.name, generation=2, suspended=True))
    code, found = examined(capsys)
    assert code == 4 and "is suspended" in found["key at the brokers"]["fact"]


def test_a_key_that_may_not_send_is_no_fault(
    cluster: Brokers, show: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = cluster.tenant("tn_reader")
    cluster.create_topic(tenant, "orders")
    key = Key(cluster, tenant)
    key.put(generation=1, bindings=[Binding(topic_prefix="", operations=("consume",))])
    show(key.holder)
    code, found = examined(capsys)
    assert (code, found["writes"]["state"]) == (0, "skipped")
    assert "may not send" in found["writes"]["fact"]


def test_brokers_that_stand_still_or_are_gone_are_named(
    cluster: Brokers, show: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = cluster.tenant("tn_named")
    show(tenant)
    _, found = examined(capsys)
    assert found["brokers"]["state"] == "ok" and found["brokers"]["fact"].startswith("3 of 3 answer: 1 in ")
    cluster.create_topic(tenant, "orders", assignments=[[1, 2, 3]])
    cluster.wait_until("it is well", lambda: examined(capsys)[0] == 0)
    with cluster.paused(3):
        found = examined_until(capsys, lambda found: "broker 3 at " in found["brokers"]["fact"])
        assert found["brokers"]["state"] == "doubtful"
        assert "does not answer" in found["brokers"]["fact"] and "paused" in found["brokers"]["remedy"]
    cluster.wait_until("it is well again", lambda: examined(capsys)[0] == 0)
    cluster.kill(3)
    try:
        found = examined_until(capsys, lambda found: "broker 3 is down" in found["brokers"]["fact"])
        assert found["brokers"]["state"] == "doubtful"
        assert "1 partition of yours lack a copy: orders-0" in found["brokers"]["fact"]
        with cluster.paused(2):
            code, found = examined(capsys)
            assert (code, found["brokers"]["state"]) == (6, "wrong")
    finally:
        cluster.start(3)


def test_slow_measures_each_stage(cluster: Brokers, show: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A machine under load may find a stage slow: each is there, with a number."""
    tenant = cluster.tenant("tn_slow")
    cluster.create_topic(tenant, "orders", assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    show(tenant)
    examined_until(capsys, lambda found: found["writes"]["state"] == "ok")
    _, found = examined(capsys, "--slow")
    assert re.search(r"\d+ ms", found["calls"]["fact"])
    assert re.search(r"broker \w* ?\d .*\d+ ms", found["queues"]["fact"])
    assert found["followers"]["fact"] == "all copies are in sync"
    assert found["limits met"]["state"] == "skipped", "without a control plane"
    with cluster.client(tenant) as client, client.consumer("orders") as consumer:
        assert set(consumer.end_offsets().values()) == {0}
