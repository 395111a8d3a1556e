"""The start of a log that begins above 0: what lies below is kept whole, or not known."""

import pytest

from data_plane.log import layout
from data_plane.log.start_state import NOTHING_KNOWN, StartState, keep_start, read_start
from data_plane.testkit.disk import SimDisk
from penstock.records.stamp import stamp_seed
from penstock.rules.odometer import Odometer
from tests.unit.log.batches import made_batch, with_header
from tests.unit.log.miniature import Miniature, where

SEED = stamp_seed(where())
HERE = "partition"


def state_of_a_leader() -> StartState:
    leader = Miniature(tail_bytes=0)
    leader.create()
    for number in range(30):
        leader.append(batch=made_batch(2, 400, producer_id=number, epoch=0, sequence=0, fill=number))
        leader.commit()
    leader.catch_up()
    leader.move_log_start(leader.log._segments.all[1].base_offset)
    state = leader.log.state_at_start()
    assert state.offset > 0 and state.odometer and state.producers
    return state


def kept(state: StartState) -> SimDisk:
    disk = Miniature().disk
    assert isinstance(disk, SimDisk)
    disk.make_directories(HERE)
    for steps in keep_start(disk, HERE, state):
        disk.sync_now(steps)
    return disk


def test_what_was_kept_is_read_and_counts_at_its_own_offset_alone() -> None:
    state = state_of_a_leader()
    assert read_start(kept(state), HERE) == state
    totals = state.totals(state.offset, SEED)
    assert totals is not None and totals.end_offset == state.offset
    assert state.totals(state.offset + 2, SEED) is None
    batch = with_header(made_batch(2, producer_id=0, epoch=0, sequence=0))[1]
    there, elsewhere = state.table(state.offset), state.table(state.offset + 2)
    assert there != elsewhere
    assert there.check(batch, 0, str) is not None, "the producer's batches are known"


def test_at_the_beginning_the_totals_are_those_of_nothing() -> None:
    for state in (NOTHING_KNOWN, state_of_a_leader()):
        totals = state.totals(0, SEED)
        assert totals is not None and totals.encode(SEED) == Odometer().encode(SEED)
    assert NOTHING_KNOWN.totals(5, SEED) is None


def test_totals_and_producers_that_cannot_be_read_are_not_known() -> None:
    state = state_of_a_leader()
    bad = StartState(offset=state.offset, odometer=state.odometer[:-1], producers=state.producers[:-1])
    assert bad.totals(bad.offset, SEED) is None
    assert bad.table(bad.offset) == NOTHING_KNOWN.table(0)
    moved = StartState(offset=state.offset + 2, odometer=state.odometer)
    assert moved.totals(moved.offset, SEED) is None, "they are of another offset"


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_a_file_that_is_missing_bad_or_short_tells_nothing(cut: int) -> None:
    disk = kept(state_of_a_leader())
    path = f"{HERE}/{layout.START_FILE}"
    if cut:
        file = disk.open(path)
        file.truncate(file.size() - cut)
        file.close()
    else:
        disk.remove(path)
    assert read_start(disk, HERE) == NOTHING_KNOWN
