"""What a simulated disk holds: files as the page cache shows them, and what of them a power cut would leave.

The model is POSIX at its least obliging. Per file, any subset of the sectors written since its last sync
survives; a truncation or growth since then may be lost, or stop at any size that the file had meanwhile, with zeros
where no data survived. Per directory, any subset of the creations, renames
and removals since its last sync survives, but one on a name never survives without the earlier ones on that
name, and a rename survives whole or not at all. What was synced survives always. A killed process leaves
the page cache whole.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

SECTOR_BYTES = 512
SIZES_MAX = 64
"""So many sizes since its last sync are remembered of a file."""
PAGE_SECTORS = 8
"""A power cut tears a file at sectors or at pages of 4 KiB; the choice is made per file and cut."""


@dataclass(frozen=True, slots=True)
class Flush:
    """What one sync of a file makes durable: its state when the sync began."""

    version: int
    size: int
    low: int | None
    sectors: dict[int, bytes]


class Inode:
    """One file: `data` as readers see it, `durable` as the medium holds it."""

    __slots__ = (
        "bad", "data", "dirty", "durable", "durable_version", "harmed", "lost", "shrinks", "sizes", "version",
    )  # fmt: skip

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.durable = bytearray(data)
        self.version = self.durable_version = 0
        self.dirty: dict[int, int] = {}
        """Sector -> version of its last write, for what no sync has covered."""
        self.shrinks: list[tuple[int, int]] = []
        """(version, size) of truncations that no sync has covered."""
        self.sizes: list[tuple[int, int]] = []
        """(version, size) of each other size that no sync has covered."""
        self.bad: list[tuple[int, int]] = []
        """Byte ranges that answer EIO until written again."""
        self.harmed: list[tuple[int, int]] = []
        """Byte ranges that are not what was written there last, until written again: readable, and wrong."""
        self.lost: dict[int, None] = {}
        """Sectors that a failed sync dropped: the page cache still shows them, the medium never got them."""

    @property
    def low(self) -> int | None:
        """Smallest size since the last sync, None if the file only grew."""
        return min((size for _, size in self.shrinks), default=None)

    def write(self, position: int, content: bytes | bytearray | memoryview) -> None:
        if not content:
            return
        end = position + len(content)
        if end > len(self.data):
            self._sized(end)
        if position > len(self.data):
            self.data.extend(bytes(position - len(self.data)))
        self.data[position:end] = content
        self.version += 1
        for sector in range(position // SECTOR_BYTES, (end - 1) // SECTOR_BYTES + 1):
            self.dirty[sector] = self.version
            self.lost.pop(sector, None)
        if self.bad:
            self.bad = [(low, high) for low, high in self.bad if high <= position or end <= low]
        if self.harmed:
            self.harmed = [
                (low, high)
                for begin, stop in self.harmed
                for low, high in ((begin, min(stop, position)), (max(begin, end), stop))
                if low < high
            ]

    def write_elsewhere(self, position: int, away: int, content: bytes | bytearray | memoryview) -> None:
        """What belongs at `position` lands `away` bytes too far."""
        self.write(position + away, content)
        self.harmed.append((position, position + away + len(content)))

    def resize(self, size: int) -> None:
        self._sized(size)
        self.version += 1
        if size < len(self.data):
            del self.data[size:]
            self.shrinks.append((self.version, size))
            for sector in [sector for sector in self.dirty if sector * SECTOR_BYTES >= size]:
                del self.dirty[sector]
            self.bad = [(low, min(high, size)) for low, high in self.bad if low < size]
            self.harmed = [(low, min(high, size)) for low, high in self.harmed if low < size]
        else:
            self.data.extend(bytes(size - len(self.data)))

    def _sized(self, size: int) -> None:
        if len(self.sizes) < SIZES_MAX:
            self.sizes.append((self.version + 1, size))

    def begin_flush(self) -> Flush:
        sectors = {sector: self._sector(sector) for sector in self.dirty}
        return Flush(self.version, len(self.data), self.low, sectors)

    def end_flush(self, flush: Flush) -> None:
        """The medium now holds at least the state at `begin_flush`."""
        if flush.version > self.durable_version:
            durable = self.durable
            if flush.low is not None:
                del durable[flush.low :]
            del durable[flush.size :]  # of a cut whose own sync failed the size alone is made up for
            durable.extend(bytes(flush.size - len(durable)))
            for sector, content in flush.sectors.items():
                durable[sector * SECTOR_BYTES : sector * SECTOR_BYTES + len(content)] = content
            self.durable_version = flush.version
        self._clean(flush)

    def fail_flush(self, flush: Flush, rng: random.Random) -> None:
        """A failed sync: some sectors reached the medium; no later sync writes the others."""
        for sector, content in flush.sectors.items():
            start = sector * SECTOR_BYTES
            if rng.random() < 0.5 and start <= len(self.durable):
                self.durable[start : start + len(content)] = content
            else:
                self.lost[sector] = None
        self._clean(flush)

    def evict(self) -> None:
        """The page cache drops what it cannot write: readers see the medium again."""
        for sector in self.lost:
            start = sector * SECTOR_BYTES
            end = min(start + SECTOR_BYTES, len(self.data))
            if start < end:
                self.data[start:end] = bytes(self.durable[start:end]).ljust(end - start, b"\0")
        self.lost.clear()

    def _clean(self, flush: Flush) -> None:
        self.dirty = {sector: version for sector, version in self.dirty.items() if version > flush.version}
        self.shrinks = [shrink for shrink in self.shrinks if shrink[0] > flush.version]
        self.sizes = [sized for sized in self.sizes if sized[0] > flush.version]

    def _sector(self, sector: int) -> bytes:
        return bytes(self.data[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES])

    @property
    def settled(self) -> bool:
        """A power cut has nothing to choose: it leaves exactly `durable`."""
        return not self.dirty and not self.shrinks and len(self.data) == len(self.durable)

    def after_cut(self, choice: "FileChoice") -> bytes:
        """What the medium holds after a cut that keeps what `choice` says."""
        base = bytearray(self.durable)
        low = self.low
        if low is not None and choice.keeps_shrink:
            del base[low:]
        for sector in choice.sectors:
            content = self._sector(sector)
            start = sector * SECTOR_BYTES
            base.extend(bytes(max(0, start - len(base))))
            base[start : start + len(content)] = content
        if choice.keeps_size:
            size = len(self.data) if choice.size is None else choice.size
            base.extend(bytes(max(0, size - len(base))))
        return bytes(base)


class Directory:
    """One directory: `entries` as seen now, `durable` as the medium holds them."""

    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}


Entry = Inode | Directory


@dataclass(frozen=True, slots=True)
class Change:
    """One name in one directory now leads to `entry`, or (None) to nothing."""

    directory: Directory
    name: str
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class NameOperation:
    """A creation, rename or removal that no sync of its directories has covered."""

    number: int
    changes: tuple[Change, ...]
    names: frozenset[tuple[int, str]]
    """Directory, by `id`, and name of each change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChoice:
    """What a cut keeps of one unsettled file."""

    sectors: tuple[int, ...] = ()
    keeps_shrink: bool = True
    keeps_size: bool = False
    size: int | None = None
    """With `keeps_size`: a size that the file had meanwhile; None = its last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutChoice:
    """What a cut keeps: name operations by number, and per unsettled file; a file not named keeps nothing."""

    operations: tuple[int, ...] = ()
    files: dict[int, FileChoice] = field(default_factory=dict)
    """By `id` of the inode."""


class Medium:
    """The disk of one broker over all its lives."""

    def __init__(self) -> None:
        self.root = Directory()
        self.pending: list[NameOperation] = []
        self._operations = 0
        self.holder: object | None = None
        """Who locked the log directory."""

    # -- names ----------------------------------------------------------------------------------------

    def find(self, path: str) -> Entry | None:
        at: Entry = self.root
        for part in _parts(path):
            found = at.entries.get(part) if isinstance(at, Directory) else None
            if found is None:
                return None
            at = found
        return at

    def parent(self, path: str) -> tuple[Directory, str] | None:
        """The directory that holds (or would hold) the last part of `path`; None when it does not exist."""
        head, _, name = path.strip("/").rpartition("/")
        directory = self.find(head)
        return (directory, name) if isinstance(directory, Directory) and name else None

    def change(self, *changes: Change) -> None:
        for change in changes:
            if change.entry is None:
                change.directory.entries.pop(change.name, None)
            else:
                change.directory.entries[change.name] = change.entry
        self._operations += 1
        names = frozenset((id(change.directory), change.name) for change in changes)
        self.pending.append(NameOperation(self._operations, changes, names))

    def sync_directory(self, directory: Directory) -> None:
        """Make every operation on the directory durable, with what must precede it."""
        wanted: set[tuple[int, str]] = set()
        kept: list[NameOperation] = []
        left: list[NameOperation] = []
        for operation in reversed(self.pending):
            for change in operation.changes:
                if change.directory is directory:
                    break
            else:
                if wanted.isdisjoint(operation.names):
                    left.append(operation)
                    continue
            wanted.update(operation.names)
            kept.append(operation)
        for operation in reversed(kept):
            for change in operation.changes:
                _apply(change.directory.durable, change)
        self.pending = left[::-1]

    def files(self, below: str = "") -> list[tuple[str, Inode]]:
        """Every file by path, sorted; of one directory, those in it and in directories below it."""
        directory = self.find(below)
        return list(_walk(below, directory)) if isinstance(directory, Directory) else []

    def used_bytes(self) -> int:
        return sum(len(inode.data) for _, inode in self.files())

    # -- faults of the medium -------------------------------------------------------------------------

    def flip(self, path: str, position: int, bit: int) -> None:
        """Flip one stored bit, for every later reader."""
        inode = self.find(path)
        if isinstance(inode, Inode) and position < len(inode.data):
            inode.data[position] ^= 1 << bit
            inode.harmed.append((position, position + 1))
            if position < len(inode.durable):
                inode.durable[position] ^= 1 << bit

    def spoil(self, path: str, position: int, length: int) -> None:
        """Make reads of a range fail with EIO until it is written again."""
        inode = self.find(path)
        if isinstance(inode, Inode):
            inode.bad.append((position, position + length))

    def evict(self) -> None:
        """The page cache drops what failed syncs left in it."""
        for _, inode in self.files():
            inode.evict()

    # -- power cuts -----------------------------------------------------------------------------------

    def unsettled(self) -> list[Inode]:
        """Every file that a cut may change, reachable now or by what is durable, in a fixed order."""
        found: dict[int, Inode] = {id(inode): inode for _, inode in self.files()}
        for directory in _directories(self.root):
            for entry in directory.durable.values():
                if isinstance(entry, Inode):
                    found.setdefault(id(entry), entry)
        return [inode for inode in found.values() if not inode.settled]

    def flush(self) -> None:
        """Everything written to files is durable from now on, as when a disk empties its cache."""
        for inode in self.unsettled():
            inode.end_flush(inode.begin_flush())

    def after_cut(self, choice: CutChoice) -> "Medium":
        """A new medium: what is left when the power goes now and `choice` survives."""
        overlay: dict[int, dict[str, Change]] = {}
        for operation in self.pending:
            if operation.number in choice.operations:
                for change in operation.changes:
                    overlay.setdefault(id(change.directory), {})[change.name] = change
        copies: dict[int, Inode] = {}

        def copy(directory: Directory) -> Directory:
            names = dict(directory.durable)
            for change in overlay.get(id(directory), {}).values():
                _apply(names, change)
            made = Directory()
            for name, entry in names.items():
                if isinstance(entry, Directory):
                    made.entries[name] = copy(entry)
                else:
                    if id(entry) not in copies:
                        left = Inode(entry.after_cut(choice.files.get(id(entry), FileChoice())))
                        left.bad = list(entry.bad)
                        left.harmed = [
                            (low, min(high, len(left.data)))
                            for low, high in entry.harmed
                            if low < len(left.data)
                        ]
                        copies[id(entry)] = left
                    made.entries[name] = copies[id(entry)]
            made.durable = dict(made.entries)
            return made

        medium = Medium()
        medium.root = copy(self.root)
        return medium

    def power_cut(self, rng: random.Random) -> None:
        """The power goes: something legal survives, everything else is gone. Open files lead nowhere."""
        left = self.after_cut(self.random_choice(rng))
        self.root = left.root
        self.pending = []
        self.holder = None

    def random_choice(self, rng: random.Random) -> CutChoice:
        """One legal outcome of a cut: often an extreme, for those find the most."""
        keep_names = rng.choice((0.0, 0.5, 0.9, 1.0))
        kept: list[int] = []
        dropped: set[tuple[int, str]] = set()
        for operation in self.pending:
            if not dropped.isdisjoint(operation.names) or rng.random() >= keep_names:
                dropped.update(operation.names)
            else:
                kept.append(operation.number)
        files = {}
        for inode in self.unsettled():
            keep = rng.choice((0.0, 0.3, 0.7, 1.0))
            width = rng.choice((1, PAGE_SECTORS))
            pages: dict[int, bool] = {}
            for sector in inode.dirty:
                pages.setdefault(sector // width, rng.random() < keep)
            sectors = [sector for sector in inode.dirty if pages[sector // width]]
            if rng.random() < 0.3:
                sectors = sorted(inode.dirty)[: rng.randint(0, len(inode.dirty))]
            keeps_shrink, grown = rng.random() < 0.5, rng.random()
            files[id(inode)] = FileChoice(
                sectors=tuple(sectors),
                keeps_shrink=keeps_shrink,
                keeps_size=grown < 0.5,
                size=None
                if grown < 0.25 or not inode.sizes
                else inode.sizes[int(grown * 1e6) % len(inode.sizes)][1],
            )
        return CutChoice(operations=tuple(kept), files=files)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _apply(names: dict[str, Entry], change: Change) -> None:
    if change.entry is None:
        names.pop(change.name, None)
    else:
        names[change.name] = change.entry


def _walk(prefix: str, directory: Directory) -> Iterator[tuple[str, Inode]]:
    for name in sorted(directory.entries):
        entry = directory.entries[name]
        path = f"{prefix}/{name}" if prefix else name
        if isinstance(entry, Directory):
            yield from _walk(path, entry)
        else:
            yield path, entry


def _directories(root: Directory) -> Iterator[Directory]:
    """Every directory reachable now or by what is durable, each once."""
    seen: dict[int, Directory] = {}
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        if id(directory) in seen:
            continue
        seen[id(directory)] = directory
        yield directory
        for entry in [*directory.entries.values(), *directory.durable.values()]:
            if isinstance(entry, Directory):
                waiting.append(entry)
