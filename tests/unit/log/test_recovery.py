"""Recovery: torn tails are cut, damage below the durable mark is named and kept, caches are rebuilt (RL120 to
RL124)."""

import random
from typing import Any

import pytest

from data_plane.disk.port import DiskFull
from data_plane.log import layout
from data_plane.log.checkpoint import CheckpointEntry
from data_plane.log.identity import Identity, pack_identity, unpack_identity
from data_plane.log.outcomes import DamagedRange, PartitionDamaged, PartitionUnborn, ReplicaRejected
from data_plane.log.partition_log import PartitionLog
from data_plane.log.recovered_epochs import read_epochs
from data_plane.log.sidecar import HEADER_BYTES
from data_plane.testkit.disk import DiskFaults, SimDisk
from data_plane.testkit.medium import Inode
from penstock.contract.errors import CorruptLog
from penstock.contract.invariant import InvariantBroken
from penstock.records.batch import placed
from penstock.records.stamp import STAMP_BYTES, StampFlag, pack_stamp, stamp_seed
from tests.unit.log.batches import NOW_MS, made_batch, with_header
from tests.unit.log.miniature import SMALL, Miniature, reopened, where

DIRECTORY = layout.partition_directory(where())


def stopped(
    *, checkpointed: int = 6, after: int = 4, unsynced: int = 0
) -> tuple[SimDisk, tuple[bytes, bytes]]:
    """A killed broker's disk: batches of two messages, some below the recovery point, some journaled, some in
    neither."""
    miniature = Miniature(tail_bytes=0)
    miniature.create()
    for number in range(checkpointed):
        miniature.append(batch=made_batch(2, 400, producer_id=9, epoch=0, sequence=2 * number))
        miniature.commit()
    miniature.checkpoint()
    for number in range(checkpointed, checkpointed + after):
        miniature.append(batch=made_batch(2, 400, producer_id=9, epoch=0, sequence=2 * number))
        miniature.commit()
    for number in range(checkpointed + after, checkpointed + after + unsynced):
        miniature.append(batch=made_batch(2, 400, producer_id=9, epoch=0, sequence=2 * number))
    content = miniature.content()
    assert isinstance(miniature.disk, SimDisk)
    miniature.disk.kill()
    return SimDisk(miniature.disk.medium), content


def inode(disk: SimDisk, name: str) -> Inode:
    found = disk.medium.find(f"{DIRECTORY}/{name}")
    assert isinstance(found, Inode)
    return found


LAST = f"{0:020d}"
SIZE = 461


def test_an_unsynced_tail_that_is_torn_is_cut() -> None:
    disk, content = stopped(checkpointed=2, after=2, unsynced=2)
    data = inode(disk, f"{LAST}.log").data
    assert len(data) == 6 * SIZE
    data[5 * SIZE + 100] ^= 1
    found = Miniature(disk, tail_bytes=0)
    report = found.reports[0]
    assert (report.log_end_offset, report.durable_end_offset) == (10, 8)
    assert report.torn_tail_bytes == SIZE and report.damage == ()
    stamps, _ = found.content()
    assert stamps == content[0][: 5 * STAMP_BYTES]


@pytest.mark.parametrize(
    "changed",
    [
        {"leader_epoch": 1},
        {"accepted_ms": NOW_MS - 1},
        {"base_offset": 9},
        {"base_offset": 7},
        {"position": 5 * SIZE},
        {"flags": StampFlag.FIRST_OF_SEGMENT},
    ],
    ids=lambda changed: "-".join(f"{name} {value}" for name, value in changed.items()),
)
def test_a_good_stamp_that_does_not_follow_the_one_before_is_a_torn_tail(changed: dict[str, Any]) -> None:
    miniature = Miniature(tail_bytes=0)
    miniature.create()
    for _ in range(4):
        miniature.append(epoch=2, batch=made_batch(2, 400))
        miniature.commit()
    stamp = miniature.append(epoch=2, batch=made_batch(2, 400))
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    disk.kill()
    seed, other = stamp_seed(where()), stamp._replace(**changed)
    at = HEADER_BYTES + 4 * STAMP_BYTES
    inode(disk, f"{LAST}.stamps").data[at : at + STAMP_BYTES] = pack_stamp(other, seed)
    batch = b"".join(placed(made_batch(2, 400), other.base_offset, other.leader_epoch))
    inode(disk, f"{LAST}.log").data[4 * SIZE : 5 * SIZE] = batch
    report = Miniature(disk, tail_bytes=0).reports[0]
    assert (report.log_end_offset, report.durable_end_offset, report.damage) == (8, 8, ())
    assert report.torn_tail_bytes == SIZE


