"""The console's page of an invoice says whether it is paid, when it is due and where it can be paid."""

from collections.abc import Callable

from django.test import Client

from billing.models import Invoice
from demo.fake_stripe import FakeStripe
from payments import actions
from tenants.models import Membership
from tenants.roles import Role
from tests.control_plane.billing.world import TESTER, World
from tests.control_plane.payments.paying import asked, issued, worker
from tests.control_plane.world import make_person


def page_of(invoice: Invoice) -> Callable[..., str]:
    """Pages of an owner of the invoice's tenant."""
    person, token = make_person("owner@acme.example")
    Membership.objects.create(tenant=invoice.tenant, person=person, role=Role.OWNER)
    client = Client()
    client.cookies["penstock"] = token

    def page(path: str = f"/{invoice.public_id}") -> str:
        answer = client.get(f"/t/acme/invoices{path}")
        assert answer.status_code == 200, answer.status_code
        return answer.content.decode()

    return page


def test_a_void_invoice_is_void_in_the_list_and_on_its_page(world: World, fake: FakeStripe) -> None:
    invoice = issued(world, "acme")
    worker()
    page = page_of(invoice)
    assert "void" not in page("") and 'data-label="Open">48.00 USD' in page("")
    actions.void(TESTER, invoice, reason="sent to the wrong company")
    for path in ("", f"/{invoice.public_id}"):
        assert '<span class="badge">void</span>' in page(path) and '<span class="badge ok">' not in page(path)
    assert "taken back 20" in page()


def test_an_invoice_says_how_to_pay_it_with_stripe_and_without(world: World, fake: FakeStripe) -> None:
    invoice = issued(world, "acme")
    worker()
    page = page_of(invoice)

    shown = page()
    row = asked(invoice)
    assert f'href="{row.pay_url}"' in shown and "to be paid by" in shown
    actions.mark_paid(TESTER, invoice, reference="bank 1")
    shown = page()
    assert row.pay_url not in shown and '<span class="badge ok">paid</span>' in shown
