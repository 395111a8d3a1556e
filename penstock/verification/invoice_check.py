"""The invoice's money: lines and total against what it counts and the assigned prices, credit notes, and what REST
shows of it beside its document. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from reprlib import Repr
from typing import Any

from msgspec import UNSET

from penstock.contract.documents import CreditNoteDocument, InvoiceDocument, document_sha256, plain
from penstock.contract.errors import InvalidRequest
from penstock.rules.rating import PriceBook, RatedLine, credit, credit_line_id, grouped_amount, line_id, rate
from penstock.rules.timestamps import moment_of
from penstock.verification import granted_check
from penstock.verification.claims import PartitionClaim
from penstock.verification.commitments import ChainPoint
from penstock.verification.findings import Kind, LineFinding, PartitionFinding, Problem, Report, Void

MESSAGES = "messages_in"
BYTES = "bytes_in"
_SHORT = Repr()
"""Shows foreign values in a message, however long or deep they are."""
_SHORT.maxlevel = 2
_SHORT.maxstring = _SHORT.maxother = 120


def check_lines(invoice: InvoiceDocument, book: PriceBook, due_total_micro: int) -> Iterator[Problem]:
    """Each line is the sum of what the invoice counts, at the prices; the total is the sum of lines and charges."""
    rated = rate(book, billed_quantities(invoice))
    if [line.meter for line in invoice.lines] != [line.meter for line in rated.lines]:
        said = ", ".join(line.meter for line in invoice.lines)
        wanted = ", ".join(line.meter for line in rated.lines)
        message = f"has lines of {said or 'nothing'}; {wanted} are due, in this order, once each"
        yield Problem(kind=Kind.LINE_DIFFERS, where=invoice.id, message=message)
    due_lines = {line.meter: line for line in rated.lines}
    for billed in invoice.lines:
        line = due_lines.get(billed.meter)
        if line is None:
            continue
        where = f"line {billed.meter}"
        due_id = line_id(
            invoice.id,
            line.meter,
            invoice.price_book_sha256,
            invoice.period_start_ms,
            invoice.period_end_ms,
        )
        parts = [(part.quantity, part.unit_price) for part in billed.parts]
        compared: tuple[tuple[object, object, str], ...] = (
            (billed.id, due_id, "the id"),
            (billed.unit, line.unit, "the unit"),
            (billed.unit_size, line.unit_size, "the unit size"),
            (parts, _parts(line), "the parts"),
        )
        for seen, right, what in compared:
            if seen != right:
                message = f"has {what} {seen}, {right} is due"
                yield Problem(kind=Kind.LINE_DIFFERS, where=where, message=message)
        if billed.quantity != line.quantity:
            yield Problem(
                kind=Kind.LINE_DIFFERS,
                where=where,
                message=f"{billed.quantity} on the line, {line.quantity} is the sum of what it counts",
            )
        if billed.amount_micro != line.amount_micro:
            yield Problem(
                kind=Kind.AMOUNT_DIFFERS,
                where=where,
                message=f"{money(billed.amount_micro)} on the invoice, {money(line.amount_micro)} by the prices",
            )
    charges = () if invoice.charges is UNSET else invoice.charges
    summed = sum(line.amount_micro for line in invoice.lines) + sum(one.amount_micro for one in charges)
    if invoice.total_micro != summed:
        yield Problem(
            kind=Kind.TOTAL_DIFFERS,
            where=invoice.id,
            message=f"the total is {money(invoice.total_micro)}, its lines add up to {money(summed)}",
        )
    elif invoice.total_micro != due_total_micro:
        yield Problem(
            kind=Kind.TOTAL_DIFFERS,
            where=invoice.id,
            message=f"the total is {money(invoice.total_micro)}, {money(due_total_micro)} by the prices",
        )


def billed_quantities(invoice: InvoiceDocument) -> dict[str, int]:
    """By meter, what the invoice counts in all its partitions."""
    days = [day for part in invoice.partitions for day in part.days]
    quantities = {MESSAGES: sum(day.messages for day in days), BYTES: sum(day.bytes for day in days)}
    for row in () if invoice.measured is UNSET else invoice.measured:
        quantities[row.meter] = quantities.get(row.meter, 0) + row.quantity
    return quantities


def _parts(line: RatedLine) -> list[tuple[int, str]]:
    return [(part.quantity, part.unit_price) for part in line.parts]


def check_credits(
    invoice: InvoiceDocument, book: PriceBook, credits: Sequence[CreditNoteDocument]
) -> Iterator[Problem]:
    """Each credit note takes off what its lost ranges cost by the invoice's prices, after those before it."""
    left = billed_quantities(invoice)
    for note in credits:
        lost = {
            MESSAGES: sum(lost.messages for lost in note.ranges),
            BYTES: sum(lost.bytes for lost in note.ranges),
        }
        if any(lost[meter] > left[meter] for meter in lost):
            yield Problem(
                kind=Kind.CREDIT_DIFFERS, where=note.id, message="credits more than the invoice billed"
            )
            return
        due = credit(book, left, lost)
        if note.format != invoice.format:
            yield Problem(
                kind=Kind.CREDIT_DIFFERS,
                where=note.id,
                message=f"has format {note.format}, its invoice {invoice.format}",
            )
        said = [
            (line.id, line.meter, line.unit, line.unit_size, line.quantity, line.amount_micro)
            for line in note.lines
        ]
        wanted = [
            (
                credit_line_id(note.id, line.meter, invoice.price_book_sha256),
                line.meter,
                line.unit,
                line.unit_size,
                line.quantity,
                line.amount_micro,
            )
            for line in due.lines
        ]
        if said != wanted or note.total_micro != due.total_micro:
            yield Problem(
                kind=Kind.CREDIT_DIFFERS,
                where=note.id,
                message=f"credits {money(note.total_micro)} in lines {[row[1:] for row in said]}; "
                f"{money(due.total_micro)} in {[row[1:] for row in wanted]} are due",
            )
        left = {meter: left[meter] - lost[meter] for meter in left}


