"""Allocates reversals to the invoices that billed them. Pure: rows in, credits by invoice out.

A declared loss removes a partition's log from an offset on, so it removes what was counted last. The newest invoice is
credited first. The invoice before it is credited when nothing of the partition is left on the newer one.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from billing.completeness import PartitionRef, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledPart:
    """What an issued invoice still bills of one partition, less earlier credits: offsets [first_offset, end_offset)."""

    topic: str
    log_generation: int
    first_offset: int
    end_offset: int
    quantities: Mapping[str, int]
    """By meter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditedPart:
    """The lost part of one partition on an invoice. Both bounds are offsets of the log as it was billed."""

    topic_id: str
    topic: str
    partition: int
    log_generation: int
    first_offset: int
    end_offset: int
    quantities: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Credits by invoice, in the order of the invoices given. `unbilled` names reversals that no invoice had billed."""

    credits: tuple[tuple[CreditedPart, ...], ...]
    unbilled: tuple[str, ...]


def allocate(reversals: Sequence[Usage], invoices: Sequence[Mapping[PartitionRef, BilledPart]]) -> Allocation:
    """Allocate reversals (rows with negative quantities) to invoices, newest first."""
    begins: dict[PartitionRef, int] = {}
    left: dict[PartitionRef, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in reversals:
        ref = (row.topic_id, row.partition)
        begins[ref] = min(row.first_offset, begins.get(ref, row.first_offset))
        left[ref][row.meter] -= row.quantity
    credits: list[tuple[CreditedPart, ...]] = []
    for billed in invoices:
        parts = []
        for ref in sorted(left):
            part = billed.get(ref)
            if part is None or part.end_offset <= begins[ref]:
                continue
            taken = {
                meter: min(quantity, part.quantities.get(meter, 0))
                for meter, quantity in sorted(left[ref].items())
            }
            if not any(taken.values()):
                continue
            for meter, quantity in taken.items():
                left[ref][meter] -= quantity
            parts.append(
                CreditedPart(
                    topic_id=ref[0],
                    topic=part.topic,
                    partition=ref[1],
                    log_generation=part.log_generation,
                    first_offset=max(begins[ref], part.first_offset),
                    end_offset=part.end_offset,
                    quantities=taken,
                )
            )
        credits.append(tuple(parts))
    unbilled = tuple(
        f"{topic_id}-{partition}: {quantity} {meter} reversed by a declared loss were never billed"
        for (topic_id, partition), meters in sorted(left.items())
        for meter, quantity in sorted(meters.items())
        if quantity
    )
    return Allocation(credits=tuple(credits), unbilled=unbilled)
