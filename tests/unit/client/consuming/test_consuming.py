"""What a consumer's core decides, against a fake cluster in virtual time."""

from __future__ import annotations

import struct

import crc32c
import pytest

from penstock.client.actions import CloseStream
from penstock.client.consuming.consumer import ConsumerCore
from penstock.client.consuming.fetch_collector import INFLATED_BYTES_MAX, FetchCollector
from penstock.contract import errors, limits
from penstock.contract.errors import ErrorCode
from penstock.contract.methods import BEGINNING, END
from penstock.records.batch import CONTROL
from tests.unit.client.fake_cluster import ConsumeSession, FakePartition
from tests.unit.client.runner import Runner


def filled(count: int = 10, partitions: int = 1, batch_messages: int = 3) -> Runner:
    """A topic `orders` whose partition p holds b"p:0", b"p:1", ..."""
    runner = Runner()
    runner.cluster.create("orders", partitions)
    fill(runner, count, batch_messages=batch_messages)
    return runner


def fill(runner: Runner, count: int, start: int = 0, batch_messages: int = 3) -> None:
    producer = runner.producer(batch_messages=batch_messages)
    for number in range(start, start + count):
        for partition in range(len(runner.cluster.topics["orders"].partitions)):
            value = b"%d:%d" % (partition, number)
            runner.send(producer, "orders", value, partition=partition, timestamp_ms=1_000_000 + number)
    runner.run(100)
    runner.core.remove(producer, runner.now)
    runner.run(0)


def values(runner: Runner, consumer: ConsumerCore, count: int = 1_000) -> list[bytes | None]:
    return [message.value for message in runner.poll(consumer, count)]


def sessions(runner: Runner) -> list[ConsumeSession]:
    return [stream.session for stream in runner.streams.values() if stream.session is not None]


def expected(numbers: range, partition: int = 0) -> list[bytes]:
    return [b"%d:%d" % (partition, number) for number in numbers]


def test_all_partitions_are_read_from_the_beginning_in_order() -> None:
    runner = filled(partitions=3)
    consumer = runner.consumer("orders")
    messages = runner.poll(consumer)
    for partition in range(3):
        mine = [message for message in messages if message.partition == partition]
        assert [message.value for message in mine] == expected(range(10), partition)
        assert [message.offset for message in mine] == list(range(10))
        assert mine[4].timestamp_ms == 1_000_004
        assert mine[4].topic == "orders"


def test_a_poll_hands_out_no_more_than_asked_and_the_next_goes_on_there() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer, 4) == expected(range(4))
    assert consumer.position("orders", 0).offset == 4
    assert values(runner, consumer, 2) == expected(range(4, 6))
    assert values(runner, consumer) == expected(range(6, 10))


def test_batches_come_whole_and_begin_where_a_poll_left_off() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer, 4) == expected(range(4))
    runner.run(10)
    collector = FetchCollector(
        consumer.next_fetched,
        lambda fetched: consumer.finished(fetched, runner.now),
        consumer.skipping.unreadable,
        consumer.skipping.malformed,
        consumer.skipping.undecodable,
    )
    batches = collector.batches(100)
    assert [list(batch.values) for batch in batches] == [
        expected(range(4, 6)),
        expected(range(6, 9)),
        expected(range(9, 10)),
    ]
    assert list(batches[1].offsets) == [6, 7, 8]
    assert [message.value for message in batches[1]] == expected(range(6, 9))


def test_latest_begins_at_the_end() -> None:
    runner = filled()
    consumer = runner.consumer("orders", auto_offset_reset="latest")
    assert values(runner, consumer) == []
    fill(runner, 2, start=10)
    assert values(runner, consumer) == expected(range(10, 12))


def test_without_a_rule_where_to_begin_nothing_is_read_before_a_seek() -> None:
    runner = filled()
    consumer = runner.consumer("orders", auto_offset_reset="error")
    with pytest.raises(errors.OffsetOutOfRange, match="orders-0: no position"):
        runner.poll(consumer)
    consumer.seek(consumer.position("orders", 0), offset=7)
    assert values(runner, consumer) == expected(range(7, 10))


@pytest.mark.parametrize(
    ("place", "first"),
    [
        ({"offset": 4}, 4),
        ({"timestamp_ms": 1_000_006}, 6),
        ({"timestamp_ms": BEGINNING}, 0),
        ({"timestamp_ms": 2_000_000}, 10),
        ({"timestamp_ms": END}, 10),
    ],
)
def test_a_seek_goes_to_an_offset_a_time_the_beginning_or_the_end(place: dict[str, int], first: int) -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer, 2) == expected(range(2))
    consumer.seek(consumer.position("orders", 0), **place)
    assert values(runner, consumer) == expected(range(first, 10))


