"""What a producer's core decides, against a fake cluster in virtual time."""

from __future__ import annotations

import pytest

from penstock.client.producing.partition_queue import Gap
from penstock.client.producing.produce_stream import HOLD_OFF_MS, SMALL_FRAME_BYTES
from penstock.client.producing.producer import ProducerCore
from penstock.contract import errors
from penstock.contract.errors import Belief, ErrorCode, ErrorKind, error_table
from tests.unit.client.runner import Runner, SyncDelivery


def started() -> Runner:
    runner = Runner()
    runner.cluster.create("orders", 3)
    return runner


def log_of(runner: Runner, partition: int, topic: str = "orders") -> list[bytes | None]:
    return runner.cluster.topics[topic].partitions[partition].values()


def test_a_receipt_tells_partition_offset_and_the_messages_own_time() -> None:
    runner = started()
    producer = runner.producer()
    first = runner.send(producer, "orders", b"a", partition=1, timestamp_ms=1_650_000_000_001)
    second = runner.send(producer, "orders", b"b", partition=1, timestamp_ms=1_650_000_000_002)
    runner.run(5)
    assert first.receipt() == ("orders", 1, 0, 1_650_000_000_001, False)
    assert second.receipt() == ("orders", 1, 1, 1_650_000_000_002, False)


def test_a_topic_with_append_time_gives_the_brokers_time() -> None:
    runner = Runner()
    runner.cluster.create("orders", 1, timestamp_type="append")
    producer = runner.producer()
    delivery = runner.send(producer, "orders", b"a", timestamp_ms=1)
    runner.run(5)
    assert delivery.receipt().timestamp_ms == runner.cluster.now_ms


def test_a_frame_carries_batches_of_all_partitions_that_one_broker_leads() -> None:
    runner = Runner(brokers=1)
    runner.cluster.create("orders", 50)
    producer = runner.producer(linger_ms=5)
    for partition in range(50):
        runner.send(producer, "orders", b"x", partition=partition)
    runner.run(50)
    assert runner.cluster.frames_of_batches == [50]


def test_a_batch_closes_by_count_by_bytes_or_by_linger() -> None:
    runner = started()
    producer = runner.producer(batch_messages=2, linger_ms=10_000)
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(100)
    assert log_of(runner, 0) == []
    runner.send(producer, "orders", b"b", partition=0)
    runner.run(100)
    assert log_of(runner, 0) == [b"a", b"b"]

    roomy = runner.producer(batch_bytes=1_000, linger_ms=10_000)
    for _ in range(3):
        runner.send(roomy, "orders", bytes(600), partition=1)
    runner.run(100)
    assert len(log_of(runner, 1)) == 2, "the third message is in a batch that still lingers"
    runner.run(10_000)
    assert len(log_of(runner, 1)) == 3


def test_messages_without_a_key_change_partition_with_each_batch() -> None:
    runner = started()
    producer = runner.producer(batch_messages=5)
    for number in range(30):
        runner.send(producer, "orders", b"%d" % number)
    runner.run(10)
    assert [len(log_of(runner, partition)) for partition in range(3)] == [10, 10, 10]


def test_a_key_goes_where_other_clients_of_the_format_put_it() -> None:
    runner = started()
    producer = runner.producer()
    deliveries = [runner.send(producer, "orders", b"v", key=key) for key in (b"21", b"foobar", b"21")]
    runner.run(5)
    # murmur2("21") = -973932308 and murmur2("foobar") = -790332482, as in Kafka's own tests.
    places = [(-973932308 & 0x7FFFFFFF) % 3, (-790332482 & 0x7FFFFFFF) % 3]
    assert [delivery.receipt().partition for delivery in deliveries] == [*places, places[0]]


def test_a_partitioner_of_the_caller_decides_for_every_message() -> None:
    runner = started()
    producer = runner.producer(partitioner=lambda topic, key, value, count: len(value or b"") % count)
    deliveries = [runner.send(producer, "orders", bytes(size), key=b"k") for size in range(4)]
    runner.run(5)
    assert [delivery.receipt().partition for delivery in deliveries] == [0, 1, 2, 0]


def test_a_partition_that_does_not_exist_is_named_with_those_that_do() -> None:
    runner = started()
    producer = runner.producer()
    with pytest.raises(errors.NotFound, match="orders: no partition 3; it has 3, 0 to 2"):
        runner.send(producer, "orders", b"x", partition=3)


