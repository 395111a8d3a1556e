"""Reads a partition straight from a broker's log directory: every batch with its stamp, checked against
each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from penstock.contract.ids import TopicPartition
from penstock.records.batch import check_batch
from penstock.records.stamp import STAMP_BYTES, Stamp, stamp_seed, unpack_stamp

_SIDECAR_HEADER_BYTES = 64


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch as it rests: base offset of its segment, its bytes, its stamp's bytes."""

    segment: int
    batch: bytes
    stamp: bytes
    end_offset: int


class Damaged(AssertionError):
    """A file holds what no log may hold."""


def stored_batches(log_directory: Path, partition: TopicPartition, below: int) -> list[StoredBatch]:
    """Batches that end at or below offset `below`, in order. Raises `Damaged` naming the file and the fact."""
    directory = log_directory / "topics" / str(partition)
    stored = list(_read(directory, partition, below))
    for before, after in pairwise(stored):
        base_offset = int.from_bytes(after.batch[:8], "big")
        if base_offset != before.end_offset:
            raise Damaged(f"{directory}: offset {base_offset} follows {before.end_offset}")
    return stored


def _read(directory: Path, partition: TopicPartition, below: int) -> Iterator[StoredBatch]:
    seed = stamp_seed(partition)
    for stamps_file in sorted(directory.glob("*.stamps")):
        log_file = stamps_file.with_suffix(".log")
        log, stamps = log_file.read_bytes(), stamps_file.read_bytes()
        for at in range(_SIDECAR_HEADER_BYTES, len(stamps) - STAMP_BYTES + 1, STAMP_BYTES):
            packed = stamps[at : at + STAMP_BYTES]
            if not any(packed):
                break  # preallocated space
            stamp = unpack_stamp(packed, seed)
            if stamp.end_offset > below:
                return
            batch = log[stamp.position : stamp.position + stamp.size]
            _check(log_file, batch, stamp)
            yield StoredBatch(int(log_file.stem), batch, packed, stamp.end_offset)


def _check(file: Path, batch: bytes, stamp: Stamp) -> None:
    header = check_batch(batch, from_producer=False)
    said = (header.base_offset, header.offset_span, header.record_count, header.leader_epoch)
    stamped = (stamp.base_offset, stamp.offset_span, stamp.record_count, stamp.leader_epoch)
    if said != stamped:
        raise Damaged(f"{file}: batch says {said}, its stamp {stamped}")


def differences(replicas: dict[int, list[StoredBatch]]) -> list[str]:
    """How the replicas of one partition differ, one line a broker that differs from the first."""
    first, *others = sorted(replicas)
    found = []
    for other in others:
        ours, theirs = replicas[first], replicas[other]
        if ours == theirs:
            continue
        same = next(
            (index for index, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]),
            min(len(ours), len(theirs)),
        )
        found.append(
            f"broker {other} has {len(theirs)} batches, broker {first} {len(ours)}; they part at batch {same}"
        )
    return found
