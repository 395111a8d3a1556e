"""Prices stand on the console before an invoice does."""

import json
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client

from billing import price_actions, tasks
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane.billing.world import STANDARD_1, TESTER
from tests.control_plane.web.test_pages import signed_in
from tests.control_plane.world import House, make_house
from web import formats

pytestmark = pytest.mark.django_db
BOOKS = price_actions.STANDARD_PRICE_BOOK.parent


@pytest.fixture
def house() -> House:
    return make_house("acme")


def text(client: Client, path: str) -> str:
    return unescape(client.get(path).content.decode())


def publish(document: dict[str, Any], at: datetime) -> None:
    price_actions.publish_price_book(TESTER, document=document, effective_from=at, now=at)


def test_what_a_message_and_a_gigabyte_cost_stands_on_the_usage_page_of_a_new_tenant(house: House) -> None:
    price_actions.publish_first_price_book(datetime.now(UTC))
    page = text(signed_in(house), "/t/acme/usage")
    assert "0.04 USD per million messages" in page and "million of 1,000,000 messages" in page
    assert "0.10 USD per GB " in page and "GB of 1,000,000,000 bytes" in page
    assert "the first 1.0 TB" in page and "over 10.0 TB" in page
    assert "0.00033 USD" in page and "0.0005 USD" in page, "storage and partitions"
    assert "Reading, copies, storage" not in page


def test_a_free_part_is_told_and_so_is_each_tier(house: House) -> None:
    publish(STANDARD_1, price_actions.BEGINNING)
    page = text(signed_in(house), "/t/acme/usage")
    assert page.index("the first 1,000") < page.index("over 1,000 up to 20,000") < page.index("over 20,000")
    assert "free</td>" in page and "MB of 1,000,000 bytes" in page


def test_the_prices_shown_are_those_of_the_period_that_runs(house: House) -> None:
    publish(STANDARD_1, price_actions.BEGINNING)
    Tenant.objects.filter(name="acme").update(created_at=datetime.now(UTC) - timedelta(days=1))
    tasks.bill_run()
    dearer = [{**meter, "tiers": [{"up_to": None, "unit_price": "7"}]} for meter in STANDARD_1["meters"]]
    publish({**STANDARD_1, "version": 2, "meters": dearer}, datetime.now(UTC))
    page = text(signed_in(house), "/t/acme/usage")
    assert "0.002 USD" in page and "7.00 USD" not in page
    assert "7.00 USD" in text(Client(), "/sign-up"), "a newcomer pays the newer ones"


def test_the_door_promises_no_allowance_that_there_is_not(db: None) -> None:
    publish(json.loads((BOOKS / "standard-3.json").read_text(encoding="utf-8")), price_actions.BEGINNING)
    page = text(Client(), "/sign-up")
    assert "allowance" not in page and "no fixed fee" in page
    assert "0.04 USD" in page


def test_the_door_has_the_prices_of_each_currency_that_can_be_chosen(db: None) -> None:
    publish(STANDARD_1, price_actions.BEGINNING)
    messages, size = STANDARD_1["meters"]
    dearer = {**messages, "tiers": [{"up_to": None, "unit_price": "7"}]}
    publish(
        {**STANDARD_1, "name": "euro", "currency": "EUR", "meters": [dearer, size]}, price_actions.BEGINNING
    )
    page = text(Client(), "/sign-up")
    assert (
        page.index("Prices in USD")
        < page.index("0.002 USD")
        < page.index("Prices in EUR")
        < page.index("7.00 EUR")
    )


def test_fees_a_minimum_and_models_stand_where_the_prices_do(house: House) -> None:
    messages, size = STANDARD_1["meters"]
    publish(
        {
            **STANDARD_1, "format": 2, "fees": [{"fee": "support", "month": "50"}], "minimum_month": "100",
            "meters": [
                {**messages, "model": "volume"},
                {**size, "model": "package", "tiers": size["tiers"][-1:], "free": 0},
            ],
        },
        price_actions.BEGINNING,
    )  # fmt: skip
    Tenant.objects.filter(name="acme").update(created_at=datetime.now(UTC) - timedelta(days=40))
    for page in (text(signed_in(house), "/t/acme/usage"), text(Client(), "/sign-up")):
        assert "no fixed fee" not in page
        assert "50.00 USD" in page and "100.00 USD" in page and "support" in page
        assert "all, if over 1,000 up to 20,000" in page and "begun ones whole" in page
    usage = text(signed_in(house), "/t/acme/usage")
    cost = usage.split('id="cost"')[1].split("</section>")[0]
    assert "support" in cost and "minimum" in cost and "Total" in cost
    assert "a month at least" in text(Client(), "/sign-up")


@pytest.mark.parametrize("standing", [Standing.BILLING, Standing.AUDITOR])
def test_whoever_sees_usage_sees_its_prices(house: House, standing: Standing) -> None:
    price_actions.publish_first_price_book(datetime.now(UTC))
    assert "0.04 USD" in text(signed_in(house, standing), "/t/acme/usage")


@pytest.mark.parametrize(
    ("micro", "digits", "shown"),
    [
        (17_312, 6, "0.017312 USD"),
        (12_000_000, 6, "12.00 USD"),
        (1_250_000, 6, "1.25 USD"),
        (12_000_000, 0, "12 USD"),
        (-3, 6, "−0.000003 USD"),
    ],
)
def test_small_amounts_show_and_large_ones_have_no_zeros(micro: int, digits: int, shown: str) -> None:
    assert formats.amount(micro, digits, "USD") == shown