def test_a_message_over_the_topics_limit_is_refused_before_buffering_with_both_numbers() -> None:
    runner = Runner()
    runner.cluster.create("orders", 1, max_message_bytes=1_000)
    producer = runner.producer()
    with pytest.raises(errors.MessageTooLarge, match=r"orders: message of 1001 bytes, at most 1000 allowed"):
        runner.send(producer, "orders", bytes(990), key=bytes(11))
    assert producer.accumulator.buffered_bytes == 0
    delivery = runner.send(producer, "orders", bytes(990), key=bytes(10))
    runner.run(5)
    assert delivery.receipt().offset == 0


def test_a_value_that_cannot_be_encoded_leaves_no_trace() -> None:
    runner = started()
    producer = runner.producer()
    with pytest.raises(TypeError):
        runner.send(producer, "orders", "text", partition=0)  # type: ignore[arg-type]
    delivery = runner.send(producer, "orders", b"bytes", partition=0)
    runner.run(5)
    assert delivery.receipt().offset == 0
    assert producer.accumulator.buffered_bytes == 0


def test_an_unknown_topic_is_refused_by_name_and_asked_for_again_next_time() -> None:
    runner = Runner()
    producer = runner.producer()
    with pytest.raises(errors.NotFound, match="nowhere"):
        runner.send(producer, "nowhere", b"x")
    runner.cluster.create("nowhere")
    delivery = runner.send(producer, "nowhere", b"x")
    runner.run(5)
    assert delivery.receipt().offset == 0


# ---- faults -------------------------------------------------------------------------------------------------


def test_a_lost_answer_is_retried_under_the_same_numbers_and_found_to_be_a_duplicate() -> None:
    runner = started()
    producer = runner.producer()
    runner.cluster.applied_unsaid = 1
    delivery = runner.send(producer, "orders", b"once", partition=0)
    runner.run(500)
    assert delivery.receipt() == ("orders", 0, 0, 1_700_000_000_000, True)
    assert log_of(runner, 0) == [b"once"]


def test_batches_behind_a_refused_one_keep_the_send_order() -> None:
    runner = started()
    producer = runner.producer(batch_messages=1)
    runner.cluster.refusals = [(ErrorCode.NOT_ENOUGH_REPLICAS, "1 in sync, 2 required")] * 2
    deliveries = [runner.send(producer, "orders", b"%d" % number, partition=0) for number in range(5)]
    runner.run(1_000)
    assert [delivery.receipt().offset for delivery in deliveries] == [0, 1, 2, 3, 4]
    assert log_of(runner, 0) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_higher_leader_epoch_drops_a_silent_leader_at_once() -> None:
    runner = started()
    producer = runner.producer()
    runner.send(producer, "orders", b"before", partition=0)
    runner.run(5)
    runner.cluster.silent[0] = None
    stuck = runner.send(producer, "orders", b"stuck", partition=0)
    runner.run(50)
    assert not stuck.done()
    runner.cluster.move("orders", 0, 1)
    runner.run(5)
    assert stuck.receipt().offset == 1, "no timeout was waited for"
    runner.answer_withheld(0)
    runner.run(5)
    assert log_of(runner, 0) == [b"before", b"stuck"]


def test_one_watch_that_still_speaks_is_enough_to_hear_of_a_new_leader() -> None:
    runner = Runner(brokers=2)
    runner.cluster.create("orders", 1)
    producer = runner.producer()
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(100)
    watched = {stream.broker for stream in runner.streams.values() if stream.method.endswith("WatchMetadata")}
    assert watched == {0, 1}
    runner.cluster.silent[0] = None
    delivery = runner.send(producer, "orders", b"b", partition=0)
    runner.run(10)
    runner.cluster.move("orders", 0, 1)
    runner.run(10)
    assert delivery.receipt().offset == 1


def test_a_stream_that_owes_answers_and_is_silent_is_given_up_without_any_news() -> None:
    runner = started()
    producer = runner.producer(delivery_timeout_ms=60_000)
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(5)
    runner.cluster.silent[0] = None
    delivery = runner.send(producer, "orders", b"b", partition=0)
    runner.run(10_000)
    runner.cluster.silent.clear()  # the path was cut; new streams reach the broker, the old one never speaks
    runner.run(8_000)
    assert delivery.receipt().offset == 1


