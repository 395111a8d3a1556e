"""What a log that begins above offset 0 has to know of what lies below: totals and producers at its first offset.

It comes from the leader and is kept in a file of its own, durable before the log is wiped. The file speaks of one
offset; what was committed below it is the same in every history of the partition, so it stays true for as long as the
log begins there.

Body of the file, big-endian: offset q | odometer_bytes I | producers_bytes I | odometer | producers.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from data_plane.disk.port import Disk, SyncStep
from data_plane.log import layout
from data_plane.log.producers import Producers
from data_plane.log.small_file import (
    SmallFileCorrupt,
    SmallFileKind,
    pack_small_file,
    read_cache,
    write_small_file,
)
from penstock.contract.invariant import InvariantBroken
from penstock.rules.odometer import Odometer, OdometerCorrupt

FORMAT_VERSION = 1
_HEAD = struct.Struct(">qII")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartState:
    """At the end of everything below `offset`; empty bytes for what is not known."""

    offset: int
    odometer: bytes = b""
    producers: bytes = b""

    def totals(self, offset: int, seed: int) -> Odometer | None:
        """The odometer at `offset`; a new one at 0; None when it is not known."""
        if not offset:
            return Odometer()
        if offset != self.offset or not self.odometer:
            return None
        try:
            odometer = Odometer.decode(self.odometer, seed)
        except (OdometerCorrupt, InvariantBroken):
            return None
        return odometer if odometer.end_offset == offset else None

    def table(self, offset: int) -> Producers:
        """The producers known at `offset`; none when that is not known."""
        if offset == self.offset and self.producers:
            try:
                return Producers.unpack(self.producers)
            except SmallFileCorrupt:
                pass
        return Producers()


NOTHING_KNOWN = StartState(offset=-1)


def keep_start(disk: Disk, directory: str, state: StartState) -> Iterator[list[SyncStep]]:
    """Write it; durable when the protocol ends. Raises `DiskFull`."""
    head = _HEAD.pack(state.offset, len(state.odometer), len(state.producers))
    body = head + state.odometer + state.producers
    path = f"{directory}/{layout.START_FILE}"
    yield from write_small_file(disk, path, pack_small_file(SmallFileKind.START, FORMAT_VERSION, body))


def read_start(disk: Disk, directory: str) -> StartState:
    """What was kept; nothing known when the file is missing or bad."""
    body = read_cache(disk, f"{directory}/{layout.START_FILE}", SmallFileKind.START, FORMAT_VERSION)
    if body is None or len(body) < _HEAD.size:
        return NOTHING_KNOWN
    offset, odometer_bytes, producers_bytes = _HEAD.unpack_from(body)
    middle = _HEAD.size + odometer_bytes
    if middle + producers_bytes != len(body):
        return NOTHING_KNOWN
    return StartState(offset=offset, odometer=body[_HEAD.size : middle], producers=body[middle:])
