"""What the period to date costs by the prices that will rate it: an estimate until the cut says where it ends."""

from dataclasses import dataclass

from django.utils import timezone

from billing import queries
from penstock.rules.rating import PriceBook, Rated, rate
from tenants.models import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSoFar:
    """What is metered and stands on no issued invoice yet, rated as one period."""

    rated: Rated
    currency: str
    minor_digits: int
    messages: int
    bytes: int


def cost_so_far(tenant: Tenant) -> CostSoFar | None:
    """None while there are no prices."""
    row = queries.price_books().filter(effective_from__lte=timezone.now()).last()
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