def check_shown(
    shown: Any, invoice: InvoiceDocument, credits: Sequence[CreditNoteDocument]
) -> Iterator[Problem]:
    """What `GET /v1/invoices/ID` says is what stands in the documents, field by field. Raises `InvalidRequest`."""
    if not isinstance(shown, Mapping):
        raise InvalidRequest(f"{invoice.id}: the service shows no object")
    due: dict[str, Any] = {
        "id": invoice.id,
        "number": invoice.number,
        "tenant": invoice.tenant,
        "status": "issued",
        "currency": invoice.currency,
        "minor_digits": invoice.minor_digits,
        "period_start": moment_of(invoice.period_start_ms),
        "period_end": moment_of(invoice.period_end_ms),
        "issued_at": moment_of(invoice.issued_at_ms),
        "cut": invoice.cut.id,
        "total_micro": invoice.total_micro,
        "gaps": [],
        "lines": [
            {
                "id": line.id,
                "meter": line.meter,
                "unit": line.unit,
                "unit_size": line.unit_size,
                "quantity": line.quantity,
                "amount_micro": line.amount_micro,
                "parts": [{"quantity": part.quantity, "unit_price": part.unit_price} for part in line.parts],
                "price_book_sha256": invoice.price_book_sha256,
            }
            for line in invoice.lines
        ],
        "credit_notes": [
            {"id": note.id, "number": note.number, "total_micro": note.total_micro} for note in credits
        ],
        "credited_micro": sum(note.total_micro for note in credits),
    }
    if invoice.charges is not UNSET:
        due["charges"] = [plain(one) for one in invoice.charges]
    elif "charges" in shown:
        due["charges"] = []
    # A service of before there were such numbers shows none.
    if invoice.issuer_number is not UNSET or "issuer_number" in shown:
        due["issuer_number"] = "" if invoice.issuer_number is UNSET else invoice.issuer_number
    # A service of the release before does not say whether it is void.
    void_at = shown.get("void_at")
    if void_at is not None and _moment(void_at) is None:
        yield Problem(
            kind=Kind.DOCUMENT_ALTERED,
            where=invoice.id,
            message=f"the service shows void_at {_SHORT.repr(void_at)}, which is no time",
        )
    for name, value in due.items():
        said = shown.get(name)
        if isinstance(value, datetime):
            differing = None if _moment(said) == value else (name, said, value.isoformat())
        else:
            differing = _differing(name, said, value)
        if differing is not None:
            field, seen, right = differing
            yield Problem(
                kind=Kind.DOCUMENT_ALTERED,
                where=invoice.id,
                message=f"the service shows {field} {_SHORT.repr(seen)}, {_SHORT.repr(right)} is due by its documents",
            )


