"""Reads that may have to wait for the medium, off the loop."""

import asyncio

from data_plane.disk.port import Disk, DiskFault
from data_plane.log.outcomes import Slice
from data_plane.log.partition_log import PartitionLog
from data_plane.log.reading import ColdRead


async def read_cold(disk: Disk, log: PartitionLog, cold: ColdRead) -> Slice:
    """Perform a cold read of the log and verify it. Raises `CorruptLog` when the medium or a checksum fails (RL130)."""
    try:
        data = await disk.read(cold.file, cold.position, cold.length)
    except DiskFault as fault:
        raise log.read_failed(cold, fault) from fault
    except asyncio.CancelledError:
        log.forget(cold)
        raise
    return log.slice_of(cold, data)