def test_an_older_answer_never_brings_a_former_leader_back() -> None:
    runner = started()
    producer = runner.producer()
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(100)
    old = runner.cluster.metadata(["orders"])
    runner.cluster.move("orders", 0, 2)
    runner.run(5)
    watch = next(token for token, stream in runner.streams.items() if stream.method.endswith("WatchMetadata"))
    runner.core.frame_received(watch, old, runner.now)
    delivery = runner.send(producer, "orders", b"b", partition=0)
    runner.run(5)
    assert delivery.receipt().offset == 1
    assert runner.core.view.topics["orders"].partitions[0].leader == 2


def test_credit_bounds_what_is_unanswered() -> None:
    runner = Runner(brokers=1)
    runner.cluster.credit_bytes = 10_000
    runner.cluster.create("orders", 1)
    producer = runner.producer(batch_messages=1)
    runner.send(producer, "orders", b"first", partition=0)
    runner.run(5)
    runner.cluster.silent[0] = None
    for _ in range(5):
        runner.send(producer, "orders", bytes(3_000), partition=0)
    runner.run(5)
    (stream,) = [stream for stream in runner.streams.values() if stream.held]
    assert sum(len(frame) for frame in stream.held) < 10_000
    assert sum(len(frame) for frame in stream.held) > 9_000


def withheld_frames(runner: Runner) -> int:
    return sum(len(stream.held) for stream in runner.streams.values())


def silent_after_one_frame() -> tuple[Runner, ProducerCore]:
    """A broker that has a small frame and answers nothing."""
    runner = Runner(brokers=1)
    runner.cluster.create("orders", 4)
    producer = runner.producer()
    runner.send(producer, "orders", b"first", partition=0)
    runner.run(20)
    runner.cluster.silent[0] = None
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(1)
    assert withheld_frames(runner) == 1
    return runner, producer


def test_what_comes_while_a_small_frame_is_on_its_way_leaves_together_with_its_answer() -> None:
    runner, producer = silent_after_one_frame()
    for partition in range(4):
        runner.send(producer, "orders", b"b", partition=partition)
        runner.run(0.5)
    assert withheld_frames(runner) == 1
    runner.answer_withheld(0)
    runner.run(0)
    assert runner.cluster.frames_of_batches == [1, 1, 4]


def test_nothing_waits_for_a_frames_answer_longer_than_the_hold_off() -> None:
    runner, producer = silent_after_one_frame()
    runner.send(producer, "orders", b"b", partition=1)
    runner.run(HOLD_OFF_MS - 2)
    assert withheld_frames(runner) == 1
    runner.run(2)
    assert withheld_frames(runner) == 2


def test_after_a_large_frame_nothing_waits() -> None:
    runner, producer = silent_after_one_frame()
    runner.run(HOLD_OFF_MS)
    runner.send(producer, "orders", bytes(SMALL_FRAME_BYTES), partition=1)
    runner.run(1)
    runner.send(producer, "orders", b"b", partition=2)
    runner.run(1)
    assert withheld_frames(runner) == 3


# ---- three outcomes -----------------------------------------------------------------------------------------


def test_a_timeout_before_anything_was_sent_is_certainly_not_applied() -> None:
    runner = started()
    producer = runner.producer(delivery_timeout_ms=1_000)
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(5)
    runner.cluster.move("orders", 0, -1)
    delivery = runner.send(producer, "orders", b"b", partition=0)
    runner.run(1_100)
    assert isinstance(delivery.error, errors.TimedOut)
    assert delivery.error.belief is Belief.NOT_APPLIED
    assert "orders-0: has no leader" in delivery.error.message


def test_a_timeout_after_refusals_alone_carries_the_last_refusal() -> None:
    runner = started()
    producer = runner.producer(delivery_timeout_ms=500)
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(5)
    runner.cluster.refusals = [(ErrorCode.NOT_ENOUGH_REPLICAS, "orders-0: 1 in sync, 2 required")] * 1_000
    delivery = runner.send(producer, "orders", b"b", partition=0)
    runner.run(1_000)
    assert isinstance(delivery.error, errors.NotEnoughReplicas)
    assert "1 in sync, 2 required" in delivery.error.message
    runner.cluster.refusals = []
    after = runner.send(producer, "orders", b"c", partition=0)
    runner.run(100)
    assert after.receipt().offset == 1
    asked = [name for _, name in runner.calls if name == "InitProducer"]
    assert len(asked) == 1, "nothing was unknown, so no newer epoch was needed"