@pytest.mark.parametrize("generation", [1, 2], ids=["its own", "of the replica before"])
def test_a_checkpoint_bounds_only_the_replica_that_it_was_taken_of(generation: int) -> None:
    disk, _ = stopped(checkpointed=2, after=0)
    data = inode(disk, f"{LAST}.log").data
    data[100] ^= 1
    damaged = (DamagedRange(6, 8, "a batch that is not there any more"),)
    entry = CheckpointEntry(
        where=where(),
        replica_generation=generation,
        recovery_point=4,
        high_watermark=4,
        log_start_offset=0,
        first_sequence=1_000,
        damage=damaged,
    )
    _, report = PartitionLog.recover(disk, DIRECTORY, SMALL, checkpoint_entry=entry, replay=[], clean=False)
    if generation == 1:
        assert report.durable_end_offset == 4 and report.damage[0].first_offset == 0
    else:
        assert (report.durable_end_offset, report.log_end_offset, report.damage) == (0, 0, ())


def test_what_follows_a_torn_batch_goes_with_it() -> None:
    disk, content = stopped(checkpointed=2, after=2, unsynced=3)
    inode(disk, f"{LAST}.log").data[4 * SIZE + 100] ^= 1
    found = Miniature(disk, tail_bytes=0)
    assert found.reports[0].log_end_offset == 8
    assert found.reports[0].torn_tail_bytes == 3 * SIZE
    assert content[0].startswith(found.content()[0])
    assert len(inode(disk, f"{LAST}.stamps").data) == HEADER_BYTES + 4 * STAMP_BYTES


def test_a_data_file_that_runs_ahead_of_its_stamps_is_cut_to_them() -> None:
    disk, _ = stopped(checkpointed=2, after=2, unsynced=1)
    del inode(disk, f"{LAST}.stamps").data[-1:]
    found = Miniature(disk, tail_bytes=0)
    assert found.reports[0].log_end_offset == 8 and found.reports[0].torn_tail_bytes == SIZE


@pytest.mark.parametrize("torn", [b"\0" * STAMP_BYTES, b"half a stamp"], ids=["stamp", "less"])
def test_a_torn_stamp_behind_a_closed_segment_is_removed_and_its_index_rebuilt_once(torn: bytes) -> None:
    disk, content = stopped(checkpointed=20, after=0)
    stamps = inode(disk, f"{LAST}.stamps").data
    whole = len(stamps)
    stamps += torn
    disk.remove(f"{DIRECTORY}/{LAST}.index")
    found = Miniature(disk, tail_bytes=0)
    assert (found.reports[0].rebuilt, found.reports[0].damage) == (("index 0",), ())
    assert len(inode(disk, f"{LAST}.stamps").data) == whole
    found.close()
    assert isinstance(found.disk, SimDisk)
    again = reopened(found.disk, clean=True)
    assert again.reports[0].rebuilt == () and again.content() == content


@pytest.mark.parametrize("seed", range(10))
def test_a_torn_tail_that_was_cut_off_stays_cut_off_when_power_is_lost_after_a_checkpoint(seed: int) -> None:
    disk, _ = stopped(checkpointed=2, after=0, unsynced=1)
    del inode(disk, f"{LAST}.log").data[-1:]
    found = Miniature(disk, tail_bytes=0)
    found.checkpoint()
    disk.medium.power_cut(random.Random(seed))
    assert len(inode(disk, f"{LAST}.log").data) == 2 * SIZE
    assert len(inode(disk, f"{LAST}.stamps").data) == HEADER_BYTES + 2 * STAMP_BYTES


def test_a_torn_segment_takes_the_segments_behind_it_along() -> None:
    disk, _ = stopped(checkpointed=2, after=1, unsynced=20)
    first = inode(disk, f"{LAST}.log")
    first.data[4 * SIZE] ^= 1
    found = Miniature(disk, tail_bytes=0)
    assert found.log.segment_count == 1 and found.log.log_end_offset == 8
    assert found.reports[0].damage == ()
    assert [name for name in disk.list(DIRECTORY) if name.endswith(".log")] == [f"{LAST}.log"]
    found.fill(20)
    assert isinstance(found.disk, SimDisk)
    assert reopened(found.disk).content() == found.content()


