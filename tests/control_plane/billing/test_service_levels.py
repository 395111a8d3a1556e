"""A month of service: measured from data sets, probes and exclusions, posted once with its credit, and provable."""

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rest_framework.renderers import JSONRenderer

from billing import (
    account_actions,
    exclusion_actions,
    price_actions,
    probe_actions,
    queries,
    service_level_actions,
    service_level_pdf,
    service_level_reports,
    terms_actions,
)
from billing.models import DataSetState, Invoice, SlaWindow
from billing.probe_counts import MinuteKey
from billing.service_level_models import (
    ProbeMinute,
    ServiceExclusion,
    ServiceLevelReport,
    ServiceLevelStart,
    SlaMinute,
)
from control_plane.audit import queries as audit
from control_plane.rest.billing_shapes import ChainEntryShape
from control_plane.rest.service_levels import ServiceLevelShape
from penstock.contract import documents
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.service_level_documents import ServiceLevelDocument
from penstock.rules.latency_buckets import bucket_of, middle_us
from penstock.rules.service_level_months import differences, month_document
from penstock.rules.service_levels import ALL_SECONDS, OPERATIONS, STANDARD_1, WHOLE, Counts, operation_month
from penstock.verification.findings import Verdict
from penstock.verification.service_level_check import ShownInvoice, check_service_level
from quotas import actions as quotas
from quotas.models import PlanChange
from quotas.plans import STANDARD, level_from
from quotas.queries import plan
from tenants.models import Tenant
from tests.control_plane.billing.printed import beyond_the_margin
from tests.control_plane.billing.world import STANDARD_1 as STANDARD_PRICES
from tests.control_plane.billing.world import TESTER, Part, World, topic_id

MONTH = "2026-09"
FIRST, END = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)
DUE = END + service_level_actions.GRACE
WINDOWS = 30 * 288
NOTICE = timedelta(days=3)
PART = Part(first=0, end=5_000_000, size=900_000_000, day=FIRST.date())


def made(world: World, name: str = "acme", begins: datetime = FIRST) -> Tenant:
    tenant = world.tenant(name)
    Tenant.objects.filter(pk=tenant.pk).update(created_at=begins)
    tenant.refresh_from_db()
    return tenant


def invoiced(world: World, tenant: Tenant) -> Invoice:
    """September's invoice, issued."""
    cut = world.cut(tenant, [PART], end=END)
    world.covered(cut, [PART])
    world.spark()
    world.bill()
    invoice = world.invoice(cut)
    assert invoice.status == Invoice.Status.ISSUED and invoice.total_micro
    return invoice


def window(
    world: World, tenant: Tenant, at: datetime, valid: int, bad: int = 0, operation: str = "produce"
) -> None:
    world.rows["sla_5m"].append(
        {"tenant": tenant.public_id, "operation": operation, "window": at, "valid": valid, "bad": bad}
    )


def minute(world: World, tenant: Tenant, at: datetime, bad: int, **seconds: int) -> None:
    world.rows["sla_minute"].append(
        {
            "tenant": tenant.public_id, "operation": "produce", "minute": int(at.timestamp()) // 60, "valid": 600,
            "bad": bad, "succeeded_seconds": seconds.get("good", 0),
            "failed_seconds": seconds.get("failed", ALL_SECONDS),
        }
    )  # fmt: skip


def good_day(world: World, tenant: Tenant, day: datetime) -> None:
    for number in range(288):
        for operation in ("produce", "fetch"):
            window(world, tenant, day + timedelta(minutes=5 * number), 3_000, operation=operation)


def document(tenant: Tenant, now: datetime = DUE) -> ServiceLevelDocument:
    return service_level_reports.month_report(tenant, MONTH, now).document


def parts_of(found: ServiceLevelDocument, operation: str = "produce") -> Mapping[str, Any]:
    (one,) = [one for one in found.operations if one.operation == operation]
    return {
        name: getattr(one, name) for name in ("mean_parts", "minutes_parts", "runs_parts", "down_minutes")
    }


def excluded(
    tenant: str | None, from_at: datetime, until_at: datetime, reason: str = "drill", **changes: Any
) -> ServiceExclusion:
    """Announced five days before, where the notice is three."""
    now = changes.get("now", from_at - timedelta(days=5))
    return exclusion_actions.exclude(
        TESTER, tenant=tenant, from_at=from_at, until_at=until_at, reason=reason, now=now, notice=NOTICE
    )