def test_a_seek_drops_what_was_fetched_before_it() -> None:
    runner = filled(30, batch_messages=1)
    consumer = runner.consumer("orders")
    assert values(runner, consumer, 20) == expected(range(20))
    position = consumer.position("orders", 0)
    old = list(position.buffer)
    assert old
    consumer.seek(position, offset=5)
    consumer.finished(old[-1], runner.now)
    assert position.offset == 5, "a batch of before the seek moves nothing"
    assert values(runner, consumer) == expected(range(5, 30))


def test_a_push_of_an_earlier_generation_is_dropped() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    runner.poll(consumer, 1)
    (session,) = sessions(runner)
    session.opened[1].offset = 0
    late = session.pushes()
    assert late
    runner.cluster.silent[0] = None
    consumer.seek(consumer.position("orders", 0), offset=9)
    runner.run(0)
    token = next(token for token, stream in runner.streams.items() if stream.session is session)
    for push in late:
        runner.core.frame_received(token, push, runner.now)
    assert not consumer.position("orders", 0).buffer


def test_credit_bounds_what_waits_and_returns_when_it_is_consumed() -> None:
    runner = Runner()
    runner.cluster.create("orders", 1)
    producer = runner.producer(batch_messages=1)
    for _ in range(100):
        runner.send(producer, "orders", bytes(1_000), partition=0)
    runner.run(100)
    consumer = runner.consumer("orders", partition_fetch_bytes=10_000)
    assert len(runner.poll(consumer, 1)) == 1
    position = consumer.position("orders", 0)
    assert 8_000 < position.buffered_bytes < 12_000
    assert len(runner.poll(consumer, 98)) == 98
    runner.run(1_500)
    (session,) = sessions(runner)
    total = sum(len(batch) for _, batch in runner.cluster.topics["orders"].partitions[0].log)
    assert len(runner.poll(consumer, 1)) == 1
    runner.run(500)
    assert session.credit_returned < total, "a few bytes wait for company"
    runner.run(1_000)
    assert session.credit_returned == total, "even the last few bytes are told within a second or so"


def test_a_new_leader_is_followed_and_nothing_is_read_twice_or_missed() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer, 4) == expected(range(4))
    runner.cluster.move("orders", 0, 2)
    runner.run(5)
    fill(runner, 5, start=10)
    assert values(runner, consumer) == expected(range(4, 15))


def test_a_silent_leader_is_left_as_soon_as_another_is_known() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer) == expected(range(10))
    runner.cluster.silent[0] = None
    runner.cluster.move("orders", 0, 1)
    runner.run(50)
    fill(runner, 3, start=10)
    runner.run(10)
    assert values(runner, consumer) == expected(range(10, 13))


def test_a_broken_stream_is_opened_anew_where_it_was() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer, 4) == expected(range(4))
    runner.lose_streams(0)
    runner.run(500)
    fill(runner, 2, start=10)
    assert values(runner, consumer) == expected(range(4, 12))


def test_a_stream_that_died_without_a_word_is_noticed_by_asking() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer) == expected(range(10))
    (session,) = sessions(runner)
    stream = next(stream for stream in runner.streams.values() if stream.session is session)
    stream.session = ConsumeSession(runner.cluster, 99)  # swallowed by the network
    stream.session.pushes = list  # type: ignore[method-assign]
    fill(runner, 3, start=10)
    runner.run(20_000)
    assert values(runner, consumer) == expected(range(10, 13))


def test_an_idle_stream_that_answers_its_probe_is_kept() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer) == expected(range(10))
    (session,) = sessions(runner)
    runner.run(60_000)
    assert sessions(runner) == [session]
    assert [opened.offset for opened in session.opens[1:]] == [10] * (len(session.opens) - 1)


def test_truncation_is_told_with_the_offset_where_the_logs_part_and_never_skipped() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer) == expected(range(10))
    partition = runner.cluster.topics["orders"].partitions[0]
    partition.truncated_at = 6
    runner.cluster.move("orders", 0, 1)
    runner.run(50)
    with pytest.raises(errors.LogTruncated, match="part at offset 6") as caught:
        runner.poll(consumer)
    assert caught.value.divergence_offset == 6
    with pytest.raises(errors.LogTruncated):
        runner.poll(consumer)
    partition.truncated_at = None
    consumer.seek(consumer.position("orders", 0), offset=6)
    assert values(runner, consumer) == expected(range(6, 10))


def test_positions_carry_the_epoch_of_the_record_before_them() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    runner.poll(consumer)
    runner.cluster.move("orders", 0, 1)
    runner.run(50)
    opened = sessions(runner)[-1].opens[-1]
    assert (opened.offset, opened.last_epoch, opened.leader_epoch) == (10, 1, 2)


