"""Usage by hour, minute and principal adds up to that by day, page by page, and a tenant sees its own alone."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import msgspec
import pytest

from billing import data_set_rows, hourly_usage
from control_plane import config
from penstock.contract.errors import InvalidRequest
from spark_usage import gold
from tenants.models import ApiKey
from tenants.roles import Standing
from tests.control_plane.billing.publishing import Bucket, publish_windows
from tests.control_plane.billing.world import TODAY, World, topic_id
from tests.control_plane.world import Answer, House, call, make_house

YESTERDAY = TODAY - timedelta(days=1)
MIDNIGHT = datetime.combine(TODAY, time.min, UTC)
Row = dict[str, Any]


def used(house: House, moment: datetime, meter: str, quantity: int, **more: Any) -> Row:
    """A row of `usage_hour`."""
    row = {
        "tenant": house.tenant.public_id,
        "topic_id": topic_id("orders"),
        "topic": "orders",
        "partition": 0,
    }
    beside = {"log_generation": 1, "hour": moment, "principal": 0, "group": ""}
    return {**row, **beside, "meter": meter, "quantity": quantity, **more}


def minute_row(row: Row) -> Row:
    """The row of `usage_minute` of its first minute."""
    names = ("tenant", "topic_id", "topic", "meter", "quantity")
    return {**{name: row[name] for name in names}, "minute": int(row["hour"].timestamp()) // 60}


def published(world: World, rows: list[Row]) -> None:
    """These rows of `usage_hour`, with their days and minutes."""
    hours: dict[str, list[Row]] = defaultdict(list)
    minutes: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        window = f"{row['hour']:%Y-%m-%d}"
        hours[window].append(row)
        minutes[window].append(minute_row(row))
        house = next(house for house in HOUSES if house.tenant.public_id == row["tenant"])
        world.day(house.tenant, row["topic"], row["hour"].date(), row["meter"], row["quantity"])
    publish_windows(world.datasets, "usage_hour", hours)
    publish_windows(world.datasets, "usage_minute", minutes)
    world.spark("usage_day")
    world.bill()


HOUSES: list[House] = []


@pytest.fixture
def house(world: World, monkeypatch: pytest.MonkeyPatch) -> House:
    """Two days of two topics, two keys and another tenant, by day too."""
    changed = msgspec.structs.replace(config.current(), datasets=world.datasets)
    monkeypatch.setattr(config, "current", lambda: changed)
    made, other = make_house("acme"), make_house("other")
    HOUSES[:] = [made, other]
    key = ApiKey.objects.filter(tenant=made.tenant).order_by("pk")[0]
    key.principal_number = 7
    key.save()
    early, late = MIDNIGHT - timedelta(hours=2), MIDNIGHT + timedelta(hours=1)
    published(
        world,
        [
            used(made, early, "messages_in", 3_000, principal=7),
            used(made, early, "messages_in", 20, partition=1),
            used(made, early, "bytes_in", 300_000, principal=7),
            used(made, late, "messages_in", 5, principal=7),
            used(made, late, "messages_in", 6, principal=99, topic="clicks", topic_id=topic_id("clicks")),
            used(made, late, "requests", 40, topic="", topic_id=""),
            used(made, late, "leaderless_ms", 1_000),
            used(other, early, "messages_in", 77),
        ],
    )
    return made


def ask(house: House, query: str) -> Answer:
    return call("GET", f"/v1/usage?{query}", token=house.credentials[Standing.OWNER])


def items(house: House, query: str) -> list[Row]:
    answer = ask(house, query)
    assert answer.status == 200, answer.body
    found: list[Row] = answer.body["items"]
    return found


def sums(rows: list[Row], *names: str) -> dict[tuple[str, ...], Mapping[str, int]]:
    """By these names -> meter -> quantity."""
    found: dict[tuple[str, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        for meter, numbers in row["meters"].items():
            found[tuple(str(row[name]) for name in names)][meter] += numbers["quantity"]
    return {key: dict(meters) for key, meters in found.items()}


def test_hours_minutes_and_principals_add_up_to_what_days_and_topics_say(house: House) -> None:
    span = f"from={YESTERDAY}&to={TODAY + timedelta(days=1)}"
    by_topic = sums(items(house, f"by=topic&{span}"), "topic")
    whole = sums(items(house, span))
    assert by_topic["orders",]["messages_in"] == 3_025 and whole[()]["requests"] == 40
    for by in ("topic,hour", "hour,topic", "principal,topic", "day,topic,principal", "topic,principal,hour"):
        rows = items(house, f"by={by}&{span}")
        assert sums(rows, "topic") == by_topic, by
        assert sums(rows) == whole, by
    by_day = sums(items(house, f"by=day&{span}"), "day")
    rows = items(house, f"by=hour&{span}")
    assert {(row["hour"][:10],): meters for row in rows for meters in sums([row]).values()} == by_day
    assert [row["hour"] for row in rows] == [f"{YESTERDAY}T22:00:00Z", f"{TODAY}T01:00:00Z"]
    for day in (YESTERDAY, TODAY):
        for by in ("topic,minute", "hour", "principal", "topic,principal", "day,principal"):
            rows = items(house, f"by={by}&from={day}&to={day + timedelta(days=1)}")
            assert sums(rows) == {(): by_day[str(day),]}, (day, by)


@pytest.mark.parametrize(
    "time_of_day", [timedelta(0), timedelta(hours=13), timedelta(days=1, microseconds=-1)]
)
def test_minutes_are_asked_for_from_the_oldest_day_on_that_the_pipeline_keeps(time_of_day: timedelta) -> None:
    oldest = datetime.combine(date.fromisoformat(gold.oldest_minute_window(str(TODAY))), time.min, UTC)
    assert oldest == MIDNIGHT - timedelta(days=2), "three days, today included"
    minute, now = timedelta(minutes=1), MIDNIGHT + time_of_day
    assert hourly_usage.asked_for(["minute"], oldest, oldest + minute, now).first == oldest
    with pytest.raises(InvalidRequest, match=f"minutes are kept from {oldest:%Y-%m-%d}T00:00:00Z on"):
        hourly_usage.asked_for(["minute"], oldest - minute, oldest + minute, now)


def test_a_principal_has_the_name_that_costs_give_it(house: House) -> None:
    span = f"from={YESTERDAY}&to={TODAY + timedelta(days=1)}"
    rows = {row["principal"]: row for row in items(house, f"by=principal&{span}")}
    costs = call("GET", f"/v1/costs?by=principal&{span}", token=house.credentials[Standing.OWNER]).body[
        "items"
    ]
    unknown, (owner,) = rows.keys() & {"", "key:99"}, rows.keys() - {"", "key:99"}
    assert unknown == {"", "key:99"}
    assert rows[owner]["meters"] == {"bytes_in": {"quantity": 300_000}, "messages_in": {"quantity": 3_005}}
    assert rows[""]["meters"]["messages_in"] == {"quantity": 20}, "without a principal"
    assert {row["principal"] for row in costs} <= rows.keys()


def test_times_may_begin_at_hours_and_minutes(house: House) -> None:
    rows = items(house, f"by=hour&from={TODAY}T00:00:00Z&to={TODAY}T02:00:00Z")
    assert [row["hour"] for row in rows] == [f"{TODAY}T01:00:00Z"]
    assert items(house, f"by=hour&from={TODAY}T00:00:00Z&to={TODAY}T01:00:00Z") == []
    rows = items(house, f"by=minute&from={YESTERDAY}T22:00:00Z&to={YESTERDAY}T22:01:00Z")
    assert sums(rows, "minute") == {(f"{YESTERDAY}T22:00:00Z",): {"messages_in": 3_020, "bytes_in": 300_000}}
    assert items(house, f"by=minute&from={YESTERDAY}T22:01:00Z&to={YESTERDAY}T23:00:00Z") == []
    assert items(house, f"by=hour&to={TODAY}") == items(house, f"by=hour&from={YESTERDAY}&to={TODAY}")
    assert items(house, "by=hour&from=0001-01-01T00:00:00Z&to=0001-01-02T00:00:00Z") == []
    assert items(house, "by=principal&from=9999-12-31") == []


@pytest.mark.parametrize("by", ["hour,topic", "topic,hour", "principal,hour,topic", "day,principal,topic"])
def test_pages_hold_each_group_once(by: str, house: House) -> None:
    span = f"by={by}&from={YESTERDAY}&to={TODAY + timedelta(days=1)}"
    whole = items(house, span)
    assert whole == sorted(whole, key=lambda row: tuple(row[name] for name in by.split(",")))
    paged, cursor = [], ""
    while cursor is not None:
        body = ask(house, f"{span}&limit=1{cursor and f'&cursor={cursor}'}").body
        paged += body["items"]
        cursor = body["next"]
    assert paged == whole and len(whole) > 2


def test_another_tenants_usage_is_not_seen(house: House) -> None:
    span = f"from={YESTERDAY}&to={TODAY + timedelta(days=1)}"
    for by in ("hour", "topic,hour", "principal", "day,principal"):
        assert sums(items(HOUSES[1], f"by={by}&{span}")) == {(): {"messages_in": 77}}, by
    minutes = items(HOUSES[1], f"by=minute&from={YESTERDAY}&to={TODAY}")
    assert sums(minutes) == {(): {"messages_in": 77}}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("by=hour,minute", "one of day, hour and minute"),
        ("by=minute,principal", "minute goes with topic alone"),
        ("by=hour,hour", "known: topic, day, hour, minute, principal"),
        ("by=second", "known: topic, day, hour, minute, principal"),
        ("by=hour&from=2026-01-01T00:30:00Z", "the beginning of a whole hour"),
        ("by=minute&from=2026-01-01T00:00:30Z", "the beginning of a whole minute"),
        ("by=principal&from=2026-01-01T01:00:00Z", "the beginning of a whole day"),
        ("by=hour&from=2026-01-01&to=2026-02-02", "744 hours at most by hour"),
        ("by=principal&from=2026-01-01&to=2026-02-02", "744 hours at most by principal"),
        ("by=hour&from=2026-01-02&to=2026-01-01", "is before from"),
        ("by=hour&from=tomorrow", "is not a time"),
        (f"by=minute&from={TODAY - timedelta(days=2)}", "24 hours at most by minute"),
        ("by=minute&from=2026-01-01&to=2026-01-02", "minutes are kept from"),
    ],
)
def test_what_cannot_be_answered_is_refused_and_says_why(query: str, text: str, house: House) -> None:
    answer = ask(house, query)
    assert answer.status == 400 and text in answer.body["detail"], answer.body


@pytest.mark.parametrize("by", ["hour,topic,principal", "topic,hour", "principal,topic"])
def test_an_hour_of_more_groups_than_pages_hold_is_read_page_by_page(
    by: str, world: World, house: House
) -> None:
    """Two rows a group, far from each other in their files and across a midnight."""
    rows = [
        used(
            house,
            MIDNIGHT,
            "messages_in",
            number + half,
            topic=f"t-{number * 7_919 % 301:03}",
            partition=half,
        )
        for half in (0, 1)
        for number in range(301)
    ]
    night = MIDNIGHT - timedelta(hours=1)
    publish_windows(
        world.datasets,
        "usage_hour",
        {str(TODAY): rows, str(YESTERDAY): [{**row, "hour": night} for row in rows]},
    )
    span = f"by={by}&from={YESTERDAY}&to={TODAY + timedelta(days=1)}"
    whole = items(house, f"{span}&limit=1000")
    assert len(whole) == (602 if "hour" in by else 301)
    assert sums(whole) == {(): {"messages_in": 2 * 2 * sum(range(301)) + 2 * 301}}
    paged, cursor = [], ""
    while cursor is not None:
        body = ask(house, f"{span}&limit=30{cursor and f'&cursor={cursor}'}").body
        paged += body["items"]
        cursor = body["next"]
    assert paged == whole


def test_an_hour_of_twenty_thousand_groups_is_answered_with_its_first_page(
    world: World, house: House
) -> None:
    rows = [
        used(house, MIDNIGHT, "messages_in", 1, topic=f"t-{number:05}", principal=number)
        for number in range(20_001, 0, -1)
    ]
    publish_windows(world.datasets, "usage_hour", {str(TODAY): rows})
    span = f"by=hour,topic,principal&from={TODAY}&to={TODAY + timedelta(days=1)}"
    assert [item["topic"] for item in items(house, f"{span}&limit=3")] == ["t-00001", "t-00002", "t-00003"]


def test_time_in_order_is_read_no_further_than_the_page(world: World, house: House) -> None:
    span = f"from={YESTERDAY}&to={TODAY + timedelta(days=1)}"
    (world.datasets / "usage_hour").rename(world.datasets / "gone")
    (world.datasets / "usage_hour").mkdir()
    assert items(house, f"by=hour&{span}") == [], "nothing was published yet"
    (world.datasets / "usage_hour").rmdir()
    (world.datasets / "gone").rename(world.datasets / "usage_hour")
    for file in (world.datasets / "usage_hour").glob(f"run=*/{TODAY}-part.parquet"):
        file.unlink()
    assert [row["day"] for row in items(house, f"by=day,principal&{span}&limit=1")] == [str(YESTERDAY)]
    answer = ask(house, f"by=topic,hour&{span}")
    assert answer.status == 503 and "usage_hour cannot be read now" in answer.body["detail"]


def test_a_day_of_more_files_than_an_answer_may_fetch_says_what_to_ask_instead(
    world: World, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No shorter span helps: all tenants' usage of a day is in its files."""
    asked = hourly_usage.asked_for(["hour"], MIDNIGHT, MIDNIGHT + timedelta(hours=2), MIDNIGHT)
    bucket: Any = Bucket(world.datasets)

    def hours() -> list[Row]:
        return hourly_usage.groups_after(lambda: bucket, house.tenant, asked, None, 10)

    assert [row["hour"] for row in hours()] == [f"{MIDNIGHT + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"]
    monkeypatch.setattr(data_set_rows, "FETCHED_BYTES_MAX", 1)
    with pytest.raises(InvalidRequest, match=f"usage of {TODAY} is .*; ask by topic and day"):
        hours()
    span = f"from={TODAY}&to={TODAY + timedelta(days=1)}"
    assert sums(items(house, f"by=topic,day&{span}"), "topic")[("clicks",)] == {"messages_in": 6}
