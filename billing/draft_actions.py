"""Mends drafts: asks the brokers again, gives up what cannot be had back, settles, and tells of what waits too long."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from billing import cut_delivery, draft_queries, invoice_actions, queries
from billing.completeness import Place
from billing.models import Cut, CutCoverage, CutReading, Invoice, PartitionWaiver
from control_plane import config
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.brokers import client as brokers
from control_plane.outbox import actions as outbox
from control_plane.outbox import delivery
from control_plane.topics.queries import topics_of_all
from penstock.contract.errors import InvalidRequest, NotFound, PenstockError
from tenants.models import Tenant

ALERTED_AGAIN = timedelta(hours=1)
ALERTS_MAX = 100
"""Log lines of one round; the rest come with the next."""
REASON_LENGTH_MAX = 500
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """What was done for a draft, and what keeps it a draft still, one text each."""

    invoice: Invoice
    did: tuple[str, ...]
    remains: tuple[str, ...]


def mend(actor: Actor, cut: str, *, waive: Sequence[Place] = (), reason: str = "") -> Mended:
    """Do what can be done for the cut's draft; everything may be repeated. No transaction is open.

    A cut that the brokers have not answered is delivered now, those before it first. Where the data sets lack its
    readings, the brokers are asked for the same cut again: they write the same readings, and another answer is refused.
    Then the usage pipeline is woken and the invoice settled. `waive` are partitions of deleted topics that are given up
    from this cut on. Raises `NotFound`, `InvalidRequest`, and `BrokerUnavailable` when a topic cannot be looked up.
    """
    row = queries.cut(cut)
    if row.invoice.status == Invoice.Status.ISSUED:
        if waive:
            raise InvalidRequest(f"{cut}: its invoice is issued, so nothing of it is given up")
        return Mended(invoice=row.invoice, did=(), remains=())
    did = [_waive(actor, row, place, reason) for place in waive]
    trouble: list[str] = []
    delivered_before = row.delivered_at is not None
    for undelivered in queries.undelivered_up_to(row):
        if not _deliver(undelivered):
            break
        did.append(f"{undelivered}: the brokers were asked again and have answered")
    row.refresh_from_db()
    lacking = queries.unread(row)
    if delivered_before and lacking:
        try:
            cut_delivery.ask(row)
        except PenstockError as error:
            trouble.append(f"the brokers did not give the same cut again: {error.message}")
        else:
            did.append(
                f"the brokers were asked for the same cut again, because the data sets lack {lacking} of its partitions"
            )
    if row.delivered_at is not None and lacking:
        _wake_pipeline()
        did.append("the usage pipeline was woken")
    invoice = invoice_actions.settle(row.public_id)
    if invoice.status == Invoice.Status.ISSUED:
        did.append("the invoice was issued")
    with transaction.atomic():
        audit.record(
            actor,
            tenant=row.tenant.public_id,
            action="billing.mend",
            object_id=row.public_id,
            after={"invoice": invoice.public_id, "status": invoice.status, "did": did},
        )
    remains = draft_queries.reasons(
        Invoice.objects.select_related("cut").get(pk=invoice.pk), draft_queries.refused_data_sets()
    )
    return Mended(invoice=invoice, did=tuple(did), remains=(*trouble, *remains))


def tell_overdue(now: datetime) -> int:
    """Log each draft that waits too long, at most once an hour; how many lines that were."""
    due = draft_queries.overdue(now).filter(Q(alerted_at=None) | Q(alerted_at__lte=now - ALERTED_AGAIN))
    refused = draft_queries.refused_data_sets()
    count = 0
    for invoice in list(due.order_by("pk")[:ALERTS_MAX]):
        # Another worker may be telling of it, too.
        mine = Invoice.objects.filter(pk=invoice.pk, alerted_at=invoice.alerted_at).update(alerted_at=now)
        if not mine:
            continue
        count += 1
        shown = draft_queries.shown_draft(invoice, now, refused)
        _log.error(
            "invoice is a draft for over a day",
            extra={name: shown[name] for name in ("tenant", "invoice", "cut", "age_s", "reasons")},
        )
    return count


def _deliver(cut: str) -> bool:
    """Deliver the cut now, in this process unless a worker is at it."""
    if not outbox.due_now(cut_delivery.KIND_CUT, cut):
        return False
    return delivery.deliver(cut_delivery.KIND_CUT, cut)


def _wake_pipeline() -> None:
    """The pipeline watches this file; it may run elsewhere, where its own interval wakes it."""
    datasets = config.current().datasets
    try:
        datasets.mkdir(parents=True, exist_ok=True)
        (datasets / "wake").touch()
    except OSError as error:
        _log.warning("the usage pipeline was not woken", extra={"error": str(error)})


def _waive(actor: Actor, cut: Cut, place: Place, reason: str) -> str:
    """Give a partition up from this cut on; what was done. Doing it again changes nothing."""
    named = f"{place[0]}-{place[1]}"
    if not 0 < len(reason) <= REASON_LENGTH_MAX:
        raise InvalidRequest(f"reason: 1 to {REASON_LENGTH_MAX} characters required to give up {named}")
    if place in queries.waived(cut):
        return f"{named} was given up before"
    _refuse_what_exists(cut.tenant, place)
    with transaction.atomic():
        # Settling takes the same lock.
        tenant = Tenant.objects.select_for_update(no_key=True).get(pk=cut.tenant.pk)
        if cut.invoice.status != Invoice.objects.get(pk=cut.invoice.pk).status:
            raise InvalidRequest(f"{cut.public_id}: its invoice was issued meanwhile")
        _, made = PartitionWaiver.objects.get_or_create(
            from_cut=cut,
            topic_id=place[0],
            partition=place[1],
            defaults={"tenant": tenant, "reason": reason, "actor": actor.id},
        )
        if made:
            audit.record(
                actor,
                tenant=tenant.public_id,
                action="billing.waive",
                object_id=named,
                after={"cut": cut.public_id, "reason": reason},
            )
    return f"{named} is given up from this cut on: it is not billed any more"


def _refuse_what_exists(tenant: Tenant, place: Place) -> None:
    """Raises unless the partition is one of a topic of this tenant that is deleted."""
    topic_id, partition = place
    named = f"{topic_id}-{partition}"
    topic = topics_of_all().filter(topic_id=topic_id).first()
    if topic is not None and topic.tenant.pk != tenant.pk:
        raise NotFound(f"{named}: the tenant has no such topic")
    if topic is not None:
        if topic.deleted_at is None:
            raise InvalidRequest(f"{named}: its topic {topic.name} exists; only a deleted topic is given up")
        if topic.delivered_generation < topic.generation:
            raise InvalidRequest(f"{named}: that its topic is deleted has not reached the brokers yet")
        return
    # A topic that was made again has another id; the old one is known by its readings alone.
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
    raise InvalidRequest(f"{named}: the brokers have the topic; only a deleted one is given up")
