"""An invoice that was taken back is no charge that a service level credits a part of."""

import dataclasses
from typing import Any

import msgspec

from billing import service_level_actions
from payments import actions as payment_actions
from penstock.contract.documents import (
    ChainEntry,
    CreditedInvoice,
    CreditNoteDocument,
    chain_hash,
    document_sha256,
)
from penstock.verification.findings import Verdict
from penstock.verification.service_level_check import check_service_level
from tests.control_plane.billing.test_service_levels import DUE, failing, invoiced, made, seen
from tests.control_plane.billing.world import TESTER, World


def credit_note(chain: list[dict[str, Any]], invoice: Any, less_micro: int) -> dict[str, Any]:
    """An entry of the chain: one that gives back what was to be paid, less so much."""
    document = CreditNoteDocument(
        format=invoice["format"],
        kind="credit_note",
        id="cn_1",
        number=1,
        tenant=invoice["tenant"],
        issued_at_ms=invoice["issued_at_ms"],
        invoice=CreditedInvoice(id=invoice["id"], document_sha256="0" * 64),
        cut_id="cut_1",
        currency=invoice["currency"],
        price_book_sha256="0" * 64,
        lines=(),
        ranges=(),
        total_micro=invoice["total_micro"] - less_micro,
    )
    entry = ChainEntry(
        sequence=len(chain) + 1,
        kind="credit_note",
        object_id=document.id,
        document_sha256=document_sha256(document),
        at_ms=document.issued_at_ms,
        hash="0" * 64,
    )
    followed = chain_hash(document.tenant, chain[-1]["hash"], entry)
    return {**msgspec.to_builtins(entry), "hash": followed, "document": msgspec.to_builtins(document)}


def test_an_invoice_that_was_taken_back_counts_nothing_and_a_report_of_before_stays_proven(
    world: World,
) -> None:
    acme = made(world)
    failing(world, acme)
    invoice = invoiced(world, acme)
    payment_actions.open_receivable(invoice)
    before, chain, invoices = seen(acme)
    payment_actions.void(TESTER, invoice, reason="sent to the wrong company")
    (void,) = [
        dataclasses.replace(one, void_at=before["document"]["month"] + "-30T12:00:00Z") for one in invoices
    ]
    stale = check_service_level(before, chain, [void])
    assert any("is void, and counts" in one for one in stale.wrong), "it is not posted, and counts it"
    (document,) = (one.document for one in invoices)
    for less_micro, text in ((1, "is void, and counts"), (0, "")):
        noted = [*chain, credit_note(chain, document, less_micro)]
        wrong = check_service_level(before, noted, [void]).wrong
        assert len(wrong) == bool(text) and all(text in one for one in wrong), (
            "what was given back as a whole, and not taken back, still charged what prepaid credit paid"
        )
    early = before | {"provisional": False}
    assert check_service_level(early, chain, [void]).wrong == ()
    assert service_level_actions.post_months(DUE) == 1
    shown, chain, invoices = seen(acme)
    assert (shown["document"]["format"], shown["basis_points"], shown["credit_micro"]) == (4, 10_000, 0)
    assert shown["document"]["invoices"][0]["charge_micro"] == invoice.total_micro
    assert shown["posted_at"].startswith("2026-10-03T")
    proof = check_service_level(shown, chain, [void])
    assert (proof.wrong, proof.missing, proof.verdict) == ((), (), Verdict.PROVEN)
    for at, text in (
        (None, "counts as void, and is not"),
        ("2099-01-01T00:00:00Z", "became it after the report"),
    ):
        lie = check_service_level(shown, chain, [dataclasses.replace(void, void_at=at)])
        assert [one for one in lie.wrong if text in one], lie
    assert check_service_level(shown, chain, [dataclasses.replace(void, void_at="soon")]).wrong
    (late,) = check_service_level({**shown, "posted_at": None}, chain, [void]).wrong
    assert "posted_at does not say" in late
