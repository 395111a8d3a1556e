"""What the e-mail about an access report says. Pure but for the public URL of the configuration."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from control_plane import config
from control_plane.mail.letter import Letter

_LISTS = (("changes", "change"), ("unused", "thing that looks unused"), ("refusals", "kind of refusal"))


def says_something(report: Mapping[str, Any]) -> bool:
    """Whether there is anything to look at: what changed, looks unused, or was refused."""
    return any(report[name] for name, _ in _LISTS)


def report_made(report: Mapping[str, Any]) -> Letter:
    """To an owner: numbers only, since an e-mail goes through many hands."""
    tenant, month = str(report["tenant"]["name"]), str(report["month"])
    counts = ", ".join(_counted(len(report[name]), word) for name, word in _LISTS)
    page = f"{config.current().public_url.rstrip('/')}/t/{quote(tenant)}/access/reports"
    return Letter(
        subject=f"Who may do what in {tenant}: {month}",
        paragraphs=(
            f"The access report of {tenant} for {month} is made: {_counted(len(report['people']), 'person')}, "
            f"{_counted(len(report['service_accounts']), 'service account')}, "
            f"{_counted(len(report['keys']), 'key')}.",
            f"To look at: {counts}.",
        ),
        link=f"{page}/{month}",
        link_says="Read the report",
        after=(f"You own {tenant}. To get no more of these e-mails, choose so at {page}.",),
    )


def _counted(number: int, word: str) -> str:
    if number == 1:
        return f"1 {word}"
    first, _, rest = word.partition(" ")
    several = {"person": "people", "thing": "things", "kind": "kinds"}.get(first)
    return f"{number:,} {several} {rest}".rstrip() if several else f"{number:,} {word}s"
