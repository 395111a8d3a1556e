"""The Celery task of billing: the bill run imports data sets, finalizes drafts and closes months."""

import logging
from datetime import UTC, datetime, timedelta

from celery import shared_task
from django.db.models import QuerySet
from django.utils import timezone

from billing import (
    anchor_actions,
    draft_actions,
    draft_queries,
    exclusion_actions,
    import_actions,
    invoice_actions,
    period_actions,
    pipeline,
    price_actions,
    queries,
    service_level_actions,
)
from billing.models import Cut
from control_plane import config, looks, schedule
from control_plane.processes import setbacks
from daemon.data_set_store import StoreUnavailable
from penstock.contract.errors import PenstockError

_FINALIZED_MAX = 1_000
"""Drafts of one bill run; the rest come with the next."""
_CHAINS_MAX = 1_000
"""New tenants that get their prices in one bill run."""
FINALIZING = "finalizing"
LOG_INTERVAL = timedelta(hours=1)
"""A problem that persists is logged at most this often."""
AT_REST_S = 15.0
"""Between bill runs while nothing new is seen: overdue drafts, months that end, refused data sets put right."""
_log = logging.getLogger(__name__)


class _LoggedProblem:
    """The problem that this process logged last."""

    def __init__(self) -> None:
        self._text = ""
        self._at = datetime.min.replace(tzinfo=UTC)

    def is_due(self, text: str, now: datetime) -> bool:
        """True when the text is new or `LOG_INTERVAL` has passed. The caller logs it then."""
        if text == self._text and now - self._at < LOG_INTERVAL:
            return False
        self._text = text
        self._at = now
        return True


class _Turn:
    """Behind which draft this process goes on."""

    after = 0


_turn = _Turn()
_price_file_problem = _LoggedProblem()


@shared_task(name="billing.bill_run")  # type: ignore[untyped-decorator]
def bill_run() -> None:
    """Publish configured prices, import new data sets, finalize drafts, and close the periods of months that ended."""
    now = timezone.now()
    try:
        price_actions.follow_configured_file(now)
    except PenstockError as error:
        if _price_file_problem.is_due(error.message, now):
            _log.error("price_book_file refused", extra={"error": error.message})
    try:
        price_actions.begin_chains(_CHAINS_MAX)
    except Exception:
        # A fault of the service. Invoices of other tenants must not wait for it.
        _log.exception("new tenants did not get their prices")
    _import_data_sets()
    setbacks.each(FINALIZING, _drafts_in_turn(), _finalize, most=_FINALIZED_MAX)
    if queries.drafts_to_finalize().filter(created_at__gt=now - draft_queries.OVERDUE).exists():
        # One wake-up at the period's end may be lost, or come before the last readings. A round that finds nothing new
        # costs a look. Older drafts lack what no round will bring soon, and wait for the pipeline's interval.
        pipeline.wake()
    try:
        draft_actions.alert_overdue(now)
    except Exception:
        _log.exception("overdue drafts were not logged")
    try:
        period_actions.close_months(timezone.now())
    except PenstockError as error:
        _log.error("periods not closed", extra={"error": error.message})
    try:
        anchor_actions.publish_due(timezone.now())
    except Exception:
        # A fault of the service. The next bill run publishes them.
        _log.exception("anchors were not published")
    try:
        exclusion_actions.tell_tenants(timezone.now())
    except Exception:
        # A fault of the service. The next bill run tells those that are left.
        _log.exception("exclusions from service levels were not announced to tenants")
    try:
        service_level_actions.post_months(timezone.now())
    except Exception:
        # A fault of the service. The next bill run posts what is left.
        _log.exception("service levels were not posted")


def _drafts_in_turn() -> QuerySet[Cut]:
    """The drafts behind those that this process looked at last: many that lack something keep no later one waiting."""
    drafts = queries.drafts_to_finalize().order_by("pk")
    rows = list(drafts.filter(pk__gt=_turn.after).values_list("pk", flat=True)[:_FINALIZED_MAX])
    begins, _turn.after = _turn.after, rows[-1] if len(rows) == _FINALIZED_MAX else 0
    return drafts.filter(pk__gt=begins)


def _finalize(cut: Cut) -> None:
    invoice = invoice_actions.finalize(cut.public_id)
    if invoice.issued_at is not None:
        _log.info("invoice issued", extra={"invoice": invoice.public_id})


def _import_data_sets() -> None:
    try:
        outcomes = import_actions.import_data_sets(config.current().data_set_store)
    except StoreUnavailable as error:
        _log.error("data sets cannot be read", extra={"error": str(error)})
        return
    for name, outcome in outcomes.items():
        if outcome != "imported":
            _log.error("data set refused", extra={"data_set": name, "error": outcome})


_rows_to_do = looks.any_row(
    lambda: setbacks.unhindered(FINALIZING, queries.drafts_to_finalize()),
    lambda: setbacks.unhindered(price_actions.FIRST_PRICES, price_actions.without_chain()),
)


class _Look:
    """What the scheduler's process saw last."""

    def __init__(self) -> None:
        self._seen: object = None

    def __call__(self) -> bool:
        """Whether a data set or a price file has come, or the database has something to do."""
        seen = _files_seen()
        if seen is None or seen != self._seen:
            self._seen = seen
            return True
        return _rows_to_do()


def _files_seen() -> object | None:
    """Another value after each change; None: it takes a bill run to see one."""
    settings = config.current()
    try:
        published = settings.data_set_store.published(import_actions.ORDER)
        book = 0 if settings.price_book_file is None else settings.price_book_file.stat().st_mtime_ns
    except (StoreUnavailable, OSError):
        return None
    return None if published is None else (published, book)


schedule.looks_first("billing.bill_run", _Look(), at_rest_s=AT_REST_S)
