"""What a broker makes of a log directory that is not as it left it: damage is named, never taken for a new one."""

import json
from dataclasses import replace

import pytest

from data_plane.log import layout
from data_plane.log.checkpoint import read_checkpoint
from data_plane.log.identity import Identity, write_identity
from data_plane.log.journal_record import MAGIC
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import Tombstone, tombstone_key
from data_plane.metadata.port import KeyValue
from data_plane.node.log_directory.directory import CLEAN_FILE, IDENTITY_FILE, WrongDirectory, mark_clean
from data_plane.node.log_directory.disk_space import DiskSpace
from data_plane.node.log_directory.quarantine import Quarantine
from data_plane.node.log_directory.stray_directories import StrayDirectories, is_stray
from data_plane.testkit.crash_states import explore_crashes
from data_plane.testkit.disk import SimDisk, SimFile
from data_plane.testkit.medium import CutChoice, Inode, Medium
from penstock.contract.ids import BrokerId
from tests.unit.log.batches import NOW_MS, made_batch, with_header
from tests.unit.node.storage import CONFIG, Storage, boot, born, image_of, opened, where


def left(batches: int = 12) -> Storage:
    """Topic 1 with some segments, checkpointed in the middle."""
    life = opened(image=image_of(1))
    life.create(1)
    life.append(1, batches // 2)
    life.checkpoint()
    life.append(1, batches - batches // 2)
    return life


def end_of(life: Storage) -> int:
    return life.logs[where(1)].log_end_offset


def test_a_directory_opens_as_it_was_left() -> None:
    life = left()
    again = opened(life.disk.medium, image_of(1))
    assert (end_of(again), again.booted.damaged, again.booted.nothing_known) == (end_of(life), {}, "")


@pytest.mark.parametrize(
    ("tenant", "metering", "kept"), [("tn_a", True, True), ("", True, False), ("tn_a", False, False)]
)
def test_a_deleted_topics_replica_is_opened_only_where_its_last_reading_may_be_owed(
    tenant: str, metering: bool, kept: bool
) -> None:
    life = left()
    image = ClusterImage()
    buried = Tombstone(name="orders", tenant=tenant, partitions=3)
    image.load([KeyValue(tombstone_key(where(1).topic_id), buried.encode(), 1)], 10)
    again = opened(life.disk.medium, image, replace(CONFIG, metering=metering))
    assert [
        (each.where, each.buried, each.topic.name, each.topic.tenant) for each in again.booted.opened
    ] == [(where(1), True, "orders", "tn_a")] * kept
    assert again.disk.exists(layout.partition_directory(where(1))) is kept
    assert again.booted.damaged == {} and again.strays.count == 0


def test_a_damaged_replica_of_a_deleted_topic_goes_and_is_no_damage() -> None:
    life = left()
    image = ClusterImage()
    buried = Tombstone(name="orders", tenant="tn_a", partitions=1)
    image.load([KeyValue(tombstone_key(where(1).topic_id), buried.encode(), 1)], 10)
    life.disk.remove(f"{layout.partition_directory(where(1))}/{layout.PARTITION_FILE}")
    again = opened(life.disk.medium, image)
    assert (again.booted.opened, again.booted.damaged) == ([], {})
    assert not again.disk.exists(layout.partition_directory(where(1)))


def test_the_name_of_a_directory_that_a_kill_left_unsynced_is_durable_after_the_boot() -> None:
    life = left()
    life.disk.make_directories(f"{layout.TOPICS}/made")
    assert life.disk.medium.after_cut(CutChoice()).find(f"{layout.TOPICS}/made") is None
    again = opened(life.disk.medium, image_of(1))
    assert again.disk.medium.after_cut(CutChoice()).find(f"{layout.TOPICS}/made") is not None


def test_a_checkpoint_knows_no_log_without_records_whose_directory_a_power_cut_may_take() -> None:
    life = opened(image=image_of(1))
    life.disk.make_directories(path := layout.partition_directory(where(1)))
    identity = Identity(where=where(1), replica_generation=1, start_offset=0)
    write_identity(life.disk, path, identity).close()
    again = opened(life.disk.medium, image_of(1))
    again.checkpoint()
    left_over = opened(again.disk.medium.after_cut(CutChoice()), image_of(1))
    assert left_over.booted.damaged == {} and left_over.logs == {}, "it is made again, like a new one"


@pytest.mark.parametrize("checkpointed", [False, True], ids=["committed", "checkpointed"])
def test_what_a_kill_left_unsynced_in_a_new_directory_is_durable_before_anything_depends_on_it(
    checkpointed: bool,
) -> None:
    life = opened(image=image_of(1))
    life.disk.make_directories(path := layout.partition_directory(where(1)))
    identity = Identity(where=where(1), replica_generation=1, start_offset=0)
    write_identity(life.disk, path, identity).close()
    again = opened(life.disk.medium, image_of(1))
    assert end_of(again) == 0
    if checkpointed:
        batch, header = with_header(made_batch(2))
        again.logs[where(1)].append_as_leader(
            batch, header, leader_epoch=1, now_ms=NOW_MS, floor_ms=0, principal=5
        )
        again.checkpoint()
        assert where(1) in read_checkpoint(again.disk).entries
    else:
        again.append(1)
    after_a_power_cut = again.disk.medium.after_cut(CutChoice())
    assert after_a_power_cut.find(f"{path}/{layout.PARTITION_FILE}") is not None
    left_over = opened(after_a_power_cut, image_of(1))
    assert left_over.booted.damaged == {}
    assert left_over.logs[where(1)].log_end_offset == 2


class Watched(SimDisk):
    """Keeps the paths of files that are open."""

    def __init__(self, medium: Medium) -> None:
        super().__init__(medium)
        self.files: list[SimFile] = []

    def open(self, path: str, *, create: bool = False) -> SimFile:
        file = super().open(path, create=create)
        self.files.append(file)
        return file

    def left_open(self) -> list[str]:
        return [file.path for file in self.files if file._open]


@pytest.mark.parametrize("stopped", [False, True], ids=["killed", "stopped"])
def test_a_boot_leaves_no_file_open_of_logs_that_are_as_the_checkpoint_knows_them(stopped: bool) -> None:
    """A process may have some 20,000 files open, and a broker more partitions than that."""
    numbers = range(1, 6)
    life = opened(image=image_of(*numbers))
    for number in numbers:
        life.create(number)
        life.append(number, batches=12)
    life.checkpoint()
    if stopped:
        for log in life.logs.values():
            log.close(clean=True)
        mark_clean(life.disk, 1)
    life.disk.kill()
    disk = Watched(life.disk.medium)
    booted = boot(disk, image_of(*numbers), born(disk), StrayDirectories(disk, CONFIG.stray_keep_ms), CONFIG)
    assert [one.log.log_end_offset for one in booted.opened] == [24] * 5
    assert disk.left_open() == []


def test_a_lost_checkpoint_is_damage_and_no_new_directory() -> None:
    life = left()
    life.disk.remove(layout.CHECKPOINT)
    again = opened(life.disk.medium, image_of(1))
    assert again.booted.nothing_known == "the checkpoint of the log directory is missing"
    assert end_of(again) == end_of(life)
    assert again.directory.directory_id == life.directory.directory_id


def test_a_directory_without_segments_may_lack_its_checkpoint() -> None:
    life = opened()
    life.disk.remove(layout.CHECKPOINT)
    assert opened(life.disk.medium).booted.nothing_known == ""


def test_without_a_checkpoint_no_segment_is_taken_for_a_torn_tail() -> None:
    """Its log start is not known any more, and what is bad in the middle was durable once."""
    life = left(80)
    log = life.logs[where(1)]
    start = log._segments.all[1].base_offset
    log.request_log_start(start)
    unsynced = log.take_unsynced()
    assert unsynced is not None
    life.disk.sync_now(life.booted.journal.append_steps([unsynced]))
    log.mark_durable(unsynced)
    log.move_log_start(start)
    log.delete_below(start)
    life.checkpoint()
    life.disk.remove(layout.CHECKPOINT)
    path = layout.segment_file(layout.partition_directory(where(1)), start, layout.LOG_SUFFIX)
    life.disk.medium.flip(path, 500, 3)
    found = opened(life.disk.medium, image_of(1)).logs[where(1)]
    assert found.log_start_offset == start
    assert found.log_end_offset == log.log_end_offset
    assert [one.first_offset for one in found.damage] == [start + 2]


@pytest.mark.parametrize("how", ["missing", "cut short", "flipped"])
def test_a_lost_identity_makes_a_new_directory_of_which_nothing_is_trusted(how: str) -> None:
    life = left()
    inode = life.disk.medium.find(IDENTITY_FILE)
    assert isinstance(inode, Inode)
    if how == "missing":
        life.disk.remove(IDENTITY_FILE)
    elif how == "cut short":
        del inode.data[20:]
    else:
        at = inode.data.index(b"directory_id") + 16
        inode.data[at] = ord("a") if inode.data[at] != ord("a") else ord("b")
    again = opened(life.disk.medium, image_of(1))
    assert again.booted.nothing_known == f"{IDENTITY_FILE} is missing or bad, but there are segments"
    assert not again.directory.clean


def test_every_flipped_byte_of_the_identity_is_noticed_or_refused() -> None:
    life = left(2)
    inode = life.disk.medium.find(IDENTITY_FILE)
    assert isinstance(inode, Inode)
    whole = bytes(inode.data)
    for at in range(len(whole)):
        life.disk.kill()
        inode.data[:] = whole
        inode.data[at] ^= 1 << at % 8
        try:
            again = opened(life.disk.medium, image_of(1))
        except WrongDirectory:
            continue
        same = again.directory.directory_id == life.directory.directory_id and not again.directory.lost
        assert again.booted.nothing_known or same, f"byte {at}"
        again.disk.kill()
        for path, file in life.disk.medium.files():
            if path == IDENTITY_FILE:
                inode = file


def test_a_directory_of_another_broker_or_cluster_is_not_touched() -> None:
    life = left()
    before = {path: bytes(inode.data) for path, inode in life.disk.medium.files()}
    for config in (replace(CONFIG, broker_id=BrokerId(2)), replace(CONFIG, cluster_id="other")):
        with pytest.raises(WrongDirectory):
            opened(life.disk.medium, image_of(1), config)
    assert {path: bytes(inode.data) for path, inode in life.disk.medium.files()} == before


def test_a_replica_whose_directory_is_gone_is_damaged() -> None:
    life = left()
    life.disk.remove_directory(layout.partition_directory(where(1)))
    assert opened(life.disk.medium, image_of(1)).booted.damaged == {where(1): "its directory is missing"}


def test_a_replica_that_only_the_journal_knows_and_whose_directory_is_gone_is_damaged() -> None:
    life = opened(image=image_of(1))
    life.create(1)
    life.append(1)
    life.disk.remove_directory(layout.partition_directory(where(1)))
    assert where(1) in opened(life.disk.medium, image_of(1)).booted.damaged


@pytest.mark.parametrize("known_by", ["checkpoint", "journal", "a lost checkpoint", "nothing"])
def test_segments_without_identity_are_damage_unless_nothing_knows_of_them(known_by: str) -> None:
    life = opened(image=image_of(1))
    life.create(1)
    if known_by == "nothing":
        batch, header = with_header(made_batch(2))
        life.logs[where(1)].append_as_leader(
            batch, header, leader_epoch=1, now_ms=NOW_MS, floor_ms=0, principal=5
        )
    else:
        life.append(1)
    if known_by == "checkpoint":
        life.checkpoint()
    elif known_by == "a lost checkpoint":
        life.disk.remove(layout.CHECKPOINT)
        for name in life.disk.list(layout.JOURNAL):
            life.disk.remove(f"{layout.JOURNAL}/{name}")
    life.disk.remove(f"{layout.partition_directory(where(1))}/{layout.PARTITION_FILE}")
    again = opened(life.disk.medium, image_of(1))
    kept = [name for name in again.names() if name.startswith(str(where(1)))]
    assert (where(1) in again.booted.damaged, bool(kept)) == (known_by != "nothing",) * 2


def test_segments_without_identity_are_kept_when_the_journal_may_have_known_them() -> None:
    """Never removed as if nothing in them had been acknowledged: an operator may still look at them (RL54)."""
    life = opened(image=image_of(1, 2))
    life.create(1)
    life.create(2)
    life.append(1, batches=3)
    life.append(2)
    (journal,) = (name for name in life.disk.list(layout.JOURNAL) if name.endswith(".journal"))
    of_the_second = life.disk.open(f"{layout.JOURNAL}/{journal}").read_at(0, 1 << 20).rfind(MAGIC)
    life.disk.open(f"{layout.JOURNAL}/{journal}").write_at(0, [bytes(of_the_second)])
    life.disk.remove(f"{layout.partition_directory(where(1))}/{layout.PARTITION_FILE}")
    again = opened(life.disk.medium, image_of(1, 2))
    assert again.booted.nothing_known
    assert where(1) in again.booted.damaged
    assert any(name.startswith(str(where(1))) for name in again.names()), "set aside"


def test_a_bad_sector_is_survived_wherever_it_is() -> None:
    """Each file of the directory refuses to be read, one at a time: the broker starts, and says what it lost."""
    for path, _ in left().disk.medium.files():
        life = left()
        life.disk.medium.spoil(path, 0, 1 << 20)
        if path == IDENTITY_FILE:
            continue  # the test of a lost identity
        again = opened(life.disk.medium, image_of(1))
        named = bool(again.booted.damaged or again.booted.nothing_known)
        whole = where(1) in again.logs and end_of(again) == end_of(life)
        assert named or whole, path
        if path.startswith(("journal/0", layout.CHECKPOINT)):
            assert named, path


def test_a_directory_is_born_with_identity_and_checkpoint_or_not_at_all() -> None:
    disk = SimDisk(Medium())

    def check(after: SimDisk, at: str) -> None:
        life = opened(after.medium)
        assert life.booted.nothing_known == "", at
        assert after.exists(layout.CHECKPOINT) and after.exists(IDENTITY_FILE), at

    def operate() -> None:
        born(disk)

    assert explore_crashes(disk, operate, check).exhaustive


def test_the_clean_marker_is_whole_or_absent_and_gone_before_anything_is_written() -> None:
    life = left()
    disk = life.disk
    promised = [False]

    def stop() -> None:
        mark_clean(disk, 7)
        promised[0] = True

    def check(after: SimDisk, at: str) -> None:
        clean = opened(after.medium, image_of(1)).directory.clean
        assert clean or not promised[0], at
        assert not opened(after.medium, image_of(1)).directory.clean, f"{at}: it counts once"

    life.checkpoint()
    assert explore_crashes(disk, stop, check).points > 1
    inode = disk.medium.find(CLEAN_FILE)
    assert isinstance(inode, Inode) and json.loads(bytes(inode.data)) == {"broker_epoch": 7}


def test_a_stray_is_set_aside_whole_or_not_at_all() -> None:
    life = left(4)
    disk, path = life.disk, layout.partition_directory(where(1))
    files = sorted(disk.list(path))

    def check(after: SimDisk, at: str) -> None:
        found = after.list(layout.TOPICS)
        assert len(found) == 1, f"{at}: {found}"
        assert set(files) <= set(after.list(f"{layout.TOPICS}/{found[0]}")), at
        again = opened(after.medium, image_of())
        assert [is_stray(name) for name in again.names()] == [True], at

    explored = explore_crashes(disk, lambda: life.strays.set_aside(path, 1, "unknown"), check)
    assert explored.points > 1


def _space_of(disk: SimDisk) -> DiskSpace:
    return DiskSpace(replace(CONFIG, ballast_bytes=4_096), disk, Quarantine(disk, CONFIG.damaged_keep_ms))


def test_whatever_a_cut_leaves_of_the_ballast_a_broker_starts() -> None:
    life = left(2)
    room = _space_of(life.disk)

    def operate() -> None:
        room.look(lambda: 0)
        room.free_ballast()
        room.look(lambda: 0)

    def check(after: SimDisk, at: str) -> None:
        again = opened(after.medium, image_of(1))
        assert end_of(again) == end_of(life), at
        _space_of(again.disk).look(lambda: 0)

    assert explore_crashes(life.disk, operate, check, states_per_point_max=24).points > 1
