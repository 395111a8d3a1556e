"""A topic that is restored under another name: billed once and whole, shown under the name of each time."""

from random import Random

from billing import queries
from billing.models import DataSetRun, DataSetState
from tests.control_plane.billing.world import Part, World, topic_id

NAMES = ("archive", "orders", "zebra")


def renamed(random: Random, partition: int, names: int) -> list[Part]:
    """A day of one partition of a topic that has so many names one after the other."""
    parts: list[Part] = []
    for name in random.sample(NAMES, names):
        first = parts[-1].end if parts else 0
        end = first + random.randrange(1, 1_000)
        parts.append(
            Part(
                topic=name,
                partition=partition,
                first=first,
                end=end,
                size=random.randrange(61, 9_000),
                id=topic_id("orders"),
            )
        )
    return parts


def test_a_day_under_several_names_is_billed_once_and_whole_and_shown_under_each(world: World) -> None:
    random = Random(20261129)
    tenants = [world.tenant(f"tenant-{number}") for number in range(8)]
    parts_of = [
        [part for partition in range(2) for part in renamed(random, partition, random.randrange(1, 4))]
        for _ in tenants
    ]
    cuts = [world.cut(tenant, parts) for tenant, parts in zip(tenants, parts_of, strict=True)]
    for cut, parts in zip(cuts, parts_of, strict=True):
        world.covered(cut, parts)
    world.spark()
    world.bill()
    for tenant, cut, parts in zip(tenants, cuts, parts_of, strict=True):
        invoice = world.invoice(cut)
        assert (invoice.status, invoice.gaps) == ("issued", [])
        lines = {line.meter: line.quantity for line in invoice.lines.all()}
        sizes: dict[str, int] = {}
        for part in parts:
            sizes[part.topic] = sizes.get(part.topic, 0) + part.size
        whole = sum(part.end - part.first for part in parts)
        assert (lines["messages_in"], lines["bytes_in"]) == (whole, sum(sizes.values()))
        shown = queries.usage(tenant, by=["topic"], first=None, end=None)
        assert {row["topic"]: row["meters"]["bytes_in"] for row in shown} == {
            name: {"quantity": size, "billed": size, "provisional": 0} for name, size in sizes.items()
        }


def test_another_name_of_what_was_invoiced_is_no_disagreement_and_another_quantity_is(world: World) -> None:
    cut = world.cut(world.tenant("acme"), parts := renamed(Random(2), 0, 2))
    world.covered(cut, parts)
    world.spark()
    world.bill()
    before = queries.line_evidence(world.invoice(cut))
    usage = world.rows["cut_usage"]
    world.rows["cut_usage"] = [
        {**row, "topic": "whole", "quantity": sum(one["quantity"] for one in usage if one["meter"] == row["meter"]),
         "first_offset": 0, "end_offset": parts[-1].end}
        for row in usage[:2]
    ]  # fmt: skip
    for row in world.rows["cut_coverage"]:
        row["topic"] = "whole"
    world.spark()
    assert world.bill() == {"cut_usage": "imported", "cut_coverage": "imported"}
    assert not DataSetRun.objects.exclude(disagreements=[]).exists()
    assert queries.line_evidence(world.invoice(cut)) == before, "what was invoiced keeps its names"
    world.rows["cut_usage"][0]["quantity"] += 1
    world.spark()
    world.bill()
    (run,) = DataSetRun.objects.exclude(disagreements=[])
    assert len(run.disagreements) == 1


def test_two_rows_with_one_key_are_refused_instead_of_one_of_them_lost(world: World) -> None:
    cut = world.cut(world.tenant("acme"), parts := renamed(Random(2), 0, 2))
    world.covered(cut, parts)
    for name in ("cut_usage", "usage_day"):
        world.rows[name].append({**world.rows[name][0], "quantity": 1})
    world.spark()
    told = world.bill()
    for name in ("cut_usage", "usage_day"):
        assert "two rows of" in told[name]
        assert DataSetState.objects.get(dataset=name).error == told[name]
    assert world.invoice(cut).status == "draft"
