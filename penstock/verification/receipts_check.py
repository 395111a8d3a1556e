"""A bill against a producer's own receipts: what was acknowledged and is not billed, and the other way round.

Pure. Offsets decide, not days: what the receipts hold of the offsets that a part of the bill counts must be there, with
as many messages and bytes. Days only tell whether offsets that no part counts belong to the period.

Two things take the force from a receipt: a declared loss, which the bill credits, and acks=1, which never promised
that a message outlives its leader. What differs there is reported and is not wrong.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from penstock.contract.ids import TopicPartition
from penstock.contract.invariant import invariant
from penstock.receipts.values import ACKS_IN_SYNC, UNKNOWN_EPOCH, AcknowledgedRange, Receipts
from penstock.rules.timestamps import DAY_MS, day_start_ms

FINDINGS_MAX = 20
"""Of one kind and partition: after so many the rest says nothing new."""
_SHOWN_MAX = 5

Interval = tuple[int, int]
"""Offsets [first, end)."""


class ReceiptsKind(StrEnum):
    """Names of what a comparison finds. Stable: scripts read them."""

    NOT_BILLED = "receipts-not-billed"
    """Acknowledged, and not in the bill: its messages or bytes are too few, or it does not reach so far."""
    DIFFERS = "receipts-differ"
    """What is counted at acknowledged offsets is not what was acknowledged."""
    ACKNOWLEDGED_TWICE = "acknowledged-twice"
    """One offset was given to two batches."""
    TOPIC_NOT_BILLED = "topic-not-billed"
    """A partition with receipts of the period is not on the invoice."""
    NOT_ACKNOWLEDGED = "not-acknowledged"
    """Billed, and in none of the receipts: from another producer, or from none."""
    LOST = "lost-and-declared"
    """Acknowledged, and taken by a declared loss."""
    NOT_COMPARED = "bytes-not-compared"
    """A range of the receipts reaches over a bound of the bill: messages are compared, bytes cannot be divided."""
    TORN = "receipts-torn"
    """Bytes at the end of a receipts file are no whole record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptsFinding:
    """One thing found. `where` names a topic's partition, or a file of receipts."""

    kind: ReceiptsKind
    where: str
    message: str
    offset: int | None = None
    wrong: bool
    """Bill and receipts contradict each other. Otherwise it is reported for information."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledPart:
    """What a bill counts of one partition, [start_offset, end_offset).

    Where a declared loss began another log generation, a part is what still stands of each: quantities without what
    was credited, and the lost offsets in `lost`.
    """

    topic: str
    where: TopicPartition
    start_offset: int
    end_offset: int
    messages: int
    bytes: int
    lost: tuple[Interval, ...] = ()
    """Offsets of this partition that a declared loss took, in this part or beyond it."""
    totals_at: Callable[[int], tuple[int, int] | None] | None = None
    """(messages, bytes) that the verifier itself counted from any fixed offset of the log up to this offset; None = it
    does not know, or no batch ends there. It need only know `offsets_to_count`."""
    read_from: int | None = None
    """From here to `end_offset` the verifier read every batch: where `totals_at` knows nothing, no batch ends."""

    def __post_init__(self) -> None:
        invariant(0 <= self.start_offset <= self.end_offset, "a part of a bill is a range of offsets")
        invariant(self.messages >= 0 and self.bytes >= 0, "a bill counts from 0 on")
        invariant(all(first < end for first, end in self.lost), "a loss took something")

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.where.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptsComparison:
    """All that was found, and how much of the bill the receipts cover."""

    findings: tuple[ReceiptsFinding, ...]
    messages_billed: int
    messages_covered: int
    """Billed offsets that some receipt acknowledges."""

    @property
    def agrees(self) -> bool:
        return not any(finding.wrong for finding in self.findings)


def offsets_to_count(
    receipts: Receipts, where: TopicPartition, start_offset: int, end_offset: int
) -> list[int]:
    """The offsets in [start_offset, end_offset] at which a verifier that reads the log may note its totals, for
    `BilledPart.totals_at`: where ranges of the receipts begin and end. They are batch boundaries of a true log.
    """
    bounds = {start_offset, end_offset}
    for receipt in receipts.ranges.get(where, ()):
        bounds.update((receipt.first_offset, receipt.end_offset))
    return sorted(offset for offset in bounds if start_offset <= offset <= end_offset)


def check_receipts(
    receipts: Receipts,
    parts: Sequence[BilledPart],
    *,
    period_start_ms: int,
    period_end_ms: int,
    complete: bool,
) -> ReceiptsComparison:
    """Hold the parts of a bill against receipts. Times are ms UTC, the period is half open.

    `parts` are all of the invoice, those without messages included. `complete`: the caller says that every producer
    of these topics kept receipts and that they are all here, so what is billed and not acknowledged is wrong.
    """
    findings = [
        ReceiptsFinding(
            kind=ReceiptsKind.TORN,
            where=source.path,
            message=f"{source.torn_bytes} bytes at its end are no whole record: an incomplete write, or damage",
            wrong=False,
        )
        for source in receipts.sources
        if source.torn_bytes
    ]
    by_partition: dict[TopicPartition, list[BilledPart]] = {}
    for part in parts:
        by_partition.setdefault(part.where, []).append(part)
    period = (period_start_ms, period_end_ms)
    covered = 0
    for where in sorted({*by_partition, *receipts.ranges}):
        ranges = receipts.ranges.get(where, ())
        billed = by_partition.get(where, [])
        topic = billed[0].topic if billed else receipts.topics.get(where.topic_id, where.topic_id.hex())
        check = _PartitionCheck(f"{topic}-{where.partition}", ranges, billed, complete)
        check.acknowledged_twice()
        for part in billed:
            covered += check.compare(part)
        check.outside(period)
        findings += check.findings
    return ReceiptsComparison(
        findings=tuple(findings),
        messages_billed=sum(part.messages for part in parts),
        messages_covered=covered,
    )


class _PartitionCheck:
    """One partition's receipts against its parts of the bill."""

    def __init__(
        self, name: str, ranges: Sequence[AcknowledgedRange], parts: Sequence[BilledPart], complete: bool
    ) -> None:
        self._name = name
        self._ranges = ranges
        self._parts = parts
        self._complete = complete
        self._lost = _union(lost for part in parts for lost in part.lost)
        self._twice: list[Interval] = []
        """Offsets that were acknowledged more than once: there sums say nothing."""
        self._counts: dict[tuple[ReceiptsKind, bool], int] = {}
        self.findings: list[ReceiptsFinding] = []

    def _found(self, kind: ReceiptsKind, message: str, offset: int, *, wrong: bool) -> None:
        count = self._counts[kind, wrong] = self._counts.get((kind, wrong), 0) + 1
        if count <= FINDINGS_MAX:
            self.findings.append(
                ReceiptsFinding(kind=kind, where=self._name, message=message, offset=offset, wrong=wrong)
            )

    def acknowledged_twice(self) -> None:
        """Two producers cannot both have been given one offset, unless it was lost between."""
        last: AcknowledgedRange | None = None
        for receipt in self._ranges:
            if last is not None and receipt.first_offset < last.end_offset:
                both = (receipt.first_offset, min(receipt.end_offset, last.end_offset))
                self._twice.append(both)
                if _without([both], self._lost):
                    self._found(
                        ReceiptsKind.ACKNOWLEDGED_TWICE,
                        f"offsets {both[0]} to {both[1]} are in {_described(last)} and in {_described(receipt)}",
                        both[0],
                        wrong=not _may_have_gone(last, receipt),
                    )
            if last is None or receipt.end_offset > last.end_offset:
                last = receipt
        self._twice = _union(self._twice)

    def compare(self, part: BilledPart) -> int:
        """Returns the messages of the part that receipts acknowledge."""
        within = [
            receipt
            for receipt in self._ranges
            if receipt.first_offset < part.end_offset and receipt.end_offset > part.start_offset
        ]
        void = _union([*self._lost, *self._twice])
        whole = [
            receipt
            for receipt in within
            if part.start_offset <= receipt.first_offset
            and receipt.end_offset <= part.end_offset
            and not _common([_of(receipt)], void)
        ]
        differing = [receipt for receipt in whole if self._differs(part, receipt)]
        self._tell_lost(within)
        self._tell_divided(part, within, void)
        strong = [receipt for receipt in whole if receipt.acks == ACKS_IN_SYNC]
        if not differing:
            self._sums(part, strong, _clipped(within, part))
        bounds = (part.start_offset, part.end_offset)
        covered = _common(_union(map(_of, within)), [bounds])
        self._tell_missing(part, _without([bounds], _union([*covered, *self._lost])))
        return _length(covered)

    def _differs(self, part: BilledPart, receipt: AcknowledgedRange) -> bool:
        """Whether the verifier's own count at this range's offsets is another."""
        if part.totals_at is None:
            return False
        begin, end = part.totals_at(receipt.first_offset), part.totals_at(receipt.end_offset)
        if begin is None or end is None:
            at = receipt.first_offset if begin is None else receipt.end_offset
            if part.read_from is None or at < part.read_from:
                return False
            fact = f"no stored batch ends at offset {at}"
        else:
            at = receipt.first_offset
            counted = (end[0] - begin[0], end[1] - begin[1])
            if counted == (receipt.messages, receipt.bytes):
                return False
            fact = f"the log holds {counted[0]} messages, {counted[1]} bytes there"
        self._found(
            ReceiptsKind.DIFFERS,
            f"{_described(receipt)} acknowledge {receipt.messages} messages, {receipt.bytes} bytes; {fact}",
            at,
            wrong=receipt.acks == ACKS_IN_SYNC,
        )
        return True

    def _sums(self, part: BilledPart, whole: Sequence[AcknowledgedRange], strong: Sequence[Interval]) -> None:
        """Without a count of every range: what is acknowledged cannot be more than all that is billed."""
        sound = _without(strong, _union([*self._lost, *self._twice]))
        messages, size = _length(sound), sum(receipt.bytes for receipt in whole)
        if messages > part.messages or size > part.bytes:
            self._found(
                ReceiptsKind.NOT_BILLED,
                f"the receipts acknowledge {messages} messages, {size} bytes of offsets {part.start_offset} to"
                f" {part.end_offset}; the bill has {part.messages} messages, {part.bytes} bytes",
                part.start_offset,
                wrong=True,
            )
        elif sum(receipt.messages for receipt in whole) == part.end_offset - part.start_offset and (
            (messages, size) != (part.messages, part.bytes)
        ):
            self._found(
                ReceiptsKind.DIFFERS,
                f"the receipts cover offsets {part.start_offset} to {part.end_offset} and acknowledge {messages}"
                f" messages, {size} bytes; the bill has {part.messages} messages, {part.bytes} bytes",
                part.start_offset,
                wrong=True,
            )

    def _tell_lost(self, within: Sequence[AcknowledgedRange]) -> None:
        lost = _common(_union(map(_of, within)), self._lost)
        if lost and not self._counts.get((ReceiptsKind.LOST, False)):
            self._found(
                ReceiptsKind.LOST,
                f"{_length(lost)} acknowledged messages lie where a declared loss was: {_shown(lost)}",
                lost[0][0],
                wrong=False,
            )

    def _tell_divided(
        self, part: BilledPart, within: Sequence[AcknowledgedRange], void: Sequence[Interval]
    ) -> None:
        for receipt in within:
            reaches_over = receipt.first_offset < part.start_offset or receipt.end_offset > part.end_offset
            if reaches_over and not _common([_of(receipt)], void):
                self._found(
                    ReceiptsKind.NOT_COMPARED,
                    f"{_described(receipt)} reach over the bill's {part.start_offset} to {part.end_offset}",
                    max(receipt.first_offset, part.start_offset),
                    wrong=False,
                )

    def _tell_missing(self, part: BilledPart, missing: Sequence[Interval]) -> None:
        if missing:
            self._found(
                ReceiptsKind.NOT_ACKNOWLEDGED,
                f"{_length(missing)} of {part.end_offset - part.start_offset} billed offsets are in none of the"
                f" receipts: {_shown(missing)}",
                missing[0][0],
                wrong=self._complete,
            )

    def outside(self, period: Interval) -> None:
        """Receipts of the period at offsets that no part counts."""
        counted = _union([*((part.start_offset, part.end_offset) for part in self._parts), *self._lost])
        kind = ReceiptsKind.NOT_BILLED if self._parts else ReceiptsKind.TOPIC_NOT_BILLED
        for certain in (True, False):
            beyond = _without(
                _union(_of(receipt) for receipt in self._ranges if _lies_in(receipt, period) is certain),
                counted,
            )
            if not beyond or (not certain and self._parts):
                continue  # on a day that the period divides, offsets beyond the cut may be of the next one
            strong = any(
                receipt.acks == ACKS_IN_SYNC and _common([_of(receipt)], beyond)
                for receipt in self._ranges
                if _lies_in(receipt, period) is certain
            )
            when = "within the period" if certain else "on a day that is partly of the period"
            self._found(
                kind,
                f"{_length(beyond)} messages acknowledged {when} are not on the invoice: {_shown(beyond)}",
                beyond[0][0],
                wrong=certain and strong,
            )


