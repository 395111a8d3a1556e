"""The console's keys that prove invoices: made and revoked by those who may verify, and of no other kind."""

import re

import pytest
from django.test import Client

from tenants.models import ApiKey
from tenants.roles import Standing
from tests.control_plane.world import House, make_house

pytestmark = pytest.mark.django_db


@pytest.fixture
def house() -> House:
    return make_house("acme")


def signed_in(house: House, standing: Standing) -> Client:
    client = Client()
    client.cookies["penstock"] = house.credentials[standing]
    return client


@pytest.mark.parametrize("standing", [Standing.OWNER, Standing.BILLING, Standing.AUDITOR])
def test_who_may_verify_makes_a_key_that_proves_invoices_and_revokes_it(
    house: House, standing: Standing
) -> None:
    client = signed_in(house, standing)
    assert "/t/acme/verifying-keys" in client.get("/t/acme/invoices").content.decode()
    page = client.get("/t/acme/verifying-keys").content.decode()
    assert "It cannot" in page and "No such keys" in page
    shown = client.post(
        "/t/acme/new-verifying-key", {"name": "auditor", "lifetime": "30", "topic_prefix": "ord"}
    )
    text = shown.content.decode()
    assert re.search(r"penstock_test_\w+", text) and "penstock verify-invoice" in text
    assert "producer" not in text
    assert standing is not Standing.BILLING or "/t/acme/keys" not in text, "billing has no list of all keys"
    key = ApiKey.objects.get(name="auditor")
    (binding,) = key.bindings.all()
    assert key.verifies and (binding.topic_prefix, binding.operations) == ("ord", ["verify"])
    page = client.get("/t/acme/verifying-keys").content.decode()
    assert key.public_id in page and "ord*" in page
    address = f"/t/acme/keys/{key.public_id}/revoke"
    assert address in page
    assert "Keys that prove invoices" in client.get(address).content.decode()
    assert client.post(address)["Location"].endswith("/t/acme/verifying-keys")
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert key.public_id not in client.get("/t/acme/verifying-keys").content.decode().split("<table")[-1]


def test_billing_revokes_no_other_key_and_a_developer_makes_none_that_proves(house: House) -> None:
    signed_in(house, Standing.OWNER).post(
        "/t/acme/new-key", {"name": "writer", "lifetime": "30", "scope": "all"}
    )
    key = ApiKey.objects.get(name="writer")
    billing = signed_in(house, Standing.BILLING)
    assert key.public_id not in billing.get("/t/acme/verifying-keys").content.decode()
    assert billing.post(f"/t/acme/keys/{key.public_id}/revoke").status_code == 403
    assert billing.post("/t/acme/keys/psk_nothing/revoke").status_code == 403, (
        "it does not hear which keys there are"
    )
    key.refresh_from_db()
    assert key.revoked_at is None
    developer = signed_in(house, Standing.DEVELOPER)
    answer = developer.post("/t/acme/new-verifying-key", {"name": "x", "lifetime": "30"})
    assert answer.status_code == 403
