"""Currencies: books by currency, a tenant's for good, no exchange inside an invoice, no rounding coarser than coins."""

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from billing import account_actions, coupon_actions, price_actions, terms_actions
from billing.models import PriceBook, TenantTerms
from penstock.contract import documents
from penstock.contract.errors import AlreadyExists, InvalidRequest
from penstock.rules.currencies import MINOR_DIGITS
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane.billing.world import STANDARD_1, TESTER, Part, World
from tests.control_plane.world import call, make_house

PART = Part(first=0, end=2_000, size=1_000_000)


def book(currency: str, digits: int, version: int = 1) -> dict[str, Any]:
    return {
        **deepcopy(STANDARD_1),
        "name": currency.lower(),
        "version": version,
        "currency": currency,
        "minor_digits": digits,
    }


def in_effect(currency: str, digits: int) -> PriceBook:
    """A book of the currency that has been in effect for a week."""
    now = datetime.now(UTC)
    row = price_actions.publish_price_book(
        TESTER, document=book(currency, digits), effective_from=now + timedelta(hours=1), now=now
    )
    PriceBook.objects.filter(pk=row.pk).update(effective_from=now - timedelta(days=7))
    return row


def invoiced_in(tenant: Tenant, currency: str) -> None:
    account_actions.open_account(TESTER, tenant, currency=currency, now=datetime.now(UTC))


def test_each_tenant_is_invoiced_in_its_currency_by_its_book(world: World) -> None:
    in_effect("JPY", 0)
    in_effect("KWD", 3)
    tenants = {currency: world.tenant(currency.lower()) for currency in ("USD", "JPY", "KWD")}
    for currency in ("JPY", "KWD"):
        invoiced_in(tenants[currency], currency)
    parts = [PART]
    cuts = {currency: world.cut(tenant, parts) for currency, tenant in tenants.items()}
    for cut in cuts.values():
        world.covered(cut, parts)
    world.spark()
    world.bill()
    for currency, cut in cuts.items():
        invoice = world.invoice(cut)
        assert (invoice.status, invoice.price_book.currency, invoice.total_micro) == (
            "issued", currency, 3_000_000,
        ), invoice.gaps  # fmt: skip
        assert account_actions.currency_of(tenants[currency]) == currency
    # A newer book of another currency changes nobody's.
    in_effect("EUR", 2)
    assert price_actions.book_for(tenants["USD"], datetime.now(UTC)) != price_actions.book_at(
        datetime.now(UTC), "EUR"
    )


def test_a_currency_is_fixed_once(world: World) -> None:
    tenant = world.tenant("acme")
    with pytest.raises(InvalidRequest, match="no price book in EUR is in effect"):
        invoiced_in(tenant, "EUR")
    in_effect("EUR", 2)
    for _ in range(2):
        invoiced_in(tenant, "EUR")
    with pytest.raises(AlreadyExists, match="is invoiced in EUR, and that never changes"):
        invoiced_in(tenant, "USD")
    begun = world.tenant("begun")
    assert price_actions.begin_chains(10)
    with pytest.raises(AlreadyExists, match="is invoiced in USD"):
        invoiced_in(begun, "EUR")


def test_terms_of_another_currency_are_refused(world: World) -> None:
    euro, now = in_effect("EUR", 2), datetime.now(UTC)
    tenant = world.tenant("acme")

    def change(terms: dict[str, Any], sha256: str | None = None) -> None:
        wanted = documents.plain(documents.NO_TERMS) | terms
        terms_actions.change_terms(TESTER, tenant.public_id, terms=wanted, price_book_sha256=sha256, now=now)

    with pytest.raises(InvalidRequest, match="a book in EUR, and acme is invoiced in USD"):
        change({}, euro.sha256)
    grant = {
        "id": "cr_1",
        "amount_micro": 50_000,
        "currency": "EUR",
        "granted_ms": 0,
        "expires_ms": 2**42,
        "reason": "x",
    }
    with pytest.raises(InvalidRequest, match="cr_1: an amount in EUR, and acme is invoiced in USD"):
        change({"credits": [grant]})
    change({"credits": [grant | {"currency": "USD"}]})
    with pytest.raises(InvalidRequest, match="none of ISO 4217"):
        coupon_actions.make_coupon(
            TESTER, code="SPRING-7Q2M", basis_points=0, amount_micro=5_000_000, currency="EUX", days=31, uses_max=1,
            reason="x", from_at=now, until_at=now + timedelta(days=1),
        )  # fmt: skip


