"""REST of payments, with Stripe and without, and the address that Stripe calls."""

import pytest
from django.test import Client

from demo.fake_stripe import FakeStripe
from payments.models import StripeEvent
from tenants.roles import Standing
from tests.control_plane.billing.world import World
from tests.control_plane.payments.paying import asked, event, issued, worker
from tests.control_plane.world import call, make_house


def test_without_stripe_everything_says_so_and_operators_note_payments(world: World) -> None:
    invoice = issued(world, "acme")
    worker()
    operator = make_house("other").credentials[Standing.OPERATOR]
    tenant = invoice.tenant
    path = f"/v1/billing/receivables/{invoice.public_id}"
    shown = call("GET", f"/v1/invoices/{invoice.public_id}/payment", token=operator, tenant=tenant)
    assert (shown.status, shown.body["state"], shown.body["pay_url"]) == (200, "open", "")
    assert asked(invoice).unsent_since is not None and shown.body["unsent"] is False, (
        "no one is to hear of it"
    )
    method = call("GET", "/v1/payment-method", token=operator, tenant=tenant)
    assert method.body == {"collection": "off", "method": ""}
    assert call("POST", "/v1/billing/reconciliation", token=operator).status == 400
    assert call("GET", "/v1/billing/reconciliation", token=operator).body["at"] is None
    assert call("POST", f"{path}/void", {}, token=operator).status == 400
    paid = call("POST", f"{path}/paid", {"reference": "bank 1"}, token=operator)
    assert (paid.status, paid.body["state"], paid.body["open_micro"]) == (200, "paid", 0)
    assert paid.headers["ETag"] != shown.headers["ETag"]
    listed = call("GET", "/v1/payments", token=operator, tenant=tenant).body["items"]
    assert [(one["reference"], one["amount_micro"]) for one in listed] == [("bank 1", invoice.total_micro)]
    found = call("GET", "/v1/billing/receivables?state=paid", token=operator).body["items"]
    assert [(one["invoice"], one["issuer_number"]) for one in found] == [(invoice.public_id, "INV-000001")]
    assert call("GET", "/v1/billing/receivables?state=open", token=operator).body["items"] == []
    assert call("GET", "/v1/billing/receivables?state=rich", token=operator).status == 400
    assert call("POST", f"{path}/void", {"reason": "no"}, token=operator).status == 400
    assert call("POST", f"{path}/uncollectible", {"reason": "no"}, token=operator).status == 400
    unknown = "/v1/billing/receivables/inv_nothing/paid"
    assert call("POST", unknown, {"reference": "bank 1"}, token=operator).status == 404


def test_a_tenant_gets_pages_of_stripe_and_an_operator_the_differences(
    world: World, fake: FakeStripe
) -> None:
    house = make_house("acme")
    owner, operator = house.credentials[Standing.OWNER], house.credentials[Standing.OPERATOR]
    setup = call("POST", "/v1/payment-method/page", {"page": "setup"}, token=owner)
    assert setup.body == {"url": "https://checkout.stripe.example/c"}
    portal = call("POST", "/v1/payment-method/page", {"page": "portal"}, token=owner)
    assert portal.body == {"url": "https://billing.stripe.example/p"}
    assert len(fake.all("customer")) == 1
    assert fake.all("checkout.session")[0]["success_url"].endswith("/t/acme/invoices")
    made = call("POST", "/v1/billing/reconciliation", token=operator)
    assert (made.status, made.body["differences"]) == (200, [])
    fake.make("in", "invoice", status="open", customer="cus_x", currency="usd", total=1, amount_paid=0, amount_due=1,
               amount_remaining=1, pre_payment_credit_notes_amount=0, post_payment_credit_notes_amount=0,
               metadata={"penstock_receivable": "rcv_x"})  # fmt: skip
    (found,) = call("POST", "/v1/billing/reconciliation", token=operator).body["differences"]
    assert found["kind"] == "unknown here"


def test_stripes_address_takes_signed_events_once_and_nothing_else(world: World, fake: FakeStripe) -> None:
    client = Client()
    invoice = issued(world, "acme")
    worker()
    theirs = fake.objects[asked(invoice).stripe_invoice]
    body, signature = event("invoice.updated", theirs, event_id="evt_1")

    def send(content: bytes, signed: str) -> int:
        return client.post(
            "/hooks/stripe", content, content_type="application/json", headers={"Stripe-Signature": signed}
        ).status_code

    assert send(body, "") == 403
    assert send(body + b" ", signature) == 403
    assert send(b"x" * 300_000, signature) == 413
    assert (send(body, signature), send(body, signature)) == (200, 200)
    assert StripeEvent.objects.count() == 1
    assert client.get("/hooks/stripe").status_code == 405


@pytest.mark.django_db
def test_stripes_address_believes_nothing_without_a_secret() -> None:
    body, signature = event("invoice.paid", {"id": "in_1", "object": "invoice"}, event_id="evt_1")
    answer = Client().post(
        "/hooks/stripe", body, content_type="application/json", headers={"Stripe-Signature": signature}
    )
    assert answer.status_code == 403
    assert not StripeEvent.objects.exists()
