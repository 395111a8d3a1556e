"""Reads that prove an invoice: who may ask for what, how much is answered, and what it costs."""

import asyncio
from collections.abc import Iterator

import pytest

from data_plane.authz.access import Operation
from data_plane.node.integrity import proof_reads
from data_plane.node.integrity.proof_reads import READ_BYTES_MAX, ProofReads
from data_plane.node.ports import CallFailed
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.medium import Medium
from penstock.contract import errors
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import proof_pb2 as pb
from penstock.records.batch import BATCH_HEADER_BYTES
from penstock.records.seal import pack_seal
from penstock.records.stamp import STAMP_BYTES
from tests.unit.log.miniature import TOPIC
from tests.unit.node.replicas.uncommitted import COMMITTED, SEGMENT
from tests.unit.node.serving.test_committed_end import Broker, Gate

pytestmark = pytest.mark.pure  # the gate is a stand-in


class AskedGate(Gate):
    """Notes what is asked to be done."""

    def __init__(self) -> None:
        self.asked: list[Operation] = []

    def authorize(self, *asked: object) -> None:
        super().authorize(*asked)
        assert isinstance(asked[1], Operation)
        self.asked.append(asked[1])


class Proving(Broker):
    def __init__(self) -> None:
        super().__init__()
        self.gate = AskedGate()
        self.confident = True
        self.reads = ProofReads(self.gate, self.find, SimDisk(Medium()), self.clock, lambda: self.confident)

    def read(
        self, offset: int, *, headers_only: bool = False, end_offset: int = 0, bytes_max: int = 0
    ) -> pb.ReadStampedResponse:
        request = pb.ReadStampedRequest(
            topic_id=TOPIC, partition=0, offset=offset, end_offset=end_offset, bytes_max=bytes_max,
            headers_only=headers_only,
        )  # fmt: skip
        return pb.ReadStampedResponse.FromString(self.answer(self.reads.read_stamped, request))

    def seals(self, above_offset: int) -> pb.ReadSealsResponse:
        request = pb.ReadSealsRequest(topic_id=TOPIC, partition=0, above_offset=above_offset)
        return pb.ReadSealsResponse.FromString(self.answer(self.reads.read_seals, request))


@pytest.fixture
def proving() -> Iterator[Proving]:
    made = Proving()
    yield made
    made.loop.close()


def test_whole_batches_need_the_right_to_read_and_headers_the_right_to_verify(proving: Proving) -> None:
    whole = proving.read(0)
    headers = proving.read(0, headers_only=True)
    proving.seals(-1)
    assert proving.gate.asked == [Operation.CONSUME, Operation.VERIFY, Operation.VERIFY]
    assert whole.stamps == headers.stamps and len(whole.stamps) == COMMITTED // 2 * STAMP_BYTES
    assert (whole.headers_only, headers.headers_only) == (False, True)
    count, size = COMMITTED // 2, len(whole.batches) // (COMMITTED // 2)
    assert headers.batches == b"".join(
        whole.batches[size * number : size * number + BATCH_HEADER_BYTES] for number in range(count)
    )


@pytest.mark.parametrize(("end_offset", "batches"), [(1, 1), (2, 1), (3, 2), (4, 2)])
def test_batches_that_begin_before_the_end_are_given(proving: Proving, end_offset: int, batches: int) -> None:
    assert len(proving.read(0, end_offset=end_offset).stamps) == batches * STAMP_BYTES


def test_a_reader_gets_no_more_than_it_asks_for(proving: Proving) -> None:
    size = len(proving.read(0, end_offset=1).batches)
    assert len(proving.read(0, bytes_max=2 * size).batches) == 2 * size
    assert len(proving.read(0, bytes_max=1).batches) == size, "one batch at least"
    assert len(proving.read(0, bytes_max=2 * READ_BYTES_MAX).batches) == COMMITTED // 2 * size


def test_what_is_below_the_logs_start_is_not_read(proving: Proving) -> None:
    proving.replica.log.log_start_offset = 4
    refused = proving.read(3)
    assert refused.error in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.LEADER_NOT_READY)
    assert not refused.stamps and not refused.batches


def test_a_leader_that_lost_the_store_proves_nothing(proving: Proving) -> None:
    proving.confident = False
    for response in (proving.read(0), proving.seals(-1)):
        assert response.error == ErrorCode.LEADER_NOT_READY
    proving.confident = True
    proving.replica.rest()
    for response in (proving.read(0), proving.seals(-1)):
        assert response.error == ErrorCode.NOT_LEADER


def test_who_may_not_gets_the_refusal(proving: Proving) -> None:
    proving.gate.closed = True
    for response in (proving.read(0), proving.seals(-1)):
        assert (response.error, response.message) == (
            ErrorCode.FORBIDDEN,
            errors.Forbidden("the key may not read this topic").message,
        )


def test_seals_are_those_of_segments_that_end_above(proving: Proving) -> None:
    first, second = map(pack_seal, proving.replica.log.usage.seals_above(-1))
    assert proving.seals(-1).seals == first + second
    assert proving.seals(SEGMENT).seals == second
    assert not proving.seals(2 * SEGMENT).seals
    assert not proving.seals(-1).more
    assert proving.seals(-1).log_generation == proving.replica.log.usage.log_generation


def test_a_tenant_that_has_read_its_budget_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_reads, "KIB_AT_ONCE", 64)
    proving = Proving()
    for _ in range(5):
        proving.read(0)  # 4 KiB, and 9 that are read
    with pytest.raises(CallFailed, match="proving reads: wait for 1 ms"):
        proving.read(0)
    with pytest.raises(CallFailed, match="proving reads: wait for 1 ms"):
        proving.seals(-1)
    proving.run(asyncio.sleep(0.001))
    assert not proving.seals(-1).error
    proving.loop.close()
