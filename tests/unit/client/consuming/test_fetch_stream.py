"""Frames of a consume stream: an end before a beginning, and before each end the bytes that were consumed."""

from __future__ import annotations

import pytest

from penstock.client.consuming import fetch_stream
from penstock.client.consuming.fetch_position import FetchPosition
from penstock.client.consuming.fetch_stream import FetchStream, FetchStreamState
from penstock.contract.frames import FrameKind, unpack_frame
from penstock.contract.v1 import log_pb2

OPEN, CREDIT, CLOSE = FrameKind.CONSUME_OPEN, FrameKind.CONSUME_CREDIT, FrameKind.CONSUME_CLOSE


def position(handle: int = 1) -> FetchPosition:
    """Partition `handle` of a topic, which broker 7 leads."""
    made = FetchPosition("orders", bytes(15) + b"\x01", handle, handle)
    made.move_to(100 + handle, 3)
    made.leader, made.leader_epoch, made.window = 7, 4, 1 << 16
    return made


def stream(broker: int = 7) -> FetchStream:
    made = FetchStream(broker, group="readers", zone="z1")
    made.opened(5, 1_000.0)
    return made


def said(of: FetchStream) -> list[tuple[FrameKind, list[tuple[int, ...]]]]:
    """Every frame that it has to send now: opened handles, (handle, generation, bytes), or closed handles."""
    frames: list[tuple[FrameKind, list[tuple[int, ...]]]] = []
    while (frame := of.next_frame()) is not None:
        frames.append(_read(frame))
    return frames


def _read(frame: bytes) -> tuple[FrameKind, list[tuple[int, ...]]]:
    kind, head, _ = unpack_frame(frame)
    data = bytes(head)
    if kind is OPEN:
        return kind, [
            (partition.handle,) for partition in log_pb2.ConsumeOpenHead.FromString(data).partitions
        ]
    if kind is CREDIT:
        credits = log_pb2.ConsumeCreditHead.FromString(data).credits
        return kind, [
            (partition.handle, partition.generation, partition.credit_bytes) for partition in credits
        ]
    return kind, [(handle,) for handle in log_pb2.ConsumeCloseHead.FromString(data).handles]


@pytest.mark.parametrize(("broker", "from_follower"), [(7, False), (8, True)])
def test_an_opening_says_where_and_how_far_and_from_whom(broker: int, from_follower: bool) -> None:
    made, opened = stream(broker), position(2)
    opened.fetch_offset = 140
    generation = opened.generation
    made.want_open(opened)
    assert opened.generation == generation + 1, "pushes of before are stale"
    kind, head, _ = unpack_frame(made.next_frame() or b"")
    opening = log_pb2.ConsumeOpenHead.FromString(bytes(head))
    assert (kind, opening.group, opening.zone) == (OPEN, "readers", "z1")
    (partition,) = opening.partitions
    assert (partition.handle, partition.topic_id, partition.partition) == (2, opened.topic_id, 2)
    assert (partition.generation, partition.offset, partition.last_epoch, partition.leader_epoch) == (
        generation + 1,
        140,
        3,
        4,
    )
    assert (partition.credit_bytes, partition.from_follower) == (1 << 16, from_follower)
    assert made.next_frame() is None


def test_what_ends_is_said_before_what_begins_and_credit_last() -> None:
    made = stream()
    first, second, third, fourth = map(position, range(1, 5))
    for partition in (first, second, third):
        made.want_open(partition)
    said(made)
    first.credit_owed, second.credit_owed = 10, 20
    made.want_credit(first)
    made.want_open(fourth)
    made.want_close(second)
    made.want_close(third)
    assert said(made) == [
        (CREDIT, [(2, second.generation, 20)]),
        (CLOSE, [(2,), (3,)]),
        (OPEN, [(4,)]),
        (CREDIT, [(1, first.generation, 10)]),
    ]
    assert (first.credit_owed, second.credit_owed) == (0, 0)


def test_what_was_not_open_is_not_closed_and_gets_no_credit() -> None:
    made, partition = stream(), position()
    partition.credit_owed = 10
    made.want_credit(partition)
    made.want_close(partition)
    assert said(made) == [] and partition.credit_owed == 0
    made.want_open(partition)
    made.want_close(partition)
    assert said(made) == [], "the broker never heard of it"
    made.want_open(partition)
    said(made)
    made.want_close(partition)
    made.want_close(partition)
    assert said(made) == [(CLOSE, [(1,)])], "one time"
    made.want_open(partition)
    assert said(made) == [(OPEN, [(1,)])]


