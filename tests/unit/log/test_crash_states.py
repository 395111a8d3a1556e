"""Disks that a power cut may leave, at every step of every protocol of the log: nothing acknowledged is lost (G6).

Where a step has more outcomes than are tried, those are its extremes and a sample; FULL=1 tries up to 512 of each step.
"""

import os
from collections.abc import Callable

import pytest

from data_plane.log import layout
from data_plane.log.checkpoint import read_checkpoint
from data_plane.log.outcomes import DamagedRange, PartitionDamaged, PartitionUnborn
from data_plane.testkit.crash_states import Exploration, explore_crashes
from data_plane.testkit.disk import SimDisk
from penstock.contract.topic_settings import Durability, TopicSettings
from penstock.records.stamp import STAMP_BYTES, stamp_seed, unpack_stamp
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import SMALL, Miniature, where

# They are about the order of files.
pytestmark = pytest.mark.pure

FULL = bool(os.environ.get("FULL"))
RELAXED = TopicSettings(
    replication=3,
    min_insync_replicas=2,
    durability=Durability.REPLICATED,
    segment_bytes=4096,
    index_interval_bytes=64,
)


class Witness:
    """What a partition must hold after a crash: an acknowledged prefix of one of the histories it may have."""

    def __init__(self) -> None:
        self.histories: list[tuple[bytes, bytes]] = []
        self.acknowledged = 0
        """Batches that must be there, of every history."""
        self.appending = False
        """A batch is being written: it may be found, and is in no history yet."""

    def wrote(self, miniature: Miniature) -> None:
        """What the log holds now may be found."""
        self.histories.append(miniature.content())

    def synced(self, miniature: Miniature) -> None:
        """What the log holds now must be found."""
        stamps, batches = miniature.content()
        self.acknowledged = len(stamps) // STAMP_BYTES
        self.histories = [(stamps, batches)]

    def knows(self, stamps: bytes, batches: bytes) -> bool:
        """Some history begins so."""
        return any(known[0].startswith(stamps) and known[1].startswith(batches) for known in self.histories)

    def check(self, disk: SimDisk, at: str) -> None:
        found = Miniature(disk, tail_bytes=0)
        report = found.reports[0]
        assert report.damage == (), at
        stamps, batches = found.content()
        assert len(stamps) // STAMP_BYTES >= self.acknowledged, at
        known = self.knows(stamps, batches)
        if not known and self.appending:
            last = unpack_stamp(stamps, stamp_seed(where()), len(stamps) - STAMP_BYTES)
            known = self.knows(stamps[:-STAMP_BYTES], batches[: -last.size])
        assert known, f"{at}: {len(stamps) // STAMP_BYTES} batches, of none of the histories"
        assert found.log.high_watermark <= found.log.log_end_offset
        end = found.log.log_end_offset
        epoch = found.log.last_epoch + 1
        found.append(epoch=epoch)
        found.commit()
        after = found.content()
        assert after[0].startswith(stamps) and found.log.log_end_offset == end + 1
        disk.kill()
        again = Miniature(SimDisk(disk.medium), tail_bytes=0)
        assert again.content() == after, f"{at}: a second recovery finds something else"
        assert again.reports[0].damage == ()


def explored(disk: SimDisk, operate: Callable[[], None], witness: Witness, states: int = 48) -> Exploration:
    found = explore_crashes(disk, operate, witness.check, states_per_point_max=512 if FULL else states)
    assert found.states > found.points > 1
    return found


def started(
    settings: TopicSettings = SMALL, *, batches: int = 3, body_bytes: int = 200
) -> tuple[Miniature, Witness]:
    """A log with some batches, acknowledged and checkpointed."""
    miniature = Miniature(settings=settings, journal_bytes=2048)
    miniature.create()
    miniature.fill(batches, body_bytes=body_bytes)
    miniature.checkpoint()
    witness = Witness()
    witness.synced(miniature)
    return miniature, witness


def write(
    miniature: Miniature, witness: Witness, batches: int, *, epoch: int = 1, body_bytes: int = 700
) -> None:
    """Append without making durable."""
    for number in range(batches):
        witness.appending = True
        miniature.append(epoch=epoch, batch=made_batch(2, body_bytes, fill=100 + number))
        witness.appending = False
        witness.wrote(miniature)


def commit(miniature: Miniature, witness: Witness, *, raise_watermark: bool = True) -> None:
    miniature.commit(raise_watermark=raise_watermark)
    witness.synced(miniature)


