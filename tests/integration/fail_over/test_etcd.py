"""Three brokers on an etcd of three members: one member, its leader, and the majority are lost, and the majority for
good. What was acknowledged stays (RL55).

Each step prints how long no message was acknowledged, for the table "What fails over" of docs/reliability.md.
"""

import http.client
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from data_plane.broker import metadata
from local.free_ports import HOST
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicId
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.etcd_servers import EtcdNode, EtcdServers, control, etcd_servers
from tests.integration.fail_over.sending import TOPIC, Sending, check_everything_is_there
from tests.integration.metadata.test_brokers_on_etcd import seen
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.drawn(shares=3, family="services that lose processes"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    cluster: Brokers
    etcd: EtcdServers
    tenant: Tenant
    topic_id: TopicId


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with etcd_servers(3) as etcd:
        store = {"kind": "etcd", "endpoints": list(etcd.endpoints)}
        with brokers(tmp_path / "cluster", settings={"metadata": store}) as cluster:
            tenant = cluster.tenant("tn_kept")
            topic_id = cluster.create_topic(tenant, TOPIC)
            yield World(cluster=cluster, etcd=etcd, tenant=tenant, topic_id=topic_id)


def leader_of(etcd: EtcdServers) -> EtcdNode:
    """The member that leads the others."""
    leading: list[EtcdNode] = []

    def found() -> bool:
        # While they elect one, there is none.
        for node in etcd.nodes:
            if node.process is not None and node.process.poll() is None:
                (said,) = json.loads(control((node.endpoint,), "endpoint", "status", "-w", "json"))
                if said["Status"]["leader"] == said["Status"]["header"]["member_id"]:
                    leading[:] = [node]
        return bool(leading)

    wait_until("etcd has a leader", found)
    return leading[0]


def change(world: World, name: str) -> None:
    """A change of the metadata, which waits until the store takes one."""

    def made() -> bool:
        try:
            world.cluster.create_topic(world.tenant, name)
        except PenstockError:
            return False
        return True

    world.cluster.wait_until("the metadata can be changed", made)


def reason(port: int) -> str:
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/readyz")
        return str(json.loads(connection.getresponse().read())["reason"])
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()


def test_a_member_the_leader_and_the_majority_of_etcd_are_lost_and_come_back(world: World) -> None:
    etcd = world.etcd
    with Sending(world.cluster, world.tenant) as sending:
        sending.goes_on("all is well")
        leader = leader_of(etcd)
        member = next(node for node in etcd.nodes if node is not leader)
        member.kill()
        sending.goes_on("an etcd member killed")
        change(world, "after-a-member")
        etcd.start(member)
        etcd.wait_healthy([member])

        leader.kill()
        began = time.monotonic()
        change(world, "after-the-leader")
        print(f"the etcd leader killed: the metadata changed after {time.monotonic() - began:.1f} s")
        sending.goes_on("the etcd leader killed")
        etcd.start(leader)
        etcd.wait_healthy([leader])

        lost = [node for node in etcd.nodes if node is not member]
        for node in lost:
            node.kill()
        sending.stands_still()
        for node in lost:
            etcd.start(node)
        etcd.wait_healthy()
        began = time.monotonic()
        sending.goes_on("the etcd majority lost until it was started again")
        change(world, "after-the-majority")
        print(f"the etcd majority back: all well after {time.monotonic() - began:.1f} s")
    check_everything_is_there(world.cluster, world.tenant, sending.acknowledged)


def test_an_etcd_majority_lost_for_good_is_restored_from_a_snapshot(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, etcd = world.cluster, world.etcd
    backup = cluster.directory.path / "backup"
    with Sending(cluster, world.tenant) as sending:
        sending.goes_on("before the snapshot")
        control((etcd.nodes[0].endpoint,), "snapshot", "save", str(backup))
        change(world, "forgotten")
        sending.goes_on("after the snapshot")
        revision = cluster.admin.describe_cluster().revision
        cluster.wait_until(
            "all remember", lambda: all(seen(cluster, number) >= revision for number in cluster.ids)
        )
        for node in etcd.nodes:
            node.kill()
        sending.stands_still()
    members = ",".join(f"{node.name}=http://127.0.0.1:{node.peer_port}" for node in etcd.nodes)
    for node in etcd.nodes:
        data = node.folder / node.name
        shutil.rmtree(data)
        control(
            (node.endpoint,),
            *("snapshot", "restore", str(backup), "--data-dir", str(data), "--name", node.name),
            *("--initial-cluster", members),
            *("--initial-advertise-peer-urls", f"http://127.0.0.1:{node.peer_port}"),
        )
    for node in etcd.nodes:
        etcd.start(node)
    etcd.wait_healthy()
    cluster.wait_until(
        "brokers are read-only",
        lambda: all("went back" in reason(broker.http_port) for broker in cluster.spec.brokers),
    )
    check_everything_is_there(world.cluster, world.tenant, sending.acknowledged)

    began = time.monotonic()
    cluster.kill()
    file = str(cluster.directory.config_file(1))
    confirm = ["confirm", "--config", file, "--why", "the disks of two etcd members were lost"]
    cluster.wait_until("confirmed once the old sessions have ended", lambda: metadata.main(confirm) == 0)
    assert "start every broker" in capsys.readouterr().out
    cluster.start()
    cluster.wait_until("a leader", lambda: cluster.leader(world.topic_id) > 0)
    acknowledged = sending.acknowledged
    with Sending(cluster, world.tenant) as again:
        again.goes_on("after the restored snapshot was confirmed")
    check_everything_is_there(world.cluster, world.tenant, [*acknowledged, *again.acknowledged])
    with capsys.disabled():
        print(
            f"an etcd restored from a snapshot: confirmed and serving after {time.monotonic() - began:.1f} s"
        )