def _may_have_gone(one: AcknowledgedRange, other: AcknowledgedRange) -> bool:
    """Whether an honest log can have given both: the leader of the older one alone had it, and fell."""
    if UNKNOWN_EPOCH in (one.leader_epoch, other.leader_epoch) or one.leader_epoch == other.leader_epoch:
        return False
    return min(one, other, key=lambda receipt: receipt.leader_epoch).acks != ACKS_IN_SYNC


def _lies_in(receipt: AcknowledgedRange, period: Interval) -> bool | None:
    """True: all of the range's day is in the period; False: some of it is; None: none."""
    begins = day_start_ms(receipt.day)
    ends = begins + DAY_MS
    if period[0] <= begins and ends <= period[1]:
        return True
    return False if begins < period[1] and ends > period[0] else None


def _clipped(within: Iterable[AcknowledgedRange], part: BilledPart) -> list[Interval]:
    """What receipts that hold for good acknowledge of the part."""
    strong = _union(_of(receipt) for receipt in within if receipt.acks == ACKS_IN_SYNC)
    return _common(strong, [(part.start_offset, part.end_offset)])


# ---- intervals of offsets: sorted, apart from each other -----------------------------------------------------------


def _of(receipt: AcknowledgedRange) -> Interval:
    return (receipt.first_offset, receipt.end_offset)


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    joined: list[Interval] = []
    for first, end in sorted(intervals):
        if first >= end:
            continue
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((first, end))
    return joined


