"""What one more byte or message costs a tenant at most, for budgets by cost."""

from billing.price_actions import running_prices_of
from penstock.rules import rating
from penstock.rules.budgets import PARTS
from quotas.budget_queries import UnitRates
from tenants.models import Tenant

_PARTS_PER_PICO = PARTS * rating.MICRO // rating.PICO


def unit_rates(tenant: Tenant) -> UnitRates | None:
    """By the book of the running period: of each meter the dearest tier, without the free allowance, rounded up. So a
    budget never counts less than the invoice will say of its meters; fees, minimum, discounts, credits and tax are in
    none. None: there is no book.
    """
    row = running_prices_of(tenant)
    if row is None:
        return None
    book = rating.PriceBook.read(row.document)
    rates = {
        meter.meter: -(
            -max(tier.unit_price_pico for tier in meter.tiers) * _PARTS_PER_PICO // meter.unit_size
        )
        for meter in book.meters
    }
    return UnitRates(
        currency=book.currency, byte_in=rates.get("bytes_in", 0), message_in=rates.get("messages_in", 0)
    )
