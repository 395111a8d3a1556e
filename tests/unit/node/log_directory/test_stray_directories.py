"""Directories that the metadata does not know are kept, for days, and never deleted at boot (RL53)."""

from data_plane.log import layout
from data_plane.log.small_file import read_whole
from data_plane.node.log_directory.stray_directories import NOTE_FILE, StrayDirectories, is_stray
from tests.unit.log.batches import NOW_MS
from tests.unit.node.storage import CONFIG, DAY_MS, Storage, image_of, opened, where

HOUR_MS = 3_600_000


def two_topics() -> Storage:
    life = opened(image=image_of(1, 2))
    for number in (1, 2):
        life.create(number)
        life.append(number, 3)
    life.checkpoint()
    return life


def stray_of(number: int) -> str:
    return layout.partition_directory(where(number)).removeprefix("topics/") + ".stray"


def test_a_topic_that_the_metadata_lost_is_set_aside_whole_and_the_others_open() -> None:
    life = opened(two_topics().disk.medium, image_of(1))
    assert [one.where for one in life.booted.opened] == [where(1)]
    assert life.names() == [layout.partition_directory(where(1)).removeprefix("topics/"), stray_of(2)]
    kept = life.disk.list(f"topics/{stray_of(2)}")
    assert {f"{0:020d}.log", "partition.json", NOTE_FILE} <= set(kept)
    assert life.strays.count == 1
    assert not life.booted.damaged


def test_a_metadata_store_that_lost_everything_deletes_nothing() -> None:
    life = opened(two_topics().disk.medium, image_of())
    assert life.names() == [stray_of(1), stray_of(2)]
    again = opened(life.disk.medium, image_of())
    assert again.names() == life.names()


def test_a_replica_of_another_generation_is_a_stray_and_a_second_one_has_a_name_of_its_own() -> None:
    life = opened(image=image_of(1))
    life.create(1, generation=7)
    life.append(1)
    life.checkpoint()
    life = opened(life.disk.medium, image_of(1))
    assert life.names() == [stray_of(1)]
    life.create(1, generation=8)
    life.append(1)
    life.checkpoint()
    life = opened(life.disk.medium, image_of(1))
    assert life.names() == [stray_of(1), f"{stray_of(1)}.2"]
    assert all(is_stray(name) for name in life.names())


def test_strays_go_after_their_days_and_not_before() -> None:
    disk = opened(two_topics().disk.medium, image_of(1)).disk
    strays = StrayDirectories(disk, CONFIG.stray_keep_ms)
    assert strays.look(NOW_MS, 0.0, clock_trusted=True) == []
    almost = NOW_MS + 2 * DAY_MS - 1
    assert strays.look(almost, 2.0 * DAY_MS, clock_trusted=True) == []
    assert strays.count == 1
    assert strays.look(almost + 1, 2.0 * DAY_MS, clock_trusted=True) == [stray_of(2)]
    assert strays.count == 0
    assert not disk.exists(f"topics/{stray_of(2)}")
    assert disk.exists(layout.partition_directory(where(1)))


def test_no_clock_that_jumps_deletes_a_stray() -> None:
    disk = opened(two_topics().disk.medium, image_of(1)).disk
    strays = StrayDirectories(disk, CONFIG.stray_keep_ms)
    year = NOW_MS + 365 * DAY_MS
    assert strays.look(year, 0.0, clock_trusted=True) == []  # this broker has only begun
    assert strays.look(year, HOUR_MS - 1.0, clock_trusted=True) == []
    assert strays.look(year, 2.0 * HOUR_MS, clock_trusted=False) == []
    assert strays.look(year, 2.0 * HOUR_MS, clock_trusted=True) == [stray_of(2)]


def test_a_stray_without_a_note_begins_its_days_when_it_is_seen() -> None:
    disk = opened(two_topics().disk.medium, image_of(1)).disk
    disk.remove(f"topics/{stray_of(2)}/{NOTE_FILE}")
    strays = StrayDirectories(disk, CONFIG.stray_keep_ms)
    later = NOW_MS + 100 * DAY_MS
    assert strays.look(later, 0.0, clock_trusted=True) == []
    assert strays.look(later + DAY_MS, 1.0 * DAY_MS, clock_trusted=True) == []
    assert strays.look(later + 2 * DAY_MS, 2.0 * DAY_MS, clock_trusted=True) == [stray_of(2)]


def test_a_stray_keeps_the_note_of_when_and_why_it_was_set_aside() -> None:
    disk = opened(two_topics().disk.medium, image_of(1)).disk
    note = f"topics/{stray_of(2)}/{NOTE_FILE}"
    strays = StrayDirectories(disk, CONFIG.stray_keep_ms)
    before = read_whole(disk, note)
    for at_ms in (NOW_MS, NOW_MS + DAY_MS):
        assert strays.look(at_ms, 0.0, clock_trusted=True) == []
        assert read_whole(disk, note) == before
    assert strays.look(NOW_MS - 1, 0.0, clock_trusted=True) == []
    assert read_whole(disk, note) != before, "its time is still to come: it begins now"


def test_a_second_look_counts_what_is_there_then() -> None:
    life = opened(two_topics().disk.medium, image_of())
    assert life.strays.count == 2
    life.disk.remove_directory(f"topics/{stray_of(1)}")
    life.strays.look(NOW_MS, 0.0, clock_trusted=True)
    assert life.strays.count == 1