@pytest.mark.parametrize("settings", [SMALL, RELAXED], ids=["fsync", "replicated"])
def test_what_was_committed_survives_a_cut_at_any_moment(settings: TopicSettings) -> None:
    miniature, witness = started(settings)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)

    def operate() -> None:
        write(miniature, witness, 2)
        commit(miniature, witness)
        write(miniature, witness, 1)
        commit(miniature, witness)
        write(miniature, witness, 1)

    explored(disk, operate, witness)


def test_a_roll_is_recovered_whatever_of_the_new_files_survived() -> None:
    miniature, witness = started()
    disk = miniature.disk
    assert isinstance(disk, SimDisk)

    def operate() -> None:
        for _ in range(5):
            write(miniature, witness, 2, body_bytes=900)
            commit(miniature, witness)

    explored(disk, operate, witness, states=24)
    assert miniature.log.segment_count >= 3


def test_what_a_follower_made_durable_survives_a_cut_at_any_moment() -> None:
    leader, _ = started(batches=1)
    follower, witness = started(batches=1)
    for _ in range(4):
        leader.fill(2, body_bytes=900)
    witness.histories.append(leader.content())
    disk = follower.disk
    assert isinstance(disk, SimDisk)

    def operate() -> None:
        for max_bytes in (1, 1_900, 1 << 20, 1 << 20):
            part = leader.read(follower.log.log_end_offset, max_bytes=max_bytes)
            follower.log.append_as_follower(memoryview(part.stamps), memoryview(b"".join(part.batches)), 1)
            follower.commit()
            witness.acknowledged = follower.acknowledged[0] // 2

    explored(disk, operate, witness, states=24)
    assert follower.content() == leader.content() and follower.log.segment_count >= 3


def test_a_checkpoint_between_appends_loses_nothing() -> None:
    miniature, witness = started()
    disk = miniature.disk
    assert isinstance(disk, SimDisk)

    def operate() -> None:
        write(miniature, witness, 2)
        commit(miniature, witness)
        write(miniature, witness, 1)
        miniature.checkpoint()
        write(miniature, witness, 1)
        commit(miniature, witness)
        miniature.checkpoint()
        commit(miniature, witness)

    explored(disk, operate, witness)


def test_the_journal_goes_round_its_files_without_losing_a_record() -> None:
    miniature, witness = started(batches=1)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)

    def operate() -> None:
        miniature.perform(miniature.journal.prepare_steps())
        for _ in range(2):
            for _ in range(3):
                write(miniature, witness, 1, body_bytes=500)
                commit(miniature, witness)
            miniature.checkpoint()

    explored(disk, operate, witness, states=16)
    assert any(name.startswith("spare-") for name in disk.list(layout.JOURNAL))


@pytest.mark.parametrize("settings", [SMALL, RELAXED], ids=["fsync", "replicated"])
@pytest.mark.parametrize("rolled", [False, True], ids=["within a segment", "over segments"])
def test_a_truncation_happens_wholly_or_not_at_all(settings: TopicSettings, rolled: bool) -> None:
    miniature, witness = started(settings)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    end = miniature.log.log_end_offset
    acknowledged = witness.acknowledged

    def operate() -> None:
        write(miniature, witness, 6 if rolled else 2, epoch=1)
        commit(miniature, witness, raise_watermark=False)
        witness.acknowledged = acknowledged
        miniature.truncate(end)
        witness.wrote(miniature)
        write(miniature, witness, 2, epoch=2)
        commit(miniature, witness)
        miniature.checkpoint()
        write(miniature, witness, 1, epoch=2)

    explored(disk, operate, witness, states=24)


def test_a_checkpoint_in_the_middle_of_a_truncation_does_not_undo_it() -> None:
    miniature, witness = started()
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    cut = miniature.log.log_end_offset
    acknowledged = witness.acknowledged

    def operate() -> None:
        write(miniature, witness, 2, epoch=1)
        commit(miniature, witness, raise_watermark=False)
        witness.acknowledged = acknowledged
        miniature.log.request_truncation(cut)
        miniature.commit(raise_watermark=False)
        miniature.checkpoint()
        miniature.log.truncate_to(cut)
        write(miniature, witness, 2, epoch=2)
        commit(miniature, witness)

    explored(disk, operate, witness, states=24)


