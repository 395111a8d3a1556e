"""Compares receivables with Stripe and names each difference. It changes nothing but its own progress and the report.

Phases: the lists of Stripe's invoices that are open, drafts or given up, and of those made since the last comparison;
receivables here that none of them had and that are open, or were closed since; refunds and disputes; and at the end,
once more, each one that differed. What is closed on both sides and has not changed is not read. A step has a bound,
and the next one goes on where it ended, in another process too.

What differs may be under way: an event is late, or a delivery waits. So a comparison that the worker makes has each
suspect compared by a delivery first, and names what differs after that.
"""

import logging
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from django.db.models import Q

from payments import actions, queries
from payments.actions import Kind, Source
from payments.models import Payment, Receivable, ReconciliationReport, ReconciliationRun, StripeCustomer
from payments.sending import KIND_RECEIVABLE
from payments.stripe_adapter import Gateway
from payments.stripe_differences import SETTLING, Difference, differences
from payments.stripe_money import RETURNS
from payments.stripe_shapes import Money, StripeInvoice

DIFFERENCES_MAX = 1_000
"""A report names at most so many; `compared` counts all receivables."""
STEP_S = 20.0
BATCH = 50
REFUND_FAILS = timedelta(days=35)
"""A refund that is older does not fail any more."""
DISPUTE_LASTS = timedelta(days=150)
LISTS = {"open": "open", "draft": "draft", "given up": "uncollectible", "made": ""}
"""Phase -> status of the invoices that it reads."""
PHASES = (*LISTS, "here", "refunds", "disputes", "again")
_log = logging.getLogger(__name__)


def reconcile(gateway: Gateway, now: datetime, *, seconds: float = STEP_S) -> ReconciliationReport | None:
    """Compare now, naming also what a delivery would bring into order. None: it was not finished in `seconds`; the
    worker goes on. Raises `PenstockError` when Stripe does not answer: what is compared is kept.
    """
    return _steps(gateway, now, seconds, patient=False)


def go_on(gateway: Gateway, now: datetime, *, seconds: float = STEP_S) -> ReconciliationReport | None:
    """A step of the comparison, which is begun where none is under way. As `reconcile`, but for the suspects."""
    return _steps(gateway, now, seconds, patient=True)


def _steps(gateway: Gateway, now: datetime, seconds: float, *, patient: bool) -> ReconciliationReport | None:
    run = queries.run_under_way() or _begin(now, patient=patient)
    deadline = time.monotonic() + seconds
    while run.phase != "again":
        _advance(gateway, run, now)
        if not _kept(run):
            return None
        if time.monotonic() >= deadline:
            return None
    return _end(gateway, run, now)


def _kept(run: ReconciliationRun) -> bool:
    """Store the progress; False: another process has finished the comparison meanwhile."""
    rows = ReconciliationRun.objects.filter(pk=run.pk)
    return bool(
        rows.update(
            phase=run.phase, after=run.after, compared=run.compared, found=run.found, suspects=run.suspects
        )
    )


def _begin(now: datetime, *, patient: bool) -> ReconciliationRun:
    last = queries.newest_report()
    since = datetime.fromtimestamp(0, UTC) if last is None else last.at - SETTLING
    return ReconciliationRun.objects.create(started_at=now, since=since, phase=PHASES[0], patient=patient)


def _advance(gateway: Gateway, run: ReconciliationRun, now: datetime) -> None:
    """A page or a batch of the phase, and then the next phase."""
    after = ""
    if run.phase in LISTS:
        since_s = 0 if LISTS[run.phase] else max(1, int(run.since.timestamp()))
        page, after = gateway.invoices(status=LISTS[run.phase], since_s=since_s, after=run.after)
        _compare_page(run, page, now)
    elif run.phase == "here":
        rows = list(queries.to_compare(run.since, run.started_at)[:BATCH])
        for row in rows:
            found = gateway.known_invoice(row.stripe_invoice) if row.stripe_invoice else None
            _compare(run, row, found, now)
        after = "more" if len(rows) == BATCH else ""
    else:
        before = REFUND_FAILS if run.phase == "refunds" else DISPUTE_LASTS
        since_s = max(1, int((run.started_at - before).timestamp()))
        given, after = gateway.given_back(run.phase, since_s, run.after)
        kind = Kind.REFUND if run.phase == "refunds" else Kind.DISPUTE
        _suspect(run, _miscounted(kind, given))
    run.after = after
    if not after:
        run.phase = PHASES[PHASES.index(run.phase) + 1]
        if run.phase == "again" and run.patient:
            _have_compared(run)


def _compare_page(run: ReconciliationRun, page: list[StripeInvoice], now: datetime) -> None:
    rows = {
        row.stripe_invoice: row
        for row in queries.receivables().filter(stripe_invoice__in=[one.id for one in page])
    }
    for found in page:
        row = rows.get(found.id)
        if row is not None:
            _compare(run, row, found, now)
        elif not _is_on_its_way(found) and _unknown(found) not in run.found:
            # Two of the lists may have it.
            run.found.append(_unknown(found))


