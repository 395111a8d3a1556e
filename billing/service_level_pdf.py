"""A month of service as PDF: what is printed follows from the month's document."""

from typing import Any

from django.template.loader import render_to_string

from billing.service_level_reports import PER_MILLES, MonthReport
from billing.service_level_shown import shown
from tenants.models import Tenant


def report_pdf(tenant: Tenant, report: MonthReport, issuer: str) -> bytes:
    """The report on A4. Takes about half a second of processor time."""
    # It loads 40 MB, which processes that print nothing do not have.
    from weasyprint import HTML

    printed: bytes = HTML(string=report_page(tenant, report, issuer), url_fetcher=_no_fetching).write_pdf()
    return printed


def report_page(tenant: Tenant, report: MonthReport, issuer: str) -> str:
    """The HTML that is printed."""
    return render_to_string(
        "billing/service_level.html",
        {
            "issuer": issuer,
            "name": tenant.name,
            "report": report,
            "document": report.document,
            "shown": shown(report),
            "percentiles": [f"{one / 10:g} %" for one in PER_MILLES],
        },
    )


def _no_fetching(url: str) -> Any:
    """The page is whole: nothing that a text in it names is read."""
    raise ValueError(f"{url[:64]!r} is not fetched")
