"""Ceilings of cost: what grows by itself stops while a month is expected to cost more, and goes on afterwards."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing import expected_costs, metrics
from billing.budget_usage import used_since
from billing.expected_costs import expected_month
from billing.models import Cut, Invoice, PriceBook, UsageDay
from billing.price_actions import publish_first_price_book
from billing.unit_rates import unit_rates
from control_plane.api.metrics import registry
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from control_plane.brokers import client as brokers
from control_plane.brokers.view import TenantSeen
from control_plane.mail.models import Mail
from control_plane.reconciliation import deliverers, reconcile
from control_plane.topics import actions as topics
from payments.models import Receivable
from penstock.contract.errors import InvalidRequest, LimitExceeded
from penstock.rules.budgets import STOP_GROWTH
from quotas import budget_actions, budget_queries, growth
from quotas.growth import Expected
from quotas.models import Budget
from quotas.queries import limits_of
from tenants.models import Membership, Tenant
from tenants.roles import Standing
from tests.control_plane.world import House, call, make_house

pytestmark = pytest.mark.django_db

AMOUNT = 100_000_000
OPERATOR = Actor(kind=ActorKind.OPERATOR, id="op")
ACTOR = Actor(kind=ActorKind.PERSON, id="anna")


def ceiling(house: House, **more: Any) -> Budget:
    wanted = {"name": "most", "period": "month", "measure": "cost", "amount": AMOUNT, "policy": STOP_GROWTH}
    return budget_actions.create(ACTOR, house.tenant, unit_rates, used_since, **{**wanted, **more})[1]


def look(at: datetime, micro: int | None, kept: int | None = 10**9) -> int:
    expected = None if micro is None else Expected(cost_micro=micro, currency="USD")
    return growth.look(lambda tenant, now: expected, lambda tenant: kept, at)


@pytest.fixture
def now() -> datetime:
    """When the test begins: a run over a month's last midnight has two months."""
    return timezone.now()


@pytest.fixture
def house(now: datetime) -> House:
    publish_first_price_book(now)
    return make_house("acme")


def make_topic(tenant: Tenant, name: str, actor: Any = ACTOR) -> Any:
    settings = {"replication": 1, "min_insync_replicas": 1, "retention_ms": 3_600_000}
    return topics.create_topic(actor, tenant, name=name, partitions=1, settings=settings)


def test_what_would_cost_more_is_refused_while_the_month_is_expected_to_reach_the_ceiling(
    house: House, now: datetime
) -> None:
    tenant = house.tenant
    make_topic(tenant, "there")
    row = ceiling(house)
    generation = Tenant.objects.get(pk=tenant.pk).generation
    assert look(now, AMOUNT - 1) == 0 and growth.refusal(tenant, "another topic") is None
    assert look(now + timedelta(minutes=6), AMOUNT) == 1
    for refused in (
        lambda: make_topic(tenant, "more"),
        lambda: topics.update_topic(ACTOR, tenant, "there", partitions=2),
        lambda: topics.update_topic(ACTOR, tenant, "there", settings={"retention_ms": -1}),
        lambda: topics.update_topic(ACTOR, tenant, "there", settings={"retention_ms": 7_200_000}),
    ):
        with pytest.raises(LimitExceeded) as raised:
            refused()
        assert raised.value.limit == "cost_ceiling"
        for said in ("expected to cost 100.00", "budget 'most' allows 100.00", "clears when", "raises it"):
            assert said in raised.value.message
    topics.update_topic(ACTOR, tenant, "there", settings={"retention_bytes": 10_000_000})
    make_topic(tenant, "by-operators", OPERATOR)
    assert growth.kept_max_by_tenant() == {tenant.pk: 1_067_108_864}, (
        "64 MiB more than is kept, or a twentieth"
    )
    assert Tenant.objects.get(pk=tenant.pk).generation == generation + 1, "brokers get it"
    entry = AuditEntry.objects.get(action="budget.growth_stopped")
    assert entry.object_id == row.public_id and entry.after["forecast"] == AMOUNT
    assert "reached its ceiling most" in Mail.objects.get(kind="ceiling").subject
    assert budget_queries.as_sent(tenant, [row], unit_rates)[0].policy == "notify", "brokers only count it"
    shown = call("GET", f"/v1/budgets/{row.public_id}", token=house.credentials[Standing.OWNER]).body
    assert shown["growth_stopped_at"] and shown["forecast"] == AMOUNT


