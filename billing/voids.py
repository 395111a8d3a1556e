"""Invoices that are void. The app of payments knows of them, and says so when Django is ready: billing is not built
on it.

One that an operator took back no longer counts, though no document says so. One that credit notes give back as a whole
is void as well, and these say so to whatever adds documents up.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from billing.models import Invoice
from tenants.models import Tenant

_taken_back: list[Callable[[], QuerySet[Any]]] = []
_void: list[Callable[[], QuerySet[Any]]] = []


def register(*, taken_back: Callable[[], QuerySet[Any]], void: Callable[[], QuerySet[Any]]) -> None:
    """Each selects a row for an invoice, with `invoice` and `closed_at`, when that was: `taken_back` for those that
    an operator took back, `void` for these and those that were credited in whole.
    """
    _taken_back.append(taken_back)
    _void.append(void)


def without_void(invoices: QuerySet[Invoice]) -> QuerySet[Invoice]:
    """Those that still count: what was taken back is neither cost nor revenue."""
    for rows in _taken_back:
        invoices = invoices.exclude(pk__in=rows().values("invoice"))
    return invoices


def with_void(invoices: QuerySet[Invoice]) -> QuerySet[Invoice]:
    """With `void_at` of each: as people see it."""
    for rows in _void:
        invoices = invoices.annotate(
            void_at=Subquery(rows().filter(invoice=OuterRef("pk")).values("closed_at")[:1])
        )
    return invoices


def void_at(invoice: Invoice) -> datetime | None:
    """Since when nothing of it is to be paid, as it was taken back or credited in whole; None: it is not void."""
    if hasattr(invoice, "void_at"):  # read with the invoice
        return invoice.void_at  # type: ignore[no-any-return]
    for rows in _void:
        found: datetime | None = rows().filter(invoice=invoice).values_list("closed_at", flat=True).first()
        if found is not None:
            return found
    return None


def voids_of(tenant: Tenant) -> dict[str, datetime]:
    """The tenant's invoices that an operator took back, and when."""
    found: dict[str, datetime] = {}
    for rows in _taken_back:
        found |= rows().filter(invoice__tenant=tenant).values_list("invoice__public_id", "closed_at")
    return found
