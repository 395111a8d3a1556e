"""Invoices that were taken back. The app of payments knows of them, and says so when Django is ready: billing is not
built on it.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from billing.models import Invoice
from tenants.models import Tenant

_taken_back: list[Callable[[], QuerySet[Any]]] = []


def register(taken_back: Callable[[], QuerySet[Any]]) -> None:
    """`taken_back` selects a row for each such invoice, with `invoice` and `closed_at`, when that was."""
    _taken_back.append(taken_back)


def without_void(invoices: QuerySet[Invoice]) -> QuerySet[Invoice]:
    """Those that still count: what was taken back is neither cost nor revenue."""
    for rows in _taken_back:
        invoices = invoices.exclude(pk__in=rows().values("invoice"))
    return invoices


def with_void(invoices: QuerySet[Invoice]) -> QuerySet[Invoice]:
    """With `void_at` of each."""
    for rows in _taken_back:
        invoices = invoices.annotate(
            void_at=Subquery(rows().filter(invoice=OuterRef("pk")).values("closed_at")[:1])
        )
    return invoices


def void_at(invoice: Invoice) -> datetime | None:
    """When it was taken back; None: it counts."""
    if hasattr(invoice, "void_at"):  # read with the invoice
        return invoice.void_at  # type: ignore[no-any-return]
    return voids_of(invoice.tenant).get(invoice.public_id)


def voids_of(tenant: Tenant) -> dict[str, datetime]:
    """The tenant's invoices that were taken back, and when."""
    found: dict[str, datetime] = {}
    for rows in _taken_back:
        found |= rows().filter(invoice__tenant=tenant).values_list("invoice__public_id", "closed_at")
    return found
