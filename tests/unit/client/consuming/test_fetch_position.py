"""Where one partition is read from and how far: each event moves its position, and nothing of before comes back."""

from __future__ import annotations

import pytest

from penstock.client.cluster_view import NO_LEADER, UNKNOWN_EPOCH, PartitionView
from penstock.client.consuming.fetch_position import (
    LEADER_MS,
    LEADER_MS_MAX,
    FetchPosition,
    PositionState,
    seek_target,
)
from penstock.contract.errors import CorruptBatch, InvalidRequest
from penstock.contract.methods import BEGINNING, END
from penstock.records.batch import placed
from tests.unit.log.batches import made_batch

NOW = 5_000.0


def position() -> FetchPosition:
    return FetchPosition("orders", bytes(16), 3, 9)


def pushed(*bases: int, count: int = 2, epoch: int = 4) -> memoryview:
    """Batches of `count` messages that begin there."""
    batches = [b"".join(placed(made_batch(count, 40), base, epoch)) for base in bases]
    return memoryview(b"".join(batches))


def test_a_new_position_is_nowhere() -> None:
    made = position()
    assert (made.topic, made.partition, made.handle, made.label) == ("orders", 3, 9, "orders-3")
    assert (made.state, made.offset, made.fetch_offset, made.has_offset) == (
        PositionState.AWAITING_OFFSET,
        -1,
        -1,
        False,
    )
    assert (made.leader, made.nearest, made.broker, made.source) == (NO_LEADER,) * 4
    assert not made.readable and not made.paused and not made.withheld and not made.from_follower
    made.move_to(0)
    assert made.has_offset, "0 is a place"


def test_what_is_fetched_waits_in_order_and_the_position_stays_until_it_is_read() -> None:
    made = position()
    made.move_to(10, 2)
    made.add_fetched(pushed(10, 12, epoch=4))
    assert (made.offset, made.epoch, made.fetch_offset, made.fetch_epoch) == (10, 2, 14, 4)
    size = len(pushed(10))
    assert made.buffered_bytes == 2 * size and made.readable
    first = made.take_first()
    assert (first.next_offset, first.epoch, first.control, first.generation) == (
        12,
        4,
        False,
        made.generation,
    )
    assert made.buffered_bytes == size
    second = made.buffer[0]
    assert made.comes_next(second) and not made.comes_next(first)
    made.put_back(first)
    assert made.buffered_bytes == 2 * size and made.take_first() is first
    assert made.take_first() is second and made.buffered_bytes == 0 and not made.readable


def test_what_is_no_batch_is_an_error() -> None:
    with pytest.raises(CorruptBatch):
        position().add_fetched(memoryview(bytes(70)))


@pytest.mark.parametrize("why", ["paused", "withheld"])
def test_what_must_not_be_read_waits(why: str) -> None:
    made = position()
    made.move_to(10)
    made.add_fetched(pushed(10))
    setattr(made, why, True)
    assert not made.readable and not made.comes_next(made.buffer[0])
    setattr(made, why, False)
    assert made.readable


@pytest.mark.parametrize("how", ["moved", "looked up"])
def test_going_elsewhere_drops_what_waits_and_makes_pushes_of_before_stale(how: str) -> None:
    made = position()
    made.move_to(10, 2)
    made.add_fetched(pushed(10))
    made.part, made.partly_read = iter(()), made.take_first()
    made.failures, made.retry_at, made.lookup_sent = 3, NOW, True
    made.halt(InvalidRequest("no"))
    assert (made.state, made.lookup_sent, made.error is not None) == (PositionState.HALTED, False, True)
    made.lookup_sent = True
    before = (made.seek_epoch, made.generation)
    if how == "moved":
        made.target = END
        made.move_to(50, 6)
        assert (made.state, made.target) == (PositionState.READY, None)
        assert (made.offset, made.fetch_offset, made.epoch, made.fetch_epoch) == (50, 50, 6, 6)
    else:
        made.look_up(END)
        assert (made.state, made.target) == (PositionState.AWAITING_OFFSET, END)
        assert (made.offset, made.fetch_offset, made.epoch, made.fetch_epoch) == (
            -1,
            -1,
            *[UNKNOWN_EPOCH] * 2,
        )
    assert (made.seek_epoch, made.generation) == (before[0] + 1, before[1] + 1)
    assert made.error is None and not made.lookup_sent and not made.buffer and made.buffered_bytes == 0
    assert made.part is None and made.partly_read is None
    assert (made.failures, made.retry_at) == (0, 0.0)


