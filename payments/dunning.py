"""Reminds of what is past due, and alerts operators after the last reminder. It suspends a tenant by setting only."""

import logging
from datetime import datetime, timedelta

from control_plane import config
from control_plane.audit import actions as audit
from control_plane.mail import actions as mails
from payments import actions, former_payers, letters, queries
from payments.models import Receivable
from payments.states import ALERT_AFTER, OWED, State, reminders_due
from tenants.actions import set_suspended

MAIL_KIND = "payment-reminder"
_log = logging.getLogger(__name__)


def remind(receivable: str, now: datetime) -> None:
    """Take the step of the receivable that is due. Of several that were missed, one e-mail is sent."""
    settings = config.current().payments
    suspend = False
    with actions.locked(receivable) as row:
        if row.state not in OWED:
            return
        actions.update_state(actions.ACTOR, row, now)
        if row.state != State.PAST_DUE or row.carried_by is not None or row.changed_there:
            return
        due = reminders_due(row.due_at, settings.reminder_days, now)
        if due > row.reminders:
            _send(row, due, now, last=due == len(settings.reminder_days))
        last_at = row.due_at + timedelta(days=max(settings.reminder_days, default=0))
        if row.alerted_at is None and now >= last_at + ALERT_AFTER:
            row.alerted_at = now
            row.save(update_fields=["alerted_at"])
            _log.error(
                "an invoice is unpaid after the last reminder",
                extra={"tenant": row.tenant.public_id, "invoice": row.invoice.public_id},
            )
        at = _suspends_at(row)
        suspend = (
            at is not None
            and now >= at
            and row.suspended_at is None
            and not row.tenant.suspended
            and not queries.may_be_paid_unknown(row)
        )
        if suspend:
            row.suspended_at = now
            row.save(update_fields=["suspended_at"])
    if suspend:
        set_suspended(actions.ACTOR, row.tenant, True)


def _suspends_at(row: Receivable) -> datetime | None:
    """When the tenant is suspended for it: as long after the last reminder as the settings say, also where that one
    came late. None: not before another reminder, or never.
    """
    settings = config.current().payments
    days = settings.days_to_suspend
    if days is None or row.reminded_at is None or row.reminders < len(settings.reminder_days):
        return None
    warned = row.reminded_at + timedelta(days=days - max(settings.reminder_days))
    return max(row.due_at + timedelta(days=days), warned)


def _send(row: Receivable, due: int, now: datetime, *, last: bool) -> None:
    row.reminders, row.reminded_at = due, now
    carried = [one for one in row.carries.select_related("invoice").order_by("pk") if one.state in OWED]
    letter = letters.reminder(
        former_payers.name_of(row.tenant),
        is_purged=row.tenant.purged_at is not None,
        number=row.invoice.number,
        carried=[one.invoice.number for one in carried],
        invoice=row.invoice.public_id,
        open_micro=row.open_micro + sum(one.open_micro for one in carried),
        minor_digits=int(row.invoice.price_book.document["minor_digits"]),
        currency=row.currency,
        due_at=row.due_at,
        suspended_at=_suspends_at(row) if last else None,
    )
    for address in former_payers.addresses(row.tenant):
        mails.put(address, MAIL_KIND, letter)
    row.charge += 1
    row.save(update_fields=["reminders", "reminded_at", "charge"])
    audit.record(
        actions.ACTOR,
        tenant=row.tenant.public_id,
        action="receivable.remind",
        object_id=row.public_id,
        after={"reminders": due, "invoice": row.invoice.public_id},
    )
    # The payment method is tried again.
    actions.tell_stripe(row)
