"""Costs are entered, changed, removed and read in; a month's margins keep the cost and say what was billed."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from billing import cost_imports, margins, price_actions, unit_cost_actions
from billing.margins import Report
from billing.models import CreditNote, Invoice, UsageDay
from billing.unit_cost_models import InfrastructureCost
from control_plane.audit.models import AuditEntry
from penstock.contract.errors import InvalidRequest
from penstock.rules.allocation import Idle
from quotas.models import Quota
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane.billing.world import TESTER, Part, World
from tests.control_plane.world import call, make_house

FIRST, END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
NOW = datetime.now(UTC)
PERIOD = f"{NOW:%Y-%m}"
COSTS = "/v1/billing/costs"


def given(**changes: Any) -> dict[str, Any]:
    return {
        "name": "brokers", "kind": "hosts", "amount": 2, "price_micro": 500_000, "per": "month", "currency": "USD",
        "from_at": FIRST, "until_at": END,
    } | changes  # fmt: skip


def body(**changes: Any) -> dict[str, Any]:
    return given(from_at="2026-11-01T00:00:00Z", until_at="2026-12-01T00:00:00Z") | changes


def enter(**changes: Any) -> InfrastructureCost:
    return unit_cost_actions.enter(TESTER, given(**changes))


def used(tenant: Tenant, day: date = date(2026, 11, 3), topic: str = "orders", **meters: int) -> None:
    UsageDay.objects.bulk_create(
        UsageDay(tenant=tenant, topic_id="0" * 32, topic=topic, day=day, meter=meter, quantity=quantity)
        for meter, quantity in meters.items()
    )


def taken_in(source: str, entries: list[dict[str, Any]]) -> tuple[int, int, int, int]:
    done = cost_imports.take_in(TESTER, source, entries, now=NOW)
    return done.created, done.changed, done.removed, done.unchanged


def november(**changes: Any) -> Report:
    return margins.margins("2026-11", NOW, **changes)


@pytest.fixture
def acme(world: World) -> Tenant:
    return world.tenant("acme", age=timedelta(days=1000))


@pytest.fixture
def other(world: World) -> Tenant:
    return world.tenant("other", age=timedelta(days=1000))


# -- costs ----------------------------------------------------------------------------------------------


def test_a_cost_has_its_kinds_driver_and_a_revision(world: World) -> None:
    row = enter()
    assert (row.driver, row.revision) == ("bytes", 1)
    changed = unit_cost_actions.change(TESTER, row, {"kind": "disk", "amount": 3})
    assert (changed.driver, changed.amount, changed.revision) == ("bytes_in", 3, 2)
    assert unit_cost_actions.change(TESTER, row, {"amount": 3}).revision == 2, "the same changes nothing"
    assert [entry.action for entry in AuditEntry.objects.order_by("sequence") if "cost" in entry.action] == [
        "infrastructure_cost.create",
        "infrastructure_cost.change",
    ]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"name": " x"}, "name"),
        ({"kind": "wood"}, "kind"),
        ({"per": "week"}, "per"),
        ({"driver": "smoke"}, "driver"),
        ({"amount": 10**6 + 1}, "amount"),
        ({"price_micro": -1}, "price_micro"),
        ({"price_micro": 10**15 + 1}, "price_micro"),
        ({"currency": "usd"}, "currency"),
        ({"until_at": FIRST}, "until_at"),
        ({"until_at": FIRST + timedelta(microseconds=5)}, "until_at"),
        ({"per": "period", "until_at": None}, "until_at"),
        ({"from_at": datetime(1969, 1, 1, tzinfo=UTC)}, "from_at"),
        ({"until_at": datetime(9999, 1, 1, tzinfo=UTC)}, "until_at"),
        ({"capacity_month": 0}, "capacity_month"),
        ({"capacity_month": 2**63}, "capacity_month"),
        ({"kind": "other", "capacity_month": 5}, "capacity_month"),
    ],
)
def test_a_cost_that_cannot_be_is_refused_by_name(world: World, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        enter(**changes)
    with pytest.raises(InvalidRequest, match=f"entry 1: .*{named}"):
        taken_in("cloud", [given(**changes)])
    assert not InfrastructureCost.objects.exists()


def test_there_are_not_more_costs_than_a_report_reads(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_cost_actions, "COSTS_MAX", 2)
    enter()
    with pytest.raises(InvalidRequest, match="2 are stored"):
        taken_in("cloud", [given(name="a"), given(name="b")])
    enter()
    with pytest.raises(InvalidRequest, match="2 are stored"):
        enter()


def test_an_import_replaces_what_its_source_had_in_its_months(world: World) -> None:
    before, after = given(name="october", from_at=datetime(2026, 10, 1, tzinfo=UTC)), given(name="hosts")
    typed = enter()
    assert taken_in("cloud", [before, after, given(name="gone")]) == (3, 0, 0, 0)
    taken_in("others", [given(name="hosts")])
    again = [given(name="hosts", price_micro=7), given(name="new")]
    assert taken_in("cloud", again) == (1, 1, 1, 0)
    assert taken_in("cloud", again) == (0, 0, 0, 2)
    rows = InfrastructureCost.objects.order_by("source", "name").values_list("source", "name", "price_micro")
    assert list(rows) == [
        ("", typed.name, 500_000),
        ("cloud", "hosts", 7),
        ("cloud", "new", 500_000),
        ("cloud", "october", 500_000),
        ("others", "hosts", 500_000),
    ]
    assert AuditEntry.objects.filter(action="infrastructure_cost.import").count() == 3
    with pytest.raises(InvalidRequest, match="twice"):
        taken_in("cloud", [given(), given()])


# -- margins --------------------------------------------------------------------------------------------


def test_a_month_is_divided_by_use_and_keeps_its_cost(acme: Tenant, other: Tenant) -> None:
    enter(capacity_month=400)
    enter(name="support", kind="other", amount=1, price_micro=100_001, driver="none")
    enter(name="october", until_at=FIRST, from_at=FIRST - timedelta(days=31))
    used(acme, bytes_in=100, bytes_out=50, messages_in=2_000_000)
    used(acme, bytes_in=50, topic="more")
    used(other, bytes_out=100, messages_in=10)
    used(other, day=date(2026, 12, 1), bytes_out=10**6)
    used(other, day=date(2026, 10, 31), bytes_out=10**6)
    found = november()
    (first, second) = sorted(found.tenants, key=lambda one: one.name)
    assert (first.name, first.share.direct_micro, first.share.idle_micro) == ("acme", 500_000, 166_667)
    assert (second.share.direct_micro, second.share.idle_micro) == (250_000, 83_333)
    assert first.cost_micro + second.cost_micro == found.total.cost_micro == 1_100_001
    assert first.messages_in == 2_000_000 and first.bytes_in == 150
    assert first.cost_micro_per_million_messages == (first.cost_micro + 1) // 2
    assert first.direct_micro_per_million_messages == 250_000
    assert second.cost_micro_per_gib_in is None
    kept = november(idle=Idle.KEPT)
    assert kept.total.cost_micro == 1_100_001 and kept.total.unborne_micro == 250_000


def test_a_month_without_anything_is_a_report_of_nothing(world: World) -> None:
    found = november()
    assert (found.total.cost_micro, found.total.margin_micro, found.tenants, found.plans) == (0, 0, (), ())
    assert found.total.cost_micro_per_million_messages is None


def test_plans_are_the_sums_of_their_tenants(acme: Tenant, other: Tenant, world: World) -> None:
    third = world.tenant("third", age=timedelta(days=1000))
    Quota.objects.create(tenant=other, plan="committed", plan_version=1)
    enter()
    for tenant in (acme, other, third):
        used(tenant, bytes_in=7, messages_in=1)
    found = november()
    assert [(plan.plan, plan.tenants) for plan in found.plans] == [("committed", 1), (found.plans[1].plan, 2)]
    assert sum(plan.cost_micro for plan in found.plans) == 1_000_000
    assert found.plans[1].messages_in == 2


@pytest.mark.parametrize("wrong", ["", "2026-13", "2026", "x" * 1000])
def test_a_period_that_is_no_month_is_refused(world: World, wrong: str) -> None:
    with pytest.raises(InvalidRequest, match="period"):
        margins.margins(wrong, NOW)


def test_costs_in_several_currencies_are_not_added_up(acme: Tenant) -> None:
    enter()
    enter(currency="EUR", price_micro=7)
    with pytest.raises(InvalidRequest, match="EUR, USD"):
        november()
    assert november(currency="EUR").total.cost_micro == 14
    with pytest.raises(InvalidRequest, match="currency"):
        november(currency="dollars")


def running(world: World, tenant: Tenant, parts: list[Part]) -> None:
    """Usage that is on no invoice yet."""
    for part in parts:
        world.day(tenant, part.topic, part.day, "messages_in", part.end - part.first)
        world.day(tenant, part.topic, part.day, "bytes_in", part.size)
    world.spark()
    world.bill()


def this_month() -> Report:
    return margins.margins(PERIOD, datetime.now(UTC))


def test_a_running_period_is_provisional_and_its_invoice_is_not(world: World) -> None:
    """The tenant is as young as the test, so its period begins in the month whenever this runs."""
    tenant = world.tenant("young", age=timedelta(seconds=5))
    price_actions.begin_chains(10)
    period = f"{tenant.created_at:%Y-%m}"
    part = Part(first=0, end=6_000, size=1_000, day=tenant.created_at.date())
    running(world, tenant, [part])
    (shown,) = margins.margins(period, datetime.now(UTC)).tenants
    assert (shown.billing, shown.billed_micro) == ("provisional", 10_000_000), shown
    world.rows["usage_day"].clear()
    cut = world.cut(tenant, [part])
    world.covered(cut, [part])
    world.spark()
    world.bill()
    invoice = world.invoice(cut)
    assert invoice.status == Invoice.Status.ISSUED and invoice.total_micro == 10_000_000
    (shown,) = margins.margins(period, datetime.now(UTC)).tenants
    assert shown.billed_micro == 10_000_000
    assert shown.margin_micro == 10_000_000
    Invoice.objects.filter(pk=invoice.pk).update(
        total_micro=11_900_000, charges=[{"kind": "tax", "name": "DE", "amount_micro": 1_900_000}]
    )
    CreditNote.objects.create(
        tenant=tenant, number=1, invoice=invoice, cut=cut, total_micro=1_190_000, issued_at=NOW,
        charges=[{"kind": "tax", "name": "DE", "amount_micro": -190_000}],
    )  # fmt: skip
    (shown,) = margins.margins(period, datetime.now(UTC)).tenants
    assert shown.billed_micro == 9_000_000, "less the note, and tax is nobody's margin"
    unit_cost_actions.enter(
        TESTER,
        given(currency="EUR", from_at=tenant.created_at, until_at=tenant.created_at + timedelta(hours=1)),
    )
    found = margins.margins(period, datetime.now(UTC))
    assert (found.tenants[0].billing, found.tenants[0].margin_micro) == ("other_currency", None)
    assert found.total.margin_micro is None


def test_a_running_period_beyond_the_bound_is_not_rated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(margins, "RUNNING_MAX", 0)
    tenant = world.tenant("young", age=timedelta(seconds=5))
    (shown,) = margins.margins(f"{tenant.created_at:%Y-%m}", datetime.now(UTC)).tenants
    assert (shown.billing, shown.margin_micro) == ("unrated", None)


def test_of_a_month_without_a_beginning_nothing_was_billed(acme: Tenant) -> None:
    enter()
    used(acme, bytes_in=5)
    (shown,) = november().tenants
    assert (shown.billing, shown.billed_micro, shown.margin_micro) == ("nothing", 0, -1_000_000)


# -- REST -----------------------------------------------------------------------------------------------


def test_rest_enters_changes_shows_and_removes_a_cost(world: World) -> None:
    operator = make_house("acme").credentials[Standing.OPERATOR]
    made = call("POST", COSTS, body(), token=operator, Idempotency_Key="one")
    assert (made.status, made.body["driver"], made.body["source"]) == (201, "bytes", ""), made.body
    assert call("POST", COSTS, body(), token=operator, Idempotency_Key="one").body == made.body
    assert InfrastructureCost.objects.count() == 1
    one, tag = f"{COSTS}/{made.body['id']}", made.headers["ETag"]
    dry = call("PATCH", f"{one}?dry_run=true", {"amount": 5}, token=operator)
    assert dry.body["changes"][0]["fields"] == [{"field": "amount", "before": 2, "after": 5}]
    changed = call("PATCH", one, {"amount": 5}, token=operator, If_Match=tag)
    assert (changed.status, changed.body["amount"], changed.body["revision"]) == (200, 5, 2)
    assert changed.body["until_at"] == made.body["until_at"], "what is not given stays"
    assert call("PATCH", one, {"amount": 6}, token=operator, If_Match=tag).status == 412
    assert call("DELETE", one, token=operator, If_Match=tag).status == 412
    assert call("GET", one, token=operator).headers["ETag"] == changed.headers["ETag"]
    assert call("DELETE", one, token=operator, If_Match=changed.headers["ETag"]).status == 204
    assert call("GET", one, token=operator).status == 404
    assert call("DELETE", one, token=operator).status == 404


def test_rest_takes_an_import_in_and_shows_the_margins(world: World) -> None:
    house = make_house("acme")
    operator = house.credentials[Standing.OPERATOR]
    used(house.tenant, bytes_in=10, messages_in=4_000_000)
    asked = {"source": "cloud", "costs": [body(), body(name="help", kind="other")]}
    taken = call("POST", "/v1/billing/cost-imports", asked, token=operator)
    assert (taken.status, taken.body["created"]) == (201, 2), taken.body
    assert call("POST", "/v1/billing/cost-imports", asked, token=operator).body["unchanged"] == 2
    found = call("GET", "/v1/margins?period=2026-11", token=operator)
    assert found.status == 200, found.body
    assert found.body["total"]["cost_micro"] == 2_000_000
    assert found.body["total"]["cost_micro_per_million_messages"] == 500_000
    assert [one["tenant"] for one in found.body["items"]] == [house.tenant.public_id]
    assert {one["name"]: one["overhead_micro"] for one in found.body["assets"]} == {
        "brokers": 0,
        "help": 1_000_000,
    }
    assert (found.body["currency"], found.body["method"]) == ("USD", "largest-remainder-1")
    for wrong in ("period=2026-11&idle=x", "period=2026-11&currency=x", "period=x", ""):
        assert call("GET", f"/v1/margins?{wrong}", token=operator).status == 400
    for standing, token in house.credentials.items():
        if standing is not Standing.OPERATOR:
            assert call("GET", "/v1/margins?period=2026-11", token=token).status == 403


def test_topics_of_a_tenant_add_up_to_its_margin(acme: Tenant, other: Tenant) -> None:
    enter(capacity_month=400)
    enter(name="traffic", kind="traffic", price_micro=999_999)
    enter(name="support", kind="other", amount=1, price_micro=100_001, driver="none")
    used(acme, bytes_in=100, bytes_out=50, messages_in=2_000_000)
    used(acme, bytes_in=50, topic="more", messages_in=7)
    used(other, bytes_out=100, messages_in=10)
    found = november()
    row = next(one for one in found.tenants if one.name == "acme")
    topics = {one.topic: one for one in margins.topic_margins(acme.public_id, found, NOW)}
    assert {"orders", "more"} <= topics.keys() <= {"orders", "more", ""}
    assert sum(one.cost_micro for one in topics.values()) == row.cost_micro
    assert sum(one.share.direct_micro for one in topics.values()) == row.share.direct_micro
    assert sum(one.billed_micro or 0 for one in topics.values()) == row.billed_micro
    assert topics["more"].share.direct_micro == 125_000, "it is no reader, so traffic is not its cost"
    assert topics["orders"].messages_in == 2_000_000


def test_rest_has_topics_of_one_tenant_page_by_page(acme: Tenant) -> None:
    enter()
    for topic in ("a", "b", "c"):
        used(acme, bytes_in=5, topic=topic)
    token = make_house("ops").credentials[Standing.OPERATOR]
    first = call(
        "GET", f"/v1/margins/topics?period=2026-11&tenant={acme.public_id}&limit=2", token=token
    ).body
    assert first["next"] and first["period"] == "2026-11" and len(first["items"]) == 2
    assert call("GET", "/v1/margins/topics?period=2026-11&tenant=tn_none", token=token).status == 404
