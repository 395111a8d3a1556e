"""Credit notes that an operator grants, of an honest service."""

from collections.abc import Mapping

from penstock.contract.documents import CreditNoteDocument, InvoiceDocument, read_document
from penstock.rules.granted_credits import rest_of
from penstock.rules.rating import credit_line_id
from tests.unit.verification.honest import TENANT, Service, sha256_of, shown


def grant(
    service: Service,
    invoice: str,
    *,
    whole_micro: int = 0,
    lines: Mapping[str, int] | None = None,
    charges: Mapping[tuple[str, str], int] | None = None,
) -> None:
    """A credit note that an operator grants: an amount of the whole, with tax, or amounts of lines by meter and of
    charges by kind and name, before tax.
    """
    document = service.documents[invoice]
    issued = read_document(document, InvoiceDocument, invoice)
    notes = [item["document"] for item in service.chain_items if item["kind"] == "credit_note"]
    mine = [note for note in notes if note["invoice"]["id"] == invoice]
    rest = rest_of(issued, [read_document(note, CreditNoteDocument, invoice) for note in mine])
    lines, charges = lines or {}, charges or {}
    net = sum(lines.values()) + sum(charges.values())
    tax = rest.tax_upon(net) if net else rest.tax_within(whole_micro)
    changes = [
        {"kind": kind, "name": name, "meter": "", "amount_micro": -amount}
        for (kind, name), amount in charges.items()
    ]
    taxes = [one["name"] for one in document.get("charges", ()) if one["kind"] == "tax"]
    if tax:
        changes.append({"kind": "tax", "name": taxes[0], "meter": "", "amount_micro": -tax})
    name = f"cn_{len(notes) + 1}"
    billed = {line["meter"]: line for line in document["lines"]}
    note = {
        "format": document["format"],
        **({"charges": changes} if document["format"] == 2 else {}),
        "kind": "credit_note",
        "id": name,
        "number": len(notes) + 1,
        "issuer_number": f"CN-{5 * len(notes) + 5:06d}",
        "tenant": TENANT,
        "issued_at_ms": service.chain_items[-1]["at_ms"],
        "invoice": {"id": invoice, "document_sha256": sha256_of(document)},
        "cut_id": document["cut"]["id"],
        "currency": document["currency"],
        "price_book_sha256": document["price_book_sha256"],
        "lines": [
            {
                "id": credit_line_id(name, meter, document["price_book_sha256"]),
                "meter": meter,
                "unit": billed[meter]["unit"],
                "unit_size": billed[meter]["unit_size"],
                "quantity": 0,
                "amount_micro": amount,
            }
            for meter, amount in lines.items()
        ],
        "ranges": [],
        "total_micro": whole_micro or net + tax,
        "granted": {"reason": "late support", "amount_micro": whole_micro - tax if whole_micro else 0},
    }
    service.enter("credit_note", name, note, note["issued_at_ms"])
    service.shown[invoice] = shown(document, [*mine, note])
