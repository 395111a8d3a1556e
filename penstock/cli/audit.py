"""`penstock audit`: the entries, exports of them, and whether the log still holds what was noted of it."""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli.exit_codes import ExitCode
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_json, print_table
from penstock.cli.rest import rest_client
from penstock.cli.waits import SECONDS
from penstock.contract.document_fields import SHA256_HEX
from penstock.contract.errors import ConfigurationError, Forbidden, InternalError, InvalidRequest, NotFound
from penstock.private_file import write_private
from penstock.profiles import profile_file
from penstock.rest.client import RestClient

NOTES = "audit-heads.json"
HEAD_PATH = "/v1/audit/head"
_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])
_NOTED = re.compile(rf"([1-9][0-9]{{0,17}}):({SHA256_HEX.pattern})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What an outsider knows of the log: its entry `sequence` had this hash, which stands for all before it too."""

    where: str
    sequence: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A note and what the log has there now; `problem` is empty when they agree."""

    noted: Noted
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A log as the service has it, by the address that answers its end."""

    rest: RestClient
    path: str
    timeout: float

    def head(self, sequence: int | None = None) -> Noted:
        """The log's end, or an earlier entry; `where` is the tenant's or organisation's id. Raises `NotFound`."""
        query = {} if sequence is None else {"sequence": sequence}
        answer = self.rest.get(self.path, query, timeout_s=self.timeout)
        if not isinstance(answer, dict):
            raise InternalError(f"{self.path}: the answer is no object")
        return _noted(str(answer.get("tenant")), answer)


def expecting(command: _FunctionT) -> _FunctionT:
    """The option that names heads; `read_expected` reads each."""
    return click.option(
        "--expect",
        "expected",
        metavar="SEQUENCE:HASH",
        multiple=True,
        help="A head that was noted elsewhere; may be given several times.",
    )(command)


def noting(command: _FunctionT) -> _FunctionT:
    """The option that says where heads are noted."""
    return click.option(
        "--notes",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"Where heads are noted (default {NOTES} beside the profiles).",
    )(command)


@click.group(
    name="audit",
    cls=Group,
    path=("audit",),
    homes={
        "list": "penstock.cli.audit_entries:audit_list",
        "export": "penstock.cli.audit_entries:audit_export",
        "topic": "penstock.cli.audit_topics:audit_topic",
        "topic-off": "penstock.cli.audit_topics:audit_topic_off",
        "topic-on": "penstock.cli.audit_topics:audit_topic_on",
        "verify-export": "penstock.cli.audit_entries:audit_verify_export",
    },
)
def audit() -> None:
    """The audit log: list, export, verify, and the topic that it is written to."""


@audit.command(
    "verify",
    short_help="Check whether the log still holds what was noted of it.",
    examples=[
        "penstock audit verify",
        f"penstock audit verify --expect 14:{'0' * 64}",
    ],
)
@expecting
@noting
@click.option(
    "--timeout", type=SECONDS, default=15.0, show_default=True, help="Seconds to wait for each answer."
)
@click.pass_context
def audit_verify(
    context: click.Context, expected: tuple[str, ...], notes: Path | None, timeout: float
) -> None:
    """Compare the log with what was noted of it: by the last run of this command, on invoices, by --expect.

    Each entry's hash holds all entries before it, so an entry that is removed or rewritten below a note shows.
    Then the newest head is noted here. What was written and removed between two runs is not seen; that each entry
    has its hash is what "Check the chain" in the console computes.

    Exit code 0 only when all agrees; 5 when something does not, and then nothing is noted.
    """
    with rest_client() as rest:
        verified(context, Log(rest=rest, path=HEAD_PATH, timeout=timeout), expected, notes, on_invoices=True)


def verified(
    context: click.Context, log: Log, expected: Sequence[str], notes: Path | None, *, on_invoices: bool
) -> None:
    """Compare a log with what was noted of it, print what was found, and note its head if all agrees; else end the
    command with code 5. Raises `InvalidRequest` (what is expected), `ConfigurationError` (the file of notes).
    """
    file = profile_file().with_name(NOTES) if notes is None else notes
    noted = [read_expected(text) for text in expected]
    head = log.head()
    kept = _read_notes(file)
    mine = kept.get(head.where)
    if mine is not None:
        noted.append(mine)
    if on_invoices:
        noted += _on_invoices(log.rest, log.timeout)
    compared = [Compared(noted=one, problem=_compare(log, head, one)) for one in noted]
    agreed = not any(one.problem for one in compared)
    if agreed:
        _write_notes(file, {**kept, head.where: head})
    if current().json:
        print_json(
            {
                "agreed": agreed,
                "head": {"tenant": head.where, "sequence": head.sequence, "hash": head.hash},
                "compared": [
                    {"noted": one.noted.where, "sequence": one.noted.sequence, "problem": one.problem or None}
                    for one in compared
                ],
            }
        )
    else:
        shown = [
            [
                "this machine" if one.noted is mine else one.noted.where,
                one.noted.sequence,
                one.problem or "agrees",
            ]
            for one in compared
        ]
        print_table(["noted on", "entry", "the log now"], shown, empty="Nothing was noted before.")
        if agreed:
            click.echo(
                f"The audit log has {head.sequence:,} entries and ends with {head.hash}; noted in {file}."
            )
        else:
            click.echo(
                "The audit log is not what it was: entries are missing or were rewritten. Nothing was noted."
            )
    if not agreed:
        sys.stdout.flush()
        context.exit(int(ExitCode.REFUSED))


def _on_invoices(rest: RestClient, timeout: float) -> list[Noted]:
    """What invoices remember; nothing for a key that may not read them."""
    try:
        invoices = list(rest.items("/v1/invoices", timeout_s=timeout))
    except Forbidden:
        return []
    return [
        _noted(f"invoice {invoice['number']}", invoice["audit_head"])
        for invoice in invoices
        if invoice.get("audit_head") is not None
    ]


def _compare(log: Log, head: Noted, noted: Noted) -> str:
    """What is wrong with the log below a note; empty when nothing is."""
    if noted.sequence > head.sequence:
        return f"ends at entry {head.sequence}: the newest are missing"
    if noted.sequence == 0:
        return ""
    if noted.sequence == head.sequence:
        there: str | None = head.hash
    else:
        try:
            there = log.head(noted.sequence).hash
        except NotFound:
            there = None
    if there is None:
        return "has no such entry"
    return "" if there == noted.hash else "has another entry there"


def _noted(where: str, values: Mapping[str, Any]) -> Noted:
    sequence, digest = values.get("sequence"), values.get("hash")
    if not isinstance(sequence, int) or not isinstance(digest, str) or not SHA256_HEX.fullmatch(digest):
        raise InternalError(f"{where}: no number and hash of an audit entry")
    return Noted(where=where, sequence=sequence, hash=digest)


def read_expected(text: str) -> Noted:
    """`SEQUENCE:HASH`. Raises `InvalidRequest`."""
    match = _NOTED.fullmatch(text.strip())
    if match is None:
        raise InvalidRequest(f"expect: {text[:80]!r}: SEQUENCE:HASH with 64 hex digits required")
    return Noted(where="--expect", sequence=int(match[1]), hash=match[2])


def _read_notes(file: Path) -> dict[str, Noted]:
    """By tenant. A file that cannot be read is an error, never an empty one: it would be noted over."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        return {tenant: _noted(tenant, value) for tenant, value in values.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, InternalError) as error:
        raise ConfigurationError(f"{file}: the notes of audit logs cannot be read: {error}") from None


def _write_notes(file: Path, notes: Mapping[str, Noted]) -> None:
    values = {
        tenant: {"sequence": note.sequence, "hash": note.hash} for tenant, note in sorted(notes.items())
    }
    try:
        write_private(file, json.dumps(values, indent=2) + "\n")
    except OSError as error:
        raise ConfigurationError(f"{file}: heads of audit logs cannot be noted: {error.strerror}") from None