# -- measured ---------------------------------------------------------------------------------------------------


def test_an_outage_of_known_length_goes_from_data_sets_to_each_formula(world: World) -> None:
    """Ten minutes from a window's start, on a day with requests."""
    acme = made(world)
    good_day(world, acme, FIRST)
    for number in range(2):
        world.rows["sla_5m"][2 * (144 + number)]["bad"] = 3_000
    for number in range(10):
        minute(world, acme, FIRST + timedelta(hours=12, minutes=number), 600)
    world.spark()
    world.bill()
    found = document(acme)
    lost = {name: WHOLE - parts_of(found)[name] for name in ("mean_parts", "minutes_parts", "runs_parts")}
    for name, parts in lost.items():
        assert abs(parts * 30 * 86_400 / WHOLE - 600) <= 6, name
    assert parts_of(found, "fetch")["mean_parts"] == WHOLE
    assert found.binding_parts == parts_of(found)["mean_parts"] and found.basis_points == 0
    assert found.operations[0].runs[0].until_s - found.operations[0].runs[0].from_s == 600
    assert found.operations[0].windows.nothing == WINDOWS - 288
    assert list(differences(found)) == []


def test_days_that_nothing_measured_are_no_hundred_percent(world: World) -> None:
    acme = made(world)
    good_day(world, acme, FIRST)
    world.spark()
    world.bill()
    days = service_level_reports.month_report(acme, MONTH, DUE).days
    assert [one.parts for one in days] == [WHOLE, *[None] * 29]
    nothing = service_level_reports.month_report(made(world, "silent"), MONTH, DUE).document
    assert nothing.binding_parts is None and nothing.basis_points == 0


def test_probes_judge_what_a_tenant_did_not_ask_and_nothing_that_it_did(world: World) -> None:
    acme = made(world)
    window(world, acme, FIRST, 3_000)
    window(world, acme, FIRST + timedelta(minutes=5), 4)
    world.spark()
    world.bill()
    first = int(FIRST.timestamp()) // 60
    ProbeMinute.objects.bulk_create(
        ProbeMinute(prober=prober, operation="produce", minute=first + number, valid=6, bad=3)
        for prober in ("a", "b")
        for number in range(15)
    )
    (one,) = [one for one in document(acme).operations if one.operation == "produce"]
    assert (one.windows.own, one.windows.probe, one.windows.nothing) == (1, 2, WINDOWS - 3)
    assert [(row.source, row.valid, row.bad) for row in one.imperfect] == [("probe", 60, 30)] * 2
    assert one.mean_parts == (WINDOWS - 1) * WHOLE // WINDOWS
    assert list(differences(document(acme))) == []


def test_a_probers_minute_written_twice_or_out_of_order_is_there_once(db: None) -> None:
    key = MinuteKey("produce", 7)
    for valid, bad in ((1, 0), (3, 1), (3, 1), (2, 0)):
        probe_actions.write_counts("a", {key: Counts(valid=valid, bad=bad)})
    assert probe_actions.known_counts("a", 7) == {key: Counts(valid=3, bad=1)}
    assert probe_actions.known_counts("b", 7) == {}


def test_an_excluded_span_counts_neither_way_and_only_for_whom_it_is(world: World) -> None:
    acme, other = made(world), made(world, "other")
    for tenant in (acme, other):
        good_day(world, tenant, FIRST)
        world.rows["sla_5m"][-2]["bad"] = 3_000
    world.spark()
    world.bill()
    last = FIRST + timedelta(days=1, minutes=-5)
    made_one = excluded(acme.public_id, last, last + timedelta(minutes=1), "moved the racks")
    assert document(acme).binding_parts == WHOLE
    assert document(acme).excluded[0].reason == "moved the racks"
    other_parts = document(other).binding_parts
    assert other_parts is not None and other_parts < WHOLE
    exclusion_actions.withdraw(TESTER, made_one.public_id, DUE)
    exclusion_actions.withdraw(TESTER, made_one.public_id, DUE)
    assert document(acme).binding_parts == other_parts
    actions = [entry.action for entry in audit.entries(acme.public_id) if entry.action.startswith("sla_")]
    assert sorted(actions) == ["sla_exclusion.create", "sla_exclusion.withdraw"]


