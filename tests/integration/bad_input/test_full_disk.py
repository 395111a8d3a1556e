"""A broker whose disk is full refuses to write, says why, leaves what others can do, and recovers with the room."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from chaos.replica_files import differences, stored_batches
from local.layout import DataDirectory
from penstock import DeliveryTimeout, DiskFull, TimedOut
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicId, TopicPartition
from tests.integration.bad_input.small_disk import Ballast, may_mount, small_disk
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.bystander import Bystander
from tests.integration.raw_wire import ProduceWire, batch_of
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.processes,
    pytest.mark.optional_peer,
    pytest.mark.skipif(not may_mount(), reason="needs root, to mount a small disk"),
]

DISK_BYTES = 24 * limits.MIB
JOURNAL_BYTES = 1 * limits.MIB
SOFT_BYTES = 2 * limits.MIB
HARD_BYTES = 512 * limits.KIB
BALLAST_BYTES = 256 * limits.KIB
SEGMENT_BYTES = 256 * limits.KIB
FULL = 1
"""The broker on the small disk."""
OTHER = 2
ASSIGNMENTS = [[FULL, 2, 3], [OTHER, FULL, 3]]
HERE, ELSEWHERE = 0, 1
"""The partition that the full broker leads, and the one that it follows."""
TOPIC = "filling"
NEEDED = "needed"
"""A topic of which the full broker leads the only partition, and which cannot be written without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """A cluster of which one broker is on a small disk."""

    cluster: Brokers
    tenant: Tenant
    topic_id: TopicId
    needed_id: TopicId
    ballast: Ballast
    bystander: Bystander

    def produce(self, partition: int, value: bytes) -> tuple[ErrorCode, str]:
        """One raw batch to the partition's leader."""
        return self._produce(self.topic_id, partition, value)

    def produce_needed(self, value: bytes) -> tuple[ErrorCode, str]:
        """The same, where nobody can do without the full broker."""
        return self._produce(self.needed_id, 0, value)

    def _produce(self, topic_id: TopicId, partition: int, value: bytes) -> tuple[ErrorCode, str]:
        leader = self.cluster.spec.broker(self.cluster.leader(topic_id, partition))
        with ProduceWire(leader.client_address, self.tenant.api_key) as wire:
            result = wire.produce(topic_id, partition, batch_of(value))
        return ErrorCode(result.error), result.message

    def without_the_full_broker(self) -> bool:
        """Whether it has left both partitions of the topic, as leader and as replica in sync."""
        return all(FULL not in (p.leader, *p.in_sync) for p in self.cluster.partitions(self.topic_id))

    def refused(self) -> bool:
        return self.produce(HERE, b"x")[0] is ErrorCode.DISK_FULL

    def values(self, partition: int) -> list[bytes | None]:
        """Everything that a new consumer reads."""
        with self.cluster.client(self.tenant) as client, client.consumer() as consumer:
            consumer.assign([(TOPIC, partition)])
            end = consumer.end_offsets()[TOPIC, partition]
            read: list[bytes | None] = []
            while consumer.position(TOPIC, partition) < end:
                read += [message.value for message in consumer.poll(timeout=5)]
            return read

    def replicas_are_equal(self) -> None:
        """Byte for byte, up to the watermark."""
        for partition in (HERE, ELSEWHERE):
            where = TopicPartition(self.topic_id, partition)
            end = len(self.values(partition))
            stored = {
                n: stored_batches(self.cluster.directory.log_directory(n), where, end) for n in (1, 2, 3)
            }
            assert {batches[-1].end_offset if batches else 0 for batches in stored.values()} == {end}
            assert differences(stored) == []


@pytest.fixture
def filling(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Filling]:
    path = tmp_path_factory.mktemp("cluster")
    settings = {
        "limits": {
            "journal_bytes": JOURNAL_BYTES,
            "disk_soft_free_bytes": request.param,
            "disk_hard_free_bytes": HARD_BYTES if request.param > 1 else 1,
            "ballast_bytes": BALLAST_BYTES if request.param > 1 else DISK_BYTES,  # more than ever fits
        },
        "timings": {"revisit_ms": 100, "replica_lag_ms_max": 600_000, "retention_check_ms": 3_600_000},
    }
    log_directory = DataDirectory(path).log_directory(FULL)
    with small_disk(log_directory, DISK_BYTES), brokers(path, settings=settings) as cluster:
        tenant = cluster.tenant("tn_filling")
        topic_id = cluster.create_topic(tenant, TOPIC, assignments=ASSIGNMENTS)
        needed_id = cluster.create_topic(tenant, NEEDED, assignments=[[FULL, 2, 3]], min_insync_replicas=3)
        cluster.wait_until(
            "the first of each assignment leads",
            lambda: cluster.leader(topic_id, HERE) == cluster.leader(needed_id) == FULL,
        )
        with Bystander(cluster) as bystander:
            yield Filling(
                cluster=cluster,
                tenant=tenant,
                topic_id=topic_id,
                needed_id=needed_id,
                ballast=Ballast(log_directory),
                bystander=bystander,
            )


