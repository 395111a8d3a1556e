"""A month of service as PDF: what is printed follows from the month's document."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from django.template.loader import render_to_string

from billing.service_level_reports import PER_MILLES, MonthReport
from billing.service_level_shown import ShownDay, shown
from tenants.models import Tenant

DAY_COLUMNS = 2


def report_pdf(tenant: Tenant, report: MonthReport, issuer: str) -> bytes:
    """The report on A4. Takes about half a second of processor time."""
    # It loads 40 MB, which processes that print nothing do not have.
    from weasyprint import HTML

    printed: bytes = HTML(string=report_page(tenant, report, issuer), url_fetcher=_no_fetching).write_pdf()
    return printed


def report_page(tenant: Tenant, report: MonthReport, issuer: str) -> str:
    """The HTML that is printed."""
    said = shown(report)
    return render_to_string(
        "billing/service_level.html",
        {
            "issuer": issuer,
            "name": tenant.name,
            "report": report,
            "document": report.document,
            "shown": said,
            "days": _in_columns(said.days),
            "percentiles": [f"{one / 10:g} %" for one in PER_MILLES],
        },
    )


def _in_columns(days: Sequence[ShownDay]) -> list[tuple[ShownDay | None, ...]]:
    """Rows of a table in which the days run down one column after the other: a month is half a page."""
    height = -(-len(days) // DAY_COLUMNS)
    columns = [days[at * height : (at + 1) * height] for at in range(DAY_COLUMNS)]
    return list(zip_longest(*columns))


def _no_fetching(url: str) -> Any:
    """The page is whole: nothing that a text in it names is read."""
    raise ValueError(f"{url[:64]!r} is not fetched")