@pytest.mark.parametrize("headed", [False, True])
def test_a_roll_that_a_full_disk_took_back_takes_nothing_along_when_its_name_comes_back(headed: bool) -> None:
    """The batch went to the segment before instead, and was acknowledged; a cut brings the removed name back."""
    disk, content = stopped(checkpointed=2, after=2)
    for suffix in (layout.LOG_SUFFIX, layout.STAMPS_SUFFIX):
        with_name = disk.open(f"{DIRECTORY}/{6:020d}{suffix}", create=True)
        if headed and suffix == layout.STAMPS_SUFFIX:
            with_name.write_at(0, [disk.open(f"{DIRECTORY}/{LAST}.stamps").read_at(0, HEADER_BYTES)])
        with_name.close()
    found = Miniature(disk, tail_bytes=0)
    report = found.reports[0]
    assert (report.log_end_offset, report.durable_end_offset, report.damage) == (8, 8, ())
    assert found.content() == content
    assert [name for name in disk.list(DIRECTORY) if name.endswith(".log")] == [f"{LAST}.log"]
    found.fill(20)
    assert isinstance(found.disk, SimDisk)
    assert reopened(found.disk).content() == found.content()


def test_what_the_journal_holds_is_put_right_in_the_files() -> None:
    disk, content = stopped(checkpointed=2, after=4)
    inode(disk, f"{LAST}.log").data[4 * SIZE + 100] ^= 1
    inode(disk, f"{LAST}.stamps").data[HEADER_BYTES + 3 * STAMP_BYTES + 5] ^= 1
    found = Miniature(disk, tail_bytes=0)
    assert found.reports[0].damage == ()
    assert found.content() == content


def journal_gone(disk: SimDisk) -> None:
    for name in disk.list(layout.JOURNAL):
        disk.remove(f"{layout.JOURNAL}/{name}")


def flipped_below_the_durable_mark(
    position: int, suffix: str = ".log"
) -> tuple[Miniature, tuple[bytes, bytes]]:
    """Everything checkpointed, then one bit wrong; a scan is forced by a lost index."""
    disk, content = stopped(checkpointed=20, after=0)
    inode(disk, f"{LAST}{suffix}").data[position] ^= 1
    disk.remove(f"{DIRECTORY}/{LAST}.index")
    return Miniature(disk, tail_bytes=0), content


def test_a_bad_batch_below_the_durable_mark_is_named_and_kept() -> None:
    found, content = flipped_below_the_durable_mark(2 * SIZE + 100)
    assert [(one.first_offset, one.end_offset) for one in found.reports[0].damage] == [(4, 6)]
    assert found.log.log_end_offset == 40
    with pytest.raises(CorruptLog, match="offsets 4 to 6"):
        found.read(4)
    assert found.read(0).next_offset == 4
    served = found.read(6)
    assert content[0][3 * STAMP_BYTES :].startswith(served.stamps)


def test_a_bad_stamp_below_the_durable_mark_is_named_and_kept() -> None:
    found, _ = flipped_below_the_durable_mark(HEADER_BYTES + 2 * STAMP_BYTES + 30, ".stamps")
    assert [(one.first_offset, one.end_offset) for one in found.reports[0].damage] == [(4, 6)]
    assert found.read(6).first_offset == 6
    with pytest.raises(CorruptLog):
        found.read(5)


@pytest.mark.parametrize("bad_stamps", [1, 2])
def test_bad_stamps_cost_exactly_their_own_batches_however_few_messages_those_hold(bad_stamps: int) -> None:
    messages = (2, 1, 3, 1, 1, 2, 1)
    starts = [sum(messages[:number]) for number in range(len(messages) + 1)]
    for first in range(1, len(messages) - bad_stamps):
        miniature = Miniature(tail_bytes=0)
        miniature.create()
        for count in messages:
            miniature.append(batch=made_batch(count))
            miniature.commit()
        miniature.checkpoint()
        disk = miniature.disk
        assert isinstance(disk, SimDisk)
        disk.kill()
        for number in range(first, first + bad_stamps):
            inode(disk, f"{LAST}.stamps").data[HEADER_BYTES + number * STAMP_BYTES + 30] ^= 1
        found = Miniature(disk, tail_bytes=0)
        damage = [(one.first_offset, one.end_offset) for one in found.reports[0].damage]
        assert damage == [(starts[first], starts[first + bad_stamps])]
        assert found.log.log_end_offset == starts[-1]
        assert found.read(starts[first + bad_stamps]).next_offset == starts[-1]


