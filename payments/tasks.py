"""Celery tasks of payments: the round that asks for invoices, and the nightly reconciliation with Stripe."""

import logging
from collections.abc import Callable
from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from control_plane import config, looks, schedule
from control_plane.processes import setbacks
from payments import actions, dunning, inbox, mailing, queries, reconciling, sending, tax_asking
from payments.models import ReconciliationRun, StripeEvent
from payments.stripe_adapter import Gateway, configured
from payments.stripe_shapes import AnsweredFault
from penstock.contract.errors import PenstockError

ROUND_MAX = 500
"""Of each kind in one round; the rest comes with the next."""
MAILED_MAX = 20
"""Invoices that are printed and sent in one round: each takes about half a second of processor time."""
OPENING, CREDITS, REMINDING, CARRYING = "opening", "credits", "reminding", "carrying"
MAILING, MAILING_CREDITS = "invoice mail", "credit note mail"
FORGOTTEN_MAX = 10_000
"""Of Stripe's events at once."""
AT_REST_S = 60.0
"""Between rounds while nothing is new: reminders, credit notes."""
RECONCILED_AT_REST_S = 1_800.0
"""Between looks while no comparison is under way."""
RECONCILE_EVERY = timedelta(hours=23)
"""The task comes each minute while one is under way; a comparison begins when the last one is of the day before."""
_log = logging.getLogger(__name__)


@shared_task(name="payments.round")
def payment_round() -> None:
    """Ask for what is new, follow credit notes, remind of what is due, process what Stripe sent."""
    now = timezone.now()
    setbacks.each(OPENING, queries.invoices_to_open(), actions.open_receivable, most=ROUND_MAX)
    setbacks.each(
        CREDITS, queries.with_new_credits(), lambda row: actions.follow_credits(row.public_id), most=ROUND_MAX
    )
    setbacks.each(
        MAILING, queries.to_mail(), lambda row: mailing.send_invoice(row.public_id), most=MAILED_MAX
    )
    setbacks.each(
        MAILING_CREDITS,
        queries.with_credits_to_mail(),
        lambda row: mailing.send_credit_note(row.public_id),
        most=MAILED_MAX,
    )
    settings = config.current().payments
    setbacks.each(
        REMINDING,
        queries.to_remind(now, settings.reminder_days, settings.days_to_suspend),
        lambda row: dunning.remind(row.public_id, now),
        most=ROUND_MAX,
    )
    if settings.stripe_key_file is None:
        setbacks.each(
            CARRYING,
            queries.waiting_for_a_carrier(),
            lambda row: actions.ask_for_it_alone(row.public_id),
            most=ROUND_MAX,
        )
    _guarded("not given to Stripe", sending.send_next)
    _guarded("Stripe Tax not asked", tax_asking.ask_next)
    try:
        inbox.process(_gateway(), now, ROUND_MAX)
    except Exception:
        _log.exception("events of Stripe were not processed")


@shared_task(name="payments.reconcile")
def reconcile() -> None:
    """Compare with Stripe, once a day, in steps: this one goes on where the last one ended. Old events go."""
    now, last = timezone.now(), queries.newest_report()
    inbox.forget(now, FORGOTTEN_MAX)
    gateway = _gateway()
    is_due = last is None or now - last.at >= RECONCILE_EVERY or queries.run_under_way() is not None
    if gateway is None or not is_due:
        return
    try:
        reconciling.go_on(gateway, now)
    except (PenstockError, AnsweredFault) as error:
        _log.error("receivables were not compared with Stripe", extra={"error": str(error)})


def _gateway() -> Gateway | None:
    try:
        return configured()
    except PenstockError as error:
        _log.error("payment through Stripe does not work", extra={"error": error.message})
        return None


def _guarded(what: str, step: Callable[[], object]) -> None:
    """A step that fails through a fault of the service must not keep the others waiting."""
    try:
        step()
    except Exception:
        _log.exception(what)


_OF_EVERY_ROUND = (
    lambda: setbacks.unhindered(OPENING, queries.invoices_to_open()),
    lambda: setbacks.unhindered(MAILING, queries.to_mail()),
    lambda: StripeEvent.objects.filter(processed_at=None),
)
_something_to_do = looks.any_row(*_OF_EVERY_ROUND)
_something_for_stripe = looks.any_row(*_OF_EVERY_ROUND, queries.changed)
_tax_to_ask = looks.any_due(tax_asking.to_ask)


def round_has_work() -> bool:
    """Without Stripe what it has to hear of waits, and wakes no round."""
    return (_something_for_stripe() if queries.is_through_stripe() else _something_to_do()) or _tax_to_ask()


schedule.looks_first("payments.round", round_has_work, at_rest_s=AT_REST_S)
schedule.looks_first(
    "payments.reconcile",
    looks.any_row(lambda: ReconciliationRun.objects.all()),
    at_rest_s=RECONCILED_AT_REST_S,
)
