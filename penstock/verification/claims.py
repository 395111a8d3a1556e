"""What an invoice claims of each partition, beside what the brokers' cuts and declared losses say of it. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from penstock.contract.documents import (
    BilledDay,
    BilledPartition,
    CreditedRange,
    CreditNoteDocument,
    InvoiceDocument,
    Reading,
)
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.cut import CutEnd
from penstock.verification.commitments import Commitments
from penstock.verification.findings import Kind, Problem

_PROBLEMS_MAX = 20
"""Of one partition's days: after so many the rest says nothing new."""
_RANGES_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionClaim:
    """One partition of an invoice, and what is known of it beforehand."""

    billed: BilledPartition
    where: TopicPartition
    begin: CutEnd | None
    """The reading at `billed.counts_from`: of the cut before, or zero at the log's beginning. None: not known."""
    end: CutEnd
    """The reading at the cut."""
    lost_from: int | None
    """A loss declared since took what stood from here on."""
    credited_messages: int = 0
    credited_bytes: int = 0
    credited: bool = False
    """Some credit note names offsets of it."""

    @property
    def name(self) -> str:
        return f"{self.billed.topic}-{self.billed.partition}"

    @property
    def first_offset(self) -> int:
        return self.billed.counts_from

    @property
    def end_offset(self) -> int:
        """Up to where the log still holds what was billed."""
        end = self.billed.end_offset
        return end if self.lost_from is None else max(self.first_offset, min(end, self.lost_from))

    @property
    def messages(self) -> int:
        """As billed."""
        return sum(day.messages for day in self.billed.days)

    @property
    def bytes(self) -> int:
        return sum(day.bytes for day in self.billed.days)


def cut_ends(readings: Iterable[Reading]) -> list[CutEnd]:
    """The readings of a cut's document."""
    return [
        CutEnd(
            where=where_of(reading),
            log_generation=reading.log_generation,
            end_offset=reading.end_offset,
            accepted_ms=reading.accepted_ms,
            messages=reading.messages,
            bytes=reading.bytes,
            last=reading.last,
        )
        for reading in readings
    ]


def where_of(value: Reading | BilledPartition) -> TopicPartition:
    return TopicPartition(TopicId(bytes.fromhex(value.topic_id)), value.partition)


def claims_of(
    invoice: InvoiceDocument,
    before: Mapping[TopicPartition, CutEnd] | None,
    commitments: Commitments,
    credits: Iterable[CreditNoteDocument],
    seen_later: Mapping[TopicPartition, int],
) -> tuple[list[PartitionClaim], list[Problem]]:
    """The claims of an invoice whose cut's readings are known to be right, and what is wrong with them before any batch
    is read. `before`: the readings of the cut before, None when they are not known; `seen_later`: the log generation at
    the newest later cut that was billed.
    """
    problems: list[Problem] = []
    ends = {end.where: end for end in cut_ends(invoice.cut.readings)}
    credited: dict[tuple[str, int], list[CreditedRange]] = {}
    for note in credits:
        for lost in note.ranges:
            credited.setdefault((lost.topic_id, lost.partition), []).append(lost)
    claims: list[PartitionClaim] = []
    for billed in invoice.partitions:
        where = where_of(billed)
        end = ends.pop(where, None)
        name = f"{billed.topic}-{billed.partition}"
        if end is None:
            message = "stands on the invoice twice, or is not in the cut"
            problems.append(Problem(kind=Kind.CUT_DIFFERS, where=name, message=message))
            continue
        earlier = None if before is None else before.get(where)
        due_start = 0 if earlier is None else earlier.end_offset
        if earlier is not None and earlier.last:
            message = "its topic was deleted, and the invoice before counted the last of it"
            problems.append(Problem(kind=Kind.OFFSETS_NOT_CONTIGUOUS, where=name, message=message))
        losses = commitments.losses_of(where)
        known_generation = 0 if earlier is None else earlier.log_generation
        between = [
            loss.offset for loss in losses if known_generation < loss.log_generation <= end.log_generation
        ]
        due_from = min([due_start, *(between if earlier is not None else [])])
        for said, due, what in (
            (billed.end_offset, end.end_offset, "counts up to offset {0}, the cut is at {1}"),
            (billed.log_generation, end.log_generation, "counts log generation {0}, the cut is of {1}"),
        ):
            if said != due:
                problems.append(Problem(kind=Kind.CUT_DIFFERS, where=name, message=what.format(said, due)))
        if before is not None and (billed.start_offset, billed.counts_from) != (due_start, due_from):
            message = (
                f"counts from offset {billed.counts_from} behind a period that ended at {billed.start_offset}; "
                f"{due_from} and {due_start} are due"
            )
            problems.append(
                Problem(
                    kind=Kind.OFFSETS_NOT_CONTIGUOUS, where=name, message=message, offset=billed.counts_from
                )
            )
        if not billed.counts_from <= billed.start_offset or billed.counts_from > billed.end_offset:
            message = f"offsets {billed.counts_from} to {billed.end_offset} behind {billed.start_offset}"
            problems.append(Problem(kind=Kind.OFFSETS_NOT_CONTIGUOUS, where=name, message=message))
            continue
        problems += islice(_days(name, billed.days, billed.counts_from, billed.end_offset), _PROBLEMS_MAX)
        begin: CutEnd | None = None
        if billed.counts_from == 0:
            begin = CutEnd(where=where, log_generation=0, end_offset=0, accepted_ms=-1, messages=0, bytes=0)
        elif earlier is not None and earlier.end_offset == billed.counts_from:
            begin = earlier
        later = [
            loss
            for loss in losses
            if loss.log_generation > end.log_generation and loss.offset < billed.end_offset
        ]
        lost_from = min((loss.offset for loss in later), default=None)
        overdue = any(loss.log_generation <= seen_later.get(where, 0) for loss in later)
        ranges = credited.get((billed.topic_id, billed.partition), [])
        problems += _credited_offsets(name, billed, lost_from, ranges_of(ranges), overdue=overdue)
        claims.append(
            PartitionClaim(
                billed=billed,
                where=where,
                begin=begin,
                end=end,
                lost_from=lost_from,
                credited_messages=sum(lost.messages for lost in ranges),
                credited_bytes=sum(lost.bytes for lost in ranges),
                credited=bool(ranges),
            )
        )
    for where, end in ends.items():
        if end.last:
            continue  # given up: nothing of it is billed, now or later
        problems.append(
            Problem(
                kind=Kind.PARTITION_OMITTED,
                where=str(where),
                message=f"the cut has it at offset {end.end_offset}, and the invoice does not name it",
            )
        )
    return claims, problems