def test_a_tenant_of_the_middle_of_a_month_is_measured_from_its_beginning_and_a_running_month_to_now(
    world: World,
) -> None:
    acme = made(world, begins=FIRST + timedelta(days=10, seconds=7))
    found = document(acme, FIRST + timedelta(days=11))
    assert (found.from_s, found.until_s) == (
        int((FIRST + timedelta(days=10)).timestamp()), int((FIRST + timedelta(days=11)).timestamp())
    )  # fmt: skip
    for tenant, month in (
        (acme, "2026-13"), (acme, "26-1"), (acme, "2026-09-01"), (acme, ""), (acme, "2030-01"), (acme, "2026-08"),
        (made(world, "late", END), MONTH),
    ):  # fmt: skip
        with pytest.raises(NotFound, match="does not exist"):
            service_level_reports.month_report(tenant, month, DUE)


def test_percentiles_are_those_of_the_months_buckets(world: World) -> None:
    acme = made(world)
    for day, milliseconds, count in ((0, 2.0, 900), (5, 80.0, 90), (29, 700.0, 10), (30, 9_000.0, 10**6)):
        world.rows["latency_day"].append(
            {
                "tenant": acme.public_id, "operation": "produce", "day": (FIRST + timedelta(days=day)).date(),
                "bucket": bucket_of(milliseconds), "requests": count,
            }
        )  # fmt: skip
    world.spark()
    world.bill()
    (found,) = service_level_reports.month_report(acme, MONTH, DUE).latencies
    wanted = ((500, 2.0), (950, 80.0), (990, 80.0), (999, 700.0))
    assert found.percentiles == tuple((one, middle_us(bucket_of(ms))) for one, ms in wanted)
    assert found.requests == 1_000


# -- posted -----------------------------------------------------------------------------------------------------


def failing(world: World, tenant: Tenant) -> None:
    """All produce requests of two days failed: below 95 % of the month's windows."""
    for day in range(2):
        good_day(world, tenant, FIRST + timedelta(days=day))
    for row in world.rows["sla_5m"]:
        if row["tenant"] == tenant.public_id and row["operation"] == "produce":
            row["bad"] = 3_000


def test_a_month_is_posted_once_after_its_grace_with_its_credit_in_the_terms(world: World) -> None:
    acme = made(world)
    failing(world, acme)
    invoice = invoiced(world, acme)
    assert service_level_actions.post_months(DUE - timedelta(seconds=1)) == 0
    assert [service_level_actions.post_months(DUE) for _ in range(2)] == [1, 0]
    report = ServiceLevelReport.objects.get(tenant=acme)
    assert report.credit_micro == invoice.total_micro, "all of it, and no more"
    (grant,) = documents.read_document(
        terms_actions.terms_of(acme).document, documents.Terms, "terms"
    ).credits
    assert (grant.id, grant.amount_micro, grant.currency) == ("sla-2026-09", report.credit_micro, "USD")
    assert report.document_sha256 in grant.reason
    shown = service_level_reports.month_report(acme, MONTH, DUE)
    assert not shown.provisional and shown.sha256 == report.document_sha256
    assert list(differences(shown.document)) == []
    assert [e.action for e in audit.entries(acme.public_id) if e.action == "sla.post"] == ["sla.post"]


