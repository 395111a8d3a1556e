"""Who pays by bank reads the same reference wherever they look."""

import pytest
from django.test import Client

from billing import invoice_pdf, paper
from billing.models import Invoice
from control_plane.mail.models import Mail
from payments import printing
from tenants.models import Membership
from tests.control_plane.billing.world import World
from tests.control_plane.payments.paying import asked, issued, worker
from tests.control_plane.payments.test_former_payers import page as closed_invoices
from tests.control_plane.payments.test_former_payers import purged
from tests.control_plane.payments.test_mailing import bank as bank
from tests.control_plane.world import call, make_person


def test_no_place_names_a_reference_where_the_seller_has_no_bank_account(world: World) -> None:
    invoice = issued(world, "acme")
    person, token = make_person("owner@acme.example")
    Membership.objects.create(tenant=invoice.tenant, person=person, role="owner")
    worker(3)
    assert "reference" not in Mail.objects.get().text
    assert "Reference" not in invoice_pdf.invoice_page(invoice, printing.issuer(), printing.standing(invoice))
    shown = call("GET", f"/v1/invoices/{invoice.public_id}/payment", token=token)
    assert shown.body["state"] == "open" and shown.body["payment_reference"] == ""
    client = Client()
    client.cookies["penstock"] = token
    said = "Operators note here what came by bank."
    page = client.get(f"/t/acme/invoices/{invoice.public_id}").content.decode()
    assert said in page and "with the reference" not in page
    purged(invoice.tenant)
    page = closed_invoices(token)
    assert said in page and "with the reference" not in page


@pytest.mark.parametrize("numbered", [True, False])
def test_every_place_names_the_issuers_number_or_the_id_of_an_invoice_from_before_them(
    numbered: bool, world: World, bank: None
) -> None:
    invoice = issued(world, "acme")
    if not numbered:
        Invoice.objects.filter(pk=invoice.pk).update(issuer_number="")
        invoice.refresh_from_db()
    person, token = make_person("owner@acme.example")
    Membership.objects.create(tenant=invoice.tenant, person=person, role="owner")
    worker(3)
    reference = "INV-000001" if numbered else invoice.public_id
    assert f"with the reference {reference}." in " ".join(Mail.objects.get().text.split())
    issuer = paper.Issuer(name="Sluice Ltd.", lines=(), bank_lines=("IBAN IE12 3456",))
    standing = invoice_pdf.Standing(state="open", open_micro=asked(invoice).open_micro)
    assert f"<p>Reference {reference}</p>" in invoice_pdf.invoice_page(invoice, issuer, standing)
    shown = call("GET", f"/v1/invoices/{invoice.public_id}/payment", token=token)
    assert shown.body["payment_reference"] == reference
    client = Client()
    client.cookies["penstock"] = token
    said = f'Pay by bank with the reference <span class="id">{reference}</span>;'
    assert said in client.get(f"/t/acme/invoices/{invoice.public_id}").content.decode()
    purged(invoice.tenant)
    assert said in closed_invoices(token)
