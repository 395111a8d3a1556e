"""Sends e-mails: to the configured SMTP server, or, without one, into the folder `mail` beside the configuration."""

import logging
import smtplib
import ssl
import time
from pathlib import Path
from urllib.parse import urlsplit

from django.core.mail import EmailMultiAlternatives
from django.core.mail.backends.smtp import EmailBackend

from control_plane import config
from control_plane.mail import actions, queries
from control_plane.mail.models import Mail
from penstock.private_file import write_private
from penstock.rules.addresses import split_address

TIMEOUT_S = 10
BATCH = 20
_NO_SERVER_SENDER = "penstock@localhost"
_log = logging.getLogger(__name__)


class _Backend(EmailBackend):
    """Django's SMTP client, which believes the configured authorities alone if there are any."""

    ca_file: Path | None = None

    @property
    def ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))


def send_due(budget_s: float = 30.0) -> int:
    """Send what is due, for about `budget_s`; how many were sent. Never raises for one e-mail that cannot be sent."""
    until, sent = time.monotonic() + budget_s, 0
    for row in queries.due(BATCH):
        if time.monotonic() >= until:
            break
        claimed = actions.claim(row)
        if claimed is not None:
            sent += _send(claimed)
    return sent


def folder() -> Path:
    """Where e-mails are written without a server."""
    return config.current().state_directory / "mail"


def _send(row: Mail) -> bool:
    about = {"mail": row.public_id, "kind": row.kind, "attempt": row.attempts}
    message = message_of(row)
    try:
        if config.current().mail is None:
            file = folder() / f"{row.public_id}.eml"
            write_private(file, message.message().as_string())
            # Who runs the service on one machine finds the link there.
            _log.info(
                "no mail server is configured: an e-mail is in a file", extra={**about, "file": str(file)}
            )
        else:
            _backend().send_messages([message])
    except smtplib.SMTPRecipientsRefused as error:
        for_good = all(code >= 500 for code, _ in error.recipients.values())
        _failed(row, "the server refuses the address", for_good=for_good, about=about)
        return False
    except smtplib.SMTPResponseException as error:
        said = (
            error.smtp_error.decode(errors="replace")
            if isinstance(error.smtp_error, bytes)
            else error.smtp_error
        )
        # A refusal of our sign-in is the operator's to correct, not the end of the e-mail.
        for_good = error.smtp_code >= 550 and not isinstance(error, smtplib.SMTPAuthenticationError)
        _failed(row, f"{error.smtp_code} {said}", for_good=for_good, about=about)
        return False
    except (OSError, smtplib.SMTPException) as error:
        _failed(row, f"{type(error).__name__}: {error}", for_good=False, about=about)
        return False
    actions.note_sent(row)
    return True


def _failed(row: Mail, error: str, *, for_good: bool, about: dict[str, object]) -> None:
    actions.note_failed(row, error, for_good=for_good)
    text = "an e-mail is given up" if for_good else "an e-mail was not sent, and is tried again"
    _log.warning(text, extra={**about, "error": error})


def message_of(row: Mail) -> EmailMultiAlternatives:
    """The e-mail as it is sent. Another attempt has the same Message-ID, so mail programs show it once."""
    current = config.current()
    host = urlsplit(current.public_url).hostname or "localhost"
    message = EmailMultiAlternatives(
        subject=row.subject,
        body=row.text,
        from_email=_NO_SERVER_SENDER if current.mail is None else current.mail.sender,
        to=[row.to],
        headers={"Message-ID": f"<{row.public_id}@{host}>", "Auto-Submitted": "auto-generated"},
    )
    message.attach_alternative(row.html, "text/html")
    if row.file:
        message.attach(row.file_name, bytes(row.file), row.file_kind)
    return message


def _backend() -> _Backend:
    mail = config.current().mail
    assert mail is not None
    host, port = split_address(mail.server)
    backend = _Backend(
        host=host,
        port=port,
        username=mail.user or "",
        password=mail.password or "",
        use_tls=mail.tls == "starttls",
        use_ssl=mail.tls == "tls",
        timeout=TIMEOUT_S,
        fail_silently=False,
    )
    backend.ca_file = mail.ca_file
    return backend
