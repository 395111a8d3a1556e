"""`penstock diff` and `penstock apply`: a declarative file against what the tenant has; over REST."""

from collections.abc import Mapping, Sequence, Set
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import click

from penstock.admin.declaration import Declared
from penstock.admin.declared import difference
from penstock.admin.declared_changes import Change, Kind, Present, Sign, ids_of
from penstock.admin.declared_file import FILE_BYTES_MAX, declared_of
from penstock.cli import failures, new_keys
from penstock.cli.account_limits import limits_path
from penstock.cli.cluster import operator_token, token_option
from penstock.cli.confirmation import must_agree
from penstock.cli.declared_checks import LIST_ALL, must_be_able
from penstock.cli.declared_work import Work
from penstock.cli.display import line
from penstock.cli.invocation import Command, current
from penstock.cli.lost_keys import revoke_lost
from penstock.cli.output import print_json, progress, say
from penstock.cli.rest import own_key, rest_client, settings
from penstock.cli.topic_changes import timeout_option
from penstock.contract.errors import (
    AlreadyExists,
    Forbidden,
    InUse,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    PenstockError,
    PreconditionFailed,
)
from penstock.rest.client import RestClient, segment

_REFUSALS = (
    AlreadyExists,
    Forbidden,
    InUse,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    PreconditionFailed,
)
DIFFERENT = 2
"""What `penstock diff` ends with where something differs; 1 is an error of any kind."""


class DiffCommand(Command):
    """A command whose every failure ends with 1, also wrong usage: 2 means that something differs."""

    def make_context(self, *words: Any, **rest: Any) -> click.Context:
        """As click's. Raises `click.exceptions.Exit`."""
        try:
            return super().make_context(*words, **rest)
        except click.UsageError as error:
            failures.tell(error, as_json=False)
            raise click.exceptions.Exit(1) from error

    def invoke(self, context: click.Context, /) -> Any:
        """As click's. Raises `click.exceptions.Exit`."""
        try:
            return super().invoke(context)
        except (PenstockError, click.ClickException) as error:
            failures.tell(error, as_json=current().json)
            raise click.exceptions.Exit(1) from error


_file = click.option(
    "-f", "--file", "stream", type=click.File("rb"), required=True, help="YAML or JSON; - = standard input."
)
_prune = click.option(
    "--prune",
    is_flag=True,
    help="Remove what the file does not name, of the kinds that it has; topics and keys excepted.",
)
_prune_topics = click.option(
    "--prune-topics", is_flag=True, help="Delete topics that the file does not name, with their messages."
)
_prune_keys = click.option(
    "--prune-keys", is_flag=True, help="Revoke keys of service accounts that the file does not name."
)
_tenant = click.option(
    "--tenant", metavar="ID", help="For operators: whose limits the file has, with --token-file."
)
_for_operators = token_option


@click.command(
    "diff", cls=DiffCommand, examples=["penstock diff -f team.yaml", "penstock diff -f team.yaml --prune"]
)
@_file
@_prune
@_prune_topics
@_prune_keys
@_for_operators
@_tenant
@timeout_option
def diff(
    stream: BinaryIO,
    prune: bool,
    prune_topics: bool,
    prune_keys: bool,
    token_file: Path | None,
    tenant: str | None,
    timeout: float,
) -> None:
    """Show what `penstock apply` would change. Exit codes: 0 nothing, 2 something, 1 an error."""
    wanted = _read(stream)
    with closing(_client(wanted, token_file, tenant)) as rest, progress("Reading"):
        present = _present(rest, wanted, timeout)
        changes = difference(wanted, present, prune=prune, prune_topics=prune_topics, prune_keys=prune_keys)
        refusal = _refusal(rest, changes, present, timeout)
    if refusal is not None and not isinstance(refusal, _REFUSALS):
        _foresee(changes)
        raise refusal
    if current().json:
        problem = None if refusal is None else {"code": refusal.code.name, "message": refusal.message}
        print_json({"changes": [_document(one) for one in changes], "refusal": problem})
    else:
        _show(changes)
        if refusal is not None:
            say(line(f"penstock apply refuses these changes, and makes none of them: {refusal.message}"))
    if changes:
        raise click.exceptions.Exit(DIFFERENT)


