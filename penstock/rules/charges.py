"""What an invoice costs beside its meters: fees, discounts, a minimum, credits and tax. Pure, in integers.

From the amounts of the meters on, in this order; each line is rounded half up to minor units once:

1. *fees*: a flat amount a month, for the tenant's part of it, from its first to its last open moment;
2. *discounts*, in their order: each lowers what its meters still cost, meter by meter in the order of the price book;
3. the *minimum*: what meters and fees, less discounts, lack of the month's minimum, for the same part of it;
4. *credits* pay for the rest: the grant that expires soonest first, then the oldest;
5. *tax* on what is left: by the rates of the terms, or as it was stated (`penstock.rules.stated_tax`).

No line takes more than there is, so no total is negative. A meter that costs less never makes the total higher.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from penstock.contract.documents import CreditGrant, Discount, Tax, Terms
from penstock.contract.invariant import invariant
from penstock.rules.proration import MONTH_PARTS, month_parts
from penstock.rules.rating import MICRO, CreditedLine, PriceBook, line_amount_micro, rounded_micro

ChargeKind = Literal["fee", "discount", "minimum", "credit", "tax"]
WHOLE_POINTS = 10_000
"""Basis points of the whole."""
MINIMUM = "minimum"
REASON_MAX = 200
"""Characters of a charge's reason in a document."""
COUPON_PREFIX = "coupon_"
"""Ids of discounts that a tenant redeemed begin with it, and no others do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A line that is no meter's, as `penstock.contract.documents.BilledCharge` says it."""

    kind: ChargeKind
    name: str
    meter: str
    base_micro: int
    basis_points: int
    amount_micro: int
    reason: str

    @property
    def key(self) -> tuple[ChargeKind, str, str]:
        """What tells the charges of an invoice apart."""
        return self.kind, self.name, self.meter


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedTax:
    """So much tax was stated for so much of an invoice, both whole coins. `base_micro` is above 0."""

    country: str
    calculation: str
    """The id of the calculation, which the charge gives as its reason."""
    base_micro: int
    tax_micro: int
    coin_micro: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """What was taken of one grant."""

    grant: str
    before_micro: int
    used_micro: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged:
    """`total_micro` is the sum of the meters' amounts and the charges; `balances` in the order of use."""

    charges: tuple[Charge, ...]
    balances: tuple[Balance, ...]
    total_micro: int


def charge(
    book: PriceBook,
    terms: Terms,
    amounts: Mapping[str, int],
    period_ms: tuple[int, int],
    rests: Mapping[str, int],
    stated: StatedTax | None = None,
    *,
    open_ms: tuple[int, int] | None = None,
) -> Charged:
    """The charges of a period [start, end) whose meters cost `amounts` (whole minor units, by meter).

    `open_ms`: the part of the period from the first to the last moment in which the tenant was open; None: all of it.

    `terms` and `rests` (what is left of each of their grants, and pays) are from `standing_credit`. `stated`: the tax,
    where the terms say that it is stated; without it no tax is charged.
    """
    invariant(all(amount >= 0 for amount in amounts.values()), "no meter costs less than nothing")
    opens, closes = period_ms if open_ms is None else open_ms
    # A document may lie about its period: then the whole of it is charged, and others find what is wrong.
    whole = (opens, closes) == tuple(period_ms)
    invariant(
        whole or period_ms[0] <= opens <= closes <= period_ms[1],
        "a tenant's open time is a part of the period",
    )
    parts = month_parts(opens, closes)
    charges = [
        Charge(
            kind="fee",
            name=fee.fee,
            meter="",
            base_micro=fee.month_micro,
            basis_points=0,
            amount_micro=rounded_micro(fee.month_micro * parts, MICRO * MONTH_PARTS, book.minor_digits),
            reason="",
        )
        for fee in book.fees
    ]
    left = {price.meter: amounts.get(price.meter, 0) for price in book.meters}
    due = sum(left.values()) + sum(one.amount_micro for one in charges)
    for discount in terms.discounts:
        if discount.from_ms <= period_ms[0] < discount.until_ms:
            for one in _discounted(book, discount, left):
                left[one.meter] += one.amount_micro
                due += one.amount_micro
                charges.append(one)
    least = rounded_micro(book.minimum_month_micro * parts, MICRO * MONTH_PARTS, book.minor_digits)
    if least > due:
        charges.append(
            Charge(
                kind="minimum",
                name=MINIMUM,
                meter="",
                base_micro=least,
                basis_points=0,
                amount_micro=least - due,
                reason="",
            )
        )
        due = least
    balances = []
    for grant in in_order_of_use(terms.credits):
        rest = rests[grant.id]
        used = 0
        if grant.currency == book.currency:  # there is no exchange of currencies
            used = min(due, _whole_minor(rest, book.minor_digits))
        balances.append(Balance(grant=grant.id, before_micro=rest, used_micro=used))
        if used:
            charges.append(
                Charge(
                    kind="credit",
                    name=grant.id,
                    meter="",
                    base_micro=rest,
                    basis_points=0,
                    amount_micro=-used,
                    reason=grant.reason,
                )
            )
            due -= used
    if terms.tax is not None:
        tax = _taxed(book, terms.tax, due, period_ms[1])
        charges.append(tax)
        due += tax.amount_micro
    elif stated is not None:
        tax = _taxed_as_stated(book, stated, due)
        charges.append(tax)
        due += tax.amount_micro
    return Charged(charges=tuple(charges), balances=tuple(balances), total_micro=due)


