"""Budgets of a tenant: made, changed and removed by those who may, sent to brokers, and said at thresholds."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from billing.budget_usage import used_since
from billing.cost_models import PrincipalDay
from billing.models import UsageDay
from billing.price_actions import publish_first_price_book
from billing.unit_rates import unit_rates
from control_plane.access import list_actions, restore_actions
from control_plane.audit.models import AuditEntry
from control_plane.brokers.view import BudgetUseSeen
from control_plane.mail.models import Mail
from penstock.contract.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.limits import BUDGETS_PER_TENANT_MAX
from penstock.rules.budgets import PARTS, budgets_digest, period_at
from penstock.rules.timestamps import time_ms
from quotas import budget_actions as actions
from quotas import budget_notices as notices
from quotas import budget_queries as queries
from quotas.budget_queries import UnitRates
from quotas.models import Budget
from tenants.models import ApiKey, Tenant
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, call, make_house, make_tenant

pytestmark = pytest.mark.django_db

WANTED: dict[str, Any] = {
    "name": "prod",
    "period": "month",
    "measure": "messages",
    "amount": 1_000,
    "policy": "refuse_produce",
}


def no_prices(tenant: Tenant) -> UnitRates | None:
    return None


def made(tenant: Tenant, **more: Any) -> Budget:
    return actions.create(ACTOR, tenant, no_prices, used_since, **{**WANTED, **more})[1]


def month_of(row: Budget) -> tuple[int, int]:
    """The month that the budget was made in: a run over a month's last midnight has two."""
    return period_at("month", time_ms(row.created_at))


def seen(row: Budget, used: int, began_ms: int | None = None) -> dict[tuple[str, str], BudgetUseSeen]:
    """`began_ms`: the month that it began then; None: the budget's first."""
    began_ms = month_of(row)[0] if began_ms is None else began_ms
    use = BudgetUseSeen(began_ms=began_ms, ends_ms=period_at("month", began_ms)[1], used=used)
    return {(row.tenant.public_id, row.public_id): use}


def test_a_budget_is_made_shown_changed_and_removed_over_rest() -> None:
    house = make_house("acme")
    token = house.credentials[Standing.OWNER]
    answer = call("POST", "/v1/budgets", WANTED, token=token)
    assert answer.status == 202, "no broker runs here"
    assert answer.body["thresholds"] == [50, 80, 100] and answer.body["unit"] == "messages"
    assert answer.body["used"] is None and answer.body["token"]["object"] == house.tenant.public_id
    path = f"/v1/budgets/{answer.body['id']}"
    assert [one["name"] for one in call("GET", "/v1/budgets", token=token).body["items"]] == ["prod"]
    stale = call("GET", path, token=token).headers["ETag"]
    changed = call("PATCH", path, {"amount": 2_000}, token=token, **{"If-Match": stale})
    assert changed.status == 202 and changed.body["amount"] == 2_000
    assert call("PATCH", path, {"amount": 3_000}, token=token, **{"If-Match": stale}).status == 412
    assert call("PATCH", path, {"measure": "bytes"}, token=token).status == 400, "what it counts stays"
    assert call("DELETE", path, token=token).status == 204
    assert call("GET", path, token=token).status == 404
    entries = AuditEntry.objects.filter(object_id=answer.body["id"]).order_by("sequence")
    assert [entry.action for entry in entries] == ["budget.create", "budget.change", "budget.remove"]


