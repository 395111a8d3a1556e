"""A declared loss in a closed period becomes a credit note: the lost messages, at the invoice's prices."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from billing import cost_reports, queries
from billing.completeness import PartitionRef, Usage
from billing.cost_reports import Asked
from billing.credits import BilledPart, allocate
from billing.models import CreditNote, Cut, Invoice
from billing.running_costs import running_cost
from control_plane.audit import queries as audit
from control_plane.rest import billing_shapes as shapes
from penstock.rules.rating import PriceBook, rate
from tenants.models import Membership, Tenant
from tests.control_plane.billing.world import TODAY, Part, World, topic_id
from tests.control_plane.world import make_person

ORDERS: PartitionRef = (topic_id("orders"), 0)
LOGS: PartitionRef = (topic_id("logs"), 0)
BILLED = Part(first=0, end=3_000, size=1_500_000, generation=1)
LOST = Part(first=2_500, end=3_000, size=250_000, generation=1)
"""Of `BILLED`."""
ANEW = Part(first=2_500, end=2_600, size=70_000, generation=2)


def hours_ago(hours: int) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)


@pytest.fixture
def acme(world: World) -> Tenant:
    return world.tenant("acme")


@pytest.fixture
def cuts(world: World, acme: Tenant) -> tuple[Cut, Cut]:
    """The first period counted 3,000 messages, of which 500 were lost before the second ended."""
    first = world.cut(acme, [BILLED], end=hours_ago(2))
    world.covered(first, [BILLED])
    world.spark()
    world.bill()
    second = world.cut(acme, [ANEW], end=hours_ago(1))
    world.covered(second, [ANEW], start_offset=3_000)
    world.lost(second, LOST)
    world.spark()
    world.bill()
    return first, second


def test_the_console_shows_the_credit_beside_its_invoice(
    world: World, acme: Tenant, cuts: tuple[Cut, Cut]
) -> None:
    person, token = make_person("owner@acme.example")
    Membership.objects.create(tenant=acme, person=person, role="owner")
    client = Client()
    client.cookies["penstock"] = token
    page = client.get(f"/t/acme/invoices/{world.invoice(cuts[0]).public_id}").content.decode()
    assert "Credit note no. 1" in page and "1.25 USD credited" in page
    assert "2,500" in page and "3,000" in page and "1 partition with a declared loss" in page
    assert (
        "Credit note"
        not in client.get(f"/t/acme/invoices/{world.invoice(cuts[1]).public_id}").content.decode()
    )
    assert "1.25 USD" in client.get("/t/acme/invoices").content.decode()


def quantities(invoice: Invoice) -> dict[str, int]:
    return {line.meter: line.quantity for line in invoice.lines.all()}


def test_the_invoice_is_credited_with_exactly_the_lost_messages(world: World, cuts: tuple[Cut, Cut]) -> None:
    invoice = world.invoice(cuts[0])
    (note,) = CreditNote.objects.all()
    assert (note.invoice, note.cut, note.number) == (invoice, cuts[1], 1)
    lines = {line.meter: (line.quantity, line.amount_micro) for line in note.lines.all()}
    assert lines == {"messages_in": (500, 1_000_000), "bytes_in": (250_000, 250_000)}
    book = PriceBook.read(invoice.price_book.document)
    left = {meter: quantity - lines[meter][0] for meter, quantity in quantities(invoice).items()}
    assert invoice.total_micro - note.total_micro == rate(book, left).total_micro  # type: ignore[operator]
    assert [
        (row.topic, row.log_generation, row.first_offset, row.end_offset, row.meter, row.quantity)
        for row in note.ranges.order_by("meter")
    ] == [
        ("orders", 1, 2_500, 3_000, "bytes_in", 250_000),
        ("orders", 1, 2_500, 3_000, "messages_in", 500),
    ]


def test_the_invoice_itself_never_changes_and_the_next_one_bills_what_came_anew(
    world: World, cuts: tuple[Cut, Cut]
) -> None:
    first, second = (world.invoice(cut) for cut in cuts)
    assert quantities(first) == {"messages_in": 3_000, "bytes_in": 1_500_000}
    assert (second.status, quantities(second)) == ("issued", {"messages_in": 100, "bytes_in": 70_000})


def test_settling_again_credits_nothing_twice(world: World, cuts: tuple[Cut, Cut]) -> None:
    world.spark()
    world.bill()
    assert CreditNote.objects.count() == 1
    (note,) = CreditNote.objects.all()
    with pytest.raises(IntegrityError), transaction.atomic():
        CreditNote.objects.create(
            tenant=note.tenant,
            number=2,
            invoice=note.invoice,
            cut=note.cut,
            total_micro=1,
            issued_at=note.issued_at,
        )
    with pytest.raises(TypeError, match="never changed"):
        note.save()


def test_the_credit_stands_in_the_audit_log(acme: Tenant, cuts: tuple[Cut, Cut]) -> None:
    told = [entry.action for entry in audit.entries(acme.public_id).order_by("sequence")]
    assert told[-2:] == ["credit_note.issue", "invoice.issue"]
    assert audit.first_break(acme.public_id) is None


def test_a_second_loss_takes_what_is_left_of_both_invoices_newest_first(
    world: World, acme: Tenant, cuts: tuple[Cut, Cut]
) -> None:
    rest = Part(first=2_400, end=2_450, size=5_000, generation=3)
    third = world.cut(acme, [rest])
    world.covered(third, [rest], start_offset=2_600)
    world.lost(third, Part(first=2_400, end=2_600, size=120_000, generation=2))
    world.spark()
    world.bill()
    notes = [
        (note.invoice.cut, {line.meter: line.quantity for line in note.lines.all()})
        for note in CreditNote.objects.filter(cut=third).order_by("number")
    ]
    assert notes == [
        (cuts[1], {"messages_in": 100, "bytes_in": 70_000}),
        (cuts[0], {"messages_in": 100, "bytes_in": 50_000}),
    ]
    lost = [queries.lost_ranges(note)[0] for note in CreditNote.objects.filter(cut=third).order_by("number")]
    assert [(one["first_offset"], one["end_offset"]) for one in lost] == [(2_500, 2_600), (2_400, 2_500)]
    assert world.invoice(third).status == "issued"


def test_a_second_credit_of_an_invoice_is_rated_from_where_the_first_left_it(
    world: World, acme: Tenant, cuts: tuple[Cut, Cut]
) -> None:
    rest = Part(first=500, end=500, size=0, generation=3)
    third = world.cut(acme, [rest])
    world.covered(third, [rest], start_offset=2_600)
    world.lost(third, Part(first=500, end=2_600, size=1_070_000, generation=2))
    world.spark()
    world.bill()
    invoice = queries.invoice(acme, world.invoice(cuts[0]).public_id)
    notes = list(invoice.credit_notes.order_by("number"))
    assert [{line.meter: line.quantity for line in note.lines.all()} for note in notes] == [
        {"messages_in": 500, "bytes_in": 250_000},
        {"messages_in": 2_000, "bytes_in": 1_000_000},
    ]
    # Of 2,000 messages the last 500 had been free.
    assert [note.total_micro for note in notes] == [1_250_000, 4_000_000]
    left = {"messages_in": 500, "bytes_in": 250_000}
    total = rate(PriceBook.read(invoice.price_book.document), left).total_micro
    shown = shapes.InvoiceShape(invoice).data
    assert (shown["total_micro"] - shown["credited_micro"], total) == (250_000, 250_000)
    assert [note["id"] for note in shown["credit_notes"]] == [note.public_id for note in notes]


def test_what_was_credited_of_an_invoice_is_not_credited_again(world: World, acme: Tenant) -> None:
    def period(hours: int, first: int, end: int, generation: int, was: int, lost: int = 0) -> Cut:
        """Counts [first, end) behind a loss that took [first, was) of the generation before."""
        part = Part(first=first, end=end, size=10 * (end - first), generation=generation)
        cut = world.cut(acme, [part], end=hours_ago(hours))
        world.covered(cut, [part], start_offset=was)
        if lost:
            world.lost(cut, Part(first=first, end=was, size=10 * lost, generation=generation - 1))
        world.spark()
        world.bill()
        return cut

    oldest = period(5, 0, 100, 1, was=0)
    older = period(4, 100, 200, 1, was=100)
    newest = period(3, 150, 160, 2, was=200, lost=50)
    last = period(2, 50, 50, 3, was=160, lost=110)
    found = [
        (note.cut, note.invoice.cut, queries.lost_ranges(note)[0])
        for note in queries.credit_notes(acme).order_by("number")
    ]
    assert [
        (cut, of, one["first_offset"], one["end_offset"], one["quantities"]) for cut, of, one in found
    ] == [
        (newest, older, 150, 200, {"messages_in": 50, "bytes_in": 500}),
        (last, newest, 150, 160, {"messages_in": 10, "bytes_in": 100}),
        (last, older, 100, 150, {"messages_in": 50, "bytes_in": 500}),
        (last, oldest, 50, 100, {"messages_in": 50, "bytes_in": 500}),
    ]
    assert world.invoice(last).status == "issued"


def test_a_loss_of_two_partitions_is_one_credit_that_names_both(world: World, acme: Tenant) -> None:
    parts = [Part(partition=number, first=0, end=100, size=1_000, generation=1) for number in (0, 1)]
    lost_from = (60, 90)
    anew = [
        replace(part, first=at, end=at, size=0, generation=2)
        for part, at in zip(parts, lost_from, strict=True)
    ]
    first = world.cut(acme, parts, end=hours_ago(2))
    world.covered(first, parts)
    second = world.cut(acme, anew, end=hours_ago(1))
    world.covered(second, anew, start_offset=100)
    for part, at in zip(parts, lost_from, strict=True):
        world.lost(second, replace(part, first=at, size=10 * (100 - at)))
    world.spark()
    world.bill()
    assert world.invoice(second).status == "issued", world.invoice(second).gaps
    (note,) = CreditNote.objects.all()
    assert {line.meter: line.quantity for line in note.lines.all()} == {"messages_in": 50, "bytes_in": 500}
    assert [
        (one["partition"], one["first_offset"], one["end_offset"], one["quantities"])
        for one in queries.lost_ranges(note)
    ] == [
        (0, 60, 100, {"messages_in": 40, "bytes_in": 400}),
        (1, 90, 100, {"messages_in": 10, "bytes_in": 100}),
    ]


def test_a_loss_of_what_was_free_is_credited_with_nothing_and_still_told(world: World, acme: Tenant) -> None:
    small = Part(first=0, end=500, size=500, generation=1)
    first = world.cut(acme, [small], end=hours_ago(2))
    world.covered(first, [small])
    second = world.cut(acme, [Part(first=400, end=400, size=0, generation=2)], end=hours_ago(1))
    world.covered(second, [Part(first=400, end=400, size=0, generation=2)], start_offset=500)
    world.lost(second, Part(first=400, end=500, size=100, generation=1))
    world.spark()
    world.bill()
    (note,) = CreditNote.objects.all()
    assert (note.total_micro, [line.quantity for line in note.lines.order_by("meter")]) == (0, [100, 100])


def test_what_no_invoice_had_billed_keeps_the_draft_and_is_named(world: World, acme: Tenant) -> None:
    first = world.cut(acme, [BILLED], end=hours_ago(2))
    world.covered(first, [BILLED])
    second = world.cut(acme, [ANEW])
    world.covered(second, [ANEW], start_offset=3_000)
    world.lost(second, Part(first=2_500, end=3_000, size=2_000_000, generation=1))
    world.spark()
    world.bill()
    assert world.invoice(second).status == "draft"
    assert any("500000 bytes_in reversed" in gap for gap in world.invoice(second).gaps)
    assert not CreditNote.objects.exists()


# -- the division alone ---------------------------------------------------------------------------------


def lost(place: PartitionRef, first: int, messages: int) -> Usage:
    return Usage(
        topic_id=place[0],
        partition=place[1],
        day=TODAY,
        meter="messages_in",
        quantity=-messages,
        first_offset=first,
        end_offset=first + messages,
    )


def billed(first: int, end: int, messages: int) -> BilledPart:
    return BilledPart(
        topic="t",
        log_generation=1,
        first_offset=first,
        end_offset=end,
        quantities={"messages_in": messages},
    )


def divided(rows: list[Usage], invoices: list[Mapping[PartitionRef, BilledPart]]) -> list[list[int]]:
    allocation = allocate(rows, invoices)
    assert allocation.unbilled == ()
    return [[part.quantities["messages_in"] for part in parts] for parts in allocation.credits]


def test_partitions_are_taken_back_each_by_itself() -> None:
    newest = {ORDERS: billed(50, 60, 10), LOGS: billed(0, 5, 5)}
    older = {ORDERS: billed(0, 50, 50)}
    rows = [lost(ORDERS, 40, 20), lost(LOGS, 3, 2)]
    # In the order of topic ids.
    assert ORDERS < LOGS
    assert divided(rows, [newest, older]) == [[10, 2], [10]]


def test_rows_of_several_days_are_one_loss() -> None:
    assert divided([lost(ORDERS, 40, 5), lost(ORDERS, 45, 5)], [{ORDERS: billed(0, 50, 50)}]) == [[10]]


@pytest.mark.parametrize("starts", [(40, 45), (45, 40)], ids=["lower day first", "higher day first"])
def test_a_loss_of_several_days_begins_at_the_lowest_of_them(starts: tuple[int, int]) -> None:
    rows = [lost(ORDERS, first, 5) for first in starts]
    allocation = allocate(rows, [{ORDERS: billed(43, 50, 7)}, {ORDERS: billed(0, 43, 43)}])
    assert [
        (part.first_offset, part.end_offset, part.quantities["messages_in"]) for (part,) in allocation.credits
    ] == [(43, 50, 7), (40, 43, 3)]


def test_what_is_left_over_is_not_taken_from_an_invoice_that_ended_below_the_loss() -> None:
    rows = [lost(ORDERS, 40, 20), lost(LOGS, 5, 1)]
    allocation = allocate(rows, [{ORDERS: billed(40, 50, 10)}, {ORDERS: billed(0, 40, 40)}])
    assert [len(parts) for parts in allocation.credits] == [1, 0]
    assert set(allocation.unbilled) == {
        f"{ORDERS[0]}-0: 10 messages_in reversed by a declared loss were never billed",
        f"{LOGS[0]}-0: 1 messages_in reversed by a declared loss were never billed",
    }


def test_an_invoice_that_ended_below_the_loss_is_left_alone() -> None:
    allocation = allocate([lost(ORDERS, 40, 10)], [{ORDERS: billed(40, 50, 10)}, {ORDERS: billed(0, 40, 40)}])
    assert [len(parts) for parts in allocation.credits] == [1, 0]


def test_a_report_of_costs_is_the_invoices_less_the_credit(
    world: World, acme: Tenant, cuts: tuple[Cut, Cut]
) -> None:
    now = datetime.now(UTC)
    asked = Asked(first=TODAY - timedelta(days=3), end=TODAY + timedelta(days=1), by=("topic",))
    found = cost_reports.report(acme, asked, now)
    billed = sum(world.invoice(cut).total_micro or 0 for cut in cuts)
    credited = sum(note.total_micro for note in CreditNote.objects.all())
    running = running_cost(acme, now)
    assert running is not None and credited == 1_250_000
    assert found.total.cost_micro == billed - credited + running.total_micro
