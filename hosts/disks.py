"""The disk of a broker: a file system of its own, which can be full and can lose its power.

A power cut is the ioctl that shuts a file system down without flushing anything: what was not synced is gone, as is
what was synced without its directory. The file system is then mounted again, which replays its journal.
"""

import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

from hosts.commands import CommandFailed, run

_SHUT_DOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN."""
_WITHOUT_FLUSH = 2
_BUSY_S = 20.0
_POLL_S = 0.02
MIB = 1 << 20
_SPARED = (0, MIB // 4, MIB, 4 * MIB, 16 * MIB)
"""A file system needs some space itself for a file that takes up the rest."""
LOOP_BYTES = 1024 * MIB
"""Sparse: only what is written takes space."""
MEMORY_BYTES = 512 * MIB

MAKE: dict[str, tuple[str, ...]] = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
}


class Disk:
    """A file system at `point`. `kind` is ext4 or xfs, on a loop device over `image`, or tmpfs, in memory."""

    def __init__(self, kind: str, image: Path, point: Path, size: int = LOOP_BYTES) -> None:
        """Make and mount it. Raises `CommandFailed`."""
        self.kind = kind
        self.point = point
        self._image = image
        point.mkdir(parents=True, exist_ok=True)
        if kind == "tmpfs":
            run("mount", "-t", "tmpfs", "-o", f"size={MEMORY_BYTES},mode=700", "tmpfs", str(point))
            return
        image.parent.mkdir(parents=True, exist_ok=True)
        with image.open("wb") as file:
            file.truncate(size)
        run(*MAKE[kind], str(image))
        self._mount()

    def _mount(self) -> None:
        run("mount", "-o", "loop", str(self._image), str(self.point))

    def cut_power(self) -> None:
        """From here on nothing reaches the disk. What runs on it must be killed before `restore`."""
        disk = os.open(self.point, os.O_RDONLY)
        try:
            fcntl.ioctl(disk, _SHUT_DOWN, struct.pack("I", _WITHOUT_FLUSH))
        finally:
            os.close(disk)

    def restore(self) -> None:
        """Mount it again, with what it had durably. Raises `CommandFailed`."""
        self.unmount()
        self._mount()

    def unmount(self) -> None:
        """Raises `CommandFailed` when something uses it for long."""
        _patiently(lambda: run("umount", str(self.point)))

    def fill(self, leave: int) -> None:
        """Take up the space until `leave` bytes are left to others."""
        found = os.statvfs(self.point)
        size = max(0, found.f_bavail * found.f_frsize - leave)
        ballast = os.open(self.point / "ballast", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            for spared in _SPARED:
                try:
                    os.posix_fallocate(ballast, 0, max(1, size - spared))
                    return
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
        finally:
            os.close(ballast)

    def drain(self) -> None:
        """Give the space back."""
        (self.point / "ballast").unlink(missing_ok=True)


def _patiently(action: Callable[[], object]) -> None:
    """Repeat while the kernel still closes the files of what was killed."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            action()
            return
        except CommandFailed:
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL_S)