def test_damage_does_not_stop_appends_elsewhere_but_is_not_forgotten() -> None:
    found, _ = flipped_below_the_durable_mark(2 * SIZE + 100)
    found.append(epoch=2)
    found.commit()
    found.checkpoint()
    assert isinstance(found.disk, SimDisk)
    again = reopened(found.disk)
    assert [(one.first_offset, one.end_offset) for one in again.reports[0].damage] == [(4, 6)]


def test_batches_whose_bytes_are_gone_are_named_by_the_stamps_that_are_left() -> None:
    disk, _ = stopped(checkpointed=20, after=0)
    last = [name for name in disk.list(DIRECTORY) if name.endswith(".log")][-1]
    del inode(disk, last).data[10:]
    found = Miniature(disk, tail_bytes=0)
    damage = found.reports[0].damage
    assert (damage[0].first_offset, damage[-1].end_offset) == (int(last[:20]), 40)
    assert found.log.log_end_offset == 40
    assert found.read(0).size > 0


def missing_segment(which: int) -> Miniature:
    disk, _ = stopped(checkpointed=40, after=0)
    bases = sorted(name for name in disk.list(DIRECTORY) if name.endswith(".log"))
    assert len(bases) >= 4
    disk.remove(f"{DIRECTORY}/{bases[which]}")
    disk.remove(f"{DIRECTORY}/{bases[which].replace('.log', '.stamps')}")
    disk.remove(f"{DIRECTORY}/{bases[which].replace('.log', '.index')}")
    return Miniature(disk, tail_bytes=0)


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_segment_that_is_gone_is_damage_and_the_others_are_served(which: int) -> None:
    found = missing_segment(which)
    (damage,) = found.reports[0].damage
    served = 0
    offset = 0
    while offset < found.log.log_end_offset:
        try:
            part = found.read(offset)
        except CorruptLog:
            offset = damage.end_offset
            continue
        served += part.next_offset - part.first_offset
        offset = part.next_offset
    assert served + damage.end_offset - damage.first_offset == 80


def test_a_lost_end_refuses_leader_and_follower_until_it_is_cut() -> None:
    found = missing_segment(-1)
    log = found.log
    assert log.log_end_offset < 80
    assert log.high_watermark == log.log_end_offset, "what is gone is not served as committed"
    assert [(one.first_offset, one.end_offset) for one in log.damage] == [(log.log_end_offset, 80)]
    with pytest.raises(CorruptLog, match="an operator's repair required"):
        found.append(epoch=2)
    with pytest.raises(ReplicaRejected, match="a truncation required"):
        log.append_as_follower(memoryview(b""), memoryview(b""), 2)
    found.truncate(log.damage[0].first_offset, declared=True)
    assert log.damage == ()
    found.append(epoch=2)


def test_a_lost_end_is_not_forgotten_by_a_checkpoint() -> None:
    found = missing_segment(-1)
    found.checkpoint()
    assert isinstance(found.disk, SimDisk)
    again = reopened(found.disk)
    assert again.reports[0].damage != ()
    with pytest.raises(CorruptLog):
        again.append(epoch=2)


def test_a_repaired_replica_is_equal_again() -> None:
    found, content = flipped_below_the_durable_mark(2 * SIZE + 100)
    healthy, _ = stopped(checkpointed=20, after=0)
    leader = Miniature(healthy, tail_bytes=0)
    found.truncate(found.log.damage[0].first_offset, declared=True)
    assert (
        any(name.endswith(".damaged") for name in found.disk.list(DIRECTORY)) or found.log.segment_count == 1
    )
    while found.log.log_end_offset < 40:
        part = leader.read(found.log.log_end_offset)
        found.log.append_as_follower(memoryview(part.stamps), memoryview(b"".join(part.batches)), 1)
    found.commit()
    assert found.content() == content
    assert found.log._derived.producers == leader.log._derived.producers


def test_segments_with_damage_are_set_aside_when_the_log_starts_over() -> None:
    found, _ = flipped_below_the_durable_mark(2 * SIZE + 100)
    found.start_over(100)
    aside = [name for name in found.disk.list(DIRECTORY) if name.endswith(".damaged")]
    assert aside == [f"{LAST}.log.damaged", f"{LAST}.stamps.damaged"]
    assert isinstance(found.disk, SimDisk)
    again = reopened(found.disk)
    assert again.reports[0].damage == () and again.log.log_end_offset == 100


