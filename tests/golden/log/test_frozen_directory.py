"""A log directory written once must open for ever, and the code must still write the same bytes.

`directory/` holds the files as they were written by `written()`; `python -m tests.golden.log.test_frozen_directory`
writes them into an empty folder when a new format version needs another one.
"""

import hashlib
import sys
from pathlib import Path

import pytest

from data_plane.disk.port import APPENDED_BLOCK_BYTES
from data_plane.log import layout
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.medium import Medium
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.odometer import Odometer
from tests.unit.log.batches import NOW_MS, made_batch, with_header
from tests.unit.log.miniature import Miniature

pytestmark = pytest.mark.both_cores

FOLDER = Path(__file__).parent / "directory"
SETTINGS = TopicSettings(replication=1, min_insync_replicas=1, segment_ms=39_000, index_interval_bytes=100)
CONTENT_DIGEST = "3f77ea0d6f115f9a9f1f77ae538d5696faf05b34660aea6b61814ec96de7dd63"


def written() -> Miniature:
    """Three segments, two epochs, producers, seals, a snapshot, a checkpoint, and journal records of four kinds."""
    miniature = Miniature(settings=SETTINGS, journal_bytes=1_024)
    miniature.create(0)
    miniature.create(1)
    for number in range(12):
        miniature.now_ms += 13_000
        batch = made_batch(
            1 + number % 3, 10 * number, fill=number, producer_id=40 + number % 2, epoch=number, sequence=0,
            timestamp_ms=NOW_MS + 1_000 * number,
        )  # fmt: skip
        miniature.append(epoch=3 + number // 8, principal=700 + number % 3, batch=batch)
        miniature.commit()
        miniature.catch_up()
        if number == 8:
            miniature.log._derived.keep_snapshot(even_if_small=True)
            miniature.checkpoint()
    miniature.append(epoch=4)
    miniature.commit(raise_watermark=False)
    miniature.truncate(miniature.log.high_watermark)
    miniature.move_log_start(miniature.log._segments.all[1].base_offset)
    miniature.start_over(50, partition=1)
    miniature.append(1, epoch=6)
    miniature.append(0, epoch=5)
    miniature.commit()
    miniature.catch_up()
    return miniature


def files_of(medium: Medium) -> dict[str, bytes]:
    return {path: bytes(inode.data) for path, inode in medium.files()}


def medium_of(folder: Path) -> Medium:
    """The frozen files on a simulated disk."""
    disk = SimDisk(Medium())
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            disk.make_directories(name)
        else:
            disk.open(name, create=True).write_at(0, [path.read_bytes()])
    return disk.medium


def test_the_same_directory_is_still_written_byte_for_byte() -> None:
    miniature = written()
    assert isinstance(miniature.disk, SimDisk)
    frozen = {
        path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in FOLDER.rglob("*") if path.is_file()
    }
    files = files_of(miniature.disk.medium)
    journals = [path for path in frozen if path.startswith(layout.JOURNAL)]
    for path in journals:
        # The frozen ones still hold what stood behind the records in a file that was used again: zeros now.
        file = files.pop(path)
        records = file.rstrip(b"\0")
        assert records and frozen.pop(path).startswith(records), path
        assert len(file) % APPENDED_BLOCK_BYTES == 0
    assert len(journals) > 1 and files == frozen


def test_the_frozen_directory_opens_with_all_it_held() -> None:
    found = Miniature(SimDisk(medium_of(FOLDER)), settings=SETTINGS, tail_bytes=0)
    assert [found.reports[number].rebuilt for number in (0, 1)] == [(), ()]
    assert [found.reports[number].damage for number in (0, 1)] == [(), ()]
    log, other = found.logs[0], found.logs[1]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.segment_count) == (6, 24, 25, 3)
    assert log.epochs.pairs() == [(3, 6), (4, 15), (5, 24)]
    assert (other.log_start_offset, other.log_end_offset, other.odometer) == (50, 51, None)
    header = with_header(made_batch(3, 110, fill=11, producer_id=41, epoch=11, sequence=0))[1]
    assert log.check_sequence(header) is not None
    assert isinstance(log.odometer, Odometer) and log.odometer.totals.committed_messages == 25
    assert len(log._seals.read_all()[0]) == 3
    digest = hashlib.sha256(b"".join(found.content(0)) + b"".join(found.content(1))).hexdigest()
    assert digest == CONTENT_DIGEST


def test_the_frozen_directory_goes_on() -> None:
    found = Miniature(SimDisk(medium_of(FOLDER)), settings=SETTINGS)
    found.fill(3, epoch=7)
    found.checkpoint()
    assert isinstance(found.disk, SimDisk)
    again = Miniature(SimDisk(found.disk.medium), settings=SETTINGS)
    assert again.content() == found.content()


if __name__ == "__main__":
    if FOLDER.exists():
        sys.exit(f"{FOLDER} exists and is never written again")
    made = written()
    assert isinstance(made.disk, SimDisk)
    for name, data in files_of(made.disk.medium).items():
        target = FOLDER / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
