"""A topic that is restored under another name: billed once and whole, shown under the name of each time."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import pytest
from django.db import transaction

from billing import queries
from billing.models import DataSetRun, DataSetState
from control_plane.audit import actions as audit
from control_plane.topics.models import Topic
from tenants.models import Tenant
from tests.control_plane.billing.world import TESTER, Part, World, topic_id

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


def restored(tenant: Tenant, *names: str) -> None:
    """The topic of `topic_id("orders")` had these names, one after the other."""
    topic = Topic.objects.create(
        tenant=tenant, name=names[-1], topic_id=topic_id("orders"), partitions=1, settings={}
    )
    with transaction.atomic():
        for before, after in pairwise(names):
            audit.record(
                TESTER,
                tenant=tenant.public_id,
                action="topic.restore",
                object_id=topic.public_id,
                before={"name": before},
                after={"name": after},
            )


def messages(rows: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Topic -> messages, and how many of them are billed."""
    shown = {row["topic"]: row["meters"]["messages_in"] for row in rows}
    return {topic: (numbers["quantity"], numbers["billed"]) for topic, numbers in shown.items()}


def pages(tenant: Tenant, by: list[str]) -> list[dict[str, Any]]:
    """All items, read one group a page."""
    items: list[dict[str, Any]] = []
    after: Sequence[Any] | None = None
    while groups := queries.usage_groups(tenant, by=by, first=None, end=None, after=after, most=1):
        items += queries.usage(tenant, by=by, first=None, end=None, only=groups)
        after = list(map(str, groups[-1]))
    return items


@pytest.mark.parametrize(
    ("billed", "shown"),
    [
        # The names crossed: the topic was called orders, then archive, then orders again.
        ({"orders": 100}, {"orders": 70, "archive": 30}),
        # Rows were counted again, under other names than those that were billed.
        ({"orders": 100}, {"archive": 100}),
        ({"orders": 60, "zebra": 40}, {"archive": 50, "orders": 50}),
        # The running period has more of both.
        ({"orders": 100}, {"orders": 170, "archive": 30}),
    ],
)
@pytest.mark.parametrize("by", [["topic"], ["topic", "day"], ["day", "topic"]])
def test_usage_by_topic_is_no_more_than_all_usage_whatever_names_were_billed(
    by: list[str], billed: dict[str, int], shown: dict[str, int], world: World
) -> None:
    tenant = world.tenant("acme")
    restored(tenant, "orders", "archive", "orders")
    ends = list(accumulate(billed.values(), initial=0))
    parts = [
        Part(topic=name, first=first, end=end, size=10 * (end - first), id=topic_id("orders"))
        for name, (first, end) in zip(billed, pairwise(ends), strict=True)
    ]
    # Another topic has one of the names now.
    parts.append(Part(topic="archive", first=0, end=7, size=70, id=topic_id("young")))
    cut = world.cut(tenant, parts)
    world.covered(cut, parts)
    world.rows["usage_day"] = [row for row in world.rows["usage_day"] if row["topic_id"] == topic_id("young")]
    for name, quantity in shown.items():
        for meter, each in (("messages_in", 1), ("bytes_in", 10)):
            world.day(tenant, name, parts[0].day, meter, each * quantity, of=topic_id("orders"))
    world.spark()
    world.bill()
    assert world.invoice(cut).status == "issued"
    (whole,) = queries.usage(tenant, by=[], first=None, end=None)
    by_topic = queries.usage(tenant, by=by, first=None, end=None)
    sums = messages(by_topic)
    assert {name: quantity for name, (quantity, _) in sums.items()} == {
        name: shown.get(name, 0) + (7 if name == "archive" else 0) for name in {*shown, "archive"}
    }
    assert sum(part for _, part in sums.values()) == whole["meters"]["messages_in"]["billed"] == 107
    assert pages(tenant, by) == by_topic


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
