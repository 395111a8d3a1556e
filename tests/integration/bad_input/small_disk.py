"""A file system of a few MiB, for brokers that are to run out of room."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_until


def may_mount() -> bool:
    """Mounting needs root, which continuous integration is."""
    return os.geteuid() == 0


@contextmanager
def small_disk(path: Path, size: int) -> Iterator[None]:
    """A file system of `size` bytes at `path`, which is made."""
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(path)], check=True)
    try:
        yield
    finally:
        # What is just ending may hold a file on it for a moment more.
        wait_until(
            f"nobody uses {path}",
            lambda: subprocess.run(["umount", str(path)], check=False).returncode == 0,
        )


class Ballast:
    """A file that takes up room on a disk, as another program might."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "of-another-program"

    def leave(self, free: int) -> None:
        """Grow until `free` bytes are left to others."""
        found = os.statvfs(self._file.parent)
        size = found.f_bavail * found.f_frsize - free
        with self._file.open("ab", buffering=0) as file:
            try:
                file.write(bytes(size))
            except OSError as full:
                if full.errno != errno.ENOSPC:  # others took some of it meanwhile
                    raise

    def drop(self) -> None:
        self._file.unlink()