@pytest.mark.parametrize("settings", [SMALL, RELAXED], ids=["fsync", "replicated"])
def test_a_moved_log_start_never_goes_back_and_leaves_no_hole(settings: TopicSettings) -> None:
    miniature, _ = started(settings, batches=12, body_bytes=900)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    start = miniature.log.first_segment_offset
    ends = [segment.end_offset for segment in miniature.log._segments.all[:2]]
    moved = [start]
    whole = miniature.content()

    def check(left: SimDisk, at: str) -> None:
        found = Miniature(left, tail_bytes=0)
        assert found.reports[0].damage == (), at
        assert found.log.log_start_offset >= moved[-1], at
        assert found.log.first_segment_offset <= found.log.log_start_offset
        stamps, batches = found.content()
        assert whole[0].endswith(stamps) and whole[1].endswith(batches), at

    def operate() -> None:
        for end in ends:
            miniature.log.request_log_start(end)
            miniature.commit(raise_watermark=False)
            moved.append(end)
            miniature.log.move_log_start(end)
            miniature.log.delete_below(end)
        miniature.checkpoint()

    found = explore_crashes(disk, operate, check, states_per_point_max=48)
    assert found.states > found.points > 1
    assert miniature.log.first_segment_offset == ends[-1]


@pytest.mark.parametrize("settings", [SMALL, RELAXED], ids=["fsync", "replicated"])
def test_starting_over_happens_wholly_or_not_at_all(settings: TopicSettings) -> None:
    miniature, witness = started(settings, batches=6, body_bytes=900)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)

    def operate() -> None:
        witness.acknowledged = 0
        miniature.log.request_start_over(1000)
        miniature.commit(raise_watermark=False)
        miniature.log.start_over(1000)
        witness.histories = [(b"", b"")]
        write(miniature, witness, 2, epoch=4)
        commit(miniature, witness)
        miniature.checkpoint()
        write(miniature, witness, 1, epoch=4)

    explored(disk, operate, witness, states=24)
    assert miniature.log.log_start_offset == 1000


def test_a_change_of_durability_loses_nothing_that_was_acknowledged() -> None:
    miniature, witness = started(SMALL)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)

    def operate() -> None:
        for settings in (RELAXED, SMALL, RELAXED, SMALL):
            miniature.log.settings = settings
            write(miniature, witness, 1)
            commit(miniature, witness)
            write(miniature, witness, 1)
        commit(miniature, witness)

    explored(disk, operate, witness, states=32)


def test_a_directory_is_born_whole_or_can_be_removed() -> None:
    disk = SimDisk(Miniature().disk.medium)  # type: ignore[attr-defined]
    done = [False]
    miniature = Miniature(disk)

    def check(left: SimDisk, at: str) -> None:
        try:
            found = Miniature(left)
        except PartitionUnborn:
            assert not done[0], at
            return
        assert found.logs or not done[0], at

    def operate() -> None:
        miniature.create()
        done[0] = True
        miniature.checkpoint()

    assert explore_crashes(disk, operate, check).exhaustive


@pytest.mark.parametrize("settings", [SMALL, RELAXED], ids=["fsync", "replicated"])
def test_a_log_that_is_born_with_its_first_batch_loses_nothing_that_was_acknowledged(
    settings: TopicSettings,
) -> None:
    """Nor is it known to checkpoint or journal before its directory is durable: it would count as damaged (RL54)."""
    miniature = Miniature(settings=settings, journal_bytes=2048)
    miniature.create(born=False)
    witness = Witness()
    witness.synced(miniature)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)

    def check(left: SimDisk, at: str) -> None:
        directory = layout.partition_directory(where())
        try:
            if left.exists(directory):
                return witness.check(left, at)
        except PartitionUnborn:
            left.remove_directory(directory)  # as the boot does
        except PartitionDamaged as damage:
            raise AssertionError(f"{at}: {damage}") from None
        found = Miniature(left)
        assert not witness.acknowledged, at
        assert not read_checkpoint(left).entries and not found.replay.records, at

    def operate() -> None:
        miniature.checkpoint()
        write(miniature, witness, 1)
        miniature.checkpoint()
        write(miniature, witness, 1)
        commit(miniature, witness)
        write(miniature, witness, 1)
        commit(miniature, witness)

    miniature.checkpoint()
    found = explore_crashes(disk, operate, check, states_per_point_max=512 if FULL else 48)
    assert found.states > found.points > 1
    assert witness.acknowledged == 3


def test_a_clean_stop_can_be_cut_anywhere() -> None:
    miniature, witness = started(batches=6, body_bytes=900)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)

    def operate() -> None:
        write(miniature, witness, 1)
        commit(miniature, witness)
        miniature.close()

    explored(disk, operate, witness)


