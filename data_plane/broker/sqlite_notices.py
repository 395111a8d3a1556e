"""How processes with the same metadata file learn of one another's commits: a file beside it is opened after each.

The kernel's inotify tells each process that watches the file. Nothing is written, so a full disk is no matter. A notice
can be missing, because its process was killed after the commit or because the machine has no inotify instance left: a
reader looks now and then whatever it hears.
"""

import ctypes
import os
import select
from pathlib import Path

_IN_OPEN = 0x20
_EVENTS_BYTES = 4_096
_SUFFIX = "-notices"


class CommitNotices:
    """One waits, at most one thread; any thread announces or wakes."""

    def __init__(self, path: Path) -> None:
        """`path`: the metadata file."""
        self._path = f"{path}{_SUFFIX}"
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)
        self._heard = _watch(self._path)
        if self._heard >= 0:
            self._poll.register(self._heard, select.POLLIN)

    @property
    def hears(self) -> bool:
        """Whether commits of other processes end a wait."""
        return self._heard >= 0

    def announce(self) -> None:
        """This process has committed: wake who waits, here and in the other processes."""
        try:
            os.close(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            pass  # the others look by themselves
        if not self.hears:
            self.wake()

    def wake(self) -> None:
        """End the wait of this process, or the next one if none is under way."""
        os.eventfd_write(self._woken, 1)

    def wait(self, timeout_ms: float) -> None:
        """Until something is heard, at most so long."""
        for descriptor, _ in self._poll.poll(max(0.0, timeout_ms)):
            try:
                os.read(descriptor, 8 if descriptor == self._woken else _EVENTS_BYTES)
            except BlockingIOError:
                pass

    def close(self) -> None:
        """When no thread waits, announces or wakes any more."""
        os.close(self._woken)
        if self.hears:
            os.close(self._heard)
            self._heard = -1


def _watch(path: str) -> int:
    """A descriptor that can be read when the file was opened; -1 when the machine gives none out."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        return -1
    system = ctypes.CDLL(None)
    descriptor: int = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor >= 0 and system.inotify_add_watch(descriptor, os.fsencode(path), _IN_OPEN) < 0:
        os.close(descriptor)
        return -1
    return descriptor
