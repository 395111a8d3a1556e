"""The prices of the present billing period, and its cost so far: an estimate until the period ends."""

from dataclasses import dataclass

from django.utils import timezone

from billing import price_actions, queries
from penstock.rules.rating import PriceBook, Rated, rate, unit_text
from tenants.models import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSoFar:
    """Usage that is on no issued invoice yet, rated as one period."""

    rated: Rated
    currency: str
    minor_digits: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """The price of one part of a meter's quantity. `unit_price` 0 = free; `up_to` None = without an end."""

    meter: str
    after: int
    up_to: int | None
    unit_price: str
    unit: str
    currency: str


def cost_so_far(tenant: Tenant) -> CostSoFar | None:
    """The tenant's cost in this period; None while there are no prices."""
    row = price_actions.running_prices_of(tenant)
    if row is None:
        return None
    book = PriceBook.read(row.document)
    groups = queries.usage(tenant, by=[], first=None, end=None)
    meters = groups[0]["meters"] if groups else {}
    quantities = {name: max(0, numbers["provisional"]) for name, numbers in meters.items()}
    return CostSoFar(
        rated=rate(book, quantities),
        currency=book.currency,
        minor_digits=book.minor_digits,
        messages=quantities.get("messages_in", 0),
        bytes=quantities.get("bytes_in", 0),
    )


def price_rows(tenant: Tenant) -> list[PriceRow]:
    """The prices of the tenant's present period, in the order of the price book; empty while there are none."""
    row = price_actions.running_prices_of(tenant)
    return [] if row is None else rows_of(PriceBook.read(row.document))


def prices_of_newcomers() -> list[PriceRow]:
    """The prices of a tenant that signs up now."""
    row = queries.price_books().filter(effective_from__lte=timezone.now()).last()
    return [] if row is None else rows_of(PriceBook.read(row.document))


def rows_of(book: PriceBook) -> list[PriceRow]:
    """The free part of each meter, then its tiers."""
    rows: list[PriceRow] = []
    for price in book.meters:
        unit = unit_text(price.meter, price.unit, price.unit_size)
        after = 0
        free = [(price.free, "0")] if price.free else []
        for up_to, unit_price in [*free, *((tier.up_to, tier.unit_price) for tier in price.tiers)]:
            if up_to is None or up_to > after:
                rows.append(
                    PriceRow(
                        meter=price.meter,
                        after=after,
                        up_to=up_to,
                        unit_price=unit_price,
                        unit=unit,
                        currency=book.currency,
                    )
                )
                after = after if up_to is None else up_to
    return rows