def test_an_unanswered_batch_times_out_as_unknown_and_the_next_has_a_newer_epoch() -> None:
    runner = started()
    producer = runner.producer(delivery_timeout_ms=1_000, batch_messages=1)
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(5)
    before = producer.identity
    runner.cluster.silent[0] = None
    unknown = runner.send(producer, "orders", b"b", partition=0)
    runner.run(1_500)
    assert isinstance(unknown.error, errors.DeliveryTimeout)
    assert unknown.error.belief is Belief.UNKNOWN
    runner.lose_streams(0)
    runner.cluster.silent.clear()
    after = runner.send(producer, "orders", b"c", partition=0)
    runner.run(500)
    assert after.receipt().offset == 1
    assert before is not None
    assert producer.identity == (before.producer_id, before.producer_epoch + 1)
    runner.let_ghosts_in()  # the old attempt reaches the broker after all, and is fenced
    assert log_of(runner, 0) == [b"a", b"c"]


def test_a_fatal_refusal_of_a_batch_with_an_unanswered_attempt_is_not_called_certain() -> None:
    runner = started()
    producer = runner.producer()
    runner.cluster.applied_unsaid = 1
    delivery = runner.send(producer, "orders", b"a", partition=0)
    runner.run(0)
    runner.cluster.refusals = [(ErrorCode.FORBIDDEN, "the key was restricted")]
    runner.run(500)
    assert isinstance(delivery.error, errors.OutcomeUnknown)
    assert "the key was restricted" in delivery.error.message
    assert log_of(runner, 0) == [b"a"]


def test_a_forgotten_producer_goes_on_under_a_newer_epoch_without_loss() -> None:
    runner = started()
    producer = runner.producer(batch_messages=1)
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(5)
    runner.cluster.topics["orders"].partitions[0].producers.clear()
    deliveries = [runner.send(producer, "orders", value, partition=0) for value in (b"b", b"c", b"d")]
    runner.run(500)
    assert [delivery.receipt().offset for delivery in deliveries] == [1, 2, 3]
    assert log_of(runner, 0) == [b"a", b"b", b"c", b"d"]
    assert producer.identity is not None
    assert producer.identity.producer_epoch == 1


def test_a_batch_that_fails_for_certain_leaves_no_hole_for_those_behind_it() -> None:
    runner = started()
    producer = runner.producer(batch_messages=1)
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(5)
    runner.cluster.refusals = [(ErrorCode.MESSAGE_TOO_LARGE, "too large")]
    bad, good = (runner.send(producer, "orders", value, partition=0) for value in (b"b", b"c"))
    runner.run(200)
    assert isinstance(bad.error, errors.MessageTooLarge)
    assert good.receipt().offset == 1
    assert producer.identity is not None
    assert producer.identity.producer_epoch == 0, "nothing may still be under way, so the numbers go on"


def test_attempts_may_be_capped() -> None:
    runner = started()
    producer = runner.producer(max_attempts=2)
    runner.cluster.refusals = [(ErrorCode.THROTTLED, "slow down")] * 10
    delivery = runner.send(producer, "orders", b"a", partition=0)
    runner.run(1_000)
    assert isinstance(delivery.error, errors.Throttled)
    assert len(runner.cluster.refusals) == 8


_RATE = "produce_bytes_per_s of the tenant is reached, 1000 of it here: clears in 500 ms"


def test_messages_that_a_quota_holds_up_all_fail_with_it_and_not_the_first_ones_alone() -> None:
    runner = started()
    producer = runner.producer(batch_messages=1, delivery_timeout_ms=300)
    runner.cluster.refusals = [(ErrorCode.THROTTLED, _RATE)] * 10_000
    deliveries = [runner.send(producer, "orders", b"%d" % number, partition=0) for number in range(12)]
    runner.run(1_000)
    assert {type(delivery.error) for delivery in deliveries} == {errors.Throttled}
    assert all("produce_bytes_per_s of the tenant" in str(delivery.error) for delivery in deliveries)
    assert "delivery_timeout_ms=300" in str(deliveries[-1].error)
    runner.cluster.refusals = []
    later = runner.send(producer, "orders", b"later", partition=0)
    runner.run(1_000)
    assert later.receipt().offset == 0, "nothing of what was throttled is in the topic"


