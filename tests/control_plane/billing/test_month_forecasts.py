"""A tenant's month: forecast, its cost, anomalies with their topics, and the month by another book, by REST."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from billing import month_forecasts, price_actions
from billing.forecasting import Basis
from billing.models import Cut, CutUsage, DataSetRun, DataSetState, Invoice, PriceBook, UsageDay
from billing.terms_actions import change_terms
from penstock.rules import rating
from penstock.rules.meters import BYTES_OTHER_ZONE
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane.billing.test_terms import terms
from tests.control_plane.billing.world import STANDARD_1, TESTER, Part, World, topic_id
from tests.control_plane.world import Answer, House, call, make_house

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.fixture
def acme(world: World) -> Tenant:
    return made(world, "acme")


def made(world: World, name: str, age_days: int = 400) -> Tenant:
    tenant = world.tenant(name)
    Tenant.objects.filter(pk=tenant.pk).update(created_at=NOW - timedelta(days=age_days))
    tenant.refresh_from_db()
    return tenant


def used(
    tenant: Tenant, day: date, messages: int, size: int | None = None, topic: str = "orders", of: str = ""
) -> None:
    """`of`: the name from which the topic's id is made; empty: its own."""
    UsageDay.objects.bulk_create(
        UsageDay(
            tenant=tenant, topic_id=topic_id(of or topic), topic=topic, day=day, meter=meter, quantity=quantity
        )
        for meter, quantity in (("messages_in", messages), ("bytes_in", messages * 100 if size is None else size))
    )  # fmt: skip


def used_evenly(tenant: Tenant, days: int, messages: int = 1000, until: datetime = NOW) -> None:
    for back in range(1, days + 1):
        used(tenant, until.date() - timedelta(days=back), messages)


def meters(found: month_forecasts.MonthForecast) -> dict[str, month_forecasts.MeterForecast]:
    return {one.meter: one for one in found.meters}


def other_book(**changes: Any) -> PriceBook:
    dear = [
        {**meter, "tiers": [{"up_to": None, "unit_price": "0.010000000000"}]}
        for meter in STANDARD_1["meters"]
    ]
    return price_actions.publish_price_book(
        TESTER,
        document={**STANDARD_1, "name": "dear", "version": 1, "meters": dear, **changes},
        effective_from=timezone.now() + timedelta(days=300),
        now=timezone.now(),
    )


# -- the forecast -------------------------------------------------------------------------------------------


def test_the_month_is_what_was_used_and_what_is_to_come_of_today_and_the_days_after_it(acme: Tenant) -> None:
    used_evenly(acme, 60)
    used(acme, NOW.date(), 400)
    found = month_forecasts.month_forecast(acme, NOW)
    assert (found.begins, found.ends) == (
        datetime(2026, 11, 1, tzinfo=UTC),
        datetime(2026, 12, 1, tzinfo=UTC),
    )
    one = meters(found)["messages_in"]
    assert one.so_far == 15 * 1000 + 400
    assert one.total.low == one.total.expected == one.total.high == 15_400 + 500 + 14 * 1000
    assert one.coming.basis is Basis.LEVEL and found.is_tested


def test_the_cost_is_that_of_an_invoice_over_the_same_quantities(acme: Tenant) -> None:
    used_evenly(acme, 60, messages=1_000_000)
    found = month_forecasts.month_forecast(acme, NOW)
    assert found.cost is not None
    assert found.cost.expected.rated == rating.rate(found.cost.book, found.expected)
    assert found.cost.expected.total_micro == found.cost.expected.rated.total_micro > 0
    low, expected, high = (getattr(found.cost, name).total_micro for name in ("low", "expected", "high"))
    assert low <= expected <= high