@click.command(
    "apply",
    cls=Command,
    examples=[
        "penstock apply -f team.yaml --keys-to team.keys",
        "penstock apply -f team.yaml --prune --yes",
        "penstock apply -f team.yaml --dry-run",
    ],
)
@_file
@_prune
@_prune_topics
@_prune_keys
@click.option(
    "--keys-to",
    metavar="FILE",
    help="Where texts of new keys and secrets of new webhooks go, each once: behind what the file has, one line of"
    " JSON each; - = standard output.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--dry-run", is_flag=True, help="Show what would change, and change nothing; as diff, but it ends with 0."
)
@_for_operators
@_tenant
@timeout_option
def apply(
    stream: BinaryIO,
    prune: bool,
    prune_topics: bool,
    prune_keys: bool,
    keys_to: str | None,
    yes: bool,
    dry_run: bool,
    token_file: Path | None,
    tenant: str | None,
    timeout: float,
) -> None:
    """Make the tenant as a file says. It shows the changes and asks before, and needs --yes where there is no terminal.

    After a failure the changes before it stay; the same command goes on with the rest.
    """
    wanted = _read(stream)
    with closing(_client(wanted, token_file, tenant)) as rest:
        if not dry_run:
            revoke_lost(rest, keys_to, timeout)
        with progress("Reading"):
            present = _present(rest, wanted, timeout)
            changes = difference(
                wanted, present, prune=prune, prune_topics=prune_topics, prune_keys=prune_keys
            )
            must_be_able(rest, changes, present, present.own_key, timeout)
        if dry_run:
            _foresee(changes)
            return
        makes_keys = any(one.kind in (Kind.KEY, Kind.WEBHOOK) and one.sign is Sign.ADD for one in changes)
        keys_output = new_keys.output_for(keys_to, as_json=current().json) if makes_keys else None
        if not current().json:
            _show(changes, beside_keys=keys_to == new_keys.STANDARD_OUTPUT)
        if changes and not yes:
            must_agree(_question(changes))
        with keys_output or nullcontext():
            work = Work(rest, ids_of(present), timeout, keys_output)
            try:
                with progress("Applying", len(changes)) as bar:
                    work.run(changes, bar)
            except (PenstockError, KeyboardInterrupt):
                if current().json:
                    print_json({"changes": [_document(one) for one in changes], "applied": len(work.done)})
                say(f"{len(work.done)} of {len(changes)} changes are applied:")
                for one in work.done:
                    say(line(f"  {one.sign} {one.kind} {one.name}"))
                say("Repeat the command: it goes on with the rest.")
                raise
    if current().json:
        print_json({"changes": [_document(one) for one in changes], "applied": len(work.done)})
    elif changes:
        say(f"Applied: {len(changes)}.")


def _refusal(
    rest: RestClient, changes: Sequence[Change], present: Present, timeout: float
) -> PenstockError | None:
    """What `penstock apply` would end with before its first change, or why that is not known; None: it would begin."""
    try:
        must_be_able(rest, changes, present, present.own_key, timeout)
    except PenstockError as error:
        return error
    return None


def _foresee(changes: Sequence[Change]) -> None:
    if current().json:
        print_json({"changes": [_document(one) for one in changes], "applied": 0})
        return
    _show(changes)
    say("Nothing was changed: this was a dry run.")


def _client(wanted: Declared, token_file: Path | None, tenant: str | None) -> RestClient:
    """Of the tenant's key; with `tenant` of an operator. Raises `click.UsageError`, `InvalidRequest`."""
    if tenant is None:
        if token_file is not None:
            raise click.UsageError("--token-file is for limits of a tenant: name it with --tenant.")
        return rest_client()
    if wanted.quotas is None or wanted != Declared(quotas=wanted.quotas):
        raise InvalidRequest(
            "--tenant: an operator sets quotas and nothing else of a tenant; keep them in a file of their own"
        )
    chosen = settings()
    return RestClient(chosen.api_url, operator_token(token_file), chosen.ca_file, tenant=tenant)


def _read(stream: BinaryIO) -> Declared:
    return declared_of(stream.read(FILE_BYTES_MAX + 1), getattr(stream, "name", "file"))


