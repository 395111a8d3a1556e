"""`penstock audit list`, `export` and `verify-export`: the entries of a tenant's audit log, here and in a file."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.audit import Noted, expecting, read_expected
from penstock.cli.exit_codes import ExitCode
from penstock.cli.invocation import Command, current
from penstock.cli.invoice import moment
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.topic_changes import timeout_option
from penstock.cli.whose import client_for, whose_option
from penstock.contract.audit_entries import OUTCOMES, ChainCheck, entry_hash
from penstock.contract.errors import ConfigurationError, InvalidRequest
from penstock.contract.limits import AUDIT_EXPORT_ENTRIES_MAX

if TYPE_CHECKING:
    from penstock.rest.client import RestClient

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])
_LINE_BYTES_MAX = 16 * 1024 * 1024
"""An entry is some kilobytes; whatever is longer is none."""
_LISTED = 50
_REPEATED_MAX = 10_000
"""Entries that may come again: many times what a courier sends at once."""


_whose = whose_option("log")
_client = client_for


def searching(command: _FunctionT) -> _FunctionT:
    """The options that say which entries of a log are listed; `listed` takes them."""
    options = (
        click.option("--actor", metavar="ID", help="Only what this person, key or operator did."),
        click.option("--object", "object_id", metavar="ID", help="Only entries about this object."),
        click.option("--kind", help="Only entries about objects of this kind, for instance topic or key."),
        click.option("--name", help="Only entries about objects that have or had this name."),
        click.option("--action", help="Only this action, for instance topic.create."),
        click.option(
            "--outcome", type=click.Choice(OUTCOMES), help="Only what was done, or what was refused."
        ),
        click.option("--from", "since", metavar="TIME", help="A day or moment (UTC), inclusive."),
        click.option("--to", "until", metavar="TIME", help="A day or moment (UTC), exclusive."),
        click.option("--oldest-first", is_flag=True, help="Begin with the oldest entry that matches."),
        click.option(
            "--limit",
            type=click.IntRange(1, 100_000),
            default=_LISTED,
            show_default=True,
            help="Entries at most.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(
    "list",
    cls=Command,
    short_help="List entries, newest first.",
    examples=[
        "penstock audit list --kind topic --name orders",
        "penstock audit list --outcome refused --from 2026-01-31 --limit 200",
        "penstock audit list --actor usr_... --json",
    ],
)
@searching
@_whose
@timeout_option
def audit_list(token_file: Path | None, tenant: str | None, timeout: float, **search: Any) -> None:
    """List who changed, was refused or read what.

    Refusals and sensitive reads are counted by the minute: one entry says how often. It takes a person
    who has signed in (`penstock login`); API keys may not read the log.
    """
    with _client(token_file, tenant) as rest:
        listed(rest, "/v1/audit", timeout, **search)


def listed(
    rest: "RestClient",
    path: str,
    timeout: float,
    *,
    actor: str | None,
    object_id: str | None,
    kind: str | None,
    name: str | None,
    action: str | None,
    outcome: str | None,
    since: str | None,
    until: str | None,
    oldest_first: bool,
    limit: int,
) -> None:
    """Print the entries that are searched for in the log at `path`."""
    asked = {
        "actor": actor,
        "object": object_id,
        "kind": kind,
        "name": name,
        "action": action,
        "outcome": outcome,
        "from": since,
        "to": until,
        "order": "oldest" if oldest_first else "newest",
        "limit": min(limit, 1_000),
    }
    found: list[dict[str, Any]] = []
    more = False
    for entry in rest.items(path, asked, timeout_s=timeout):
        if len(found) == limit:
            more = True
            break
        found.append(entry)
    if current().json:
        print_json({"entries": found, "more": more})
        return
    print_table(
        ["entry", "at", "outcome", "action", "object", "by", "times"],
        [
            [
                entry["sequence"],
                moment(entry["at"]),
                entry["outcome"],
                entry["action"],
                entry["after"].get("name") or entry["before"].get("name") or entry["object_id"] or "-",
                f"{entry['actor_kind']} {entry['actor_id']}",
                entry["times"],
            ]
            for entry in found
        ],
        empty="No entry matches.",
    )
    if more:
        say(f"There are more than {limit} entries; --limit shows more, --from and --to others.")


@click.command(
    "export",
    cls=Command,
    short_help="Write the log into a file, and go on with one.",
    examples=["penstock audit export audit.jsonl", "penstock audit export audit.jsonl --tenant tn_..."],
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_whose
@timeout_option
def audit_export(file: Path, token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """Append to FILE what it does not have of the log yet: one entry a line, as JSON, in the chain's order.

    Each entry is checked against the one before as it comes. A line that is not whole, from a run that was stopped,
    is written again. Exit code 5 where an entry does not continue the chain: it and what follows are not written.
    """
    with _client(token_file, tenant) as rest:
        exported(rest, "/v1/audit/export", file, timeout)


def exported(rest: "RestClient", path: str, file: Path, timeout: float) -> None:
    """Append to `file` what it does not have yet of the log whose export is at `path`."""
    with _opened(file) as output, progress("Exporting") as bar:
        check, kept = _continued(file, output)
        written = 0
        while True:
            asked = {"after": check.sequence, "limit": AUDIT_EXPORT_ENTRIES_MAX}
            entries = rest.lines(path, asked, timeout_s=timeout)
            for entry in entries:
                problem = check.problem(entry)
                if problem:
                    raise InvalidRequest(
                        f"{file}: the log does not continue it after entry {check.sequence}: {problem}"
                    )
                output.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
                written += 1
            output.flush()
            bar.to(written, f"{written:,} entries")
            if not entries:
                break
    if current().json:
        print_json({"file": str(file), "kept": kept, "written": written, **_end(check)})
    else:
        click.echo(f"{file}: {written:,} entries more, up to entry {check.sequence:,} {check.hash}")


@click.command(
    "verify-export",
    cls=Command,
    short_help="Check the chain in an exported file, offline.",
    examples=[
        "penstock audit verify-export audit.jsonl",
        f"penstock audit verify-export audit.jsonl --expect 14:{'0' * 64}",
    ],
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@expecting
@click.pass_context
def audit_verify_export(context: click.Context, file: Path, expected: tuple[str, ...]) -> None:
    """Compute every hash of an exported file again. It asks no server.

    The file may be made of the topic __audit, which may have an entry more than once: `penstock consume __audit`.

    A chain that was made up as a whole is consistent too: --expect compares it with heads that were noted before,
    by `penstock audit verify` or `penstock organisation audit head`, or on invoices. Exit code 5 when something does
    not agree.
    """
    noted = {one.sequence: one for one in (read_expected(text) for text in expected)}
    check, repeated = ChainCheck(), _Repeated()
    problem = ""
    try:
        with file.open("rb") as lines, progress("Checking", file.stat().st_size) as bar:
            for number, entry in enumerate(_entries(lines), 1):
                if repeated.has(entry):
                    continue
                problem = check.problem(entry) or _unlike(check, noted)
                repeated.note(check)
                if problem:
                    problem = f"line {number}: {problem}"
                    break
                if number % 1_000 == 0:
                    bar.to(lines.tell())
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from None
    missing = [sequence for sequence in sorted(noted) if sequence > check.sequence]
    if not problem and missing:
        problem = f"it ends with entry {check.sequence}, and entry {missing[0]} was noted"
    if current().json:
        print_json({"agreed": not problem, "problem": problem or None, **_end(check)})
    elif problem:
        click.echo(f"{file}: {problem}")
    else:
        click.echo(f"{file}: {check.sequence:,} entries agree; the last is {check.sequence}:{check.hash}")
    if problem:
        sys.stdout.flush()
        context.exit(int(ExitCode.REFUSED))


class _Repeated:
    """Entries that came before, in the last ones: a topic has what was sent again twice."""

    def __init__(self) -> None:
        self._hashes: dict[int, str] = {}

    def has(self, entry: Any) -> bool:
        """Whether it is one of them, unaltered: its hash is known, and is that of its fields."""
        try:
            known = self._hashes.get(entry["sequence"])
            return known is not None and known == entry["hash"] == entry_hash(entry["previous_hash"], entry)
        except (KeyError, TypeError, AttributeError, ValueError):
            return False

    def note(self, check: ChainCheck) -> None:
        self._hashes[check.sequence] = check.hash
        self._hashes.pop(check.sequence - _REPEATED_MAX, None)


def _unlike(check: ChainCheck, noted: dict[int, Noted]) -> str:
    known = noted.get(check.sequence)
    return "" if known is None or known.hash == check.hash else "another entry was noted here"


def _end(check: ChainCheck) -> dict[str, Any]:
    return {"tenant": check.tenant, "sequence": check.sequence, "hash": check.hash}


def _entries(lines: IO[bytes]) -> Iterator[Any]:
    """What each line holds; None for a line that is no JSON."""
    while line := lines.readline(_LINE_BYTES_MAX):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            yield None


@contextmanager
def _opened(file: Path) -> Iterator[IO[bytes]]:
    try:
        with file.open("ab") as output:
            yield output
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from None


def _continued(file: Path, output: IO[bytes]) -> tuple[ChainCheck, int]:
    """The check after the file's last whole line, behind which the file is truncated; and how many entries it has.

    Raises `InvalidRequest` for a file whose entries do not follow each other.
    """
    check, whole, number = ChainCheck(), 0, 0
    with file.open("rb") as lines:
        while line := lines.readline(_LINE_BYTES_MAX):
            if not line.endswith(b"\n"):
                break
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                entry = None
            problem = check.problem(entry)
            if problem:
                raise InvalidRequest(f"{file}: line {number + 1}: {problem}; nothing was written")
            whole, number = whole + len(line), number + 1
    output.truncate(whole)
    return check, number
