"""Payments' gauges at /metrics: what is owed, what is past due, what is not collected, differences from Stripe."""

import math

from django.db.models import Count, F, Sum
from prometheus_client import Gauge

from control_plane.api.metrics import registry
from payments import queries
from payments.models import Receivable, StripeEvent
from payments.states import OWED, State

_receivables = Gauge(
    "penstock_receivables", "Number of invoices whose payment is in this state.", ["state"], registry=registry
)
_owed = Gauge(
    "penstock_receivables_owed_micro",
    "Micro-units of the currency that are owed of issued invoices.",
    ["currency"],
    registry=registry,
)
_uncollected = Gauge(
    "penstock_receivables_with_a_problem",
    "Number of invoices that cannot be collected, or refunded, as they are; the receivable says why.",
    registry=registry,
)
_unpaid = Gauge(
    "penstock_receivables_unpaid_after_reminders",
    "Number of invoices that are unpaid a day after their last reminder.",
    registry=registry,
)
_unsent = Gauge(
    "penstock_receivables_unsent",
    "Number of invoices whose last change Stripe has not heard of yet.",
    registry=registry,
)
_events = Gauge(
    "penstock_stripe_events_waiting",
    "Number of events of Stripe that are not processed yet.",
    registry=registry,
)
_differences = Gauge(
    "penstock_stripe_differences",
    "Number of differences between receivables and Stripe that the last reconciliation found.",
    registry=registry,
)
for _unknown in (_uncollected, _unpaid, _unsent, _events, _differences):
    _unknown.set(math.nan)


def refresh() -> None:
    """Set the gauges from the database."""
    rows = Receivable.objects.order_by()
    counts = dict(rows.values_list("state").annotate(count=Count("pk")))
    for state in State:
        _receivables.labels(state).set(counts.get(state, 0))
    owed = rows.filter(state__in=OWED)
    _owed.clear()
    open_micro = (
        F("total_micro") - F("credited_micro") - F("voided_micro") - F("paid_micro") + F("refunded_micro")
    )
    for currency, micro in owed.values_list("currency").annotate(sum=Sum(open_micro)):
        _owed.labels(currency).set(micro)
    _uncollected.set(rows.exclude(problem="").count())
    _unsent.set(queries.unsent().count())
    _unpaid.set(owed.exclude(alerted_at=None).count())
    _events.set(StripeEvent.objects.filter(processed_at=None).count())
    report = queries.newest_report()
    _differences.set(0 if report is None else len(report.differences))
