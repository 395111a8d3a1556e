"""Prices as people read them, of a tenant's present billing period and of newcomers, and the cost so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from billing import account_actions, price_actions
from billing.running_costs import RunningCost, running_cost
from penstock.contract import documents
from penstock.rules.meters import items_of
from penstock.rules.rating import Model, PriceBook, unit_text
from tenants.models import Tenant

_NUMBERS = ("thousand", "million", "billion")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """The price of one part of a meter's quantity, or by volume of all of it where the whole lies in that part.
    `unit_price` 0 = free; `up_to` None = without an end.
    """

    meter: str
    after: int
    up_to: int | None
    unit_price: str
    unit: str
    """What the price is for, exactly: `million of 1,000,000 messages`."""
    per: str
    """The same in a person's words: `million messages`."""
    currency: str
    by_volume: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FeeRow:
    """A fee or the minimum, for a whole UTC month."""

    name: str
    month_micro: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesShown:
    """Everything that a period's cost is made of."""

    rows: list[PriceRow]
    fees: list[FeeRow]
    minimum_month_micro: int
    currency: str
    minor_digits: int
    terms: Any
    """Plain JSON: discounts, credits, tax."""
    rests: Mapping[str, int] = field(default_factory=dict)
    """What is left of each grant of credit, were the period to end now."""

    @property
    def is_by_use_alone(self) -> bool:
        """Whether who uses nothing pays nothing."""
        return not any(fee.month_micro for fee in self.fees) and not self.minimum_month_micro


def cost_so_far(tenant: Tenant) -> RunningCost | None:
    """The tenant's cost in this period; None while there are no prices."""
    return running_cost(tenant, timezone.now())


def prices_of(cost: RunningCost | None) -> PricesShown | None:
    """The prices of the tenant's present period; None while there are none."""
    return None if cost is None else prices_shown(cost.book, cost.terms, cost.left)


def prices_of_newcomers() -> list[PricesShown]:
    """The prices of a tenant that signs up now, in each currency that it can choose."""
    now = timezone.now()
    books = (price_actions.book_at(now, currency) for currency in account_actions.currencies_offered(now))
    return [prices_shown(PriceBook.read(row.document)) for row in books if row is not None]


def prices_shown(book: PriceBook, terms: Any = None, rests: Mapping[str, int] | None = None) -> PricesShown:
    """A book's prices, with a tenant's terms and what is left of its grants."""
    return PricesShown(
        rows=rows_of(book),
        fees=[FeeRow(name=fee.fee, month_micro=fee.month_micro) for fee in book.fees],
        minimum_month_micro=book.minimum_month_micro,
        currency=book.currency,
        minor_digits=book.minor_digits,
        terms=documents.plain(documents.NO_TERMS) if terms is None else terms,
        rests=rests or {},
    )


def rows_of(book: PriceBook) -> list[PriceRow]:
    """The free part of each meter, then its tiers. By volume the tiers count from the first item on."""
    rows: list[PriceRow] = []
    for price in book.meters:
        unit = unit_text(price.meter, price.unit, price.unit_size)
        if price.model is Model.PACKAGE:
            unit += ", begun ones whole"
        by_volume = price.model is Model.VOLUME
        free = [(price.free, "0", False)] if price.free else []
        after = 0
        for up_to, unit_price, whole in [
            *free,
            *((tier.up_to, tier.unit_price, by_volume) for tier in price.tiers),
        ]:
            if up_to is None or up_to > after:
                rows.append(
                    PriceRow(
                        meter=price.meter,
                        after=after,
                        up_to=up_to,
                        unit_price=unit_price,
                        unit=unit,
                        per=_per(price.meter, price.unit, price.unit_size),
                        currency=book.currency,
                        by_volume=whole,
                    )
                )
                after = after if up_to is None else up_to
    return rows


def _per(meter: str, unit: str, unit_size: int) -> str:
    """`million messages`, where the unit is a number; the unit alone where it is a message or a measure as GB is."""
    return f"{unit} {items_of(meter)}" if unit_size > 1 and unit in _NUMBERS else unit