@pytest.mark.parametrize(
    ("target", "skipped"), [(BEGINNING, None), (END, None), (None, None), (0, 0), (1_700, 1_700)]
)
def test_only_a_seek_to_a_time_leaves_out_what_is_earlier(target: int | None, skipped: int | None) -> None:
    made = position()
    made.look_up(1)
    made.look_up(target)
    assert (made.target, made.skip_before_ms) == (target, skipped)


def view(leader: int, epoch: int) -> PartitionView:
    return PartitionView(leader=leader, leader_epoch=epoch)


def test_another_leader_or_a_nearer_broker_is_followed_at_once_and_the_same_ones_change_nothing() -> None:
    made = position()
    made.move_to(10)
    assert not made.follow(view(1, 4), 2), "it is open nowhere"
    assert (made.leader, made.leader_epoch, made.nearest, made.source) == (1, 4, 2, 2)
    made.state, made.broker = PositionState.OPEN, 2
    assert made.from_follower
    made.failures, made.retry_at = 2, NOW
    made.back_to_leader(NOW)
    made.retry_at = NOW
    assert not made.follow(view(1, 4), 2)
    assert (made.failures, made.retry_at, made.turned_away) == (2, NOW, 1), "nothing is new"
    assert made.source == 1
    for moved, nearest in ((view(1, 5), 2), (view(3, 5), 2), (view(3, 5), 3)):
        made.failures, made.retry_at, made.leader_until, made.turned_away = 2, NOW, NOW, 3
        assert made.follow(moved, nearest), "open at what may be wrong now"
        assert (made.failures, made.retry_at, made.leader_until, made.turned_away) == (0, 0.0, 0.0, 0)
        assert made.source == nearest
    made.broker = 3
    assert not made.from_follower


def test_a_follower_that_does_not_serve_is_left_for_longer_each_time_up_to_a_bound() -> None:
    made = position()
    made.follow(view(1, 4), 2)
    waits = list[float]()
    for _ in range(14):
        made.retry_at = NOW
        made.back_to_leader(NOW)
        waits.append(made.leader_until - NOW)
        assert made.retry_at == 0.0 and made.source == 1
    assert waits[:3] == [LEADER_MS, 2 * LEADER_MS, 4 * LEADER_MS]
    assert waits[4:] == [LEADER_MS * 2**4, *[LEADER_MS_MAX] * 9]
    assert made.turned_away == 10


@pytest.mark.parametrize(
    ("named", "target"),
    [
        ((0, None, None), None), ((7, None, None), None), ((None, 0, None), 0), ((None, 1_700, None), 1_700),
        ((None, None, "beginning"), BEGINNING), ((None, None, "end"), END),
    ],
)  # fmt: skip
def test_a_seek_names_a_place_in_one_way(
    named: tuple[int | None, int | None, str | None], target: int | None
) -> None:
    assert seek_target(*named) == target


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ((None, None, None), "exactly one of offset, timestamp_ms and to"),
        ((1, 1, None), "exactly one"),
        ((None, 1, "end"), "exactly one"),
        ((1, None, "end"), "exactly one"),
        ((-1, None, None), "offset -1; 0 or more"),
        ((None, -1, None), "timestamp_ms -1; 0 or more"),
        ((None, None, "middle"), "to='middle' is neither"),
    ],
)
def test_a_seek_that_names_none_or_several_places_is_refused(
    named: tuple[int | None, int | None, str | None], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says):
        seek_target(*named)
