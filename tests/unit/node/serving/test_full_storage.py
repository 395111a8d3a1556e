"""What a produce stream of a tenant whose storage is full takes all the same, and in which order it goes on."""

import asyncio
from dataclasses import replace

from data_plane.metadata.model import Binding
from data_plane.node.replicas.replica import Replica
from data_plane.storage_limits.standing import RETRY_MS, StorageRefusal
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameKind, pack_frame
from penstock.contract.ids import TopicPartition
from penstock.contract.v1 import log_pb2 as pb
from penstock.rules.access import SERVICE
from penstock.rules.names import AUDIT_TOPIC
from tests.unit.authz.setup import ACME
from tests.unit.log.batches import made_batch
from tests.unit.node.replicas.test_follower_stream import led

from .test_produce_stream import Slow, stream_of

FULL = StorageRefusal(limit="storage_bytes_max", text="full")


class Leading(Slow):
    """A broker that leads one partition of the tenant, and hears whether the tenant is full."""

    def __init__(self, name: str = "orders") -> None:
        super().__init__()
        self.replica = led()
        self.replica.topic = replace(self.replica.topic, tenant=ACME, name=name)
        self.full: StorageRefusal | None = None
        self.stream = stream_of(self, storage=lambda: self.full)

    def find(self, where: TopicPartition) -> Replica | None:
        return self.replica if where == self.replica.where else None

    def sends(self, batch: bytes) -> ErrorCode | None:
        """How the batch is refused; None: it is not, and waits for other copies."""
        head, where = pb.ProduceHead(acks=-1), self.replica.where
        head.batches.add(
            id=1, topic_id=where.topic_id, partition=where.partition, size=len(batch), leader_epoch=1
        )
        frame = pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [batch])
        asyncio.run(self.stream._take(frame))
        results, self.stream._results = self.stream._results, []
        return ErrorCode(results[0].error) if results else None

    @property
    def end(self) -> int:
        return self.replica.log.log_end_offset


def numbered(sequence: int) -> bytes:
    return made_batch(2, 40, producer_id=9, epoch=0, sequence=sequence)


def test_a_full_tenants_audit_topic_is_still_written() -> None:
    assert Leading().replica.topic.metered
    broker = Leading(AUDIT_TOPIC)
    own = Binding(topic_prefix=AUDIT_TOPIC, operations=("produce",), resource="topic", literal=True)
    broker.tenants.change_key(1, bindings=(own,), owner=SERVICE)
    broker.full = FULL
    assert broker.sends(made_batch()) is None


def test_what_is_in_the_log_already_is_answered_and_not_refused_while_the_tenant_is_full() -> None:
    broker = Leading()
    assert broker.sends(numbered(0)) is None
    broker.full = FULL
    assert broker.sends(numbered(2)) == ErrorCode.THROTTLED
    end = broker.end
    assert broker.sends(numbered(0)) is None
    assert broker.end == end, "it is a repeated one"


def test_a_batch_out_of_its_sequence_waits_like_the_one_before_it() -> None:
    broker = Leading()
    broker.full = FULL
    assert broker.sends(numbered(0)) == ErrorCode.THROTTLED
    assert broker.sends(numbered(2)) == ErrorCode.THROTTLED
    broker.full = None
    assert broker.sends(numbered(0)) is None, "the numbers keep the order, so nothing waits"
    assert broker.sends(numbered(2)) is None


def test_what_has_no_number_does_not_overtake_the_batch_that_was_refused_before_it() -> None:
    broker = Leading()
    broker.full = FULL
    assert broker.sends(made_batch()) == ErrorCode.THROTTLED
    broker.full = None
    broker.passed_ms += RETRY_MS - 1
    assert broker.sends(made_batch()) == ErrorCode.THROTTLED
    broker.passed_ms += 1
    assert broker.sends(made_batch()) is None
    assert broker.sends(made_batch()) is None


def test_a_broker_that_no_longer_leads_says_so_also_of_a_full_tenant() -> None:
    broker = Leading()
    broker.full = FULL
    broker.replica.leading = None
    assert broker.sends(made_batch()) == ErrorCode.NOT_LEADER
