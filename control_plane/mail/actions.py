"""Writes e-mails to send, in the transaction of the change that they are about; and what became of each."""

import logging
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.utils import timezone

from control_plane import config
from control_plane.celery import app
from control_plane.ids import new_id
from control_plane.mail.letter import Attachment, Letter
from control_plane.mail.models import Mail
from penstock.contract.invariant import invariant

ATTEMPT = timedelta(seconds=60)
"""How long an attempt may take: after it, another worker tries."""
FIRST_PAUSE_S = 15.0
PAUSE_S_MAX = 1800.0
GIVEN_UP_AFTER = timedelta(hours=24)
ERROR_LENGTH = 400
_log = logging.getLogger(__name__)


def put(to: str, kind: str, letter: Letter, attachment: Attachment | None = None) -> Mail:
    """Send `letter`, with the file, to the address once the transaction is committed. Must run inside the change's
    transaction.
    """
    invariant(connection.in_atomic_block, "an e-mail is written in the transaction of its change")
    service = config.current().public_url
    now = timezone.now()
    row = Mail.objects.create(
        public_id=new_id("mail"),
        kind=kind,
        to=to,
        subject=letter.subject,
        text=letter.text(service),
        html=letter.html(service),
        file=b"" if attachment is None else attachment.content,
        file_name="" if attachment is None else attachment.name,
        file_kind="" if attachment is None else attachment.kind,
        created_at=now,
        due_at=now,
    )
    transaction.on_commit(_wake)
    return row


def claim(row: Mail) -> Mail | None:
    """The e-mail for one attempt by this process; None if another process has it."""
    if row.due_at is None:
        return None
    now = timezone.now()
    taken = Mail.objects.filter(pk=row.pk, due_at=row.due_at).update(
        due_at=now + ATTEMPT, attempts=row.attempts + 1
    )
    return Mail.objects.get(pk=row.pk) if taken else None


def note_sent(row: Mail) -> None:
    """A server, or the folder, has it: its content is kept no longer."""
    Mail.objects.filter(pk=row.pk).update(
        sent_at=timezone.now(), due_at=None, text="", html="", file=b"", error=""
    )


def note_failed(row: Mail, error: str, *, for_good: bool) -> None:
    """The attempt failed. It is tried again later, unless the server refused it for good or a day has passed."""
    now = timezone.now()
    fields: dict[str, object] = {"error": error[:ERROR_LENGTH]}
    if for_good or now - row.created_at >= GIVEN_UP_AFTER:
        fields |= {"due_at": None, "text": "", "html": "", "file": b""}
    else:
        fields["due_at"] = next_attempt(row.attempts, now)
    Mail.objects.filter(pk=row.pk).update(**fields)


def next_attempt(attempts: int, now: datetime) -> datetime:
    """When to try again after so many attempts: each pause is twice the one before, up to half an hour."""
    return now + timedelta(seconds=min(PAUSE_S_MAX, FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 10)))


def _wake() -> None:
    """Ask a worker to send now. A lost wake-up costs time only: the schedule finds the e-mail."""
    try:
        app.send_task("mail.send", retry=False, expires=60)
    except Exception:
        # Whatever the transport raises: the row is committed and will be found.
        _log.warning("no wake-up could be sent for an e-mail", exc_info=True)
