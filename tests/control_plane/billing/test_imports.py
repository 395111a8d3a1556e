"""Imports of data sets: once, as a whole, and never of what cannot be trusted."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from billing import queries
from billing.data_sets import SCHEMAS
from billing.models import DataSetRun, DataSetState, Seal, SlaWindow, UsageDay
from control_plane.audit import queries as audit
from penstock.contract.ids import SYSTEM_TENANT
from penstock.records.seal import pack_seal
from tests.control_plane.billing.publishing import publish
from tests.control_plane.billing.world import TODAY, Part, World, topic_id
from tests.unit.verification.stored_log import BEGIN_MS, StoredLog

PART = Part(first=0, end=100, size=5_000)


def _refused(world: World, name: str) -> str:
    told = world.bill()[name]
    assert told != "imported"
    assert DataSetState.objects.get(dataset=name).error == told
    return told


def test_a_run_is_imported_once_however_often_it_is_found(world: World) -> None:
    world.day(world.tenant("acme"), "orders", TODAY, "messages_in", 5)
    world.spark("usage_day")
    assert world.bill() == {"usage_day": "imported"}
    assert world.bill() == {}
    assert UsageDay.objects.get().quantity == 5
    assert DataSetRun.objects.count() == 1


def test_a_newer_run_replaces_all_that_the_older_one_said(world: World) -> None:
    acme = world.tenant("acme")
    world.day(acme, "orders", TODAY, "messages_in", 5)
    world.day(acme, "gone", TODAY, "messages_in", 7)
    world.spark("usage_day")
    world.bill()
    world.rows["usage_day"] = world.rows["usage_day"][:1]
    world.day(acme, "orders", TODAY, "messages_in", 1)
    world.day(acme, "orders", TODAY, "bytes_in", 9)
    world.spark("usage_day")
    world.bill()
    assert sorted(UsageDay.objects.values_list("topic", "meter", "quantity")) == [
        ("orders", "bytes_in", 9),
        ("orders", "messages_in", 6),
    ]


def test_going_back_to_an_earlier_run_brings_its_rows_back(world: World) -> None:
    acme = world.tenant("acme")
    world.day(acme, "orders", TODAY, "messages_in", 5)
    world.spark("usage_day")
    world.bill()
    world.day(acme, "orders", TODAY, "messages_in", 5)
    world.spark("usage_day")
    world.bill()
    world.rows["usage_day"][0]["quantity"] = 5
    world.spark("usage_day")
    assert world.bill() == {"usage_day": "imported"}
    assert UsageDay.objects.get().quantity == 5
    assert DataSetRun.objects.count() == 2


def test_the_same_run_with_another_digest_is_refused(world: World) -> None:
    world.day(world.tenant("acme"), "orders", TODAY, "messages_in", 5)
    world.spark("usage_day")
    world.bill()
    publish(world.datasets, "usage_day", world.rows["usage_day"], manifest={"digest": "f" * 64})
    assert "digest" in _refused(world, "usage_day")


def test_rows_of_the_service_itself_and_of_unknown_tenants_are_left_out(world: World) -> None:
    world.day(world.tenant("acme"), "orders", TODAY, "messages_in", 5)
    for tenant in ("system", "tn_unknown"):
        world.rows["usage_day"].append({**world.rows["usage_day"][0], "tenant": tenant})
    world.spark("usage_day")
    world.bill()
    assert UsageDay.objects.count() == 1
    assert DataSetRun.objects.get().skipped == 2


def _edit(field: str, value: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest[field] = value
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return change


def _append(folder: Path) -> None:
    with (folder / "part-0.parquet").open("ab") as file:
        file.write(b"x")


def _alter(folder: Path) -> None:
    content = bytearray((folder / "part-0.parquet").read_bytes())
    content[len(content) // 3] ^= 1
    (folder / "part-0.parquet").write_bytes(content)


def _unlink(folder: Path) -> None:
    (folder / "part-0.parquet").unlink()


def _no_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def _bad_pointer(folder: Path) -> None:
    (folder.parent / "current.json").write_text('{"run_id": "../../etc"}')


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (_append, "bytes or sha256 differ"),
        (_alter, "bytes or sha256 differ"),
        (_unlink, "No such file"),
        (_no_manifest, "no manifest"),
        (_bad_pointer, "32 hex digits"),
        (_edit("rows", 3), "2 rows, its manifest says 3"),
        (_edit("format", 3), "format 3, 1 or 2 required"),
        (_edit("dataset", "other"), "dataset 'other'"),
        (_edit("run_id", "0" * 32), "run_id"),
        (_edit("schema", []), "columns"),
        (_edit("files", [{"name": "../x.parquet", "bytes": 1, "sha256": ""}]), "no name of one of its files"),
        (
            _edit("conservation", [{"name": "sums", "holds": False, "left": "1", "right": "2"}]),
            "does not conserve",
        ),
        (_edit("conservation", None), "incomplete"),
        (_edit("files", [{}]), "incomplete"),
    ],
)
def test_a_data_set_that_cannot_be_trusted_is_refused_whole_and_the_others_are_not(
    world: World, damage: Callable[[Path], None], named: str
) -> None:
    acme = world.tenant("acme")
    cut = world.cut(acme, [PART])
    world.covered(cut, [PART])
    world.spark()
    damage(next((world.datasets / "cut_usage").glob("run=*")))
    told = world.bill()
    assert named in told["cut_usage"]
    assert told["usage_day"] == told["cut_coverage"] == "imported"
    assert world.invoice(cut).status == "draft"
    assert "counted up to offset 0 of 100" in world.invoice(cut).gaps[0]
    assert "cut_usage" in {state["dataset"] for state in queries.data_set_states() if state["error"]}
    publish(world.datasets, "cut_usage", world.rows["cut_usage"], run="again")
    assert world.bill() == {"cut_usage": "imported"}
    assert world.invoice(cut).status == "issued"
    assert DataSetState.objects.exclude(error="").count() == 0


def test_a_file_whose_columns_differ_from_its_manifest_is_refused(world: World) -> None:
    world.tenant("acme")
    columns = [*SCHEMAS["sla_5m"][:-1], ("bad", "int")]
    publish(
        world.datasets,
        "sla_5m",
        [],
        columns=columns,
        manifest={"schema": [{"name": name, "type": kind} for name, kind in SCHEMAS["sla_5m"]]},
    )
    assert "has the columns" in _refused(world, "sla_5m")


def test_a_quantity_that_no_column_holds_is_refused_by_name(world: World) -> None:
    world.day(world.tenant("acme"), "orders", TODAY, "messages_in", 2**63)
    world.spark("usage_day")
    assert "quantity is 9223372036854775808" in _refused(world, "usage_day")
    assert UsageDay.objects.count() == 0


def test_seals_are_kept_for_ever_and_damaged_or_other_ones_are_named(world: World) -> None:
    acme = world.tenant("acme")
    log = StoredLog()
    log.write(5, BEGIN_MS)
    log.write(5, BEGIN_MS, rolls=True)
    (seal,) = log.seals
    row: dict[str, Any] = {
        "tenant": acme.public_id,
        "topic_id": log.where.topic_id.hex(),
        "partition": 0,
        "log_generation": 0,
        "base_offset": 0,
        "end_offset": 5,
        "seal": pack_seal(seal),
        "src_partition": 0,
        "src_offset": 3,
    }
    publish(world.datasets, "seal", [row])
    world.bill()
    damaged = bytearray(row["seal"])
    damaged[70] ^= 1
    publish(world.datasets, "seal", [{**row, "base_offset": 9, "seal": bytes(damaged)}])
    world.bill()
    assert bytes(Seal.objects.get().seal) == row["seal"]
    assert "checksum" in DataSetRun.objects.exclude(disagreements=[]).get().disagreements[0]


def test_availability_is_what_the_data_sets_say(world: World) -> None:
    acme, other = world.tenant("acme"), world.tenant("other")
    hour = datetime.combine(TODAY, time.min, UTC)
    world.day(acme, "orders", TODAY, "messages_in", 2_000_000)
    for index, (valid, bad) in enumerate([(1_000, 1), (10, 0), (2_000, 0)]):
        world.rows["sla_5m"].append(
            {
                "tenant": acme.public_id,
                "operation": "produce",
                "window": hour + timedelta(minutes=5 * index),
                "valid": valid,
                "bad": bad,
            }
        )
    world.spark()
    world.bill()
    assert queries.availability(acme, first=None, end=None) == [
        {
            "operation": "produce",
            "valid": 3_010,
            "bad": 1,
            "availability": "0.999667",
            "windows": 3,
            "windows_with_few_requests": 1,
        }
    ]
    assert queries.availability(other, first=None, end=None) == []
    assert SlaWindow.objects.count() == 3


def test_what_is_shown_is_what_is_billed_and_the_rest_is_provisional(world: World) -> None:
    acme = world.tenant("acme")
    cut = world.cut(acme, [PART])
    world.covered(cut, [PART])
    world.day(acme, "orders", TODAY, "messages_in", 11)
    world.day(acme, "orders", TODAY, "messages_out", 50)
    world.spark()
    world.bill()
    (shown,) = queries.usage(acme, by=["topic", "day"], first=None, end=None)
    assert (shown["topic"], shown["day"]) == ("orders", TODAY)
    assert shown["meters"]["messages_in"] == {"quantity": 111, "billed": 100, "provisional": 11}
    assert shown["meters"]["messages_out"] == {"quantity": 50, "billed": 0, "provisional": 50}
    assert shown["meters"]["bytes_in"]["provisional"] == 0
    billed = {line.meter: line.quantity for line in world.invoice(cut).lines.all()}
    assert all(shown["meters"][meter]["billed"] == quantity for meter, quantity in billed.items())
    assert queries.usage(acme, by=[], first=TODAY + timedelta(days=1), end=None) == []
    assert len(queries.usage(acme, by=["day"], first=TODAY, end=TODAY + timedelta(days=1))) == 1
    assert topic_id("orders") == UsageDay.objects.first().topic_id  # type: ignore[union-attr]


def _audited() -> list[dict[str, Any]]:
    """What the audit log tells of imports, oldest first."""
    entries = audit.entries(SYSTEM_TENANT).filter(action="data_set.import").order_by("sequence")
    return [entry.after for entry in entries]


def test_an_import_that_changed_something_stands_in_the_audit_log_and_no_other(world: World) -> None:
    acme = world.tenant("acme")
    for topic in ("orders", "bills", "gone"):
        world.day(acme, topic, TODAY, "messages_in", 5)
    world.spark("usage_day")
    world.bill()
    assert [(one["changed"], one["disagreements"]) for one in _audited()] == [(3, 0)]
    rows = world.rows["usage_day"]
    publish(world.datasets, "usage_day", [*rows, {**rows[0], "tenant": "tn_unknown"}])
    assert world.bill() == {"usage_day": "imported"}
    assert len(_audited()) == 1
    changed = [{**rows[0], "quantity": 6}, rows[1], {**rows[0], "topic": "new"}]
    publish(world.datasets, "usage_day", changed)
    assert world.bill() == {"usage_day": "imported"}
    assert [one["changed"] for one in _audited()] == [3, 3], "one goes, one comes, one is another"
    assert sorted(UsageDay.objects.values_list("topic", "quantity")) == [
        ("bills", 5),
        ("new", 5),
        ("orders", 6),
    ]


def test_rows_that_say_the_same_of_different_hours_are_kept_apart_and_each_is_mended_in_its_place(
    world: World,
) -> None:
    acme, other = world.tenant("acme"), world.tenant("other")
    hour = datetime(2026, 1, 2, 3, tzinfo=UTC)
    row = {"operation": "produce", "valid": 10, "bad": 7}
    places = [
        {"tenant": tenant.public_id, "window": hour + timedelta(hours=number)}
        for tenant in (acme, other)
        for number in range(2)
    ]
    rows = [{**row, **place} for place in places]
    publish(world.datasets, "sla_5m", rows)
    world.bill()
    assert SlaWindow.objects.count() == 4
    before = list(SlaWindow.objects.order_by("pk").values_list("pk", flat=True))
    publish(world.datasets, "sla_5m", [{**rows[0], "bad": 8}, *rows[1:]])
    world.bill()
    assert list(SlaWindow.objects.order_by("pk").values_list("pk", flat=True)) == before
    assert sorted(SlaWindow.objects.values_list("tenant__public_id", "window", "bad")) == sorted(
        (one["tenant"], one["window"], 8 if one is rows[0] else 7) for one in rows
    )


def test_seals_that_are_left_out_are_counted_and_a_second_run_adds_what_is_new(world: World) -> None:
    acme = world.tenant("acme")
    log = StoredLog()
    for _ in range(3):
        log.write(5, BEGIN_MS, rolls=True)
    log.write(5, BEGIN_MS, rolls=True)
    rows: list[dict[str, Any]] = [
        {
            "tenant": acme.public_id,
            "topic_id": log.where.topic_id.hex(),
            "partition": 0,
            "log_generation": 0,
            "base_offset": seal.base_offset,
            "end_offset": seal.end_offset,
            "seal": pack_seal(seal),
            "src_partition": 0,
            "src_offset": number,
        }
        for number, seal in enumerate(log.seals)
    ]
    foreign = [{**rows[0], "tenant": tenant, "base_offset": 900} for tenant in ("system", "tn_unknown")]
    damaged = {**rows[0], "base_offset": 901, "seal": rows[0]["seal"][:-1] + b"!"}
    publish(world.datasets, "seal", [rows[0], *foreign, damaged])
    world.bill()
    run = DataSetRun.objects.get()
    assert (run.rows, run.skipped, len(run.disagreements)) == (4, 3, 1)
    assert _audited() == [{"changed": 1, "digest": run.digest, "disagreements": 1}]
    publish(world.datasets, "seal", [*rows[1:], *foreign])
    world.bill()
    assert sorted(Seal.objects.values_list("base_offset", flat=True)) == [row["base_offset"] for row in rows]
    other = {**rows[0], "seal": rows[1]["seal"]}
    publish(world.datasets, "seal", [other])
    world.bill()
    run = DataSetRun.objects.latest("imported_at")
    assert (run.skipped, len(run.disagreements)) == (0, 1)
    assert "another seal of it was imported before" in run.disagreements[0]
    assert _audited()[-1]["changed"] == 0
    assert bytes(Seal.objects.get(base_offset=rows[0]["base_offset"]).seal) == rows[0]["seal"]
