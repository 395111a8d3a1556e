"""The log directory's own files: whose it is, and whether it was left cleanly (RL46, RL54)."""

import json
from dataclasses import dataclass
from typing import Any

import crc32c

from data_plane.disk.port import Disk, FileMissing, SyncDirectory, SyncFile
from data_plane.log import layout
from data_plane.log.checkpoint import Checkpoint, pack_checkpoint
from data_plane.log.presumed import holds_segments
from data_plane.log.small_file import read_whole, write_small_file
from data_plane.node.config import NodeConfig
from data_plane.node.ports import Rng

IDENTITY_FILE = "directory.json"
CLEAN_FILE = "clean"
FORMAT = 1


class WrongDirectory(Exception):
    """The log directory belongs to another cluster or broker, or to a newer format. Nothing in it was touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """`clean`: the broker before this one stopped by its own will, with everything synced."""

    directory_id: str
    clean: bool
    lost: str = ""
    """Why nothing in it can be trusted, though it holds segments: its identity is gone or unreadable."""


def open_directory(disk: Disk, config: NodeConfig, rng: Rng) -> Directory:
    """Lock it, check or give its identity, and take the clean marker away before anything is written (RL46).

    Raises `DirectoryLocked`, `WrongDirectory`, `DiskFault`.
    """
    disk.lock()
    disk.remove(IDENTITY_FILE + layout.TEMPORARY_SUFFIX)
    identity, lost = _read_identity(disk), ""
    if identity is None:
        lost = f"{IDENTITY_FILE} is missing or bad, but there are segments" if holds_segments(disk) else ""
        identity = _new_identity(config, rng)
        if not lost:
            # A directory with an identity has a checkpoint from then on: one that is gone later was lost.
            empty = pack_checkpoint(Checkpoint(first_sequence=1, entries={}))
            for steps in write_small_file(disk, layout.CHECKPOINT, empty):
                disk.sync_now(steps)
        for steps in write_small_file(disk, IDENTITY_FILE, json.dumps(identity).encode()):
            disk.sync_now(steps)
    for name, mine in (
        ("format", FORMAT),
        ("cluster_id", config.cluster_id),
        ("broker_id", config.broker_id),
    ):
        if identity.get(name) != mine:
            raise WrongDirectory(f"{IDENTITY_FILE}: {name} is {identity.get(name)!r}, {mine!r} required")
    clean = disk.exists(CLEAN_FILE)
    if clean:
        disk.remove(CLEAN_FILE)
        disk.sync_now([SyncDirectory("")])
    return Directory(directory_id=identity["directory_id"], clean=clean and not lost, lost=lost)


def _read_identity(disk: Disk) -> dict[str, Any] | None:
    """None when there is none, or none that can be believed."""
    try:
        identity = json.loads(read_whole(disk, IDENTITY_FILE))
    except (FileMissing, ValueError):
        return None
    if not isinstance(identity, dict) or not isinstance(identity.get("directory_id"), str):
        return None
    checksum = identity.pop("crc32c", None)  # the first directories had none
    return identity if checksum in (None, _checksum(identity)) else None


def _new_identity(config: NodeConfig, rng: Rng) -> dict[str, Any]:
    identity = {
        "format": FORMAT,
        "cluster_id": config.cluster_id,
        "broker_id": config.broker_id,
        "directory_id": rng.random_bytes(16).hex(),
    }
    return identity | {"crc32c": _checksum(identity)}


def _checksum(identity: dict[str, Any]) -> str:
    return f"{crc32c.crc32c(json.dumps(identity, sort_keys=True).encode()):08x}"


def mark_clean(disk: Disk, broker_epoch: int) -> None:
    """The very last step of a clean stop (RL46)."""
    file = disk.open(CLEAN_FILE, create=True)
    file.write_at(0, [json.dumps({"broker_epoch": broker_epoch}).encode()])
    disk.sync_now([SyncFile(file), SyncDirectory("")])
    file.close()
