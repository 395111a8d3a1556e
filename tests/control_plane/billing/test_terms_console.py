"""The operators' page of a tenant's terms: shown, previewed and set, refused with what was typed kept."""

import json
from html import unescape
from typing import Any

import pytest
from django.test import Client

from billing.models import PriceBook, TenantTerms
from control_plane.audit.models import AuditEntry
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane.billing.test_terms import FIRST, SECOND, change, cut, terms
from tests.control_plane.billing.world import World
from tests.control_plane.world import House, make_house


@pytest.fixture
def house(world: World) -> House:
    made = make_house("acme")
    Tenant.objects.filter(pk=made.tenant.pk).update(created_at="2026-01-01T00:00:00Z")
    made.tenant.refresh_from_db()
    return made


@pytest.fixture
def operator(house: House) -> Client:
    client = Client()
    client.post("/operator/sign-in", {"token": house.credentials[Standing.OPERATOR]})
    return client


def address(house: House) -> str:
    return f"/operator/tenants/{house.tenant.public_id}/terms"


def given(intent: str, **changes: Any) -> dict[str, str]:
    plain = {"price_book": "general", "terms": json.dumps(terms()), "revision": "0", "intent": intent}
    return {**plain, **changes}


def test_an_operator_previews_and_sets_terms(world: World, house: House, operator: Client) -> None:
    assert address(house) in operator.get(f"/operator/tenants/{house.tenant.public_id}").content.decode()
    page = unescape(operator.post(address(house), given("preview")).content.decode())
    assert "no period was invoiced yet" in page
    cut(world, house.tenant, FIRST, 5)
    cut(world, house.tenant, SECOND, 3)
    page = unescape(operator.post(address(house), given("preview")).content.decode())
    preview = page.split('id="preview"')[1].split("</section>")[0]
    for text in ("7.00 USD", "2.74 USD", "\u22124.26 USD", "cr_1", "tax"):
        assert text in preview, text
    assert not TenantTerms.objects.exists()
    own = PriceBook.objects.get().sha256
    assert operator.post(address(house), given("set", price_book=own)).status_code == 302
    page = unescape(operator.get(address(house)).content.decode())
    shown = page.split('id="terms"')[1].split("</section>")[0]
    for text in ("di_1", "10 %", "cr_1", "4.00 USD", "prepaid", "DE", "19 %"):
        assert text in shown, text
    assert "standard 1" in page.split('id="history"')[1]
    entry = AuditEntry.objects.filter(action="terms.change").get()
    assert (entry.actor_kind, entry.after["price_book_sha256"]) == ("operator", own)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"terms": "{damaged"}, "This is no JSON"),
        ({"terms": "{}"}, "discounts"),
        ({"terms": json.dumps({**terms(), "surprise": 1})}, "surprise"),
        ({"price_book": "ab" * 32}, "Choose one of these"),
        ({"intent": "destroy"}, ""),
    ],
)
@pytest.mark.parametrize("intent", ["set", "preview"])
def test_what_cannot_be_is_refused_and_what_was_typed_stays(
    house: House, operator: Client, changes: dict[str, str], said: str, intent: str
) -> None:
    answer = operator.post(address(house), {**given(intent), **changes})
    page = unescape(answer.content.decode())
    assert answer.status_code == 422 and said in page
    assert changes.get("terms", "di_1") in page
    assert not TenantTerms.objects.exists()


def test_what_was_changed_since_the_page_was_shown_is_not_undone(house: House, operator: Client) -> None:
    assert 'name="revision" value="0"' in operator.get(address(house)).content.decode()
    change(house.tenant, terms(discounts=[]))
    answer = operator.post(address(house), given("set"))
    assert answer.status_code == 422 and "changed meanwhile" in unescape(answer.content.decode())
    assert TenantTerms.objects.get().document["discounts"] == []
    assert operator.post(address(house), given("set", revision="1")).status_code == 302
    assert TenantTerms.objects.count() == 2


def test_the_page_is_for_operators(house: House) -> None:
    assert Client().get(address(house)).status_code == 302
