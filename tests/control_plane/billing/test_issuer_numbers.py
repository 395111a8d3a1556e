"""What the law wants on an invoice: numbers of the issuer without gaps, and who invoices whom, frozen as it was."""

import csv
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from django.db import transaction
from django.test import Client

from billing import granted_credits, invoice_pdf, issuer_numbers, paper, tax_actions
from billing.models import CreditNote, Invoice
from control_plane import config
from payments import actions as receivables
from penstock.contract import documents
from penstock.rules.issuer_numbers import INVOICES
from tenants.models import Membership
from tenants.roles import Standing
from tests.control_plane.billing.test_terms import document_of
from tests.control_plane.billing.world import TESTER, Part, World
from tests.control_plane.world import make_house, make_person

PROFILE = {
    "country": "DE", "state": "", "postal_code": "10115", "city": "Berlin", "line1": "Torstraße 1", "line2": "",
    "tax_id_type": "eu_vat", "tax_id": "DE123456789", "legal_name": "Acme Handels-GmbH",
}  # fmt: skip
ISSUER = {
    "issuer": "Sluice Ltd.", "issuer_lines": ("1 Quay Road", "Cork"), "issuer_tax_id": "IE1234567T",
    "bank_lines": ("IBAN IE12 3456",),
}  # fmt: skip


@pytest.fixture
def settings_of_invoices(monkeypatch: pytest.MonkeyPatch) -> None:
    present = config.current()
    made = msgspec.structs.replace(
        present,
        invoices=config.InvoicesConfig(**ISSUER),  # type: ignore[arg-type]
    )
    monkeypatch.setattr(config, "current", lambda: made)


def issued(world: World, name: str, parts: int = 1) -> list[Invoice]:
    """Invoices of a new tenant, one a period."""
    tenant, found = world.tenant(name), []
    for number in range(parts):
        part = Part(first=number * 1_000, end=(number + 1) * 1_000, size=10**6)
        cut = world.cut(tenant, [part], end=datetime.now(UTC) - timedelta(hours=9 - number))
        world.covered(cut, [part], **({"start_offset": part.first} if number else {}))
        world.spark()
        world.bill()
        found.append(world.invoice(cut))
    return found


def test_numbers_of_all_tenants_are_one_sequence_without_gaps(world: World) -> None:
    made = [*issued(world, "acme", 2), *issued(world, "other")]
    assert [one.issuer_number for one in made] == ["INV-000001", "INV-000002", "INV-000003"]
    assert [one.number for one in made] == [1, 2, 1], "within the tenant as before"
    assert [document_of(one).issuer_number for one in made] == [one.issuer_number for one in made]
    note = granted_credits.grant_credit(
        TESTER, made[2], reference="T-1", reason="goodwill", amount_micro=10_000
    )
    assert CreditNote.objects.get(pk=note.pk).issuer_number == "CN-000001"


def test_a_number_whose_document_is_rolled_back_is_given_again(world: World) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        issuer_numbers.next_number(INVOICES)
        _ = 1 // 0
    (made,) = issued(world, "acme")
    assert made.issuer_number == "INV-000001"


def test_a_draft_takes_no_number(world: World) -> None:
    tenant = world.tenant("acme")
    cut = world.cut(tenant, [Part(first=0, end=10, size=10)])
    world.bill()
    assert world.invoice(cut).issuer_number == ""
    (other,) = issued(world, "other")
    assert other.issuer_number == "INV-000001"


