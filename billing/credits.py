"""What a declared loss takes back from invoices that were issued: pure, rows in, credits by invoice out.

The log of a partition is lost from an offset on, so what is lost is what was counted last: it is taken from the newest
invoice first, and from the one before when that one's usage of the partition is all gone.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from billing.completeness import Place, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledPart:
    """What an issued invoice still bills of one partition, earlier credits taken off: [first_offset, end_offset)."""

    topic: str
    log_generation: int
    first_offset: int
    end_offset: int
    quantities: Mapping[str, int]
    """By meter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditedPart:
    """What of an invoice's partition is lost. Both bounds are the log's as it was when it was billed."""

    topic_id: str
    topic: str
    partition: int
    log_generation: int
    first_offset: int
    end_offset: int
    quantities: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Credits by invoice, in the order of the invoices given; `unexplained` names what no invoice had billed."""

    credits: tuple[tuple[CreditedPart, ...], ...]
    unexplained: tuple[str, ...]


def allocate(lost: Sequence[Usage], invoices: Sequence[Mapping[Place, BilledPart]]) -> Allocation:
    """Divide what was taken back (rows with negative quantities) over invoices, newest first."""
    begins: dict[Place, int] = {}
    left: dict[Place, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in lost:
        place = (row.topic_id, row.partition)
        begins[place] = min(row.first_offset, begins.get(place, row.first_offset))
        left[place][row.meter] -= row.quantity
    credits: list[tuple[CreditedPart, ...]] = []
    for billed in invoices:
        parts = []
        for place in sorted(left):
            part = billed.get(place)
            if part is None or part.end_offset <= begins[place]:
                continue
            taken = {
                meter: min(quantity, part.quantities.get(meter, 0))
                for meter, quantity in sorted(left[place].items())
            }
            if not any(taken.values()):
                continue
            for meter, quantity in taken.items():
                left[place][meter] -= quantity
            parts.append(
                CreditedPart(
                    topic_id=place[0],
                    topic=part.topic,
                    partition=place[1],
                    log_generation=part.log_generation,
                    first_offset=max(begins[place], part.first_offset),
                    end_offset=part.end_offset,
                    quantities=taken,
                )
            )
        credits.append(tuple(parts))
    unexplained = tuple(
        f"{topic_id}-{partition}: {quantity} {meter} taken back by a declared loss were never billed"
        for (topic_id, partition), meters in sorted(left.items())
        for meter, quantity in sorted(meters.items())
        if quantity
    )
    return Allocation(credits=tuple(credits), unexplained=unexplained)
