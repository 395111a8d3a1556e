"""Segment files with damage that were kept aside as `*.damaged`: they go after days, and before all else when disk
space is short (RL122, RL128)."""

import json

from data_plane.disk.port import Disk, DiskFault, FileMissing
from data_plane.log import layout
from data_plane.log.retention import GUARD_MS
from data_plane.log.small_file import SmallFileKind, pack_small_file, read_cache, write_cache
from data_plane.node.tasks import in_turns

NOTES_FILE = "damaged.seen"
"""Path -> since when it has been there, ms UTC. A cache: what it does not know is new."""
FORMAT = 1
_DIRECTORIES_PER_TURN = 50
"""Listed before others have their turn of the event loop: a few ms."""


class Quarantine:
    """Those of one log directory."""

    def __init__(self, disk: Disk, keep_ms: int) -> None:
        self._disk = disk
        self._keep_ms = keep_ms
        self._since: dict[str, int] | None = None
        self._sizes: dict[str, int] = {}
        self._began_ms: float | None = None

    @property
    def count(self) -> int:
        """How many files there are, as of the last look."""
        return len(self._sizes)

    @property
    def size_bytes(self) -> int:
        """Of all of them."""
        return sum(self._sizes.values())

    async def look(self, now_ms: int, monotonic_ms: float, *, clock_trusted: bool) -> list[str]:
        """Find them, and delete those that are old enough; their paths. A clock that is not trusted, or a broker that
        has not run for an hour, deletes none: it may be the clock that jumped."""
        if self._began_ms is None:
            self._began_ms = monotonic_ms
        ripe = clock_trusted and monotonic_ms - self._began_ms >= min(GUARD_MS, self._keep_ms)
        before, found, removed = dict(self._sizes), dict[str, int](), list[str]()
        async for names in in_turns(self._disk.list(layout.TOPICS), _DIRECTORIES_PER_TURN):
            for name in names:
                if layout.partition_of(name) is not None:
                    found.update(self._found_in(f"{layout.TOPICS}/{name}"))
        found |= {
            path: size for path, size in self._sizes.items() if path not in before
        }  # reported meanwhile
        known = self._known()
        since = {path: min(known.get(path, now_ms), now_ms) for path in found}
        for path, since_ms in since.items():
            if ripe and now_ms - since_ms >= self._keep_ms:
                self._disk.remove(path)
                removed.append(path)
        for path in removed:
            del found[path], since[path]
        self._sizes = found
        self._note(since)
        return removed

    def look_in(self, directory: str, now_ms: int) -> None:
        """Something was set aside in a partition's directory just now."""
        found = self._found_in(directory)
        self._sizes.update(found)
        self._note({**dict.fromkeys(found, now_ms), **self._known()})

    def give_up(self) -> bool:
        """Disk space is short: delete all that is known. Returns whether there was anything."""
        given_up, self._sizes = self._sizes, {}
        for path in given_up:
            self._disk.remove(path)
        return bool(given_up)

    def _found_in(self, directory: str) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for name in self._disk.list(directory):
            if not name.endswith(layout.SET_ASIDE_SUFFIX):
                continue
            path = f"{directory}/{name}"
            try:
                file = self._disk.open(path)
            except FileMissing:
                continue
            try:
                sizes[path] = file.size()
            finally:
                file.close()
        return sizes

    def _known(self) -> dict[str, int]:
        if self._since is None:
            body = read_cache(self._disk, NOTES_FILE, SmallFileKind.DAMAGED_SEEN, FORMAT)
            self._since = {} if body is None else json.loads(body)
        return self._since

    def _note(self, since: dict[str, int]) -> None:
        if since == self._since:
            return
        self._since = since
        body = json.dumps(since).encode()
        try:
            write_cache(self._disk, NOTES_FILE, pack_small_file(SmallFileKind.DAMAGED_SEEN, FORMAT, body))
        except DiskFault:
            return  # its time begins at a later start