def test_a_partition_whose_stream_has_no_credit_because_of_another_ones_quota_fails_with_it_too() -> None:
    runner = Runner(brokers=1)
    runner.cluster.create("orders", 2)
    runner.cluster.credit_bytes = 1_000
    producer = runner.producer(batch_messages=1, delivery_timeout_ms=300)
    runner.cluster.keeps_credit = True
    runner.cluster.refusals = [(ErrorCode.THROTTLED, _RATE)] * 10_000
    first = runner.send(producer, "orders", bytes(700), partition=0)
    runner.run(5)
    other = runner.send(producer, "orders", bytes(700), partition=1)
    runner.run(1_000)
    assert isinstance(first.error, errors.Throttled)
    assert isinstance(other.error, errors.Throttled)


def test_whoever_waits_too_long_is_told_what_holds_the_message_up() -> None:
    runner = started()
    producer = runner.producer(batch_messages=1, buffer_bytes=2_000)
    runner.cluster.refusals = [(ErrorCode.THROTTLED, _RATE)] * 10_000
    delivery = runner.send(producer, "orders", bytes(1_500), partition=0)
    runner.run(100)
    assert delivery.batch.blocked_note == f"; blocked by Throttled: {_RATE}"
    with pytest.raises(errors.BufferFull, match="blocked by Throttled: produce_bytes_per_s"):
        raise producer.accumulator.buffer_full()
    runner.core.remove(producer, runner.now)
    assert isinstance(delivery.error, errors.Closed)
    assert "blocked by Throttled: produce_bytes_per_s" in delivery.error.message


def test_a_leader_that_cannot_be_reached_is_told_with_the_reason() -> None:
    runner = started()
    producer = runner.producer(delivery_timeout_ms=500)
    leader = runner.cluster.topics["orders"].partitions[0].leader
    runner.down = {leader: None}
    delivery = runner.send(producer, "orders", b"x", partition=0)
    runner.run(2_000)
    assert isinstance(delivery.error, errors.TimedOut)
    assert "could not be sent to its leader" in delivery.error.message
    assert "connection refused" in delivery.error.message


def test_without_sequence_numbers_one_batch_is_in_flight_and_the_order_holds() -> None:
    runner = started()
    producer = runner.producer(idempotent=False, batch_messages=1)
    runner.cluster.refusals = [(ErrorCode.NOT_ENOUGH_REPLICAS, "wait")] * 3
    deliveries = [runner.send(producer, "orders", b"%d" % number, partition=0) for number in range(4)]
    runner.run(1_000)
    assert [delivery.receipt().offset for delivery in deliveries] == [0, 1, 2, 3]
    assert producer.identity is None


def test_with_acks_0_nothing_is_awaited_and_nothing_is_numbered() -> None:
    runner = started()
    producer = runner.producer(acks=0)
    delivery = runner.send(producer, "orders", b"a", partition=0)
    runner.run(5)
    assert delivery.receipt().offset == -1
    assert log_of(runner, 0) == [b"a"]
    assert producer.identity is None


def test_with_acks_1_an_acknowledged_batch_that_vanished_stops_nothing() -> None:
    runner = started()
    producer = runner.producer(acks=1, batch_messages=1)
    runner.send(producer, "orders", b"a", partition=0)
    runner.send(producer, "orders", b"b", partition=0)
    runner.run(5)
    partition = runner.cluster.topics["orders"].partitions[0]
    partition.log.pop()
    partition.next_offset = 1
    for state in partition.producers.values():
        state.batches.pop()
    after = runner.send(producer, "orders", b"c", partition=0)
    runner.run(200)
    assert after.receipt().offset == 1
    assert log_of(runner, 0) == [b"a", b"c"]


