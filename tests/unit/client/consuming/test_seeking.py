"""A position that is moved again: what the last seek says holds, and nothing of the seeks before it."""

import pytest

from penstock.client.consuming.fetch_position import seek_target
from penstock.contract.errors import ErrorCode, Forbidden, InvalidRequest, NotFound, OffsetOutOfRange
from penstock.contract.frames import FrameKind, pack_frame
from penstock.contract.methods import BEGINNING, END
from penstock.contract.v1 import log_pb2
from tests.unit.client.consuming.test_consuming import expected, fill, filled, values
from tests.unit.client.runner import Runner

BASE_MS = 1_000_000


@pytest.mark.parametrize(
    ("second", "first_read"),
    [({"offset": 4}, 4), ({"timestamp_ms": BASE_MS + 5}, 5), ({"timestamp_ms": BEGINNING}, 0)],
)
def test_a_seek_after_a_seek_to_a_time_leaves_out_nothing_for_the_first_one(
    second: dict[str, int], first_read: int
) -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    values(runner, consumer)
    position = consumer.position("orders", 0)
    consumer.seek(position, timestamp_ms=BASE_MS + 8)
    assert values(runner, consumer) == expected(range(8, 10))
    consumer.seek(position, **second)
    assert values(runner, consumer) == expected(range(first_read, 10))


def test_seeks_at_once_count_by_the_last() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    values(runner, consumer)
    position = consumer.position("orders", 0)
    consumer.seek(position, offset=2)
    consumer.seek(position, timestamp_ms=BASE_MS + 7)
    consumer.seek(position, offset=5)
    assert values(runner, consumer) == expected(range(5, 10))
    consumer.seek(position, offset=5)
    consumer.seek(position, timestamp_ms=BASE_MS + 7)
    assert values(runner, consumer) == expected(range(7, 10))


def test_a_lookup_that_fails_after_a_later_seek_moves_nothing() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    values(runner, consumer)
    position = consumer.position("orders", 0)
    runner.cluster.silent.update(dict.fromkeys(runner.cluster.brokers))
    consumer.seek(position, timestamp_ms=END)
    runner.run(10)
    consumer.seek(position, offset=3)
    runner.cluster.silent.clear()
    runner.run(120_000)
    assert position.offset == 3
    assert values(runner, consumer) == expected(range(3, 10))


def test_a_seek_to_the_end_is_passed_by_what_comes_later_only() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    values(runner, consumer)
    position = consumer.position("orders", 0)
    for number in (10, 12):
        consumer.seek(position, timestamp_ms=END)
        assert values(runner, consumer) == []
        fill(runner, 2, start=number)
        assert values(runner, consumer) == expected(range(number, number + 2))


def test_a_seek_names_exactly_one_place() -> None:
    assert seek_target(0, None, None) is None
    assert seek_target(None, 0, None) == 0
    assert seek_target(None, None, "beginning") == BEGINNING
    assert seek_target(None, None, "end") == END
    for wrong in ((None, None, None), (1, 1, None), (1, None, "end"), (None, 1, "beginning")):
        with pytest.raises(InvalidRequest, match="exactly one"):
            seek_target(*wrong)
    for below in ((-1, None, None), (None, -1, None)):
        with pytest.raises(InvalidRequest, match="-1; 0 or more required"):
            seek_target(*below)
    with pytest.raises(InvalidRequest, match="neither"):
        seek_target(None, None, "middle")


