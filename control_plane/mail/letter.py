"""The content of an e-mail: a subject, paragraphs, and at most one link; as plain text and as HTML. Pure."""

import textwrap
from dataclasses import dataclass
from html import escape

_WIDTH = 76
_BODY = "margin:0;padding:24px;background:#f3f5f5;color:#16282b;font:16px/1.5 system-ui,sans-serif"
_SHEET = "max-width:560px;margin:0 auto;padding:28px 32px;background:#ffffff;border-radius:8px"
_BUTTON = (
    "display:inline-block;padding:10px 18px;border-radius:6px;background:#0b5f6b;color:#ffffff;"
    "text-decoration:none;font-weight:600"
)
_QUIET = "color:#51676b;font-size:14px"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that goes with an e-mail."""

    name: str
    kind: str
    """As application/pdf."""
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What an e-mail says. `subject` is one line; the paragraphs are plain text."""

    subject: str
    paragraphs: tuple[str, ...]
    link: str = ""
    link_says: str = ""
    after: tuple[str, ...] = ()
    """Paragraphs below the link."""

    def __post_init__(self) -> None:
        if "\n" in self.subject or "\r" in self.subject:
            raise ValueError("the subject of an e-mail is one line")

    def text(self, service: str) -> str:
        """Plain text. `service` is the address of the service, at the end."""
        link = [f"{self.link_says}:\n{self.link}"] if self.link else []
        parts = [
            "Hello,",
            *(textwrap.fill(one, _WIDTH, break_long_words=False) for one in self.paragraphs),
            *link,
            *(textwrap.fill(one, _WIDTH, break_long_words=False) for one in self.after),
            f"-- \nPenstock at {service}",
        ]
        return "\n\n".join(parts) + "\n"

    def html(self, service: str) -> str:
        """The same as HTML: no images, nothing from another host."""
        parts = [f"<p>{escape(one)}</p>" for one in self.paragraphs]
        if self.link:
            shown = escape(self.link)
            parts += [
                f'<p style="margin:24px 0"><a href="{shown}" style="{_BUTTON}">{escape(self.link_says)}</a></p>',
                f'<p style="{_QUIET};word-break:break-all">Or open this address: {shown}</p>',
            ]
        parts += [f'<p style="{_QUIET}">{escape(one)}</p>' for one in self.after]
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(self.subject)}</title></head>'
            f'<body style="{_BODY}"><div style="{_SHEET}"><p>Hello,</p>{"".join(parts)}'
            f'<hr style="border:0;border-top:1px solid #d5dddd;margin:24px 0 12px"><p style="{_QUIET};margin:0">'
            f"Penstock at {escape(service)}</p></div></body></html>\n"
        )