def test_cost_by_day_ends_where_the_forecast_does_and_never_falls(acme: Tenant) -> None:
    used_evenly(acme, 60, messages=1_000_000)
    found = month_forecasts.month_forecast(acme, NOW)
    assert found.cost is not None
    days = found.cost.days
    assert [one.day for one in days] == [date(2026, 11, number) for number in range(1, 31)]
    assert [one.is_over for one in days] == [one.day < NOW.date() for one in days]
    last, cost = days[-1], found.cost
    totals = (cost.low.total_micro, cost.expected.total_micro, cost.high.total_micro)
    assert (last.low_micro, last.expected_micro, last.high_micro) == totals
    expected = [one.expected_micro for one in days]
    assert expected == sorted(expected) and expected[0] > 0


def test_discounts_credit_and_tax_of_the_tenant_are_in_the_cost(world: World, acme: Tenant) -> None:
    used_evenly(acme, 60, messages=1_000_000)
    plain = month_forecasts.month_forecast(acme, NOW)
    change_terms(TESTER, acme.public_id, terms=terms(), price_book_sha256=None, now=NOW - timedelta(days=50))
    world.cut(acme, [], end=datetime(2026, 11, 1, tzinfo=UTC))
    found = month_forecasts.month_forecast(acme, NOW)
    assert found.cost is not None and plain.cost is not None
    assert found.cost.expected.charged.charges != ()
    assert found.cost.expected.rated.lines == plain.cost.expected.rated.lines


def test_a_new_tenant_has_a_run_rate_and_it_says_so(world: World) -> None:
    new = made(world, "new", age_days=6)
    used_evenly(new, 5)
    found = month_forecasts.month_forecast(new, NOW)
    assert found.begins == NOW - timedelta(days=6)
    one = meters(found)["messages_in"]
    assert (one.coming.basis, one.coming.history_days) == (Basis.RUN_RATE, 4)
    assert one.total.low < one.total.expected < one.total.high
    assert not found.is_tested


def test_a_tenant_that_used_nothing_has_no_meters_and_costs_what_nothing_costs(acme: Tenant) -> None:
    found = month_forecasts.month_forecast(acme, NOW)
    assert found.meters == () and not found.is_tested
    assert found.cost is not None and found.cost.high.total_micro == 0


def test_days_up_to_that_of_the_first_use_are_no_history(acme: Tenant) -> None:
    used_evenly(acme, 15)
    assert meters(month_forecasts.month_forecast(acme, NOW))["messages_in"].coming.history_days == 14


def read_until(day: date, imported_at: datetime) -> None:
    run = {"dataset": "usage_day", "run_id": "a" * 32}
    DataSetRun.objects.create(
        **run, digest="", code_version="", inputs={"read_until": day.isoformat()}, rows=1, skipped=0,
        imported_at=imported_at,
    )  # fmt: skip
    DataSetState.objects.create(**run)


def test_a_day_that_the_pipeline_has_read_in_part_is_not_taken_for_a_whole_one(acme: Tenant) -> None:
    used_evenly(acme, 60, until=NOW - timedelta(days=2))
    partial = NOW.date() - timedelta(days=2)
    used(acme, partial, 250)
    read_until(partial, NOW - timedelta(days=2) - timedelta(hours=6))
    found = meters(month_forecasts.month_forecast(acme, NOW))["messages_in"]
    assert found.coming.history_days == 59
    assert found.so_far == 13 * 1000 + 250
    assert found.total.expected == 13 * 1000 + 250 + 750 + 16 * 1000
    assert month_forecasts.tenant_anomalies(acme, days=31, now=NOW) == []


def test_what_a_closed_part_of_the_month_used_is_not_in_the_running_period(
    world: World, acme: Tenant
) -> None:
    used_evenly(acme, 60)
    world.cut(acme, [], end=datetime(2026, 11, 10, tzinfo=UTC))
    found = month_forecasts.month_forecast(acme, NOW)
    assert found.begins == datetime(2026, 11, 10, tzinfo=UTC)
    assert meters(found)["messages_in"].so_far == 6 * 1000
    assert meters(found)["messages_in"].coming.history_days == 59, "but it is history"


