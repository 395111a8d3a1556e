"""A tenant's costs by day, topic, principal, group and tag add up to its invoices, whatever they are separated by."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing import cost_answers, cost_reports, cost_tags, running_costs
from billing.cost_models import CostTag, PrincipalDay
from billing.cost_reports import Asked, CostRow, Report
from billing.models import Invoice, UsageDay
from daemon.data_set_store import FolderStore
from payments import actions as payment_actions
from penstock.contract.errors import InvalidRequest, NotFound
from tenants.models import ApiKey, Tenant
from tenants.roles import Standing
from tenants.service_accounts.actions import create_service_account
from tests.control_plane.billing.invoice_rows import CREDIT_LINE_MICRO, METERS, credit
from tests.control_plane.billing.world import TESTER, TODAY, Part, World, topic_id
from tests.control_plane.world import House, call, make_house

NOW = datetime.now(UTC)
YESTERDAY = TODAY - timedelta(days=1)
RANGE = {"first": TODAY - timedelta(days=40), "end": TODAY + timedelta(days=1)}
BILLED = (
    Part(topic="orders", first=0, end=3_001, size=300_000, day=YESTERDAY),
    Part(topic="orders", first=3_001, end=9_000, size=1_234_567, day=TODAY),
    Part(topic="clicks", first=0, end=7_000, size=7_777_777, day=TODAY),
)


@pytest.fixture
def house(world: World) -> House:
    made = make_house("acme")
    Tenant.objects.filter(pk=made.tenant.pk).update(created_at=NOW - timedelta(days=3))
    made.tenant.refresh_from_db()
    return made


@pytest.fixture
def billed(world: World, house: House) -> int:
    """An issued invoice over two days and two topics, and some usage after it; the total of the invoice."""
    cut = world.cut(house.tenant, BILLED)
    world.covered(cut, BILLED)
    world.day(house.tenant, "late", TODAY, "messages_in", 5_000)
    world.day(house.tenant, "late", TODAY, "messages_out", 11)
    world.spark()
    world.bill()
    return world.invoice(cut).total_micro or 0


def report(house: House, *by: str, **more: Any) -> Report:
    return cost_reports.report(house.tenant, Asked(by=by, **{**RANGE, **more}), datetime.now(UTC))


def costs(found: Report) -> dict[tuple[str, ...], int]:
    return {tuple(row.values.values()): row.cost_micro for row in found.rows}


def key_of(house: House, name: str, number: int) -> str:
    account = create_service_account(TESTER, house.tenant, name=name)
    ApiKey.objects.create(
        tenant=house.tenant, service_account=account, public_id=f"key_{number}", key_id=f"{number:012}",
        name=name, pepper_version=1, secret_hmac="0" * 64, scram={}, principal_number=number,
    )  # fmt: skip
    return f"service_account:{account.public_id}"


def used_by(house: House, number: int, quantity: int, topic: str = "orders", **more: Any) -> None:
    PrincipalDay.objects.create(
        tenant=house.tenant,
        topic_id=topic_id(topic),
        topic=topic,
        day=TODAY,
        principal=number,
        quantity=quantity,
        **{"meter": "messages_in", "group": "", **more},
    )


@pytest.mark.parametrize(
    "by",
    [
        *((), ("day",), ("month",), ("topic",), ("principal",), ("group",), ("meter",), ("tag:team",)),
        *(("day", "topic"), ("topic", "meter"), ("principal", "tag:team"), ("tag:team", "tag:stage")),
    ],
)
def test_rows_add_up_to_the_invoice_and_to_what_the_running_period_costs(
    by: tuple[str, ...], house: House, billed: int
) -> None:
    key_of(house, "shop", 7)
    used_by(house, 7, 100)
    used_by(house, 9, 33, "clicks")
    for kind, name in (("topic", "clicks"), ("topic", "late"), ("principal", "service")):
        CostTag.objects.create(tenant=house.tenant, kind=kind, name=name, key="team", value=f"of {name}")
    running = running_costs.running_cost(house.tenant, datetime.now(UTC))
    assert running is not None and running.total_micro > 0 < billed
    found = report(house, *by)
    assert sum(row.cost_micro for row in found.rows) == found.total.cost_micro == billed + running.total_micro
    assert found.total.provisional_micro == running.total_micro and found.is_provisional
    messages = sum(row.meters.get("messages_in", 0) for row in found.rows)
    assert messages == 16_000 + 5_000, "what was used is separated as what it costs is"


def test_a_topic_pays_for_its_part_of_each_day(house: House, billed: int) -> None:
    by_topic = costs(report(house, "topic"))
    assert by_topic.keys() == {("orders",), ("clicks",), ("late",)}
    days = costs(report(house, "day", "topic"))
    assert sum(days.values()) == sum(by_topic.values())
    assert days[YESTERDAY.isoformat(), "orders"] > 0 and (YESTERDAY.isoformat(), "clicks") not in days
    for topic in ("orders", "clicks", "late"):
        apart = sum(cost for (_, one), cost in days.items() if one == topic) - by_topic[topic,]
        assert abs(apart) <= len(days), "at most a micro-unit a row"


def test_a_discount_is_of_its_meter_and_fees_credit_and_tax_are_of_no_topic(
    house: House, billed: int
) -> None:
    before = costs(report(house, "meter"))
    kinds = (
        ("fee", "", 70_000),
        ("discount", "bytes_in", -100_003),
        ("credit", "", -20_001),
        ("tax", "", 9_999),
    )
    charges = [
        {"kind": kind, "name": kind, "meter": meter, "amount_micro": micro} for kind, meter, micro in kinds
    ]
    Invoice.objects.filter(tenant=house.tenant).update(
        charges=charges, total_micro=billed + sum(micro for _, _, micro in kinds)
    )
    after = costs(report(house, "meter"))
    assert after["bytes_in",] == before["bytes_in",] - 100_003
    assert after["messages_in",] == before["messages_in",] and after["",] - before.get(("",), 0) == 59_998
    found = report(house, "topic")
    assert found.total.charges_micro - found.total.provisional_micro <= 59_998
    assert {row.values["topic"] for row in found.rows if row.charges_micro} == {""}
    assert sum(row.cost_micro for row in found.rows) == sum(after.values()), "whatever it is separated by"


def test_one_day_of_a_period_is_the_rest_less_the_other_days(house: House, billed: int) -> None:
    whole = report(house).total.cost_micro
    first = report(house, end=TODAY).total.cost_micro
    rest = report(house, first=TODAY).total.cost_micro
    assert 0 < first < whole and first + rest == whole


def test_what_came_late_is_of_the_periods_nearest_day_and_a_part_of_it_has_it_not(
    world: World, house: House, billed: int
) -> None:
    """The second period bills usage of a day before it and of one after, whichever days are asked for."""
    first, second = TODAY - timedelta(days=1), TODAY
    cut = Invoice.objects.get(tenant=house.tenant).cut
    cut.period_start = datetime(first.year, first.month, first.day, tzinfo=UTC)
    cut.period_end = datetime(second.year, second.month, second.day, 1, tzinfo=UTC)
    cut.save()
    row = cut.usage.filter(meter="bytes_in", topic="clicks").get()
    more = {"messages_in": 100, "bytes_in": 1_000_000}
    for day, offset in ((first - timedelta(days=5), 20_000), (second + timedelta(days=3), 30_000)):
        for meter, quantity in more.items():
            row.pk, row.topic, row.day, row.meter, row.quantity = None, f"on {day}", day, meter, quantity
            row.first_offset = offset
            row.save(force_insert=True)
    early, late = (f"on {first - timedelta(days=5)}", f"on {second + timedelta(days=3)}")
    days = costs(report(house, "day", "topic", first=first, end=second + timedelta(days=1)))
    assert days[first.isoformat(), early] > 0 < days[second.isoformat(), late]

    def of(**asked: date) -> set[str]:
        found = report(house, "topic", **asked)
        return {row.values["topic"] for row in found.rows if row.usage_micro > row.provisional_micro}

    assert of(first=first, end=second + timedelta(days=1)) == {"orders", "clicks", early, late}
    assert of(first=first, end=second) == {"orders", early}
    assert of(first=second, end=second + timedelta(days=1)) == {"orders", "clicks", late}


def test_a_filter_names_alone_what_it_names(house: House, billed: int) -> None:
    by_topic = costs(report(house, "topic"))
    found = report(house, "topic", topic="orders")
    assert costs(found) == {("orders",): by_topic["orders",]}
    assert report(house, topic="orders").total.cost_micro == by_topic["orders",]
    assert report(house, "topic", topic="nothing").rows == []
    meters = costs(report(house, "meter"))
    assert report(house, meter="bytes_in").total.cost_micro == meters["bytes_in",]


def test_a_principal_pays_for_what_its_keys_used_and_the_rest_is_no_ones(house: House, billed: int) -> None:
    shop = key_of(house, "shop", 7)
    used_by(house, 7, 5_999)
    used_by(house, 8, 1_000, "clicks")
    used_by(house, 7, 4, "late", meter="messages_out", group="billing")
    found = report(house, "principal")
    rows = {row.values["principal"]: row for row in found.rows}
    assert rows.keys() == {shop, "key:8", ""} and found.names[shop] == "shop"
    assert rows[shop].meters == {"messages_in": 5_999, "messages_out": 4}
    assert rows[shop].cost_micro > rows["key:8"].cost_micro > 0
    assert report(house, principal=shop).total.cost_micro == rows[shop].cost_micro
    group = report(house, "group", group="billing").rows
    assert [(row.meters, row.cost_micro) for row in group] == [({"messages_out": 4}, 0)], "reading is free"


def test_a_topics_tag_comes_before_its_users_and_the_untagged_is_shown(house: House, billed: int) -> None:
    shop = key_of(house, "shop", 7)
    used_by(house, 7, 1_000)
    used_by(house, 7, 1_000, "clicks")
    cost_tags.set_tags(TESTER, house.tenant, "principal", shop, {"team": "shop"})
    CostTag.objects.create(tenant=house.tenant, kind="topic", name="clicks", key="team", value="web")
    CostTag.objects.create(tenant=house.tenant, kind="topic", name="clicks", key="stage", value="test")
    by_topic, by_team = costs(report(house, "topic")), costs(report(house, "tag:team"))
    assert by_team.keys() == {("web",), ("shop",), ("",)}
    assert by_team["web",] == by_topic["clicks",]
    assert 0 < by_team["shop",] < by_topic["orders",]
    assert report(house, tag=("team", "shop")).total.cost_micro == by_team["shop",]
    assert costs(report(house, "topic", tag=("stage", "test"))) == {("clicks",): by_topic["clicks",]}


def compared(world: World, house: House, asked: Asked, against: Asked) -> Report:
    return cost_answers.answered(
        house.tenant, asked, against, datetime.now(UTC), lambda: FolderStore(world.datasets)
    )


def test_two_times_are_compared_row_by_row(world: World, house: House, billed: int) -> None:
    asked = Asked(first=TODAY, end=TODAY + timedelta(days=1), by=("topic",))
    against = Asked(first=YESTERDAY, end=TODAY, by=("topic",))
    found = compared(world, house, asked, against)
    rows = {row.values["topic"]: row for row in found.rows}
    orders = rows["orders"]
    assert orders.before is not None and orders.before.meters["messages_in"] == 3_001
    assert orders.difference_micro == orders.cost_micro - orders.before.cost_micro
    assert rows["clicks"].before == CostRow(values={"topic": "clicks"})
    back = compared(world, house, against, asked)
    assert {row.values["topic"] for row in back.rows} == {"orders", "clicks", "late"}, "what is gone is shown"
    with pytest.raises(InvalidRequest, match="cannot be compared"):
        by_day = Asked(first=TODAY, end=TODAY + timedelta(days=1), by=("day",))
        compared(world, house, by_day, by_day)


def test_as_many_topics_as_there_may_be_take_as_many_queries_as_one(house: House, billed: int) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            report(house, "topic", "tag:team")
        return len(caught)

    before = queries()
    UsageDay.objects.bulk_create(
        UsageDay(
            tenant=house.tenant,
            topic_id=f"{n:032x}",
            topic=f"t-{n}",
            day=TODAY,
            meter="messages_in",
            quantity=n,
        )
        for n in range(300)
    )
    assert queries() == before <= 30
    assert len(report(house, "topic").rows) == 302  # the one that used nothing is no row


def test_more_sums_than_an_answer_may_have_are_refused(
    house: House, billed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_reports, "CELLS_MAX", 5)
    with pytest.raises(InvalidRequest, match="more than 5 sums"):
        report(house, "topic", "day")


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("by=colour", "by"), ("by=topic,topic", "by"), ("by=day,month", "by"), ("by=day,topic,meter", "by"),
        ("by=tag:", "by"),
        ("month=2026-13", "month"), ("month=2026-11&from=2026-11-01", "month"), ("from=yesterday", "from"),
        ("from=2026-11-02&to=2026-11-02", "to"), ("from=2020-01-01&to=2026-01-01", "to"), ("tag=team", "tag"),
        ("currency=usd", "currency"), ("against=x", "against"), ("by=day&against=2026-10", "by"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_by_name(query: str, named: str, house: House) -> None:
    answer = call("GET", f"/v1/costs?{query}", token=house.credentials[Standing.OWNER])
    assert (answer.status, answer.body["code"]) == (400, "invalid_request")
    assert answer.body["detail"].startswith(named)


def test_rest_shows_the_rows_their_sum_and_what_can_still_change(house: House, billed: int) -> None:
    token = house.credentials[Standing.BILLING]
    asked = f"from={RANGE['first']}&to={RANGE['end']}"
    found = call("GET", f"/v1/costs?by=topic&limit=2&{asked}", token=token).body
    assert [item["topic"] for item in found["items"]] == ["clicks", "late"] and found["provisional"]
    assert found["total"]["cost_micro"] > billed and found["currency"] == "USD"
    rest = call("GET", f"/v1/costs?by=topic&limit=2&{asked}&cursor={found['next']}", token=token).body
    together = sum(item["cost_micro"] for item in [*found["items"], *rest["items"]])
    assert together == found["total"]["cost_micro"] == rest["total"]["cost_micro"]
    assert (
        call("GET", "/v1/costs?by=topic", token=make_house("other").credentials[Standing.OWNER]).body["items"]
        == []
    )


def test_tags_are_set_whole_and_kept_for_a_topic_that_is_gone(house: House) -> None:
    CostTag.objects.create(tenant=house.tenant, kind="topic", name="gone", key="team", value="old")
    owner, developer = house.credentials[Standing.OWNER], house.credentials[Standing.DEVELOPER]
    path = "/v1/cost-tags/topic/gone"
    changed = call("PUT", path, {"tags": {"team": "new", "stage": "test"}}, token=owner)
    assert changed.body["tags"] == {"team": "new", "stage": "test"}
    assert call("PUT", path, {"tags": {}}, token=developer).status == 403
    assert call("PUT", path, {"tags": {}}, token=owner).body["tags"] == {}
    assert call("PUT", path, {"tags": {"team": "x"}}, token=owner).status == 404, (
        "nothing is known of it any more"
    )
    for tags in ({"Team": "x"}, {"team": ""}, {"team": "a\u202eb"}, {f"k{n}": "x" for n in range(21)}):
        assert call("PUT", "/v1/cost-tags/principal/service", {"tags": tags}, token=owner).status == 400


def test_another_tenants_principals_and_topics_do_not_exist(house: House) -> None:
    other = make_house("other")
    theirs = key_of(other, "shop", 5)
    with pytest.raises(NotFound):
        cost_tags.set_tags(TESTER, house.tenant, "principal", theirs, {"team": "x"})


def test_a_period_without_any_usage_has_its_fees_by_time() -> None:
    from billing import cost_division
    from billing.cost_periods import Period

    period = Period(
        cut=None, begins=datetime(2026, 11, 1, 12, tzinfo=UTC), ends=datetime(2026, 11, 3, 6, tzinfo=UTC),
        currency="USD", minor_digits=2, lines={"messages_in": 100}, beside_micro=-7, tax_micro=0,
    )  # fmt: skip
    days = cost_division.beside_by_day(period, period.beside_micro)
    assert days == {date(2026, 11, 1): -2, date(2026, 11, 2): -4, date(2026, 11, 3): -1}
    assert cost_division.by_day(period, "messages_in", {}) == {date(2026, 11, 3): 100}
    late = cost_division.by_day(
        period, "messages_in", {date(2026, 10, 30): 1, date(2026, 11, 1): 2, date(2026, 11, 2): 1}
    )
    assert late == {date(2026, 11, 1): 75, date(2026, 11, 2): 25}, "what came late is of the first day"


def test_what_was_taken_back_is_no_cost_any_more(house: House, billed: int) -> None:
    before = report(house).total.cost_micro
    invoice = Invoice.objects.get(tenant=house.tenant)
    payment_actions.open_receivable(invoice)
    payment_actions.void(TESTER, invoice, reason="billed twice")
    assert report(house).total.cost_micro == before - billed > 0


def test_what_a_credit_note_gives_back_is_no_cost(house: House, billed: int) -> None:
    before = costs(report(house, "meter"))
    invoice = Invoice.objects.get(tenant=house.tenant)
    credit(range(1), [invoice], [invoice.cut])
    after = costs(report(house, "meter"))
    assert after["messages_in",] == before["messages_in",] - CREDIT_LINE_MICRO
    assert sum(after.values()) == sum(before.values()) - len(METERS) * CREDIT_LINE_MICRO