@pytest.mark.parametrize(("reset", "first"), [("earliest", 6), ("latest", 12)])
def test_a_position_that_retention_removed_goes_by_the_rule(reset: str, first: int) -> None:
    runner = filled(12)
    consumer = runner.consumer("orders", auto_offset_reset=reset)
    consumer.prepare()
    runner.run(0)
    consumer.prepare()
    partition = runner.cluster.topics["orders"].partitions[0]
    partition.log_start = 6
    partition.log = [(base, batch) for base, batch in partition.log if base >= 6]
    consumer.seek(consumer.position("orders", 0), offset=2)
    assert values(runner, consumer) == expected(range(first, 12))


def test_a_position_out_of_range_without_a_rule_is_an_error() -> None:
    runner = filled()
    consumer = runner.consumer("orders", auto_offset_reset="error")
    consumer.prepare()
    runner.run(0)
    consumer.prepare()
    consumer.seek(consumer.position("orders", 0), offset=99)
    with pytest.raises(errors.OffsetOutOfRange):
        runner.poll(consumer)


def test_new_partitions_are_read_from_their_beginning_even_with_latest() -> None:
    runner = filled()
    consumer = runner.consumer("orders", auto_offset_reset="latest")
    assert values(runner, consumer) == []
    topic = runner.cluster.topics["orders"]
    first, *_ = topic.partitions[0].log
    topic.partitions.append(FakePartition(leader=0, log=[first], next_offset=3))
    runner.cluster.changed()
    assert values(runner, consumer) == expected(range(3)), "they were there before the consumer knew of it"


def test_assignment_reads_only_what_it_names_and_keeps_positions() -> None:
    runner = filled(partitions=3)
    consumer = runner.consumer()
    consumer.assign([("orders", 1), ("orders", 2)])
    assert {message.partition for message in runner.poll(consumer)} == {1, 2}
    consumer.assign([("orders", 2), ("orders", 0)])
    messages = runner.poll(consumer)
    assert {message.partition for message in messages} == {0}
    assert [message.value for message in messages] == expected(range(10), 0)


def test_assignment_of_a_partition_that_does_not_exist_is_refused() -> None:
    runner = filled(partitions=3)
    consumer = runner.consumer()
    consumer.assign([("orders", 3)])
    with pytest.raises(errors.NotFound, match="orders: no partition 3"):
        runner.poll(consumer)


def test_a_paused_partition_hands_out_nothing_and_goes_on_where_it_was() -> None:
    runner = filled(partitions=2)
    consumer = runner.consumer("orders")
    runner.poll(consumer, 2)
    position = consumer.position("orders", 0)
    offset = position.offset
    consumer.pause(position)
    assert {message.partition for message in runner.poll(consumer)} == {1}
    consumer.resume("orders", 0)
    assert values(runner, consumer) == expected(range(offset, 10))


def test_a_partition_taken_in_turn_does_not_starve_the_others() -> None:
    runner = filled(partitions=3, batch_messages=2)
    consumer = runner.consumer("orders")
    first = runner.poll(consumer, 6)
    assert {message.partition for message in first} == {0, 1, 2}


def test_a_damaged_batch_is_never_handed_out() -> None:
    runner = filled()
    partition = runner.cluster.topics["orders"].partitions[0]
    base, batch = partition.log[1]
    partition.log[1] = (base, batch[:-1] + bytes([batch[-1] ^ 1]))
    consumer = runner.consumer("orders")
    assert values(runner, consumer) == expected(range(3))
    with pytest.raises(errors.CorruptBatch, match="orders-0: at offset 3"):
        runner.poll(consumer)


def test_an_unknown_topic_is_refused_and_found_once_it_exists() -> None:
    runner = Runner()
    consumer = runner.consumer("orders")
    with pytest.raises(errors.NotFound, match="orders"):
        runner.poll(consumer)
    runner.cluster.create("orders", 1)
    fill(runner, 2)
    assert values(runner, consumer) == expected(range(2))


def test_a_topic_deleted_under_a_reader_is_an_error() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    runner.poll(consumer)
    runner.cluster.delete("orders")
    runner.run(50)
    with pytest.raises(errors.NotFound):
        runner.poll(consumer)


def test_offsets_of_both_ends_are_asked_of_each_leader() -> None:
    runner = filled(partitions=3)
    runner.cluster.topics["orders"].partitions[1].log_start = 4
    consumer = runner.consumer("orders")
    runner.poll(consumer)
    places = sorted(consumer.positions)
    ends, failures = consumer.list_offsets(places, END, runner.now + 1_000)
    beginnings, _ = consumer.list_offsets(places, BEGINNING, runner.now + 1_000)
    runner.run(100)
    assert not failures
    assert ends == {("orders", 0): 10, ("orders", 1): 10, ("orders", 2): 10}
    assert beginnings == {("orders", 0): 0, ("orders", 1): 4, ("orders", 2): 0}