# -- what is written and not committed -----------------------------------------------------------------------


def with_tail() -> Miniature:
    """Committed to 8; written, durable and in a checkpoint to 12, in the journal to 16."""
    miniature = Miniature(tail_bytes=0)
    miniature.create()
    for number in range(8):
        miniature.append(batch=made_batch(2, 400, fill=number))
        miniature.commit(raise_watermark=False)
        miniature.log.set_high_watermark(8)
        if number == 5:
            miniature.checkpoint()
    return miniature


def killed(miniature: Miniature) -> Miniature:
    assert isinstance(miniature.disk, SimDisk)
    again = reopened(miniature.disk, tail_bytes=0)
    assert again.reports[0].damage == ()
    return again


def test_what_was_written_is_found_and_not_taken_for_committed() -> None:
    again = killed(with_tail())
    assert (again.log.high_watermark, again.log.log_end_offset) == (8, 16)


@pytest.mark.parametrize("done", [True, False], ids=["cut", "about to be cut"])
def test_a_cut_of_what_is_not_committed_commits_nothing_and_keeps_nothing_aside(done: bool) -> None:
    miniature = with_tail()
    if done:
        miniature.truncate(10)
    else:
        miniature.log.request_truncation(10)
        miniature.commit(raise_watermark=False)
    again = killed(miniature)
    assert (again.log.high_watermark, again.log.log_end_offset) == (8, 10)
    assert not any(name.endswith(".damaged") for name in again.disk.list(DIRECTORY))


def test_to_start_over_above_what_is_committed_keeps_nothing_aside() -> None:
    miniature = with_tail()
    miniature.log.request_start_over(10)
    miniature.commit(raise_watermark=False)
    again = killed(miniature)
    assert (again.log.log_start_offset, again.log.high_watermark, again.log.log_end_offset) == (10, 10, 10)
    assert not any(name.endswith(".damaged") for name in again.disk.list(DIRECTORY))


@pytest.mark.parametrize("starts_over", [True, False])
def test_what_is_given_up_of_what_was_committed_is_kept_aside_also_when_it_is_done_after_a_kill(
    starts_over: bool,
) -> None:
    miniature = Miniature(tail_bytes=0)
    miniature.create()
    miniature.fill(20, body_bytes=400)
    assert miniature.log.segment_count > 2
    if starts_over:
        miniature.log.request_start_over(4)
    else:
        miniature.log.request_truncation(4, declared=True)
    miniature.commit(raise_watermark=False)
    again = killed(miniature)
    assert (again.log.high_watermark, again.log.log_end_offset) == (4, 4)
    assert any(name.endswith(".damaged") for name in again.disk.list(DIRECTORY))


CACHES = ["epochs", "producers", "odometer", f"{LAST}.index"]