def test_seller_and_buyer_are_frozen_into_the_invoice_and_printed(
    world: World, settings_of_invoices: None
) -> None:
    tenant = world.tenant("acme")
    tax_actions.set_address(TESTER, tenant, now=datetime.now(UTC), **PROFILE)
    part = Part(first=0, end=1_000, size=10**6)
    cut = world.cut(tenant, [part])
    world.covered(cut, [part])
    world.spark()
    world.bill()
    invoice = world.invoice(cut)
    tax_actions.set_address(TESTER, tenant, now=datetime.now(UTC), **PROFILE | {"legal_name": "Other SE"})
    document = document_of(invoice)
    assert document.buyer == documents.Party(
        name="Acme Handels-GmbH", lines=("Torstraße 1", "10115 Berlin", "DE"), tax_id="DE123456789"
    )
    assert document.seller == documents.Party(
        name="Sluice Ltd.", lines=("1 Quay Road", "Cork"), tax_id="IE1234567T"
    )
    page = invoice_pdf.invoice_page(
        invoice,
        paper.Issuer(name="Renamed", lines=(), bank_lines=("IBAN IE12 3456",)),
        invoice_pdf.Standing(state="past due", open_micro=1_000_000),
    )
    for text in ("INV-000001", "Acme Handels-GmbH", "10115 Berlin", "DE123456789", "Sluice Ltd.", "1 Quay Road",
                 "IE1234567T", "IBAN IE12 3456", "past due", "Reference INV-000001"):  # fmt: skip
        assert text in page, text
    assert "Renamed" not in page and "Other SE" not in page
    paid = invoice_pdf.invoice_page(
        invoice,
        paper.Issuer(name="", lines=(), bank_lines=("IBAN IE12 3456",)),
        invoice_pdf.Standing(state="paid"),
    )
    assert "IBAN" not in paid


def test_a_purge_forgets_the_profile_and_issued_invoices_keep_the_buyer(world: World) -> None:
    tenant = world.tenant("acme")
    tax_actions.set_address(TESTER, tenant, now=datetime.now(UTC), **PROFILE)
    part = Part(first=0, end=1_000, size=10**6)
    cut = world.cut(tenant, [part])
    world.covered(cut, [part])
    world.spark()
    world.bill()
    tax_actions.forget_address(TESTER, tenant)
    assert tax_actions.address_of(tenant) is None
    buyer = document_of(world.invoice(cut)).buyer
    assert isinstance(buyer, documents.Party) and buyer.name == "Acme Handels-GmbH"


@pytest.mark.parametrize("email", ["nobody", "a@b, c@d", "a b@c"])
def test_an_address_that_takes_no_mail_is_refused(world: World, email: str) -> None:
    with pytest.raises(Exception, match="email: an address"):
        tax_actions.set_address(
            TESTER, world.tenant("acme"), now=datetime.now(UTC), **PROFILE | {"email": email}
        )


def test_an_operator_finds_what_was_paid_by_bank_by_the_number_on_the_invoice(world: World) -> None:
    first, second = issued(world, "acme", 2)
    for invoice in (first, second):
        receivables.open_receivable(invoice)
    client = Client()
    client.post("/operator/sign-in", {"token": make_house("other").credentials[Standing.OPERATOR]})
    page = client.get("/operator/receivables", {"show": "all", "q": " inv-000002 "}).content.decode()
    assert second.public_id in page and "INV-000002" in page and first.public_id not in page
    lines = client.get("/operator/receivables.csv", {"show": "all", "q": "INV-000001"}).content.decode()
    (row,) = csv.DictReader(lines.splitlines())
    assert (row["invoice"], row["issuer_number"]) == (first.public_id, "INV-000001")


def test_the_pages_of_an_invoice_say_its_number_and_that_of_its_credit_notes(world: World) -> None:
    (invoice,) = issued(world, "acme")
    granted_credits.grant_credit(TESTER, invoice, reference="T-1", reason="goodwill", amount_micro=10_000)
    person, token = make_person("owner@acme.example")
    Membership.objects.create(tenant=invoice.tenant, person=person, role="owner")
    client = Client()
    client.cookies["penstock"] = token
    page = client.get(f"/t/acme/invoices/{invoice.public_id}").content.decode()
    assert "INV-000001" in page and "CN-000001" in page