def _common(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    found: list[Interval] = []
    at = 0
    for first, end in some:
        while at < len(others) and others[at][1] <= first:
            at += 1
        for index in range(at, len(others)):
            other_first, other_end = others[index]
            if other_first >= end:
                break
            found.append((max(first, other_first), min(end, other_end)))
    return [interval for interval in found if interval[0] < interval[1]]


def _without(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    left: list[Interval] = []
    for first, end in some:
        taken = _common([(first, end)], others)
        edges = [(first, first), *taken, (end, end)]
        left += [(before[1], after[0]) for before, after in pairwise(edges) if before[1] < after[0]]
    return left


def _length(intervals: Iterable[Interval]) -> int:
    return sum(end - first for first, end in intervals)


def _shown(intervals: Sequence[Interval]) -> str:
    shown = ", ".join(f"{first} to {end}" for first, end in intervals[:_SHOWN_MAX])
    more = len(intervals) - _SHOWN_MAX
    return f"offsets {shown} and {more} more ranges" if more > 0 else f"offsets {shown}"


def _described(receipt: AcknowledgedRange) -> str:
    return (
        f"receipts of offsets {receipt.first_offset} to {receipt.end_offset} ({receipt.day}, leader epoch"
        f" {receipt.leader_epoch}, {receipt.source})"
    )