def test_who_had_a_book_of_another_currency_before_there_were_accounts_keeps_it(world: World) -> None:
    euro, now = in_effect("EUR", 2), datetime.now(UTC)
    tenant = world.tenant("acme")
    price_actions.begin_chains(10)
    TenantTerms.objects.create(
        tenant=tenant,
        document=documents.plain(documents.NO_TERMS),
        price_book=euro,
        revision=1,
        changed_at=tenant.created_at,
    )
    grant = {
        "id": "cr_1",
        "amount_micro": 50_000,
        "currency": "EUR",
        "granted_ms": 0,
        "expires_ms": 2**42,
        "reason": "x",
    }
    wanted = documents.plain(documents.NO_TERMS) | {"credits": [grant]}

    def change(sha256: str | None) -> None:
        terms_actions.change_terms(TESTER, tenant.public_id, terms=wanted, price_book_sha256=sha256, now=now)

    change(euro.sha256)
    # It is invoiced in euro from its next period on, also by the general book.
    price_actions.prices_from(tenant, now)
    change(None)
    assert price_actions.book_for(tenant, now) == euro


@pytest.mark.parametrize(
    ("currency", "digits", "said"),
    [
        ("EUX", 2, "none of ISO 4217"),
        ("USD", 1, "USD has 2, and no amount is rounded coarser"),
        ("KWD", 2, "KWD has 3"),
        ("XAU", 6, "none of ISO 4217"),
    ],
)
def test_a_book_of_no_currency_or_a_coarse_one_is_refused(
    world: World, currency: str, digits: int, said: str
) -> None:
    now = datetime.now(UTC)
    with pytest.raises(InvalidRequest, match=said):
        price_actions.checked_price_book(
            book(currency, digits), effective_from=now + timedelta(hours=1), now=now
        )


def test_two_books_of_one_currency_do_not_begin_at_once_and_of_two_they_may(world: World) -> None:
    now = datetime.now(UTC)
    at = now + timedelta(days=1)
    for currency in ("EUR", "CHF"):
        price_actions.publish_price_book(TESTER, document=book(currency, 2), effective_from=at, now=now)
    with pytest.raises(AlreadyExists, match="another one in EUR is effective from"):
        price_actions.publish_price_book(TESTER, document=book("EUR", 2, 2), effective_from=at, now=now)


def test_a_tenant_is_made_with_its_currency(world: World) -> None:
    house = make_house("acme")
    owner = house.credentials[Standing.OWNER]
    refused = call("POST", "/v1/tenants", {"name": "europe", "currency": "EUR"}, token=owner)
    assert refused.status == 400 and not Tenant.objects.filter(name="europe").exists()
    in_effect("EUR", 2)
    made = call("POST", "/v1/tenants", {"name": "europe", "currency": "EUR"}, token=owner)
    assert made.status in (201, 202), made.body
    assert account_actions.currency_of(Tenant.objects.get(name="europe")) == "EUR"


def test_who_signs_up_chooses_among_the_currencies_with_prices(world: World) -> None:
    person = {"email": "ada@example.com", "password": "a sentence is good", "tenant": "ada"}
    assert "f-currency" not in Client().get("/sign-up").content.decode(), "there is nothing to choose"
    in_effect("EUR", 2)
    page = Client().get("/sign-up").content.decode()
    assert page.index('value="USD"') < page.index('value="EUR"'), "the first prices come first"
    refused = call("POST", "/v1/sign-up", person | {"currency": "JPY"})
    assert refused.status == 400 and "no price book in JPY" in refused.body["detail"], refused.body
    assert not Tenant.objects.filter(name="ada").exists(), "nothing is left of it"
    assert call("POST", "/v1/sign-up", person | {"currency": "EUR"}).status == 201
    assert account_actions.currency_of(Tenant.objects.get(name="ada")) == "EUR"
    by_form = {
        "email": "bob@example.com",
        "password": "a sentence is good",
        "tenant": "bob",
        "currency": "EUR",
    }
    assert Client().post("/sign-up", by_form | {"currency": "JPY"}).status_code == 422
    assert Client().post("/sign-up", by_form).status_code == 302
    assert account_actions.currency_of(Tenant.objects.get(name="bob")) == "EUR"
    invited = {
        "email": "c@example.com",
        "password": "a sentence is good",
        "invitation": "x",
        "currency": "EUR",
    }
    assert "makes no tenant" in call("POST", "/v1/sign-up", invited).body["detail"]


def test_the_table_has_the_digits_of_the_standard() -> None:
    assert {MINOR_DIGITS[one] for one in ("USD", "EUR", "GBP", "MGA", "HUF")} == {2}
    assert {MINOR_DIGITS[one] for one in ("JPY", "KRW", "ISK", "CLP", "UGX")} == {0}
    assert sorted(one for one, digits in MINOR_DIGITS.items() if digits == 3) == [
        *("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND")
    ]
    assert all(len(one) == 3 and one.isupper() for one in MINOR_DIGITS)
