"""The billing chain: one document for each thing that a tenant is told about money, and nothing that goes around it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from billing import chain_actions, period_actions, price_actions, queries, tasks
from billing.document_building import cut_ends
from billing.models import BillingEntry, Cut, CutReading, Invoice, PriceBook
from control_plane.audit import queries as audit
from control_plane.rest import billing_shapes as shapes
from penstock.contract import documents
from penstock.contract.document_fields import NO_HASH
from penstock.contract.documents import ChainEntry, CreditNoteDocument, InvoiceDocument, PricesDocument
from penstock.contract.invariant import InvariantBroken
from penstock.records.cut import cut_sha256
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant
from tests.control_plane.billing.world import TESTER, TODAY, Part, World

BILLED = Part(first=0, end=3_000, size=1_500_000, generation=1)
LOST = Part(first=2_500, end=3_000, size=250_000, generation=1)
ANEW = Part(first=2_500, end=2_600, size=70_000, generation=2)


def hours_ago(hours: int) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)


@pytest.fixture
def acme(world: World) -> Tenant:
    return world.tenant("acme")


def billed(world: World, tenant: Tenant, parts: list[Part], end: datetime) -> Cut:
    cut = world.cut(tenant, parts, end=end)
    world.covered(cut, parts)
    world.spark()
    world.bill()
    assert world.invoice(cut).status == "issued", world.invoice(cut).gaps
    return cut


def chain(tenant: Tenant) -> list[BillingEntry]:
    return list(queries.chain(tenant).order_by("sequence"))


def read(entry: BillingEntry) -> documents.Document:
    if entry.kind == "prices":
        return documents.read_document(entry.document, PricesDocument, "prices")
    if entry.kind == "invoice":
        return documents.read_document(entry.document, InvoiceDocument, "invoice")
    return documents.read_document(entry.document, CreditNoteDocument, "credit note")


def document(tenant: Tenant, object_id: str) -> dict[str, Any]:
    found: dict[str, Any] = BillingEntry.objects.get(tenant=tenant, object_id=object_id).document
    return found


def test_the_chain_holds_prices_credits_and_invoices_in_this_order(world: World, acme: Tenant) -> None:
    first = billed(world, acme, [BILLED], hours_ago(2))
    second = world.cut(acme, [ANEW], end=hours_ago(1))
    world.covered(second, [ANEW], start_offset=3_000)
    world.lost(second, LOST)
    world.spark()
    world.bill()
    note = acme.credit_notes.get()
    told = [(entry.sequence, entry.kind, entry.object_id) for entry in chain(acme)]
    assert told == [
        (1, "prices", PriceBook.objects.get().public_id),
        (2, "invoice", world.invoice(first).public_id),
        (3, "credit_note", note.public_id),
        (4, "invoice", world.invoice(second).public_id),
    ]
    previous, last_ms = NO_HASH, 0
    for entry in chain(acme):
        assert entry.document_sha256 == documents.document_sha256(read(entry))
        plain = dict(shapes.ChainEntryShape(entry).data)
        plain.pop("document")
        link = documents.read_document(plain, ChainEntry, "entry")
        assert (entry.previous_hash, link.hash) == (
            previous,
            documents.chain_hash(acme.public_id, previous, link),
        )
        assert link.at_ms >= last_ms
        previous, last_ms = link.hash, link.at_ms


def test_an_invoices_document_is_exactly_what_is_billed(world: World, acme: Tenant) -> None:
    parts = [
        Part(first=0, end=1_500, size=2_000_000, day=TODAY - timedelta(days=1)),
        Part(first=1_500, end=2_000, size=1_000_000),
        Part(topic="returns", partition=3, first=0, end=10, size=400),
    ]
    first = billed(world, acme, parts, hours_ago(2))
    second = billed(world, acme, [Part(first=2_000, end=2_001, size=1)], hours_ago(1))
    invoice = world.invoice(first)
    read = documents.read_document(document(acme, invoice.public_id), InvoiceDocument, "invoice")
    assert [
        (p.topic, p.start_offset, p.counts_from, p.end_offset, [(d.messages, d.bytes) for d in p.days])
        for p in read.partitions
    ] == [
        ("orders", 0, 0, 2_000, [(1_500, 2_000_000), (500, 1_000_000)]),
        ("returns", 0, 0, 10, [(10, 400)]),
    ]
    assert [(line.id, line.quantity, line.amount_micro) for line in read.lines] == list(
        invoice.lines.order_by("position").values_list("line_id", "quantity", "amount_micro")
    )
    assert invoice.issued_at is not None
    assert (read.total_micro, read.issued_at_ms) == (invoice.total_micro, time_ms(invoice.issued_at))
    places = [(reading.topic_id, reading.partition) for reading in read.cut.readings]
    assert places == sorted(places) and len(places) == 2
    later = documents.read_document(
        document(acme, world.invoice(second).public_id), InvoiceDocument, "invoice"
    )
    assert later.previous is not None and read.previous is None
    assert (later.previous.id, later.previous.number, later.previous.document_sha256) == (
        invoice.public_id,
        1,
        documents.document_sha256(read),
    )


def test_what_a_declared_loss_counts_again_stands_in_both_documents(world: World, acme: Tenant) -> None:
    first = billed(world, acme, [BILLED], hours_ago(2))
    second = world.cut(acme, [ANEW], end=hours_ago(1))
    world.covered(second, [ANEW], start_offset=3_000)
    world.lost(second, LOST)
    world.spark()
    world.bill()
    note = documents.read_document(
        document(acme, acme.credit_notes.get().public_id), CreditNoteDocument, "credit note"
    )
    assert note.invoice.id == world.invoice(first).public_id
    assert note.invoice.document_sha256 == BillingEntry.objects.get(sequence=2).document_sha256
    assert [(r.log_generation, r.first_offset, r.end_offset, r.messages, r.bytes) for r in note.ranges] == [
        (1, 2_500, 3_000, 500, 250_000)
    ]
    assert (note.cut_id, note.total_micro) == (second.public_id, 1_250_000)
    later = documents.read_document(
        document(acme, world.invoice(second).public_id), InvoiceDocument, "invoice"
    )
    (part,) = later.partitions
    assert (part.start_offset, part.counts_from, part.end_offset) == (3_000, 2_500, 2_600)


def test_each_document_is_bound_into_the_audit_log(world: World, acme: Tenant) -> None:
    billed(world, acme, [BILLED], hours_ago(1))
    told = {entry.action: entry for entry in audit.entries(acme.public_id)}
    for entry, action in zip(chain(acme), ("prices.assign", "invoice.issue"), strict=True):
        after = told[action].after
        assert told[action].object_id == entry.object_id
        assert (after["document_sha256"], after["billing_sequence"], after["billing_hash"]) == (
            entry.document_sha256,
            entry.sequence,
            entry.hash,
        )
    assert audit.first_break(acme.public_id) is None


def test_a_cut_remembers_the_chain_as_it_was_when_the_period_ended(world: World, acme: Tenant) -> None:
    first = billed(world, acme, [BILLED], hours_ago(2))
    second = world.cut(acme, [], end=hours_ago(1))
    entries = chain(acme)
    assert (first.chain_sequence, first.chain_hash) == (1, entries[0].hash)
    assert (second.chain_sequence, second.chain_hash) == (2, entries[1].hash)


def test_the_round_gives_a_new_tenant_its_prices_once(world: World, acme: Tenant) -> None:
    quiet = world.tenant("quiet")
    for _ in range(2):
        tasks.bill_run()
    for tenant in (acme, quiet):
        (entry,) = chain(tenant)
        prices = documents.read_document(entry.document, PricesDocument, "prices")
        assert prices.effective_from_ms == time_ms(tenant.created_at)
        assert documents.document_sha256(prices.price_book) == PriceBook.objects.get().sha256


def test_an_entry_is_never_changed_and_none_stands_beside_it(world: World, acme: Tenant) -> None:
    billed(world, acme, [BILLED], hours_ago(1))
    entry = chain(acme)[0]
    entry.document = {}
    with pytest.raises(TypeError, match="never changed"):
        entry.save()
    with pytest.raises(IntegrityError), transaction.atomic():
        entry.pk, entry._state.adding = None, True
        entry.save()


def test_a_chain_begins_with_prices(world: World, acme: Tenant) -> None:
    billed(world, acme, [BILLED], hours_ago(1))
    read = documents.read_document(chain(acme)[1].document, InvoiceDocument, "invoice")
    other = world.tenant("other")
    with pytest.raises(InvariantBroken, match="begins with"), transaction.atomic():
        chain_actions.append(other, "inv_x", read, datetime.now(UTC))


def test_an_entry_is_not_older_than_the_one_before_although_a_clock_goes_back(
    world: World, acme: Tenant
) -> None:
    billed(world, acme, [BILLED], hours_ago(2))
    ahead = datetime.now(UTC).replace(microsecond=5_000) + timedelta(hours=3)
    BillingEntry.objects.filter(tenant=acme, sequence=2).update(at=ahead)
    second = billed(world, acme, [Part(first=3_000, end=3_001, size=1, generation=1)], hours_ago(1))
    assert chain(acme)[2].at == ahead == world.invoice(second).issued_at


# -- prices -----------------------------------------------------------------------------------------------


def book(version: int) -> dict[str, Any]:
    """The standard prices at a whole unit of the currency a message, times the version."""
    document: dict[str, Any] = dict(price_actions.publish_first_price_book(datetime.now(UTC)).document)
    meters = [dict(meter) for meter in document["meters"]]
    meters[0] |= {"free": 0, "tiers": [{"up_to": None, "unit_price": f"{version}.000000000000"}]}
    return {**document, "version": version, "meters": meters}


def publish(document: dict[str, Any], at: datetime) -> PriceBook:
    """At that moment, for periods that begin from then on."""
    return price_actions.publish_price_book(TESTER, document=document, effective_from=at, now=at)


def total(world: World, cut: Cut) -> int | None:
    return world.invoice(cut).total_micro


def test_new_prices_hold_from_the_next_period_of_each_tenant_on(world: World, acme: Tenant) -> None:
    other = world.tenant("other")
    price_actions.publish_first_price_book(datetime.now(UTC))
    one = Part(first=0, end=10, size=0)
    before = billed(world, acme, [one], hours_ago(6))
    publish(book(2), hours_ago(4))
    running = billed(world, acme, [Part(first=10, end=20, size=0)], hours_ago(3))
    after = billed(world, acme, [Part(first=20, end=30, size=0)], hours_ago(2))
    late = billed(world, other, [one], hours_ago(1))
    assert [total(world, cut) for cut in (before, running, after, late)] == [0, 0, 20_000_000, 0]
    told = [(entry.kind, entry.document.get("effective_from_ms")) for entry in chain(acme)]
    assert [kind for kind, _ in told] == ["prices", "invoice", "prices", "invoice", "invoice"]
    assert told[2][1] == time_ms(running.period_end)
    assert running.chain_sequence == 3, "the prices are told to the brokers with the cut before they hold"
    assert [entry.kind for entry in chain(other)] == ["prices", "prices", "invoice"]


def test_a_book_that_is_published_later_never_reaches_back(world: World, acme: Tenant) -> None:
    price_actions.publish_first_price_book(datetime.now(UTC))
    cut = world.cut(acme, [Part(first=0, end=10, size=0)], end=hours_ago(1))
    publish(book(2), acme.created_at - timedelta(seconds=1))
    world.covered(cut, [Part(first=0, end=10, size=0)])
    world.spark()
    world.bill()
    assert total(world, cut) == 0
    assert world.invoice(cut).price_book.version == 1


# -- from before --------------------------------------------------------------------------------------------


def as_before_documents(cut: Cut) -> None:
    """As the migration leaves a cut that was delivered before brokers gave totals."""
    Cut.objects.filter(pk=cut.pk).update(sha256="", chain_sequence=0, chain_hash="")
    CutReading.objects.filter(cut=cut).update(accepted_ms=None, messages=None, bytes=None)
    BillingEntry.objects.filter(tenant=cut.tenant).delete()


def test_a_cut_from_before_documents_is_invoiced_without_one_and_the_next_with_one(
    world: World, acme: Tenant
) -> None:
    first = world.cut(acme, [BILLED], end=hours_ago(2))
    as_before_documents(first)
    world.covered(first, [BILLED])
    world.spark()
    world.bill()
    invoice = world.invoice(first)
    assert (invoice.status, invoice.total_micro) == ("issued", 5_500_000)
    assert queries.evidence(invoice) == {
        "status": "issued",
        "gaps": [],
        "document": None,
        "document_sha256": None,
    }
    second = world.cut(acme, [ANEW], end=hours_ago(1))
    world.covered(second, [ANEW], start_offset=3_000)
    world.lost(second, LOST)
    world.spark()
    world.bill()
    assert acme.credit_notes.count() == 1
    assert [entry.kind for entry in chain(acme)] == ["prices", "invoice"]
    assert document(acme, world.invoice(second).public_id)["previous"] is None


def test_drafts_from_before_keep_their_prices(world: World, acme: Tenant) -> None:
    standard = price_actions.publish_first_price_book(datetime.now(UTC))
    first = period_actions.close_period(TESTER, acme.public_id, end=hours_ago(4))
    second = period_actions.close_period(TESTER, acme.public_id, end=hours_ago(1))
    newer = publish(book(2), hours_ago(3))
    BillingEntry.objects.all().delete()
    Cut.objects.update(chain_sequence=0, chain_hash="")
    price_actions.begin_chains(10)
    assert [(entry.object_id, entry.document["effective_from_ms"]) for entry in chain(acme)] == [
        (standard.public_id, time_ms(acme.created_at)),
        (newer.public_id, time_ms(second.period_end)),
    ]
    BillingEntry.objects.all().delete()
    Invoice.objects.filter(cut=second).update(price_book=newer)
    price_actions.begin_chains(10)
    assert [(entry.object_id, entry.document["effective_from_ms"]) for entry in chain(acme)] == [
        (standard.public_id, time_ms(acme.created_at)),
        (newer.public_id, time_ms(first.period_end)),
    ]


def test_the_document_and_the_brokers_hash_tell_of_the_same_readings(world: World, acme: Tenant) -> None:
    cut = billed(world, acme, [BILLED], hours_ago(1))
    assert cut.sha256 == cut_sha256(
        acme.public_id, cut.public_id, time_ms(cut.period_end), cut_ends(cut.readings.all())
    )
