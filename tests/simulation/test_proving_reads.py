"""Reads that prove an invoice, call by call: what is answered, up to where, and to whom."""

import asyncio

import pytest

from data_plane.node.integrity import proof_reads
from data_plane.node.ports import CallFailed
from data_plane.testkit.cluster import TENANT
from data_plane.testkit.transport import SimTransport
from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import proof_pb2 as pb
from penstock.records.batch import split_batches
from penstock.records.seal import unpack_seal
from penstock.records.stamp import STAMP_BYTES, stamp_seed, unpack_stamp
from tests.simulation.test_client_streams import CONNECT_MS, Streams, run_story
from tests.simulation.test_cuts import METERED
from tests.unit.log.batches import made_batch


async def stamped(
    streams: Streams, offset: int, *, end: int = 0, bytes_max: int = 0, partition: int = 0
) -> tuple[int, list[int], pb.ReadStampedResponse]:
    """(error, base offsets of the batches, all)."""
    request = pb.ReadStampedRequest(
        topic_id=streams.where.topic_id,
        partition=partition,
        offset=offset,
        end_offset=end,
        bytes_max=bytes_max,
    )
    answer = pb.ReadStampedResponse.FromString(await streams.call(methods.READ_STAMPED, request))
    batches = split_batches(memoryview(answer.batches)) if answer.batches else []
    offsets = [int.from_bytes(batch[:8], "big") for batch in batches]
    stamps = [
        unpack_stamp(answer.stamps, stamp_seed(streams.where), at).base_offset
        for at in range(0, len(answer.stamps), STAMP_BYTES)
    ]
    assert stamps == offsets
    return answer.error, offsets, answer


async def seals(streams: Streams, above: int) -> tuple[list[tuple[int, int]], pb.ReadSealsResponse]:
    """(base and end offset of each, all)."""
    request = pb.ReadSealsRequest(topic_id=streams.where.topic_id, partition=0, above_offset=above)
    answer = pb.ReadSealsResponse.FromString(await streams.call(methods.READ_SEALS, request))
    found, at = [], 0
    while at < len(answer.seals):
        seal, at = unpack_seal(answer.seals, at)
        found.append((seal.base_offset, seal.end_offset))
    return found, answer


async def filled(streams: Streams, batches: int, size: int) -> None:
    producer = await streams.producing()
    for count in range(batches):
        await producer.send(made_batch(2, size))
        assert (await producer.errors_of(count + 1))[-1] == 0


def test_committed_batches_are_read_with_their_stamps_up_to_what_was_asked_for() -> None:
    async def story(streams: Streams) -> None:
        assert (await stamped(streams, 0))[:2] == (0, [])
        await filled(streams, 5, 100)
        for _ in range(2):
            error, offsets, answer = await stamped(streams, 0)
            assert (error, offsets) == (0, [0, 2, 4, 6, 8])
            assert (answer.log_start_offset, answer.high_watermark, answer.log_generation) == (0, 10, 1)
        assert (await stamped(streams, 5))[1] == [4, 6, 8]
        assert (await stamped(streams, 2, end=6))[1] == [2, 4]
        assert (await stamped(streams, 2, end=7))[1] == [2, 4, 6]
        assert (await stamped(streams, 2, end=99))[1] == [2, 4, 6, 8]
        assert (await stamped(streams, 2, bytes_max=1))[1] == [2]
        assert (await stamped(streams, 10))[:2] == (0, [])
        for offset in (-1, 11):
            assert (await stamped(streams, offset))[:2] == (ErrorCode.OFFSET_OUT_OF_RANGE, [])
        assert (await stamped(streams, 0, partition=9))[0] == ErrorCode.NOT_FOUND
        follower = next(
            broker for broker in streams.period.cluster.brokers if broker.client_address != streams.address
        )
        request = pb.ReadStampedRequest(topic_id=streams.where.topic_id)
        answered = await streams._transport.call(
            follower.client_address, methods.READ_STAMPED, request.SerializeToString(), CONNECT_MS
        )
        assert pb.ReadStampedResponse.FromString(answered).error == ErrorCode.NOT_LEADER

    run_story(story)


def test_seals_are_read_above_an_offset_each_time_the_same() -> None:
    async def story(streams: Streams) -> None:
        assert await seals(streams, -1) == ([], pb.ReadSealsResponse(log_generation=1))
        await filled(streams, 12, 30_000)
        closed, answer = await seals(streams, 0)
        assert len(closed) >= 2 and closed[0][0] == 0
        assert (answer.error, answer.more, answer.log_generation) == (0, False, 1)
        first_end = closed[0][1]
        assert (await seals(streams, first_end - 1))[0] == closed
        for _ in range(2):
            assert (await seals(streams, first_end))[0] == closed[1:]
        assert (await seals(streams, closed[-1][1]))[0] == []

    run_story(story)


@pytest.mark.pure
def test_proving_reads_have_a_budget_of_their_own_that_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_reads, "KIB_PER_MINUTE", 60)
    monkeypatch.setattr(proof_reads, "KIB_AT_ONCE", 12)

    async def story(streams: Streams) -> None:
        for _ in range(2):
            for _ in range(3):
                assert (await stamped(streams, 0))[0] == 0
            with pytest.raises(CallFailed) as refused:
                await stamped(streams, 0)
            assert refused.value.code == ErrorCode.THROTTLED
            with pytest.raises(CallFailed):
                await seals(streams, 0)
            await asyncio.sleep(12.5)

    run_story(story)


def test_what_brokers_keep_of_a_tenants_bills_is_read_so_often_and_no_more() -> None:
    async def story(streams: Streams) -> None:
        period = streams.period

        async def kept() -> pb.ReadCommitmentsResponse:
            answer = await streams.call(methods.READ_COMMITMENTS, pb.ReadCommitmentsRequest())
            return pb.ReadCommitmentsResponse.FromString(answer)

        found = await kept()
        assert found == pb.ReadCommitmentsResponse(tenant=TENANT)
        first = period.cluster.brokers[0]
        for count, name in enumerate(("cut_1", "cut_2"), 1):
            period.begin(name)
            await period.answered(first)
            found = await kept()
            assert [cut.cut_id for cut in found.cuts] == ["cut_1", "cut_2"][:count]
            assert len(found.cuts[-1].sha256) == 64 and found.cuts[-1].end_ms == period._newest_end_ms
        assert found.cuts[1].start_ms == found.cuts[0].end_ms and not found.losses
        asked = 0
        with pytest.raises(CallFailed) as refused:
            while asked < 100:
                await kept()
                asked += 1
        assert refused.value.code == ErrorCode.THROTTLED and asked >= 50
        await asyncio.sleep(1)
        await kept()

    run_story(story, METERED)


def test_another_tenants_key_proves_nothing() -> None:
    async def story(streams: Streams) -> None:
        process = streams.period.loop.process("a stranger")
        stranger = SimTransport(streams.period.cluster.network, process, "c0", authorization="Bearer nothing")
        request = pb.ReadStampedRequest(topic_id=streams.where.topic_id).SerializeToString()
        for method in (methods.READ_STAMPED, methods.READ_SEALS):
            with pytest.raises(CallFailed) as refused:
                await stranger.call(streams.address, method, request, CONNECT_MS)
            assert refused.value.code == ErrorCode.UNAUTHENTICATED

    run_story(story)
