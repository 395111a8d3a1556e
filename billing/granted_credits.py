"""Grants credit notes: an operator takes amounts off an issued invoice, with a reason, whatever was metered.

Lost messages are credited by rule (`billing.credit_actions`). This is for what no rule knows: goodwill, a wrong
price, a fee that should not have been asked for. It reaches the receivable, Stripe and FOCUS as any credit note does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from msgspec import UNSET

from billing import chain_actions, issuer_numbers, voids
from billing.models import (
    REASON_LENGTH_MAX,
    REFERENCE_LENGTH_MAX,
    BillingEntry,
    CreditNote,
    CreditNoteLine,
    Invoice,
)
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from penstock.contract import documents
from penstock.contract.errors import AlreadyExists, InvalidRequest
from penstock.rules import granted_credits as rules
from penstock.rules import rating
from penstock.rules.issuer_numbers import CREDIT_NOTES
from penstock.rules.names import check_printable_name
from penstock.rules.rating import grouped_amount
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class PartAsked:
    """A line or a charge of the invoice that is credited."""

    id: str
    """Its id, its meter, or the name of its fee."""
    amount_micro: int | None = None
    """Before tax; None: all that is left of it."""


def grant_credit(
    actor: Actor,
    invoice: Invoice,
    *,
    reference: str,
    reason: str,
    parts: Sequence[PartAsked] = (),
    amount_micro: int | None = None,
) -> CreditNote:
    """Credit these parts, before tax, which is added; or an amount with tax off the whole; else all that is left.

    The same `reference` for the invoice again gives the same credit note. Raises `AlreadyExists` where it was another
    one, and `InvalidRequest` where the invoice is a draft, void or too old to have a document, and where more is asked
    for than is left.
    """
    check_printable_name("reason", reason, REASON_LENGTH_MAX)
    check_printable_name("reference", reference, REFERENCE_LENGTH_MAX)
    if parts and amount_micro is not None:
        raise InvalidRequest("amount: either parts of the invoice or an amount of the whole, not both")
    asked: dict[str, object] = {
        "parts": [[one.id, one.amount_micro] for one in parts],
        "amount_micro": amount_micro,
    }
    with transaction.atomic():
        tenant = Tenant.objects.select_for_update(no_key=True).get(pk=invoice.tenant_id)
        row = Invoice.objects.select_related("price_book", "cut").get(pk=invoice.pk)
        before = CreditNote.objects.filter(invoice=row, reference=reference).first()
        if before is not None:
            if (before.asked, before.reason) != (asked, reason):
                raise AlreadyExists(
                    f"reference: {reference[:60]} is of another credit note, no. {before.number}"
                )
            return before
        credited = _credited(row, parts, amount_micro, reason)
        return _issue(actor, tenant, row, credited, reference=reference, reason=reason, asked=asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Credited:
    entry: BillingEntry
    invoice: documents.InvoiceDocument
    lines: tuple[tuple[documents.BilledLine, int], ...]
    changes: tuple[documents.CreditedCharge, ...]
    granted: documents.GrantedCredit
    total_micro: int


def _credited(
    invoice: Invoice, parts: Sequence[PartAsked], amount_micro: int | None, reason: str
) -> _Credited:
    entry = _entry(invoice)
    issued = documents.read_document(entry.document, documents.InvoiceDocument, "invoice")
    notes = _notes(invoice)
    rest = rules.rest_of(issued, notes)
    lines, changes, net = [], [], 0
    for part in parts:
        line = next((one for one in issued.lines if part.id in (one.id, one.meter)), None)
        charge = next((one for one in _chargeable(issued) if part.id in (one.id, one.name)), None)
        if line is not None:
            left = rules.left_of_line(line, issued, notes)
        elif charge is not None:
            left = rules.left_of_charge(charge.kind, charge.name, issued, notes)
        else:
            raise InvalidRequest(
                f"{part.id[:64]!r}: no line, fee or minimum of {invoice.public_id} has this id or name"
            )
        taken = min(left, rest.left_net_micro) if part.amount_micro is None else part.amount_micro
        _check(part.id, taken, left, issued)
        net += taken
        if line is not None:
            lines.append((line, taken))
        elif charge is not None:
            changes.append(
                documents.CreditedCharge(
                    kind=charge.kind, name=charge.name, meter=charge.meter, amount_micro=-taken
                )
            )
    names = [line.id for line, _ in lines] + [f"{one.kind} {one.name}" for one in changes]
    if len(set(names)) < len(names):
        raise InvalidRequest("parts: each part of the invoice once")
    whole = 0
    if parts:
        _check(f"{invoice.public_id} before tax", net, rest.left_net_micro, issued)
        tax = rest.tax_upon(net)
    else:
        gross = rest.left_micro if amount_micro is None else amount_micro
        _check(invoice.public_id, gross, rest.left_micro, issued)
        tax = rest.tax_within(gross)
        whole = gross - tax
    if tax:
        named = next(one.name for one in _charges(issued) if one.kind == "tax")
        changes.append(documents.CreditedCharge(kind="tax", name=named, meter="", amount_micro=-tax))
    total = net + whole + tax
    _check(invoice.public_id, total, rest.left_micro, issued)
    return _Credited(
        entry=entry,
        invoice=issued,
        lines=tuple(lines),
        changes=tuple(changes),
        granted=documents.GrantedCredit(reason=reason, amount_micro=whole),
        total_micro=total,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What of an invoice can be credited by itself. Amounts are before tax."""

    id: str
    named: str
    left_micro: int