def test_a_revoked_key_ends_reading_with_its_reason() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    runner.poll(consumer)
    token = next(token for token, stream in runner.streams.items() if stream.session is not None)
    del runner.streams[token]
    runner.core.stream_lost(token, ErrorCode.UNAUTHENTICATED, "the API key was revoked", runner.now)
    with pytest.raises(errors.Unauthenticated, match="revoked"):
        runner.poll(consumer)


def test_one_poll_parses_no_more_than_a_bounded_stretch_and_the_next_goes_on_there() -> None:
    """Else a topic full of small batches that inflate to much would keep a group's member from its beats."""
    runner = Runner()
    runner.cluster.create("orders", 1)
    producer = runner.producer(buffer_bytes=1 << 24, compression="zstd", batch_bytes=1 << 20)
    for _ in range(10):
        runner.send(producer, "orders", bytes(1_000_000), partition=0)
    runner.run(100)
    consumer = runner.consumer("orders")
    for _ in range(2):
        consumer.prepare()
        runner.run(50)
    hands = FetchCollector(
        consumer.next_fetched,
        lambda fetched: consumer.finished(fetched, runner.now),
        consumer.skipping.unreadable,
        consumer.skipping.malformed,
        consumer.skipping.undecodable,
    )
    assert [len(hands.messages(1_000)), len(hands.batches(1_000))] == [5, 5]
    assert consumer.position("orders", 0).offset == 10
    assert INFLATED_BYTES_MAX == 4 * limits.MIB


def test_the_positions_of_a_topic_are_its_own_by_partition() -> None:
    runner = filled(partitions=3)
    runner.cluster.create("others", 2)
    consumer = runner.consumer("others", "orders")
    runner.poll(consumer)
    for topic, partitions in (("orders", 3), ("others", 2)):
        found = consumer.positions_of(topic)
        assert [(position.topic, position.partition) for position in found] == [
            (topic, number) for number in range(partitions)
        ]
    with pytest.raises(errors.NotFound, match="nothing: not read by this consumer"):
        consumer.positions_of("nothing")


def test_a_stream_that_is_reported_lost_twice_is_lost_once() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer, 4) == expected(range(4))
    lost = [token for token, stream in runner.streams.items() if stream.session is not None]
    for _ in range(2):
        for token in lost:
            runner.core.stream_lost(token, None, "connection reset", runner.now)
    runner.run(500)
    assert values(runner, consumer) == expected(range(4, 10))
    for token in [*lost, 999]:
        runner.core.stream_lost(token, None, "connection reset", runner.now)
    fill(runner, 2, start=10)
    assert values(runner, consumer) == expected(range(10, 12))


def test_control_batches_are_passed_over_and_counted_as_read() -> None:
    runner = filled(9)
    partition = runner.cluster.topics["orders"].partitions[0]
    for number in (0, 2):
        base, batch = partition.log[number]
        partition.log[number] = (base, as_control(batch))
    consumer = runner.consumer("orders")
    assert values(runner, consumer) == expected(range(3, 6))
    runner.run(2_000)
    assert consumer.position("orders", 0).offset == 9
    (session,) = sessions(runner)
    assert session.credit_returned == sum(len(batch) for _, batch in partition.log)


def as_control(batch: bytes) -> bytes:
    """The same batch as one that holds no messages for applications."""
    covered = struct.pack(">H", int.from_bytes(batch[21:23], "big") | CONTROL) + batch[23:]
    return batch[:17] + struct.pack(">I", crc32c.crc32c(covered)) + covered


def test_a_consumer_that_is_closed_twice_ends_its_streams_once_and_leaves_those_of_others() -> None:
    runner = filled(partitions=3)
    closed, other = runner.consumer("orders"), runner.consumer("orders")
    assert len(values(runner, closed)) == len(values(runner, other)) == 30
    before = len(sessions(runner))
    ended: list[int] = []
    for _ in range(2):
        closed.close(runner.now)
        ended.append(sum(isinstance(action, CloseStream) for action in runner.core.actions))
        runner.run(10)
    assert ended == [before // 2, 0]
    assert len(sessions(runner)) == before // 2


@pytest.mark.parametrize("reported", [False, True])
def test_a_stream_that_ends_reports_the_bytes_that_were_consumed_last_and_only_those(reported: bool) -> None:
    runner = filled(count=30)
    consumer = runner.consumer("orders", partition_fetch_bytes=1_000)
    runner.poll(consumer, 1)
    runner.run(1_000)
    if not reported:
        while len(runner.poll(consumer, 6)) < 6:
            pass
    (position,) = consumer.positions.values()
    owed = position.credit_owed
    consumer.close(runner.now)
    (ended,) = [action for action in runner.core.actions if isinstance(action, CloseStream)]
    assert (owed > 0) is bool(ended.last) is not reported
