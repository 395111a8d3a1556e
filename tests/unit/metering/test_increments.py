"""Increments add up by key, within a bound, and each is handed out once."""

from data_plane.contract import usage_pb2
from data_plane.metering.delivery import PushedBatches
from data_plane.metering.increments import (
    DeliveredKey,
    DeliveredTally,
    ElapsedKey,
    Increments,
    RequestsKey,
    RequestTally,
    Taken,
)
from data_plane.metering.readings import ReadingKind
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId, TopicId, TopicPartition
from penstock.records.stamp import Stamp, pack_stamp, stamp_seed
from penstock.rules.latency_buckets import bucket_of
from penstock.rules.service_levels import FETCH, PRODUCE

TENANT = TenantId("tn_a")
WHERE = TopicPartition(TopicId(bytes(16)), 0)


def key(minute: int, group: str = "") -> DeliveredKey:
    return DeliveredKey(TENANT, WHERE.topic_id, "orders", 0, group, 7, minute)


def time_key(minute: int) -> ElapsedKey:
    return ElapsedKey(TENANT, b"", "", 7, minute, 0)


def took(messages: int, size: int) -> DeliveredTally:
    tally = DeliveredTally("")
    tally.add(messages, size, True)
    return tally


def stamps(*batches: tuple[int, int]) -> bytes:
    """Packed stamps of (records, bytes) each."""
    packed, offset = b"", 0
    for count, size in batches:
        stamp = Stamp(offset, count, count, size, 1, 0, 1, -1, -1, 0, 0, -1)
        packed += pack_stamp(stamp, stamp_seed(WHERE))
        offset += count
    return packed


def test_deliveries_of_one_key_add_up_and_are_taken_once() -> None:
    increments = Increments()
    tally = DeliveredTally("")
    assert tally.add(2, 20, False) and not tally.add(1, 10, True), (
        "the first is to be gathered, the next comes with it"
    )
    increments.delivered(key(1), tally)
    tally.clear()
    assert tally.add(2, 20, True)
    increments.delivered(key(1), tally)
    increments.delivered(key(1, "workers"), took(4, 40))
    assert increments.take_delivered(1) == [(key(1), Taken(5, 50, 2, 20))]
    assert increments.take_delivered(9) == [(key(1, "workers"), Taken(4, 40, 0, 0))]
    assert increments.take_delivered(9) == []


AT_MS = 5 * 60_000


def sums_of(increments: Increments) -> dict[RequestsKey, tuple[int, int]]:
    """(valid, bad) of what is taken out."""
    return {key: (sums.valid, sums.bad) for key, sums in increments.take_requests(9)}


def test_what_has_no_room_is_given_to_the_tenant() -> None:
    increments = Increments(keys_max=2)
    for minute in range(3):
        increments.delivered(key(minute), took(1, 10))
        increments.elapsed(time_key(minute), throttled_ms=7)
    increments.delivered(key(0), took(1, 10))
    increments.elapsed(time_key(0), connection_ms=5)
    assert increments.take_delivered(9) == [(key(0), Taken(2, 20, 0, 0)), (key(1), Taken(1, 10, 0, 0))]
    assert increments.take_elapsed(1) == [(time_key(0), (5, 7, 0))]
    assert increments.take_elapsed(9) == [(time_key(1), (0, 7, 0))] and len(increments) == 0
    assert increments.forgone == 2


def test_only_our_faults_are_bad_and_the_clients_count_neither_way() -> None:
    tally = RequestTally(TENANT, PRODUCE)
    for error in (
        ErrorCode.OK,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.THROTTLED,
        ErrorCode.FORBIDDEN,
        ErrorCode.NOT_LEADER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.LOG_TRUNCATED,  # so says a broker also to who asks for an offset that never was
        ErrorCode.INTERNAL,
    ):
        tally.count(error)
    increments = Increments()
    increments.gather(tally, AT_MS)
    increments.gather(tally, AT_MS)
    assert sums_of(increments) == {RequestsKey(TENANT, PRODUCE, 5): (3, 2)}


