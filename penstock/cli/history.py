"""`penstock history …` and `penstock restore …`: what things were, and the way back to it; over REST."""

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import click

from penstock.cli.confirmation import must_agree
from penstock.cli.display import line
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.rest import rest_client
from penstock.cli.topic_changes import timeout_option
from penstock.rest.client import segment

_OF_WORDS = "acl"
"""A field that another one says in words."""

_limit = click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="At most so many."
)
_yes = click.option("--yes", is_flag=True, help="Do not ask.")
_dry_run = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
_leave_out = click.option(
    "--leave-out-gone", is_flag=True, help="Without what names a principal that is gone."
)
_name = click.option("--as", "name", help="Another name, for when its own is taken.")


# -- history --------------------------------------------------------------------------------------------


@click.group(name="history", cls=Group, path=("history",))
def history() -> None:
    """What was changed when and by whom: a topic's settings, the access list, groups, and what is gone."""


@history.command("topic", examples=["penstock history topic orders"])
@click.argument("topic")
@_limit
@timeout_option
def history_topic(topic: str, limit: int, timeout: float) -> None:
    """List the versions of a topic's settings, the newest first."""
    _show_versions(f"/v1/topics/{segment(topic)}/history", limit, timeout)


@history.command("access", examples=["penstock history access"])
@_limit
@timeout_option
def history_access(limit: int, timeout: float) -> None:
    """List the changes of the access list, the newest first."""
    _show_versions("/v1/access/history", limit, timeout)


@history.command(
    "group",
    short_help="List the versions of a group of principals, the newest first.",
    examples=["penstock history group grp_..."],
)
@click.argument("group", metavar="ID")
@_limit
@timeout_option
def history_group(group: str, limit: int, timeout: float) -> None:
    """List the versions of a group of principals, the newest first; of a removed group, too."""
    _show_versions(f"/v1/principal-groups/{segment(group)}/history", limit, timeout)


@history.command(
    "removed",
    short_help="List what was removed and can be restored, the last removed first.",
    examples=["penstock history removed"],
)
@_limit
@timeout_option
def history_removed(limit: int, timeout: float) -> None:
    """List removed entries, groups, service accounts and keys that can be restored, the last removed first.

    Removed topics are in the recycle bin: penstock topic bin.
    """
    with closing(rest_client()) as rest:
        found = list(islice(rest.items("/v1/bin/access", timeout_s=timeout), limit))
    if current().json:
        print_json({"removed": found})
        return
    print_table(
        ["kind", "id", "what", "removed", "by", "until"],
        [
            [one["kind"], one["id"], one["text"], one["removed_at"], one["actor_id"], one["until"]]
            for one in found
        ],
        empty="Nothing that was removed can be restored.",
    )


def _show_versions(path: str, limit: int, timeout: float) -> None:
    with closing(rest_client()) as rest:
        found = list(islice(rest.items(path, timeout_s=timeout), limit))
    if current().json:
        print_json({"versions": found})
        return
    print_table(
        ["version", "when", "by", "action", "what", "restorable until"],
        [
            [
                one["version"],
                one["at"],
                one["actor_id"],
                one["action"],
                "; ".join(_in_words(field) for field in one["fields"] if field["field"] != _OF_WORDS),
                one["restorable_until"] or "",
            ]
            for one in found
        ],
        empty="No changes.",
    )


def _in_words(field: dict[str, Any]) -> str:
    before, after = field["before"], field["after"]
    if before is None:
        return f"{field['field']}: {_value(after)}"
    return f"{field['field']}: {_value(before)} -> {'-' if after is None else _value(after)}"


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- restore --------------------------------------------------------------------------------------------


@click.group(name="restore", cls=Group, path=("restore",))
def restore() -> None:
    """Make a thing as it was. Each shows what would change and asks; `penstock history` has the versions."""


@restore.command(
    "topic",
    short_help="Give a topic the settings of an earlier version.",
    examples=["penstock restore topic orders --version 12"],
)
@click.argument("topic")
@click.option("--version", type=click.IntRange(min=1), required=True, help="As in penstock history topic.")
@_dry_run
@_yes
@timeout_option
def restore_topic(topic: str, version: int, dry_run: bool, yes: bool, timeout: float) -> None:
    """Give a topic the settings of an earlier version again. Messages and the number of partitions stay.

    A topic that was deleted is in the recycle bin: penstock topic restore.
    """
    _restore(
        f"/v1/topics/{segment(topic)}/restore",
        {"version": version},
        lambda answer: f"{answer['name']} has the settings of version {version}.",
        dry_run=dry_run,
        yes=yes,
        timeout=timeout,
    )


