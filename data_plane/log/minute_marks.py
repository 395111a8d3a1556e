"""What the odometer said at the end of each minute's last batch, until it was read.

A minute is over with the first batch of a later one, and its mark is due once that batch is committed. Marks are a
function of the log's prefix: every replica has the same, so the next leader can read them.
"""

from collections import deque
from collections.abc import Iterator

from penstock.records.usage import OdometerMark

MARKS_MAX = 64
"""Of one log. When they are not read for longer, the oldest go: minutes get coarser, totals do not."""


class MinuteMarks:
    """Oldest first, each with the end of the batch that followed it."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: deque[tuple[int, OdometerMark]] = deque(maxlen=MARKS_MAX)

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, mark: OdometerMark, due_offset: int) -> None:
        """`mark` was followed by a batch of a later minute that ends at `due_offset`."""
        if not self._marks or self._marks[-1][0] < due_offset:
            self._marks.append((due_offset, mark))

    def due(self, above: int, high_watermark: int) -> Iterator[OdometerMark]:
        """Those that end above `above` and are followed by a committed batch."""
        for due_offset, mark in self._marks:
            if due_offset > high_watermark:
                return
            if mark.end_offset > above:
                yield mark

    def forget(self, end_offset: int) -> None:
        """Marks at or below `end_offset` were read for good."""
        while self._marks and self._marks[0][1].end_offset <= end_offset:
            self._marks.popleft()

    def truncate(self, end_offset: int) -> None:
        """The log ends at `end_offset` now."""
        while self._marks and self._marks[-1][0] > end_offset:
            self._marks.pop()