def _is_on_its_way(found: StripeInvoice) -> bool:
    """Made a moment ago, so that the receivable does not name it yet, or given up before it was asked for."""
    row = Receivable.objects.filter(public_id=found.receivable).first()
    return row is not None and (found.status == "void" or _is_under_way(row))


def _unknown(found: StripeInvoice) -> dict[str, str]:
    one = Difference(
        kind="unknown here", stripe_invoice=found.id, theirs=f"{found.status}, total {found.total}"
    )
    return {name: getattr(one, name) for name in Difference.__slots__}


def _compare(run: ReconciliationRun, row: Receivable, found: StripeInvoice | None, now: datetime) -> None:
    if row.compared_at is None or row.compared_at < run.started_at:
        run.compared += 1
        Receivable.objects.filter(pk=row.pk).update(compared_at=now)
    if row.carried_by is None and _differ(row, found, now):
        _suspect(run, [row.public_id])


def _differ(row: Receivable, found: StripeInvoice | None, now: datetime) -> list[dict[str, str]]:
    customer = StripeCustomer.objects.filter(tenant=row.tenant).first()
    customers = [] if customer is None else [customer.stripe_id, *customer.former_ids]
    return differences(queries.with_group(row), found, customers, now)


def _suspect(run: ReconciliationRun, receivables: Iterable[str]) -> None:
    for one in receivables:
        if one not in run.suspects and len(run.suspects) < DIFFERENCES_MAX:
            run.suspects.append(one)


def _miscounted(kind: Payment.Kind, given: list[Money]) -> list[str]:
    """Receivables whose payment was given or taken back, or returned, otherwise than it is counted here."""
    found = []
    for one in given:
        payment = Payment.objects.filter(
            source=Source.STRIPE, kind=Kind.PAYMENT, reference=one.payment
        ).select_related("receivable__carried_by")
        for paid in payment[:1]:
            counted = _counted(paid, kind, one.id)
            returned = _counted(paid, RETURNS[kind], one.id)
            if returned != one.returned if counted else not one.returned:
                found.append(paid.receivable.public_id)
    return found


def _counted(paid: Payment, kind: Payment.Kind, reference: str) -> bool:
    known = Payment.objects.filter(tenant=paid.tenant_id, source=Source.STRIPE, kind=kind)
    its = Q(reference=reference) | queries.begins_with("reference", f"{reference}/")
    return known.filter(its).exists()


def _have_compared(run: ReconciliationRun) -> None:
    for one in run.suspects:
        with actions.locked(one) as row:
            actions.tell_stripe(row, at_once=False)


def _end(gateway: Gateway, run: ReconciliationRun, now: datetime) -> ReconciliationReport | None:
    """Look at the suspects once more and report. None: some of them are still under way, and may be for a time."""
    rows = {row.public_id: row for row in queries.receivables().filter(public_id__in=run.suspects)}
    if run.patient and now < run.started_at + SETTLING and any(map(_is_under_way, rows.values())):
        return None
    found = list(run.found)
    for one in run.suspects:
        row = rows[one]
        if row.carried_by is None and not _is_under_way(row):
            theirs = gateway.known_invoice(row.stripe_invoice) if row.stripe_invoice else None
            found += _differ(row, theirs, now)
            found += _not_counted(gateway, row)
    report = ReconciliationReport.objects.create(
        at=run.started_at,
        compared=run.compared,
        differences=found[:DIFFERENCES_MAX],
        unsent=queries.unsent().count(),
    )
    run.delete()
    for difference in report.differences:
        _log.error("a receivable and Stripe differ", extra={"difference": difference})
    return report


def _not_counted(gateway: Gateway, row: Receivable) -> list[dict[str, str]]:
    """Refunds and disputes of it that are not counted as they are."""
    found = []
    for paid in row.payments.filter(source=Source.STRIPE, kind=Kind.PAYMENT):
        reference = paid.reference.partition("/")[0]
        for kind, given in (
            (Kind.REFUND, gateway.refunds(reference)),
            (Kind.DISPUTE, gateway.disputes(reference)),
        ):
            for one in given:
                if not _miscounted(kind, [one]):
                    continue
                found.append(
                    {
                        "kind": str(kind),
                        "tenant": row.tenant.public_id,
                        "invoice": row.invoice.public_id,
                        "stripe_invoice": row.stripe_invoice,
                        "ours": "",
                        "theirs": f"{one.id}: {one.amount}{', returned' if one.returned else ''}",
                    }
                )
    return found


def _is_under_way(row: Receivable) -> bool:
    """A delivery waits for its turn, or is made now. One that was refused is not."""
    if row.failures:
        return False
    return row.unsent_since is not None or queries.is_in_outbox(KIND_RECEIVABLE, row.public_id, SETTLING)
