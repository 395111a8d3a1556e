"""Invoices of purged tenants: who could pay them when the tenant was purged can still read and pay them.

A purge leaves a tenant without people and without its name, but not without its last invoices.
"""

from typing import Any

from django.db import transaction
from django.db.models import Prefetch, QuerySet

from billing.models import InvoiceLine
from payments import queries
from payments.models import FormerPayer, Receivable
from tenants.models import Person, Tenant
from tenants.queries import people_with_roles
from tenants.roles import Permission, Role, Standing, allowed

PAYERS = [role for role in Role if allowed(Standing(role.value), Permission.PAYMENTS_WRITE)]


def remember(tenant: Tenant) -> None:
    """Before the tenant is purged: who may pay its invoices now. Doing it again puts them in the others' stead."""
    with transaction.atomic():
        owner = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        if owner.purged_at is not None:
            return
        now = [one.person for one in people_with_roles(owner, among=PAYERS)]
        # An earlier purge may have failed after this, and someone may have left since.
        FormerPayer.objects.filter(tenant=owner).exclude(person__in=now).delete()
        FormerPayer.objects.bulk_create(
            (FormerPayer(tenant=owner, person=person, tenant_name=owner.name) for person in now),
            ignore_conflicts=True,
        )


def addresses(tenant: Tenant) -> list[str]:
    """E-mail addresses of those who get reminders."""
    if tenant.purged_at is None:
        return [one.person.email for one in people_with_roles(tenant, among=PAYERS)]
    rows = _active(tenant=tenant).order_by("pk")
    return [row.person.email for row in rows.select_related("person")]


def name_of(tenant: Tenant) -> str:
    """What people know the tenant by."""
    row = FormerPayer.objects.filter(tenant=tenant).order_by("pk").first()
    return tenant.name if tenant.purged_at is None or row is None else row.tenant_name


def tenants_of(person: Person) -> dict[int, str]:
    """The purged tenants whose invoices the person may still pay: primary key -> what it was called."""
    return dict(_active(person=person).values_list("tenant", "tenant_name"))


def receivables(person: Person) -> QuerySet[Receivable]:
    """Of those tenants, newest first."""
    rows = queries.receivables().filter(tenant__in=list(tenants_of(person)))
    lines = Prefetch("invoice__lines", InvoiceLine.objects.order_by("position"))
    return rows.prefetch_related(lines).order_by("-pk")


def _active(**of: Any) -> QuerySet[FormerPayer]:
    return FormerPayer.objects.filter(person__is_active=True, tenant__purged_at__isnull=False, **of)