def creditable(invoice: Invoice) -> list[Part]:
    """Lines, fees and the minimum of an issued invoice of which something is left; none where it has no document."""
    entry = _document_of(invoice)
    if entry is None:
        return []
    issued = documents.read_document(entry.document, documents.InvoiceDocument, "invoice")
    notes = _notes(invoice)
    # An amount of the whole was of no part, and bounds them all.
    most = rules.rest_of(issued, notes).left_net_micro
    parts = [
        Part(
            id=line.id,
            named=line.meter.replace("_", " "),
            left_micro=min(most, rules.left_of_line(line, issued, notes)),
        )
        for line in issued.lines
    ]
    parts += [
        Part(
            id=charge.id,
            named=charge.kind if charge.name == charge.kind else f"{charge.kind} {charge.name}",
            left_micro=min(most, rules.left_of_charge(charge.kind, charge.name, issued, notes)),
        )
        for charge in _chargeable(issued)
    ]
    return [part for part in parts if part.left_micro]


def left_micro(invoice: Invoice) -> int:
    """What is left to be credited of it, with tax; 0 where it has no document."""
    entry = _document_of(invoice)
    if entry is None:
        return 0
    issued = documents.read_document(entry.document, documents.InvoiceDocument, "invoice")
    return rules.rest_of(issued, _notes(invoice)).left_micro


def _document_of(invoice: Invoice) -> BillingEntry | None:
    return BillingEntry.objects.filter(
        tenant=invoice.tenant, kind=BillingEntry.Kind.INVOICE, object_id=invoice.public_id
    ).first()


def _entry(invoice: Invoice) -> BillingEntry:
    if invoice.status != Invoice.Status.ISSUED:
        raise InvalidRequest(f"{invoice.public_id}: an issued invoice required, this one is a draft")
    if voids.void_at(invoice) is not None:
        raise InvalidRequest(f"{invoice.public_id}: it is void, so nothing of it is to be credited")
    entry = _document_of(invoice)
    if entry is None:
        raise InvalidRequest(
            f"{invoice.public_id}: it is from before there were documents; make it void if it is unpaid"
        )
    return entry


