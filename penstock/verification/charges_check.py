"""What an invoice of format 2 costs beside its meters, against the terms of the billing chain: every charge, what is
left of each grant, and how credit notes change them. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from penstock.contract.documents import (
    NO_TERMS,
    CreditGrant,
    CreditNoteDocument,
    Discount,
    InvoiceDocument,
    PricesDocument,
    Terms,
    document_sha256,
    plain,
)
from penstock.rules.charges import (
    NOTHING_BEFORE,
    Charge,
    Charged,
    LeftCredit,
    StatedTax,
    charge,
    charge_id,
    credit_charged,
    is_expired,
    is_over,
    is_redeemed,
    standing_credit,
)
from penstock.rules.rating import MICRO, PriceBook, credit_line_id, grouped_amount, rate
from penstock.rules.stated_tax import TaxedLine, coin_micro, tax_faults, taxed_lines
from penstock.verification.findings import Kind, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPrices:
    """What the billing chain assigns to a period: the book, and from format 2 on the tenant's terms."""

    format: int
    book: PriceBook
    terms: Terms
    sha256: str
    """Of the prices document."""

    @classmethod
    def of(cls, prices: PricesDocument) -> "AssignedPrices":
        return cls(
            format=prices.format,
            book=PriceBook.read(plain(prices.price_book)),
            terms=NO_TERMS if prices.terms is UNSET else prices.terms,
            sha256=document_sha256(prices),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DueCharges:
    """What is due for the period, with what was left of each grant before it. `terms` have the expired grants to which
    credit came back, too.
    """

    terms: Terms
    rests: Mapping[str, int]
    amounts: Mapping[str, int]
    charged: Charged
    stated: StatedTax | None
    """As the invoice says; `check_statement` compares what it is stated for."""


def due_charges(
    invoice: InvoiceDocument,
    prices: AssignedPrices,
    quantities: Mapping[str, int],
    previous: InvoiceDocument | None,
    returned: Mapping[str, int],
    earlier: Sequence[PricesDocument],
) -> DueCharges:
    """By the prices, for what the invoice counts. `returned`: what credit notes gave back to grants since
    `previous`. `earlier`: the chain's prices before those of the invoice.
    """
    credit = standing_credit(
        prices.terms, grants_of(earlier), left_by(previous), returned, invoice.period_start_ms
    )
    amounts = {line.meter: line.amount_micro for line in rate(prices.book, quantities).lines}
    period_ms = (invoice.period_start_ms, invoice.period_end_ms)
    stated = None if prices.terms.tax_stated_by is UNSET else stated_in(invoice)
    return DueCharges(
        terms=credit.terms,
        rests=credit.rests,
        amounts=amounts,
        charged=charge(
            prices.book, credit.terms, amounts, period_ms, credit.rests, stated, open_ms=invoice.open_ms
        ),
        stated=stated,
    )


def stated_in(invoice: InvoiceDocument) -> StatedTax | None:
    """The tax that an invoice says was stated for it."""
    statement = invoice.tax_statement
    base = 0 if statement is UNSET else sum(line.base_micro for line in statement.lines)
    if statement is UNSET or not base:
        return None
    return StatedTax(
        country=statement.address.country,
        calculation=statement.calculation,
        base_micro=base,
        tax_micro=sum(line.tax_micro for line in statement.lines),
        coin_micro=coin_micro(invoice.currency),
    )


def check_statement(invoice: InvoiceDocument, prices: AssignedPrices, due: DueCharges) -> Iterator[Problem]:
    """A stated tax is stated for what the invoice costs, it is there where the terms want it, and its parts are what
    their percentages give and add up.

    What it says itself is shown by nothing here, so an invoice with one is proven in part.
    """
    statement = invoice.tax_statement
    wanted: tuple[TaxedLine, ...] = ()
    if prices.terms.tax_stated_by is not UNSET:
        wanted = taxed_lines(prices.book, due.amounts, due.charged)
    if statement is UNSET:
        if wanted:
            yield _line(invoice.id, "has no statement of its tax, which its prices require")
        return
    if prices.terms.tax_stated_by is UNSET:
        yield _line(invoice.id, "has a statement of its tax, which its prices do not have stated")
        return
    said = [(line.line, line.base_micro) for line in statement.lines]
    right = [(one.line, one.base_micro) for one in wanted]
    if said != right:
        yield _line(statement.calculation, f"states the tax of {said}; {right} are taxed")
    if not invoice.period_end_ms <= statement.tax_at_ms <= invoice.issued_at_ms:
        yield _line(statement.calculation, "has rates of a time before the period's end or after the issue")
    minor_micro = MICRO // 10**prices.book.minor_digits
    for line in statement.lines:
        for fault in tax_faults(line, coin_micro(invoice.currency)):
            yield Problem(kind=Kind.AMOUNT_DIFFERS, where=f"tax of {line.line}", message=fault)
        if line.tax_micro % minor_micro:
            yield _line(
                f"tax of {line.line}", f"{line.tax_micro} millionths are no amount of {invoice.currency}"
            )
    tax = sum(line.tax_micro for line in statement.lines)
    yield Problem(
        kind=Kind.UNPROVEN,
        where=f"tax {statement.address.country}",
        message=f"stated: {_money(tax)} are what Stripe Tax says in {statement.calculation}",
    )


def check_charges(invoice: InvoiceDocument, prices: AssignedPrices, due: DueCharges) -> Iterator[Problem]:
    """Each charge is the one that the terms give, and each grant has what is left of it."""
    if invoice.format != prices.format:
        yield _line(invoice.id, f"has format {invoice.format}, its prices have {prices.format}")
    said = () if invoice.charges is UNSET else invoice.charges
    wanted = due.charged.charges
    if [(one.kind, one.name, one.meter) for one in said] != [one.key for one in wanted]:
        names = ", ".join(_named(one.kind, one.name, one.meter) for one in said)
        right = ", ".join(_named(*one.key) for one in wanted)
        yield _line(
            invoice.id, f"has charges of {names or 'nothing'}; {right or 'none'} are due, in this order"
        )
    by_key: dict[tuple[str, str, str], Charge] = {one.key: one for one in wanted}
    for one in said:
        right_one = by_key.get((one.kind, one.name, one.meter))
        if right_one is None:
            continue
        where = _named(one.kind, one.name, one.meter)
        compared: tuple[tuple[object, object, str], ...] = (
            (one.id, charge_id(invoice.id, right_one.key, prices.sha256), "the id"),
            (one.base_micro, right_one.base_micro, "the base"),
            (one.basis_points, right_one.basis_points, "basis points"),
            (one.reason, right_one.reason, "the reason"),
        )
        for seen, right_value, what in compared:
            if seen != right_value:
                yield _line(where, f"has {what} {seen!r}, {right_value!r} is due")
        if one.amount_micro != right_one.amount_micro:
            yield Problem(
                kind=Kind.AMOUNT_DIFFERS,
                where=where,
                message=f"{_money(one.amount_micro)} on the invoice, {_money(right_one.amount_micro)} by the prices",
            )
    balances = () if invoice.balances is UNSET else invoice.balances
    seen_rests = [(one.grant, one.before_micro, one.used_micro) for one in balances]
    right_rests = [(one.grant, one.before_micro, one.used_micro) for one in due.charged.balances]
    if seen_rests != right_rests:
        yield _line(invoice.id, f"has balances of credit {seen_rests}, {right_rests} are due")


def check_grants(
    invoice: InvoiceDocument,
    prices: AssignedPrices,
    earlier: Sequence[PricesDocument],
    previous: InvoiceDocument | None,
    returned: Mapping[str, int],
) -> Iterator[Problem]:
    """No grant that was given is changed or taken away while something is left of it. `earlier`: the chain's prices
    before those of the invoice.
    """
    now = {grant.id: grant for grant in prices.terms.credits}
    left = left_by(previous).rests
    known: dict[str, CreditGrant] = {}
    for grant in grants_of(earlier):
        if known.setdefault(grant.id, grant) != grant:
            yield _price(grant.id, "the grant of credit is two in the billing chain")
    for name, grant in known.items():
        found = now.get(name)
        if found is not None and found != grant:
            yield _price(name, "the grant of credit is another one than the billing chain had before")
        rest = left.get(name, grant.amount_micro) + returned.get(name, 0)
        if found is None and rest > 0 and not is_expired(grant, invoice.period_start_ms):
            yield _price(name, f"{_money(rest)} of credit are left, and the prices no longer have the grant")


def check_coupons(
    invoice: InvoiceDocument, prices: AssignedPrices, earlier: Sequence[PricesDocument]
) -> Iterator[Problem]:
    """No discount that the tenant redeemed is changed, moved or taken away before it is over. `earlier`: the chain's
    prices before those of the invoice.
    """
    redeemed: dict[str, Discount] = {}
    for document in earlier:
        for discount in () if document.terms is UNSET else document.terms.discounts:
            if is_redeemed(discount) and redeemed.setdefault(discount.id, discount) != discount:
                yield _price(discount.id, "the discount of a coupon is two in the billing chain")
    now = [discount for discount in prices.terms.discounts if discount.id in redeemed]
    for discount in now:
        if redeemed[discount.id] != discount:
            yield _price(discount.id, "was redeemed as another discount than the prices have now")
    names = {discount.id for discount in now}
    due = [
        discount.id
        for discount in redeemed.values()
        if discount.id in names or not is_over(discount, invoice.period_start_ms)
    ]
    for name in due:
        if name not in names:
            yield _price(name, "was redeemed and is not over, and the prices no longer have the discount")
    if [discount.id for discount in now] != [name for name in due if name in names]:
        yield _price(", ".join(due), "are the discounts that were redeemed, in another order now")


def check_charged_credits(
    invoice: InvoiceDocument,
    prices: AssignedPrices,
    due: DueCharges,
    quantities: Mapping[str, int],
    credits: Sequence[CreditNoteDocument],
) -> Iterator[Problem]:
    """Each credit note of format 2 takes off the difference of two ratings of the invoice."""
    billed, amounts = dict(quantities), dict(due.amounts)
    period_ms = (invoice.period_start_ms, invoice.period_end_ms)
    for note in credits:
        lost = {
            "messages_in": sum(one.messages for one in note.ranges),
            "bytes_in": sum(one.bytes for one in note.ranges),
        }
        if any(lost[meter] > billed[meter] for meter in lost):
            yield _credit(note.id, "credits more than the invoice billed")
            return
        right = credit_charged(
            prices.book,
            due.terms,
            period_ms,
            due.rests,
            amounts,
            billed,
            lost,
            due.stated,
            open_ms=invoice.open_ms,
        )
        said_lines = [
            (line.id, line.meter, line.unit, line.unit_size, line.quantity, line.amount_micro)
            for line in note.lines
        ]
        right_lines = [
            (
                credit_line_id(note.id, line.meter, invoice.price_book_sha256),
                *(line.meter, line.unit, line.unit_size, line.quantity, line.amount_micro),
            )
            for line in right.lines
        ]
        changes = () if note.charges is UNSET else note.charges
        said_changes = [(one.kind, one.name, one.meter, one.amount_micro) for one in changes]
        right_changes = [(one.kind, one.name, one.meter, one.amount_micro) for one in right.changes]
        for said, wanted, what in (
            (note.format, invoice.format, "the format"),
            (said_lines, right_lines, "lines"),
            (said_changes, right_changes, "changes of charges"),
        ):
            if said != wanted:
                yield _credit(note.id, f"has {what} {said}, {wanted} are due")
        if note.total_micro != right.total_micro:
            yield _credit(note.id, f"credits {_money(note.total_micro)}, {_money(right.total_micro)} are due")
        for line in right.lines:
            billed[line.meter] -= line.quantity
            amounts[line.meter] -= line.amount_micro


def check_returns(notes: Sequence[CreditNoteDocument]) -> Iterator[Problem]:
    """No credit note takes credit from a grant."""
    for note in notes:
        for one in () if note.charges is UNSET else note.charges:
            if one.kind == "credit" and one.amount_micro < 0:
                yield _credit(note.id, f"takes {_money(-one.amount_micro)} of the grant of credit {one.name}")


def returned_by(notes: Sequence[CreditNoteDocument]) -> dict[str, int]:
    """What credit notes give back to grants."""
    back: dict[str, int] = {}
    for note in notes:
        for one in () if note.charges is UNSET else note.charges:
            if one.kind == "credit":
                back[one.name] = back.get(one.name, 0) + one.amount_micro
    return back


def left_by(previous: InvoiceDocument | None) -> LeftCredit:
    """What the invoice left of each grant."""
    if previous is None:
        return NOTHING_BEFORE
    balances = () if previous.balances is UNSET else previous.balances
    return LeftCredit(
        period_start_ms=previous.period_start_ms,
        rests={one.grant: one.before_micro - one.used_micro for one in balances},
    )


def grants_of(prices: Iterable[PricesDocument]) -> list[CreditGrant]:
    """Every grant that these prices have, in their order; one that stays is in each."""
    return [grant for one in prices if one.terms is not UNSET for grant in one.terms.credits]


def _named(kind: str, name: str, meter: str) -> str:
    return f"{kind} {name} of {meter}" if meter else f"{kind} {name}"


def _money(amount_micro: int) -> str:
    return grouped_amount(amount_micro, 2)


def _line(where: str, message: str) -> Problem:
    return Problem(kind=Kind.LINE_DIFFERS, where=where, message=message)


def _price(where: str, message: str) -> Problem:
    return Problem(kind=Kind.PRICE_DIFFERS, where=where, message=message)


def _credit(where: str, message: str) -> Problem:
    return Problem(kind=Kind.CREDIT_DIFFERS, where=where, message=message)
