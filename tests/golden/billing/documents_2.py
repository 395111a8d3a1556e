"""The documents of format 2, with every field away from its default."""

from msgspec.structs import replace

from penstock.contract.documents import (
    BilledCharge,
    CreditBalance,
    CreditedCharge,
    CreditGrant,
    Discount,
    MonthlyFee,
    Tax,
    TaxRate,
    Terms,
)

from .documents import BEGIN_MS, CREDIT_NOTE, END_MS, INVOICE, PRICES

INVOICE_2 = replace(
    INVOICE,
    format=2,
    charges=(
        BilledCharge(
            id="ic_1",
            kind="discount",
            name="di_1",
            meter="messages_in",
            base_micro=180_000,
            basis_points=1_000,
            amount_micro=-20_000,
            reason="größer",
        ),
    ),
    balances=(CreditBalance(grant="cr_1", before_micro=9, used_micro=1),),
    total_micro=160_000,
)
CREDIT_NOTE_2 = replace(
    CREDIT_NOTE,
    format=2,
    charges=(CreditedCharge(kind="tax", name="DE", meter="", amount_micro=-3),),
)
PRICES_2 = replace(
    PRICES,
    format=2,
    price_book=replace(
        PRICES.price_book,
        format=2,
        meters=tuple(replace(price, model="volume") for price in PRICES.price_book.meters),
        fees=(MonthlyFee(fee="support", month="50.000000"),),
        minimum_month="100.000000",
    ),
    terms=Terms(
        discounts=(
            Discount(
                id="di_1",
                basis_points=0,
                amount_micro=5,
                currency="EUR",
                meters=("bytes_in",),
                from_ms=BEGIN_MS,
                until_ms=END_MS,
                reason="coupon",
            ),
        ),
        credits=(
            CreditGrant(
                id="cr_1",
                amount_micro=10,
                currency="EUR",
                granted_ms=BEGIN_MS,
                expires_ms=END_MS,
                reason="prepaid",
            ),
        ),
        tax=Tax(
            country="DE",
            region="BY",
            reverse_charge=True,
            reason="Art. 196",
            rates=(TaxRate(from_ms=BEGIN_MS, basis_points=1_900),),
        ),
    ),
)
