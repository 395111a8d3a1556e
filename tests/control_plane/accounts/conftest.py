"""A service with a mail server, for tests of what it mails."""

import re
from collections.abc import Iterator

import msgspec
import pytest

from control_plane import config
from control_plane.config import MailConfig
from control_plane.mail import sending
from tests.mail_server import MailServer, mail_server, text_of

SENDER = "penstock@service.example"


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    """The mail server that the service is configured with."""
    with mail_server() as server:
        mail = MailConfig(server=server.address, sender=SENDER, tls="none")
        configured = msgspec.structs.replace(config.current(), mail=mail)
        monkeypatch.setattr(config, "current", lambda: configured)
        yield server


def link_in(mails: MailServer, address: str) -> str:
    """The path of the link in the last e-mail to the address, after the service has sent what is due."""
    sending.send_due()
    (found,) = re.findall(r"http://127\.0\.0\.1:8080(/\S+)\n", text_of(mails.to(address)[-1]))
    return str(found)
