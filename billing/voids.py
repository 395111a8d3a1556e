"""Invoices that were taken back. The app of payments knows of them, and says so when Django is ready: billing is not
built on it.
"""

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet

from billing.models import Invoice

_void: list[Callable[[], QuerySet[Any, Any]]] = []


def register(void: Callable[[], QuerySet[Any, Any]]) -> None:
    """`void` selects the primary keys of such invoices."""
    _void.append(void)


def without_void(invoices: QuerySet[Invoice]) -> QuerySet[Invoice]:
    """Those that still count: what was taken back is neither cost nor revenue."""
    for void in _void:
        invoices = invoices.exclude(pk__in=void())
    return invoices
