"""What of one log is written and not yet durable: journal records to be, files to be synced, and the durable end.

A log that is journaled (durability `fsync`) hands out its appends as APPEND records. One that is not (`replicated`)
hands out syncs of its files and then a FLUSHED record. Appends that were not journaled are flushed before later
ones are journaled, so the journal never has bytes whose predecessors are only in the page cache.
"""

from collections import deque
from dataclasses import dataclass

from data_plane.disk.port import Buffer, SyncStep
from data_plane.log.birth import Birth
from data_plane.log.outcomes import JournalPiece, PieceKind, Unsynced
from data_plane.log.sealing import SealFile
from data_plane.log.segments import Flush, Segments
from penstock.contract.ids import TopicPartition
from penstock.contract.invariant import InvariantBroken, invariant

_PIECE_BYTES_MAX = 64 << 20
"""A journal record's payload stays below it, but for one larger batch."""


@dataclass(frozen=True, slots=True)
class LogFlush:
    """A sync of a log's own files that is under way."""

    files: Flush | None
    seal_writes: int
    end_offset: int
    truncations: int
    births: bool
    """With it the log's directory becomes durable."""


class PendingWrites:
    """One writer; marks come back in the order in which writes were taken."""

    def __init__(
        self,
        where: TopicPartition,
        replica_generation: int,
        birth: Birth,
        segments: Segments,
        seals: SealFile,
        durable_end: int,
    ) -> None:
        self._where = where
        self._replica_generation = replica_generation
        self._birth = birth
        self._segments = segments
        self._seals = seals
        self.durable_end = durable_end
        self.truncations = 0
        self.change: JournalPiece | None = None
        """A change of the log's bounds that was asked for and not carried out."""
        self._pieces: list[JournalPiece] = []
        self._run: JournalPiece | None = None
        self._flush_needed = False
        self._flushes: deque[LogFlush] = deque()

    # writing

    def journal(
        self,
        segment_base: int,
        position: int,
        stamp_index: int,
        offset: int,
        end_offset: int,
        stamps: list[bytes],
        batches: list[Buffer],
        size: int,
    ) -> None:
        """A run of batches was written to its segment and is to be journaled."""
        run = self._run
        if run is None or run.segment_base != segment_base or run.batches_bytes > _PIECE_BYTES_MAX:
            run = self._run = JournalPiece(
                PieceKind.APPEND, offset, end_offset, segment_base, position, stamp_index
            )
            self._pieces.append(run)
        run.stamps += stamps
        run.batches += batches
        run.stamps_bytes += 64 * len(stamps)
        run.batches_bytes += size
        run.end_offset = end_offset

    def leave_to_flush(self) -> None:
        """Batches were written that only a sync of the files makes durable."""
        self._flush_needed = True
        self._run = None

    @property
    def flush_needed(self) -> bool:
        return self._flush_needed

    def request(self, change: JournalPiece) -> None:
        """A change of bounds goes behind everything written so far."""
        invariant(self.change is None, f"{self._where}: one change of bounds at a time")
        self.change = change
        self._pieces.append(change)
        self._run = None

    def ready(self, kind: PieceKind) -> JournalPiece:
        """The change of this kind that was asked for and taken; the files are about to show it."""
        change = self.change
        if change is None or change.kind is not kind or (self._pieces and self._pieces[-1] is change):
            raise InvariantBroken(f"{self._where}: {kind.name.lower()} was asked for and made durable before")
        return change

    def truncate(self, offset: int) -> None:
        """The log was truncated or wiped: marks of what was taken before are void, nothing at or above `offset` is
        durable."""
        self.truncations += 1
        self.durable_end = min(self.durable_end, offset)

    # making durable

    def take(self, high_watermark: int, log_end: int) -> Unsynced | None:
        """Everything written since the last call."""
        if not self._pieces and not self._flush_needed:
            return None
        first: tuple[SyncStep, ...] = ()
        pieces = self._pieces
        change = pieces[-1] if pieces and pieces[-1] is self.change else None
        flushes = self._flush_needed or (
            change is not None and change.kind is PieceKind.LOG_START and self._seals.to_sync
        )
        if flushes:
            flush, first = self.begin_flush(log_end, with_segments=self._flush_needed)
            self._flushes.append(flush)
            if self._flush_needed:
                pieces = [JournalPiece(PieceKind.FLUSHED, log_end, log_end)]
                if change is not None:
                    pieces.append(change)
        else:
            first = self._birth.begin()
        unsynced = Unsynced(
            self._where, self._replica_generation, high_watermark, log_end, first, tuple(pieces),
            self.truncations, flushes, bool(first) and not flushes,
        )  # fmt: skip
        self._pieces = []
        self._run = None
        self._flush_needed = False
        return unsynced

    def mark_durable(self, unsynced: Unsynced) -> int:
        """`unsynced` was synced."""
        if unsynced.births:
            self._birth.end()
        if unsynced.flushes:
            self.end_flush(self._flushes.popleft())
        if unsynced.truncations == self.truncations and unsynced.end_offset > self.durable_end:
            self.durable_end = unsynced.end_offset
        return self.durable_end

    def begin_flush(
        self, log_end: int, *, with_segments: bool = True
    ) -> tuple[LogFlush, tuple[SyncStep, ...]]:
        """Steps that make the log's own files durable as they are now, and the directory they are in."""
        birth_steps = self._birth.begin()
        seal_steps, seal_writes = self._seals.begin_flush()
        files = self._segments.begin_flush() if with_segments else None
        steps = (*birth_steps, *seal_steps, *(files.steps if files is not None else ()))
        return LogFlush(files, seal_writes, log_end, self.truncations, bool(birth_steps)), steps

    def end_flush(self, flush: LogFlush) -> None:
        """They are durable."""
        if flush.births:
            self._birth.end()
        self._seals.end_flush(flush.seal_writes)
        if flush.files is not None:
            self._segments.end_flush(flush.files)
            if flush.truncations == self.truncations:
                self.durable_end = max(self.durable_end, flush.end_offset)

    def give_up_flush(self, flush: LogFlush) -> None:
        """The disk was full and the steps were not all synced: what they covered waits for another flush."""
        if flush.births:
            self._birth.give_up()
        if flush.files is not None:
            self._segments.give_up_flush(flush.files)

    @property
    def unapplied_sequence(self) -> int | None:
        """Sequence of the journal record of the change under way, if it has one."""
        return self.change.sequence or None if self.change is not None else None
