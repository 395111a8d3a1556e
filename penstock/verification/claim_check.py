"""What was counted of a partition against what the invoice claims of it: quantities, days, ends, losses.

Totals come from three places, the strongest first: the log (or seals in its place), the cuts that the brokers keep, and
the log behind a deleted part, brought to the totals of the cut.
"""

from dataclasses import dataclass

from penstock.contract.documents import BilledDay
from penstock.rules.timestamps import day_of
from penstock.rules.usage_folding import Mark, UsageFold
from penstock.verification.claims import PartitionClaim
from penstock.verification.findings import CountedDay, Kind, PartitionFinding, Problem

PROBLEMS_MAX = 20
"""Of one partition: after so many the rest says nothing new."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """What stood committed at an offset."""

    messages: int
    bytes: int


class ClaimCheck:
    """Reads the marks of `fold` and writes into `finding`, whose `by_seals` the reader has set."""

    def __init__(
        self, claim: PartitionClaim, fold: UsageFold, finding: PartitionFinding, *, period_end_ms: int
    ) -> None:
        self._claim = claim
        self._fold = fold
        self.finding = finding
        self._period_end_ms = period_end_ms
        self._first = claim.first_offset
        self._end = claim.end_offset
        self.relative_from: int | None = None
        """Batches were counted from here, and the totals below are not known."""
        self.log_starts_at = 0
        """Offsets below are deleted, as far as it is known."""
        self._broken = False

    def compare(self) -> None:
        """Everything that can be read was read: compare, and write into the finding."""
        claim, finding = self._claim, self.finding
        begin, end = self._counted(self._first), self._counted(self._end)
        if begin is not None and end is not None:
            finding.messages = end.messages - begin.messages
            finding.bytes = end.bytes - begin.bytes
        elif not self._broken:
            at, to = self._untold()
            self.problem(Kind.UNPROVEN, f"nothing tells how much offsets {at} to {to} hold", at, to)
        self._check_ends()
        self._check_gained()
        if claim.lost_from is None:
            self._check_commitment()
        days = claim.billed.days
        unknown = [row for row in days if not self._compare(row)]
        if unknown and not self._broken:
            first, last = unknown[0].first_offset, unknown[-1].end_offset
            self.problem(
                Kind.UNPROVEN,
                f"offsets {first} to {last} are deleted, and nothing shows how they divide into days "
                "(their sum is right)",
                first,
                last,
            )
        if claim.lost_from is not None:
            self._check_loss(begin, end)

    def _untold(self) -> tuple[int, int]:
        """The part of the range that nothing shows."""
        first = self._first if self.finding.by_seals is None else self.finding.by_seals[1]
        if self.log_starts_at <= first:
            return self._first, self._end
        return first, min(self.log_starts_at, self._end)

    def _counted(self, offset: int) -> _Counted | None:
        """What stood committed at an offset, by log, seals or cuts; None when nothing tells."""
        claim = self._claim
        mark = self._fold.mark(offset)
        if mark is not None and not self._is_relative(mark):
            return _Counted(mark.totals.committed_messages, mark.totals.committed_bytes)
        if claim.lost_from is None and offset == self._end:
            return _Counted(claim.end.messages, claim.end.bytes)
        if offset == self._first and claim.begin is not None:
            return _Counted(claim.begin.messages, claim.begin.bytes)
        last = self._fold.mark(self._end)
        if mark is None or last is None or claim.lost_from is not None:
            return None
        behind = last.totals.since(mark.totals)
        return _Counted(
            claim.end.messages - behind.committed_messages, claim.end.bytes - behind.committed_bytes
        )

    def _is_relative(self, mark: Mark) -> bool:
        return self.relative_from is not None and mark.offset >= self.relative_from

    def _check_ends(self) -> None:
        """Acceptance on the right side of the period's end, and a batch's end at it."""
        claim, mark = self._claim, self._fold.mark(self._end)
        sealed_to = 0 if self.finding.by_seals is None else self.finding.by_seals[1]
        readable = max(self.log_starts_at, sealed_to, self._first) < self._end
        if readable and mark is None and not self._broken:
            self.problem(Kind.OFFSETS_NOT_CONTIGUOUS, f"no batch ends at offset {self._end}", self._end)
        whole = claim.lost_from is None and not claim.end.last
        accepted_ms = claim.end.accepted_ms if mark is None or mark.accepted_ms < 0 else mark.accepted_ms
        if whole and self._first < self._end and accepted_ms >= self._period_end_ms:
            self.problem(
                Kind.CUT_DIFFERS,
                f"the batch below offset {self._end} was accepted after the period's end",
                self._end,
            )

    def _check_commitment(self) -> None:
        """What is billed is what the readings at both ends say, and so is the log."""
        claim, mark = self._claim, self._fold.mark(self._end)
        if self._first == self._end or mark is None or self._broken:
            return
        if not self._is_relative(mark):
            found = (mark.totals.committed_messages, mark.totals.committed_bytes)
            if found != (claim.end.messages, claim.end.bytes):
                self.problem(
                    Kind.CUT_DIFFERS,
                    f"{claim.end.messages} messages and {claim.end.bytes} bytes below offset {self._end} by the "
                    f"brokers' cut, {found[0]} and {found[1]} in the log",
                    self._end,
                )
            return
        at = self.relative_from or 0
        known = self._first if self.finding.by_seals is None else self.finding.by_seals[1]
        if known < at:
            self.finding.by_cuts = (max(known, self._first), at)
        counted_from = self._fold.mark(self._first) if self._first >= at else None
        counted = mark.totals if counted_from is None else mark.totals.since(counted_from.totals)
        found = (counted.committed_messages, counted.committed_bytes)
        whole = counted_from is not None
        billed = (claim.messages, claim.bytes)
        if found != billed if whole else (found[0] > billed[0] or found[1] > billed[1]):
            self.problem(
                Kind.QUANTITY_DIFFERS,
                f"{found[0]} messages and {found[1]} bytes from offset {max(at, self._first)} to {self._end} in the "
                f"log, {billed[0]} and {billed[1]} on the invoice",
                max(at, self._first),
            )

    def _check_gained(self) -> None:
        claim, begin = self._claim, self._claim.begin
        if begin is not None:
            gained = (claim.end.messages - begin.messages, claim.end.bytes - begin.bytes)
            if gained != (claim.messages, claim.bytes):
                self.problem(
                    Kind.QUANTITY_DIFFERS,
                    f"{claim.messages} messages and {claim.bytes} bytes on the invoice, "
                    f"{gained[0]} and {gained[1]} by the brokers' cuts",
                    self._first,
                )

    def _check_loss(self, begin: _Counted | None, end: _Counted | None) -> None:
        """What is billed and not in the log any more is credited, to the unit."""
        claim, finding = self._claim, self.finding
        finding.lost = (self._end, claim.billed.end_offset)
        finding.lost_messages, finding.lost_bytes = claim.credited_messages, claim.credited_bytes
        if begin is None or end is None or self._broken:
            return
        lost = (claim.messages - finding.messages, claim.bytes - finding.bytes)
        credited = (claim.credited_messages, claim.credited_bytes)
        if lost != credited and claim.credited:
            self.problem(
                Kind.CREDIT_DIFFERS,
                f"{lost[0]} messages and {lost[1]} bytes are lost, {credited[0]} and {credited[1]} credited",
                self._end,
            )

    def _compare(self, row: BilledDay) -> bool:
        """Whether it is known what the day's range holds."""
        if row.first_offset >= self._end:
            return True  # lost
        whole = row.end_offset <= self._end
        end_offset = min(row.end_offset, self._end)
        begin, end = self._counted(row.first_offset), self._counted(end_offset)
        if begin is None or end is None:
            return False
        messages, size = end.messages - begin.messages, end.bytes - begin.bytes
        named = f"{row.day}, offsets {row.first_offset} to {end_offset}"
        self.finding.days.append(
            CountedDay(
                day=row.day.isoformat(),
                first_offset=row.first_offset,
                end_offset=end_offset,
                messages=messages,
                bytes=size,
            )
        )
        for meter, billed, counted in (("messages", row.messages, messages), ("bytes", row.bytes, size)):
            if billed != counted if whole else billed < counted:
                self.problem(
                    Kind.QUANTITY_DIFFERS,
                    f"{named}: {billed} {meter} on the invoice, {counted} in the log",
                    row.first_offset,
                )
        mark = self._fold.mark(end_offset)
        accepted_ms = -1 if mark is None else mark.accepted_ms
        if accepted_ms < 0 and whole and row.end_offset == self._claim.end.end_offset:
            accepted_ms = self._claim.end.accepted_ms
        if whole and accepted_ms >= 0 and day_of(accepted_ms) != row.day:
            self.problem(
                Kind.DAY_DIFFERS,
                f"{named}: its last batch was accepted on {day_of(accepted_ms)}",
                row.first_offset,
            )
        return True

    def problem(
        self, kind: Kind, message: str, offset: int | None = None, end_offset: int | None = None
    ) -> bool:
        """Note one; False when there are so many that the rest says nothing new."""
        self._broken = True
        problems = self.finding.problems
        if len(problems) < PROBLEMS_MAX:
            problems.append(
                Problem(
                    kind=kind, where=self._claim.name, message=message, offset=offset, end_offset=end_offset
                )
            )
            return True
        return False
