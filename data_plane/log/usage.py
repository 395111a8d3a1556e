"""What metering reads of one log: the odometer at offsets of its choice, and seals."""

from collections.abc import Iterator

from data_plane.log.derived import DerivedState
from data_plane.log.reading import LogReader
from data_plane.log.sealing import SealFile, Sealing
from data_plane.log.segment import Unreadable
from data_plane.log.segments import Segments
from penstock.records.seal import Seal
from penstock.records.usage import OdometerMark


class LogUsage:
    """Nothing here changes the log; damage that is met joins the log's own. Where totals are not known (None, or
    nothing) there is no reading."""

    def __init__(
        self, segments: Segments, derived: DerivedState, seals: SealFile, sealing: Sealing, reader: LogReader
    ) -> None:
        self._segments = segments
        self._derived = derived
        self._seals = seals
        self._sealing = sealing
        self._reader = reader

    @property
    def log_generation(self) -> int:
        """Grows with each declared loss; the seals made from now on name it."""
        return self._sealing.log_generation

    @log_generation.setter
    def log_generation(self, log_generation: int) -> None:
        self._sealing.log_generation = log_generation

    @property
    def known(self) -> bool:
        """Whether the totals are known at all."""
        return self._derived.odometer is not None

    def mark(self) -> OdometerMark | None:
        """The totals at the log's end."""
        odometer = self._derived.odometer
        return None if odometer is None else odometer.mark()

    @property
    def last_accepted_ms(self) -> int:
        """Acceptance of the log's last batch; -1 when there is none, or the totals are not known."""
        odometer = self._derived.odometer
        return -1 if odometer is None else odometer.last_accepted_ms

    @property
    def has_minute_marks(self) -> bool:
        """Whether a minute has ended that was not read for good."""
        return bool(self._derived.minute_marks)

    def minute_marks(self, above: int, high_watermark: int) -> Iterator[OdometerMark]:
        """The totals at the end of each minute's last batch above `above`, once a batch of a later minute is
        committed."""
        return self._derived.minute_marks.due(above, high_watermark)

    def forget_minute_marks(self, end_offset: int) -> None:
        """Those at or below `end_offset` are read for good."""
        self._derived.minute_marks.forget(end_offset)

    def fold_to(self, end_offset: int) -> Iterator[OdometerMark | None]:
        """The totals at `end_offset`, the end of a batch, folded again: None now and then, to let others have their
        turn; then the mark, or nothing when it is not known. Raises `CorruptLog`. Stop when the log was truncated or
        trimmed meanwhile."""
        try:
            yield from self._derived.fold_to(end_offset)
        except Unreadable as error:
            raise self._reader.unreadable(error) from None

    def end_before(self, accepted_ms: int) -> int:
        """End of the last batch accepted before `accepted_ms`; where the first segment begins (the log ends, when it
        has none) when there is none. Raises `CorruptLog`.
        """
        try:
            return self._segments.end_before(accepted_ms, self._derived.offset)
        except Unreadable as error:
            raise self._reader.unreadable(error) from None

    @property
    def sealed_end_offset(self) -> int:
        """End of the last segment that has its seal."""
        return self._seals.end_offset

    @property
    def seals_size(self) -> int:
        """Bytes of all seals."""
        return self._seals.size

    def packed_seals_above(self, end_offset: int, bytes_max: int) -> tuple[bytes, bool]:
        """As `SealFile.packed_above`."""
        return self._seals.packed_above(end_offset, bytes_max)

    def seals_above(self, end_offset: int) -> list[Seal]:
        """Seals of segments that end above `end_offset`, oldest first; read from the file but for the last one."""
        last = self._seals.last
        if last is None or last.end_offset <= end_offset:
            return []
        if last.base_offset <= end_offset:
            return [last]
        return [seal for seal in self._seals.read_all()[0] if seal.end_offset > end_offset]