def test_charges_in_another_currency_than_the_months_newest_are_credited_with_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of before tenants had one currency for good."""
    acme = made(world)
    failing(world, acme)
    middle = FIRST + timedelta(days=10)
    early = Part(first=0, end=1_000_000, size=10_000_000, day=FIRST.date())
    price_actions.publish_price_book(
        TESTER,
        document=STANDARD_PRICES | {"name": "euros", "currency": "EUR"},
        effective_from=middle,
        now=middle,
    )
    price_actions.begin_chains(100)
    monkeypatch.setattr(account_actions, "currency_of", lambda tenant: "EUR")
    first = world.cut(acme, [early], end=middle)
    late = Part(first=1_000_000, end=1_500_000, size=5_000_000, day=middle.date())
    second = world.cut(acme, [late], end=END)
    world.covered(first, [early])
    world.covered(second, [late])
    world.spark()
    world.bill()
    dollars, euros = world.invoice(first), world.invoice(second)
    assert (
        (dollars.price_book.currency, euros.price_book.currency) == ("USD", "EUR")
        and dollars.total_micro
        and euros.total_micro
    )
    found = document(acme)
    assert [one.id for one in found.invoices] == [euros.public_id]
    assert (found.currency, found.charge_micro) == ("EUR", euros.total_micro)


def test_a_period_of_two_months_counts_in_each_by_its_time_and_once_in_all(world: World) -> None:
    acme = made(world, begins=FIRST - timedelta(days=15))
    failing(world, acme)
    invoice = invoiced(world, acme)
    assert service_level_actions.post_months(DUE) == 2
    shown, chain, invoices = seen(acme)
    months = [service_level_reports.month_report(acme, month, DUE).document for month in ("2026-08", MONTH)]
    august, september = (one.charge_micro for one in months)
    assert invoice.total_micro is not None and august == invoice.total_micro * 15 // 45
    assert august + september == invoice.total_micro and months[0].credit_micro == 0
    assert shown["credit_micro"] == september, "all of the month, and nothing of the one before"
    world.cut(acme, [PART], end=END + timedelta(days=5))
    assert check_service_level(shown, seen(acme)[1], invoices).verdict is Verdict.PROVEN
    left_out = check_service_level(shown, chain, [])
    assert any("counts and is not among the month's" in one for one in left_out.wrong)


def test_what_comes_after_a_month_was_posted_changes_nothing(world: World) -> None:
    acme = made(world)
    failing(world, acme)
    invoiced(world, acme)
    service_level_actions.post_months(DUE)
    before = document(acme)
    SlaWindow.objects.filter(tenant=acme).update(bad=3_000)
    SlaMinute.objects.all().delete()
    ServiceExclusion.objects.create(
        tenant=None, from_at=FIRST, until_at=FIRST + timedelta(hours=8), reason="too late", created_at=FIRST
    )
    assert service_level_actions.post_months(DUE + timedelta(days=9)) == 0
    assert document(acme) == before


def test_a_month_waits_for_its_invoice_and_for_data_sets_that_are_refused(world: World) -> None:
    acme = made(world)
    failing(world, acme)
    world.cut(acme, [PART], end=END)
    world.spark()
    world.bill()
    assert service_level_actions.post_months(DUE) == 0, "its invoice is a draft"
    invoiced_tenant = made(world, "invoiced")
    failing(world, invoiced_tenant)
    invoiced(world, invoiced_tenant)
    DataSetState.objects.filter(dataset="sla_minute").update(error="one file is missing")
    assert service_level_actions.post_months(DUE) == 0
    DataSetState.objects.update(error="")
    assert service_level_actions.post_months(DUE) == 1


def test_a_month_waits_for_data_sets_that_never_came(world: World) -> None:
    acme = made(world)
    failing(world, acme)
    invoiced(world, acme)
    DataSetState.objects.filter(dataset="sla_minute").delete()
    assert service_level_actions.post_months(DUE) == 0


def test_a_month_that_cannot_be_posted_keeps_no_other_tenant_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("broken", "sound"):
        tenant = made(world, name)
        failing(world, tenant)
        invoiced(world, tenant)
    post = service_level_actions.post_month

    def posted(tenant: Tenant, first: datetime, now: datetime) -> ServiceLevelReport | None:
        if tenant.name == "broken":
            raise InvalidRequest("a grant of this id was given")
        return post(tenant, first, now)

    monkeypatch.setattr(service_level_actions, "post_month", posted)
    assert service_level_actions.post_months(DUE) == 1
    assert ServiceLevelReport.objects.get().tenant.name == "sound"


def test_months_before_levels_were_promised_are_not_posted(world: World) -> None:
    acme = made(world)
    failing(world, acme)
    invoiced(world, acme)
    ServiceLevelStart.objects.create(first=END.date())
    assert service_level_actions.post_months(DUE) == 0


def test_months_that_wait_are_counted_and_shown_to_operators(world: World) -> None:
    acme, gone = made(world), made(world, "gone")
    made(world, "late", END)
    Tenant.objects.filter(pk=gone.pk).update(purged_at=END)
    overdue = DUE + service_level_actions.OVERDUE
    assert service_level_actions.overdue_months(overdue - timedelta(seconds=1)) == 0
    assert service_level_actions.overdue_months(overdue) == 1
    october = overdue + timedelta(days=31)
    assert service_level_actions.overdue_months(october) == 3, "two months of one, one of the other"
    good_day(world, acme, FIRST)
    invoiced(world, acme)
    assert service_level_actions.post_months(DUE) == 1
    assert service_level_actions.overdue_months(overdue) == 0
    ServiceLevelStart.objects.create(first=END.date())
    assert service_level_actions.overdue_months(october) == 2, "months before the promise count for nothing"
    assert service_level_actions.overdue_months(october - timedelta(days=31)) == 0


def test_ids_of_service_levels_are_given_by_them_alone(world: World) -> None:
    acme = made(world)
    failing(world, acme)
    invoiced(world, acme)

    def given(*credits: Mapping[str, Any]) -> None:
        terms_actions.change_terms(
            TESTER, acme.public_id, price_book_sha256=None, now=DUE,
            terms=documents.plain(documents.NO_TERMS) | {"credits": list(credits)},
        )  # fmt: skip

    own = {
        "id": "sla-2026-09", "amount_micro": 10_000, "currency": "USD", "granted_ms": 1, "expires_ms": 1 << 46,
        "reason": "by hand",
    }  # fmt: skip
    with pytest.raises(
        InvalidRequest, match="sla-2026-09: ids that begin with sla- are those of service levels"
    ):
        given(own)
    assert service_level_actions.post_months(DUE) == 1
    (posted,) = documents.plain(terms_actions.terms_of(acme).document)["credits"]
    given(posted, own | {"id": "by-hand"})
    with pytest.raises(InvalidRequest, match="ids that begin with sla-"):
        given(posted, own | {"id": "by-hand"}, own | {"id": "sla-2026-10"})


def test_a_good_month_is_posted_without_a_credit_and_so_is_one_that_cost_nothing(world: World) -> None:
    good, free = made(world), made(world, "free")
    good_day(world, good, FIRST)
    failing(world, free)
    invoiced(world, good)
    cut = world.cut(free, [], end=END)
    world.spark()
    world.bill()
    assert world.invoice(cut).total_micro == 0
    assert service_level_actions.post_months(DUE) == 2
    for tenant in (good, free):
        report = ServiceLevelReport.objects.get(tenant=tenant)
        assert (report.credit_micro, report.document["grant"]) == (0, "")
        assert terms_actions.terms_of(tenant).revision == 0
    assert document(free).basis_points == 10_000


def test_the_credit_pays_for_the_next_period_and_stands_in_its_chain(world: World) -> None:
    acme = made(world)
    failing(world, acme)
    invoice = invoiced(world, acme)
    service_level_actions.post_months(DUE)
    middle, end = END + timedelta(days=5), END + timedelta(days=10)
    first, second = PART.end, PART.end + 3_000_000
    rows = [Part(first=first, end=second, size=10_000_000, day=END.date())]
    waiting = world.cut(acme, [Part(first=first, end=first, size=0, day=END.date())], end=middle)
    world.covered(waiting, [Part(first=first, end=first, size=0, day=END.date())])
    cut = world.cut(acme, rows, end=end)
    world.covered(cut, rows)
    world.spark()
    world.bill()
    later = world.invoice(cut)
    assert later.status == Invoice.Status.ISSUED, later.gaps
    (credit,) = [one for one in later.charges if one["kind"] == "credit"]
    assert credit["name"] == "sla-2026-09"
    assert -credit["amount_micro"] == min(invoice.total_micro or 0, sum(
        line.amount_micro for line in later.lines.all()
    ))  # fmt: skip


# -- proven -----------------------------------------------------------------------------------------------------


@pytest.fixture
def credited(world: World) -> Tenant:
    """Its credit is in the chain: the period after it has ended."""
    acme = made(world)
    failing(world, acme)
    minute(world, acme, FIRST, 600, good=0b111, failed=ALL_SECONDS)
    excluded(None, FIRST + timedelta(days=3), FIRST + timedelta(days=3, hours=1), "x")
    invoiced(world, acme)
    exclusion_actions.tell_tenants(DUE)
    service_level_actions.post_months(DUE)
    world.cut(acme, [PART], end=END + timedelta(days=5))
    return acme


def seen(tenant: Tenant) -> tuple[dict[str, Any], list[dict[str, Any]], list[ShownInvoice]]:
    """What REST shows of the month, of the chain and of its invoices."""
    shown = ServiceLevelShape(service_level_reports.month_report(tenant, MONTH, DUE)).data
    chain = ChainEntryShape(queries.chain(tenant).order_by("pk"), many=True).data
    invoices = Invoice.objects.filter(tenant=tenant, status=Invoice.Status.ISSUED).order_by("number")
    evidence = [ShownInvoice(document=queries.evidence(one)["document"]) for one in invoices]
    plain = json.loads(JSONRenderer().render({"shown": shown, "chain": chain}))
    return plain["shown"], plain["chain"], evidence


def test_a_posted_credit_is_proven_from_what_rest_shows(credited: Tenant) -> None:
    shown, chain, invoices = seen(credited)
    proof = check_service_level(shown, chain, invoices)
    assert (proof.wrong, proof.missing, proof.verdict) == ((), (), Verdict.PROVEN)
    assert proof.credit_micro == shown["credit_micro"] > 0


def test_each_altered_number_is_noticed_even_with_a_new_hash(credited: Tenant) -> None:
    shown, chain, invoices = seen(credited)
    assert len(shown["document"]["operations"][0]["imperfect"]) == 576
    # Three of equal rows say as much as all.
    paths = [
        path
        for path in numbers_in(shown["document"])
        if not (len(path) > 3 and path[2] == "imperfect" and isinstance(path[3], int) and path[3] > 2)
    ]
    assert len(paths) > 60
    for path in paths:
        altered = copy.deepcopy(shown)
        holder: Any = altered["document"]
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] += 1
        try:
            found = documents.read_document(altered["document"], ServiceLevelDocument, "document")
        except InvalidRequest:
            pass  # no document at all: also named
        else:
            altered["document_sha256"] = documents.document_sha256(found)
        assert check_service_level(altered, chain, invoices).verdict is Verdict.WRONG, path


def numbers_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield path
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from numbers_in(one, (*path, name))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from numbers_in(one, (*path, at))


def test_a_latency_objective_is_measured_credited_and_proven(world: World) -> None:
    """All requests are good; in 90 of 8,640 windows over 1 % took longer than 250 ms, and 98.958 % is below 99 %. A
    plan that the tenant goes to in the month promises for the next one.
    """
    acme = made(world)
    quotas.publish_plan(TESTER, "quick", STANDARD, level_from("quick", {"name": "premium"}))
    quotas.set_limits(TESTER, acme, plan=plan("quick"))
    PlanChange.objects.update(changed_at=FIRST)
    quotas.set_limits(TESTER, acme, plan=plan("free"))
    PlanChange.objects.filter(plan="quick").update(changed_at=FIRST + timedelta(seconds=1))
    good_day(world, acme, FIRST)
    for number in range(100):
        for over_ms, slow in ((100, 500), (250, 31 if number < 90 else 30)):
            world.rows["sla_slow_5m"].append(
                {
                    "tenant": acme.public_id, "operation": "produce", "over_ms": over_ms, "slow": slow,
                    "window": FIRST + timedelta(minutes=5 * number),
                }
            )  # fmt: skip
    # `orders` was restored under another name on the second day: it is one topic.
    days = (("orders", "orders", 1, 9), ("orders", "archive", 2, 3), ("logs", "logs", 2, 20))
    for topic, name, day, seconds in (*days, ("orders", "archive", 31, 99)):
        world.rows["usage_day"].append(
            {
                "tenant": acme.public_id, "topic_id": topic_id(topic), "topic": name, "partitions": 1,
                "day": (FIRST + timedelta(days=day - 1)).date(), "meter": "leaderless_ms", "quantity": seconds * 1_000,
            }
        )  # fmt: skip
    invoiced(world, acme)
    service_level_actions.post_months(DUE)
    world.cut(acme, [PART], end=END + timedelta(days=5))
    shown, chain, invoices = seen(acme)
    assert [(one["topic"], one["seconds"]) for one in shown["leaderless"]] == [("logs", 20), ("archive", 12)]
    (usage,) = queries.usage(acme, by=[], first=None, end=None)
    assert "leaderless_ms" not in usage["meters"]
    assert (shown["level"], shown["level_version"], shown["binding_parts"]) == ("premium", 1, WHOLE)
    parts = 8_550 * WHOLE // 8_640
    assert shown["latency"] == {
        "within_ms": 250, "target_parts": 990_000_000, "judged": 288, "missed": 90, "parts": parts,
    }  # fmt: skip
    assert shown["basis_points"] == 1_000 and shown["credit_micro"] > 0
    proof = check_service_level(shown, chain, invoices)
    assert (proof.wrong, proof.missing, proof.verdict) == ((), (), Verdict.PROVEN)
    altered = shown | {"latency": {**shown["latency"], "parts": WHOLE}}
    assert "latency is shown as" in check_service_level(altered, chain, invoices).wrong[0]
    page = service_level_pdf.report_page(
        acme, service_level_reports.month_report(acme, MONTH, DUE), "Penstock"
    )
    assert "98.958 %" in page and "90 of them too slow" in page and "98.966 %" in page
    october = service_level_reports.measure(acme, END, END + timedelta(days=1))
    assert (october.level.name, october.format) == ("standard", 4)


def test_what_is_missing_or_left_out_is_named(credited: Tenant) -> None:
    shown, chain, invoices = seen(credited)
    other = copy.deepcopy(chain)
    other[1]["at_ms"] += 1
    better = {**shown["days"][0], "parts": WHOLE}
    for altered, items, own, text in (
        ({**shown, "credit_micro": 1}, chain, invoices, "credit_micro is shown as 1"),
        ({**shown, "document": None}, chain, invoices, "document"),
        ({**shown, "days": shown["days"][1:]}, chain, invoices, "days: 30 required"),
        ({**shown, "days": [better, *shown["days"][1:]]}, chain, invoices, "days: {'day': '2026-09-01'"),
        ({**shown, "days": None}, chain, invoices, "days: 30 required"),
        ({**shown, "target_parts": 1}, chain, invoices, "target_parts is shown as 1"),
        ({**shown, "minor_digits": 3}, chain, invoices, "minor_digits is shown as 3"),
        (shown, other, invoices, "billing chain, entry 2"),
        (shown, chain, [], "counts and is not among the month's"),
    ):
        proof = check_service_level(altered, items, own)
        assert any(text in one for one in proof.wrong), (text, proof)
    early = check_service_level(shown, chain[:-1], invoices)
    assert early.verdict is Verdict.PARTLY and "not in the billing chain yet" in early.missing[0]
    provisional = check_service_level({**shown, "provisional": True}, chain, invoices)
    assert "not posted yet" in provisional.missing[0]


def test_a_part_of_a_month_is_none_however_well_its_numbers_agree(credited: Tenant) -> None:
    _, chain, invoices = seen(credited)
    whole = service_level_reports.month_report(credited, MONTH, DUE)
    day = timedelta(days=1)
    for begins, end, text in (
        (FIRST, END - day, "until_s is"), (FIRST + day, END, "from_s is"), (FIRST - day, END, "from_s is"),
    ):  # fmt: skip
        found = service_level_reports.measure(credited, FIRST, END)
        first_s, until_s = int(begins.timestamp()), int(end.timestamp())
        part = month_document(
            tenant=found.tenant,
            month=MONTH,
            bounds_s=(first_s, until_s),
            level=STANDARD_1,
            excluded=(),
            operations=[operation_month(one, (first_s, until_s), {}, {}, [], []) for one in OPERATIONS],
            latency=None,
            invoices=found.invoices,
            currency=found.currency,
            minor_digits=found.minor_digits,
        )
        assert list(differences(part)) == []
        report = dataclasses.replace(
            whole,
            document=part,
            sha256=documents.document_sha256(part),
            days=service_level_reports.days_of(part),
        )
        altered = json.loads(JSONRenderer().render(ServiceLevelShape(report).data))
        (wrong,) = check_service_level(altered, chain, invoices).wrong
        assert text in wrong


def test_the_report_is_a_pdf_with_its_numbers(credited: Tenant) -> None:
    found = service_level_reports.month_report(credited, MONTH, DUE)
    page = service_level_pdf.report_page(credited, found, "Penstock")
    assert "93.324 %" in page and found.sha256 in page and "526 more" in page
    announced = "<td>2026-08-30 00:00</td>"
    assert f"<td>2026-09-04 00:00</td><td>2026-09-04 01:00</td>{announced}<td>x</td>" in page
    assert "Judged were 576 of 8,628 windows of produce and 576 of 8,628 windows of fetch" in page
    assert service_level_pdf.report_pdf(credited, found, "Penstock").startswith(b"%PDF")
    assert beyond_the_margin(page) == []