@pytest.mark.parametrize("rolled", [False, True], ids=["first batch", "new segment"])
def test_a_new_file_behind_the_last_checkpoint_of_a_clean_stop_is_there_after_a_later_cut(
    rolled: bool,
) -> None:
    """A leader may push until the connection ends. The journal has it, and gives it back at the next checkpoint."""
    miniature = Miniature(journal_bytes=2048)
    miniature.create(born=False)
    if rolled:
        miniature.fill(3)
    miniature.checkpoint()
    miniature.append(batch=made_batch(2, 3_900))
    miniature.commit()
    assert miniature.log.segment_count == (2 if rolled else 1)
    miniature.log.close(clean=True)
    witness = Witness()
    witness.synced(miniature)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    disk.kill()
    again = SimDisk(disk.medium)

    def operate() -> None:
        Miniature(again, clean=True).checkpoint()

    explored(again, operate, witness)


@pytest.mark.parametrize("settings", [SMALL, RELAXED], ids=["fsync", "replicated"])
def test_recovery_itself_can_be_cut_anywhere_and_begun_again(settings: TopicSettings) -> None:
    miniature, witness = started(settings)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    write(miniature, witness, 5, body_bytes=900)
    commit(miniature, witness, raise_watermark=False)
    cut = miniature.log.high_watermark
    miniature.truncate(cut)
    witness.synced(miniature)
    write(miniature, witness, 2, epoch=2, body_bytes=900)
    commit(miniature, witness)
    write(miniature, witness, 2, epoch=2, body_bytes=900)
    disk.kill()
    again = SimDisk(disk.medium)

    def operate() -> None:
        found = Miniature(again)
        found.checkpoint()

    explored(again, operate, witness, states=32)


def test_two_partitions_share_a_sync_and_neither_loses() -> None:
    miniature = Miniature(journal_bytes=2048)
    miniature.create(0)
    miniature.create(1)
    miniature.fill(1, 0)
    miniature.fill(1, 1)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    contents = {0: [miniature.content(0)], 1: [miniature.content(1)]}

    def check(left: SimDisk, at: str) -> None:
        found = Miniature(left, tail_bytes=0)
        for number, log in found.logs.items():
            assert found.reports[number].damage == (), at
            assert log.log_end_offset >= miniature.acknowledged[number], at
            stamps, _ = found.content(number)
            assert any(known.startswith(stamps) for known, _ in contents[number]), at

    def operate() -> None:
        for _ in range(3):
            for number in (0, 1):
                miniature.append(number, batch=made_batch(2, 400))
                contents[number].append(miniature.content(number))
            miniature.commit()

    found = explore_crashes(disk, operate, check, states_per_point_max=32)
    assert found.states > found.points > 1


def test_records_deleted_within_a_segment_stay_deleted_and_the_segment_stays() -> None:
    miniature, _ = started(batches=8, body_bytes=900)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    first = miniature.log._segments.all[0]
    within, whole = first.end_offset - 1, miniature.content()
    start = [0]

    def check(left: SimDisk, at: str) -> None:
        found = Miniature(left, tail_bytes=0)
        assert found.reports[0].damage == (), at
        assert found.log.log_start_offset >= start[0], at
        assert found.log.first_segment_offset == first.base_offset, at
        stamps, batches = found.content()
        assert whole[0].endswith(stamps) and whole[1].endswith(batches), at

    def operate() -> None:
        miniature.log.request_log_start(within)
        miniature.commit(raise_watermark=False)
        start[0] = within
        miniature.log.move_log_start(within)
        assert miniature.log.delete_below(within) == 0
        miniature.checkpoint()

    assert explore_crashes(disk, operate, check, states_per_point_max=32).points > 1


def test_a_segment_whose_seal_is_not_due_yet_waits_for_it_though_its_records_were_deleted() -> None:
    """All that is committed is deleted while the first batch of the next segment is not committed."""
    miniature, _ = started(batches=3, body_bytes=900)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    miniature.append(batch=made_batch(2, 2_000))
    assert miniature.log.segment_count == 2
    miniature.commit()
    boundary = miniature.log._segments.all[1].base_offset
    assert miniature.log.high_watermark == boundary

    def check(left: SimDisk, at: str) -> None:
        found = Miniature(left, tail_bytes=0)
        assert found.log.first_segment_offset == 0, f"{at}: gone without its seal"
        found.log.set_high_watermark(found.log.log_end_offset)
        assert found.log.usage.sealed_end_offset == boundary, at

    def operate() -> None:
        miniature.log.request_log_start(boundary)
        miniature.commit(raise_watermark=False)
        miniature.log.move_log_start(boundary)
        miniature.log.delete_below(boundary)
        assert miniature.log.segment_count == 2
        miniature.checkpoint()

    assert explore_crashes(disk, operate, check, states_per_point_max=32).points > 1
    miniature.log.set_high_watermark(miniature.log.log_end_offset)
    miniature.commit(raise_watermark=False)
    assert miniature.log.delete_below(boundary) > 0 and miniature.log.segment_count == 1


