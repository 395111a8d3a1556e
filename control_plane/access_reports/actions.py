"""Writes access reports: one of each month for each tenant, and never again; and who gets no e-mail about them.

A month's report is made after its end, by the first round of any worker that finds it missing. It says what there is
when it is made: a worker that comes days late writes that moment into it. Months that are over for longer get none.
"""

import logging
import time
import zlib
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from control_plane.access_reports import content, letters, queries
from control_plane.access_reports.models import AccessReport, ReportMailRefusal
from control_plane.access_reports.months import Month, last_whole
from control_plane.access_reports.queries import Mails
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, system
from control_plane.ids import new_id
from control_plane.mail import actions as mail
from penstock.rules import access_report
from tenants.actions import check_not_the_service
from tenants.models import Person, Tenant

ACTOR = system("access-reports")
SETTLED = timedelta(minutes=5)
"""After a month's end: what web processes counted in its last minute is in the audit log by then."""
KEPT_MONTHS = 25
"""Two years, and the month to compare the first of them with."""
ROUND_S = 20.0
_TENANTS_AT_ONCE = 100
_REMOVED_AT_ONCE = 1_000
MAIL_KIND = "access-report"
_log = logging.getLogger(__name__)


def make_due(now: datetime | None = None, *, within_s: float = ROUND_S) -> int:
    """One round: reports of the last whole month that are missing. Returns how many were made; the rest come with the
    next round.
    """
    month = last_whole((timezone.now() if now is None else now) - SETTLED)
    until, made, after = time.monotonic() + within_s, 0, 0
    while time.monotonic() < until:
        tenants = list(queries.without(month).filter(pk__gt=after)[:_TENANTS_AT_ONCE])
        for tenant in tenants:
            if time.monotonic() >= until:
                break
            after = tenant.pk
            try:
                made += make(tenant, month, now) is not None
            except Exception:
                # A fault of the service with one tenant. The others must not wait for it.
                _log.exception("an access report was not made", extra={"tenant": tenant.public_id})
        if len(tenants) < _TENANTS_AT_ONCE:
            break
    return made


def make(tenant: Tenant, month: Month, now: datetime | None = None) -> AccessReport | None:
    """Make the tenant's report of the month; None if it is there, or the tenant is closed. The owners get an e-mail if
    there is anything to look at.

    It is read before the tenant is locked: that takes seconds where there are thousands of keys, and changes of the
    tenant go on meanwhile. A change that falls into it may stand in one list and not yet in another.
    """
    if _is_not_due(tenant, month):
        return None
    at = timezone.now() if now is None else now
    report = content.report(tenant, month, at, queries.latest(tenant, month))
    counts = {name: len(report[name]) for name in (*access_report.LISTS, *access_report.FINDINGS)}
    with transaction.atomic():
        # Two workers wait for each other here: one stores what it has read.
        locked = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        if _is_not_due(locked, month):
            return None
        row = AccessReport.objects.create(
            public_id=new_id("arp"),
            tenant=locked,
            month=str(month),
            made_at=at,
            sha256=access_report.digest(report),
            document=zlib.compress(access_report.canonical(report)),
            counts=counts,
        )
        audit.record(
            ACTOR,
            tenant=locked.public_id,
            action="access_report.create",
            object_id=row.public_id,
            after={"name": row.month, "sha256": row.sha256, **counts},
        )
        if letters.says_something(report):
            letter = letters.report_made(report)
            for address in queries.mailed(locked):
                mail.put(address, MAIL_KIND, letter)
    return row


def _is_not_due(tenant: Tenant, month: Month) -> bool:
    return tenant.closed_at is not None or queries.reports(tenant).filter(month=str(month)).exists()


def remove_outlived(now: datetime | None = None) -> int:
    """Remove reports whose time is over, and those of purged tenants. The audit log still names their digests."""
    oldest = last_whole(timezone.now() if now is None else now).earlier(KEPT_MONTHS - 1)
    found = list(queries.outlived(oldest).values_list("pk", flat=True)[:_REMOVED_AT_ONCE])
    AccessReport.objects.filter(pk__in=found).delete()
    return len(found)


def set_mails(
    actor: Actor,
    tenant: Tenant,
    person: Person,
    *,
    to_owners: bool | None = None,
    to_me: bool | None = None,
) -> Mails:
    """Choose whether the tenant's owners get e-mails, and whether this person does; None leaves it. Again changes
    nothing.
    """
    check_not_the_service(tenant)
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        before = queries.mails(tenant, person)
        for wanted, whose in ((to_owners, None), (to_me, person)):
            if wanted is True:
                ReportMailRefusal.objects.filter(tenant=tenant, person=whose).delete()
            elif wanted is False:
                ReportMailRefusal.objects.get_or_create(tenant=tenant, person=whose)
        after = queries.mails(tenant, person)
        if after != before:
            audit.record(
                actor,
                tenant=tenant.public_id,
                action="access_report_mails.set",
                object_id=tenant.public_id,
                before={"to_owners": before.to_owners, "to_me": before.to_me},
                after={"to_owners": after.to_owners, "to_me": after.to_me},
            )
    return after


def forget_refusals(tenant: Tenant) -> None:
    """For a tenant that is purged: it gets no report that someone could refuse."""
    ReportMailRefusal.objects.filter(tenant=tenant).delete()
