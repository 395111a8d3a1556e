"""A topic's usage and cost by partition add up to the topic's, and a tenant sees its own partitions alone."""

import dataclasses
import random
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing import (
    cost_answers,
    cost_reports,
    data_set_rows,
    leaderless_partitions,
    partition_costs,
    partition_usage,
    service_level_pdf,
    service_level_reports,
)
from billing.cost_reports import Asked, CostRow, Report
from billing.models import UsageDay
from control_plane import config
from daemon.data_set_store import FolderStore, StoreUnavailable
from penstock.contract.errors import BrokerUnavailable, InvalidRequest
from penstock.rules.cost_rows import as_csv
from tenants.roles import Standing
from tests.control_plane.billing.publishing import Bucket, publish_windows
from tests.control_plane.billing.world import TODAY, Part, World, topic_id
from tests.control_plane.world import House, call, make_house

YESTERDAY = TODAY - timedelta(days=1)
PARTS = (
    Part(topic="orders", first=0, end=3_001, size=300_000, day=YESTERDAY),
    Part(topic="orders", first=3_001, end=9_000, size=1_234_567, day=TODAY),
)
RANGE = {"first": TODAY - timedelta(days=3), "end": TODAY + timedelta(days=1), "topic": "orders"}


def used(house: House, day: date, partition: int, meter: str, quantity: int, **more: Any) -> dict[str, Any]:
    moment = datetime(day.year, day.month, day.day, 7, tzinfo=UTC)
    row = {"tenant": house.tenant.public_id, "topic_id": topic_id("orders"), "topic": "orders"}
    beside = {"log_generation": 1, "hour": moment, "principal": 0, "group": ""}
    return {**row, **beside, "partition": partition, "meter": meter, "quantity": quantity, **more}


def published(world: World, rows: dict[date, list[dict[str, Any]]]) -> None:
    publish_windows(world.datasets, "usage_hour", {f"{day:%Y-%m-%d}": of for day, of in rows.items()})


@pytest.fixture
def house(world: World) -> House:
    """An issued invoice of one topic, whose partitions 0, 2 and 10 are known, but for a part of today's."""
    made, other = make_house("acme"), make_house("other")
    cut = world.cut(made.tenant, PARTS)
    world.covered(cut, PARTS)
    world.day(made.tenant, "orders", TODAY, "messages_in", 500)
    world.spark()
    world.bill()
    published(
        world,
        {
            YESTERDAY: [
                used(made, YESTERDAY, 0, "messages_in", 3_000),
                used(made, YESTERDAY, 10, "messages_in", 1),
                used(made, YESTERDAY, 0, "bytes_in", 300_000),
                used(other, YESTERDAY, 99, "messages_in", 77),
            ],
            TODAY: [
                used(made, TODAY, 2, "messages_in", 3_000),
                used(made, TODAY, 2, "messages_in", 2_000, principal=7),
                used(made, TODAY, 2, "bytes_in", 1_234_567),
                used(made, TODAY, 9, "messages_in", 4, topic="clicks"),
            ],
        },
    )
    return made


def asked(*by: str, **more: Any) -> Asked:
    values: dict[str, Any] = {**RANGE, "by": by, **more}
    return Asked(**values)


def answered(world: World, house: House, *by: str, **more: Any) -> Report:
    return cost_answers.answered(
        house.tenant, asked(*by, **more), None, datetime.now(UTC), lambda: FolderStore(world.datasets)
    )


def messages(found: Report) -> dict[tuple[str, ...], int]:
    return {tuple(row.values.values()): row.meters.get("messages_in", 0) for row in found.rows}


def test_partitions_add_up_to_the_topic_to_the_micro_unit(world: World, house: House) -> None:
    whole, found = answered(world, house), answered(world, house, "partition")
    assert messages(found) == {("",): 1_499, ("0",): 3_000, ("2",): 5_000, ("10",): 1}
    assert [row.values["partition"] for row in found.rows] == ["", "0", "2", "10"], "as numbers"
    assert found.total.cost_micro == whole.total.cost_micro > 0
    assert found.total.meters == whole.total.meters
    assert found.total.provisional_micro == whole.total.provisional_micro
    for by in (("day", "partition"), ("partition", "meter"), ("month", "partition")):
        divided = answered(world, house, *by)
        assert divided.total.cost_micro == whole.total.cost_micro, by
        assert divided.total.meters == whole.total.meters, by
    by_day = messages(answered(world, house, "day", "partition"))
    assert by_day[YESTERDAY.isoformat(), "0"] == 3_000 and (TODAY.isoformat(), "0") not in by_day
    by_month = messages(answered(world, house, "month", "partition"))
    assert by_month[f"{YESTERDAY:%Y-%m}", "0"] == 3_000
    costs = {row.values["partition"]: row.cost_micro for row in found.rows}
    only = answered(world, house, partition="2")
    assert only.total.cost_micro == costs["2"] > costs["10"] >= 0


