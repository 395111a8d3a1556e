"""What a log is presumed to have held when the checkpoint that knew it is lost: all that its files still tell.

A lost checkpoint is damage, never a new directory: what fails its check below the last good stamp was durable once.
"""

from data_plane.disk.port import Disk
from data_plane.log import layout
from data_plane.log.readable import read_or_zeros
from data_plane.log.sidecar import brief, intact, stamp_at, stamps_in
from penstock.records.stamp import STAMP_BYTES


def holds_segments(disk: Disk) -> bool:
    """Whether any partition of the log directory has a segment, so that there was a checkpoint once."""
    return any(
        name.endswith((layout.LOG_SUFFIX, layout.STAMPS_SUFFIX))
        for partition in disk.list(layout.TOPICS)
        if layout.partition_of(partition) is not None
        for name in disk.list(f"{layout.TOPICS}/{partition}")
    )


def presumed_range(disk: Disk, directory: str, bases: list[int], seed: int, start: int) -> tuple[int, int]:
    """(log start, durable end) of the segments at `bases`; `start` when there are none."""
    if not bases:
        return start, start
    first = max(start, bases[0])
    for base in reversed(bases):
        end = _last_good_end(disk, layout.segment_file(directory, base, layout.STAMPS_SUFFIX), seed)
        if end is not None:
            return first, max(first, end)
    return first, first


def _last_good_end(disk: Disk, path: str, seed: int) -> int | None:
    """End offset of the last good stamp of a stamps file; None when it has none."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        count = stamps_in(file.size())
        block, _ = read_or_zeros(file, stamp_at(0), count * STAMP_BYTES)
    finally:
        file.close()
    for at in range(len(block) - STAMP_BYTES, -1, -STAMP_BYTES):
        if intact(block, at, seed):
            return brief(block, at).end_offset
    return None