def void_of(
    shown: Mapping[str, Any], invoice: InvoiceDocument, credits: Sequence[CreditNoteDocument]
) -> Void | None:
    """Whether and why nothing of the invoice is to be paid; `check_shown` has looked at `shown`."""
    since = _moment(shown.get("void_at"))
    if since is None:
        return None
    given_back = sum(note.total_micro for note in credits) >= invoice.total_micro
    return Void(
        at=f"{since:%Y-%m-%d %H:%M:%S}Z",
        credit_notes=tuple(note.id for note in credits) if given_back else (),
    )


def _differing(field: str, said: Any, due: Any) -> tuple[str, Any, Any] | None:
    """The first field below `field` where two JSON values differ, with both; None if they are the same.

    Types count: to Python 25.0 is 25 and true is 1, in a document neither is.
    """
    if type(said) is not type(due):
        return field, said, due
    below: Sequence[tuple[str, Any, Any]] = ()
    if isinstance(due, dict):
        if said.keys() != due.keys():
            return field, said, due
        below = [(name, said[name], due[name]) for name in due]
    elif isinstance(due, list):
        if len(said) != len(due):
            return field, said, due
        below = [(str(index), one, other) for index, (one, other) in enumerate(zip(said, due, strict=True))]
    elif said != due:
        return field, said, due
    found = (_differing(f"{field}.{name}", one, other) for name, one, other in below)
    return next((differing for differing in found if differing is not None), None)


def _moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        return None if moment is None or moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None  # no time, or one that in UTC is before the year 1 or after 9999


def make_report(
    invoice: InvoiceDocument,
    book: PriceBook,
    credits: Sequence[CreditNoteDocument],
    claims: Sequence[PartitionClaim],
    findings: Sequence[PartitionFinding],
    problems: Sequence[Problem],
    *,
    due_total_micro: int,
    head: ChainPoint,
    void: Void | None = None,
    receipts: Sequence[str] = (),
) -> Report:
    """Everything together. `problems` are those that no partition's finding holds."""
    unproven = {MESSAGES: 0, BYTES: 0}
    counted = {MESSAGES: 0, BYTES: 0}
    lost = {
        MESSAGES: sum(finding.lost_messages for finding in findings),
        BYTES: sum(finding.lost_bytes for finding in findings),
    }
    for claim, finding in zip(claims, findings, strict=True):
        known = (finding.messages + finding.lost_messages, finding.bytes + finding.lost_bytes)
        untold = any(problem.kind is Kind.UNPROVEN for problem in finding.problems) and known == (0, 0)
        for meter, billed, found in (
            (MESSAGES, claim.messages, known[0]),
            (BYTES, claim.bytes, known[1]),
        ):
            counted[meter] += 0 if untold else found
            unproven[meter] += billed if untold else 0
    for row in () if invoice.measured is UNSET else invoice.measured:
        unproven[row.meter] = unproven.get(row.meter, 0) + row.quantity
    rated = {line.meter: line for line in rate(book, billed_quantities(invoice)).lines}
    lines = []
    for billed_line in invoice.lines:
        due = rated.get(billed_line.meter)
        lines.append(
            LineFinding(
                meter=billed_line.meter,
                billed_quantity=billed_line.quantity,
                counted_quantity=counted.get(billed_line.meter, 0),
                unproven_quantity=unproven.get(billed_line.meter, 0),
                billed_amount_micro=billed_line.amount_micro,
                due_amount_micro=0 if due is None else due.amount_micro,
                credited_quantity=lost.get(billed_line.meter, 0),
            )
        )
    together = [*problems]
    for finding in findings:
        together.extend(finding.problems)
    return Report(
        invoice=invoice.id,
        number=invoice.number,
        document_sha256=document_sha256(invoice),
        tenant=invoice.tenant,
        currency=invoice.currency,
        minor_digits=invoice.minor_digits,
        period_start_ms=invoice.period_start_ms,
        period_end_ms=invoice.period_end_ms,
        cut=invoice.cut.id,
        price_book_sha256=book.sha256,
        billing_sequence=head.sequence,
        billing_hash=head.hash,
        partitions=tuple(findings),
        lines=tuple(lines),
        billed_total_micro=invoice.total_micro,
        due_total_micro=due_total_micro,
        credited_total_micro=sum(note.total_micro for note in credits),
        granted=tuple(granted_check.shown(invoice, credits)),
        receipts=tuple(receipts),
        problems=tuple(together),
        void=void,
    )


def money(amount_micro: int) -> str:
    """An amount in a message, also one that is no whole number of cents."""
    return grouped_amount(amount_micro, 2)
