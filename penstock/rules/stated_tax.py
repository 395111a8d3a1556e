"""What of an invoice is taxed where the tax is stated for it, line by line. Pure, in integers.

Stripe Tax takes amounts of lines above 0 alone. So a line is what it costs less its discounts, and credit pays for the
lines from the first one on. Each line ends at the coin in which the sum up to it ends.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from penstock.contract.tax_documents import StatedTaxLine, StatedTaxPart
from penstock.rules.charges import Charged
from penstock.rules.currencies import minor_digits
from penstock.rules.rating import MICRO, PriceBook, grouped_amount

COIN_LEAST_MICRO = 10_000
"""Coins of thousandths do not exist: currencies with them are paid in hundredths."""
PAID_WHOLE = frozenset({"MGA"})
"""Have two digits in ISO 4217, and are paid and taxed without."""
_PERCENT = re.compile(r"[0-9]{1,3}(\.[0-9]{1,12})?")


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


def tax_faults(line: StatedTaxLine, coin: int) -> Iterator[str]:
    """What a stated line contradicts of itself, as sentences: each jurisdiction takes its own percentage of what it
    taxes, and the line is their sum. Each part may be rounded by up to a coin, and the line by half of one for each.
    """
    parts = sum(part.amount_micro for part in line.parts)
    if parts != line.tax_micro:
        yield f"{_money(line.tax_micro)} in all, its jurisdictions take {_money(parts)}"
    exact = Fraction(0)
    for part in line.parts:
        due = _due(part)
        if due is None:
            yield f"{part.jurisdiction} takes {part.percent!r} %, which is no percentage"
            continue
        exact += due
        if part.taxable_micro > line.base_micro:
            yield f"more is taxed than the {_money(line.base_micro)} of the line, by {part.jurisdiction}"
        if abs(part.amount_micro - due) > (coin if due else 0):
            yield (
                f"{part.jurisdiction} takes {_money(part.amount_micro)}, {part.percent or 0} % of "
                f"{_money(part.taxable_micro)} are {_money(round(due))}"
            )
    if 2 * abs(line.tax_micro - exact) > coin * max(2, len(line.parts)):
        yield f"{_money(line.tax_micro)} in all, its percentages come to {_money(round(exact))}"
    for (jurisdiction, *_), times in Counter(map(_names, line.parts)).items():
        if times > 1:
            yield f"{jurisdiction} takes the same tax {times} times"


def _due(part: StatedTaxPart) -> Fraction | None:
    """Exactly; None: the percentage is none."""
    if not part.percent:
        return Fraction(0)
    if not _PERCENT.fullmatch(part.percent):
        return None
    return Fraction(part.percent) * part.taxable_micro / 100


def _names(part: StatedTaxPart) -> tuple[str, ...]:
    return part.jurisdiction, part.country, part.state, part.level, part.tax, part.percent, part.reason


def _money(amount_micro: int) -> str:
    return grouped_amount(amount_micro, 2)
