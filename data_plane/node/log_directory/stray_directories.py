"""Partition directories unknown to the metadata: renamed to `*.stray`, kept for days, never deleted at boot (RL53)."""

import json

from data_plane.disk.port import Disk, DiskFault, FileMissing, SyncDirectory, SyncFile
from data_plane.log import layout
from data_plane.log.retention import GUARD_MS
from data_plane.log.small_file import read_whole

STRAY_SUFFIX = ".stray"
NOTE_FILE = "stray.json"
"""In each of them: when and why it was set aside."""


class StrayDirectories:
    """Those of one log directory. A metadata store that was wiped or rolled back deletes nothing."""

    def __init__(self, disk: Disk, keep_ms: int) -> None:
        self._disk = disk
        self._keep_ms = keep_ms
        self.count = 0
        """How many there are, as of the last look."""
        self._began_ms: float | None = None

    def set_aside(self, path: str, now_ms: int, reason: str) -> None:
        """Rename a partition's directory, durably; it is not looked at again."""
        target, number = path + STRAY_SUFFIX, 1
        while self._disk.exists(target):
            number += 1
            target = f"{path}{STRAY_SUFFIX}.{number}"
        self._disk.rename(path, target)
        self._disk.sync_now([SyncDirectory(layout.TOPICS)])
        self._note(target, now_ms, reason)
        self.count += 1

    def look(self, now_ms: int, monotonic_ms: float, *, clock_trusted: bool) -> list[str]:
        """Count them and delete those that are old enough; their names. A clock that is not trusted, or a broker that
        has not run for an hour, deletes none: it may be the clock that jumped."""
        if self._began_ms is None:
            self._began_ms = monotonic_ms
        ripe = clock_trusted and monotonic_ms - self._began_ms >= min(GUARD_MS, self._keep_ms)
        removed: list[str] = []
        found = [name for name in self._disk.list(layout.TOPICS) if is_stray(name)]
        for name in found:
            path = f"{layout.TOPICS}/{name}"
            since_ms = self._since_ms(path)
            if since_ms is None or since_ms > now_ms:
                self._note(path, now_ms, "found set aside")
            elif ripe and now_ms - since_ms >= self._keep_ms:
                self._disk.remove_directory(path)
                removed.append(name)
        self.count = len(found) - len(removed)
        return removed

    def _note(self, path: str, now_ms: int, reason: str) -> None:
        try:
            file = self._disk.open(f"{path}/{NOTE_FILE}", create=True)
        except DiskFault:
            return  # without a note its time begins at a later look
        try:
            text = json.dumps({"since_ms": now_ms, "reason": reason})
            file.truncate(0)
            file.write_at(0, [text.encode()])
            self._disk.sync_now([SyncFile(file)])
        except DiskFault:
            return
        finally:
            file.close()

    def _since_ms(self, path: str) -> int | None:
        try:
            note = json.loads(read_whole(self._disk, f"{path}/{NOTE_FILE}"))
            since_ms = note["since_ms"]
        except (FileMissing, ValueError, KeyError, TypeError):
            return None
        return since_ms if type(since_ms) is int else None


def is_stray(name: str) -> bool:
    stem, found, number = name.partition(STRAY_SUFFIX)
    return bool(found) and layout.partition_of(stem) is not None and (not number or number[1:].isdigit())
