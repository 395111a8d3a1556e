"""Billing's gauges at /metrics: overdue drafts, service levels and anchors, ceilings whose looks fail, and a configured
price book that is refused.
"""

import math

from django.utils import timezone
from prometheus_client import Gauge

from billing import anchor_actions, draft_queries, price_actions, service_level_actions
from control_plane.api.metrics import registry
from quotas import growth

_overdue = Gauge(
    "penstock_invoice_drafts_overdue",
    "Number of invoices that have been drafts for over a day.",
    registry=registry,
)
_oldest = Gauge(
    "penstock_invoice_draft_oldest_seconds",
    "Age in seconds of the oldest draft invoice, 0 when there is none.",
    registry=registry,
)
_refused = Gauge(
    "penstock_price_book_file_refused",
    "1 while the file of the setting price_book_file is refused, else 0.",
    registry=registry,
)
_months = Gauge(
    "penstock_service_level_months_overdue",
    "Number of months of tenants whose service level could have been posted over a day ago and is not.",
    registry=registry,
)
_anchors = Gauge(
    "penstock_anchor_days_overdue",
    "Number of days that could have been published in anchors over an hour ago and are not.",
    registry=registry,
)
_ceilings = Gauge(
    "penstock_cost_ceilings_failing",
    "Number of ceilings of cost that could not be compared with a forecast when they were due last.",
    registry=registry,
)
for _unknown in (_overdue, _oldest, _refused, _months, _anchors, _ceilings):
    _unknown.set(math.nan)


def refresh() -> None:
    """Set the gauges from the database and the configured file."""
    now = timezone.now()
    overdue, since = draft_queries.waiting(now)
    _overdue.set(overdue)
    _oldest.set(0 if since is None else max(0.0, (now - since).total_seconds()))
    _months.set(service_level_actions.overdue_months(now))
    _anchors.set(anchor_actions.overdue_days(now))
    _ceilings.set(growth.failing())
    _refused.set(1 if price_actions.configured_file_problem(now) else 0)
