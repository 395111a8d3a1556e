"""Closes billing periods: writes a cut with the draft of its invoice, and stores the brokers' answer to it."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.utils import timezone

from billing import chain_actions, price_actions, queries
from billing.models import Cut, CutReading, Invoice
from billing.price_actions import BILLING
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.outbox import actions as outbox
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.records.cut import CutEnd, cut_sha256
from penstock.rules.timestamps import time_ms, whole_ms
from tenants.models import Tenant

KIND_CUT = "cut"
_log = logging.getLogger(__name__)


def close_period(actor: Actor, tenant: str, *, end: datetime) -> Cut:
    """Close the tenant's running period at `end` (exclusive, whole ms): writes a cut and the draft of its invoice.

    The first period begins with the tenant, each later one where the previous one ended. The next period's prices are
    fixed here, too: a book that is in effect at `end` and is not the tenant's goes into its billing chain. Closing at
    the end of the last closed period returns that cut. Raises `NotFound`, `InvalidRequest`.
    """
    end = whole_ms(end.astimezone(UTC))
    with transaction.atomic():
        row = (
            Tenant.objects.select_for_update(no_key=True)
            .filter(public_id=tenant)
            .exclude(public_id=SYSTEM_TENANT)
            .first()
        )
        if row is None:
            raise NotFound(f"tenant {tenant[:64]!r} does not exist")
        last = Cut.objects.filter(tenant=row).order_by("-period_end").first()
        if last is not None and last.period_end == end:
            return last
        start = price_actions.tenant_begins(row) if last is None else last.period_end
        now = timezone.now()
        if end > now:
            raise InvalidRequest(
                f"end: {end.isoformat()} is in the future; messages may still be accepted before it"
            )
        if end <= start:
            raise InvalidRequest(
                f"end: {end.isoformat()} is not after the period's start, {start.isoformat()}"
            )
        price_actions.begin_chain(row)
        book = price_actions.prices_of(row, start)
        price_actions.prices_from(row, end)
        sequence, digest = chain_actions.head(row)
        cut = Cut.objects.create(
            tenant=row, period_start=start, period_end=end, chain_sequence=sequence, chain_hash=digest
        )
        number = Invoice.objects.filter(tenant=row).count() + 1
        invoice = Invoice.objects.create(
            tenant=row,
            number=number,
            cut=cut,
            price_book=book,
            gaps=["the brokers have not answered the cut yet"],
        )
        audit.record(
            actor,
            tenant=row.public_id,
            action="billing.close_period",
            object_id=cut.public_id,
            after={
                "invoice": invoice.public_id,
                "period_start": start.isoformat(),
                "period_end": end.isoformat(),
            },
        )
        outbox.enqueue(kind=KIND_CUT, object_id=cut.public_id, tenant=row.public_id, generation=1)
        return cut


def close_months(now: datetime) -> int:
    """Close every running period at the start of a UTC month. Returns the number of closed periods.

    A service that was down for months closes each month separately.
    """
    month = _month_of(now)
    if now - month < MONTH_GRACE:
        return 0
    count = 0
    tenants = Tenant.objects.exclude(public_id=SYSTEM_TENANT).filter(created_at__lt=month, purged_at=None)
    for tenant in list(tenants.exclude(cuts__period_end__gte=month).order_by("pk")):
        last = Cut.objects.filter(tenant=tenant).order_by("-period_end").first()
        begins = price_actions.tenant_begins(tenant) if last is None else last.period_end
        end = _next_month(begins)
        try:
            while end <= month:
                close_period(BILLING, tenant.public_id, end=end)
                count += 1
                end = _next_month(end)
        except InvalidRequest as error:
            # It was closed by another request. The next bill run closes what is left.
            _log.warning("period not closed", extra={"tenant": tenant.public_id, "error": error.message})
        except Exception:
            # A fault of the service with one tenant. The others must not wait for it.
            _log.exception("period not closed", extra={"tenant": tenant.public_id})
    return count


def _month_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _next_month(moment: datetime) -> datetime:
    """The first start of a month after `moment`."""
    return _month_of(_month_of(moment) + timedelta(days=32))


MONTH_GRACE = timedelta(seconds=2)
"""A broker's clock may be this much behind when a month ends."""


def store_vector(cut: str, ends: Sequence[CutEnd], sha256: str) -> None:
    """Store the brokers' answer to a cut, once, with the hash that they store it under.

    Raises `InvalidRequest` when the hash does not match the ends, or the answer differs from the stored one.
    """
    with transaction.atomic():
        # Not the tenant's row: `finalize` locks that before the cut's.
        row = (
            Cut.objects.select_for_update(of=("self",), no_key=True)
            .select_related("tenant")
            .get(public_id=cut)
        )
        found = cut_sha256(row.tenant.public_id, row.public_id, time_ms(row.period_end), ends)
        if found != sha256:
            raise InvalidRequest(
                f"{cut}: the brokers keep it as sha256 {sha256 or '(none)'}, their readings give {found}"
            )
        if row.delivered_at is not None:
            if not _same_answer(row, ends, sha256):
                raise InvalidRequest(f"{cut}: the brokers answered other offsets than the first time")
            return
        CutReading.objects.bulk_create(
            CutReading(
                cut=row,
                topic_id=end.where.topic_id.hex(),
                partition=end.where.partition,
                log_generation=end.log_generation,
                end_offset=end.end_offset,
                accepted_ms=end.accepted_ms,
                messages=end.messages,
                bytes=end.bytes,
                last=end.last,
            )
            for end in ends
        )
        row.delivered_at, row.error, row.sha256 = timezone.now(), "", sha256
        row.save(update_fields=["delivered_at", "error", "sha256"])
        Invoice.objects.filter(cut=row, status=Invoice.Status.DRAFT).update(
            gaps=["the cut's readings are not in the data sets yet"]
        )
        audit.record(
            BILLING,
            tenant=row.tenant.public_id,
            action="billing.cut",
            object_id=row.public_id,
            after={
                "partitions": len(ends),
                "messages_below": sum(end.end_offset for end in ends),
                "sha256": sha256,
            },
        )


def _same_answer(cut: Cut, ends: Sequence[CutEnd], sha256: str) -> bool:
    """A cut that is older than the totals of brokers is compared by its offsets."""
    if cut.sha256:
        return cut.sha256 == sha256
    return queries.vector(cut) == {
        (end.where.topic_id.hex(), end.where.partition, end.log_generation): end.end_offset for end in ends
    }


def note_cut_failed(cut: str, message: str) -> None:
    """Store why the brokers have not answered yet. Runs in the caller's transaction."""
    Cut.objects.filter(public_id=cut, delivered_at=None).update(error=message)