def test_a_partitions_days_add_up_and_rows_are_bounded(
    world: World, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(
        world,
        {
            YESTERDAY: [used(house, YESTERDAY, 0, "messages_in", 100)],
            TODAY: [used(house, TODAY, number, "messages_in", 20) for number in range(30)],
        },
    )
    assert messages(answered(world, house, "partition"))["0",] == 120
    monkeypatch.setattr(cost_reports, "CELLS_MAX", 20)
    with pytest.raises(InvalidRequest, match="more than 20 rows"):
        answered(world, house, "partition")


def test_every_amount_of_a_row_is_kept_however_it_is_divided() -> None:
    chance = random.Random(1)
    for _ in range(300):
        used_by = {str(number): chance.randrange(10**6) for number in range(chance.randrange(5))}
        row = CostRow(
            values={"meter": "bytes_in"},
            meters={"bytes_in": chance.choice([0, 1, 10**6])},
            usage_micro=chance.randrange(-(10**9), 10**9),
            charges_micro=chance.randrange(-5, 5),
            provisional_micro=chance.randrange(10**9),
        )
        sums = CostRow(values={})
        for part in partition_costs._divided(row, used_by).values():
            sums.add(part)
        assert sums == dataclasses.replace(
            row, values={}, meters={name: one for name, one in row.meters.items() if one}
        )


def test_only_the_days_that_are_asked_for_are_read_and_no_more_than_an_answer_may_fetch(
    world: World, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def days(store: Any, end: date = TODAY) -> set[date]:
        found = partition_usage.of_topic(lambda: store, house.tenant.public_id, "orders", YESTERDAY, end)
        return {one.day for one in found}

    bucket = Bucket(world.datasets)
    assert days(FolderStore(world.datasets)) == days(bucket) == {YESTERDAY}
    largest = max(file.stat().st_size for file in (world.datasets / "usage_hour").glob("run=*/*.parquet"))
    monkeypatch.setattr(data_set_rows, "FETCHED_BYTES_MAX", largest)
    assert days(bucket) == {YESTERDAY}
    with pytest.raises(InvalidRequest, match=r"of these 2 days is .* name fewer days"):
        days(bucket, TODAY + timedelta(days=1))
    monkeypatch.setattr(data_set_rows, "FETCHED_BYTES_MAX", 1)
    with pytest.raises(InvalidRequest, match=f"usage of {YESTERDAY} is .*; ask without partitions"):
        days(bucket)


def test_more_in_the_data_set_than_by_topic_is_divided_in_its_proportions(world: World, house: House) -> None:
    published(
        world,
        {TODAY: [used(house, TODAY, 1, "messages_in", 30_000), used(house, TODAY, 3, "messages_in", 10_000)]},
    )
    found = answered(world, house, "partition", first=TODAY, meter="messages_in")
    assert messages(found) == {("1",): 6_499 * 3 // 4 + 0, ("3",): 6_499 - 6_499 * 3 // 4}


def test_what_has_no_partition_is_refused_and_what_is_not_there_is_not_known(
    world: World, house: House
) -> None:
    for more, text in (
        ({"topic": None}, "a partition is one of a topic"),
        ({"principal": "user:x"}, "known by topic"),
        ({"by": ("partition", "group")}, "known by topic"),
        ({"partition": "-1"}, "a number required"),
        ({"partition": "٣"}, "a number required"),
    ):
        with pytest.raises(InvalidRequest, match=text):
            asked(**{"by": ("partition",), **more})
    assert answered(world, house, "partition", topic="nothing").rows == []
    empty = cost_answers.answered(
        house.tenant,
        asked("partition"),
        None,
        datetime.now(UTC),
        lambda: FolderStore(world.datasets / "none"),
    )
    assert [row.values["partition"] for row in empty.rows] == [""] and empty.total.cost_micro > 0
    for file in (world.datasets / "usage_hour").glob("run=*/*.parquet"):
        file.unlink()
    with pytest.raises(BrokerUnavailable, match="cannot be read now"):
        answered(world, house, "partition")


def test_ten_thousand_partitions_take_no_more_queries_than_one(world: World, house: House) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as counted:
            answered(world, house, "partition")
        return len(counted)

    few = queries()
    published(world, {TODAY: [used(house, TODAY, number, "messages_in", 1) for number in range(10_000)]})
    assert queries() == few
    assert len(answered(world, house, "partition").rows) == 10_001, "and what is of none"


def test_time_without_a_leader_is_read_by_partition_of_the_days_that_have_any(
    world: World, house: House
) -> None:
    """The topic is restored under another name on the second day."""
    published(
        world,
        {
            YESTERDAY: [used(house, YESTERDAY, 4, "leaderless_ms", 9_000)],
            TODAY: [
                used(house, TODAY, 4, "leaderless_ms", 1_000, topic="archive"),
                used(house, TODAY, 5, "leaderless_ms", 2_500, topic="archive"),
                used(make_house("third"), TODAY, 6, "leaderless_ms", 7),
            ],
        },
    )
    # On the first of a month too, it was there in the month of yesterday.
    house.tenant.created_at = datetime.now(UTC) - timedelta(days=2)
    house.tenant.save(update_fields=["created_at"])
    tenant = house.tenant.public_id
    found = {
        (one.day, one.partition): one.quantity
        for one in partition_usage.without_a_leader(lambda: FolderStore(world.datasets), tenant, [TODAY])
    }
    assert found == {(TODAY, 4): 1_000, (TODAY, 5): 2_500}
    assert partition_usage.without_a_leader(lambda: FolderStore(world.datasets), tenant, []) == []
    for day, name, seconds in ((YESTERDAY, "orders", 9), (TODAY, "archive", 3)):
        world.day(house.tenant, name, day, "leaderless_ms", seconds * 1_000, of=topic_id("orders"))
    world.spark("usage_day")
    world.bill()
    month = f"{YESTERDAY:%Y-%m}"
    now = datetime.now(UTC)
    report = service_level_reports.month_report(house.tenant, month, now)
    assert report.leaderless and report.leaderless_partitions == ()
    shown = leaderless_partitions.with_partitions(house.tenant, report, lambda: FolderStore(world.datasets))
    same = YESTERDAY.month == TODAY.month
    known = [(one.partition, one.seconds) for one in shown.leaderless_partitions or ()]
    assert known == ([(4, 10), (5, 2)] if same else [(4, 9)])
    assert f"{'archive' if same else 'orders'}-4</td>" in service_level_pdf.report_page(
        house.tenant, shown, "Penstock"
    )

    def away() -> FolderStore:
        raise StoreUnavailable("no answer")

    assert leaderless_partitions.with_partitions(house.tenant, report, away).leaderless_partitions is None


def test_partitions_without_a_leader_are_of_the_month_the_tenant_and_one_topic_each(world: World) -> None:
    house, other = make_house("acme"), make_house("other")
    middle, last, after = date(2026, 1, 15), date(2026, 1, 31), date(2026, 2, 1)
    most = leaderless_partitions.PARTITIONS_MAX
    made_again = topic_id("orders, made again")
    published(
        world,
        {
            middle: [used(house, middle, 0, "leaderless_ms", 10**6)],
            last: [
                *(
                    used(house, last, number, "leaderless_ms", (number + 1) * 1_000)
                    for number in range(most + 2)
                ),
                used(house, last, 1, "leaderless_ms", 999_000, topic_id=made_again),
            ],
            after: [used(house, after, 0, "leaderless_ms", 10**6)],
        },
    )
    for tenant, day in ((other.tenant, middle), (house.tenant, last), (house.tenant, after)):
        UsageDay.objects.create(
            tenant=tenant,
            topic_id=topic_id("orders"),
            topic="orders",
            day=day,
            meter="leaderless_ms",
            quantity=1,
        )
    report = service_level_reports.month_report(house.tenant, f"{TODAY:%Y-%m}", datetime.now(UTC))
    january = dataclasses.replace(
        report,
        document=msgspec.structs.replace(report.document, month="2026-01"),
        leaderless=cast(Any, ("some",)),
    )
    shown = leaderless_partitions.with_partitions(house.tenant, january, lambda: FolderStore(world.datasets))
    found = shown.leaderless_partitions
    assert found is not None and len(found) == most and shown.leaderless_partitions_more == 3
    assert [(one.partition, one.seconds) for one in found[:3]] == [
        (1, 999),
        (most + 1, most + 2),
        (most, most + 1),
    ]
    assert found[0].topic_id == made_again != found[1].topic_id
    for file in (world.datasets / "usage_hour").glob("run=*/*.parquet"):
        file.unlink()
    away = leaderless_partitions.with_partitions(house.tenant, january, lambda: FolderStore(world.datasets))
    assert away.leaderless_partitions is None


def test_rest_and_the_console_show_partitions(
    world: World, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = msgspec.structs.replace(config.current(), datasets=world.datasets)
    monkeypatch.setattr(config, "current", lambda: changed)
    given = f"from={RANGE['first']}&topic=orders&by=partition"
    answer = call("GET", f"/v1/costs?{given}", token=house.credentials[Standing.OWNER])
    assert answer.status == 200, answer.body
    rows = answer.body["items"]
    assert [row["partition"] for row in rows] == [None, 0, 2, 10]
    assert sum(row["cost_micro"] for row in rows) == answer.body["total"]["cost_micro"]
    first = call("GET", f"/v1/costs?{given}&limit=2", token=house.credentials[Standing.OWNER]).body
    rest = call(
        "GET", f"/v1/costs?{given}&limit=2&cursor={first['next']}", token=house.credentials[Standing.OWNER]
    ).body
    assert first["items"] + rest["items"] == rows
    lines = [line.split(",")[:3] for line in as_csv(["partition"], "USD", rows)]
    assert lines[1:3] == [["", "0", "1499"], ["0", "300000", "3000"]]