def test_a_stream_that_asked_for_nothing_leaves_no_row() -> None:
    increments = Increments()
    increments.gather(RequestTally(TENANT, FETCH), AT_MS)
    assert len(increments) == 0


def test_batches_count_when_their_credit_has_returned_whole() -> None:
    pushed = PushedBatches()
    pushed.pushed(stamps((10, 100), (5, 60), (1, 20)), 0)
    assert pushed.returned(99) == (0, 0)
    assert pushed.returned(1) == (10, 100)
    assert pushed.returned(80) == (6, 80)


def test_messages_before_the_position_are_not_delivered() -> None:
    pushed = PushedBatches()
    pushed.pushed(stamps((10, 100), (5, 60)), 7)
    assert pushed.returned(160) == (8, 160)


def test_credit_beyond_what_was_pushed_counts_for_nothing_later() -> None:
    pushed = PushedBatches()
    assert pushed.returned(1_000) == (0, 0)
    pushed.pushed(stamps((1, 50)), 0)
    assert pushed.returned(500) == (1, 50)
    pushed.pushed(stamps((1, 50)), 0)
    assert pushed.returned(49) == (0, 0)
    assert pushed.returned(1) == (1, 50)


def test_a_batch_that_begins_behind_the_position_is_delivered_whole_and_one_before_it_not_at_all() -> None:
    pushed = PushedBatches()
    pushed.pushed(stamps((10, 100)), -4)
    assert pushed.returned(100) == (10, 100)
    pushed.pushed(stamps((10, 100), (5, 60)), 12)
    assert pushed.returned(160) == (5, 160)
    pushed.pushed(b"", 3)
    assert pushed.returned(1) == (0, 0)


def test_the_kinds_of_readings_are_those_of_the_contract() -> None:
    assert {kind.name: kind.value for kind in ReadingKind} == dict(usage_pb2.ReadingKind.items())


def test_failed_requests_count_both_ways_and_again_after_they_were_gathered() -> None:
    tally, increments = RequestTally(TENANT, PRODUCE), Increments()
    for count in (2, 3):
        tally.fail(count)
        increments.gather(tally, AT_MS)
    tally.count(ErrorCode.OK)
    increments.gather(tally, AT_MS)
    assert sums_of(increments) == {RequestsKey(TENANT, PRODUCE, 5): (6, 5)}


def test_seconds_with_good_and_with_failed_answers_are_bits_of_their_minute() -> None:
    tally, increments = RequestTally(TENANT, PRODUCE), Increments()
    for second, good, failed in ((0, 1, 0), (7, 2, 3), (59, 0, 1), (60, 1, 0)):
        for _ in range(good):
            tally.count(ErrorCode.OK)
        tally.fail(failed)
        increments.gather(tally, AT_MS + second * 1_000 + 999)
    (fifth, first), (sixth, second_minute) = increments.take_requests(9)
    assert (fifth.minute, first.valid, first.bad) == (5, 7, 4)
    assert (first.succeeded_seconds, first.failed_seconds) == (1 << 0 | 1 << 7, 1 << 7 | 1 << 59)
    assert (sixth.minute, second_minute.succeeded_seconds, second_minute.failed_seconds) == (6, 1, 0)


def test_latencies_add_up_by_bucket_and_are_gathered_once() -> None:
    tally, increments = RequestTally(TENANT, PRODUCE), Increments()
    for milliseconds in (1.0, 1.0, 50.0):
        tally.count(ErrorCode.OK)
        tally.took(milliseconds)
    increments.gather(tally, AT_MS)
    tally.count(ErrorCode.OK)
    tally.took(1.0)
    increments.gather(tally, AT_MS + 1_000)
    ((_, sums),) = increments.take_requests(9)
    assert sums.latencies == {bucket_of(1.0): 3, bucket_of(50.0): 1}
    assert tally.latencies == {}


def failed(increments: Increments, minute: int, *operations: str) -> None:
    for operation in operations:
        tally = RequestTally(TENANT, operation)
        tally.fail(1)
        increments.gather(tally, minute * 60_000)