def test_after_a_cut_in_mid_day_what_no_invoice_counts_is_divided_as_messages_are(
    world: World, acme: Tenant
) -> None:
    used_evenly(acme, 60)
    day = date(2026, 11, 10)
    for meter, quantity in (("bytes_out", 5_000), (BYTES_OTHER_ZONE, 400)):
        UsageDay.objects.create(
            tenant=acme, topic_id=topic_id("orders"), topic="orders", day=day, meter=meter, quantity=quantity
        )
    parts = [Part(topic="orders", first=0, end=750, size=75_000, day=day)]
    cut = world.cut(acme, parts, end=datetime(2026, 11, 10, 18, tzinfo=UTC))
    Invoice.objects.filter(cut=cut).update(status="issued", number=1, total_micro=0, issued_at=NOW)
    for meter, quantity in (("messages_in", 750), ("bytes_in", 75_000)):
        CutUsage.objects.create(
            cut=cut, tenant=acme, topic_id=topic_id("orders"), topic="orders", partition=0, log_generation=0, day=day,
            meter=meter, quantity=quantity, first_offset=0, end_offset=750,
        )  # fmt: skip
    found = month_forecasts.month_forecast(acme, NOW)
    assert list(meters(found)) == ["messages_in", "bytes_in", "bytes_out", BYTES_OTHER_ZONE]
    so_far = {name: one.so_far for name, one in meters(found).items()}
    assert so_far == {"messages_in": 5_250, "bytes_in": 525_000, "bytes_out": 1_250, BYTES_OTHER_ZONE: 100}


def test_without_prices_there_is_a_forecast_and_no_cost(db: None) -> None:
    house = make_house("bare")
    assert month_forecasts.month_forecast(house.tenant, NOW).cost is None


def test_the_last_moment_of_a_month_has_a_last_day(acme: Tenant) -> None:
    used_evenly(acme, 60, until=datetime(2026, 12, 31, tzinfo=UTC))
    found = month_forecasts.month_forecast(acme, datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC))
    assert found.ends == datetime(2027, 1, 1, tzinfo=UTC)
    assert [day.day for day in found.meters[0].coming.days] == [date(2026, 12, 31)]


def test_a_month_that_is_closed_while_it_is_looked_at_is_followed_by_the_next(
    world: World, acme: Tenant
) -> None:
    used_evenly(acme, 60)
    ends = datetime(2026, 12, 1, tzinfo=UTC)
    Cut.objects.create(tenant=acme, period_start=ends - timedelta(days=30), period_end=ends)
    found = month_forecasts.month_forecast(acme, ends - timedelta(milliseconds=1))
    assert (found.begins, found.ends) == (ends, datetime(2027, 1, 1, tzinfo=UTC))
    assert found.cost is not None


def test_the_first_day_of_a_period_is_whole_while_the_pipeline_has_read_only_the_day_before(
    acme: Tenant,
) -> None:
    ends = datetime(2026, 12, 1, tzinfo=UTC)
    used_evenly(acme, 60, until=ends)
    read_until(date(2026, 11, 30), ends - timedelta(hours=1))
    Cut.objects.create(tenant=acme, period_start=ends - timedelta(days=30), period_end=ends)
    found = meters(month_forecasts.month_forecast(acme, ends + timedelta(hours=2)))["messages_in"]
    assert found.total.expected == 31 * 1000


