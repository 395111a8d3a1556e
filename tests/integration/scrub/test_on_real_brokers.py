"""Segments read back in running brokers: what was verified is told to the tenant, what is spoilt is fetched anew."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from data_plane.contract import admin_pb2 as admin_pb
from data_plane.contract.methods import TOPIC_DURABILITY
from penstock import Client, PartitionDurability
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicId, TopicPartition
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.raw_wire import call
from tests.integration.retention.logs import SEGMENT_BYTES, produce, read_all, replicas_are_equal, value_of
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

TIMINGS = {"scrub_delay_ms": 100, "scrub_compare_ms": 200, "scrub_period_ms": 1_500, "revisit_ms": 100}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("cluster"), settings={"timings": TIMINGS}) as running:
        yield running


@pytest.fixture(scope="module")
def tenant(cluster: Brokers) -> Tenant:
    return cluster.tenant("tn_scrubbed")


@pytest.fixture(scope="module")
def client(cluster: Brokers, tenant: Tenant) -> Iterator[Client]:
    with cluster.client(tenant) as client:
        yield client


def verified(cluster: Brokers, client: Client, topic: str, beyond: int) -> PartitionDurability:
    """What is told once all three replicas were read back beyond an offset."""
    told: list[PartitionDurability] = []

    def there() -> bool:
        told[:] = client.durability(topic)
        return told[0].verified_end_offset > beyond and told[0].replicas == 3

    cluster.wait_until(f"{topic} is verified beyond {beyond} on all replicas", there)
    return told[0]


def test_a_tenant_is_told_what_was_read_back_and_when(
    cluster: Brokers, tenant: Tenant, client: Client
) -> None:
    before_ms = int(time.time() * 1000)
    cluster.create_topic(tenant, "safe", segment_bytes=SEGMENT_BYTES)
    nothing = client.durability("safe")[0]
    assert (nothing.verified_end_offset, nothing.replicas, nothing.verified_ms) == (0, 0, None)
    produce(client, "safe", range(20))
    told = verified(cluster, client, "safe", 10)
    assert told.log_start_offset == 0 and 10 < told.verified_end_offset <= told.high_watermark == 20
    assert told.verified_ms is not None and before_ms <= told.verified_ms <= time.time() * 1000 + 1_000
    later = client.durability("safe")[0]
    cluster.wait_until(
        "it is read back again",
        lambda: (client.durability("safe")[0].verified_ms or 0) > (later.verified_ms or 0),
    )

    # While one copy was read back further than the others, fewer than three were read back as far.
    def partition_shown() -> dict[str, Any]:
        answer = json.loads(command(cluster, tenant, "--json", "topic", "durability", "safe"))
        return dict(answer["partitions"][0])

    def row_shown() -> list[str]:
        return command(cluster, tenant, "topic", "durability", "safe").splitlines()[0].split("\t")

    # Both are taken while three copies count: with a further copy, the end and the moment may be earlier ones.
    partition, row = dict[str, Any](), list[str]()

    def three_shown() -> bool:
        nonlocal partition
        partition = partition_shown()
        return bool(partition["verified_copies"] == 3)

    def three_in_row() -> bool:
        nonlocal row
        row = row_shown()
        return row[3] == "3"

    cluster.wait_until("three copies are shown", three_shown)
    cluster.wait_until("and in the row", three_in_row)
    assert partition["verified_to_offset"] >= told.verified_end_offset
    assert partition["verified_at"].endswith("+00:00")
    assert (partition["first_offset"], partition["next_offset"]) == (0, 20)
    assert (row[0], row[1], row[5]) == ("0", "0", "20")
    assert int(row[2]) >= partition["verified_to_offset"] and row[4] >= partition["verified_at"]


def command(cluster: Brokers, tenant: Tenant, *arguments: str) -> str:
    """What the command line prints to the tenant."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", *arguments],
        env={
            "PENSTOCK_BOOTSTRAP": ",".join(cluster.bootstrap),
            "PENSTOCK_API_KEY": tenant.api_key,
            "HOME": "/nowhere",
        },
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked_at(cluster: Brokers, broker: int, topic_id: TopicId) -> admin_pb.TopicDurabilityResponse:
    """What a broker tells the control plane."""
    request = admin_pb.TopicDurabilityRequest(topic_id=topic_id)
    address = cluster.spec.broker(broker).internal_address
    return call(address, TOPIC_DURABILITY, request, admin_pb.TopicDurabilityResponse, cluster.operator)


def test_every_broker_tells_the_control_plane_what_the_leaders_know(
    cluster: Brokers, tenant: Tenant, client: Client
) -> None:
    before_ms = int(time.time() * 1000)
    topic_id = cluster.create_topic(tenant, "asked", 2, segment_bytes=SEGMENT_BYTES)
    cluster.wait_until("it is led", lambda: all(p.leader > 0 for p in cluster.partitions(topic_id)))
    with client.producer(linger_ms=0, compression="none") as producer:
        for number in range(20):
            producer.send("asked", value_of(number), partition=0).result(PATIENCE_S)
    verified(cluster, client, "asked", 10)

    # A leader knows of fewer copies where a replica did not answer its last comparison. The moment is that of
    # the copy that was read back first, so it may be an earlier one when a further copy counts.
    def told_by(broker: int) -> bool:
        told = asked_at(cluster, broker, topic_id).partitions
        assert [(p.partition, p.error) for p in told] == [(0, 0), (1, 0)]
        assert 10 < told[0].verified_end_offset <= told[0].high_watermark == 20
        assert before_ms <= told[0].verified_ms <= time.time() * 1000 + 1_000
        assert (told[1].high_watermark, told[1].verified_ms) == (0, -1)
        return told[0].replicas == 3

    for broker in cluster.ids:
        cluster.wait_until(f"broker {broker} tells of three copies", partial(told_by, broker))
    unknown = asked_at(cluster, 1, TopicId(bytes(16)))
    assert unknown.outcome.error == ErrorCode.NOT_FOUND and not unknown.partitions


def spoil(cluster: Brokers, broker: int, topic_id: TopicId, at: int) -> Path:
    """Flip a byte of the first segment, below everything that a running broker keeps in memory."""
    directory = cluster.partition_directory(broker, TopicPartition(topic_id, 0))
    path = directory / f"{0:020d}.log"
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))
    return path


@pytest.mark.parametrize("role", ["follower", "leader"])
def test_a_spoilt_segment_is_found_kept_aside_and_fetched_anew(
    cluster: Brokers, tenant: Tenant, client: Client, role: str
) -> None:
    topic = f"spoilt-{role}"
    topic_id = cluster.create_topic(tenant, topic, segment_bytes=SEGMENT_BYTES)
    produce(client, topic, range(20))
    pids = cluster.pids()
    leader = cluster.leader(topic_id)
    victim = leader if role == "leader" else next(number for number in cluster.ids if number != leader)
    path = spoil(cluster, victim, topic_id, 1_500)
    aside = path.with_name(path.name + ".damaged")
    cluster.wait_until("the spoilt segment is set aside", aside.exists)
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
    produce(client, topic, range(20, 24))
    assert read_all(client, topic) == list(range(24))
    assert verified(cluster, client, topic, 10).replicas == 3
    replicas_are_equal(cluster, topic_id, 24)
    assert aside.stat().st_size > 1_500
    assert cluster.pids() == pids, "no broker has restarted"
    assert cluster.metric(victim, "penstock_scrub_damage_total") >= 1
    assert cluster.metric(victim, "penstock_damaged_files_bytes") >= aside.stat().st_size
