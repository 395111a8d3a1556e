"""Which prices of the billing chain an invoice must be rated with, and when they were noted. Pure."""

from collections.abc import Iterator

from penstock.contract.documents import InvoiceDocument, PricesDocument
from penstock.verification.charges_check import AssignedPrices
from penstock.verification.findings import Kind, Problem
from penstock.verification.history import BillingChain, ChainPosition

NOTED_LATE_MS = 3_600_000
"""New prices that brokers noted later than so long after a period's start may have been made up afterwards."""


def check_prices(
    invoice: InvoiceDocument, position: ChainPosition, chain: BillingChain, price_book_sha256: str | None
) -> tuple[AssignedPrices | None, list[Problem]]:
    """The prices that the invoice must be rated with, and what is wrong with them."""
    problems: list[Problem] = []
    due = _due_prices(invoice, position, chain)
    if due is None:
        message = "no prices were assigned for its period"
        return None, [Problem(kind=Kind.PRICE_DIFFERS, where=invoice.id, message=message)]
    problems += _check_order_of_prices(position, chain)
    prices = chain.prices[due]
    assigned = AssignedPrices.of(prices)
    book = assigned.book
    where = f"price book {book.name} {book.version}"
    kept = position.previous_cut
    if kept is None and position.previous is None:
        if due != 1:
            problems.append(
                _price(
                    where, f"was assigned by entry {due}; a tenant's first period has the prices of entry 1"
                )
            )
    elif kept is None or kept.billing is None:
        problems.append(
            Problem(
                kind=Kind.UNCOMMITTED,
                where=where,
                message="the brokers keep nothing of when it was assigned",
            )
        )
    elif due > kept.billing.sequence:
        problems.append(
            _price(
                where,
                f"was assigned by entry {due}, after the period had begun (brokers noted {kept.billing.sequence})",
            )
        )
    elif due > position.noted_before and kept.kept_ms > invoice.period_start_ms + NOTED_LATE_MS:
        late_h = (kept.kept_ms - invoice.period_start_ms) // 3_600_000
        problems.append(
            Problem(
                kind=Kind.UNCOMMITTED,
                where=where,
                message=f"is new with this period, and the brokers noted it {late_h} hours after the period had begun",
            )
        )
    for said, is_due, what in (
        (invoice.price_book_sha256, book.sha256, "prices of the hash"),
        (invoice.currency, book.currency, "the currency"),
        (invoice.minor_digits, book.minor_digits, "minor digits"),
    ):
        if said != is_due:
            problems.append(_price(where, f"the invoice names {what} {said}, {is_due} is assigned"))
    if price_book_sha256 is not None and book.sha256 != price_book_sha256:
        problems.append(_price(where, f"has the hash {book.sha256}, {price_book_sha256} was promised"))
    return assigned, problems


def _check_order_of_prices(position: ChainPosition, chain: BillingChain) -> Iterator[Problem]:
    """Prices hold from no earlier moment than those that were assigned before them: else a grant or a coupon could
    stand in the chain and never count.
    """
    newest_ms = 0
    for sequence, prices in sorted(chain.prices.items()):
        if sequence < position.entry.sequence and prices.effective_from_ms < newest_ms:
            yield _price(
                f"entry {sequence}", "its prices hold from before those that were assigned before them"
            )
        newest_ms = max(newest_ms, prices.effective_from_ms)


def earlier_prices(
    invoice: InvoiceDocument, position: ChainPosition, chain: BillingChain
) -> list[PricesDocument]:
    """Those that the chain assigned before the prices of the invoice."""
    due = _due_prices(invoice, position, chain)
    return [document for at, document in sorted(chain.prices.items()) if due is not None and at < due]


def _due_prices(invoice: InvoiceDocument, position: ChainPosition, chain: BillingChain) -> int | None:
    """Which entry of the chain has the prices of the invoice's period."""
    due: int | None = None
    for sequence, prices in chain.prices.items():
        if sequence > position.entry.sequence or prices.effective_from_ms > invoice.period_start_ms:
            continue
        if due is None or prices.effective_from_ms >= chain.prices[due].effective_from_ms:
            due = sequence
    return due


def _price(where: str, message: str) -> Problem:
    return Problem(kind=Kind.PRICE_DIFFERS, where=where, message=message)
