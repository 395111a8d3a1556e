"""A real SMTP server on a free port that keeps what it gets."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller

from local.free_ports import HOST, free_port


@dataclass
class MailServer:
    """`refusals` are answered to the next recipients, instead of taking the e-mail."""

    port: int
    received: list[EmailMessage] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        """Called by aiosmtpd."""
        if self.refusals:
            return self.refusals.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Called by aiosmtpd."""
        self.received.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 OK"

    def to(self, address: str) -> list[EmailMessage]:
        """What the address got, in order."""
        return [one for one in self.received if one["To"] == address]


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """The server, until the end of the block."""
    server = MailServer(port=free_port(set()))
    controller = Controller(server, hostname=HOST, port=server.port)
    controller.start()
    try:
        yield server
    finally:
        controller.stop()


def text_of(message: EmailMessage) -> str:
    """The plain text of an e-mail."""
    body = message.get_body(("plain",))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")


def html_of(message: EmailMessage) -> str:
    """The HTML of an e-mail."""
    body = message.get_body(("html",))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")