def _present(rest: RestClient, wanted: Declared, timeout: float) -> Present:
    """What the tenant has of the kinds that the file needs: lists only, however many objects there are."""

    def listed(path: str) -> tuple[Any, ...]:
        return tuple(rest.items(path, LIST_ALL, timeout_s=timeout))

    named = [acl.principal for acl in wanted.acls or ()]
    named += [one for members in (wanted.principal_groups or {}).values() for one in members]
    lists_principals = wanted.acls is not None or wanted.principal_groups is not None
    has_people = any(one.startswith("person:") for one in named)
    has_keys = wanted.keys is not None
    has_limits = wanted.account_limits is not None
    names_accounts = has_keys or has_limits or wanted.budgets is not None
    needs_accounts = wanted.service_accounts is not None or lists_principals or names_accounts
    now = datetime.now(UTC)
    topics = listed("/v1/topics") if wanted.topics is not None else ()
    return Present(
        service_accounts=listed("/v1/service-accounts") if needs_accounts else (),
        people=listed("/v1/people") if has_people else (),
        principal_groups=listed("/v1/principal-groups") if lists_principals else (),
        topics=topics,
        foreseen_settings=_foreseen_settings(rest, wanted, {row["name"] for row in topics}, timeout),
        acls=listed("/v1/acls") if wanted.acls is not None else (),
        quotas=rest.get("/v1/quotas", timeout_s=timeout) if wanted.quotas is not None else None,
        keys=tuple(one for one in listed("/v1/keys") if _is_valid(one, now)) if has_keys else (),
        own_key="" if wanted.quotas is not None and wanted == Declared(quotas=wanted.quotas) else own_key(),
        webhooks=listed("/v1/webhooks") if wanted.webhooks is not None else (),
        budgets=listed("/v1/budgets") if wanted.budgets is not None else (),
        account_limits=listed("/v1/service-account-limits") if has_limits else (),
        each_account=rest.get(limits_path(None), timeout_s=timeout) if has_limits else None,
        **({"default": rest.get("/v1/access", timeout_s=timeout)["default"]} if wanted.default else {}),
    )


def _foreseen_settings(
    rest: RestClient, wanted: Declared, there: Set[str], timeout: float
) -> dict[str, Mapping[str, Any]]:
    """All settings of topics of which the file names one as null, as a change would leave them. Raises what the service
    says of a change that cannot be.
    """
    foreseen: dict[str, Mapping[str, Any]] = {}
    for topic in wanted.topics or ():
        if topic.name not in there or None not in topic.settings.values():
            continue
        path = f"/v1/topics/{segment(topic.name)}?dry_run=true"
        answer = rest.patch(path, {"settings": dict(topic.settings)}, timeout_s=timeout)
        for change in answer["changes"]:
            for changed in change["fields"]:
                if changed["field"] == "settings":
                    foreseen[topic.name] = changed["after"]
    return foreseen


def _is_valid(key: dict[str, Any], now: datetime) -> bool:
    ends = key["expires_at"]
    return key["revoked_at"] is None and (ends is None or datetime.fromisoformat(ends) > now)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(each) for each in value) or "none"
    return "none" if value is None else str(value)


def _show(changes: Sequence[Change], *, beside_keys: bool = False) -> None:
    """Where the output is for keys, people read it on the other stream."""
    if not changes:
        say("Nothing differs.")
    for one in changes:
        click.echo(line(f"{one.sign} {one.kind} {one.name}"), err=beside_keys)
        for name, before, after in one.fields:
            click.echo(line(f"    {name}: {_shown(before)} → {_shown(after)}"), err=beside_keys)


def _document(change: Change) -> dict[str, Any]:
    fields = [{"field": name, "before": before, "after": after} for name, before, after in change.fields]
    return {"sign": str(change.sign), "kind": str(change.kind), "name": change.name, "fields": fields}


def _question(changes: Sequence[Change]) -> str:
    text = f"{len(changes)} changes."
    removed = {one.kind for one in changes if one.sign is Sign.REMOVE}
    if Kind.SERVICE_ACCOUNT in removed:
        text += " All keys of a removed service account are refused for good."
    if Kind.KEY in removed:
        text += " A revoked key is refused for good, on open connections too."
    if Kind.WEBHOOK in removed:
        text += " A removed webhook gets nothing more, also not what waits for it."
    if Kind.BUDGET in removed:
        text += " What a removed budget stopped goes on, and what it counted is forgotten."
    if Kind.TOPIC in removed:
        text += " A removed topic goes into the recycle bin; where the plan has none, its messages are gone for good."
    if any(name == "partitions" for one in changes for name, _, _ in one.fields):
        text += " With more partitions keys may move to another one."
    return f"{text} Go on?"
