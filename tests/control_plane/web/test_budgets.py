"""The pages of budgets: made, shown with use that is readable without colour, changed and removed."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from control_plane.brokers import client as brokers
from control_plane.brokers.view import BudgetUseSeen
from penstock.rules.budgets import period_at
from penstock.rules.timestamps import time_ms
from quotas.models import Budget
from tests.control_plane.world import PASSWORD

pytestmark = pytest.mark.django_db

FIELDS = {
    "name": "prod",
    "measure": "bytes",
    "period": "month",
    "amount": "1.5",
    "policy": "refuse_produce",
    "counts": "both",
}


@pytest.fixture
def owner() -> Client:
    client = Client()
    client.post("/sign-up", {"email": "ann@example.com", "password": PASSWORD, "tenant": "acme"})
    return client


def page(client: Client, path: str) -> str:
    return client.get(f"/t/acme/{path}".rstrip("/")).content.decode()


def test_a_budget_is_made_changed_and_removed_without_scripts(owner: Client) -> None:
    assert "No budgets" in page(owner, "budgets")
    assert owner.post("/t/acme/new-budget", {**FIELDS, "thresholds": "50, 90 %"}).status_code == 302
    row = Budget.objects.get()
    assert (row.amount, row.thresholds, row.slow_bytes_per_s) == (1_500_000_000, [50, 90], 0)
    edit = f"/t/acme/budgets/{row.public_id}/change"
    assert 'value="1.5"' in owner.get(edit).content.decode()
    assert owner.post(edit, {**FIELDS, "amount": "2", "thresholds": ""}).status_code == 302
    row.refresh_from_db()
    assert (row.amount, row.thresholds) == (2_000_000_000, [])
    assert owner.post(f"/t/acme/budgets/{row.public_id}/remove").status_code == 302
    assert not Budget.objects.exists()


def test_a_form_says_by_which_choice_each_field_applies(owner: Client) -> None:
    form = page(owner, "new-budget")
    for name in ("measure", "policy"):
        assert f'<select name="{name}" data-chooses' in form
    for shown_when, field in (
        ('data-when="policy" data-is="slow"', "slow_bytes_per_s"),
        ('data-when="measure" data-is="bytes messages"', "counts"),
        ('data-when="policy" data-is="notify slow refuse_produce refuse"', "topic"),
    ):
        (box,) = re.findall(rf'<div [^>]*{re.escape(shown_when)}>(.*?)name="(\w+)"', form, re.DOTALL)
        assert box[1] == field and "data-when" not in box[0]
    assert "stop_growth`" not in form and "slow_bytes_per_s alone" not in form
    assert "The amount is in GB" in form and "number of messages" in form


@pytest.mark.parametrize(
    "wrong",
    [{"amount": "0"}, {"amount": "nan"}, {"amount": "999999999999"}, {"thresholds": "ten"}, {"policy": "slow"},
     {"topic": "two words"}, {"measure": "cost"}, {"name": ""}],
)  # fmt: skip
def test_what_cannot_be_is_said_beside_the_form(owner: Client, wrong: dict[str, str]) -> None:
    answer = owner.post("/t/acme/new-budget", {**FIELDS, **wrong})
    assert answer.status_code in (400, 409, 422), answer.status_code
    assert not Budget.objects.exists()


def test_use_is_a_bar_with_its_number_and_words(owner: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    owner.post("/t/acme/new-budget", {**FIELDS, "thresholds": "50 80 100"})
    row = Budget.objects.select_related("tenant").get()
    assert "The brokers do not answer now" in page(owner, "budgets")
    began_ms, ends_ms = period_at("month", time_ms(timezone.now()))
    for used, percent, words in (
        (600_000_000, 40, "below"),
        (900_000_000, 60, "above 50 %"),
        (10**10, 666, "used up"),
    ):
        use = BudgetUseSeen(began_ms=began_ms, ends_ms=ends_ms, used=used)
        said: Any = {(row.tenant.public_id, row.public_id): use}
        monkeypatch.setattr(brokers, "budget_use", lambda tenants, said=said: said)
        shown = page(owner, "budgets")
        assert f">{percent} %</progress> {percent} %" in shown and words in shown, shown
    Budget.objects.update(noted_period_ms=began_ms, noted_percent=100)
    assert "The budget prod has reached 100 %." in page(owner, "")
    Budget.objects.update(noted_period_ms=began_ms - 1)
    assert "has reached" not in page(owner, "")
