"""Seals of closed segments: when they become due, their digests, and the file that keeps them.

A closed segment waits here with its seal but for the digest. The digest is fed with each append; after a restart or
a truncation it catches up from the files, a bounded number of batches a call. Once the first batch of the next
segment is committed and the digest is complete, the seal is appended to the file. A seal is a function of the log, so
one lost in a crash is made again.
"""

from collections import deque
from dataclasses import dataclass, replace

from data_plane.disk.port import Disk, File, FileMissing, SyncFile, SyncStep
from data_plane.log import layout
from data_plane.log.segment import Segment, Unreadable
from data_plane.log.sidecar import brief, intact
from data_plane.log.small_file import read_whole
from penstock.contract.ids import TopicPartition
from penstock.records.batch import BATCH_HEADER_BYTES
from penstock.records.seal import Seal, SealCorrupt, SegmentDigest, pack_seal, seal_extent, unpack_seal
from penstock.records.stamp import STAMP_BYTES

CATCH_UP_BATCHES = 500
"""Batches that one call may read back for digests: two milliseconds or so."""


class SealFile:
    """The `seals` file: seals one behind the other, in order of offsets. Only the last one stays in memory."""

    def __init__(self, disk: Disk, directory: str, where: TopicPartition) -> None:
        self._disk = disk
        self._path = f"{directory}/{layout.SEALS_FILE}"
        self._where = where
        self._file: File | None = None
        self._size = 0
        self._writes = self._synced_writes = 0
        self.last: Seal | None = None

    @property
    def end_offset(self) -> int:
        return 0 if self.last is None else self.last.end_offset

    def load(self) -> bool:
        """Read the file; True when all of it was good. What is good of it is kept, a bad rest is removed."""
        seals, good = self.read_all()
        self.last = seals[-1] if seals else None
        packed = b"".join(pack_seal(seal) for seal in seals)
        self._size = len(packed)
        if not good:
            self._truncate(len(packed))
        return good

    def read_all(self) -> tuple[list[Seal], bool]:
        """(good seals up to the first bad byte, whether that is the file's end)."""
        seals: list[Seal] = []
        try:
            data = read_whole(self._disk, self._path)
        except FileMissing:
            return seals, True
        at = 0
        while at < len(data):
            try:
                seal, at = unpack_seal(data, at)
            except SealCorrupt:
                return seals, False
            if seal.where != self._where or (seals and seal.base_offset < seals[-1].end_offset):
                return seals, False
            seals.append(seal)
        return seals, True

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def packed_above(self, offset: int, bytes_max: int) -> tuple[bytes, bool]:
        """(seals of segments that end above `offset` as they stand in the file, oldest first, whether there are more).

        At least one, else up to `bytes_max` of them. They are not looked into: who reads them checks them.
        """
        if self.last is None or self.end_offset <= offset:
            return b"", False
        data = read_whole(self._disk, self._path)
        at, first, end = 0, -1, 0
        while at < len(data):
            length, end_offset = seal_extent(data, at)
            if length <= 0 or at + length > len(data):
                break
            if end_offset > offset:
                if first >= 0 and at + length - first > bytes_max:
                    return data[first:end], True
                first = at if first < 0 else first
                end = at + length
            at += length
        return (b"" if first < 0 else data[first:end]), False

    def append(self, seal: Seal) -> None:
        """Write it behind the last one, not yet durable."""
        packed = pack_seal(seal)
        self._open().write_at(self._size, [packed])
        self._size += len(packed)
        self._writes += 1
        self.last = seal

    def truncate(self, offset: int) -> None:
        """Forget seals of segments that end above `offset`, where no closed segment is any more: after a declared
        loss, or before a range is fetched again."""
        if self.end_offset <= offset:
            return
        kept = [seal for seal in self.read_all()[0] if seal.end_offset <= offset]
        self.last = kept[-1] if kept else None
        self._truncate(sum(len(pack_seal(seal)) for seal in kept))

    def _truncate(self, size: int) -> None:
        self._open().truncate(size)
        self._size = size
        self._writes += 1

    def _open(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
        return self._file

    def begin_flush(self) -> tuple[list[SyncStep], int]:
        if self._writes == self._synced_writes:
            return [], self._writes
        return [SyncFile(self._open())], self._writes

    def end_flush(self, writes: int) -> None:
        self._synced_writes = max(self._synced_writes, writes)

    @property
    def to_sync(self) -> bool:
        return self._writes != self._synced_writes

    def close(self, *, abandon: bool = False) -> None:
        if self._file is not None and (abandon or not self.to_sync):
            self._file.close()
            self._file = None


@dataclass(slots=True)
class _Feed:
    """How far a segment's digest is."""

    segment: Segment
    digest: SegmentDigest
    fed: int = 0


@dataclass(slots=True)
class _Waiting:
    """A closed segment without a seal."""

    feed: _Feed
    draft: Seal
    due_offset: int
    """End of the next segment's first batch: the seal is due when it is committed."""


class Sealing:
    """Seals the segments of one log as they become due."""

    def __init__(self, file: SealFile, where: TopicPartition) -> None:
        self.file = file
        self.log_generation = 0
        """Which the seals made from now on name."""
        self._where = where
        self._active: _Feed | None = None
        self._waiting: deque[_Waiting] = deque()

    @property
    def unsealed_base(self) -> int | None:
        """Base offset of the oldest closed segment that waits for its seal."""
        return self._waiting[0].draft.base_offset if self._waiting else None

    @property
    def behind(self) -> bool:
        """`advance` may have something to do."""
        feed = self._active
        return bool(self._waiting) or (feed is not None and feed.fed != feed.segment.stamp_count)

    def _feed(self, segment: Segment) -> _Feed:
        return _Feed(segment, SegmentDigest(self._where, segment.base_offset))

    def begin(self, segment: Segment) -> None:
        """`segment` is active now."""
        self._active = self._feed(segment)

    def appended(self, header: bytes, stamp: bytes) -> None:
        """The active segment took its next batch: its first 61 bytes and its stamp."""
        feed = self._active
        if feed is not None and feed.fed == feed.segment.stamp_count - 1:
            feed.digest.add(header, stamp)
            feed.fed += 1

    def closed(self, segment: Segment, draft: Seal | None, due_offset: int) -> None:
        """`segment` was closed by a batch that ends at `due_offset`. Without a draft it never gets a seal."""
        feed = self._active
        if feed is None or feed.segment is not segment:
            feed = self._feed(segment)
        self._active = None
        if draft is not None and draft.end_offset > self.file.end_offset:
            self._waiting.append(_Waiting(feed, draft, due_offset))

    def resume(self, active: Segment | None) -> None:
        """The log was opened; `active` is its last segment."""
        self._active = None if active is None else self._feed(active)

    def truncate(self, active: Segment | None) -> None:
        """The log was truncated or wiped; `active` is its last segment now."""
        end = -1 if active is None else active.base_offset
        while self._waiting and self._waiting[-1].draft.base_offset >= end:
            self._waiting.pop()
        self.resume(active)

    def give_up(self) -> None:
        """A segment that waits is damaged: it cannot be sealed, nor any after it, until it is fetched again."""
        self._waiting.clear()
        self._active = None

    def advance(self, high_watermark: int, budget: int = CATCH_UP_BATCHES) -> None:
        """Catch up with digests for `budget` batches and write the seals that are due and complete.

        Raises `Unreadable`; port.DiskFull (nothing changed).
        """
        while self._waiting and self._waiting[0].due_offset <= high_watermark:
            waiting = self._waiting[0]
            budget -= self._catch_up(waiting.feed, budget)
            if waiting.feed.fed < waiting.draft.batch_count:
                return
            digest = waiting.feed.digest.digest()
            self.file.append(replace(waiting.draft, digest=digest, log_generation=self.log_generation))
            self._waiting.popleft()
        if self._active is not None and self._active.fed < self._active.segment.stamp_count:
            self._catch_up(self._active, budget)

    def _catch_up(self, feed: _Feed, budget: int) -> int:
        """Feed at most `budget` batches from the files; how many. Damage stops it for good: no seal without all
        bytes."""
        segment = feed.segment
        count = min(budget, segment.stamp_count - feed.fed)
        if count <= 0:
            return 0
        block = segment.stamps_block(feed.fed, feed.fed + count)
        for at in range(0, count * STAMP_BYTES, STAMP_BYTES):
            if not intact(block, at, segment.seed):
                raise Unreadable(segment.damage_at(feed.fed))
            header = segment.header_bytes(brief(block, at).position)
            if len(header) != BATCH_HEADER_BYTES:
                raise Unreadable(segment.damage_at(feed.fed))
            feed.digest.add(header, block[at : at + STAMP_BYTES])
            feed.fed += 1
        return count