@restore.command(
    "access",
    short_help="Make the access list as it was.",
    examples=["penstock restore access --version 12", "penstock restore access --at 2027-01-31T12:00:00Z"],
)
@click.option("--version", type=click.IntRange(min=1), help="As in penstock history access.")
@click.option(
    "--at",
    type=click.DateTime(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"]),
    help="As it was then (UTC).",
)
@_leave_out
@_dry_run
@_yes
@timeout_option
def restore_access(
    version: int | None,
    at: datetime | None,
    leave_out_gone: bool,
    dry_run: bool,
    yes: bool,
    timeout: float,
) -> None:
    """Make the access list as it was: its entries and its default. Entries that have come since are removed.

    Groups of principals keep their members: penstock restore group.
    """
    if (version is None) == (at is None):
        raise click.UsageError("either --version or --at is required")
    body: dict[str, Any] = {"leave_out_gone": leave_out_gone}
    if at is not None:
        body["at"] = at.replace(tzinfo=UTC).isoformat()
    else:
        body["version"] = version
    _restore(
        "/v1/access/restore",
        body,
        lambda answer: (
            f"Restored; entries added: {len(answer['added'])}, removed: {len(answer['removed'])};"
            f" what no entry speaks of: {answer['default']}."
        ),
        dry_run=dry_run,
        yes=yes,
        timeout=timeout,
    )


@restore.command("entry", examples=["penstock restore entry acl_..."])
@click.argument("entry", metavar="ID")
@_dry_run
@_yes
@timeout_option
def restore_entry(entry: str, dry_run: bool, yes: bool, timeout: float) -> None:
    """Restore an entry that was removed from the access list."""
    _restore(
        f"/v1/acls/{segment(entry)}/restore",
        None,
        lambda answer: f"The access list has it: {answer['text']}.",
        dry_run=dry_run,
        yes=yes,
        timeout=timeout,
    )


@restore.command(
    "group",
    short_help="Restore a group of principals, or its members of an earlier version.",
    examples=["penstock restore group grp_...", "penstock restore group grp_... --version 12"],
)
@click.argument("group", metavar="ID")
@click.option("--version", type=click.IntRange(min=1), help="As in penstock history group.")
@_name
@_leave_out
@_dry_run
@_yes
@timeout_option
def restore_group(
    group: str,
    version: int | None,
    name: str | None,
    leave_out_gone: bool,
    dry_run: bool,
    yes: bool,
    timeout: float,
) -> None:
    """Restore a group of principals that was removed, with its members and its id, or the members of an earlier
    version.
    """
    body: dict[str, Any] = {"leave_out_gone": leave_out_gone}
    if version is not None:
        body["version"] = version
    if name is not None:
        body["name"] = name
    _restore(
        f"/v1/principal-groups/{segment(group)}/restore",
        body,
        lambda answer: f"{answer['name']}: {', '.join(answer['members']) or 'no members'}.",
        dry_run=dry_run,
        yes=yes,
        timeout=timeout,
    )


@restore.command("service-account", examples=["penstock restore service-account sa_..."])
@click.argument("account", metavar="ID")
@_name
@_dry_run
@_yes
@timeout_option
def restore_account(account: str, name: str | None, dry_run: bool, yes: bool, timeout: float) -> None:
    """Restore a service account, with the entries and groups that named it. Its keys stay revoked."""
    _restore(
        f"/v1/service-accounts/{segment(account)}/restore",
        {} if name is None else {"name": name},
        lambda answer: (
            f"{answer['name']} is there again; entries that came back: {len(answer['acls'])}, groups that hold it"
            f" again: {len(answer['groups'])}. Make a key: penstock restore key KEY, or"
            f" penstock key create --service-account {answer['id']}"
        ),
        dry_run=dry_run,
        yes=yes,
        timeout=timeout,
    )


@restore.command(
    "key",
    short_help="Make a key with the scopes of one that was revoked or has expired.",
    examples=["penstock restore key key_..."],
)
@click.argument("key", metavar="KEY")
@_dry_run
@_yes
@timeout_option
def restore_key(key: str, dry_run: bool, yes: bool, timeout: float) -> None:
    """Make a key with the name, scopes and principal of one that was revoked or has expired. It is shown once.

    The old key stays refused.
    """
    _restore(
        f"/v1/keys/{segment(key)}/restore",
        {},
        lambda answer: "Keep it now: it is stored nowhere and will not be shown again.",
        dry_run=dry_run,
        yes=yes,
        timeout=timeout,
    )


def _restore(
    path: str,
    body: dict[str, Any] | None,
    done: Callable[[dict[str, Any]], str],
    *,
    dry_run: bool,
    yes: bool,
    timeout: float,
) -> None:
    """Show what the change would be, ask, make it, and say what `done` makes of the answer."""
    with closing(rest_client()) as rest:
        if dry_run or not yes:
            shown = rest.post(f"{path}?dry_run=true", body, timeout_s=timeout)
            if dry_run and current().json:
                print_json(shown)
                return
            _show_changes(shown["changes"])
            if dry_run:
                return
            if not shown["changes"]:
                say("It is as it was already.")
                return
            must_agree("Restore?")
        with progress("Restoring"):
            answer = rest.post(path, body, timeout_s=timeout)
    if current().json:
        print_json(answer)
        return
    if "key" in answer:
        click.echo(answer["key"])
    say(line(done(answer)))
    for one in answer.get("left_out", ()):
        said = one if isinstance(one, str) else f"{one['principal']} {one['name']}".rstrip()
        say(line(f"Left out, because it is gone: {said}"))
    if not answer["delivered"]:
        say("The brokers do not have it yet; they get it as soon as they can be reached.")


def _show_changes(changes: list[dict[str, Any]]) -> None:
    rows = [
        [
            change["kind"],
            change["name"] or change["id"] or "",
            change["action"],
            "; ".join(_in_words(field) for field in change["fields"] if field["field"] != _OF_WORDS),
        ]
        for change in changes
    ]
    print_table(["kind", "which", "change", "what"], rows, empty="Nothing would change.")
