"""Numbers of invoices and credit notes that are unique and without gaps for the issuer, over all tenants.

A number is taken in the transaction that issues its document, under the lock of the series' row: what is rolled back
takes none. Documents from before there were such numbers keep the numbers within their tenant alone.
"""

from django.db import connection

from billing.account_models import IssuerSeries
from control_plane import config
from penstock.contract.invariant import invariant
from penstock.rules.issuer_numbers import issuer_number, series_of


def next_number(kind: str) -> str:
    """The next number of the kind in the configured series: `INV-000001`, `EU-CN-000001`. The caller's transaction
    issues the document, and holds the tenant's row lock already.
    """
    invariant(connection.in_atomic_block, "a number is taken in the transaction of its document")
    series = series_of(kind, config.current().invoices.number_series)
    IssuerSeries.objects.get_or_create(series=series)
    row = IssuerSeries.objects.select_for_update(no_key=True).get(series=series)
    row.last += 1
    row.save(update_fields=["last"])
    return issuer_number(series, row.last)