@pytest.mark.parametrize("reads", [1, 2])
def test_a_period_that_is_closed_while_its_cost_is_compared_changes_neither_side(
    reads: int, world: World, acme: Tenant
) -> None:
    """Terms that hold for the next period came meanwhile. `reads`: of the newest closed period, before that."""
    used_evenly(acme, 60, messages=1_000_000)
    world.cut(acme, [], end=datetime(2026, 11, 1, tzinfo=UTC))
    change_terms(TESTER, acme.public_id, terms=terms(), price_book_sha256=None, now=NOW - timedelta(days=1))
    row = price_actions.running_prices_of(acme)
    assert row is not None
    book = rating.PriceBook.read(row.document)
    before = month_forecasts.what_if(acme, book, NOW)
    seen: list[str] = []

    def closes(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        found = execute(sql, params, many, context)
        if 'FROM "billing_cut"' in sql and "period_end" in sql:
            seen.append(sql)
            if len(seen) == reads:
                world.cut(acme, [], end=NOW)
        return found

    with connection.execute_wrapper(closes):
        compared = month_forecasts.what_if(acme, book, NOW)
    assert seen
    assert (compared.own_cost, compared.cost) == (before.own_cost, before.cost)
    if len(seen) >= reads:
        after = month_forecasts.what_if(acme, book, NOW)
        assert after.own_cost.charged.charges != before.own_cost.charged.charges, "it would have been seen"


# -- anomalies ----------------------------------------------------------------------------------------------


def test_an_anomaly_names_the_topic_and_whether_there_were_more_messages_or_larger_ones(acme: Tenant) -> None:
    used_evenly(acme, 60)
    used(acme, NOW.date() - timedelta(days=3), 9000, topic="imports")
    used(acme, NOW.date() - timedelta(days=6), 10, size=2_000_000, topic="images")
    found = month_forecasts.tenant_anomalies(acme, days=31, now=NOW)
    named = {((NOW.date() - one.found.day).days, one.meter): one for one in found}
    assert named.keys() == {(3, "messages_in"), (3, "bytes_in"), (6, "bytes_in")}
    many, large = named[3, "bytes_in"], named[6, "bytes_in"]
    part = many.topics[0]
    assert (part.topic, part.quantity, part.mean) == ("imports", 900_000, 0)
    assert "Messages had their usual size; there were 10,000" in many.reason
    assert large.topics[0].topic == "images" and "A message had 2,079 bytes" in large.reason
    assert "expected 1,000" in named[3, "messages_in"].reason
    newest = month_forecasts.tenant_anomalies(acme, days=31, now=NOW, most=1)
    assert newest == [named[3, "messages_in"]]


def test_a_topic_that_fell_silent_is_the_reason_of_a_day_below(acme: Tenant) -> None:
    for back in range(1, 60):
        day = NOW.date() - timedelta(days=back)
        used(acme, day, 100, topic="small")
        if back != 2:
            used(acme, day, 900, topic="large")
            UsageDay.objects.create(tenant=acme, topic="large", day=day, meter=BYTES_OTHER_ZONE, quantity=9)
    found = month_forecasts.tenant_anomalies(acme, days=31, now=NOW)
    assert {one.found.day for one in found} == {NOW.date() - timedelta(days=2)}
    assert [part.topic for part in found[0].topics] == ["large"]
    assert found[0].found.deviations_tenths < 0 and "below" in found[0].reason
    assert {one.meter for one in found} == {"messages_in", "bytes_in"}, "a part of a meter is none of its own"


def test_a_topic_that_was_restored_under_another_name_is_no_new_topic(acme: Tenant) -> None:
    for back in range(1, 60):
        day = NOW.date() - timedelta(days=back)
        used(acme, day, 900, topic="archive" if back < 4 else "large", of="large")
        used(acme, day, 8_000 if back == 2 else 100, topic="small")
    (found, _) = month_forecasts.tenant_anomalies(acme, days=31, now=NOW)
    assert [(part.topic, part.mean) for part in found.topics] == [("small", 10_000)], "large is as it was"


def test_today_and_tenants_with_little_history_have_no_anomalies(world: World, acme: Tenant) -> None:
    used_evenly(acme, 60)
    used(acme, NOW.date(), 10**6)
    new = made(world, "new", age_days=20)
    used_evenly(new, 18)
    used(new, NOW.date() - timedelta(days=1), 10**6, topic="other")
    assert month_forecasts.tenant_anomalies(acme, days=31, now=NOW) == []
    assert month_forecasts.tenant_anomalies(new, days=31, now=NOW) == []


# -- by REST ------------------------------------------------------------------------------------------------


@pytest.fixture
def house(world: World) -> House:
    found = make_house("acme")
    Tenant.objects.filter(pk=found.tenant.pk).update(created_at=timezone.now() - timedelta(days=200))
    found.tenant.refresh_from_db()
    return found


def ask(house: House, rest: str) -> Answer:
    return call("GET", f"/v1/usage/{rest}", token=house.credentials[Standing.OWNER], tenant=house.tenant)


def test_rest_gives_the_forecast_with_its_cost_and_only_of_the_own_tenant(world: World, house: House) -> None:
    used_evenly(house.tenant, 60, until=timezone.now())
    other = made(world, "other")
    used_evenly(other, 60, messages=10**9, until=timezone.now())
    body = ask(house, "forecast").body
    assert (body["interval_percent"], body["history_days_min"], body["too_little_history"]) == (80, 14, False)
    assert [one["meter"] for one in body["meters"]] == ["messages_in", "bytes_in"]
    assert body["meters"][0]["total"]["high"] <= 31_000
    cost = body["cost"]
    assert cost["expected"]["total_micro"] == sum(line["amount_micro"] for line in cost["expected"]["lines"])


def test_rest_names_anomalies_and_refuses_other_days(house: House) -> None:
    used_evenly(house.tenant, 60, until=timezone.now())
    used(house.tenant, timezone.now().date() - timedelta(days=2), 9000, topic="imports")
    body = ask(house, "anomalies?days=7").body
    assert {one["topics"][0]["topic"] for one in body["anomalies"]} == {"imports"}
    assert ask(house, "anomalies?days=1").body["anomalies"] == []
    for days in ("0", "93", "-1", "x", "1.5", "%D9%A3", "9" * 30, "000000001" + "9" * 20):
        assert ask(house, f"anomalies?days={days}").status == 400, days


def test_what_if_compares_the_running_month_line_by_line(house: House) -> None:
    used_evenly(house.tenant, 60, messages=100_000, until=timezone.now())
    book = other_book()
    body = ask(house, f"what-if?price_book_sha256={book.sha256}").body
    assert body["period"] == "running"
    assert body["difference_micro"] == body["preview_micro"] - body["billed_micro"] > 0
    assert sum(line["difference_micro"] for line in body["lines"]) == body["difference_micro"]
    assert body["billed_micro"] == ask(house, "forecast").body["cost"]["expected"]["total_micro"]
    own = price_actions.running_prices_of(house.tenant)
    assert own is not None
    same = ask(house, f"what-if?price_book_sha256={own.sha256}").body
    assert {line["difference_micro"] for line in same["lines"]} == {0}


def test_what_if_in_another_currency_has_no_difference(house: House) -> None:
    used_evenly(house.tenant, 60, until=timezone.now())
    body = ask(house, f"what-if?price_book_sha256={other_book(currency='EUR').sha256}").body
    assert (body["billed_currency"], body["currency"], body["difference_micro"]) == ("USD", "EUR", None)


def test_what_if_of_the_last_invoice_needs_one_and_a_published_book(house: House) -> None:
    book = other_book()
    assert ask(house, f"what-if?price_book_sha256={book.sha256}&period=last").status == 404
    assert ask(house, f"what-if?price_book_sha256={'0' * 64}").status == 404
    assert ask(house, "what-if").status == 400
    assert ask(house, f"what-if?price_book_sha256={book.sha256}&period=next").status == 400


def test_a_reader_without_the_right_to_usage_is_refused(house: House) -> None:
    for rest in ("forecast", "anomalies", "what-if"):
        assert call("GET", f"/v1/usage/{rest}", token="pso_wrong", tenant=house.tenant).status == 401