def test_an_opening_in_place_of_another_reports_what_the_first_one_delivered() -> None:
    made, partition = stream(), position()
    made.want_open(partition)
    said(made)
    before = partition.generation
    partition.credit_owed = 30
    made.want_credit(partition)
    made.want_open(partition)
    assert said(made) == [(CREDIT, [(1, before, 30)]), (OPEN, [(1,)])]
    partition.credit_owed = 5
    made.want_open(partition)
    partition.credit_owed = 6
    made.want_credit(partition)
    assert said(made) == [(CREDIT, [(1, before + 1, 5)]), (OPEN, [(1,)])], (
        "no credit for what is not open yet"
    )


def test_what_is_closed_and_opened_again_before_the_broker_hears_of_it_is_only_opened() -> None:
    made, partition, other = stream(), position(1), position(2)
    made.want_open(partition)
    made.want_open(other)
    said(made)
    made.want_close(partition)
    made.want_open(partition)
    assert said(made) == [(OPEN, [(1,)])]
    made.want_close(other)
    assert said(made) == [(CLOSE, [(2,)])]


def test_what_the_broker_closed_itself_is_not_closed_again() -> None:
    made, partition = stream(), position()
    made.want_open(partition)
    said(made)
    partition.credit_owed = 7
    made.want_credit(partition)
    made.forget(partition)
    made.want_close(partition)
    assert said(made) == [] and made.positions == {}


def test_a_new_stream_knows_nothing_of_what_the_last_one_had_to_say() -> None:
    made = stream()
    opened, closing, waiting = map(position, range(1, 4))
    made.want_open(opened)
    made.want_open(closing)
    said(made)
    opened.credit_owed = closing.credit_owed = 9
    made.want_credit(opened)
    made.want_close(closing)
    made.want_open(waiting)
    made.probed = True
    made.opened(6, 2_000.0)
    assert (made.token, made.last_heard, made.probed, made.positions) == (6, 2_000.0, False, {})
    assert said(made) == []
    made.want_credit(opened)
    made.want_close(opened)
    assert said(made) == [], "it is not open here"
    made.want_open(closing)
    made.want_close(closing)
    assert said(made) == [], "this broker has not heard of it"


def test_a_stream_that_is_not_open_says_nothing() -> None:
    made, partition = FetchStream(7), position()
    made.want_open(partition)
    assert made.next_frame() is None
    made.opened(5, 0.0)
    made.want_open(partition)
    made.state = FetchStreamState.CLOSED
    assert made.next_frame() is None


def test_a_stream_that_ends_in_order_reports_all_that_was_consumed_and_opens_nothing_more() -> None:
    made = stream()
    first, second, third, late = map(position, range(1, 5))
    for partition in (first, second, third):
        made.want_open(partition)
    said(made)
    first.credit_owed, third.credit_owed = 11, 13
    made.want_close(third)
    made.want_open(late)
    late.credit_owed = 99
    frames = [_read(frame) for frame in made.last_frames()]
    assert frames[0] == (CREDIT, [(3, third.generation, 13)])
    assert (1, first.generation, 11) in frames[1][1] and all(partition[0] != 2 for partition in frames[1][1])
    assert len(frames) == 2


@pytest.mark.pure
def test_frames_are_bounded_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_stream, "ENTRIES_PER_FRAME_MAX", 2)
    made, several = stream(), [position(handle) for handle in range(1, 6)]
    for partition in several:
        made.want_open(partition)
    assert [len(entries) for _, entries in said(made)] == [2, 2, 1]
    for partition in several:
        partition.credit_owed = partition.handle
        made.want_credit(partition)
    credited = said(made)
    assert [kind for kind, _ in credited] == [CREDIT] * 3
    assert [entry[2] for _, entries in credited for entry in entries] == [1, 2, 3, 4, 5]
    for partition in several:
        partition.credit_owed = 10 * partition.handle
        made.want_close(partition)
    ended = said(made)
    assert [(kind, len(entries)) for kind, entries in ended] == [
        (CREDIT, 2), (CREDIT, 2), (CREDIT, 1), (CLOSE, 2), (CLOSE, 2), (CLOSE, 1),
    ]  # fmt: skip
    assert [entry[0] for kind, entries in ended if kind is CLOSE for entry in entries] == [1, 2, 3, 4, 5]