def test_growth_goes_on_when_clearly_less_is_expected_or_a_person_raises_the_amount(
    house: House, now: datetime
) -> None:
    row, minutes = ceiling(house), iter(range(0, 100, 6))

    def next_look(micro: int | None) -> int:
        return look(now + timedelta(minutes=next(minutes)), micro)

    assert next_look(AMOUNT + 5) == 1
    assert next_look(AMOUNT * 96 // 100) == 0, "a forecast that moves does not stop and release in turn"
    assert growth.refusal(house.tenant, "it") is not None
    assert next_look(AMOUNT * 94 // 100) == 1 and growth.refusal(house.tenant, "it") is None
    assert AuditEntry.objects.filter(action="budget.growth_released").count() == 1
    assert next_look(AMOUNT) == 1
    budget_actions.change(ACTOR, house.tenant, row.public_id, {"amount": AMOUNT * 101 // 100})
    assert growth.refusal(house.tenant, "it") is not None, "too little more"
    budget_actions.change(ACTOR, house.tenant, row.public_id, {"amount": 2 * AMOUNT})
    assert growth.refusal(house.tenant, "it") is None and not growth.kept_max_by_tenant()
    assert next_look(2 * AMOUNT) == 1
    assert next_look(None) == 1 and growth.refusal(house.tenant, "it") is None, "no prices, no cost"
    assert next_look(2 * AMOUNT) == 1
    budget_actions.change(ACTOR, house.tenant, row.public_id, {"policy": "notify"})
    assert growth.refusal(house.tenant, "it") is None


def test_a_ceiling_is_looked_at_in_its_turn_and_of_its_own_tenant_alone(house: House, now: datetime) -> None:
    ceiling(house)
    other = make_house("other")
    assert look(now, AMOUNT, kept=None) == 1 and not growth.kept_max_by_tenant(), (
        "no broker says what is kept"
    )
    assert growth.refusal(other.tenant, "it") is None
    assert look(now + timedelta(minutes=1), 1) == 0, "not again so soon"
    assert look(now + timedelta(minutes=6), 1) == 1


def test_of_two_ceilings_the_lower_holds_and_removing_one_leaves_the_other(
    house: House, monkeypatch: pytest.MonkeyPatch, now: datetime
) -> None:
    asked: list[dict[str, Any]] = []
    client = SimpleNamespace(put_tenant=lambda name, **asked_for: asked.append(asked_for))
    monkeypatch.setattr(brokers, "client", lambda: client)

    def on_brokers() -> int:
        row = Tenant.objects.get(pk=house.tenant.pk)
        deliverers._put_tenant(row)
        kept = asked[-1]["kept_bytes_max"]
        same = {one.name: asked[-1][one.name] for one in fields(TenantSeen) if one.name in asked[-1]}
        seen = TenantSeen(tenant=row.public_id, **{**same, "kept_bytes_max": kept + 1})
        kept_max = growth.kept_max_by_tenant().get(row.pk)
        differs = reconcile._tenant_difference(row, seen, reconcile.LATER_QUOTAS_FROM_LEVEL, "", "", kept_max)
        assert differs == f"kept_bytes_max is {kept + 1} on the brokers, {kept} is wanted"
        assert asked[-1]["storage_bytes_max"] == limits_of(row).storage_bytes_max, "the plan's stays"
        return int(kept)

    assert on_brokers() == 0
    row = ceiling(house)
    assert look(now, AMOUNT, kept=10**8) == 1
    lower = ceiling(house, name="less", amount=AMOUNT // 2)
    assert look(now, AMOUNT, kept=10**7) == 1
    assert "'less'" in str(growth.refusal(house.tenant, "it"))
    assert on_brokers() == 10**7 + growth.MORE_BYTES_MIN
    budget_actions.remove(ACTOR, house.tenant, lower.public_id)
    assert "'most'" in str(growth.refusal(house.tenant, "it"))
    assert on_brokers() == 10**8 + growth.MORE_BYTES_MIN
    budget_actions.remove(ACTOR, house.tenant, row.public_id)
    assert growth.refusal(house.tenant, "it") is None and on_brokers() == 0


def test_what_grows_is_what_costs_more_for_good() -> None:
    before = {"retention_ms": 10, "retention_bytes": 10, "replication": 2}
    for changed, grows in (
        ({"retention_ms": 11}, "retention_ms"),
        ({"retention_ms": -1}, "retention_ms"),
        ({"retention_bytes": 11}, "retention_bytes"),
        ({"retention_bytes": -1}, "retention_bytes"),
        ({"replication": 3}, "replication"),
        ({"retention_ms": 9, "retention_bytes": 9, "replication": 1}, ""),
    ):
        assert growth.grows(before, {**before, **changed}) == grows, changed
    unlimited = {**before, "retention_ms": -1, "retention_bytes": -1}
    assert growth.grows(unlimited, before) == growth.grows(unlimited, unlimited) == ""


def test_a_forecast_without_enough_days_counts_with_its_low_end(
    house: House, monkeypatch: pytest.MonkeyPatch, now: datetime
) -> None:
    cost = SimpleNamespace(
        book=SimpleNamespace(currency="USD"),
        low=SimpleNamespace(total_micro=1),
        expected=SimpleNamespace(total_micro=2),
    )
    for is_tested, micro in ((False, 1), (True, 2)):
        found = SimpleNamespace(cost=cost, is_tested=is_tested, begins=now)
        monkeypatch.setattr(expected_costs, "month_forecast", lambda tenant, now, found=found: found)
        expected = expected_month(house.tenant, now)
        assert expected is not None and expected.cost_micro == micro


def test_what_ended_as_the_month_began_and_what_others_owe_is_not_of_this_month(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced = SimpleNamespace(total_micro=1)
    cost = SimpleNamespace(book=SimpleNamespace(currency="USD"), low=priced, expected=priced)

    def forecast(tenant: Tenant, now: datetime) -> SimpleNamespace:
        return SimpleNamespace(cost=cost, is_tested=True, begins=now.astimezone(UTC))

    monkeypatch.setattr(expected_costs, "month_forecast", forecast)
    first = datetime(2026, 11, 1, tzinfo=UTC)
    book = PriceBook.objects.get()

    def invoice(tenant: Tenant, end: datetime, total_micro: int) -> None:
        cut = Cut.objects.create(tenant=tenant, period_start=end - timedelta(days=30), period_end=end)
        values = {"status": "issued", "issued_at": end, "total_micro": total_micro, "price_book": book}
        Invoice.objects.create(tenant=tenant, cut=cut, number=cut.pk, public_id=f"inv_{cut.pk}", **values)

    invoice(house.tenant, first, 1_000)
    invoice(make_house("other").tenant, first + timedelta(days=1), 10_000)
    # By the clock of a zone ahead it is November, in UTC still October.
    ahead = datetime(2026, 11, 1, 1, tzinfo=timezone.get_fixed_timezone(120))
    for now, micro in ((first + timedelta(days=3), 1), (ahead, 1_001)):
        expected = expected_month(house.tenant, now)
        assert expected == Expected(cost_micro=micro, currency="USD"), now


def test_a_fault_with_one_tenant_does_not_keep_others(house: House, now: datetime) -> None:
    ceiling(house)
    other = make_house("other")
    ceiling(other)
    asked: list[Tenant] = []

    def expect(tenant: Tenant, now: datetime) -> Expected:
        asked.append(tenant)
        if tenant == house.tenant:
            raise RuntimeError("a fault")
        return Expected(cost_micro=AMOUNT, currency="USD")

    for minutes in (0, 1):
        growth.look(expect, lambda tenant: None, now + timedelta(minutes=minutes))
    assert growth.refusal(other.tenant, "it") is not None
    assert asked == [house.tenant, other.tenant], "the first of all is not asked again before its turn"


def test_a_ceiling_whose_looks_fail_is_counted_until_one_succeeds(house: House, now: datetime) -> None:
    row = ceiling(house)

    def expect(tenant: Tenant, now: datetime) -> Expected:
        raise RuntimeError("a fault")

    def failing() -> float | None:
        metrics.refresh()
        return registry.get_sample_value("penstock_cost_ceilings_failing")

    assert failing() == 0
    for minutes in (0, 6):
        growth.look(expect, lambda tenant: None, now + timedelta(minutes=minutes))
    row.refresh_from_db()
    assert failing() == 1 and row.look_failed_at == now, "since the first that failed"
    look(now + timedelta(minutes=12), 1)
    assert failing() == 0
    growth.look(expect, lambda tenant: None, now + timedelta(minutes=18))
    assert failing() == 1
    budget_actions.change(ACTOR, house.tenant, row.public_id, {"policy": "notify"})
    assert failing() == 0, "it is no ceiling any more"


def test_growth_stays_stopped_while_a_part_of_the_month_is_not_known(house: House, now: datetime) -> None:
    ceiling(house)
    assert look(now, AMOUNT) == 1
    known = Expected(cost_micro=1, currency="USD", is_whole=False)
    assert growth.look(lambda tenant, now: known, lambda tenant: 1, now + timedelta(minutes=6)) == 0
    assert look(now + timedelta(minutes=12), 1) == 1


def test_the_tenant_is_locked_before_its_ceiling(house: House, now: datetime) -> None:
    row = ceiling(house)
    with CaptureQueriesContext(connection) as made:
        look(now, AMOUNT)
    found = [one["sql"] for one in made.captured_queries]
    locked = next(
        at for at, sql in enumerate(found) if "FOR NO KEY UPDATE" in sql and "tenants_tenant" in sql
    )
    read = [at for at, sql in enumerate(found) if sql.startswith("SELECT") and 'FROM "quotas_budget"' in sql]
    assert read[1] > locked > read[0], f"{row.name} is read again under the lock"


@pytest.mark.parametrize(
    "more", [{"measure": "bytes"}, {"period": "day"}, {"topic": "orders"}, {"slow_bytes_per_s": 5}]
)
def test_a_ceiling_is_of_a_months_cost_and_the_whole_tenant(house: House, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        ceiling(house, **more)


def test_what_is_expected_is_the_forecast_and_its_low_end_without_enough_days(
    house: House, now: datetime
) -> None:
    expected = expected_month(house.tenant, now)
    assert expected is not None and expected.currency == "USD"
    before = expected.cost_micro
    assert expected.is_whole
    day = {"tenant": house.tenant, "topic_id": "0" * 32, "topic": "orders", "day": now.date()}
    UsageDay.objects.create(**day, meter="bytes_in", quantity=10**15)
    after = expected_month(house.tenant, now)
    assert after is not None and after.cost_micro > before + 1_000_000
    bounds = {"period_start": now - timedelta(minutes=1), "period_end": now + timedelta(days=1)}
    cut = Cut.objects.create(tenant=house.tenant, **bounds)
    draft = Invoice.objects.create(
        tenant=house.tenant, number=1, cut=cut, price_book=PriceBook.objects.get(), public_id="inv_1"
    )
    closed = expected_month(house.tenant, now)
    assert closed is not None and not closed.is_whole
    issued = {"status": "issued", "issued_at": now, "total_micro": 7_000_000}
    Invoice.objects.filter(pk=draft.pk).update(**issued)
    invoiced = expected_month(house.tenant, now)
    assert invoiced is not None and invoiced.is_whole
    assert invoiced.cost_micro == closed.cost_micro + 7_000_000
    of = {"tenant": house.tenant, "invoice": draft, "currency": "USD", "total_micro": 7_000_000}
    Receivable.objects.create(
        **of, public_id="rc_1", state="void", due_at=now, closed_at=now, voided_micro=7_000_000
    )
    void = expected_month(house.tenant, now)
    assert void is not None and void.cost_micro == closed.cost_micro and void.is_whole


def test_a_stopped_ceiling_stays_as_it_was_stopped_and_every_owner_hears_of_it(
    house: House, now: datetime
) -> None:
    row, other = ceiling(house), make_house("umbrella")
    Membership.objects.filter(tenant=house.tenant, role="admin").update(role="owner")
    assert look(now, AMOUNT, kept=0) == 1 and Mail.objects.filter(kind="ceiling").count() == 2
    assert growth.kept_max_by_tenant(house.tenant) == {house.tenant.pk: 64 << 20}
    assert growth.kept_max_by_tenant(other.tenant) == {}
    for minutes, expected in ((6, 2 * AMOUNT), (12, AMOUNT * 95 // 100)):
        assert look(now + timedelta(minutes=minutes), expected) == 0
    row.refresh_from_db()
    assert (row.growth_stopped_at, row.kept_bytes_max) == (now, 64 << 20), (
        "what may be kept does not grow along"
    )


@pytest.mark.parametrize("meanwhile", ["closed", "changed"])
def test_a_ceiling_that_ends_while_it_is_forecast_stops_nothing(
    house: House, meanwhile: str, now: datetime
) -> None:
    row = ceiling(house)

    def expect(tenant: Tenant, now: datetime) -> Expected:
        if meanwhile == "closed":
            Tenant.objects.filter(pk=tenant.pk).update(closed_at=now)
        else:
            Budget.objects.filter(pk=row.pk).update(policy="notify")
        return Expected(cost_micro=AMOUNT, currency="USD")

    assert growth.look(expect, lambda _: 1, now) == 0
    row.refresh_from_db()
    assert row.growth_stopped_at is None and row.forecast_at is None
    assert look(now, AMOUNT) == 0, "nor is it looked at again"
    row.refresh_from_db()
    assert row.forecast_at is None


def test_what_was_forecast_longest_ago_comes_first(
    house: House, monkeypatch: pytest.MonkeyPatch, now: datetime
) -> None:
    monkeypatch.setattr(growth, "LOOKS_MAX", 1)
    rows = [ceiling(house), ceiling(house, name="never"), ceiling(house, name="lately")]
    for row, ago in ((rows[0], 20), (rows[2], 30)):
        Budget.objects.filter(pk=row.pk).update(forecast_at=now - timedelta(minutes=ago))
    looked: list[set[str]] = []
    for _ in rows:
        look(now, 1)
        looked.append(set(Budget.objects.filter(forecast_at=now).values_list("name", flat=True)))
    assert looked == [{"never"}, {"never", "lately"}, {"never", "lately", "most"}]
