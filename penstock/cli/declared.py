"""`penstock diff` and `penstock apply`: a declarative file against what the tenant has; over REST."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, BinaryIO

import click

from penstock.admin.declared import Change, Kind, Present, Sign, difference, ids_of
from penstock.admin.declared_file import FILE_BYTES_MAX, Declared, DeclaredAcl, declared_of
from penstock.cli import failures
from penstock.cli.confirmation import must_agree
from penstock.cli.display import line
from penstock.cli.invocation import Command, current
from penstock.cli.output import Bar, print_json, progress, say
from penstock.cli.rest import rest_client
from penstock.cli.topic_changes import timeout_option
from penstock.contract import limits
from penstock.contract.errors import PenstockError
from penstock.rest.client import RestClient, segment
from penstock.rest.problems import problem_error

DIFFERENT = 2
"""What `penstock diff` ends with where something differs; 1 is an error of any kind."""

_ALL = {"limit": limits.PAGE_ITEMS_MAX}


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
    help="Remove what the file does not name, of the kinds that it has; topics excepted.",
)
_prune_topics = click.option(
    "--prune-topics", is_flag=True, help="Delete topics that the file does not name, with their messages."
)


@click.command(
    "diff", cls=DiffCommand, examples=["penstock diff -f team.yaml", "penstock diff -f team.yaml --prune"]
)
@_file
@_prune
@_prune_topics
@timeout_option
def diff(stream: BinaryIO, prune: bool, prune_topics: bool, timeout: float) -> None:
    """Show what `penstock apply` would change. Exit codes: 0 nothing, 2 something, 1 an error."""
    wanted = _read(stream)
    with closing(rest_client()) as rest, progress("Reading"):
        changes = difference(wanted, _present(rest, wanted, timeout), prune=prune, prune_topics=prune_topics)
    if current().json:
        print_json({"changes": [_document(one) for one in changes]})
    else:
        _show(changes)
    if changes:
        raise click.exceptions.Exit(DIFFERENT)


@click.command(
    "apply",
    cls=Command,
    examples=["penstock apply -f team.yaml", "penstock apply -f team.yaml --prune --yes"],
)
@_file
@_prune
@_prune_topics
@click.option("--yes", is_flag=True, help="Do not ask.")
@timeout_option
def apply(stream: BinaryIO, prune: bool, prune_topics: bool, yes: bool, timeout: float) -> None:
    """Make the tenant as a file says. It shows the changes and asks before, and needs --yes where there is no terminal.

    After a failure the changes before it stay; the same command goes on with the rest.
    """
    wanted = _read(stream)
    with closing(rest_client()) as rest:
        with progress("Reading"):
            present = _present(rest, wanted, timeout)
            changes = difference(wanted, present, prune=prune, prune_topics=prune_topics)
        if not current().json:
            _show(changes)
        if changes and not yes:
            must_agree(_question(changes))
        work = _Work(rest, ids_of(present), timeout)
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


def _read(stream: BinaryIO) -> Declared:
    return declared_of(stream.read(FILE_BYTES_MAX + 1), getattr(stream, "name", "file"))


def _present(rest: RestClient, wanted: Declared, timeout: float) -> Present:
    """What the tenant has of the kinds that the file needs: lists only, however many objects there are."""

    def listed(path: str) -> tuple[Any, ...]:
        return tuple(rest.items(path, _ALL, timeout_s=timeout))

    named = [acl.principal for acl in wanted.acls or ()]
    named += [one for members in (wanted.principal_groups or {}).values() for one in members]
    lists_principals = wanted.acls is not None or wanted.principal_groups is not None
    has_people = any(one.startswith("person:") for one in named)
    needs_accounts = wanted.service_accounts is not None or lists_principals
    return Present(
        service_accounts=listed("/v1/service-accounts") if needs_accounts else (),
        people=listed("/v1/people") if has_people else (),
        principal_groups=listed("/v1/principal-groups") if lists_principals else (),
        topics=listed("/v1/topics") if wanted.topics is not None else (),
        acls=listed("/v1/acls") if wanted.acls is not None else (),
        **({"default": rest.get("/v1/access", timeout_s=timeout)["default"]} if wanted.default else {}),
    )


def _shown(value: Any) -> str:
    return "none" if value is None else ", ".join(value) or "none" if isinstance(value, list) else str(value)


def _show(changes: Sequence[Change]) -> None:
    if not changes:
        say("Nothing differs.")
    for one in changes:
        click.echo(line(f"{one.sign} {one.kind} {one.name}"))
        for name, before, after in one.fields:
            click.echo(line(f"    {name}: {_shown(before)} → {_shown(after)}"))


def _document(change: Change) -> dict[str, Any]:
    fields = [{"field": name, "before": before, "after": after} for name, before, after in change.fields]
    return {"sign": str(change.sign), "kind": str(change.kind), "name": change.name, "fields": fields}


def _question(changes: Sequence[Change]) -> str:
    text = f"{len(changes)} changes."
    removed = {one.kind for one in changes if one.sign is Sign.REMOVE}
    if Kind.SERVICE_ACCOUNT in removed:
        text += " All keys of a removed service account are refused for good."
    if Kind.TOPIC in removed:
        text += " A removed topic goes into the recycle bin; where the plan has none, its messages are gone for good."
    if any(name == "partitions" for one in changes for name, _, _ in one.fields):
        text += " With more partitions keys may move to another one."
    return f"{text} Go on?"


class _Work:
    """Applies changes in their order. `done` are those that the service confirmed."""

    def __init__(self, rest: RestClient, ids: dict[str, str], timeout: float) -> None:
        self.done: list[Change] = []
        self._rest, self._ids, self._timeout = rest, ids, timeout

    def run(self, changes: Sequence[Change], bar: Bar) -> None:
        """Raises what the service answers first."""
        new_groups = [one for one in changes if one.kind is Kind.PRINCIPAL_GROUP and one.sign is Sign.ADD]
        cleared = False
        waiting: list[Change] = []
        for change in changes:
            if change.kind is Kind.TOPIC and change.sign is Sign.ADD:
                waiting.append(change)
                continue
            self._make_topics(waiting, bar)
            waiting = []
            if change in new_groups:
                self._make_groups(new_groups)
                self.done += new_groups
                new_groups = []
            elif change.kind is Kind.PRINCIPAL_GROUP and change.sign is Sign.ADD:
                continue
            else:
                if change.kind is Kind.PRINCIPAL_GROUP and change.sign is Sign.REMOVE and not cleared:
                    self._clear_groups(changes)
                    cleared = True
                self._one(change)
                self.done.append(change)
            bar.to(len(self.done), change.name)
        self._make_topics(waiting, bar)

    def _call(self, send: Callable[..., Any], path: str, *body: Any) -> Any:
        return send(path, *body, timeout_s=self._timeout)

    def _members(self, names: Sequence[str]) -> list[str]:
        return [self._ids[name] for name in names]

    def _make_groups(self, groups: Sequence[Change]) -> None:
        """All of them empty, then their members: a group may hold another one that is new too."""
        for one in groups:
            made = self._call(self._rest.post, "/v1/principal-groups", {"name": one.name})
            self._ids[f"group:{one.name}"] = f"group:{made['id']}"
        for one in groups:
            if one.body:
                path = f"/v1/principal-groups/{segment(self._ids[f'group:{one.name}'].partition(':')[2])}"
                self._call(self._rest.patch, path, {"members": self._members(one.body)})

    def _clear_groups(self, changes: Sequence[Change]) -> None:
        """Groups that go may hold each other, and a group that is held cannot go."""
        for one in changes:
            if one.kind is Kind.PRINCIPAL_GROUP and one.sign is Sign.REMOVE and one.body:
                self._call(self._rest.patch, f"/v1/principal-groups/{segment(one.id)}", {"members": []})

    def _make_topics(self, topics: Sequence[Change], bar: Bar) -> None:
        for batch in _batches(topics):
            answer = self._call(self._rest.post, "/v1/topics:batch", {"topics": [one.body for one in batch]})
            refused: PenstockError | None = None
            for change, outcome in zip(batch, answer["topics"], strict=True):
                if outcome["problem"] is None:
                    self.done.append(change)
                elif refused is None:
                    problem = json.dumps(outcome["problem"]).encode()
                    refused = problem_error(outcome["status"], problem, f"topic {change.name}")
            bar.to(len(self.done), "topics")
            if refused is not None:
                raise refused

    def _one(self, change: Change) -> None:
        rest, where = self._rest, segment(change.id)
        if change.sign is Sign.REMOVE:
            path = {
                Kind.ACL: f"/v1/acls/{where}",
                Kind.PRINCIPAL_GROUP: f"/v1/principal-groups/{where}",
                Kind.SERVICE_ACCOUNT: f"/v1/service-accounts/{where}",
                Kind.TOPIC: f"/v1/topics/{segment(change.name)}",
            }[change.kind]
            self._call(rest.delete, path)
        elif change.kind is Kind.ACCESS:
            self._call(rest.patch, "/v1/access", {"default": change.body})
        elif change.kind is Kind.SERVICE_ACCOUNT:
            made = self._call(rest.post, "/v1/service-accounts", {"name": change.name})
            self._ids[f"service_account:{change.name}"] = f"service_account:{made['id']}"
        elif change.kind is Kind.PRINCIPAL_GROUP:
            self._call(rest.patch, f"/v1/principal-groups/{where}", {"members": self._members(change.body)})
        elif change.kind is Kind.TOPIC:
            self._call(rest.patch, f"/v1/topics/{segment(change.name)}", change.body)
        else:
            self._call(rest.post, "/v1/acls", self._acl(change.body))

    def _acl(self, acl: DeclaredAcl) -> dict[str, Any]:
        principal = "everyone" if acl.principal == "everyone" else self._ids[acl.principal]
        body: dict[str, Any] = {"effect": acl.effect, "principal": principal, "resource": acl.resource}
        if acl.resource != "tenant":
            body |= {"name": acl.name, "pattern": acl.pattern}
        if acl.operations:
            body["operations"] = list(acl.operations)
        if acl.addresses:
            body["addresses"] = list(acl.addresses)
        return body


def _batches(topics: Sequence[Change]) -> Iterator[list[Change]]:
    """As many topics as one request may make."""
    batch: list[Change] = []
    partitions = 0
    for one in topics:
        count = one.body["partitions"]
        if batch and (
            len(batch) == limits.TOPICS_PER_CALL_MAX or partitions + count > limits.PARTITIONS_PER_TOPIC_MAX
        ):
            yield batch
            batch, partitions = [], 0
        batch.append(one)
        partitions += count
    if batch:
        yield batch
