"""`partition.json`: whose log a directory holds. Written once, when the directory is made."""

import json
from dataclasses import dataclass

import crc32c

from data_plane.disk.port import Disk, DiskFault, File, FileMissing
from data_plane.log import layout
from data_plane.log.outcomes import PartitionDamaged, PartitionUnborn
from data_plane.log.small_file import read_whole
from penstock.contract.ids import TopicId, TopicPartition

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose replica it is, and where its log began when the directory was made."""

    where: TopicPartition
    replica_generation: int
    start_offset: int


def pack_identity(identity: Identity) -> bytes:
    fields = {
        "format": FORMAT_VERSION,
        "partition": identity.where.partition,
        "replica_generation": identity.replica_generation,
        "start_offset": identity.start_offset,
        "topic_id": identity.where.topic_id.hex(),
    }
    return json.dumps(fields | {"crc32c": _checksum(fields)}, sort_keys=True).encode() + b"\n"


def _checksum(fields: dict[str, object]) -> str:
    return f"{crc32c.crc32c(json.dumps(fields, sort_keys=True).encode()):08x}"


def unpack_identity(data: bytes) -> Identity | None:
    """None for anything that `pack_identity` did not write."""
    try:
        fields = json.loads(data)
        identity = Identity(
            where=TopicPartition(TopicId(bytes.fromhex(fields["topic_id"])), int(fields["partition"])),
            replica_generation=int(fields["replica_generation"]),
            start_offset=int(fields["start_offset"]),
        )
        # Format and checksum are as they must be if what was read packs to these very bytes.
        return identity if pack_identity(identity) == data else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def write_identity(disk: Disk, directory: str, identity: Identity) -> File:
    """The open file, to be synced together with its directory. Raises `DiskFull`."""
    file = disk.open(f"{directory}/{layout.PARTITION_FILE}", create=True)
    try:
        file.write_at(0, [pack_identity(identity)])
    except DiskFault:
        file.close()
        raise
    return file


def read_identity(disk: Disk, directory: str, *, counted: bool) -> Identity:
    """`counted`: it may hold acknowledged records, because checkpoint or journal know of it, or cannot tell.

    Raises `PartitionDamaged` when it holds records of an unknown log, `PartitionUnborn` when it was never finished. The
    first batch is written before the directory is durable, so a power cut may leave its files alone.
    """
    try:
        identity = unpack_identity(read_whole(disk, f"{directory}/{layout.PARTITION_FILE}"))
    except FileMissing:
        identity = None
    if identity is not None:
        return identity
    names = disk.list(directory)
    if counted and any(name.endswith((layout.LOG_SUFFIX, layout.STAMPS_SUFFIX)) for name in names):
        raise PartitionDamaged(
            f"{directory}: {layout.PARTITION_FILE} is missing or bad, but there are segments"
        )
    raise PartitionUnborn(
        f"{directory}: {layout.PARTITION_FILE} is missing or bad, and there are no records that count"
    )
