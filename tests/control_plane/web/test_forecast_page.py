"""The usage page says what the month will hold and cost, and which days were unlike others."""

import random
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from billing.models import UsageDay
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane.billing.world import World
from tests.control_plane.world import House, make_house


@pytest.fixture
def house(tmp_path: Path, db: None) -> House:
    World(tmp_path)
    made = make_house("acme")
    Tenant.objects.filter(pk=made.tenant.pk).update(created_at=timezone.now() - timedelta(days=200))
    made.tenant.refresh_from_db()
    return made


def used(house: House, days: int) -> None:
    rng = random.Random(7)
    today = timezone.now().date()
    UsageDay.objects.bulk_create(
        UsageDay(
            tenant=house.tenant,
            topic_id="0" * 32,
            topic="orders",
            day=today - timedelta(days=back),
            meter=meter,
            quantity=size * rng.randint(900, 1100) * (8 if back == 3 else 1),
        )
        for back in range(days)
        for meter, size in (("messages_in", 1_000), ("bytes_in", 250_000))
    )


def page(house: House) -> str:
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.OWNER]
    answer = client.get("/t/acme/usage")
    assert answer.status_code == 200
    return unescape(answer.content.decode())


def part(text: str, name: str) -> str:
    return text.split(f'id="{name}"')[1].split("</section>")[0]


def test_the_page_has_a_forecast_with_its_interval_and_the_day_unlike_others(house: House) -> None:
    used(house, 60)
    text = page(house)
    forecast = part(text, "forecast")
    for word in ("So far", "Low", "Expected", "High", "Messages in", "Cost", "USD", "four of five months"):
        assert word in forecast, word
    day = f"{timezone.now().date() - timedelta(days=3):%Y-%m-%d}"
    assert day in part(text, "anomalies") and "Topics: orders" in part(text, "anomalies")


def test_a_young_tenant_is_shown_a_run_rate_as_such_and_no_anomalies(house: House) -> None:
    used(house, 6)
    text = page(house)
    assert "too little history" in part(text, "forecast")
    assert 'id="anomalies"' not in text


def test_a_tenant_that_used_nothing_has_no_forecast(house: House) -> None:
    assert 'id="forecast"' not in page(house)