def in_order_of_use(grants: Sequence[CreditGrant]) -> list[CreditGrant]:
    """The soonest to expire first, then the oldest; those that never expire last."""
    return sorted(
        grants,
        key=lambda grant: (grant.expires_ms is None, grant.expires_ms or 0, grant.granted_ms, grant.id),
    )


def is_expired(grant: CreditGrant, period_start_ms: int) -> bool:
    """Whether it pays for no period that begins then or later."""
    return grant.expires_ms is not None and grant.expires_ms <= period_start_ms


def is_redeemed(discount: Discount) -> bool:
    """Whether the tenant has it for a coupon. It stays as it is until it is over, as a grant of credit does; another
    discount may end with any period.
    """
    return discount.id.startswith(COUPON_PREFIX)


def is_over(discount: Discount, period_start_ms: int) -> bool:
    """Whether it lowers no period that begins then or later."""
    return discount.until_ms <= period_start_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftCredit:
    """What an invoice left of each grant that it knew, by id, and when its period began."""

    period_start_ms: int
    rests: Mapping[str, int]


NOTHING_BEFORE = LeftCredit(period_start_ms=0, rests={})
"""For a tenant's first invoice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingCredit:
    """A period's terms, with the expired grants to which credit came back, and what is left of each grant."""

    terms: Terms
    rests: Mapping[str, int]


def standing_credit(
    terms: Terms,
    known: Iterable[CreditGrant],
    left: LeftCredit,
    returned: Mapping[str, int],
    period_start_ms: int,
) -> StandingCredit:
    """What pays for a period that begins then: what the previous invoice left, or all of a grant that is new, and what
    credit notes have `returned` since.

    A grant that has expired lapses. Only what credit notes give back after that still pays, in this period and later
    ones, until it is used: it had been used in time, for messages that were lost. `known`: the grants of earlier
    prices, as those of this period no longer have the expired ones.
    """
    known = list(known)
    own = {grant.id for grant in terms.credits}
    rests: dict[str, int] = {}
    for grant in [*terms.credits, *known]:
        if grant.id in rests or (grant.id not in own and not is_expired(grant, period_start_ms)):
            continue
        if not is_expired(grant, period_start_ms):
            rest = left.rests.get(grant.id, grant.amount_micro)
        elif is_expired(grant, left.period_start_ms):
            rest = left.rests.get(grant.id, 0)
        else:
            rest = 0
        rest += returned.get(grant.id, 0)
        if grant.id in own or rest:
            rests[grant.id] = rest
    return StandingCredit(terms=charged_terms(terms, known, rests), rests=rests)


def charged_terms(terms: Terms, known: Iterable[CreditGrant], rests: Mapping[str, int]) -> Terms:
    """The terms with those of the `known` grants that stand in `rests`: what an invoice with these rests is charged
    by.
    """
    own = {grant.id for grant in terms.credits}
    came_back = {one.id: one for one in known if one.id in rests and one.id not in own}
    return replace(terms, credits=(*terms.credits, *came_back.values())) if came_back else terms


