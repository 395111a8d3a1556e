"""The last invoice of a purged tenant: the people who could pay it then, and operators, can still read and pay it."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from control_plane.mail.models import Mail
from demo.fake_stripe import FakeStripe
from payments import former_payers
from payments.models import FormerPayer
from tenants.closing import actions as closing
from tenants.models import Membership, Person, Tenant
from tenants.roles import Role, Standing
from tests.control_plane.billing.world import TESTER, World
from tests.control_plane.payments.paying import CENT, again, asked, due, of_amount, worker
from tests.control_plane.world import call, make_house, make_person


def purged(tenant: Tenant) -> Tenant:
    """Closed, its time over, and purged as the round does it."""
    now = timezone.now()
    Tenant.objects.filter(pk=tenant.pk).update(
        closed_at=now - timedelta(days=9), purge_at=now - timedelta(days=1)
    )
    tenant.refresh_from_db()
    former_payers.remember(tenant)
    former_payers.remember(tenant)
    closing.purge(TESTER, tenant)
    tenant.refresh_from_db()
    assert tenant.purged_at is not None
    return tenant


def page(person_token: str) -> str:
    client = Client()
    client.cookies["penstock"] = person_token
    answer = client.get("/account/closed-invoices")
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def people(world: World) -> dict[str, tuple[Person, str]]:
    return {name: make_person(f"{name}@acme.example") for name in ("owner", "developer", "left", "stranger")}


def test_the_last_invoice_is_read_and_paid_by_who_could_pay_it_and_by_no_one_else(
    world: World, fake: FakeStripe, people: dict[str, tuple[Person, str]]
) -> None:
    tenant = world.tenant("acme")
    for name, role in (("owner", Role.OWNER), ("developer", Role.DEVELOPER), ("left", Role.OWNER)):
        Membership.objects.create(tenant=tenant, person=people[name][0], role=role)
    Membership.objects.filter(person=people["left"][0]).delete()
    invoice = of_amount(tenant, 2_000 * CENT)
    assert "There are none" in page(people["owner"][1])
    purged(tenant)
    worker()
    row = asked(invoice)
    assert row.stripe_state == "open"
    shown = page(people["owner"][1])
    assert "acme, invoice no. 1" in shown.replace("<bdi>", "").replace("</bdi>", "")
    assert f'href="{row.pay_url}"' in shown and "20.00" in shown
    for name in ("developer", "left", "stranger"):
        assert "There are none" in page(people[name][1]), name
    fake.pay_on_page(row.stripe_invoice)
    again(invoice)
    assert '<span class="badge ok">paid</span>' in page(people["owner"][1])


def test_who_left_between_two_tries_to_purge_is_no_former_payer(
    world: World, people: dict[str, tuple[Person, str]]
) -> None:
    tenant = world.tenant("acme")
    for name in ("owner", "left"):
        Membership.objects.create(tenant=tenant, person=people[name][0], role=Role.OWNER)
    former_payers.remember(tenant)
    Membership.objects.filter(person=people["left"][0]).delete()
    former_payers.remember(tenant)
    assert [row.person for row in FormerPayer.objects.all()] == [people["owner"][0]]


def test_reminders_go_to_who_could_pay_and_lead_to_the_page(
    world: World, fake: FakeStripe, people: dict[str, tuple[Person, str]]
) -> None:
    tenant = world.tenant("acme")
    Membership.objects.create(tenant=tenant, person=people["owner"][0], role=Role.OWNER)
    invoice = of_amount(tenant, 2_000 * CENT)
    purged(tenant)
    worker()
    due(invoice, 0)
    worker()
    mail = Mail.objects.get(kind="payment-reminder")
    assert mail.to == "owner@acme.example"
    assert "/account/closed-invoices" in mail.text and "invoice no. 1 of acme" in mail.text.lower()
    Person.objects.filter(pk=people["owner"][0].pk).update(is_active=False)
    assert former_payers.addresses(tenant) == []


def test_an_operator_reads_it_and_notes_its_payment(world: World) -> None:
    tenant = world.tenant("acme")
    invoice = of_amount(tenant, 2_000 * CENT)
    purged(tenant)
    worker()
    operator = make_house("other").credentials[Standing.OPERATOR]
    read = call("GET", f"/v1/invoices/{invoice.public_id}", token=operator, tenant=tenant)
    assert (read.status, read.body["total_micro"]) == (200, 2_000 * CENT)
    paid = f"/v1/billing/receivables/{invoice.public_id}/paid"
    assert call("POST", paid, {"reference": "bank 1"}, token=operator).body["state"] == "paid"


def test_a_tenant_that_is_purged_already_is_not_remembered_again(world: World) -> None:
    tenant = purged(world.tenant("acme"))
    former_payers.remember(tenant)
    assert not FormerPayer.objects.exists()
