"""Declared losses in an invoice's evidence: what of a claim still stands in the log, and which seals still tell of it.

A loss at offset C begins a log generation. What an invoice counted from C on is not in the log any more and must have
been credited; what it counted below stands, and is checked as ever. Seals of an older generation that reach beyond C
tell of a log that is no more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from penstock.records.seal import Seal
from penstock.verification.evidence import ClaimedRange, CreditClaim, LostRange, PartitionClaim
from penstock.verification.findings import Kind, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A claim without what was lost of it, and what that was."""

    claim: PartitionClaim
    lost: tuple[int, int] | None
    """Offsets that the invoice had counted, [first, end)."""
    lost_messages: int
    lost_bytes: int
    problems: tuple[Problem, ...]


def standing(claim: PartitionClaim, credits: Iterable[CreditClaim]) -> Standing:
    """What is to be found in the log of a claim: it begins where the invoice began to count, and ends where the first
    loss that reached into it begins."""
    ranges = sorted(
        (lost for credit in credits for lost in credit.ranges if lost.where == claim.where),
        key=lambda lost: lost.first_offset,
    )
    known = max([claim.log_generation, *(generation for generation, _ in claim.generations)])
    whole = replace(claim, start_offset=claim.counts_from, log_generation=known)
    if not ranges:
        return Standing(claim=whole, lost=None, lost_messages=0, lost_bytes=0, problems=())
    first = ranges[0].first_offset
    messages, size = sum(lost.messages for lost in ranges), sum(lost.bytes for lost in ranges)
    return Standing(
        claim=replace(
            whole,
            end_offset=first,
            ranges=_below(whole, first, messages, size),
        ),
        lost=(first, claim.end_offset),
        lost_messages=messages,
        lost_bytes=size,
        problems=tuple(_holes(claim, ranges)),
    )


def _below(claim: PartitionClaim, first: int, messages: int, size: int) -> tuple[ClaimedRange, ...]:
    """The ranges that end at `first` at most; the one it lies in keeps what was not credited."""
    kept = [row for row in claim.ranges if row.first_offset < first]
    gone = [row for row in claim.ranges if row.first_offset >= first]
    messages -= sum(row.messages for row in gone)
    size -= sum(row.bytes for row in gone)
    if kept:
        last = kept[-1]
        kept[-1] = replace(
            last,
            end_offset=min(last.end_offset, first),
            messages=last.messages - messages,
            bytes=last.bytes - size,
        )
    return tuple(kept)


def _holes(claim: PartitionClaim, ranges: Sequence[LostRange]) -> Iterable[Problem]:
    at = ranges[0].first_offset
    for lost in ranges:
        if lost.first_offset != at:
            break
        at = lost.end_offset
    if at != claim.end_offset or ranges[0].first_offset < claim.counts_from:
        yield Problem(
            kind=Kind.CREDIT_DIFFERS,
            where=claim.name,
            message=f"offsets {ranges[0].first_offset} to {at} are credited, a loss reaches to {claim.end_offset}",
            offset=ranges[0].first_offset,
        )


def seals_that_stand(
    seals: Sequence[Seal], claim: PartitionClaim, credits: Iterable[CreditClaim]
) -> list[Seal]:
    """Those that no later loss has made void."""
    ends = [(generation - 1, begins_at) for generation, begins_at in claim.generations]
    ends += [
        (lost.log_generation, lost.first_offset)
        for credit in credits
        for lost in credit.ranges
        if lost.where == claim.where
    ]
    return [
        seal
        for seal in seals
        if not any(seal.log_generation <= last and seal.end_offset > end for last, end in ends)
    ]