def with_caches() -> tuple[SimDisk, Miniature]:
    miniature = Miniature(tail_bytes=0)
    miniature.create()
    for number in range(30):
        batch = made_batch(2, 400, producer_id=number % 4, epoch=number, sequence=0)
        miniature.append(epoch=1 + number // 7, batch=batch)
        miniature.commit()
    miniature.catch_up()
    miniature.close()
    assert isinstance(miniature.disk, SimDisk)
    miniature.disk.kill()
    return SimDisk(miniature.disk.medium), miniature


@pytest.mark.parametrize("how", ["gone", "flipped", "empty", "stale"])
@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize("clean", [False, True], ids=["killed", "stopped"])
def test_a_cache_is_rebuilt_to_the_same_state(name: str, how: str, clean: bool) -> None:
    expected = Miniature(with_caches()[0], clean=True).log
    disk, _ = with_caches()
    if how == "gone":
        disk.remove(f"{DIRECTORY}/{name}")
    elif how == "flipped":
        inode(disk, name).data[25] ^= 4
    elif how == "empty":
        del inode(disk, name).data[:]
    else:
        other, _ = stopped(checkpointed=30, after=0)
        again = Miniature(other)
        again.log.set_high_watermark(60)
        again.close()
        stale = again.disk.medium.find(f"{DIRECTORY}/{name}")  # type: ignore[attr-defined]
        inode(disk, name).data[:] = stale.data
    found = Miniature(disk, clean=clean).log
    assert found.epochs.pairs() == expected.epochs.pairs()
    assert found._derived.producers == expected._derived.producers
    assert found.odometer is not None and expected.odometer is not None
    assert found.odometer.encode(0) == expected.odometer.encode(0)
    assert found.damage == ()
    assert found.log_end_offset == 60


def test_recovery_folds_only_what_came_after_the_snapshot() -> None:
    disk, miniature = with_caches()
    found = Miniature(disk)
    assert found.reports[0].rebuilt == ()
    assert found.log._derived._written_offset == 60
    assert found.log._derived._folded == 0
    batch = made_batch(2, 400, producer_id=29 % 4, epoch=29, sequence=0)
    assert found.log.check_sequence(with_header(batch)[1]) is not None
    assert miniature.log.log_end_offset == 60


def leading_without_a_record() -> tuple[SimDisk, Miniature]:
    """Epoch 2 has three batches, epoch 5 has begun after them."""
    miniature = Miniature()
    miniature.create()
    miniature.fill(3, epoch=2)
    miniature.log.start_epoch(5)
    assert isinstance(miniature.disk, SimDisk)
    return miniature.disk, miniature


def test_an_epoch_begun_without_a_record_survives_a_crash_once_a_checkpoint_has_written_it() -> None:
    disk, miniature = leading_without_a_record()
    miniature.checkpoint()
    assert reopened(disk).log.epochs.pairs() == [(2, 0), (5, 6)]


def test_to_begin_an_epoch_touches_no_file_and_a_crash_leaves_what_the_stamps_tell() -> None:
    disk, _ = leading_without_a_record()
    in_file = read_epochs(disk, DIRECTORY)
    assert in_file is not None and in_file.pairs() == [(2, 0)]
    again = reopened(disk)
    assert again.log.epochs.pairs() == [(2, 0)]
    again.log.start_epoch(6)
    assert again.log.end_offset_for_epoch(5) == (2, 6), "a follower that knows of epoch 5 has nothing to cut"


@pytest.mark.parametrize(
    ("batches_left", "pairs"),
    [(3, [(2, 0), (5, 6)]), (4, [(2, 0), (5, 6), (7, 8)]), (5, [(2, 0), (5, 6), (7, 8)])],
)
def test_a_kept_epoch_counts_only_where_the_log_ends(batches_left: int, pairs: list[tuple[int, int]]) -> None:
    disk, miniature = leading_without_a_record()
    for epoch in (5, 7):
        miniature.append(epoch=epoch, batch=made_batch(2))
    epochs = read_epochs(disk, DIRECTORY)
    assert epochs is not None and epochs.pairs() == [(2, 0), (5, 6), (7, 8)]
    miniature.log.start_epoch(9)
    disk.kill()
    del inode(disk, f"{LAST}.stamps").data[HEADER_BYTES + STAMP_BYTES * batches_left :]
    again = reopened(disk)
    assert again.log.log_end_offset == 2 * batches_left
    assert again.log.epochs.pairs() == pairs


def test_a_log_without_records_gets_no_file_of_epochs() -> None:
    miniature = Miniature()
    miniature.create()
    miniature.log.start_epoch(5)
    miniature.checkpoint()
    assert isinstance(miniature.disk, SimDisk)
    again = reopened(miniature.disk)
    assert again.disk.list(DIRECTORY) == ["partition.json"]
    assert again.reports[0].rebuilt == ()
    again.fill(2, epoch=6)
    in_file = read_epochs(again.disk, DIRECTORY)
    assert in_file is not None and in_file.pairs() == [(6, 0)]


def test_the_first_record_of_an_epoch_writes_it_down() -> None:
    disk, miniature = leading_without_a_record()
    miniature.fill(1, epoch=5)
    in_file = read_epochs(disk, DIRECTORY)
    assert in_file is not None and in_file.pairs() == [(2, 0), (5, 6)]


def test_a_record_of_an_epoch_before_the_one_that_has_begun_is_not_taken() -> None:
    _, miniature = leading_without_a_record()
    with pytest.raises(InvariantBroken, match="epoch 2 begins after epoch 5"):
        miniature.append(epoch=2)


def test_records_of_an_earlier_replica_are_not_replayed() -> None:
    disk, _ = stopped(checkpointed=0, after=4)
    disk.remove_directory(DIRECTORY)
    miniature = Miniature(disk)
    miniature.create(generation=2)
    disk.kill()
    again = Miniature(SimDisk(disk.medium))
    assert again.log.log_end_offset == 0 and again.log.replica_generation == 2


def test_records_of_a_partition_that_is_gone_are_left_alone() -> None:
    disk, _ = stopped()
    disk.remove_directory(DIRECTORY)
    assert Miniature(disk).logs == {}


def test_a_stamps_header_is_restored_from_what_is_known() -> None:
    disk, content = stopped(checkpointed=3, after=0)
    inode(disk, f"{LAST}.stamps").data[10] ^= 1
    found = Miniature(disk, tail_bytes=0)
    assert "stamps header 0" in found.reports[0].rebuilt
    assert found.content() == content
    assert isinstance(found.disk, SimDisk)
    assert reopened(found.disk).reports[0].rebuilt == ()


def test_a_segment_of_a_format_that_is_not_known_stops_the_partition() -> None:
    disk, _ = stopped(checkpointed=3, after=0)
    other = Miniature()
    other.create(1)
    other.append(1)
    header = other.disk.medium.find(other.logs[1]._segments.all[0].path(".stamps")).data[:64]  # type: ignore[attr-defined]
    inode(disk, f"{LAST}.stamps").data[:64] = header
    with pytest.raises(PartitionDamaged, match="stamps header of"):
        Miniature(disk)


def test_a_directory_without_its_identity_is_unborn_only_while_it_is_empty() -> None:
    miniature = Miniature()
    miniature.create()
    assert isinstance(miniature.disk, SimDisk)
    miniature.disk.remove(f"{DIRECTORY}/{layout.PARTITION_FILE}")
    with pytest.raises(PartitionUnborn):
        reopened(miniature.disk)
    disk, _ = stopped()
    disk.remove(f"{DIRECTORY}/{layout.PARTITION_FILE}")
    with pytest.raises(PartitionDamaged):
        Miniature(disk)


def test_the_identity_reads_back_and_every_flipped_bit_is_found() -> None:
    identity = Identity(where=where(3), replica_generation=7, start_offset=12)
    data = pack_identity(identity)
    assert unpack_identity(data) == identity
    for position in range(len(data)):
        bad = bytearray(data)
        bad[position] ^= 1 << position % 7
        assert unpack_identity(bytes(bad)) is None, position
        assert unpack_identity(data[:position]) is None


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"null", b'{"format": 1}', b"\xff"])
def test_anything_else_is_no_identity(data: bytes) -> None:
    assert unpack_identity(data) is None


