"""What each period owes, by batches and fractions alone: no code of the pipeline or of billing is used."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from tests.reconcile.truth import Batch, Partition

CENT = 10_000
"""Micro-units."""
POINTS = 10_000
"""Basis points of one."""


class Owed(NamedTuple):
    """Of a period, or what is taken back of it."""

    messages: int
    size: int
    micro: int


@dataclass(slots=True)
class Period:
    """A tenant's period: what was billed of it first, and what is left of that."""

    tenant: str
    end_ms: int
    book: Mapping[str, object]
    discount: int
    """Basis points."""
    billed: dict[int, Batch] = field(default_factory=dict)
    """By identity."""
    left: dict[int, Batch] = field(default_factory=dict)

    def issued(self) -> Owed:
        return self._owed(self.billed.values())

    def credited(self) -> Owed:
        """What credit notes give back."""
        first, then = self.issued(), self._owed(self.left.values())
        return Owed(*(a - b for a, b in zip(first, then, strict=True)))

    def _owed(self, batches: Iterable[Batch]) -> Owed:
        kept = list(batches)
        quantities = {
            "messages_in": sum(batch.messages for batch in kept),
            "bytes_in": sum(batch.size for batch in kept),
        }
        total = 0
        for price in _meters(self.book):
            amount = _cents(_graduated(price, quantities[str(price["meter"])]))
            total += amount - _cents(Fraction(amount * self.discount, POINTS))
        return Owed(quantities["messages_in"], quantities["bytes_in"], total * CENT)


@dataclass(slots=True)
class Ledger:
    """The periods of all tenants."""

    periods: dict[tuple[str, int], Period] = field(default_factory=dict)
    """By tenant and end."""
    _billed: dict[str, dict[int, Period]] = field(default_factory=dict)
    """Tenant -> identity of a batch -> the period that billed it."""

    def close(
        self,
        tenant: str,
        partitions: Sequence[Partition],
        end_ms: int,
        book: Mapping[str, object],
        discount: int,
    ) -> None:
        """The tenant's period ends: it owes what is there and on no earlier one, and these get back what is gone."""
        period = self.periods[tenant, end_ms] = Period(tenant, end_ms, book, discount)
        billed = self._billed.setdefault(tenant, {})
        there = {
            id(batch): batch for partition in partitions for batch in partition.batches if batch.at < end_ms
        }
        for identity in [one for one in billed if one not in there]:
            del billed.pop(identity).left[identity]
        for identity, batch in there.items():
            if identity not in billed:
                billed[identity] = period
                period.billed[identity] = period.left[identity] = batch

    def net_micro(self) -> int:
        """What all tenants have to pay in the end."""
        return sum(period.issued().micro - period.credited().micro for period in self.periods.values())


def _meters(book: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    meters = book["meters"]
    assert isinstance(meters, list)
    return meters


def _graduated(price: Mapping[str, object], quantity: int) -> Fraction:
    """In cents, exact."""
    free, unit, tiers = price["free"], price["unit_size"], price["tiers"]
    assert isinstance(free, int) and isinstance(unit, int) and isinstance(tiers, list)
    amount, below = Fraction(0), free
    for tier in tiers:
        upper = quantity if tier["up_to"] is None else min(quantity, tier["up_to"])
        if upper > below:
            amount += Fraction(tier["unit_price"]) * (upper - below) / unit
            below = upper
    return amount * 100


def _cents(exact: Fraction) -> int:
    """Rounded half up."""
    return (exact + Fraction(1, 2)).__floor__()
