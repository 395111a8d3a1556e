"""What is kept and asked for is billed by topic and whole day, each day once, and proven as far as it can be."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from billing import focus_exports, import_actions, measured, price_actions, queries
from billing.models import BillingEntry, Cut, PartitionWaiver
from billing.running_costs import running_cost
from daemon.data_set_store import FolderStore
from penstock.contract.documents import InvoiceDocument, plain, read_document
from penstock.rules.rating import PriceBook
from penstock.verification.commitments import Commitments
from penstock.verification.findings import Kind
from penstock.verification.measured_check import check_measured
from tenants.models import Tenant
from tests.control_plane.billing.world import TESTER, Part, World, topic_id

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
KEPT, MINUTES = "retained_byte_minutes", "partition_minutes"


def book(version: int, *meters: str) -> dict[str, Any]:
    return {
        "format": 2,
        "name": "measured",
        "version": version,
        "currency": "USD",
        "minor_digits": 6,
        "meters": [
            {
                "meter": meter,
                "unit": "unit",
                "unit_size": 100,
                "free": 0,
                "model": "unit",
                "tiers": [{"up_to": None, "unit_price": "1"}],
            }
            for meter in ("bytes_in", *meters)
        ],
    }


def world(folder: Path, *meters: str) -> tuple[World, Tenant]:
    """A tenant of ten days whose prices have these meters."""
    made = World(folder, priced=False)
    price_actions.publish_price_book(
        TESTER, document=book(1, *meters), effective_from=price_actions.BEGINNING, now=datetime.now(UTC)
    )
    return made, made.tenant("acme", age=datetime.now(UTC) - (TODAY - 10 * DAY))


def period(made: World, tenant: Tenant, end: datetime, first: int, size: int = 100) -> Cut:
    """One that ends then, with one message."""
    part = Part(first=first, end=first + 1, size=size, day=(end - DAY).date())
    cut = made.cut(tenant, [part], end=end)
    made.covered(cut, [part])
    return cut


def document_of(cut: Cut) -> InvoiceDocument:
    entry = BillingEntry.objects.get(kind="invoice", object_id=cut.invoice.public_id)
    return read_document(entry.document, InvoiceDocument, "invoice")


def rows(cut: Cut) -> list[tuple[str, str, int, int]]:
    """Meter, topic, days before today and quantity of what the invoice bills."""
    found = document_of(cut).measured
    assert isinstance(found, tuple)
    return [(one.meter, one.topic, (TODAY.date() - one.day).days, one.quantity) for one in found]


def day(back: int) -> date:
    return (TODAY - back * DAY).date()


def test_whole_days_are_billed_once_and_what_comes_late_with_the_next_invoice(tmp_path: Path) -> None:
    made, tenant = world(tmp_path, KEPT, "requests")
    made.day(tenant, "orders", day(9), KEPT, 700)
    made.day(tenant, "orders", day(6), KEPT, 300)
    made.day(tenant, "orders", day(5), KEPT, 11)
    made.day(tenant, "orders", day(9), MINUTES, 5_000)
    first = period(made, tenant, TODAY - 5 * DAY + timedelta(hours=3), 0)
    made.spark()
    made.bill()
    assert rows(first) == [(KEPT, "orders", 9, 700), (KEPT, "orders", 6, 300)], "not the day that goes on"
    lines = {line.meter: (line.quantity, line.amount_micro) for line in first.invoice.lines.all()}
    assert lines == {"bytes_in": (100, 10**6), KEPT: (1_000, 10**7), "requests": (0, 0)}
    focus = list(
        focus_exports.rows(tenant, issuer="Us", first=None, end=None, invoice=first.invoice.public_id)
    )
    assert sum(Decimal(row["BilledCost"]) for row in focus) * 10**6 == first.invoice.total_micro
    assert [
        (row["ResourceName"], row["ChargePeriodStart"][:10], row["ConsumedQuantity"], row["ConsumedUnit"])
        for row in focus
        if row["SkuId"] == KEPT
    ] == [
        ("orders", day(9).isoformat(), "700", "B-Minutes"),
        ("orders", day(6).isoformat(), "300", "B-Minutes"),
    ]
    shown = queries.usage(tenant, by=[], first=None, end=None)[0]["meters"]
    assert shown[KEPT] == {"quantity": 1_011, "billed": 1_000, "provisional": 11}
    assert shown[MINUTES] == {"quantity": 5_000, "billed": 0, "provisional": 5_000}

    made.day(tenant, "orders", day(9), KEPT, 50)  # a late reading
    made.day(tenant, "orders", day(6), KEPT, -20)  # and one by which less was kept
    made.day(tenant, "orders", day(5), KEPT, 400)
    second = period(made, tenant, TODAY - 2 * DAY, 1)
    third = period(made, tenant, TODAY - DAY, 2)
    made.spark()
    made.bill()
    assert rows(second) == [(KEPT, "orders", 9, 30), (KEPT, "orders", 5, 411)]
    assert rows(third) == []
    prices = PriceBook.read(book(1, KEPT, "requests"))
    before: dict[Cut, tuple[InvoiceDocument, ...]] = {first: (), second: (document_of(first),)}
    for cut, earlier in before.items():
        nothing_kept = Commitments(tenant=tenant.public_id, cuts=())
        found = list(check_measured(document_of(cut), prices, {}, nothing_kept, partial(tuple, earlier)))
        assert [(one.kind, one.where) for one in found] == [(Kind.UNPROVEN, f"line {KEPT}")]
    assert queries.usage(tenant, by=[], first=None, end=None)[0]["meters"][KEPT]["billed"] == 1_441


def test_a_day_that_comes_again_under_another_name_of_its_topic_is_billed_once(tmp_path: Path) -> None:
    made, tenant = world(tmp_path, KEPT)
    for back, quantity in ((9, 700), (8, 300)):
        made.day(tenant, "orders", day(back), KEPT, quantity)
    first = period(made, tenant, TODAY - 5 * DAY, 0)
    made.spark()
    made.bill()
    assert rows(first) == [(KEPT, "orders", 9, 700), (KEPT, "orders", 8, 300)]
    for row in made.rows["usage_day"]:  # a late reading by which it was renamed before that day
        if (row["meter"], row["day"]) == (KEPT, day(9)):
            row["topic"] = "restored"
    made.day(tenant, "orders", day(8), KEPT, -40)
    here = {"topic_id": topic_id("orders"), "topic": "restored", "partitions": 1, "tenant": tenant.public_id}
    of_day_4 = {**here, "day": day(4), "meter": KEPT, "quantity": 5}
    made.rows["usage_day"] += [{**here, "day": day(8), "meter": KEPT, "quantity": 50}, of_day_4]
    second = period(made, tenant, TODAY - 3 * DAY, 1)
    made.spark()
    made.bill()
    assert rows(second) == [(KEPT, "restored", 8, 10), (KEPT, "restored", 4, 5)]
    of_day_4["quantity"] = 2  # less was kept, which later days pay back under either name
    made.day(tenant, "orders", day(3), KEPT, 4)
    third = period(made, tenant, TODAY - DAY, 2)
    made.spark()
    made.bill()
    assert rows(third) == [(KEPT, "orders", 3, 1)]


def test_what_is_left_of_a_day_under_two_other_names_is_billed_under_one_of_them(tmp_path: Path) -> None:
    made, tenant = world(tmp_path, KEPT)
    made.day(tenant, "orders", day(9), KEPT, 700)
    period(made, tenant, TODAY - 5 * DAY, 0)
    made.spark()
    made.bill()
    (row,) = [row for row in made.rows["usage_day"] if (row["meter"], row["day"]) == (KEPT, day(9))]
    row |= {"topic": "restored", "quantity": 500}
    made.rows["usage_day"].append(row | {"topic": "restored again", "quantity": 400})
    second = period(made, tenant, TODAY - DAY, 1)
    made.spark()
    made.bill()
    assert [(back, quantity) for _, _, back, quantity in rows(second)] == [(9, 200)], (
        "900 less what was billed"
    )


def test_days_from_before_a_meter_had_a_price_are_never_billed(tmp_path: Path) -> None:
    made, tenant = world(tmp_path)
    made.day(tenant, "orders", day(9), KEPT, 700)
    first = period(made, tenant, TODAY - 5 * DAY, 0)
    made.spark()
    made.bill()
    assert "measured" not in plain(document_of(first)), "as it was before there were such meters"
    now = datetime.now(UTC)
    price_actions.publish_price_book(TESTER, document=book(2, KEPT), effective_from=now, now=now)
    second = period(made, tenant, TODAY - 3 * DAY, 1)
    made.spark()
    made.bill()
    assert "measured" not in plain(document_of(second))
    priced = PriceBook.read(book(2, KEPT))
    made.day(tenant, "orders", day(2), KEPT, 40)
    made.spark()
    made.bill()
    due = measured.due_days(tenant, measured.measured_meters(priced), TODAY - 3 * DAY, TODAY.date())
    assert [(one.day, one.quantity) for one in due] == [(day(2), 40)]
    assert measured.due_sums(tenant, [KEPT], TODAY - 3 * DAY, TODAY.date()) == {KEPT: 40}


def test_the_running_period_costs_what_was_kept_so_far_today_too(tmp_path: Path) -> None:
    made, tenant = world(tmp_path, KEPT)
    made.day(tenant, "orders", day(9), KEPT, 700)
    made.day(tenant, "orders", day(0), KEPT, 55)
    made.spark()
    made.bill()
    price_actions.begin_chain(tenant)
    cost = running_cost(tenant, datetime.now(UTC))
    assert cost is not None
    assert {line.meter: line.quantity for line in cost.rated.lines} == {"bytes_in": 0, KEPT: 755}


def test_a_period_that_ends_within_a_day_leaves_all_of_that_day_to_the_next_one(tmp_path: Path) -> None:
    made, tenant = world(tmp_path, MINUTES)
    made.day(tenant, "orders", day(1), MINUTES, 1_440)
    made.day(tenant, "orders", day(0), MINUTES, 1_759)
    cut = period(made, tenant, TODAY, 0)
    made.spark()
    made.bill()
    assert rows(cut) == [(MINUTES, "orders", 1, 1_440)], "to the period's last minute"
    cost = running_cost(tenant, datetime.now(UTC))
    assert cost is not None
    assert {line.meter: line.quantity for line in cost.rated.lines}[MINUTES] == 1_759
    within = period(made, tenant, datetime.now(UTC), 1)
    made.spark()
    made.bill()
    assert rows(within) == [], "the day goes on"
    cost = running_cost(tenant, datetime.now(UTC))
    assert cost is not None
    assert {line.meter: line.quantity for line in cost.rated.lines}[MINUTES] == 1_759, (
        "in the next period at once"
    )


def test_what_was_billed_too_much_is_taken_off_however_long_ago_it_was(tmp_path: Path) -> None:
    made, tenant = world(tmp_path, KEPT)
    Tenant.objects.filter(pk=tenant.pk).update(created_at=TODAY - 400 * DAY)
    for back, quantity in ((390, 300), (310, 700), (220, 40)):
        made.day(tenant, "orders", day(back), KEPT, quantity)
    made.day(tenant, "others", day(310), KEPT, 60)
    first, second = period(made, tenant, TODAY - 300 * DAY, 0), period(made, tenant, TODAY - 200 * DAY, 1)
    made.spark()
    made.bill()
    assert [len(rows(cut)) for cut in (first, second)] == [3, 1]
    made.day(tenant, "orders", day(310), KEPT, -200)  # a loss was declared
    for back, quantity in ((160, 150), (2, 90)):
        made.day(tenant, "orders", day(back), KEPT, quantity)
    made.day(tenant, "others", day(160), KEPT, 5)
    made.spark("usage_day")
    import_actions.import_data_sets(FolderStore(made.datasets))
    for begins in (TODAY - 200 * DAY, TODAY - 90 * DAY, TODAY - 160 * DAY):
        due = measured.due_days(tenant, [KEPT], begins, TODAY.date())
        assert measured.due_sums(tenant, [KEPT], begins, TODAY.date()) == measured.sums(due), begins
    third, fourth = period(made, tenant, TODAY - 90 * DAY, 2), period(made, tenant, TODAY, 3)
    made.spark()
    made.bill()
    assert rows(third) == [(KEPT, "others", 160, 5)]
    assert rows(fourth) == [(KEPT, "orders", 2, 40)], "50 of 200 were left"


def test_an_invoice_bills_as_much_as_a_line_holds_and_the_next_one_the_rest(tmp_path: Path) -> None:
    made, tenant = world(tmp_path, KEPT, MINUTES)
    made.day(tenant, "orders", day(9), KEPT, measured.LINE_MAX - 10)
    made.day(tenant, "orders", day(8), KEPT, 25)
    made.day(tenant, "others", day(9), KEPT, 7)
    made.day(tenant, "others", day(9), MINUTES, 7)
    made.spark()
    made.bill()
    begins = TODAY - 10 * DAY
    due = measured.due_days(tenant, [KEPT, MINUTES], begins, TODAY.date())
    assert [(one.topic, one.meter, one.quantity) for one in due] == [
        ("others", MINUTES, 7), ("orders", KEPT, measured.LINE_MAX - 10), ("orders", KEPT, 10),
    ]  # fmt: skip
    assert measured.sums(due)[KEPT] == measured.LINE_MAX
    assert measured.due_sums(tenant, [KEPT, MINUTES], begins, TODAY.date()) == measured.sums(due)


def test_what_the_running_period_costs_is_summed_up_by_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, tenant = world(tmp_path, KEPT, MINUTES)
    for topic in range(5):
        made.day(tenant, f"topic-{topic}", day(8), KEPT, 10)
    period(made, tenant, TODAY - 5 * DAY, 0)
    made.spark()
    made.bill()
    for topic in range(5):
        for back in (3, 2, 0):
            made.day(tenant, f"topic-{topic}", day(back), KEPT, 100)
    made.day(tenant, "topic-0", day(8), KEPT, 7)  # it came late
    made.day(tenant, "topic-new", day(7), KEPT, 3)  # so did all of this
    made.spark("usage_day")
    import_actions.import_data_sets(FolderStore(made.datasets))
    begins, end = TODAY - 5 * DAY, TODAY.date() + DAY
    asked: list[Any] = []
    exact = measured.due_days

    def due_days(*args: Any, **more: Any) -> list[measured.DueDay]:
        asked.append(more.get("topics"))
        return exact(*args, **more)

    monkeypatch.setattr(measured, "due_days", due_days)
    assert measured.due_sums(tenant, [KEPT, MINUTES], begins, end) == {KEPT: 5 * 300 + 10}
    assert [sorted(topics) for topics in asked] == [sorted((topic_id("topic-0"), topic_id("topic-new")))]
    PartitionWaiver.objects.create(
        tenant=tenant, topic_id=topic_id("topic-1"), partition=0, from_cut=Cut.objects.get(), reason="x", actor="x",
    )  # fmt: skip
    assert measured.due_sums(tenant, [KEPT], begins, end) == {KEPT: 4 * 300 + 10}
    monkeypatch.setattr(measured, "_APART_MAX", 0)
    assert measured.due_sums(tenant, [KEPT], begins, end) == {KEPT: 4 * 300 + 10} and asked[-1] is None


def test_requests_and_connections_are_of_no_topic_and_deliveries_to_other_zones_of_one(
    tmp_path: Path,
) -> None:
    made, tenant = world(tmp_path, "requests", "connection_ms", "bytes_out_other_zone")
    made.day(tenant, "", day(6), "connection_ms", 90_500)
    made.day(tenant, "orders", day(6), "bytes_out_other_zone", 300)
    made.day(tenant, "", day(6), "requests", 12)
    cut = period(made, tenant, TODAY - 5 * DAY, 0)
    for row in made.rows["usage_day"]:
        row["topic_id"] = topic_id("orders") if row["topic"] else ""
    made.spark()
    made.bill()
    assert rows(cut) == [
        ("bytes_out_other_zone", "orders", 6, 300),
        ("connection_ms", "", 6, 90_500),
        ("requests", "", 6, 12),
    ]
    focus = list(focus_exports.rows(tenant, issuer="Us", first=None, end=None, invoice=cut.invoice.public_id))
    named = ("SkuId", "ConsumedQuantity", "ConsumedUnit", "PricingQuantity", "PricingUnit")
    shown = [tuple(row[name] for name in named) for row in focus if row["ConsumedUnit"] != "Requests"][1:]
    assert shown == [
        ("connection_ms", "90.5", "Seconds", "905", "0.1 Seconds"),
        ("bytes_out_other_zone", "300", "B", "3", "100 B"),
    ]
    assert queries.line_evidence(cut.invoice)["requests"] == [
        {"topic": "", "topic_id": "", "day": day(6).isoformat(), "quantity": 12}
    ]


def test_of_a_topic_with_a_waived_partition_nothing_more_is_billed(tmp_path: Path) -> None:
    made, tenant = world(tmp_path, KEPT)
    made.day(tenant, "orders", day(6), KEPT, 700)
    made.day(tenant, "returns", day(6), KEPT, 5)
    cut = period(made, tenant, TODAY - 5 * DAY, 0)
    PartitionWaiver.objects.create(
        tenant=tenant, topic_id=topic_id("orders"), partition=7, from_cut=cut, reason="lost", actor="test"
    )
    made.spark()
    made.bill()
    assert rows(cut) == [(KEPT, "returns", 6, 5)]
