"""Celery tasks of billing: data sets in, invoices out, and the ends of months."""

import logging
from datetime import UTC, datetime, timedelta

from celery import shared_task
from django.utils import timezone

from billing import draft_actions, import_actions, invoice_actions, period_actions, price_actions, queries
from control_plane import config
from penstock.contract.errors import PenstockError

_SETTLED_MAX = 1_000
"""Drafts that are looked at in one round."""
_CHAINS_MAX = 1_000
"""New tenants that get their prices in one round."""
TOLD_AGAIN = timedelta(hours=1)
"""What stays wrong is logged at most this often."""
_log = logging.getLogger(__name__)


class _Told:
    """What this process has logged, newest text alone."""

    def __init__(self) -> None:
        self._text, self._at = "", datetime.min.replace(tzinfo=UTC)

    def is_due(self, text: str, now: datetime) -> bool:
        """Is the text new, or was it logged long enough ago? It counts as logged then."""
        if text == self._text and now - self._at < TOLD_AGAIN:
            return False
        self._text, self._at = text, now
        return True


_told = _Told()


@shared_task(name="billing.round")  # type: ignore[untyped-decorator]
def run_round() -> None:
    """Follow the prices, import what is new, issue what is covered, end what is over."""
    now = timezone.now()
    try:
        price_actions.follow_configured_file(now)
    except PenstockError as error:
        if _told.is_due(error.message, now):
            _log.error("price_book_file refused", extra={"error": error.message})
    try:
        price_actions.begin_chains(_CHAINS_MAX)
    except Exception:
        # Our own fault; the invoices of others must not wait for it.
        _log.exception("new tenants have no prices")
    told = import_actions.import_data_sets(config.current().datasets)
    for name, outcome in told.items():
        if outcome != "imported":
            _log.error("data set refused", extra={"data_set": name, "error": outcome})
    for cut in queries.cuts_to_settle(_SETTLED_MAX):
        try:
            invoice = invoice_actions.settle(cut)
        except Exception:
            # Our own fault with one invoice; the others must not wait for it.
            _log.exception("invoice not settled", extra={"cut": cut})
            continue
        if invoice.issued_at is not None:
            _log.info("invoice issued", extra={"invoice": invoice.public_id})
    try:
        draft_actions.tell_overdue(now)
    except Exception:
        _log.exception("drafts that wait were not told of")
    try:
        period_actions.close_months(timezone.now())
    except PenstockError as error:
        _log.error("periods not ended", extra={"error": error.message})
