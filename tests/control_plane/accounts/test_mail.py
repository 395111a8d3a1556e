"""E-mails: what is sent, what is tried again, what is kept, and where they go without a server."""

from datetime import timedelta
from email import message_from_string, policy
from pathlib import Path

import msgspec
import pytest
from django.db import transaction
from django.utils import timezone

from control_plane import config
from control_plane.config import MailConfig, ProviderConfig
from control_plane.mail import actions, queries, sending
from control_plane.mail.letter import Letter
from control_plane.mail.models import Mail
from daemon.settings import Refused, Secret
from tests.control_plane.accounts.conftest import SENDER
from tests.mail_server import MailServer, html_of, text_of

pytestmark = pytest.mark.django_db
TO = "ann@example.com"
LETTER = Letter(
    subject="A <subject>", paragraphs=("one & two",), link="https://a.example/x?y=1&z=2", link_says="Go"
)


def put(kind: str = "test") -> Mail:
    with transaction.atomic():
        return actions.put(TO, kind, LETTER)


def again(row: Mail) -> Mail:
    """The row as if its time had come."""
    Mail.objects.filter(pk=row.pk).update(due_at=timezone.now() - timedelta(seconds=1))
    return Mail.objects.get(pk=row.pk)


def test_an_e_mail_has_text_and_html_a_sender_and_an_id_of_its_own(mails: MailServer) -> None:
    row = put()
    assert sending.send_due() == 1
    (got,) = mails.received
    assert (got["From"], got["To"], got["Subject"]) == (SENDER, TO, "A <subject>")
    assert got["Message-ID"] == f"<{row.public_id}@127.0.0.1>" and got["Auto-Submitted"] == "auto-generated"
    assert "one & two" in text_of(got) and "https://a.example/x?y=1&z=2\n" in text_of(got)
    assert "one &amp; two" in html_of(got) and 'href="https://a.example/x?y=1&amp;z=2"' in html_of(got)
    assert sending.send_due() == 0, "once"


def test_the_content_is_kept_until_it_is_sent_and_no_longer(mails: MailServer) -> None:
    row = put()
    assert "https://a.example" in row.text
    sending.send_due()
    row.refresh_from_db()
    assert (row.text, row.html, row.due_at) == ("", "", None) and row.sent_at is not None


def test_what_the_server_does_not_take_now_is_tried_again_later(mails: MailServer) -> None:
    row = put()
    mails.refusals.append("451 greylisted")
    assert sending.send_due() == 0
    row.refresh_from_db()
    assert row.due_at is not None and row.due_at > timezone.now() and row.attempts == 1 and row.text
    again(row)
    assert sending.send_due() == 1


def test_what_the_server_refuses_for_good_is_given_up_and_says_why(mails: MailServer) -> None:
    row = put()
    mails.refusals.append("550 no such mailbox")
    sending.send_due()
    row.refresh_from_db()
    assert row.due_at is None and row.sent_at is None and row.text == ""
    assert row.error == "the server refuses the address"


def test_a_server_that_is_away_delays_e_mails_and_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    away = MailConfig(server="127.0.0.1:1", sender=SENDER, tls="none")
    configured = msgspec.structs.replace(config.current(), mail=away)
    monkeypatch.setattr(config, "current", lambda: configured)
    row = put()
    sending.send_due()
    row.refresh_from_db()
    assert "ConnectionRefusedError" in row.error and row.due_at is not None
    Mail.objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(hours=25))
    again(row)
    sending.send_due()
    row.refresh_from_db()
    assert row.due_at is None and row.text == "", "given up after a day"


def test_pauses_grow_to_half_an_hour() -> None:
    now = timezone.now()
    pauses = [(actions.next_attempt(n, now) - now).total_seconds() for n in (1, 2, 3, 30)]
    assert pauses == [15.0, 30.0, 60.0, 1800.0]


def test_of_two_workers_one_sends(mails: MailServer) -> None:
    row = put()
    assert actions.claim(row) is not None
    assert actions.claim(row) is None


def test_an_e_mail_of_a_change_that_failed_is_not_sent(mails: MailServer) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        actions.put(TO, "test", LETTER)
        raise RuntimeError
    assert sending.send_due() == 0


def test_without_a_server_an_e_mail_is_a_file_of_the_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured = msgspec.structs.replace(config.current(), state=tmp_path)
    monkeypatch.setattr(config, "current", lambda: configured)
    row = put()
    assert sending.send_due() == 1
    (file,) = (tmp_path / "mail").iterdir()
    assert file.name == f"{row.public_id}.eml" and file.stat().st_mode & 0o777 == 0o600
    got = message_from_string(file.read_text(), policy=policy.default)
    assert got["To"] == TO and "https://a.example/x?y=1&z=2\n" in text_of(got)


def test_an_address_has_enough_after_three_of_a_kind() -> None:
    for _ in range(3):
        assert not queries.has_enough(TO, "test")
        put()
    assert queries.has_enough(TO, "test") and not queries.has_enough(TO, "other")
    assert not queries.has_enough("bob@example.com", "test")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"server": "mail.example:25", "tls": "none"}, "starttls or tls required"),
        ({"server": "nowhere"}, "host:port required"),
        ({"sender": "Penstock"}, "an e-mail address required"),
        ({"user": "u"}, "user and password required, or neither"),
    ],
)
def test_a_mail_server_that_cannot_be_meant_is_refused(given: dict[str, str], said: str) -> None:
    values = {"server": "mail.example:587", "sender": SENDER, **given}
    with pytest.raises(Refused, match=said):
        MailConfig(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [("issuer", "http://id.example"), ("issuer", "https://id.example?x=1"), ("id", "A B"), ("id", "a/b")],
)
def test_a_provider_that_cannot_be_meant_is_refused(name: str, value: str) -> None:
    values = {"id": "acme", "name": "Acme", "issuer": "https://id.example", "client_id": "c", name: value}
    with pytest.raises(Refused, match=name):
        ProviderConfig(**values, client_secret=Secret("s"))  # type: ignore[arg-type]


def test_a_subject_is_one_line() -> None:
    with pytest.raises(ValueError, match="one line"):
        Letter(subject="a\nBcc: b@c.example", paragraphs=())
