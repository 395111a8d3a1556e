"""Every byte flipped and every length cut, of every file of a small log directory (G5): never a wrong record
served, never an exception without a class, never an acknowledged record missing without anybody saying so."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from data_plane.log import layout
from data_plane.log.outcomes import PartitionDamaged
from data_plane.log.scrub import Finding
from data_plane.log.small_file import SmallFileCorrupt
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.medium import Directory, Inode, Medium
from penstock.contract import limits
from penstock.contract.errors import CorruptLog, OffsetOutOfRange
from penstock.contract.topic_settings import TopicSettings
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import Miniature, where

SETTINGS = TopicSettings(replication=1, min_insync_replicas=1, segment_ms=1_000, index_interval_bytes=64)
BATCHES = 7


def left_behind(*, clean: bool) -> tuple[Medium, tuple[bytes, bytes]]:
    """A directory with every kind of file: three segments, seals, snapshots, a journal with records; and what its
    log holds."""
    miniature = Miniature(settings=SETTINGS, journal_bytes=1024)
    miniature.create()
    for number in range(BATCHES):
        if number == BATCHES - 2:
            miniature.checkpoint()
            miniature.log._derived.keep_snapshot(even_if_small=True)
            miniature.log._own_files._write_caches(miniature.log.high_watermark, unindexed_max=1)
        if number % 3 == 0:
            miniature.now_ms += 2_000
        miniature.append(
            epoch=1 + number // 4,
            batch=made_batch(2, 20, fill=number, producer_id=9, epoch=0, sequence=2 * number),
        )
        miniature.commit()
        miniature.catch_up()
    content = miniature.content()
    scrub = miniature.log.scrub
    for segment in scrub.closed(miniature.log.high_watermark):
        check = scrub.begin(segment)
        while not check.done:
            check.step(segment.stamps.read_at, segment.data.read_at)
        assert scrub.end(check)
        scrub.found_whole(check, miniature.now_ms)
    if clean:
        miniature.close()
    disk = miniature.disk
    assert isinstance(disk, SimDisk)
    disk.kill()
    return disk.medium, content


def copied(medium: Medium) -> Medium:
    """An independent medium with the same files."""

    def copy(directory: Directory) -> Directory:
        made = Directory()
        for name, entry in directory.entries.items():
            made.entries[name] = copy(entry) if isinstance(entry, Directory) else Inode(bytes(entry.data))
        made.durable = dict(made.entries)
        return made

    fresh = Medium()
    fresh.root = copy(medium.root)
    return fresh


def cut(medium: Medium, path: str, size: int) -> None:
    inode = medium.find(path)
    assert isinstance(inode, Inode)
    del inode.data[size:]
    del inode.durable[size:]


def judge(medium: Medium, content: tuple[bytes, bytes], what: str) -> None:
    """Open what is left, read all of it: everything served is right, everything missing is named."""
    stamps, batches = content
    try:
        found = Miniature(SimDisk(medium), settings=SETTINGS, tail_bytes=0)
    except (SmallFileCorrupt, PartitionDamaged):
        return  # classified: the directory or the partition is unclean
    if not found.logs:
        raise AssertionError(f"{what}: the partition is gone")
    log = found.log
    named = bool(found.reports[0].damage) or found.replay.unknown_loss
    served_stamps, served_batches = 0, 0
    offset = log.log_start_offset
    assert log.log_end_offset <= 2 * BATCHES, what
    while offset < log.log_end_offset:
        try:
            part = found.read(offset)
        except (CorruptLog, OffsetOutOfRange):
            named = True
            offset += 1
            continue
        assert part.next_offset > offset, what
        number = part.first_offset // 2
        size = len(b"".join(part.batches))
        width = len(batches) // BATCHES
        assert part.stamps == stamps[64 * number : 64 * number + len(part.stamps)], (
            f"{what}: a wrong stamp was served"
        )
        assert b"".join(part.batches) == batches[width * number : width * number + size], (
            f"{what}: a wrong batch was served"
        )
        served_stamps += len(part.stamps)
        served_batches += size
        offset = part.next_offset
    for finding in log.scrub.findings(log.high_watermark):
        assert finding in FINDINGS, f"{what}: verified, though nobody did"
    whole = served_stamps == len(stamps) and served_batches == len(batches)
    assert whole or named, f"{what}: {served_stamps // 64} of {BATCHES} batches left and nobody says so"


def _findings() -> list[Finding]:
    """What was read back of the log before anything was spoilt."""
    medium, _ = left_behind(clean=False)
    log = Miniature(SimDisk(medium), settings=SETTINGS, tail_bytes=0).log
    return log.scrub.findings(log.high_watermark)


FINDINGS = _findings()


def test_what_starts_above_the_beginning_is_known_whole_or_not_at_all() -> None:
    """Totals and producers below the first offset, taken over from a leader: each byte flipped, each length cut."""
    leader = Miniature(settings=SETTINGS)
    leader.create()
    leader.fill(3, body_bytes=20)
    follower = Miniature(settings=SETTINGS)
    follower.create()
    state = replace(leader.log.state_at_start(), offset=6, odometer=_totals(leader), producers=b"")
    follower.start_over(6, state=state)
    follower.fill(1, body_bytes=20)
    disk = follower.disk
    assert isinstance(disk, SimDisk)
    disk.kill()
    path = f"{layout.partition_directory(where())}/{layout.START_FILE}"
    inode = disk.medium.find(path)
    assert isinstance(inode, Inode) and len(inode.data) > 40
    known = Miniature(SimDisk(copied(disk.medium)), settings=SETTINGS).log.odometer
    assert known is not None and known.end_offset == 8
    for position in range(len(inode.data)):
        for spoil in ("flip", "cut"):
            spoilt = copied(disk.medium)
            if spoil == "flip":
                spoilt.flip(path, position, position % 8)
            else:
                cut(spoilt, path, position)
            for name in (layout.ODOMETER_FILE, layout.PRODUCERS_FILE):
                SimDisk(spoilt).remove(f"{layout.partition_directory(where())}/{name}")
            found = Miniature(SimDisk(spoilt), settings=SETTINGS, tail_bytes=0).log
            assert found.log_end_offset == 8, f"{spoil} at {position}"
            assert found.odometer is None, f"{spoil} at {position}: wrong totals are believed"


def _totals(leader: Miniature) -> bytes:
    odometer = leader.log.odometer
    assert odometer is not None
    return odometer.encode(leader.log._segments.seed)


def file_paths(medium: Medium) -> list[str]:
    return [path for path, inode in medium.files() if len(inode.data)]


KINDS = [
    "log",
    "stamps",
    "index",
    "partition.json",
    "epochs",
    "producers",
    "odometer",
    "seals",
    "scrubbed",
    "checkpoint",
    "journal",
]


def kind_of(path: str) -> str:
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2] if name[0].isdigit() else name


def of_kind(medium: Medium, kind: str) -> Iterator[tuple[str, int]]:
    for path in file_paths(medium):
        if kind_of(path) == kind:
            inode = medium.find(path)
            assert isinstance(inode, Inode)
            yield path, len(inode.data)


def test_every_kind_of_file_is_there() -> None:
    medium, _ = left_behind(clean=False)
    assert sorted({kind_of(path) for path in file_paths(medium)}) == sorted(KINDS)


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "stopped"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_never_served_and_never_hides_a_loss(kind: str, clean: bool) -> None:
    medium, content = left_behind(clean=clean)
    for path, size in list(of_kind(medium, kind)):
        for position in range(size):
            spoilt = copied(medium)
            spoilt.flip(path, position, position % 8)
            judge(spoilt, content, f"{path} byte {position}")


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "stopped"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_short_never_hides_a_loss(kind: str, clean: bool) -> None:
    medium, content = left_behind(clean=clean)
    for path, size in list(of_kind(medium, kind)):
        for left in range(size):
            spoilt = copied(medium)
            cut(spoilt, path, left)
            judge(spoilt, content, f"{path} cut to {left} bytes")


def test_a_file_of_zeros_parses_as_nothing() -> None:
    medium, content = left_behind(clean=False)
    for path in file_paths(medium):
        spoilt = copied(medium)
        inode = spoilt.find(path)
        assert isinstance(inode, Inode)
        inode.data[:] = bytes(len(inode.data))
        inode.durable[:] = inode.data
        judge(spoilt, content, f"{path} of zeros")


def test_a_file_that_is_gone_never_hides_a_loss() -> None:
    medium, content = left_behind(clean=False)
    for path in file_paths(medium):
        if kind_of(path) in ("partition.json", "checkpoint"):
            continue
        spoilt = copied(medium)
        SimDisk(spoilt).remove(path)
        judge(spoilt, content, f"{path} removed")


def test_the_small_log_is_small() -> None:
    medium, _ = left_behind(clean=False)
    assert medium.used_bytes() < 16 * limits.KIB
    assert layout.partition_directory(where()) in {path.rpartition("/")[0] for path in file_paths(medium)}