def test_half_written_small_files_are_swept_at_boot() -> None:
    disk, content = stopped()
    disk.open(f"{DIRECTORY}/epochs.tmp", create=True).write_at(0, [b"x"])
    assert Miniature(disk, tail_bytes=0).content() == content
    assert not disk.exists(f"{DIRECTORY}/epochs.tmp")


def test_a_recovered_log_closes_the_files_of_closed_segments() -> None:
    disk, _ = stopped(checkpointed=40, after=0)
    found = Miniature(disk)
    assert all(segment._data is None for segment in found.log._segments.all[:-1])


@pytest.mark.parametrize(
    "name", ["0-1", "zz-1", "00-1", f"{'0' * 32}-x", f"{'0' * 32}-01", f"{'G' * 32}-1", f"{'A' * 32}-1"]
)
def test_other_names_are_no_partitions(name: str) -> None:
    assert layout.partition_of(name) is None


def test_a_partitions_name_reads_back() -> None:
    assert layout.partition_of(DIRECTORY.rpartition("/")[2]) == where()
    assert SMALL.segment_bytes == 4096


def test_recovery_needs_no_room_for_what_was_deleted() -> None:
    """The journal still has the records of segments that retention removed."""
    miniature = Miniature(journal_bytes=1 << 20)
    miniature.create()
    miniature.fill(40, body_bytes=900)
    start = miniature.log._segments.all[-1].base_offset
    assert miniature.move_log_start(start) > 20_000
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    disk.kill()
    room = disk.medium.used_bytes() + 4_096
    full = SimDisk(disk.medium, faults=DiskFaults(capacity_bytes=room))
    try:
        again = Miniature(full, tail_bytes=0)
    except DiskFull:
        again = None
    assert again is not None, "deleted segments were written again"
    assert again.log.first_segment_offset == start
