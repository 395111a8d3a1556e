"""What billing's documents say of losses of several days, of deleted topics, and of several lost partitions."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from billing import period_actions
from billing.models import BillingEntry, Cut
from penstock.contract import documents
from penstock.contract.documents import CreditNoteDocument, InvoiceDocument
from penstock.records.cut import cut_sha256
from penstock.rules.timestamps import time_ms
from penstock.verification import claims
from tenants.models import Tenant
from tests.control_plane.billing.world import TESTER, TODAY, Part, World, vector_of

YESTERDAY = TODAY - timedelta(days=1)


def hours_ago(hours: int) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)


@pytest.fixture
def acme(world: World) -> Tenant:
    return world.tenant("acme")


def finalized(world: World, cut: Cut) -> None:
    world.spark()
    world.bill()
    assert world.invoice(cut).status == "issued", world.invoice(cut).gaps


def invoice_of(world: World, cut: Cut) -> InvoiceDocument:
    entry = BillingEntry.objects.get(object_id=world.invoice(cut).public_id)
    return documents.read_document(entry.document, InvoiceDocument, "invoice")


def only_credit_note(tenant: Tenant) -> CreditNoteDocument:
    entry = BillingEntry.objects.get(object_id=tenant.credit_notes.get().public_id)
    return documents.read_document(entry.document, CreditNoteDocument, "credit note")


def test_a_loss_of_two_days_is_counted_again_from_where_it_begins(world: World, acme: Tenant) -> None:
    parts = [
        Part(first=0, end=2_800, size=280_000, day=YESTERDAY, generation=1),
        Part(first=2_800, end=3_000, size=20_000, generation=1),
    ]
    first = world.cut(acme, parts, end=hours_ago(2))
    world.covered(first, parts)
    finalized(world, first)
    anew = Part(first=2_500, end=2_600, size=70_000, generation=2)
    second = world.cut(acme, [anew], end=hours_ago(1))
    world.covered(second, [anew], start_offset=3_000)
    world.lost(second, replace(parts[0], first=2_500, size=30_000))
    world.lost(second, parts[1])
    finalized(world, second)
    (part,) = invoice_of(world, second).partitions
    assert (part.start_offset, part.counts_from, part.end_offset) == (3_000, 2_500, 2_600)
    assert [(day.first_offset, day.end_offset, day.messages) for day in part.days] == [(2_500, 2_600, 100)]
    (lost,) = only_credit_note(acme).ranges
    assert (lost.first_offset, lost.end_offset, lost.messages, lost.bytes) == (2_500, 3_000, 500, 50_000)


def test_a_document_names_the_deleted_topics_so_that_it_gives_the_brokers_hash(
    world: World, acme: Tenant
) -> None:
    parts = [Part(topic=topic, first=0, end=10, size=100) for topic in ("gone", "gone_too", "orders")]
    deleted = {parts[0].topic_id, parts[1].topic_id}
    cut = period_actions.close_period(TESTER, acme.public_id, end=hours_ago(1))
    world.answer(
        cut, [replace(entry, last=entry.where.topic_id.hex() in deleted) for entry in vector_of(parts)]
    )
    world.covered(cut, parts)
    finalized(world, cut)
    cut.refresh_from_db()
    readings = invoice_of(world, cut).cut.readings
    assert {reading.topic_id for reading in readings if reading.last} == deleted
    assert len(readings) == 3
    ends = claims.cut_ends(readings)
    period_end_ms = time_ms(cut.period_end)
    assert cut_sha256(acme.public_id, cut.public_id, period_end_ms, ends) == cut.sha256


def test_lost_ranges_stand_in_the_order_of_topics_and_their_partitions(world: World, acme: Tenant) -> None:
    places = [
        ("alpha", "f", 0),
        ("orders", "b", 2),
        ("orders", "b", 10),
        ("orders", "c", 1),
        ("zeta", "0", 0),
    ]
    parts = [
        Part(topic=topic, id=digit * 32, partition=partition, first=0, end=100, size=1_000, generation=1)
        for topic, digit, partition in places
    ]
    anew = [replace(part, first=60, end=60, size=0, generation=2) for part in parts]
    first = world.cut(acme, parts, end=hours_ago(2))
    world.covered(first, parts)
    finalized(world, first)
    second = world.cut(acme, anew, end=hours_ago(1))
    world.covered(second, anew, start_offset=100)
    for part in reversed(parts):
        world.lost(second, replace(part, first=60, size=400))
    finalized(world, second)
    ranges = only_credit_note(acme).ranges
    assert [(one.topic, one.topic_id[0], one.partition) for one in ranges] == places
    assert {(one.first_offset, one.end_offset, one.messages, one.bytes) for one in ranges} == {
        (60, 100, 40, 400)
    }