def test_owners_admins_and_billing_make_budgets_and_developers_and_keys_do_not() -> None:
    house = make_house("acme")
    for standing in (Standing.OWNER, Standing.ADMIN, Standing.BILLING):
        body = {**WANTED, "name": standing.value}
        assert call("POST", "/v1/budgets", body, token=house.credentials[standing]).status == 202, standing
    for standing in (Standing.DEVELOPER, Standing.AUDITOR, Standing.KEY, Standing.BOUND_KEY):
        assert call("POST", "/v1/budgets", WANTED, token=house.credentials[standing]).status == 403, standing
    assert Budget.objects.count() == 3


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"amount": 0}, "amount: 0 is not within"),
        ({"amount": 10**19}, "is not within 1 to"),
        ({"period": "year"}, "period: one of month, day required"),
        ({"measure": "joy"}, "measure: one of cost, bytes, messages required"),
        ({"measure": "cost"}, "no price book yet"),
        ({"thresholds": [0]}, "thresholds"),
        ({"thresholds": list(range(1, 12))}, "thresholds"),
        ({"policy": "explode"}, "policy: one of"),
        ({"policy": "slow"}, "slow_bytes_per_s"),
        ({"slow_bytes_per_s": 5}, "slow_bytes_per_s"),
        ({"topic": "__usage"}, "service's own"),
        ({"name": "two\nlines"}, "name"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        made(make_tenant("acme"), **more)
    assert not Budget.objects.exists()


def test_names_are_one_each_and_budgets_few_and_of_their_own_tenant() -> None:
    tenant, other = make_tenant("acme"), make_tenant("other")
    account = list_actions.create_account(ACTOR, other, name="robot")
    made(tenant)
    with pytest.raises(AlreadyExists, match="'prod' exists"):
        made(tenant)
    with pytest.raises(NotFound):
        made(tenant, name="theirs", service_account=account.public_id)
    theirs = made(other)
    with pytest.raises(NotFound):
        actions.change(ACTOR, tenant, theirs.public_id, {"amount": 5})
    with pytest.raises(NotFound):
        actions.remove(ACTOR, tenant, theirs.public_id)
    for number in range(1, BUDGETS_PER_TENANT_MAX):
        made(tenant, name=f"b{number}")
    with pytest.raises(
        LimitExceeded, match=f"{BUDGETS_PER_TENANT_MAX} budgets of the tenant, and no more may be"
    ):
        made(tenant, name="one more")
    with pytest.raises(InvalidRequest):
        made(Tenant.objects.create(public_id=SYSTEM_TENANT, name="service"))


def test_brokers_get_budgets_with_prices_of_a_byte_and_a_message() -> None:
    tenant = make_tenant("acme")
    publish_first_price_book(timezone.now())
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    made(tenant, name="m", topic="orders")
    made(tenant, name="b", measure="bytes", service_account=account.public_id)
    actions.create(ACTOR, tenant, unit_rates, used_since, **{**WANTED, "name": "c", "measure": "cost"})
    prices = unit_rates(tenant)
    assert prices is not None and prices.currency == "USD" and prices.byte_in > 0 and prices.message_in > 0
    messages, size, cost = queries.on_brokers(tenant, unit_rates)
    assert (messages.message_in, messages.byte_in, messages.topic) == (PARTS, 0, "orders")
    assert (size.message_in, size.byte_in) == (0, PARTS)
    assert size.principal == f"service_account:{account.public_id}"
    assert (cost.unit, cost.byte_in, cost.message_in) == ("micro-USD", prices.byte_in, prices.message_in)
    assert [one.name for one in queries.on_brokers(tenant, no_prices)] == ["m", "b"], (
        "what has no price is not sent"
    )
    sent = queries.by_tenant(unit_rates)
    assert list(sent) == [tenant.public_id]
    assert budgets_digest(sent[tenant.public_id]) == budgets_digest([cost, messages, size])
    account.ended_at = timezone.now()
    account.save()
    assert [one.name for one in queries.on_brokers(tenant, unit_rates)] == ["m", "c"]
    with pytest.raises(AlreadyExists, match="'robot', which has ended"):
        made(tenant, name="b")


def test_a_restored_account_brings_its_budgets_back_while_they_fit() -> None:
    tenant = make_tenant("acme")
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    made(tenant, name="its", service_account=account.public_id)
    list_actions.end_account(ACTOR, tenant, account)
    for number in range(BUDGETS_PER_TENANT_MAX):
        made(tenant, name=f"b{number}")
    with pytest.raises(LimitExceeded, match="it has 11 with those of the service account, remove one first"):
        restore_actions.restore_account(ACTOR, tenant, account.public_id)
    actions.remove(ACTOR, tenant, Budget.objects.get(name="b0").public_id)
    restore_actions.restore_account(ACTOR, tenant, account.public_id)
    assert queries.budgets(tenant).count() == BUDGETS_PER_TENANT_MAX


def test_a_budget_counts_reads_where_it_says_so() -> None:
    house = make_house("acme")
    publish_first_price_book(timezone.now())
    token = house.credentials[Standing.OWNER]
    answer = call("POST", "/v1/budgets", {**WANTED, "counts_reads": True}, token=token)
    assert answer.status == 202 and answer.body["counts_reads"] is True
    assert answer.body["counted_since"] == answer.body["created_at"] > answer.body["period_began"]
    made(house.tenant, name="b", measure="bytes", counts_reads=True)
    made(house.tenant, name="in", measure="bytes")
    sent = [(one.byte_in, one.message_in, one.byte_out, one.message_out)
            for one in queries.on_brokers(house.tenant, unit_rates)]  # fmt: skip
    assert sent == [(0, PARTS, 0, PARTS), (PARTS, 0, PARTS, 0), (PARTS, 0, 0, 0)]
    refused = call(
        "POST", "/v1/budgets", {**WANTED, "name": "c", "measure": "cost", "counts_reads": True}, token=token
    )
    assert refused.status == 400 and "counts_reads" in refused.body["detail"]
    assert (
        call("PATCH", f"/v1/budgets/{answer.body['id']}", {"counts_reads": False}, token=token).status == 400
    )
    Budget.objects.update(created_at=datetime(2020, 1, 1, tzinfo=UTC))
    old = call("GET", f"/v1/budgets/{answer.body['id']}", token=token).body
    assert old["counted_since"] == old["period_began"]


def test_each_threshold_is_said_once_a_period_and_the_highest_alone() -> None:
    house = make_house("acme")
    row = made(house.tenant)

    following_ms = month_of(row)[1]

    def said(used: int, began_ms: int | None = None) -> int:
        return notices.note(list(queries.all_budgets()), seen(row, used, began_ms), no_prices)

    assert said(499) == 0
    assert said(500) == 1 and said(500) == 0 and said(799) == 0
    assert said(1_200) == 1 and said(5_000) == 0, "80 and 100 at once are one notice"
    assert said(10, following_ms) == 0 and said(600, following_ms) == 1, "the next period begins with none"
    assert said(1_200) == 0, "what a broker says late of the period before"
    mails = list(Mail.objects.order_by("pk").values_list("subject", flat=True))
    assert len(mails) == 3 and "has used 120 % of its budget prod" in mails[1]
    entries = AuditEntry.objects.filter(action="budget.threshold").order_by("sequence")
    assert len(entries) == 3
    actions.change(ACTOR, house.tenant, row.public_id, {"amount": 1_100})
    assert said(600, following_ms) == 1, "of another amount"


def test_a_higher_amount_that_is_far_from_its_thresholds_says_nothing() -> None:
    house = make_house("acme")
    row = made(house.tenant)
    assert notices.note(list(queries.all_budgets()), seen(row, 1_000), no_prices) == 1
    actions.change(ACTOR, house.tenant, row.public_id, {"amount": 10_000})
    assert notices.note(list(queries.all_budgets()), seen(row, 1_000), no_prices) == 0


def test_use_is_shown_with_the_budget() -> None:
    row = made(make_tenant("acme"))
    began_ms, ends_ms = month_of(row)
    assert queries.used_of(row, None, began_ms) is None
    assert queries.used_of(row, {}, began_ms) == 0
    assert queries.used_of(row, seen(row, 70), began_ms) == 70
    assert queries.used_of(row, seen(row, 70), ends_ms) == 0, "the record is of the period before"


def test_a_budget_that_is_made_as_a_month_ends_counts_what_its_own_month_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tenant = make_tenant("acme")
    end = datetime(2026, 11, 1, tzinfo=UTC)
    times = iter([end - timedelta(microseconds=1)])
    asked: list[date] = []
    monkeypatch.setattr(timezone, "now", lambda: next(times, end))

    def used(of: Tenant, first: date, *_: object) -> dict[str, int]:
        asked.append(first)
        return {"messages_in": 7}

    row = actions.create(ACTOR, tenant, no_prices, used, **WANTED)[1]
    assert asked == [row.created_at.date().replace(day=1)]
    assert Budget.objects.get(pk=row.pk).used_before == 7


def test_what_the_period_used_before_the_budget_was_made_counts() -> None:
    house = make_house("acme")
    tenant, today = house.tenant, timezone.now().date()
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    key, others = ApiKey.objects.filter(tenant=tenant).order_by("pk")[:2]
    key.service_account, key.principal_number, others.principal_number = account, 7, 8
    key.save()
    others.save()
    month = {"tenant": tenant, "topic_id": "0" * 32, "day": today.replace(day=1)}
    for topic, meter, quantity in (
        ("orders", "messages_in", 300), ("orders", "bytes_in", 9_000), ("clicks", "messages_in", 500),
        ("orders", "messages_out", 40),
    ):  # fmt: skip
        UsageDay.objects.create(**month, topic=topic, meter=meter, quantity=quantity)
    last_month = {**month, "day": today.replace(day=1) - timedelta(days=1)}
    UsageDay.objects.create(**last_month, topic="orders", meter="messages_in", quantity=9_999)
    PrincipalDay.objects.create(
        **month, topic="orders", principal=7, group="", meter="messages_in", quantity=30
    )
    PrincipalDay.objects.create(
        **month, topic="orders", principal=8, group="", meter="messages_in", quantity=70
    )
    for name, more, used in (
        ("all", {}, 800),
        ("topic", {"topic": "orders"}, 300),
        ("reads", {"topic": "orders", "counts_reads": True}, 340),
        ("bytes", {"measure": "bytes"}, 9_000),
        ("account", {"service_account": account.public_id}, 30),
        ("other", {"topic": "other"}, 0),
    ):  # fmt: skip
        row = made(tenant, name=name, **more)
        (sent,) = queries.as_sent(tenant, [row], no_prices)
        began_ms, ends_ms = month_of(row)
        assert (row.used_before, sent.used_before, sent.used_before_in(began_ms)) == (used, used, used), name
        assert sent.first_began_ms == (began_ms if used else 0)
        assert queries.used_of(row, {}, began_ms) == used, "brokers have counted nothing yet"
        assert queries.used_of(row, {}, ends_ms) == 0, "another period"
    publish_first_price_book(timezone.now())
    prices = unit_rates(tenant)
    assert prices is not None
    cost = actions.create(
        ACTOR, tenant, unit_rates, used_since, **{**WANTED, "name": "c", "measure": "cost"}
    )[1]
    assert cost.used_before == -(-(9_000 * prices.byte_in + 800 * prices.message_in) // PARTS)
    shown = call(
        "GET",
        f"/v1/budgets/{Budget.objects.get(name='all').public_id}",
        token=house.credentials[Standing.OWNER],
    )
    assert shown.body["used_before"] == 800 and shown.body["counted_since"] != shown.body["period_began"]


def test_a_budget_that_begins_above_a_threshold_says_so_without_a_message() -> None:
    row = made(make_house("acme").tenant)
    row.used_before = 900
    row.save()
    began_ms, ends_ms = month_of(row)
    notices.note([row], queries.with_use_before([row], {}, began_ms), no_prices)
    row.refresh_from_db()
    assert (row.noted_percent, row.noted_used) == (80, 900)
    assert queries.with_use_before([row], {}, ends_ms) == {}, "the next period begins with nothing"
    assert queries.with_use_before([row], seen(row, 950), began_ms) == seen(row, 950), (
        "brokers count from it on"
    )