def _days(name: str, days: Iterable[BilledDay], first: int, end: int) -> Iterator[Problem]:
    """The ranges must follow one another from the beginning to the end, each with offsets and a later day."""
    at, last = first, None
    for row in days:
        if row.first_offset != at or row.end_offset <= row.first_offset:
            yield Problem(
                kind=Kind.OFFSETS_NOT_CONTIGUOUS,
                where=name,
                message=f"the range of {row.day} is {row.first_offset} to {row.end_offset}, {at} to … is due",
                offset=at,
            )
        if last is not None and row.day < last:
            yield Problem(
                kind=Kind.DAY_DIFFERS, where=name, message=f"{row.day} stands behind {last}", offset=at
            )
        at, last = row.end_offset, row.day
    if at != end:
        yield Problem(
            kind=Kind.OFFSETS_NOT_CONTIGUOUS,
            where=name,
            message=f"the invoice's ranges end at {at}, the cut is at {end}",
            offset=at,
        )


def ranges_of(ranges: Iterable[CreditedRange]) -> list[tuple[int, int]]:
    """Offsets [first, end) in order."""
    return sorted((lost.first_offset, lost.end_offset) for lost in ranges)


def _credited_offsets(
    name: str,
    billed: BilledPartition,
    lost_from: int | None,
    ranges: list[tuple[int, int]],
    *,
    overdue: bool,
) -> Iterator[Problem]:
    if lost_from is None:
        if ranges:
            yield Problem(
                kind=Kind.CREDIT_DIFFERS,
                where=name,
                message=f"offsets from {ranges[0][0]} on are credited, and the brokers know of no loss there",
                offset=ranges[0][0],
            )
        return
    first = max(lost_from, billed.counts_from)
    if not ranges and overdue:
        yield Problem(
            kind=Kind.CREDIT_DIFFERS,
            where=name,
            message=f"offsets {first} to {billed.end_offset} are lost, and a later invoice came without a credit note",
            offset=first,
            end_offset=billed.end_offset,
        )
        return
    if not ranges:
        yield Problem(
            kind=Kind.CREDIT_DUE,
            where=name,
            message=f"offsets {first} to {billed.end_offset} are lost and not credited yet; a credit note comes "
            "with the next period's end",
            offset=first,
            end_offset=billed.end_offset,
        )
        return
    # A later loss credits what lies below an earlier one: together they hold each lost offset once.
    begins = [one_first for one_first, _ in ranges]
    ends = [one_end for _, one_end in ranges]
    if [*begins, billed.end_offset] != [first, *ends]:
        credited = ", ".join(f"{one_first} to {one_end}" for one_first, one_end in ranges[:_RANGES_NAMED])
        yield Problem(
            kind=Kind.CREDIT_DIFFERS,
            where=name,
            message=f"offsets {credited}{', …' * (len(ranges) > _RANGES_NAMED)} are credited, "
            f"{first} to {billed.end_offset} are lost",
            offset=first,
        )