def test_with_acks_all_a_sequence_the_broker_lost_is_told_and_not_papered_over() -> None:
    runner = started()
    producer = runner.producer(batch_messages=1)
    runner.send(producer, "orders", b"a", partition=0)
    runner.send(producer, "orders", b"b", partition=0)
    runner.run(5)
    for state in runner.cluster.topics["orders"].partitions[0].producers.values():
        state.batches.pop()
    delivery = runner.send(producer, "orders", b"c", partition=0)
    runner.run(200)
    assert isinstance(delivery.error, errors.OutOfOrderSequence)


@pytest.mark.parametrize("row", error_table(), ids=lambda row: row.code.name)
def test_every_error_of_the_table_ends_as_its_class_says(row: errors.ErrorRow) -> None:
    runner = started()
    producer = runner.producer(delivery_timeout_ms=2_000)
    runner.cluster.refusals = [(row.code, "as told")]
    delivery = runner.send(producer, "orders", b"a", partition=0)
    runner.run(3_000)
    if row.kind in (ErrorKind.RETRIABLE, ErrorKind.UNKNOWN_OUTCOME) or row.code is ErrorCode.NOT_FOUND:
        assert delivery.receipt().offset == 0
    else:
        assert delivery.error is not None
        assert type(delivery.error) is errors.error_class(row.code)
        assert delivery.error.belief is Belief.NOT_APPLIED
    after = runner.send(producer, "orders", b"b", partition=0)
    runner.run(3_000)
    assert after.done()
    assert after.error is None, "the producer goes on"


def test_a_broker_that_has_not_heard_of_the_topic_yet_is_asked_again() -> None:
    runner = started()
    producer = runner.producer()
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(5)
    runner.cluster.refusals = [(ErrorCode.NOT_FOUND, "no such topic")] * 3
    delivery = runner.send(producer, "orders", b"b", partition=0)
    runner.run(500)
    assert delivery.receipt().offset == 1


# ---- buffer and topics --------------------------------------------------------------------------------------


def test_a_full_buffer_takes_nothing_until_an_outcome_makes_room() -> None:
    runner = started()
    producer = runner.producer(buffer_bytes=5_000, linger_ms=1_000)
    runner.send(producer, "orders", bytes(2_000), partition=0)
    runner.send(producer, "orders", bytes(2_000), partition=0)
    route = producer.route("orders")
    assert route is not None
    assert (
        producer.accumulator.append(route, bytes(2_000), None, None, 1, 0, lambda: runner.now, SyncDelivery)
        is None
    )
    with pytest.raises(errors.BufferFull, match="buffer_bytes=5000"):
        producer.accumulator.rejected(route, 1, SyncDelivery)
    runner.run(1)
    assert producer.accumulator.buffered_bytes == 0, "a full buffer does not wait for the linger"
    runner.send(producer, "orders", bytes(2_000), partition=0)


def test_dropping_needs_acks_0_and_is_counted() -> None:
    runner = started()
    with pytest.raises(errors.ConfigurationError, match="acks=0"):
        runner.producer(on_full="drop")
    producer = runner.producer(on_full="drop", acks=0)
    runner.send(producer, "orders", b"known")
    route = producer.route("orders")
    assert route is not None
    delivery = producer.accumulator.rejected(route, 1, SyncDelivery)
    assert isinstance(delivery.error, errors.BufferFull)
    assert producer.accumulator.dropped_messages == 1


def test_a_deleted_topic_fails_what_waits_for_it_and_a_new_one_of_that_name_is_another() -> None:
    runner = started()
    producer = runner.producer(linger_ms=1_000)
    waiting = runner.send(producer, "orders", b"a", partition=0)
    runner.run(100)
    runner.cluster.delete("orders")
    runner.run(5)
    assert isinstance(waiting.error, errors.NotFound)
    runner.cluster.create("orders", 1)
    delivery = runner.send(producer, "orders", b"b")
    runner.run(2_000)
    assert delivery.receipt() == ("orders", 0, 0, 1_700_000_000_000, False)


def test_a_stream_may_end_after_the_topic_of_its_unanswered_batch_was_deleted() -> None:
    runner = started()
    producer = runner.producer()
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(20)
    leader = runner.cluster.topics["orders"].partitions[0].leader
    runner.cluster.silent[leader] = None
    delivery = runner.send(producer, "orders", b"b", partition=0)
    runner.run(20)
    runner.cluster.delete("orders")
    runner.run(20)
    assert isinstance(delivery.error, errors.OutcomeUnknown)
    runner.lose_streams(leader)
    runner.cluster.silent.clear()
    runner.cluster.create("orders", 1)
    again = runner.send(producer, "orders", b"c")
    runner.run(2_000)
    assert again.receipt().offset == 0


