"""Small files that change as a whole: write beside, sync, rename, sync the directory (RL124), with a checksum over all."""

from collections.abc import Iterator

from data_plane.disk.port import Disk, SyncStep


def write_small_file(disk: Disk, path: str, body: bytes) -> Iterator[list[SyncStep]]:
    """A protocol: sync each list yielded before asking for the next. When it ends, the new content is durable.

    `for steps in write_small_file(...): await disk.sync(steps)`
    """
    raise NotImplementedError