def _notes(invoice: Invoice) -> list[documents.CreditNoteDocument]:
    names = CreditNote.objects.filter(invoice=invoice).values("public_id")
    entries = BillingEntry.objects.filter(
        tenant=invoice.tenant, kind=BillingEntry.Kind.CREDIT_NOTE, object_id__in=names
    )
    return [
        documents.read_document(one.document, documents.CreditNoteDocument, "credit note")
        for one in entries.order_by("sequence")
    ]


def _charges(issued: documents.InvoiceDocument) -> Sequence[documents.BilledCharge]:
    return () if issued.charges is UNSET else issued.charges


def _chargeable(issued: documents.InvoiceDocument) -> list[documents.BilledCharge]:
    return [one for one in _charges(issued) if one.kind in rules.CREDITABLE]


def _check(name: str, amount_micro: int, left_micro: int, issued: documents.InvoiceDocument) -> None:
    """Raises `InvalidRequest` for nothing, for a part of the smallest unit, and for more than is left."""

    def shown(micro: int) -> str:
        return f"{grouped_amount(micro, issued.minor_digits)} {issued.currency}"

    if amount_micro <= 0:
        raise InvalidRequest(f"{name}: more than 0 required, and {shown(left_micro)} are left to be credited")
    if amount_micro % rules.coin_of(issued.minor_digits):
        raise InvalidRequest(f"{name}: an amount of {issued.minor_digits} places required")
    if amount_micro > left_micro:
        raise InvalidRequest(
            f"{name}: {shown(amount_micro)} cannot be credited, {shown(left_micro)} are left of it"
        )


def _issue(
    actor: Actor,
    tenant: Tenant,
    invoice: Invoice,
    credited: _Credited,
    *,
    reference: str,
    reason: str,
    asked: dict[str, object],
) -> CreditNote:
    at = chain_actions.next_moment(tenant)
    note = CreditNote.objects.create(
        tenant=tenant,
        number=CreditNote.objects.filter(tenant=tenant).count() + 1,
        issuer_number=issuer_numbers.next_number(CREDIT_NOTES),
        invoice=invoice,
        total_micro=credited.total_micro,
        charges=[documents.plain(one) for one in credited.changes],
        reason=reason,
        reference=reference,
        asked=asked,
        granted_micro=credited.granted.amount_micro,
        issued_at=at,
    )
    sha256 = credited.invoice.price_book_sha256
    lines = tuple(
        documents.CreditedLine(
            id=rating.credit_line_id(note.public_id, line.meter, sha256),
            meter=line.meter,
            unit=line.unit,
            unit_size=line.unit_size,
            quantity=0,
            amount_micro=amount,
        )
        for line, amount in credited.lines
    )
    CreditNoteLine.objects.bulk_create(
        CreditNoteLine(
            credit_note=note,
            line_id=line.id,
            position=position,
            meter=line.meter,
            unit=line.unit,
            unit_size=line.unit_size,
            quantity=0,
            amount_micro=line.amount_micro,
            price_book_sha256=sha256,
        )
        for position, line in enumerate(lines, 1)
    )
    document = documents.CreditNoteDocument(
        format=credited.invoice.format,
        charges=UNSET if credited.invoice.format == 1 else credited.changes,
        kind="credit_note",
        id=note.public_id,
        number=note.number,
        tenant=tenant.public_id,
        issued_at_ms=time_ms(at),
        invoice=documents.CreditedInvoice(
            id=credited.entry.object_id, document_sha256=credited.entry.document_sha256
        ),
        cut_id=credited.invoice.cut.id,
        currency=credited.invoice.currency,
        price_book_sha256=sha256,
        lines=lines,
        ranges=(),
        total_micro=credited.total_micro,
        granted=credited.granted,
        issuer_number=note.issuer_number,
    )
    entry = chain_actions.append(tenant, note.public_id, document, at)
    audit.record(
        actor,
        tenant=tenant.public_id,
        action="credit_note.grant",
        object_id=note.public_id,
        after={
            "invoice": invoice.public_id,
            "total_micro": credited.total_micro,
            "reason": reason,
            "reference": reference,
            **chain_actions.bound(entry),
        },
    )
    return note