def test_new_partitions_are_used_as_soon_as_they_are_known() -> None:
    runner = started()
    producer = runner.producer()
    runner.send(producer, "orders", b"a")
    runner.run(100)
    runner.cluster.grow("orders", 5)
    runner.run(5)
    delivery = runner.send(producer, "orders", b"b", partition=4)
    runner.run(5)
    assert delivery.receipt().partition == 4


def test_closing_fails_what_was_not_sent_for_certain_and_what_was_as_unknown() -> None:
    runner = started()
    producer = runner.producer(batch_messages=1)
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(5)
    runner.cluster.silent[0] = None
    sent = runner.send(producer, "orders", b"b", partition=0)
    runner.run(5)
    runner.cluster.move("orders", 1, -1)
    runner.run(5)
    unsent = runner.send(producer, "orders", b"c", partition=1)
    runner.core.remove(producer, runner.now)
    assert isinstance(sent.error, errors.OutcomeUnknown)
    assert isinstance(unsent.error, errors.Closed)


def test_a_revoked_key_fails_what_waits_instead_of_retrying_for_ever() -> None:
    runner = started()
    producer = runner.producer(linger_ms=50)
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(100)
    delivery = runner.send(producer, "orders", b"b", partition=0)
    token = next(t for t, s in runner.streams.items() if s.method.endswith("Produce") and s.broker == 0)
    del runner.streams[token]
    runner.core.stream_lost(token, ErrorCode.UNAUTHENTICATED, "the API key was revoked", runner.now)
    assert isinstance(delivery.error, errors.Unauthenticated)


def test_a_queue_at_rest_has_no_gap_left() -> None:
    runner = started()
    producer = runner.producer(batch_messages=1)
    runner.cluster.refusals = [(ErrorCode.FORBIDDEN, "no")]
    runner.send(producer, "orders", b"a", partition=0)
    runner.send(producer, "orders", b"b", partition=0)
    runner.run(500)
    route = producer.route("orders")
    assert route is not None
    assert route.queues[0].gap is Gap.NONE
    assert route.queues[0].idle


# ---- outcomes are told --------------------------------------------------------------------------------------


def test_every_batch_is_handed_to_who_waits_for_it_once_whatever_became_of_it() -> None:
    runner = started()
    producer = runner.producer(batch_messages=1, delivery_timeout_ms=2_000)
    for count in (1, 2):
        runner.send(producer, "orders", b"good", partition=0)
        runner.run(5)
        assert [batch.error for batch in runner.settled] == [None] * count
    runner.cluster.refusals = [(ErrorCode.FORBIDDEN, "no")]
    runner.send(producer, "orders", b"refused", partition=0)
    runner.run(5)
    assert len(runner.settled) == 3 and isinstance(runner.settled[-1].error, errors.Forbidden)
    room = producer.accumulator.free_bytes
    runner.cluster.silent = dict.fromkeys(range(3))
    for partition in range(2):
        runner.send(producer, "orders", b"late", partition=partition)
    runner.run(10_000)
    assert len(runner.settled) == 5 and all(batch.done for batch in runner.settled)
    assert producer.failed_messages == 3
    assert producer.accumulator.free_bytes == room
    runner.send(producer, "orders", b"left", partition=0)
    runner.core.remove(producer, runner.now)
    runner.run(5)
    assert len(runner.settled) == 6 and isinstance(runner.settled[-1].error, errors.Closed)
    assert len({id(batch) for batch in runner.settled}) == 6


def test_a_leader_that_leads_again_in_a_newer_epoch_is_sent_what_waits_at_once() -> None:
    runner = started()
    producer = runner.producer()
    for count in (1, 2):
        runner.cluster.refusals = [(ErrorCode.NOT_LEADER, "not now")]
        delivery = runner.send(producer, "orders", b"x", partition=0)
        runner.run(2)
        assert not delivery.done(), "it waits before it tries again"
        runner.cluster.move("orders", 0, 0)
        runner.run(2)
        assert delivery.receipt().offset == count - 1