def charge_id(invoice: str, key: tuple[str, str, str], prices_sha256: str) -> str:
    """The id of a charge: `ic_` and 32 hex digits. `prices_sha256` is that of the tenant's prices document."""
    # Names hold no line ends, so no two keys are one text.
    return "ic_" + _digest(f"penstock charge 1\n{invoice}\n{prices_sha256}\n" + "\n".join(key) + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeChange:
    """What a charge is higher by after meters were lowered."""

    kind: ChargeKind
    name: str
    meter: str
    amount_micro: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedCredit:
    """A credit note's lines and changes, and what it takes off: its lines less the changes. Never negative."""

    lines: tuple[CreditedLine, ...]
    changes: tuple[ChargeChange, ...]
    total_micro: int


def credit_charged(
    book: PriceBook,
    terms: Terms,
    period_ms: tuple[int, int],
    rests: Mapping[str, int],
    amounts: Mapping[str, int],
    billed: Mapping[str, int],
    lost: Mapping[str, int],
    stated: StatedTax | None = None,
    *,
    open_ms: tuple[int, int] | None = None,
) -> ChargedCredit:
    """What an invoice costs less when `lost` of `billed` never became part of the log.

    The difference of two ratings of the whole invoice. `amounts` and `billed` are what its meters still cost and count
    after earlier credit notes, `rests`, `stated` and `open_ms` those of the invoice. By volume a smaller quantity may
    cost more: a loss never makes a meter dearer.
    """
    lines = []
    after = dict(amounts)
    for price in book.meters:
        quantity, whole = lost.get(price.meter, 0), billed.get(price.meter, 0)
        invariant(0 <= quantity <= whole, "no more is credited than was billed")
        if quantity:
            cost = line_amount_micro(price, whole - quantity, book.minor_digits)
            after[price.meter] = min(amounts[price.meter], cost)
            lines.append(
                CreditedLine(
                    meter=price.meter,
                    unit=price.unit,
                    unit_size=price.unit_size,
                    quantity=quantity,
                    amount_micro=amounts[price.meter] - after[price.meter],
                )
            )
    first = charge(book, terms, amounts, period_ms, rests, stated, open_ms=open_ms)
    then = charge(book, terms, after, period_ms, rests, stated, open_ms=open_ms)
    invariant(then.total_micro <= first.total_micro, "what costs less makes nothing dearer")
    return ChargedCredit(
        lines=tuple(lines),
        changes=tuple(_changes(first, then)),
        total_micro=first.total_micro - then.total_micro,
    )


def _changes(first: Charged, then: Charged) -> Iterator[ChargeChange]:
    before = {one.key: one.amount_micro for one in first.charges}
    after = {one.key: one.amount_micro for one in then.charges}
    for key in dict.fromkeys([*before, *after]):
        difference = after.get(key, 0) - before.get(key, 0)
        if difference:
            yield ChargeChange(kind=key[0], name=key[1], meter=key[2], amount_micro=difference)


def _discounted(book: PriceBook, discount: Discount, left: Mapping[str, int]) -> Iterator[Charge]:
    if discount.amount_micro and discount.currency != book.currency:
        return
    rest = _whole_minor(discount.amount_micro, book.minor_digits)
    for price in book.meters:
        base = left[price.meter]
        if discount.meters and price.meter not in discount.meters:
            continue
        if discount.basis_points:
            taken = rounded_micro(base * discount.basis_points, MICRO * WHOLE_POINTS, book.minor_digits)
        else:
            taken = min(rest, base)
            rest -= taken
        if taken:
            yield Charge(
                kind="discount",
                name=discount.id,
                meter=price.meter,
                base_micro=base,
                basis_points=discount.basis_points,
                amount_micro=-taken,
                reason=discount.reason,
            )


def _taxed(book: PriceBook, tax: Tax, due: int, period_end_ms: int) -> Charge:
    rates = [rate.basis_points for rate in tax.rates if rate.from_ms < period_end_ms]
    points = 0 if tax.reverse_charge or not rates else rates[-1]
    return Charge(
        kind="tax",
        name=f"{tax.country}-{tax.region}" if tax.region else tax.country,
        meter="",
        base_micro=due,
        basis_points=points,
        amount_micro=rounded_micro(due * points, MICRO * WHOLE_POINTS, book.minor_digits),
        reason=tax.reason,
    )


def _taxed_as_stated(book: PriceBook, stated: StatedTax, due: int) -> Charge:
    """In proportion where less is due than what it was stated for, after a credit note."""
    coins = due // stated.coin_micro * stated.coin_micro
    return Charge(
        kind="tax",
        name=stated.country,
        meter="",
        base_micro=due,
        basis_points=0,
        amount_micro=rounded_micro(coins * stated.tax_micro, MICRO * stated.base_micro, book.minor_digits),
        reason=stated.calculation[:REASON_MAX],
    )


def _whole_minor(amount_micro: int, minor_digits: int) -> int:
    """The amount without what is less than a minor unit."""
    scale: int = MICRO // 10**minor_digits
    return amount_micro // scale * scale


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
