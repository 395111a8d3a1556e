"""What is left of an invoice to be credited: lines, fees, the minimum and tax; and the proof sees credits of more."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.documents import (
    CreditedCharge,
    CreditedInvoice,
    CreditedLine,
    CreditNoteDocument,
    GrantedCredit,
    InvoiceDocument,
    document_sha256,
    read_document,
)
from penstock.rules import granted_credits as rules
from penstock.rules.rating import credit_line_id
from penstock.verification.granted_check import check_granted
from tests.unit.verification.honest import Service
from tests.unit.verification.stored_log import BEGIN_MS, StoredLog
from tests.unit.verification.test_charges_altered import BOOK_2, TERMS

CENT = 10_000


def issued() -> InvoiceDocument:
    """With lines, a fee, a minimum and tax, and nothing that was prepaid."""
    log = StoredLog(0)
    log.write(9, BEGIN_MS + 1)
    service = Service(log, book=BOOK_2, terms=msgspec.structs.replace(TERMS, credits=()))
    service.cut()
    document = read_document(service.documents["inv_1"], InvoiceDocument, "invoice")
    assert {"fee", "minimum", "tax"} <= {charge.kind for charge in document.charges or ()}
    return document


INVOICE = issued()


def note(
    before: list[CreditNoteDocument],
    *,
    lines: dict[str, int] | None = None,
    charges: dict[tuple[str, str], int] | None = None,
    whole: int = 0,
    **changes: Any,
) -> CreditNoteDocument:
    """A granted credit note, with the tax that is due: of these parts before tax, or of an amount with tax."""
    rest, name = rules.rest_of(INVOICE, before), f"cn_{len(before) + 1}"
    net = sum((lines or {}).values()) + sum((charges or {}).values())
    tax = rest.tax_upon(net) if net else rest.tax_within(whole)
    billed = {line.meter: line for line in INVOICE.lines}
    credited = [
        CreditedCharge(kind=kind, name=named, meter="", amount_micro=-amount)  # type: ignore[arg-type]
        for (kind, named), amount in (charges or {}).items()
    ]
    if tax:
        credited.append(CreditedCharge(kind="tax", name="DE", meter="", amount_micro=-tax))
    made = CreditNoteDocument(
        format=2,
        kind="credit_note",
        id=name,
        number=len(before) + 1,
        tenant=INVOICE.tenant,
        issued_at_ms=INVOICE.issued_at_ms,
        invoice=CreditedInvoice(id=INVOICE.id, document_sha256=document_sha256(INVOICE)),
        cut_id=INVOICE.cut.id,
        currency=INVOICE.currency,
        price_book_sha256=INVOICE.price_book_sha256,
        lines=tuple(
            CreditedLine(
                id=credit_line_id(name, meter, INVOICE.price_book_sha256),
                meter=meter,
                unit=billed[meter].unit,
                unit_size=billed[meter].unit_size,
                quantity=0,
                amount_micro=amount,
            )
            for meter, amount in (lines or {}).items()
        ),
        ranges=(),
        total_micro=net + tax if net else whole,
        charges=tuple(credited),
        granted=GrantedCredit(reason="goodwill", amount_micro=0 if net else whole - tax),
    )
    return msgspec.structs.replace(made, **changes)


def left_of(kind: str, notes: list[CreditNoteDocument]) -> int:
    return rules.left_of_charge(kind, "base" if kind == "fee" else kind, INVOICE, notes)


def wrong(*notes: CreditNoteDocument) -> list[str]:
    return [problem.message for problem in check_granted(INVOICE, notes)]


@pytest.mark.parametrize("kind", ["fee", "minimum"])
def test_a_fee_and_the_minimum_are_credited_once(kind: str) -> None:
    name = "base" if kind == "fee" else kind
    whole = left_of(kind, [])
    first = note([], charges={(kind, name): whole - CENT})
    assert left_of(kind, [first]) == CENT
    again = note([first], charges={(kind, name): 2 * CENT})
    assert wrong(first) == [] and any("less was left of it" in one for one in wrong(first, again))


def test_a_line_is_credited_once() -> None:
    (line,) = (line for line in INVOICE.lines if line.meter == "messages_in")
    whole = rules.left_of_line(line, INVOICE, [])
    assert 0 < whole < line.amount_micro, "less its discounts"
    first = note([], lines={line.meter: whole})
    assert rules.left_of_line(line, INVOICE, [first]) == 0
    again = note([first], lines={line.meter: CENT})
    assert wrong(first) == [] and any("less was left of it" in one for one in wrong(first, again))
    twice = msgspec.structs.replace(first, lines=(first.lines[0], first.lines[0]))
    assert "credits a part of the invoice twice" in wrong(twice)
    other = msgspec.structs.replace(first.lines[0], id="cl_other")
    assert wrong(msgspec.structs.replace(first, lines=(other,)))


def test_the_same_charge_twice_in_a_note_is_named() -> None:
    half = note([], charges={("fee", "base"): CENT})
    charges = tuple(one for one in half.charges or () if one.kind == "fee")
    twice = note([], charges={("fee", "base"): 2 * CENT})
    taxes = tuple(one for one in twice.charges or () if one.kind == "tax")
    altered = msgspec.structs.replace(twice, charges=(*charges, *charges, *taxes))
    assert wrong(altered) == ["credits a part of the invoice twice"]


def test_no_more_than_the_whole_is_credited_over_all_notes() -> None:
    first = note([], whole=INVOICE.total_micro - CENT)
    over = note([first], whole=2 * CENT)
    assert wrong(first) == [] and any("of the invoice were left" in one for one in wrong(first, over))


@given(st.lists(st.tuples(st.sampled_from(["whole", "fee", "minimum", "line"]), st.integers(1, 900))))
def test_tax_is_credited_with_what_it_is_of_and_all_of_it_in_the_end(steps: list[tuple[str, int]]) -> None:
    notes: list[CreditNoteDocument] = []
    for what, cents in steps:
        rest = rules.rest_of(INVOICE, notes)
        assert 0 <= rest.left_tax_micro <= rest.left_micro
        if what == "whole" and cents * CENT <= rest.left_micro:
            notes.append(note(notes, whole=cents * CENT))
        elif what in ("fee", "minimum"):
            amount = min(cents * CENT, left_of(what, notes), rest.left_net_micro)
            if amount:
                notes.append(note(notes, charges={(what, "base" if what == "fee" else what): amount}))
        elif what == "line":
            (line,) = (line for line in INVOICE.lines if line.meter == "messages_in")
            amount = min(cents * CENT, rules.left_of_line(line, INVOICE, notes), rest.left_net_micro)
            if amount:
                notes.append(note(notes, lines={line.meter: amount}))
    left = rules.rest_of(INVOICE, notes).left_micro
    if left:
        notes.append(note(notes, whole=left))
    assert wrong(*notes) == []
    assert sum(one.total_micro for one in notes) == INVOICE.total_micro
    taxes = [-one.amount_micro for each in notes for one in each.charges or () if one.kind == "tax"]
    assert sum(taxes) == sum(one.amount_micro for one in INVOICE.charges or () if one.kind == "tax")
    assert all(each.granted and each.granted.amount_micro >= 0 for each in notes)
