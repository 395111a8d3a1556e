"""A change of a log's bounds: asked for, then, when its journal record is durable, carried out on every part.

The bounds themselves are the log's: what is carried out here answers with the new ones.
"""

from data_plane.log.appending import Appender
from data_plane.log.birth import Birth
from data_plane.log.derived import DerivedState
from data_plane.log.epochs import LeaderEpochs
from data_plane.log.outcomes import JournalPiece, PieceKind
from data_plane.log.pending import PendingWrites
from data_plane.log.reading import LogReader
from data_plane.log.replaying import damage_below
from data_plane.log.sealing import SealFile, Sealing
from data_plane.log.segment import Unreadable
from data_plane.log.segments import Segments, TruncationPoint
from data_plane.log.start_state import NOTHING_KNOWN, StartState
from data_plane.log.tail import Tail
from penstock.contract.invariant import invariant


class BoundsChange:
    """One at a time. Offsets in records."""

    def __init__(
        self, segments: Segments, seals: SealFile, derived: DerivedState, sealing: Sealing, tail: Tail,
        reader: LogReader, pending: PendingWrites, appender: Appender, *, birth: Birth,
    ) -> None:  # fmt: skip
        self._birth = birth
        self._segments = segments
        self._seals = seals
        self._derived = derived
        self._sealing = sealing
        self._tail = tail
        self._reader = reader
        self._pending = pending
        self._appender = appender
        self._offset = 0
        self._state = NOTHING_KNOWN

    def request_truncation(self, offset: int, *, over_damage: bool) -> None:
        """Only whole batches below `offset` are to stay. `over_damage`: fewer of them where bad stamps hide their end.
        Without it such stamps raise `CorruptLog`: the range joins the damage, and nothing is truncated.
        """
        log_end = self._appender.end_offset
        try:
            point = self._segments.truncation_point(min(offset, log_end), over_damage=over_damage)
        except Unreadable as error:
            raise self._reader.unreadable(error) from None
        piece = JournalPiece(
            PieceKind.TRUNCATE, point.end_offset, log_end, point.segment_base, point.position, point.stamp_count
        )  # fmt: skip
        self._request(piece, offset)

    def truncate(self, offset: int) -> int:
        """Truncate the files and everything derived from them. Returns the new log end."""
        change = self._carry_out(PieceKind.TRUNCATE, offset)
        end = change.offset
        damage = self._reader.damage
        damaged = self._segments.truncate(
            TruncationPoint(change.segment_base, change.stamp_index, change.position, end), damage
        )
        self._tail.clear()
        if damaged is not None:
            self._reader.found(damaged)
        damage[:] = damage_below(damage, end)
        # The last segment is active again, even when nothing of it was removed. Its seal would not cover new batches.
        self._seals.truncate(self._segments.closed_end(end))
        if self._derived.epochs.truncate_end(end):
            self._derived.write_epochs()
        self._derived.rewind(end)
        self._sealing.truncate(self._segments.active)
        self._pending.truncate(end)
        self._appender.end_offset = end
        return end

    def request_log_start(self, offset: int) -> None:
        """The log is to begin at `offset`."""
        self._request(JournalPiece(PieceKind.LOG_START, offset, self._appender.end_offset), offset)

    def move_log_start(self, offset: int) -> None:
        """The segments stay, and their epochs with them."""
        self._carry_out(PieceKind.LOG_START, offset)

    def request_start_over(self, offset: int, state: StartState) -> None:
        """The log is to be empty and to begin at `offset`, `state` being what is known of everything below it."""
        self._state = state
        self._request(JournalPiece(PieceKind.START_OVER, offset, self._appender.end_offset), offset)

    def start_over(self, offset: int) -> None:
        """Wipe. Seals of what lies below stay: it was committed. The rest is sealed as it is fetched."""
        self._carry_out(PieceKind.START_OVER, offset)
        damage = self._reader.damage
        self._segments.truncate(TruncationPoint(-1, 0, 0, offset), damage)
        self._seals.truncate(offset)
        self._tail.clear()
        damage.clear()
        derived = self._derived
        derived.begin_at(offset, self._state)
        derived.forget_snapshots()
        derived.epochs = LeaderEpochs()
        derived.write_epochs()
        self._sealing.truncate(None)
        self._pending.truncate(offset)
        self._pending.durable_end = offset
        self._appender.end_offset = offset

    def _request(self, change: JournalPiece, offset: int) -> None:
        self._birth.make()
        self._offset = offset
        self._pending.request(change)

    def _carry_out(self, kind: PieceKind, offset: int) -> JournalPiece:
        change = self._pending.ready(kind)
        invariant(
            self._offset == offset,
            f"{self._appender.name}: {kind.name.lower()} to {self._offset} was asked for",
        )
        self._pending.change = None
        return change
