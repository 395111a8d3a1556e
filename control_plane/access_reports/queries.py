"""Reads access reports, and who gets e-mails about them."""

import json
import zlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from control_plane.access_reports import content
from control_plane.access_reports.models import AccessReport, ReportMailRefusal
from control_plane.access_reports.months import Month, month_of
from penstock.contract.errors import NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.invariant import invariant
from penstock.rules import access_report
from tenants.models import Person, Tenant
from tenants.queries import people_with_roles
from tenants.roles import Role

NOW = "now"
"""In the place of a month: the report of this moment, which is not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mails:
    """Whether owners get e-mails about reports."""

    to_owners: bool
    to_me: bool | None
    """Of the person who asks; None: no person asks."""


def reports(tenant: Tenant) -> QuerySet[AccessReport]:
    """The tenant's reports, without their documents."""
    return AccessReport.objects.filter(tenant=tenant).defer("document")


def report(tenant: Tenant, month: str) -> AccessReport:
    """The report of the month that is written so. Raises `NotFound`."""
    found = month_of(month)
    row = None if found is None else AccessReport.objects.filter(tenant=tenant, month=str(found)).first()
    if row is None:
        raise NotFound(f"access report {month[:64]!r} does not exist")
    return row


def document(row: AccessReport) -> dict[str, Any]:
    """What the report says, as it was written."""
    found: dict[str, Any] = json.loads(zlib.decompress(bytes(row.document)))
    invariant(
        access_report.digest(found) == row.sha256, f"access report {row.public_id} is as it was written"
    )
    return found


def latest(tenant: Tenant, before: Month | None) -> dict[str, Any] | None:
    """The tenant's last report, before the month if one is given; None if there is none."""
    rows = AccessReport.objects.filter(tenant=tenant)
    row = (rows if before is None else rows.filter(month__lt=str(before))).order_by("-month").first()
    return None if row is None else document(row)


def present(tenant: Tenant, now: datetime | None = None) -> dict[str, Any]:
    """The report of this moment, with what has changed since the last one. It is not stored."""
    return content.report(tenant, None, timezone.now() if now is None else now, latest(tenant, None))


def without(month: Month) -> QuerySet[Tenant]:
    """Open tenants that were there in the month and have no report of it, in the order of their keys: for the service
    itself.
    """
    has = AccessReport.objects.filter(tenant=OuterRef("pk"), month=str(month))
    return (
        Tenant.objects.filter(~Exists(has), closed_at=None, created_at__lt=month.ends_at)
        .exclude(public_id=SYSTEM_TENANT)
        .order_by("pk")
    )


def outlived(oldest: Month) -> QuerySet[AccessReport]:
    """Reports of before the month, and those of tenants that were purged."""
    return AccessReport.objects.filter(Q(month__lt=str(oldest)) | Q(tenant__purged_at__isnull=False))


def mails(tenant: Tenant, person: Person | None) -> Mails:
    """Whether the tenant's owners get e-mails, and whether this person wants them."""
    refused = set(ReportMailRefusal.objects.filter(tenant=tenant).values_list("person", flat=True))
    return Mails(
        to_owners=None not in refused,
        to_me=None if person is None else person.pk not in refused,
    )


def mailed(tenant: Tenant) -> list[str]:
    """The addresses of owners who get an e-mail about a report."""
    refused = ReportMailRefusal.objects.filter(tenant=tenant)
    if refused.filter(person=None).exists():
        return []
    unwilling = set(refused.values_list("person", flat=True))
    owners = people_with_roles(tenant, among=(Role.OWNER,))
    return [one.person.email for one in owners if one.person.pk not in unwilling]
