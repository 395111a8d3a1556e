"""`partition.json`: whose log a directory holds. Written once, when the directory is made."""

import json
from dataclasses import dataclass

import crc32c

from data_plane.disk.port import Disk, File, FileMissing
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
        checksum = fields.pop("crc32c")
        if fields["format"] != FORMAT_VERSION or checksum != _checksum(fields):
            return None
        identity = Identity(
            where=TopicPartition(TopicId(bytes.fromhex(fields["topic_id"])), int(fields["partition"])),
            replica_generation=int(fields["replica_generation"]),
            start_offset=int(fields["start_offset"]),
        )
        return identity if pack_identity(identity) == data else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def write_identity(disk: Disk, directory: str, identity: Identity) -> File:
    """The open file, to be synced together with its directory."""
    file = disk.open(f"{directory}/{layout.PARTITION_FILE}", create=True)
    file.write_at(0, [pack_identity(identity)])
    return file


def read_identity(disk: Disk, directory: str) -> Identity:
    """Raises `PartitionUnborn` when the directory was never finished, `PartitionDamaged` when it holds records."""
    try:
        identity = unpack_identity(read_whole(disk, f"{directory}/{layout.PARTITION_FILE}"))
    except FileMissing:
        identity = None
    if identity is not None:
        return identity
    if any(name.endswith((layout.LOG_SUFFIX, layout.STAMPS_SUFFIX)) for name in disk.list(directory)):
        raise PartitionDamaged(
            f"{directory}: {layout.PARTITION_FILE} is missing or bad, but there are segments"
        )
    raise PartitionUnborn(
        f"{directory}: {layout.PARTITION_FILE} is missing or bad, and there are no segments"
    )