def test_requests_of_more_minutes_than_there_is_space_for_become_those_of_windows() -> None:
    increments = Increments(keys_max=7)
    for minute in range(5, 13):
        failed(increments, minute, PRODUCE)
    failed(increments, 12, FETCH)
    taken = increments.take_requests(9)
    assert [(key.operation, key.minute, sums.valid, sums.bad) for key, sums in taken] == [
        (PRODUCE, 5, 5, 5), (PRODUCE, 10, 1, 1), (PRODUCE, 11, 1, 1), (PRODUCE, 12, 1, 1), (FETCH, 12, 1, 1),
    ]  # fmt: skip
    failed(increments, 13, PRODUCE)
    assert sums_of(increments) == {RequestsKey(TENANT, PRODUCE, 13): (1, 1)}, "what was taken is not held"


def test_no_failure_is_forgotten_however_long_nothing_is_taken_and_rows_are_bounded() -> None:
    increments = Increments(keys_max=4)
    for minute in range(60):
        failed(increments, minute, PRODUCE, FETCH)
        assert len(increments) <= 4
    others = [RequestTally(TenantId(f"tn_{number}"), PRODUCE) for number in range(3)]
    for tally in others:
        for _ in range(2):
            tally.fail(1)
            increments.gather(tally, 60 * 60_000)
    found = sums_of(increments)
    totals = {operation: [0, 0] for operation in (PRODUCE, FETCH)}
    for key, (valid, bad) in found.items():
        totals[key.operation][0] += valid
        totals[key.operation][1] += bad
    assert totals == {PRODUCE: [66, 66], FETCH: [60, 60]}
    assert len(found) == 4 + len(others), "each tenant and operation has a row"
    assert increments.forgone == 0


def test_the_newest_row_is_one_that_is_held_also_after_it_was_taken_or_became_a_window() -> None:
    increments = Increments(keys_max=3)
    for minute, operation in ((1, PRODUCE), (2, PRODUCE), (3, FETCH), (5, FETCH), (6, PRODUCE)):
        failed(increments, minute, operation)
    assert {(key.operation, key.minute): sums.bad for key, sums in increments.take_requests(1)} == {
        (PRODUCE, 0): 3
    }
    for minute, operation in ((6, FETCH), (7, FETCH), (8, PRODUCE)):
        failed(increments, minute, operation)
    left = {(key.operation, key.minute): sums.bad for key, sums in increments.take_requests(9)}
    assert left == {(FETCH, 0): 1, (FETCH, 5): 1, (FETCH, 6): 2, (PRODUCE, 8): 1}


def test_minutes_become_windows_also_after_the_clock_was_set_back_and_the_newest_row_was_taken() -> None:
    increments = Increments(keys_max=3)
    for minute in (5, 13, 6):
        failed(increments, minute, PRODUCE)
    failed(increments, 14, FETCH)
    assert [(key.minute, sums.bad) for key, sums in increments.take_requests(1)] == [(5, 2)]
    for minute in (15, 16):
        failed(increments, minute, FETCH)
    left = {(key.operation, key.minute): sums.bad for key, sums in increments.take_requests(9)}
    assert left == {(PRODUCE, 10): 1, (FETCH, 10): 1, (FETCH, 15): 2}


def test_latencies_and_seconds_of_minutes_that_become_a_window_add_up() -> None:
    increments = Increments(keys_max=2)
    for minute, milliseconds in ((0, 1.0), (1, 1.0), (5, 50.0)):
        tally = RequestTally(TENANT, PRODUCE)
        tally.count(ErrorCode.OK)
        tally.took(milliseconds)
        tally.fail(1)
        increments.gather(tally, minute * 60_000 + minute * 1_000)
    (first, window), (_, later) = increments.take_requests(9)
    assert first.minute == 0 and window.latencies == {bucket_of(1.0): 2}
    assert (window.succeeded_seconds, window.failed_seconds) == (0b11, 0b11)
    assert later.latencies == {bucket_of(50.0): 1}
