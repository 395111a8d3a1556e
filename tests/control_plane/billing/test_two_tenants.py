"""Two tenants in the same round: their periods end together, and neither's cuts, numbers or losses reach the other."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from billing import draft_queries, period_actions, queries
from billing.models import CreditNote, Cut, Invoice, PartitionWaiver
from tenants.models import Tenant
from tests.control_plane.billing.world import TESTER, Part, World, topic_id

MONTH_ENDS = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
NEXT_ENDS = MONTH_ENDS + timedelta(hours=1)


@pytest.fixture
def acme(world: World) -> Tenant:
    return world.tenant("acme")


@pytest.fixture
def other(world: World, acme: Tenant) -> Tenant:
    """It came after `acme`. Topics of the same name have the same id here, as no two tenants' topics have."""
    return world.tenant("other")


def ended(world: World, end: datetime, parts: Mapping[Tenant, Part]) -> list[Cut]:
    """A period of each tenant that ends then and is covered; nothing is finalized yet."""
    cuts = []
    for tenant, part in parts.items():
        cut = world.cut(tenant, [part], end=end)
        world.covered(cut, [part])
        cuts.append(cut)
    return cuts


def bill(world: World) -> None:
    world.spark()
    world.bill()


def billed(world: World, cut: Cut) -> tuple[str, int, dict[str, int]]:
    invoice = world.invoice(cut)
    return invoice.status, invoice.number, {line.meter: line.quantity for line in invoice.lines.all()}


def test_each_tenants_period_goes_on_where_its_own_cut_before_ended(
    world: World, acme: Tenant, other: Tenant
) -> None:
    first = ended(
        world, MONTH_ENDS, {acme: Part(first=0, end=100, size=1_000), other: Part(first=0, end=40, size=4)}
    )
    second = ended(
        world, NEXT_ENDS, {acme: Part(first=100, end=150, size=500), other: Part(first=40, end=60, size=2)}
    )
    bill(world)
    assert [billed(world, cut) for cut in (*first, *second)] == [
        ("issued", 1, {"messages_in": 100, "bytes_in": 1_000}),
        ("issued", 1, {"messages_in": 40, "bytes_in": 4}),
        ("issued", 2, {"messages_in": 50, "bytes_in": 500}),
        ("issued", 2, {"messages_in": 20, "bytes_in": 2}),
    ]
    for before, after in zip(first, second, strict=True):
        assert (queries.cut_before(before), queries.cut_before(after)) == (None, before)
        assert (queries.cut_after(before.public_id), queries.cut_after(after.public_id)) == (after, None)


def test_losses_of_two_tenants_in_one_round_are_credited_to_each_by_itself(
    world: World, acme: Tenant, other: Tenant
) -> None:
    parts = {
        acme: Part(first=0, end=100, size=1_000, generation=1),
        other: Part(first=0, end=80, size=8_000, generation=1),
    }
    first = ended(world, MONTH_ENDS, parts)
    bill(world)
    second = []
    for (tenant, part), at in zip(parts.items(), (70, 50), strict=True):
        anew = replace(part, first=at, end=at, size=0, generation=2)
        cut = world.cut(tenant, [anew], end=NEXT_ENDS)
        world.covered(cut, [anew], start_offset=part.end)
        world.lost(cut, replace(part, first=at, size=part.size // part.end * (part.end - at)))
        second.append(cut)
    bill(world)
    notes = CreditNote.objects.order_by("tenant__pk")
    assert [(note.tenant, note.number, note.invoice.cut, note.cut) for note in notes] == [
        (acme, 1, first[0], second[0]),
        (other, 1, first[1], second[1]),
    ]
    assert [{line.meter: line.quantity for line in note.lines.all()} for note in notes] == [
        {"messages_in": 30, "bytes_in": 300},
        {"messages_in": 30, "bytes_in": 3_000},
    ]
    assert [list(queries.credit_notes(note.tenant)) for note in notes] == [[note] for note in notes]


def test_a_tenants_draft_keeps_no_invoice_of_another(world: World, acme: Tenant, other: Tenant) -> None:
    ended(world, MONTH_ENDS, {other: Part(first=0, end=40, size=4)})
    waits = period_actions.close_period(TESTER, acme.public_id, end=MONTH_ENDS)
    bill(world)
    second = [
        period_actions.close_period(TESTER, tenant.public_id, end=NEXT_ENDS) for tenant in (acme, other)
    ]
    behind_a_draft = f"the previous invoice {waits.invoice.public_id} is still a draft"
    told = [draft_queries.reasons(Invoice.objects.get(cut=cut), []) for cut in second]
    assert [behind_a_draft in reasons for reasons in told] == [True, False]
    assert [queries.undelivered_up_to(cut) for cut in second] == [
        [waits.public_id, second[0].public_id],
        [second[1].public_id],
    ]


def test_what_one_tenant_waived_is_billed_to_another(world: World, acme: Tenant, other: Tenant) -> None:
    part = Part(first=0, end=40, size=4)
    cuts = ended(world, MONTH_ENDS, {acme: part, other: part})
    PartitionWaiver.objects.create(
        tenant=acme, topic_id=topic_id("orders"), partition=0, from_cut=cuts[0], reason="gone", actor="test"
    )
    assert [queries.waived_partitions(cut) for cut in cuts] == [{(topic_id("orders"), 0)}, set()]
    bill(world)
    assert [billed(world, cut)[2]["messages_in"] for cut in cuts] == [0, 40]


def test_days_of_two_tenants_are_not_summed(world: World, acme: Tenant, other: Tenant) -> None:
    ended(world, MONTH_ENDS, {acme: Part(first=0, end=100, size=9), other: Part(first=0, end=40, size=4)})
    bill(world)
    shown = [queries.usage(tenant, by=["topic"], first=None, end=None) for tenant in (acme, other)]
    assert [usage["meters"]["messages_in"]["billed"] for (usage,) in shown] == [100, 40]