@pytest.mark.parametrize("code", [ErrorCode.FORBIDDEN, ErrorCode.NOT_LEADER])
def test_a_question_for_an_offset_ends_with_a_refusal_or_is_asked_again(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    values(runner, consumer)
    answers = [code]
    listed = runner.cluster._list_offsets

    def refused_once(broker: int, request: log_pb2.ListOffsetsRequest) -> bytes:
        if not answers:
            return listed(broker, request)
        response = log_pb2.ListOffsetsResponse()
        response.partitions.add(error=answers.pop(), message="once", offset=-1)
        return response.SerializeToString()

    monkeypatch.setattr(runner.cluster, "_list_offsets", refused_once)
    for _ in range(2):
        answers[:] = [code]
        ends, failures = consumer.list_offsets([("orders", 0)], END, runner.now + 10_000)
        runner.run(5_000)
        if code is ErrorCode.FORBIDDEN:
            assert (ends, [type(failure) for failure in failures]) == ({}, [Forbidden])
        else:
            assert (ends, failures) == ({("orders", 0): 10}, [])


def test_offsets_that_cannot_be_told_in_time_fail_each_with_its_reason_and_the_others_are_told() -> None:
    runner = filled(partitions=4)
    consumer = runner.consumer("orders")
    values(runner, consumer)
    runner.cluster.move("orders", 1, -1)
    silent = runner.cluster.topics["orders"].partitions[2].leader
    assert runner.cluster.topics["orders"].partitions[0].leader != silent
    runner.cluster.silent[silent] = None
    runner.run(10)
    asked = [("orders", number) for number in (0, 1, 2, 9)]
    ends, failures = consumer.list_offsets(asked, END, runner.now + 3_000)
    runner.run(2_900)
    assert (ends, failures) == ({("orders", 0): 10}, [])
    runner.run(200)
    assert ends == {("orders", 0): 10}
    assert sorted(str(failure) for failure in failures) == [
        "orders-1: no leader now",
        "orders-2: its leader did not answer with the offset in time",
        "orders-9: no leader now",
    ]


def test_an_answer_for_other_partitions_than_asked_is_none_and_the_question_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = filled(partitions=1)
    consumer = runner.consumer("orders")
    values(runner, consumer)
    listed, answers = runner.cluster._list_offsets, [log_pb2.ListOffsetsResponse()]
    answers[0].partitions.add(offset=3)
    answers[0].partitions.add(offset=4)

    def other_first(broker: int, request: log_pb2.ListOffsetsRequest) -> bytes:
        return answers.pop().SerializeToString() if answers else listed(broker, request)

    monkeypatch.setattr(runner.cluster, "_list_offsets", other_first)
    ends, failures = consumer.list_offsets([("orders", 0)], END, runner.now + 10_000)
    runner.run(5_000)
    assert (ends, failures) == ({("orders", 0): 10}, [])


def test_a_position_whose_offset_is_refused_for_good_stands_still_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    values(runner, consumer)
    position = consumer.position("orders", 0)
    refused = log_pb2.ListOffsetsResponse()
    refused.partitions.add(error=ErrorCode.FORBIDDEN, message="no", offset=-1)
    monkeypatch.setattr(runner.cluster, "_list_offsets", lambda broker, request: refused.SerializeToString())
    consumer.seek(position, timestamp_ms=END)
    runner.run(1_000)
    with pytest.raises(Forbidden):
        consumer.raise_halted()


def test_what_is_assigned_anew_is_read_alone_and_keeps_its_position() -> None:
    runner = filled(partitions=2)
    runner.cluster.create("logs", 1)
    consumer = runner.consumer("orders", "logs")
    values(runner, consumer)
    consumer.assign([("orders", 1)])
    consumer.prepare()
    assert consumer.assignment() == [("orders", 1)]
    assert consumer.position("orders", 1).offset == 10
    runner.run(100)
    assert "logs" not in runner.core.view.topics, "nobody uses it any more"
    with pytest.raises(NotFound, match="orders: no partition 7; it has 2, 0 to 1"):
        consumer.assign([("orders", 7)])
        consumer.prepare()


def test_a_stream_that_brings_what_has_no_place_on_it_is_opened_again() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    values(runner, consumer)
    (token,) = [token for token, stream in runner.streams.items() if stream.session is not None]
    runner.core.frame_received(token, pack_frame(FrameKind.PRODUCE, b""), runner.now)
    runner.run(2_000)
    again = [other for other, stream in runner.streams.items() if stream.session is not None]
    assert len(again) == 1 and again != [token]
    fill(runner, 1, start=10)
    assert values(runner, consumer) == expected(range(10, 11))


def test_a_broker_that_does_not_know_a_topic_yet_is_asked_again_as_long_as_the_topic_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer, 1) == expected(range(1))
    runner.lose_streams(consumer.position("orders", 0).leader)
    with monkeypatch.context() as behind:
        behind.setattr(runner.cluster, "find", lambda topic_id, partition: None)
        runner.run(1_000)
        consumer.raise_halted()
        assert consumer.position("orders", 0).failures > 0
    assert values(runner, consumer) == expected(range(1, 10))


def test_a_topic_without_partitions_is_waited_for_as_one_that_is_not_known() -> None:
    runner = Runner()
    runner.cluster.create("orders", 0)
    consumer = runner.consumer("orders")
    for _ in range(2):
        assert consumer.prepare() == "orders"
        runner.run(100)
    runner.cluster.grow("orders", 1)
    runner.run(100)
    assert consumer.prepare() is None
    assert consumer.assignment() == [("orders", 0)]


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_an_offset_beyond_the_end_that_was_sought_is_an_error_until_another_seek(reset: str) -> None:
    runner = filled()
    consumer = runner.consumer("orders", auto_offset_reset=reset)
    consumer.prepare()
    runner.run(0)
    consumer.prepare()
    position = consumer.position("orders", 0)
    consumer.seek(position, offset=11)
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange) as refused:
            runner.poll(consumer)
        assert (refused.value.offset, refused.value.beyond_end) == (11, True)
    consumer.seek(position, offset=10)
    fill(runner, 1, start=10)
    assert values(runner, consumer) == expected(range(10, 11))


def test_a_position_that_is_reset_is_logged_with_what_it_was(caplog: pytest.LogCaptureFixture) -> None:
    """A position before the start goes on at the start; so does one that a truncation left behind."""
    runner = filled(count=12)
    consumer = runner.consumer("orders")
    values(runner, consumer)
    partition = runner.cluster.topics["orders"].partitions[0]
    partition.log_start = 6
    partition.log = [(base, batch) for base, batch in partition.log if base >= 6]
    position = consumer.position("orders", 0)
    consumer.seek(position, offset=2)
    assert values(runner, consumer) == expected(range(6, 12))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "goes on at the earliest offset" in record.getMessage()

    consumer.seek(position, offset=7)
    assert values(runner, consumer) == expected(range(7, 12))
    partition.log, partition.next_offset = [(base, batch) for base, batch in partition.log if base < 9], 9
    runner.lose_streams(partition.leader)
    assert values(runner, consumer) == expected(range(6, 9)), (
        "nothing was sought: the rule holds beyond the end too"
    )
    assert len(caplog.records) == 2