def test_seals_after_a_cut_are_those_that_were_made_before_or_are_made_again() -> None:
    miniature, _ = started(batches=1)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    whole = Miniature(journal_bytes=2048)
    whole.create()
    whole.fill(1)
    told = [0]

    def grow(one: Miniature, number: int) -> None:
        one.append(batch=made_batch(2, 900, fill=number))
        one.commit()

    for number in range(12):
        grow(whole, number)
    whole.catch_up()
    wanted = whole.log.usage.seals_above(0)

    def check(left: SimDisk, at: str) -> None:
        found = Miniature(left, tail_bytes=0)
        found.log.set_high_watermark(found.log.log_end_offset)
        found.log.retention_end(0, 0.0)
        seals = found.log.usage.seals_above(0)
        assert seals == wanted[: len(seals)], at
        assert len(seals) >= told[0], at

    def operate() -> None:
        for number in range(12):
            grow(miniature, number)
            miniature.commit(raise_watermark=False)
            told[0] = len(miniature.log.usage.seals_above(0))

    assert explore_crashes(disk, operate, check, states_per_point_max=12).points > 1
    miniature.catch_up()
    assert miniature.log.usage.seals_above(0) == wanted and len(wanted) >= 3


@pytest.mark.parametrize("low_start", [False, True], ids=["whole segments", "from within the first one"])
def test_damage_that_is_cut_out_is_named_or_kept_aside_whatever_survives(low_start: bool) -> None:
    miniature, _ = started(batches=12, body_bytes=900)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    log = miniature.log
    bad = log._segments.all[0 if low_start else 1]
    if low_start:
        miniature.move_log_start(1)
    path = layout.segment_file(layout.partition_directory(where()), bad.base_offset, layout.LOG_SUFFIX)
    disk.medium.flip(path, 1_000, 4)
    spoilt = disk.open(path).read_at(0, bad.size)
    log.scrub.found_damage(DamagedRange(bad.base_offset, bad.end_offset, "spoilt"))
    miniature.checkpoint()
    cut = log.scrub.refetch_from()
    assert cut == bad.base_offset
    done = [False]

    def check(left: SimDisk, at: str) -> None:
        found = Miniature(left, tail_bytes=0)
        named = any(one.first_offset <= bad.base_offset < one.end_offset for one in found.log.damage)
        assert named or found.log.log_end_offset <= bad.base_offset, f"{at}: taken for whole"
        assert not done[0] or found.log.log_end_offset == bad.base_offset, at
        kept = [name for name in (path, path + layout.SET_ASIDE_SUFFIX) if left.exists(name)]
        assert any(left.open(name).read_at(0, len(spoilt)) == spoilt for name in kept), f"{at}: {kept}"

    def operate() -> None:
        if cut < log.log_start_offset:
            miniature.start_over(cut, state=log.state_at_start())
        else:
            miniature.truncate(cut, declared=True)
        done[0] = True
        miniature.checkpoint()

    assert explore_crashes(disk, operate, check, states_per_point_max=48).points > 1


def test_a_roll_that_recovery_took_back_does_not_come_back_with_the_next_cut() -> None:
    """What recovery removed is gone for good before anything is acknowledged in its place."""
    miniature, _ = started(batches=3, body_bytes=900)
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    miniature.append(batch=made_batch(2, 1_500))
    assert miniature.log.segment_count == 2
    left: list[SimDisk] = []
    explore_crashes(disk, lambda: None, lambda after, at: left.append(after), states_per_point_max=64)
    for after in left:
        again = SimDisk(after.medium)
        found = Miniature(again, tail_bytes=0)
        end = found.log.log_end_offset
        found.append(epoch=2, batch=made_batch(2, 100))
        found.commit()

        def check(last: SimDisk, at: str, end: int = end) -> None:
            opened = Miniature(last, tail_bytes=0)
            assert opened.reports[0].damage == (), at
            assert opened.log.log_end_offset == end + 2, at

        explore_crashes(again, lambda: None, check, states_per_point_max=16)
