"""What of an invoice is taxed where the tax is stated for it, line by line. Pure, in integers.

Stripe Tax takes amounts of lines above 0 alone. So a line is what it costs less its discounts, and credit pays for the
lines from the first one on. Each line ends at the coin in which the sum up to it ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.rules.charges import Charged
from penstock.rules.currencies import minor_digits
from penstock.rules.rating import MICRO, PriceBook

COIN_LEAST_MICRO = 10_000
"""Coins of thousandths do not exist: currencies with them are paid in hundredths."""
PAID_WHOLE = frozenset({"MGA"})
"""Have two digits in ISO 4217, and are paid and taxed without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxedLine:
    """`line` names a meter, a fee or the minimum; `base_micro` is whole coins, above 0."""

    line: str
    base_micro: int


def coin_micro(currency: str) -> int:
    """The smallest coin that is paid with. Raises `InvalidRequest` for a currency that ISO 4217 does not have.

    >>> coin_micro("USD"), coin_micro("JPY"), coin_micro("KWD")
    (10000, 1000000, 10000)
    """
    smallest: int = MICRO // 10 ** (0 if currency in PAID_WHOLE else minor_digits(currency))
    return max(COIN_LEAST_MICRO, smallest)


def taxed_lines(book: PriceBook, amounts: Mapping[str, int], charged: Charged) -> tuple[TaxedLine, ...]:
    """What is taxed of meters that cost `amounts` and their charges; tax among these is left out. Empty: nothing is."""
    costs: dict[str, int] = {f"usage {price.meter}": amounts.get(price.meter, 0) for price in book.meters}
    paid = 0
    for one in charged.charges:
        match one.kind:
            case "discount":
                costs[f"usage {one.meter}"] += one.amount_micro
            case "fee" | "minimum":
                costs[f"{one.kind} {one.name}"] = one.amount_micro
            case "credit":
                paid -= one.amount_micro
            case "tax":
                pass
    coin = coin_micro(book.currency)
    found, exact, before = [], 0, 0
    for line, cost in costs.items():
        by_credit = min(paid, cost)
        paid -= by_credit
        exact += cost - by_credit
        until = exact // coin * coin
        if until > before:
            found.append(TaxedLine(line=line, base_micro=until - before))
        before = until
    return tuple(found)
