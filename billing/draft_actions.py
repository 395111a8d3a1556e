"""Finalizes drafts that wait: asks the brokers again, waives partitions, and logs drafts that are overdue."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from billing import cut_delivery, draft_queries, invoice_actions, pipeline, queries
from billing.completeness import PartitionRef
from billing.models import Cut, CutCoverage, CutReading, Invoice, PartitionWaiver
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.brokers import client as brokers
from control_plane.outbox import actions as outbox
from control_plane.outbox import delivery
from control_plane.topics.queries import topics_of_all
from penstock.contract.errors import InvalidRequest, NotFound, PenstockError
from tenants.models import Tenant

ALERT_INTERVAL = timedelta(hours=1)
"""An overdue draft is logged at most this often."""
ALERTS_MAX = 100
"""Log lines of one bill run; the rest come with the next."""
REASON_LENGTH_MAX = 500
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeOutcome:
    """What was done for a draft (`done`), and why it is still a draft (`reasons`, empty once it is issued)."""

    invoice: Invoice
    done: tuple[str, ...]
    reasons: tuple[str, ...]


def finalize_draft(
    actor: Actor, cut: str, *, waive: Sequence[PartitionRef] = (), reason: str = ""
) -> FinalizeOutcome:
    """Take every step that can turn the cut's draft into an invoice. It may be repeated. No transaction is open.

    The tenant's cuts that the brokers have not answered are delivered now, in their order. Where the data sets lack
    readings of the cut, the brokers are asked for the same cut again: they write the same readings, and a different
    answer is refused. Then the usage pipeline is woken and the invoice finalized. The partitions in `waive` belong to
    deleted topics; they are not billed from this cut on. When one of them is refused, none is waived. Raises
    `NotFound`, `InvalidRequest`, and `BrokerUnavailable` when a topic cannot be looked up.
    """
    row = queries.cut(cut)
    if row.invoice.status == Invoice.Status.ISSUED:
        if waive:
            raise InvalidRequest(f"{cut}: its invoice is issued, so no partition can be waived")
        return FinalizeOutcome(invoice=row.invoice, done=(), reasons=())
    done = _waive(actor, row, waive, reason)
    failures: list[str] = []
    delivered_before = row.delivered_at is not None
    for undelivered in queries.undelivered_up_to(row):
        if not _deliver(undelivered):
            break
        done.append(f"{undelivered}: the brokers were asked again and have answered")
    row.refresh_from_db()
    uncovered = queries.uncovered_partitions(row)
    if delivered_before and uncovered:
        try:
            cut_delivery.ask(row)
        except PenstockError as error:
            failures.append(f"the brokers did not give the same cut again: {error.message}")
        else:
            done.append(
                f"the brokers were asked for the same cut again, as the data sets lack {uncovered} of its partitions"
            )
    if row.delivered_at is not None and uncovered:
        pipeline.wake()
        done.append("the usage pipeline was woken")
    invoice = invoice_actions.finalize(row.public_id)
    if invoice.status == Invoice.Status.ISSUED:
        done.append("the invoice was issued")
    with transaction.atomic():
        audit.record(
            actor,
            tenant=row.tenant.public_id,
            action="billing.finalize",
            object_id=row.public_id,
            after={"invoice": invoice.public_id, "status": invoice.status, "done": done},
        )
    reasons = draft_queries.reasons(
        Invoice.objects.select_related("cut").get(pk=invoice.pk), draft_queries.refused_data_sets()
    )
    return FinalizeOutcome(invoice=invoice, done=tuple(done), reasons=(*failures, *reasons))


def alert_overdue(now: datetime) -> int:
    """Log each overdue draft, at most once per `ALERT_INTERVAL`. Returns the number of log lines."""
    due = draft_queries.overdue(now).filter(Q(alerted_at=None) | Q(alerted_at__lte=now - ALERT_INTERVAL))
    first = list(due.order_by("pk")[:ALERTS_MAX])
    count = 0
    for draft in draft_queries.explained(first, now, draft_queries.refused_data_sets()):
        invoice = draft.invoice
        # Another worker may log the same draft.
        mine = Invoice.objects.filter(pk=invoice.pk, alerted_at=invoice.alerted_at).update(alerted_at=now)
        if not mine:
            continue
        count += 1
        _log.error(
            "invoice has been a draft for over a day",
            extra={
                "tenant": invoice.tenant.public_id,
                "invoice": invoice.public_id,
                "cut": invoice.cut.public_id,
                "age_s": draft.age_s,
                "reasons": list(draft.reasons),
            },
        )
    return count


def _deliver(cut: str) -> bool:
    """Deliver the cut now in this process, unless a worker has it. Returns whether it was delivered."""
    if not outbox.due_now(cut_delivery.KIND_CUT, cut):
        return False
    return delivery.deliver(cut_delivery.KIND_CUT, cut)


def _waive(actor: Actor, cut: Cut, waive: Sequence[PartitionRef], reason: str) -> list[str]:
    """Waive partitions from this cut on, all of them or none. Returns what was done. It may be repeated."""
    if not waive:
        return []
    if not 0 < len(reason) <= REASON_LENGTH_MAX:
        raise InvalidRequest(
            f"reason: 1 to {REASON_LENGTH_MAX} characters required to waive {_named(waive[0])}"
        )
    before = queries.waived_partitions(cut)
    fresh = [ref for ref in dict.fromkeys(waive) if ref not in before]
    for ref in fresh:
        _refuse_what_exists(cut.tenant, ref)
    with transaction.atomic():
        # `finalize` takes the same lock.
        tenant = Tenant.objects.select_for_update(no_key=True).get(pk=cut.tenant.pk)
        if cut.invoice.status != Invoice.objects.get(pk=cut.invoice.pk).status:
            raise InvalidRequest(f"{cut.public_id}: its invoice was issued in the meantime")
        for ref in fresh:
            _, made = PartitionWaiver.objects.get_or_create(
                from_cut=cut,
                topic_id=ref[0],
                partition=ref[1],
                defaults={"tenant": tenant, "reason": reason, "actor": actor.id},
            )
            if made:
                audit.record(
                    actor,
                    tenant=tenant.public_id,
                    action="billing.waive",
                    object_id=_named(ref),
                    after={"cut": cut.public_id, "reason": reason},
                )
    return [
        f"{_named(ref)} is waived: it is not billed from this cut on"
        if ref in fresh
        else f"{_named(ref)} was waived before"
        for ref in dict.fromkeys(waive)
    ]


def _named(ref: PartitionRef) -> str:
    return f"{ref[0]}-{ref[1]}"


def _refuse_what_exists(tenant: Tenant, ref: PartitionRef) -> None:
    """Raises unless the partition belongs to a deleted topic of this tenant."""
    topic_id, partition = ref
    named = _named(ref)
    topic = topics_of_all().filter(topic_id=topic_id).first()
    if topic is not None and topic.tenant.pk != tenant.pk:
        raise NotFound(f"{named}: the tenant has no such topic")
    if topic is not None:
        if topic.deleted_at is None:
            raise InvalidRequest(f"{named}: its topic {topic.name} exists; a deleted topic is required")
        if topic.delivered_generation < topic.generation:
            raise InvalidRequest(f"{named}: the brokers have not deleted its topic yet")
        return
    # A topic that was created again has another id; only its readings still name the old one.
    known = (
        CutReading.objects.filter(cut__tenant=tenant, topic_id=topic_id, partition=partition).exists()
        or CutCoverage.objects.filter(cut__tenant=tenant, topic_id=topic_id, partition=partition).exists()
    )
    if not known:
        raise NotFound(f"{named}: the tenant has no such topic")
    try:
        brokers.describe_topic(topic_id=topic_id)
    except NotFound:
        return
    raise InvalidRequest(f"{named}: the brokers have its topic; a deleted topic is required")
