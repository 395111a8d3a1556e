"""Celery tasks of payments: the round that asks for invoices, and the nightly reconciliation with Stripe."""

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from celery import shared_task
from django.utils import timezone

from control_plane import config, looks, schedule
from payments import actions, dunning, inbox, mailing, queries, reconciling, sending, tax_asking
from payments.models import ReconciliationRun, StripeEvent
from payments.stripe_adapter import Gateway, configured
from payments.stripe_shapes import AnsweredFault
from penstock.contract.errors import PenstockError

ROUND_MAX = 500
"""Of each kind in one round; the rest comes with the next."""
MAILED_MAX = 20
"""Invoices that are printed and sent in one round: each takes about half a second of processor time."""
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
    for invoice in queries.invoices_to_open()[:ROUND_MAX]:
        _guarded("invoice not asked for", invoice.public_id, partial(actions.open_receivable, invoice))
    for row in queries.with_new_credits()[:ROUND_MAX]:
        _guarded("credit note not followed", row.public_id, partial(actions.follow_credits, row.public_id))
    for row in queries.to_mail()[:MAILED_MAX]:
        _guarded("invoice not sent by e-mail", row.public_id, partial(mailing.send_invoice, row.public_id))
    settings = config.current().payments
    for row in queries.to_remind(now, settings.reminder_days, settings.days_to_suspend)[:ROUND_MAX]:
        _guarded("reminder not sent", row.public_id, partial(dunning.remind, row.public_id, now))
    if settings.stripe_key_file is None:
        for row in queries.waiting_for_a_carrier()[:ROUND_MAX]:
            _guarded(
                "still waits for a carrier", row.public_id, partial(actions.ask_for_it_alone, row.public_id)
            )
    _guarded("not given to Stripe", "", sending.send_next)
    _guarded("Stripe Tax not asked", "", tax_asking.ask_next)
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


def _guarded(what: str, object_id: str, step: Callable[[], object]) -> None:
    """One that fails through a fault of the service must not keep the others waiting."""
    try:
        step()
    except Exception:
        _log.exception(what, extra={"object": object_id})


_OF_EVERY_ROUND = (
    queries.invoices_to_open,
    queries.to_mail,
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
