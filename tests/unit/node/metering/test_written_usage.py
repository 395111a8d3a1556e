"""What metering writes into `__usage`: cuts in as many records as it takes, the first reading after a loss, the end."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from data_plane.contract import usage_pb2
from data_plane.metadata.kept_ends import KeptEnd
from data_plane.metering.increments import DeliveredKey, DeliveredTally, ElapsedKey, Increments, RequestTally
from data_plane.metering.readings import DueReading, ReadingKind
from data_plane.node.metering.record_draft import ROWS_MAX, RecordDraft
from data_plane.node.metering.usage_topic import QUEUED_MAX
from data_plane.node.replicas.replica import Replica
from penstock.contract.errors import BrokerUnavailable, Throttled
from penstock.contract.ids import TenantId
from penstock.rules.service_levels import FETCH
from tests.unit.log.batches import NOW_MS, made_batch
from tests.unit.log.miniature import SMALL, TOPIC, Miniature
from tests.unit.node.metering.usage import Usage, metering_of
from tests.unit.node.replicas.test_follower_stream import led
from tests.unit.node.storage import where

TENANT = TenantId("tn_a")


class Still:
    """A clock that stands."""

    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> float:
        return 0.0


def ends(count: int) -> list[KeptEnd]:
    return [
        KeptEnd(
            where=where(1, number),
            topic="orders",
            log_generation=0,
            end_offset=number,
            accepted_ms=-1,
            totals=(number, 0, 0, 0, 0, 0),
            last=False,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("count", "records"),
    [(0, []), (1, [1]), (ROWS_MAX, [ROWS_MAX]), (2 * ROWS_MAX + 1, [ROWS_MAX, ROWS_MAX, 1])],
)
def test_ends_of_a_cut_are_written_each_once_in_records_of_a_bounded_size(
    count: int, records: list[int]
) -> None:
    with Usage(Still()) as usage:
        usage.run(metering_of(usage, Still()).write_ends(TENANT, ends(count), "cut_1", 9))
    assert [len(record.readings) for record in usage.records] == records
    written = [reading for record in usage.records for reading in record.readings]
    assert [reading.end_offset for reading in written] == list(range(count))
    assert {(reading.cut_id, reading.cut_end_ms) for reading in written} <= {("cut_1", 9)}


def test_no_cut_is_written_while_too_many_records_wait() -> None:
    usage = Usage(Still())  # not entered: it writes nothing
    metering_here = metering_of(usage, Still())

    async def story() -> None:
        for _ in range(QUEUED_MAX):
            usage.topic.write(usage_pb2.UsageRecord())
        for _ in range(2):
            with pytest.raises(Throttled):
                await metering_here.write_ends(TENANT, ends(1), "cut_1", 9)
            with pytest.raises(Throttled):
                await metering_here.write_cut([], "cut_1", 9)

    asyncio.run(story())
    assert metering_here.waiting == QUEUED_MAX


def test_no_cut_is_written_by_a_broker_that_does_not_meter() -> None:
    with Usage(Still(), exists=False) as usage:
        metering_here = metering_of(usage, Still())
        with pytest.raises(BrokerUnavailable):
            usage.run(metering_here.write_ends(TENANT, ends(1), "cut_1", 9))
        with pytest.raises(BrokerUnavailable):
            usage.run(metering_here.write_cut([], "cut_1", 9))
    assert not metering_here.waiting and not usage.records


def test_readings_of_a_cut_fill_a_record_with_their_rows_by_minute() -> None:
    noted: list[tuple[int, int]] = []
    replica = lost_after()
    mark = replica.log.usage.mark()
    assert mark is not None
    assert len(mark.minute_rows) == 1, "two rows a reading"
    replica.on_metered["test"] = lambda told: noted.append((told.metered_generation, told.metered_offset))
    readings = [(replica, DueReading(ReadingKind.CUT, mark))] * (ROWS_MAX // 2 + 1)
    with Usage(Still()) as usage:
        usage.run(metering_of(usage, Still()).write_cut(readings, "cut_1", 9))
    assert [len(record.readings) for record in usage.records] == [ROWS_MAX // 2, 1]
    assert noted == [(2, 6)] * len(readings)
    for reading in (reading for record in usage.records for reading in record.readings):
        assert (reading.end_offset, reading.cut_id, reading.cut_end_ms) == (6, "cut_1", 9)
        assert [(row.principal, row.messages) for row in reading.minute_rows] == [(5, 6)]


@pytest.mark.parametrize(("rows", "left"), [(ROWS_MAX + 5, 3), (ROWS_MAX, 3), (ROWS_MAX - 2, 1), (0, 0)])
def test_a_record_takes_the_increments_that_there_is_space_for(rows: int, left: int) -> None:
    increments = Increments()
    delivered = DeliveredTally("")
    delivered.add(1, 10, True)
    increments.delivered(DeliveredKey(TENANT, TOPIC, "orders", 0, "", 5, 7), delivered)
    increments.elapsed(ElapsedKey(TENANT, b"", "", 5, 7, 0), connection_ms=1)
    requests = RequestTally(TENANT, FETCH)
    requests.count(0)
    increments.gather(requests, NOW_MS)
    draft = RecordDraft()
    draft.rows = rows
    draft.take_increments(increments)
    assert len(increments) == left
    assert len(draft.record.delivered) + len(draft.record.elapsed) + len(draft.record.requests) == 3 - left


@pytest.mark.parametrize("takes_records", [True, False])
def test_a_clean_stop_writes_the_end_of_the_boot_once_and_nothing_after_it(takes_records: bool) -> None:
    with Usage(Still(), takes_records=takes_records) as usage:
        metering_here = metering_of(usage, Still())
        tally = metering_here.clients.tally(TENANT, FETCH)
        tally.count(0)
        for _ in range(2):
            usage.run(metering_here.finish())
            assert not metering_here.working
        assert [record.boot_ends for record in usage.records] == ([False, True] if takes_records else [])
        if takes_records:
            (requests,) = usage.records[0].requests
            assert (requests.tenant, requests.operation, requests.valid, requests.bad) == (
                TENANT,
                FETCH,
                1,
                0,
            )
        with pytest.raises(BrokerUnavailable):
            usage.run(metering_here.write_ends(TENANT, ends(1), "cut_1", 9))


def test_a_broker_that_does_not_meter_ends_without_a_word() -> None:
    with Usage(Still(), exists=False) as usage:
        metering_here = metering_of(usage, Still())
        usage.run(metering_here.finish())
    assert not metering_here.waiting and not usage.records


# -- after a declared loss -----------------------------------------------------------------------------------


def lost_after(batches: int = 3, *, uncommitted: int = 0, storage: Miniature | None = None) -> Replica:
    """A replica that leads in epoch 2 and log generation 2 over `batches` of two records each, of epoch 1, and as many
    records that are not committed.
    """
    broker = storage or Miniature()
    replica = led(broker)
    broker.fill(batches)
    broker.catch_up()
    if uncommitted:
        broker.append(batch=made_batch(uncommitted))
    replica.in_generation(2)
    assert replica.record is not None
    replica.lead(replica.record.changed(leader_epoch=2, generation_epoch=2))
    return replica


def read_loss(
    replica: Replica, beside: Callable[[], None] = lambda: None
) -> tuple[bool, list[tuple[int, ReadingKind]]]:
    """`beside`: called while it folds, when that takes more than one turn."""
    draft = RecordDraft()

    async def story() -> bool:
        asyncio.get_running_loop().call_soon(beside)
        return await metering_of(Usage(Still()), Still()).readings.read_loss(replica, draft)

    read = asyncio.run(story())
    return read, [(due.mark.end_offset, due.kind) for _, _, due in draft.read]


def test_the_first_reading_of_a_log_generation_is_made_where_the_old_one_ended() -> None:
    assert read_loss(lost_after()) == (True, [(6, ReadingKind.GENERATION_START)])


def test_no_other_reading_comes_before_it() -> None:
    nobody_leads = lost_after()
    nobody_leads.rest()
    assert read_loss(nobody_leads) == (False, [])
    assert read_loss(lost_after(uncommitted=1)) == (False, [])


def test_it_was_made_before_anything_was_deleted() -> None:
    storage = Miniature()
    replica = lost_after(storage=storage)
    storage.fill(1, epoch=2)
    storage.catch_up()
    storage.move_log_start(8)
    assert read_loss(replica) == (True, [])


def test_it_is_not_made_by_one_that_leads_no_more_when_it_is_read() -> None:
    batches = 600  # more than are folded in one turn
    storage = Miniature(
        settings=replace(SMALL, segment_bytes=1 << 20), tail_bytes=1 << 22, journal_bytes=1 << 20
    )
    replica = lost_after(batches, storage=storage)
    assert read_loss(replica) == (True, [(2 * batches, ReadingKind.GENERATION_START)])
    assert read_loss(replica, replica.rest) == (False, [])


def test_it_is_not_made_while_what_was_counted_is_unknown() -> None:
    storage = Miniature()
    replica = lost_after(storage=storage)
    storage.start_over(10)
    storage.log.set_high_watermark(10)
    assert read_loss(replica) == (False, [])
