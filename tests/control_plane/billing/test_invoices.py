"""From a cut to an issued invoice: what is counted, what keeps it a draft, and what never changes afterwards."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from billing import period_actions, queries
from billing.models import Cut, CutUsage, DataSetRun, DataSetState, Invoice, InvoiceLine, PriceBook
from control_plane.audit import queries as audit
from control_plane.outbox.models import Delivery
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.rules.rating import PriceBook as Prices
from penstock.rules.rating import rate
from tenants.models import Tenant
from tests.control_plane.billing.world import TESTER, TODAY, Part, World, hash_of, vector_of

PARTS = [
    Part(partition=0, first=0, end=15_000, size=4_000_000, day=TODAY - timedelta(days=1)),
    Part(partition=0, first=15_000, end=20_000, size=1_500_000),
    Part(partition=1, first=0, end=5_000, size=505_000),
]


def test_a_covered_cut_becomes_an_issued_invoice_whose_lines_add_up(world: World) -> None:
    acme = world.tenant("acme")
    cut = world.cut(acme, PARTS)
    assert world.invoice(cut).status == "draft"
    assert world.invoice(cut).gaps == ["the cut's readings are not in the data sets yet"]
    world.covered(cut, PARTS)
    world.spark()
    assert set(world.bill().values()) == {"imported"}
    invoice = world.invoice(cut)
    assert (invoice.status, invoice.gaps, invoice.number) == ("issued", [], 1)
    lines = {line.meter: line for line in invoice.lines.all()}
    assert lines["messages_in"].quantity == 25_000
    assert lines["messages_in"].amount_micro == 43_000_000  # 1,000 free, 19,000 x 0.002, 5,000 x 0.001
    assert lines["bytes_in"].quantity == 6_005_000
    assert lines["bytes_in"].amount_micro == 6_010_000  # 6.005, the half cent up
    assert invoice.total_micro == 49_010_000
    assert {line.price_book_sha256 for line in lines.values()} == {invoice.price_book.sha256}
    assert (
        rate(Prices.read(invoice.price_book.document), queries_quantities(invoice)).total_micro == 49_010_000
    )


def queries_quantities(invoice: Invoice) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in CutUsage.objects.filter(cut=invoice.cut):
        sums[row.meter] = sums.get(row.meter, 0) + row.quantity
    return sums


def test_a_tenant_without_partitions_gets_an_invoice_of_nothing(world: World) -> None:
    cut = world.cut(world.tenant("quiet"), [])
    world.spark()
    world.bill()
    assert (world.invoice(cut).status, world.invoice(cut).total_micro) == ("issued", 0)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"status": "gap", "reason": "no cut reading", "missing": "__usage-1 offset 7"},
            "orders-0: gap: no cut reading (__usage-1 offset 7)",
        ),
        ({"end_offset": 19_999}, "orders-0: covered up to offset 19999, cut at 20000"),
        ({"start_offset": 1}, "orders-0: counted from offset 1, the previous cut ended at 0"),
        ({"log_generation": 1}, "covered up to offset 20000, and not in the cut"),
    ],
)
def test_a_gap_is_named_and_the_invoice_stays_a_draft(
    world: World, changes: dict[str, Any], named: str
) -> None:
    cut = world.cut(world.tenant("acme"), PARTS[:2])
    world.covered(cut, PARTS[:2], **changes)
    world.spark()
    world.bill()
    invoice = world.invoice(cut)
    assert invoice.status == "draft"
    assert invoice.total_micro is None
    assert not invoice.lines.exists()
    assert any(named in gap for gap in invoice.gaps), invoice.gaps


def test_a_partition_whose_cut_reading_is_missing_is_named_and_issued_once_it_comes(world: World) -> None:
    cut = world.cut(world.tenant("acme"), PARTS)
    world.covered(cut, PARTS[:2])
    world.spark()
    world.bill()
    assert [gap.split("-")[1][0] for gap in world.invoice(cut).gaps] == ["1"]
    assert "5000 is not in the data sets" in world.invoice(cut).gaps[0]
    world.rows["cut_usage"].clear()
    world.rows["cut_coverage"].clear()
    world.covered(cut, PARTS)
    world.spark()
    world.bill()
    assert world.invoice(cut).status == "issued"


@pytest.mark.parametrize("keep", [[0, 1, 2, 3], [0, 1], [2, 3], [0, 2]])
def test_usage_rows_that_do_not_cover_every_offset_keep_the_draft(world: World, keep: list[int]) -> None:
    cut = world.cut(world.tenant("acme"), PARTS[:2])
    world.covered(cut, PARTS[:2])
    rows = world.rows["cut_usage"]
    world.rows["cut_usage"] = [rows[index] for index in keep]
    world.spark()
    world.bill()
    invoice = world.invoice(cut)
    assert invoice.status == ("issued" if len(keep) == 4 else "draft")
    assert bool(invoice.gaps) == (len(keep) < 4)


def test_periods_are_contiguous_and_each_offset_is_billed_once(world: World) -> None:
    acme = world.tenant("acme")
    now = datetime.now(UTC)
    first = world.cut(acme, PARTS[:1], end=now - timedelta(hours=1))
    second = world.cut(acme, PARTS[1:2], end=now - timedelta(minutes=1))
    assert second.period_start == first.period_end
    assert first.period_start == acme.created_at.replace(
        microsecond=acme.created_at.microsecond // 1000 * 1000
    )
    world.covered(first, PARTS[:1])
    world.covered(second, PARTS[1:2])
    world.spark()
    world.bill()
    assert [world.invoice(cut).status for cut in (first, second)] == ["issued", "issued"]
    assert [i.number for i in queries.invoices(acme).order_by("pk")] == [1, 2]
    total = sum(line.quantity for line in InvoiceLine.objects.filter(meter="messages_in"))
    assert total == 20_000


def test_an_invoice_waits_for_the_one_before(world: World) -> None:
    acme = world.tenant("acme")
    first = world.cut(acme, PARTS[:1], end=datetime.now(UTC) - timedelta(hours=1))
    second = world.cut(acme, PARTS[1:2])
    world.covered(second, PARTS[1:2])
    world.spark()
    world.bill()
    assert world.invoice(first).public_id in world.invoice(second).gaps[0]


def test_ending_a_period_twice_is_one_cut_and_one_delivery(world: World) -> None:
    acme = world.tenant("acme")
    end = datetime.now(UTC)
    cut = period_actions.close_period(TESTER, acme.public_id, end=end)
    assert period_actions.close_period(TESTER, acme.public_id, end=end) == cut
    assert Delivery.objects.filter(kind="cut").count() == 1
    assert Invoice.objects.count() == 1


def test_a_period_ends_in_the_past_and_after_its_start(world: World) -> None:
    acme = world.tenant("acme")
    with pytest.raises(InvalidRequest, match="future"):
        period_actions.close_period(TESTER, acme.public_id, end=datetime.now(UTC) + timedelta(minutes=1))
    with pytest.raises(InvalidRequest, match="start"):
        period_actions.close_period(TESTER, acme.public_id, end=acme.created_at)
    with pytest.raises(NotFound):
        period_actions.close_period(TESTER, "tn_nobody", end=datetime.now(UTC))
    assert Invoice.objects.count() == 0


def test_the_brokers_may_repeat_a_vector_and_not_change_it(world: World) -> None:
    cut = world.cut(world.tenant("acme"), PARTS)
    entry, other = vector_of(PARTS)
    world.answer(cut, [other, entry])
    with pytest.raises(InvalidRequest, match="other offsets"):
        world.answer(cut, [entry])
    with pytest.raises(InvalidRequest, match="other offsets"):
        world.answer(cut, [replace(entry, bytes=entry.bytes + 1), other])
    cut.refresh_from_db()
    assert cut.sha256 == hash_of(cut, [entry, other])


def test_an_answer_whose_hash_is_not_that_of_its_readings_is_not_stored(world: World) -> None:
    cut = period_actions.close_period(TESTER, world.tenant("acme").public_id, end=datetime.now(UTC))
    for sha256 in ("f" * 64, "(none)"):
        with pytest.raises(InvalidRequest, match="their readings give"):
            world.answer(cut, vector_of(PARTS), sha256)
    cut.refresh_from_db()
    assert (cut.delivered_at, cut.sha256, cut.readings.count()) == (None, "", 0)


def test_the_months_end_closes_each_tenants_period_once(world: World) -> None:
    month = datetime(2026, 2, 1, tzinfo=UTC)
    old, new = world.tenant("old"), world.tenant("new")
    Tenant.objects.filter(pk=old.pk).update(created_at=month - timedelta(days=9))
    Tenant.objects.filter(pk=new.pk).update(created_at=month + timedelta(seconds=1))
    assert period_actions.close_months(month + timedelta(seconds=1)) == 0
    assert period_actions.close_months(month + timedelta(seconds=3)) == 1
    assert period_actions.close_months(month + timedelta(days=20)) == 0
    (cut,) = Cut.objects.all()
    assert (cut.tenant, cut.period_end) == (old, month)
    # A service that was away ends each month by itself.
    assert period_actions.close_months(datetime(2026, 5, 1, 0, 0, 5, tzinfo=UTC)) == 6
    ends = [c.period_end for c in Cut.objects.filter(tenant=new).order_by("pk")]
    assert ends == [datetime(2026, number, 1, tzinfo=UTC) for number in (3, 4, 5)]
    assert [c.period_start for c in Cut.objects.filter(tenant=old).order_by("pk")][1:] == [month, *ends[:-1]]


def test_an_issued_invoice_never_changes_whatever_a_later_run_says(world: World) -> None:
    acme = world.tenant("acme")
    cut = world.cut(acme, PARTS)
    world.covered(cut, PARTS)
    world.spark()
    world.bill()
    before = queries.evidence(world.invoice(cut))
    world.rows["cut_usage"][0]["quantity"] += 1
    world.spark()
    assert world.bill() == {"cut_usage": "imported"}
    assert queries.evidence(world.invoice(cut)) == before
    (run,) = DataSetRun.objects.exclude(disagreements=[])
    assert "15000" in run.disagreements[0]
    assert "15001" in run.disagreements[0]


def test_the_database_refuses_half_an_invoice(world: World) -> None:
    cut = world.cut(world.tenant("acme"), [])
    with pytest.raises(IntegrityError), transaction.atomic():
        Invoice.objects.filter(cut=cut).update(status="issued")
    with pytest.raises(IntegrityError), transaction.atomic():
        Invoice.objects.filter(cut=cut).update(total_micro=5)


def test_lines_and_price_books_are_written_once(world: World) -> None:
    cut = world.cut(world.tenant("acme"), [])
    world.spark()
    world.bill()
    line = world.invoice(cut).lines.first()
    assert line is not None
    line.quantity = 5
    with pytest.raises(TypeError, match="never changed"):
        line.save()
    with pytest.raises(TypeError, match="never changed"):
        PriceBook.objects.get().save()


def test_every_step_stands_in_the_audit_log_of_its_tenant(world: World) -> None:
    acme = world.tenant("acme")
    cut = world.cut(acme, PARTS)
    world.covered(cut, PARTS)
    world.spark()
    world.bill()
    told = [entry.action for entry in audit.entries(acme.public_id).order_by("sequence")]
    assert told[-3:] == ["billing.close_period", "billing.cut", "invoice.issue"]
    assert audit.first_break(acme.public_id) is None
    assert DataSetState.objects.exclude(error="").count() == 0
