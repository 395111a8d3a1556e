"""An import reads the windows that changed, by their digests, and leaves the others as they are."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from billing.data_sets import cut_window
from billing.import_actions import RUN_OF_WINDOWS, WAITING
from billing.models import CoverageIssue, CutUsage, DataSetState, SlaWindow, UsageDay
from penstock.contract.ids import SYSTEM_TENANT
from tenants.models import Tenant
from tests.control_plane.billing.publishing import publish, publish_windows
from tests.control_plane.billing.world import TODAY, Part, World

YESTERDAY = TODAY - timedelta(days=1)
Rows = Sequence[Mapping[str, Any]]


def day_row(world: World, day: date, quantity: int, topic: str = "orders") -> dict[str, Any]:
    before = len(world.rows["usage_day"])
    acme = Tenant.objects.filter(name="acme").first() or world.tenant("acme")
    world.day(acme, topic, day, "messages_in", quantity)
    (row,) = world.rows["usage_day"][before:]
    return dict(row)


def of_days(*rows: Mapping[str, Any]) -> dict[str, Rows]:
    return {day: [row for row in rows if str(row["day"]) == day] for day in {str(row["day"]) for row in rows}}


def remove_file(folder: Path, window: str) -> None:
    """Whoever reads this window is refused."""
    (file,) = folder.glob(f"{window}-*.parquet")
    file.unlink()


def quantities() -> list[tuple[date, int]]:
    return list(UsageDay.objects.order_by("day", "topic").values_list("day", "quantity"))


def test_only_windows_with_another_digest_are_read_and_written(world: World) -> None:
    old, now = day_row(world, YESTERDAY, 5), day_row(world, TODAY, 7)
    first = publish_windows(world.datasets, "usage_day", of_days(old, now))
    assert world.bill() == {"usage_day": "imported"}
    remove_file(first, str(YESTERDAY))
    more = {**now, "quantity": 9}
    publish_windows(world.datasets, "usage_day", of_days(old, more))
    assert world.bill() == {"usage_day": "imported"}
    assert quantities() == [(YESTERDAY, 5), (TODAY, 9)]
    assert world.bill() == {}, "and a retry does nothing"
    assert set(DataSetState.objects.get().windows) == {str(YESTERDAY), str(TODAY), RUN_OF_WINDOWS}


def test_rows_of_a_window_that_is_gone_go_and_those_of_no_other(world: World) -> None:
    old, now = day_row(world, YESTERDAY, 5), day_row(world, TODAY, 7)
    publish_windows(world.datasets, "usage_day", of_days(old, now))
    world.bill()
    publish_windows(world.datasets, "usage_day", of_days(now))
    world.bill()
    assert quantities() == [(TODAY, 7)]
    publish_windows(world.datasets, "usage_day", {})
    world.bill()
    assert quantities() == []


def test_a_damaged_window_is_refused_and_read_again_when_it_is_mended(world: World) -> None:
    old, now = day_row(world, YESTERDAY, 5), day_row(world, TODAY, 7)
    publish_windows(world.datasets, "usage_day", of_days(old))
    world.bill()
    folder = publish_windows(world.datasets, "usage_day", of_days(old, now))
    (file,) = folder.glob(f"{TODAY}-*.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    assert "bytes or sha256 differ" in world.bill()["usage_day"]
    assert quantities() == [(YESTERDAY, 5)]
    file.write_bytes(content)
    assert world.bill() == {"usage_day": "imported"}
    assert quantities() == [(YESTERDAY, 5), (TODAY, 7)]


def test_from_a_manifest_without_windows_to_one_with_and_back_all_rows_are_compared(world: World) -> None:
    old, now = day_row(world, YESTERDAY, 5), day_row(world, TODAY, 7)
    publish(world.datasets, "usage_day", [old, now])
    world.bill()
    publish_windows(world.datasets, "usage_day", of_days(now))
    world.bill()
    assert quantities() == [(TODAY, 7)]
    publish(world.datasets, "usage_day", [old])
    world.bill()
    assert quantities() == [(YESTERDAY, 5)]


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ({"today": []}, "the window 'today' is no day"),
        ({str(YESTERDAY): ["now"]}, "is in another window"),
    ],
)
def test_rows_that_are_not_of_their_window_are_refused(
    world: World, windows: dict[str, list[str]], said: str
) -> None:
    now = day_row(world, TODAY, 7)
    publish_windows(world.datasets, "usage_day", of_days(day_row(world, TODAY - timedelta(days=9), 1)))
    world.bill()
    given = {name: [now for _ in rows] for name, rows in windows.items()}
    publish_windows(world.datasets, "usage_day", given)
    assert said in world.bill()["usage_day"]
    assert [quantity for _, quantity in quantities()] == [1]


def test_windows_of_five_minutes_are_those_of_their_day(world: World) -> None:
    acme = world.tenant("acme")
    begin = datetime.combine(TODAY, datetime.min.time(), UTC)
    moments = [begin - timedelta(minutes=5), begin, begin + timedelta(hours=23, minutes=55)]
    rows = [
        {"tenant": acme.public_id, "operation": "fetch", "window": at, "valid": 9, "bad": 0} for at in moments
    ]
    publish_windows(world.datasets, "sla_5m", {str(YESTERDAY): rows[:1], str(TODAY): rows[1:]})
    world.bill()
    publish_windows(world.datasets, "sla_5m", {str(YESTERDAY): rows[:1], str(TODAY): rows[1:2]})
    world.bill()
    assert list(SlaWindow.objects.order_by("window").values_list("window", flat=True)) == moments[:2]


def test_drafts_of_other_windows_keep_their_usage(world: World) -> None:
    acme = world.tenant("acme")
    part = Part(first=0, end=100, size=5_000)
    cut = world.cut(acme, [part])
    world.covered(cut, [part])
    rows = list(world.rows["cut_usage"])
    mine = cut_window(cut.public_id)
    other = f"{(int(mine) + 1) % 64:02}"
    publish_windows(world.datasets, "cut_usage", {mine: rows})
    world.bill()
    kept = CutUsage.objects.count()
    assert kept == len(rows) > 0
    foreign = [{**row, "cut_id": "cut_unknown"} for row in rows]
    publish_windows(world.datasets, "cut_usage", {mine: rows, other: foreign})
    world.bill()
    assert CutUsage.objects.count() == kept
    publish_windows(world.datasets, "cut_usage", {other: foreign})
    world.bill()
    assert CutUsage.objects.count() == 0, "a draft's usage goes with its window"


def test_an_issue_stays_while_its_window_is_as_it_was(world: World) -> None:
    lost = {"src_partition": 1, "first_missing": 5, "missing": 3}
    publish_windows(world.datasets, "coverage_issue", {"all": [lost]})
    world.bill()
    publish_windows(world.datasets, "coverage_issue", {"all": [lost]})
    world.bill()
    assert list(CoverageIssue.objects.values_list("src_partition", "first_missing", "missing")) == [(1, 5, 3)]


def test_windows_that_another_version_has_written_over_meanwhile_are_read_again(world: World) -> None:
    now = day_row(world, TODAY, 7)
    publish_windows(world.datasets, "usage_day", of_days(now))
    world.bill()
    # An older version imports a run of its own: it keeps the windows as they are, and takes rows that it does not know.
    DataSetState.objects.update(run_id="0" * 32)
    UsageDay.objects.all().delete()
    publish_windows(world.datasets, "usage_day", of_days(now))
    world.bill()
    assert quantities() == [(TODAY, 7)]


def test_rows_of_a_tenant_that_is_not_known_yet_come_when_it_is(world: World) -> None:
    """A database that was restored from a backup learns of tenants later than Spark; no new run is needed."""
    late = {**day_row(world, YESTERDAY, 5), "tenant": "tn_restored"}
    later = {**day_row(world, TODAY - timedelta(days=2), 3), "tenant": "tn_another"}
    now = day_row(world, TODAY, 7)
    own = {**day_row(world, TODAY, 1, "__usage"), "tenant": SYSTEM_TENANT}
    publish_windows(world.datasets, "usage_day", of_days(late, now, own))
    assert world.bill() == {"usage_day": "imported"} and world.bill() == {}
    publish_windows(world.datasets, "usage_day", of_days(later, late, now, own))
    assert world.bill() == {"usage_day": "imported"} and quantities() == [(TODAY, 7)]
    restored = world.tenant("restored")
    Tenant.objects.filter(pk=restored.pk).update(public_id="tn_restored")
    assert world.bill() == {"usage_day": "imported"}
    assert quantities() == [(YESTERDAY, 5), (TODAY, 7)]
    assert world.bill() == {}, "one import is enough"
    another = world.tenant("another")
    Tenant.objects.filter(pk=another.pk).update(public_id="tn_another")
    assert world.bill() == {"usage_day": "imported"}
    assert quantities() == [(TODAY - timedelta(days=2), 3), (YESTERDAY, 5), (TODAY, 7)]
    assert WAITING not in DataSetState.objects.get().windows