@pytest.mark.parametrize("filling", [SOFT_BYTES], indirect=True)
def test_a_broker_with_little_room_refuses_to_write_and_all_else_goes_on(filling: Filling) -> None:
    cluster = filling.cluster
    with cluster.client(filling.tenant) as client:
        producer = client.producer(linger_ms=0)
        producer.send(TOPIC, b"before", partition=HERE).result(PATIENCE_S)
        filling.ballast.leave(SOFT_BYTES // 2)
        cluster.wait_until("writes are refused", filling.refused)
        code, message = filling.produce(HERE, b"x")
        assert code == ErrorCode.DISK_FULL
        assert message.startswith("filling-0: the disk has ")
        assert message.endswith(f" bytes free, {SOFT_BYTES} required for writes")
        hasty = client.producer(linger_ms=0, delivery_timeout_ms=1_000)
        told: list[BaseException | None] = []

        def says_why() -> bool:
            # On a busy machine its second may pass before a broker has answered.
            told.append(hasty.send(TOPIC, b"in vain", partition=HERE).exception(PATIENCE_S))
            assert isinstance(told[-1], (DiskFull, TimedOut, DeliveryTimeout))
            assert told[-1].message.startswith("filling-0: ")
            return re.search(r"the disk has \d+ bytes free", told[-1].message) is not None

        cluster.wait_until("the error says why", says_why)
        kept = producer.send(TOPIC, b"kept", partition=HERE)
        producer.send(TOPIC, b"elsewhere", partition=ELSEWHERE).result(PATIENCE_S)
        assert filling.values(HERE)[:1] == [b"before"]
        assert filling.values(ELSEWHERE) == [b"elsewhere"]
        assert not kept.done()
        filling.ballast.drop()
        kept.result(PATIENCE_S)
    assert filling.values(HERE)[-1] == b"kept"
    assert b"in vain" not in filling.values(HERE)
    filling.bystander.check()
    filling.replicas_are_equal()


@pytest.mark.slow
@pytest.mark.parametrize("filling", [SOFT_BYTES], indirect=True)
def test_due_retention_makes_room_first_then_nothing_is_written_at_all_and_a_ballast_lets_it_start(
    filling: Filling,
) -> None:
    cluster = filling.cluster
    kept = cluster.create_topic(
        filling.tenant,
        "due",
        assignments=[[FULL, 2, 3]],
        segment_bytes=SEGMENT_BYTES,
        retention_bytes=SEGMENT_BYTES,
    )
    cluster.wait_until("it is led by the small broker", lambda: cluster.leader(kept) == FULL)
    with cluster.client(filling.tenant) as client:
        with client.producer(linger_ms=0, compression="none") as producer:
            for _ in range(40):
                producer.send("due", bytes(100_000)).result(PATIENCE_S)
        with client.consumer(["due"]) as consumer:
            assert consumer.beginning_offsets() == {("due", 0): 0}, "nobody looks at retention for an hour"
            filling.ballast.leave(SOFT_BYTES // 2)
            cluster.wait_until("what is due made room", lambda: consumer.beginning_offsets()["due", 0] > 20)
    assert filling.produce(HERE, b"into the room") == (ErrorCode.OK, "")
    ballast = cluster.directory.log_directory(FULL) / "ballast"
    cluster.wait_until(
        "the ballast is laid", lambda: ballast.exists() and ballast.stat().st_size == BALLAST_BYTES
    )

    filling.ballast.leave(HARD_BYTES // 2)
    cluster.wait_until("nothing is written", lambda: cluster.metric(FULL, "penstock_disk_read_only") == 1)
    code, message = filling.produce_needed(b"x")
    assert code == ErrorCode.DISK_FULL and message.startswith("needed-0: the disk has ")
    cluster.wait_until(
        "an operator is told", lambda: '"disk": "the disk has' in cluster.http(FULL, "/readyz")[1]
    )
    assert filling.values(HERE) == [b"into the room"]
    cluster.wait_until("the others do without it", filling.without_the_full_broker)
    assert filling.produce(ELSEWHERE, b"elsewhere")[0] is ErrorCode.OK
    assert filling.produce(HERE, b"led by another")[0] is ErrorCode.OK

    cluster.kill(FULL)
    filling.ballast.leave(0)
    assert ballast.exists()
    cluster.start(FULL)
    assert not ballast.exists(), "recovery was given its room"
    filling.ballast.drop()
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(filling.topic_id))
    cluster.wait_until("the ballast is laid again", ballast.exists)
    assert filling.produce(HERE, b"after")[0] is ErrorCode.OK
    filling.bystander.check()


@pytest.mark.slow
@pytest.mark.parametrize("filling", [1], indirect=True)
def test_a_broker_without_any_room_loses_nothing_serves_reads_and_comes_back_into_sync(
    filling: Filling,
) -> None:
    cluster = filling.cluster
    large = bytes(100_000)
    pids = cluster.pids()
    with cluster.client(filling.tenant) as client:
        producer = client.producer(linger_ms=0, compression="none")
        for partition in (HERE, ELSEWHERE):
            producer.send(TOPIC, b"before", partition=partition).result(PATIENCE_S)
        filling.ballast.leave(16 * limits.KIB)
        code, message = filling.produce_needed(large)
        assert code == ErrorCode.DISK_FULL
        assert message.startswith("needed-0: ")
        assert message.endswith("nothing was written, free space required")
        kept = producer.send(NEEDED, large)
        for partition in (HERE, ELSEWHERE) * 5:
            producer.send(TOPIC, large, partition=partition).result(PATIENCE_S)
        assert filling.without_the_full_broker()
        assert len(filling.values(HERE)) == len(filling.values(ELSEWHERE)) == 6
        assert not kept.done()
        filling.ballast.drop()
        kept.result(PATIENCE_S)
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(filling.topic_id))
    filling.bystander.check()
    assert cluster.pids() == pids
    filling.replicas_are_equal()


@pytest.mark.slow
@pytest.mark.parametrize("filling", [1], indirect=True)
def test_what_has_no_room_in_the_journal_is_acknowledged_when_there_is_room_again(filling: Filling) -> None:
    """The segment still takes the batch, and the journal's next file does not."""
    cluster = filling.cluster
    large = bytes(100_000)
    pids = cluster.pids()
    with cluster.client(filling.tenant) as client:
        producer = client.producer(linger_ms=0, compression="none")
        for _ in range(JOURNAL_BYTES // len(large)):
            producer.send(NEEDED, large).result(PATIENCE_S)
        filling.ballast.leave(len(large) * 3 // 2)
        waiting = producer.send(NEEDED, large)
        cluster.wait_until(
            "the journal lacks room", lambda: cluster.metric(FULL, "penstock_no_room_total") > 0
        )
        for partition in (HERE, ELSEWHERE):
            producer.send(TOPIC, large, partition=partition).result(PATIENCE_S)
        assert filling.without_the_full_broker() and not waiting.done()
        filling.ballast.drop()
        assert waiting.result(PATIENCE_S).offset == JOURNAL_BYTES // len(large)
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(filling.topic_id))
    filling.bystander.check()
    assert cluster.pids() == pids
    filling.replicas_are_equal()


@pytest.mark.slow
@pytest.mark.parametrize("filling", [SOFT_BYTES], indirect=True)
def test_a_broker_starts_and_stops_on_a_full_disk(filling: Filling) -> None:
    cluster = filling.cluster
    assert filling.produce(HERE, b"before")[0] is ErrorCode.OK
    filling.ballast.leave(0)
    cluster.kill(FULL)
    cluster.start(FULL)
    cluster.wait_until("it is back", lambda: "the disk has" in cluster.http(FULL, "/readyz")[1])
    cluster.wait_until("the others do without it", filling.without_the_full_broker)
    assert filling.values(HERE)[:1] == [b"before"]
    assert filling.produce(HERE, b"without it")[0] is ErrorCode.OK
    cluster.stop(FULL)
    assert cluster.status(FULL) == 0
    filling.ballast.drop()
    cluster.start(FULL)
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(filling.topic_id))
    assert filling.produce(HERE, b"after")[0] is ErrorCode.OK
    filling.bystander.check()
    filling.replicas_are_equal()
