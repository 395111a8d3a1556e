"""Terms of a tenant: they hold from its next period on, are in its chain, and its invoices are rated with them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client

from billing import chain_actions, previews, price_actions, queries, terms_actions
from billing.models import BillingEntry, CreditNote, Cut, Invoice, PriceBook, TenantTerms
from control_plane.audit import queries as audit
from control_plane.rest import billing_shapes as shapes
from penstock.contract import documents
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.rules import rating
from penstock.rules.timestamps import time_ms
from penstock.verification import charges_check, granted_check, invoice_check
from penstock.verification.findings import Problem
from tenants.models import Membership, Tenant
from tests.control_plane.billing.world import STANDARD_1, TESTER, Part, World
from tests.control_plane.world import make_person

NOW_MS = time_ms(datetime.now(UTC))
YEAR_MS = 366 * 86_400_000
FIRST = Part(first=0, end=2_000, size=2_000_000, generation=1)
SECOND = Part(first=2_000, end=5_000, size=3_000_000, generation=1)
LOST = Part(first=4_000, end=5_000, size=1_000_000, generation=1)
NEW = Part(first=4_000, end=4_100, size=100_000, generation=2)


def grant(name: str = "cr_1", amount: int = 4_000_000, **changes: Any) -> dict[str, Any]:
    return {
        "id": name, "amount_micro": amount, "currency": "USD", "granted_ms": NOW_MS,
        "expires_ms": NOW_MS + YEAR_MS, "reason": "prepaid",
    } | changes  # fmt: skip


def terms(**changes: Any) -> dict[str, Any]:
    tenth = {
        "id": "di_1", "basis_points": 1_000, "amount_micro": 0, "currency": "", "meters": [], "from_ms": 0,
        "until_ms": NOW_MS + YEAR_MS, "reason": "partner",
    }  # fmt: skip
    tax = {
        "country": "DE", "region": "", "reverse_charge": False, "reason": "VAT",
        "rates": [{"from_ms": 0, "basis_points": 1_900}],
    }  # fmt: skip
    return {"discounts": [tenth], "credits": [grant()], "tax": tax} | changes


def change(
    tenant: Tenant, wanted: Mapping[str, Any], book: str | None = None, at: datetime | None = None
) -> TenantTerms:
    """Long before the periods of these tests end, if no time is given."""
    return terms_actions.change_terms(
        TESTER, tenant.public_id, terms=wanted, price_book_sha256=book, now=at or hours_ago(20)
    )


def hours_ago(hours: int) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)


@pytest.fixture
def acme(world: World) -> Tenant:
    return world.tenant("acme")


def cut(
    world: World, tenant: Tenant, part: Part, hours: int, lost: Part | None = None, start: int = 0
) -> Cut:
    made = world.cut(tenant, [part], end=hours_ago(hours))
    world.covered(made, [part], **({"start_offset": start} if start else {}))
    if lost is not None:
        world.lost(made, lost)
    world.spark()
    world.bill()
    return made


def document_of(invoice: Invoice) -> documents.InvoiceDocument:
    entry = BillingEntry.objects.get(object_id=invoice.public_id)
    return documents.read_document(entry.document, documents.InvoiceDocument, "invoice")


def assert_proven(invoice: Invoice, previous: Invoice) -> documents.InvoiceDocument:
    """Its charges, lines and what REST shows, by what `verify-invoice` checks them with."""
    assert problems_of(invoice, previous) == []
    return document_of(invoice)


def problems_of(invoice: Invoice, previous: Invoice) -> list[Problem]:
    """Of its charges, its lines, its tax and what REST shows."""
    issued = document_of(invoice)
    prices = price_actions.assigned_prices(invoice.tenant, invoice.cut.period_start)
    assigned = charges_check.AssignedPrices.of(prices)
    entries = BillingEntry.objects.filter(tenant=invoice.tenant).order_by("sequence")
    kind = documents.CreditNoteDocument
    notes = [documents.read_document(e.document, kind, "note") for e in entries if e.kind == "credit_note"]
    sequence = {e.object_id: e.sequence for e in entries}
    since = [n for n in notes if sequence[previous.public_id] < sequence[n.id] < sequence[invoice.public_id]]
    returned = charges_check.returned_by(since)
    quantities = invoice_check.billed_quantities(issued)
    kinds = [e for e in entries if e.kind == "prices"]
    chain = [documents.read_document(e.document, documents.PricesDocument, "prices") for e in kinds]
    earlier = chain[: chain.index(prices)]
    before = document_of(previous)
    due = charges_check.due_charges(issued, assigned, quantities, before, returned, earlier)
    mine = [note for note in notes if note.invoice.id == invoice.public_id]
    shown = shapes.InvoiceShape(queries.invoice(invoice.tenant, invoice.public_id)).data
    return [
        *invoice_check.check_lines(issued, assigned.book, due.charged.total_micro),
        *charges_check.check_charges(issued, assigned, due),
        *charges_check.check_statement(issued, assigned, due),
        *charges_check.check_grants(issued, assigned, earlier, before, returned),
        *charges_check.check_charged_credits(issued, assigned, due, quantities, granted_check.by_loss(mine)),
        *invoice_check.check_shown(dict(shown) | {"lines": [dict(one) for one in shown["lines"]],
            "charges": [dict(c) for c in shown["charges"]],
            "credit_notes": [dict(n) for n in shown["credit_notes"]]}, issued, mine),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["a\u0000b", "two\nlines", "\u202eabc"])
@pytest.mark.parametrize("part", ["discounts", "credits"])
def test_texts_that_no_database_or_line_takes_are_refused(acme: Tenant, part: str, text: str) -> None:
    wanted = terms()
    wanted[part][0]["reason"] = text
    with pytest.raises(InvalidRequest, match="control character"):
        change(acme, wanted)


def test_terms_hold_from_the_next_period_and_every_charge_is_proven(world: World, acme: Tenant) -> None:
    price_actions.begin_chains(10)
    change(acme, terms())
    first = world.invoice(cut(world, acme, FIRST, 5))
    assert (document_of(first).format, first.charges) == (1, []), "its period ran already"
    second = world.invoice(cut(world, acme, SECOND, 3))
    issued = assert_proven(second, first)
    # 2,000 messages above the allowance and 3 MB are 7.00, less a tenth 6.30, less 4.00 of credit 2.30, with tax 2.74
    assert [(one["kind"], one["amount_micro"]) for one in second.charges] == [
        ("discount", -400_000), ("discount", -300_000), ("credit", -4_000_000), ("tax", 440_000),
    ]  # fmt: skip
    assert second.total_micro == issued.total_micro == 2_740_000
    assert second.total_micro == sum(line.amount_micro for line in second.lines.all()) + sum(
        one["amount_micro"] for one in second.charges
    )


def test_the_console_shows_each_charge(world: World, acme: Tenant) -> None:
    price_actions.begin_chains(10)
    change(acme, terms())
    cut(world, acme, FIRST, 5)
    second = world.invoice(cut(world, acme, SECOND, 3))
    page = owner_of(acme).get(f"/t/acme/invoices/{second.public_id}").content.decode()
    charges = page.split('id="charges"')[1].split("</section>")[0]
    for text in ("discount", "di_1", "cr_1", "prepaid", "\u22124.00 USD", "tax", "DE", "VAT", "0.44 USD"):
        assert text in charges, text


def test_the_console_shows_how_a_credit_note_changes_the_charges(world: World, acme: Tenant) -> None:
    price_actions.begin_chains(10)
    change(acme, terms(credits=[grant(amount=6_000_000)]))
    cut(world, acme, FIRST, 5)
    second = world.invoice(cut(world, acme, SECOND, 3))
    cut(world, acme, NEW, 1, lost=LOST, start=5_000)
    page = owner_of(acme).get(f"/t/acme/invoices/{second.public_id}").content.decode()
    credits = page.split('id="credits"')[1]
    for text in ("How the charges of the invoice change", "goes back to the grant", "+2.40 USD", "less tax"):
        assert text in credits, text


def owner_of(tenant: Tenant) -> Client:
    person, token = make_person(f"owner{Membership.objects.count()}@acme.example")
    Membership.objects.create(tenant=tenant, person=person, role="owner")
    client = Client()
    client.cookies["penstock"] = token
    return client


def test_a_loss_gives_credit_back_and_the_next_invoice_has_it(world: World, acme: Tenant) -> None:
    price_actions.begin_chains(10)
    change(acme, terms(credits=[grant(amount=6_000_000)], tax=None))
    first = world.invoice(cut(world, acme, FIRST, 5))
    second = world.invoice(cut(world, acme, SECOND, 3))
    third = world.invoice(cut(world, acme, NEW, 1, lost=LOST, start=5_000))
    (note,) = CreditNote.objects.all()
    # 1,000 messages and 1 MB less: 7.00 becomes 4.00, 6.30 becomes 3.60; so 2.40 of 6.00 go back.
    assert (note.invoice, note.total_micro) == (second, 300_000)
    back = [one["amount_micro"] for one in note.charges if one["kind"] == "credit"]
    assert back == [2_400_000]
    assert_proven(second, first)
    issued = assert_proven(third, second)
    assert documents.plain(issued)["balances"][0]["before_micro"] == 2_400_000


def test_a_grant_stays_as_it_was_given_until_it_expires(acme: Tenant) -> None:
    change(acme, terms())
    for credits in ([], [grant(amount=10_000)], [grant(expires_ms=NOW_MS)]):
        with pytest.raises(InvalidRequest, match="cr_1 was granted"):
            change(acme, terms(credits=credits))
    old = grant("cr_old", expires_ms=time_ms(hours_ago(10)))
    change(acme, terms(credits=[grant(), old]))
    with pytest.raises(InvalidRequest, match="cr_old was granted"):
        change(acme, terms(), at=hours_ago(11))
    assert change(acme, terms(credits=[grant(), grant("cr_2")]), at=hours_ago(10)).revision == 3


def test_the_usage_page_shows_the_terms_in_force_and_what_the_period_costs_so_far(
    world: World, acme: Tenant
) -> None:
    price_actions.begin_chains(10)
    change(acme, terms(credits=[grant(amount=6_000_000)]))
    cut(world, acme, FIRST, 5)
    page = unescape(owner_of(acme).get("/t/acme/usage").content.decode())
    terms_shown = page.split('id="terms"')[1].split("</section>")[0]
    for text in ("di_1", "10 %", "cr_1", "6.00 USD", "DE", "19 %", "Left"):
        assert text in terms_shown, text
    cost = page.split('id="cost"')[1].split("</section>")[0]
    assert "tax" in cost and "Total" in cost
    cut(world, acme, SECOND, 3)
    page = unescape(owner_of(acme).get("/t/acme/usage").content.decode())
    # The second period took 6.30 less its credit: nothing is left.
    left = page.split('id="terms"')[1].split('data-label="Left">')[1].split("<")[0]
    assert left == "0.00 USD"


def test_the_id_of_a_grant_that_is_gone_is_never_another_grants(world: World, acme: Tenant) -> None:
    gone = grant("cr_old", expires_ms=time_ms(hours_ago(10)))
    change(acme, terms(credits=[gone]))
    change(acme, terms(credits=[]), at=hours_ago(9))
    with pytest.raises(InvalidRequest, match="cr_old was granted"):
        change(acme, terms(credits=[grant("cr_old")]), at=hours_ago(8))
    assert change(acme, terms(credits=[gone]), at=hours_ago(8)).revision == 3, "the same one harms nothing"


def test_the_chain_knows_grants_that_are_older_than_the_history_of_terms(world: World, acme: Tenant) -> None:
    price_actions.begin_chains(10)
    change(acme, terms(credits=[grant("cr_old")]))
    world.cut(acme, [], end=hours_ago(12))
    TenantTerms.objects.all().delete()
    with pytest.raises(InvalidRequest, match="cr_old was granted"):
        change(acme, terms(credits=[grant("cr_old", 10_000)]))


def test_a_period_that_is_closed_late_has_the_terms_of_its_beginning(world: World, acme: Tenant) -> None:
    price_actions.begin_chains(10)
    early, late = (
        terms(discounts=[{**terms()["discounts"][0], "id": name}]) for name in ("di_early", "di_late")
    )
    change(acme, early, at=hours_ago(10))
    change(acme, late, at=hours_ago(4))
    for hours, due in ((11, None), (9, "di_early"), (5, "di_early"), (3, "di_late")):
        world.cut(acme, [], end=hours_ago(hours))
        has = price_actions.assigned_prices(acme, Cut.objects.latest("period_end").period_end).terms
        found = has.discounts[0].id if isinstance(has, documents.Terms) else None
        assert found == due, f"for the period that began {hours} hours ago"


def test_a_grant_that_was_removed_in_time_pays_for_a_period_that_is_closed_late(
    world: World, acme: Tenant
) -> None:
    """It had expired when it was removed, and not when the period began."""
    price_actions.begin_chains(10)
    short = grant("cr_short", expires_ms=time_ms(hours_ago(6)))
    change(acme, terms(credits=[short]), at=hours_ago(20))
    change(acme, terms(credits=[]), at=hours_ago(5))
    first = world.invoice(cut(world, acme, FIRST, 8))
    second = world.invoice(cut(world, acme, SECOND, 3))
    assert documents.plain(assert_proven(second, first))["balances"][0]["used_micro"] == 4_000_000


def test_terms_that_are_older_than_their_history_hold_as_they_are(world: World, acme: Tenant) -> None:
    price_actions.begin_chains(10)
    kept = change(acme, terms())
    TenantTerms.objects.filter(pk=kept.pk).update(revision=2, changed_at=hours_ago(1))
    world.cut(acme, [], end=hours_ago(5))
    assert price_actions.assigned_prices(acme, hours_ago(5)).format == 2


def test_credit_that_comes_back_to_an_expired_grant_pays_until_it_is_used(world: World, acme: Tenant) -> None:
    price_actions.begin_chains(10)
    short = grant("cr_short", 6_400_000, expires_ms=time_ms(hours_ago(4)))
    change(acme, terms(credits=[short], tax=None))
    first = world.invoice(cut(world, acme, FIRST, 5))
    second = world.invoice(cut(world, acme, SECOND, 3))
    change(acme, terms(credits=[], tax=None), at=hours_ago(3))
    third = world.invoice(cut(world, acme, NEW, 2, lost=LOST, start=5_000))
    # Of 6.40 the second used 6.30, and 0.10 lapsed; 2.70 came back with the loss, and the third needs little of it.
    (note,) = CreditNote.objects.all()
    assert (note.invoice, note.total_micro) == (second, 0)
    assert assert_proven(second, first).balances == (
        documents.CreditBalance(grant="cr_short", before_micro=6_400_000, used_micro=6_300_000),
    )
    (came_back,) = documents.plain(assert_proven(third, second))["balances"]
    assert (came_back["grant"], came_back["before_micro"]) == ("cr_short", 2_700_000)
    assert third.total_micro == 0 and came_back["used_micro"] > 0
    fourth = world.invoice(cut(world, acme, Part(first=4_100, end=4_200, size=100, generation=2), 1))
    (left,) = documents.plain(assert_proven(fourth, third))["balances"]
    assert left["before_micro"] == 2_700_000 - came_back["used_micro"]


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ([], "object"),
        ({}, "discounts"),
        (terms(surprise=1), "surprise"),
        (terms(credits=[grant(), grant()]), "twice"),
        (terms(credits=[grant(amount=0)]), "amount_micro"),
        (terms(credits=[grant(amount_micro=1.5)]), "amount_micro"),
        (terms(credits=[grant(f"cr_{n}") for n in range(101)]), "credits"),
        (terms(tax={**terms()["tax"], "reverse_charge": True, "reason": ""}), "reason"),
        (terms(tax={**terms()["tax"], "rates": [{"from_ms": 0, "basis_points": 10_001}]}), "basis_points"),
        (terms(discounts=[{**terms()["discounts"][0], "amount_micro": 1}]), "percentage"),
        (terms(discounts=[{**terms()["discounts"][0], "until_ms": 0}]), "ends"),
        (
            terms(
                discounts=[
                    {**terms()["discounts"][0], "basis_points": 0, "amount_micro": 4_999, "currency": "USD"}
                ]
            ),
            "di_1: .*whole coins of 10000 USD",
        ),
        (terms(credits=[grant(amount_micro=10_001)]), "whole coins"),
    ],
)
def test_terms_that_cannot_be_are_refused_by_name(acme: Tenant, wanted: Any, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        change(acme, wanted)
    assert not TenantTerms.objects.exists()


def test_the_same_terms_again_change_nothing_and_a_change_is_audited(acme: Tenant) -> None:
    change(acme, terms())
    assert change(acme, terms()).revision == 1
    (entry,) = [e for e in audit.entries(acme.public_id) if e.action == "terms.change"]
    assert entry.after["terms"]["credits"][0]["id"] == "cr_1"
    with pytest.raises(NotFound, match="not found"):
        change(Tenant(public_id="tn_0"), terms())
    with pytest.raises(NotFound, match="no price book"):
        change(acme, terms(), book="ab" * 32)


def test_a_book_of_its_own_is_for_one_tenant_and_it_may_come_back(world: World, acme: Tenant) -> None:
    price_actions.begin_chains(10)
    other = world.tenant("other")
    now = datetime.now(UTC)
    general = price_actions.publish_price_book(
        TESTER, document=STANDARD_1 | {"version": 2}, effective_from=now, now=now
    )
    old = PriceBook.objects.get(version=1)
    change(acme, documents.plain(documents.NO_TERMS), book=old.sha256)
    soon = datetime.now(UTC)
    price_actions.begin_chain(other)
    for tenant, due in ((acme, old), (other, general)):
        world.cut(tenant, [], end=datetime.now(UTC))
        assert price_actions.running_prices_of(tenant) == due, soon
    change(acme, documents.plain(documents.NO_TERMS))
    world.cut(acme, [])
    assert price_actions.running_prices_of(acme) == general
    change(acme, documents.plain(documents.NO_TERMS), book=old.sha256)
    world.cut(acme, [])
    assert price_actions.running_prices_of(acme) == old
    assert chain_actions.head(acme)[0] == 3


def test_a_preview_rates_the_last_period_by_another_book(world: World, acme: Tenant) -> None:
    with pytest.raises(NotFound, match="no period"):
        previews.last_period(acme, rating.PriceBook.read(STANDARD_1), datetime.now(UTC))
    first = world.invoice(cut(world, acme, FIRST, 5))
    same = previews.last_period(acme, rating.PriceBook.read(STANDARD_1), datetime.now(UTC))
    assert same.charged.total_micro == same.billed_micro == first.total_micro
    packed = {
        **STANDARD_1, "format": 2, "version": 9, "fees": [],
        "meters": [{**STANDARD_1["meters"][1], "model": "package", "unit_size": 1_500_000}],
    }  # fmt: skip
    by_packed = previews.last_period(acme, rating.PriceBook.read(packed), datetime.now(UTC))
    assert by_packed.preview_micro == 2_000_000
    assert [(one.kind, one.name, one.difference_micro) for one in by_packed.lines] == [
        ("usage", "bytes_in", 0), ("usage", "messages_in", -2_000_000),
    ]  # fmt: skip


def test_a_preview_of_terms_has_them_as_they_would_hold_now(world: World, acme: Tenant) -> None:
    """Discounts of today for periods of yesterday, and credit that goes down from period to period."""
    now = datetime.now(UTC)
    cut(world, acme, FIRST, 5)
    cut(world, acme, SECOND, 3)
    soon = {**terms()["discounts"][0], "from_ms": time_ms(now) - 1_000, "until_ms": time_ms(now) + 1_000}
    over = {**terms()["discounts"][0], "id": "di_over", "until_ms": time_ms(now)}
    wanted = documents.read_document(
        terms(
            discounts=[soon, over], credits=[grant(amount=5_000_000), grant("cr_over", expires_ms=NOW_MS - 1)]
        ),
        documents.Terms,
        "terms",
    )
    first, second = previews.last_periods(acme, terms=wanted, count=9, now=now)
    assert first.invoice.cut.period_end == second.invoice.cut.period_start
    named = {(one.kind, one.name): one.preview_micro for one in second.lines}
    assert ("discount", "di_over") not in named and ("credit", "cr_over") not in named
    used = [sum(one.preview_micro for one in p.lines if one.kind == "credit") for p in (first, second)]
    assert sum(used) == -5_000_000 and all(used)
    assert second.difference_micro == second.preview_micro - second.billed_micro
    assert previews.last_periods(acme, count=1, now=now)[0].difference_micro == 0
