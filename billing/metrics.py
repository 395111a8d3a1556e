"""Billing's gauges at /metrics: drafts that wait, and prices that cannot be followed."""

from django.utils import timezone
from prometheus_client import Gauge

from billing import draft_queries, price_actions
from control_plane.api.metrics import registry

_overdue = Gauge(
    "penstock_invoice_drafts_overdue", "Invoices that are drafts for over a day", registry=registry
)
_oldest = Gauge(
    "penstock_invoice_draft_oldest_seconds", "Age of the oldest invoice that is a draft", registry=registry
)
_refused = Gauge(
    "penstock_price_book_file_refused",
    "1 while the configured price book cannot be followed",
    registry=registry,
)


def refresh() -> None:
    """Set them from the database and the file."""
    now = timezone.now()
    overdue, since = draft_queries.waiting(now)
    _overdue.set(overdue)
    _oldest.set(0 if since is None else max(0.0, (now - since).total_seconds()))
    _refused.set(1 if price_actions.configured_file_problem(now) else 0)
