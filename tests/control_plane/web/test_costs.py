"""The page of costs, its files, and the page of tags."""

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from billing import price_actions
from billing.cost_models import CostTag
from billing.models import UsageDay
from tenants.roles import Standing
from tests.control_plane.web.filling import BEGINNING
from tests.control_plane.world import House, make_house


@pytest.fixture
def house(db: None) -> House:
    made = make_house("acme")
    price_actions.publish_first_price_book(BEGINNING)
    UsageDay.objects.bulk_create(
        UsageDay(
            tenant=made.tenant, topic_id=f"{n:032x}", topic=topic, day=timezone.now().date(), meter="messages_in",
            quantity=10**9 * (n + 1),
        )
        for n, topic in enumerate(("=cmd|calc", "orders"))
    )  # fmt: skip
    CostTag.objects.create(tenant=made.tenant, kind="topic", name="orders", key="team", value="web")
    return made


def page(house: House, path: str, standing: Standing = Standing.OWNER) -> tuple[int, str]:
    client = Client()
    client.cookies["penstock"] = house.credentials[standing]
    answer = client.get(f"/t/acme/costs{path}")
    return answer.status_code, answer.content.decode()


def test_the_page_has_a_chart_with_patterns_and_marks_what_can_still_change(house: House) -> None:
    status, text = page(house, "")
    assert (
        status == 200
        and "url(#p2)" in text
        and 'class="open"' in text
        and "provisional: can still change" in text
    )
    assert "=cmd|calc" in text and "orders" in text
    by_tag = page(house, "?by=tag:team")[1]
    assert "untagged" in by_tag and "web" in by_tag
    month, before = (f"{timezone.now() - timedelta(days=back):%Y-%m}" for back in (0, 40))
    assert "Change" in page(house, f"?month={month}&against={before}")[1]


def test_a_wrong_question_is_answered_at_the_form(house: House) -> None:
    for query in ("?tag=team", "?by=colour", "?from=x", "?topic=a%00b", "?by=day&against=2026-01"):
        status, text = page(house, query)
        assert status == 422 and 'role="alert"' in text and "Only topic" in text, query


def test_files_have_every_row_and_no_formula(house: House) -> None:
    status, text = page(house, "/files/csv")
    lines = text.splitlines()
    assert status == 200 and len(lines) == 3 and lines[1].startswith('"\'=cmd|calc",1000000000,')
    whole = json.loads(page(house, "/files/json?by=tag:team")[1])
    assert sum(row["cost_micro"] for row in whole["items"]) == whole["total"]["cost_micro"]
    assert [row["tag"] for row in whole["items"]] == ["", "web"] and whole["provisional"]
    assert page(house, "/files/pdf")[0] == 404


def test_tags_are_set_by_those_who_may_write_budgets(house: House) -> None:
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.BILLING]
    form = {"kind": "topic", "name": "orders", "tags": "team=web, stage=test"}
    assert client.post("/t/acme/costs/set-tags", form).status_code == 302
    assert CostTag.objects.filter(tenant=house.tenant).count() == 2
    for wrong in ({"tags": "team"}, {"tags": "T=x"}, {"name": "nothing"}):
        assert client.post("/t/acme/costs/set-tags", form | wrong).status_code == 422, wrong
    assert "stage" in page(house, "/tags", Standing.AUDITOR)[1]
    assert page(house, "/set-tags", Standing.DEVELOPER)[0] == 403
