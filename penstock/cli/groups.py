"""`penstock group list`, `describe`, `reset` and `delete`: who reads what, how far behind, and where to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from penstock.cli import display
from penstock.cli.confirmation import ask, must_agree
from penstock.cli.connection import connect
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_fact, print_json, print_part, print_table, say
from penstock.cli.positions import AtOffset, AtTime, Beginning, End, Position, parse_position, wall_ms
from penstock.cli.rest import why_none
from penstock.cli.waits import SECONDS
from penstock.contract.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from penstock import Client, GroupDescription
    from penstock.contract.ids import NamedPartition

_TIMEOUT_S = 10.0
_NONE_YET = "No groups yet. The first consumer of a group makes it: penstock consume orders --group billing"
_timeout = click.option(
    "--timeout", type=SECONDS, default=_TIMEOUT_S, show_default=True, help="Seconds to wait for an answer."
)


@click.group(name="group", cls=Group, path=("group",))
def group() -> None:
    """Consumer groups: list, describe, reset, delete."""


@group.command("list", examples=["penstock group list"])
@_timeout
def group_list(timeout: float) -> None:
    """List the consumer groups that the key may see."""
    with connect() as client:
        found = client.groups(timeout=timeout)
    rows = [
        {"group": g.group, "state": g.state, "members": g.members, "assignor": g.assignor, "epoch": g.epoch}
        for g in found
    ]
    if current().json:
        print_json({"groups": rows})
        return
    print_table(
        ["group", "state", "members", "assignor", "epoch"],
        [list(row.values()) for row in rows],
        empty=_NONE_YET if rows else why_none("groups", _NONE_YET, timeout),
    )


@group.command(
    "describe",
    short_help="Show a group's members, committed offsets and lag.",
    examples=["penstock group describe billing"],
)
@click.argument("name")
@_timeout
def group_describe(name: str, timeout: float) -> None:
    """Show a group's members, committed offsets, and how many messages each partition lags: those that are still
    there and not read."""
    with connect() as client:
        described = client.group(name, timeout=timeout)
        kept = _kept(client, sorted(described.offsets), timeout)
    partitions = _partitions(described, kept)
    members = [
        {
            "member": member.member_id,
            "instance": member.instance_id,
            "host": member.client_host,
            "epoch": member.epoch,
            "partitions": [_label(tp) for tp in member.assigned],
            "target": [_label(tp) for tp in member.target],
        }
        for member in described.members
    ]
    if current().json:
        print_json(
            {
                "group": described.group,
                "state": described.state,
                "assignor": described.assignor,
                "epoch": described.epoch,
                "lag": sum(row["lag"] or 0 for row in partitions),
                "members": members,
                "partitions": partitions,
            }
        )
        return
    lag = sum(row["lag"] or 0 for row in partitions)
    print_fact(
        "group",
        [described.group, described.state, described.epoch, described.assignor, lag],
        f"{display.line(described.group)}  {described.state}, epoch {described.epoch}, "
        f"assigns by {described.assignor}, lag {lag:,}",
    )
    if members:
        print_part("member", list(members[0]), [_cells(row) for row in members])
    if partitions:
        print_part("partition", list(partitions[0]), [_cells(row) for row in partitions])


@group.command(
    "reset",
    short_help="Move the committed offsets of a group.",
    examples=[
        "penstock group reset billing --to earliest --dry-run",
        "penstock group reset billing --topic orders --to -2h --yes",
    ],
)
@click.argument("name")
@click.option(
    "--to",
    "target",
    required=True,
    metavar="WHERE",
    help="earliest, latest, an offset, a time (2026-01-31T12:00:00Z) or a time ago (-15m).",
)
@click.option("--topic", "topics", multiple=True, help="Only this topic; repeatable. Needed for a new one.")
@click.option(
    "--partition",
    "numbers",
    type=int,
    multiple=True,
    help="Only this partition (of one --topic); repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_timeout
def group_reset(
    name: str,
    target: str,
    topics: tuple[str, ...],
    numbers: tuple[int, ...],
    dry_run: bool,
    yes: bool,
    timeout: float,
) -> None:
    """Move the committed offsets of a group without members; shows first what would change."""
    if numbers and len(topics) != 1:
        raise click.UsageError("--partition goes with exactly one --topic.")
    position = _target(target)
    with connect() as client:
        described = client.group(name, timeout=timeout)
        places = _wanted(client, described, topics, numbers, timeout)
        offsets = _offsets_at(client, places, position, timeout)
        rows = [
            {
                "topic": tp[0],
                "partition": tp[1],
                "committed": described.offsets.get(tp),
                "new": offset,
                "change": None if tp not in described.offsets else offset - described.offsets[tp],
            }
            for tp, offset in sorted(offsets.items())
        ]
        if not current().json:
            print_table(["topic", "partition", "committed", "new", "change"], [_cells(row) for row in rows])
        done = not dry_run and (yes or _asked(name, len(rows)))
        if done:
            client.reset_group(name, offsets, timeout=timeout)
    if current().json:
        print_json({"group": name, "applied": done, "partitions": rows})
    elif done:
        say(f"{name}: {len(rows)} offsets moved")
    else:
        say(f"{name}: nothing was changed")


@group.command("delete", examples=["penstock group delete billing", "penstock group delete billing --yes"])
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_timeout
def group_delete(name: str, yes: bool, timeout: float) -> None:
    """Forget a group without members, and its offsets."""
    if not yes:
        must_agree(f"Forget group {name} and all it has committed?")
    with connect() as client:
        client.delete_group(name, timeout=timeout)
    if current().json:
        print_json({"group": name, "deleted": True})
    else:
        say(f"{name}: deleted")


def _asked(name: str, count: int) -> bool:
    return ask(f"Move {count} offsets of group {name}?", instead="--yes or --dry-run")


def _target(text: str) -> Position:
    if text == "earliest":
        return Beginning()
    if text == "latest":
        return End()
    try:
        return parse_position(text, wall_ms())
    except ValueError as error:
        raise click.UsageError(f"--to: {error}") from None


def _wanted(
    client: Client,
    described: GroupDescription,
    topics: Sequence[str],
    numbers: Sequence[int],
    timeout: float,
) -> list[NamedPartition]:
    """The partitions meant: of the topics named, else those the group has committed."""
    if not topics:
        if not described.offsets:
            raise NotFound(f"group {described.group}: has committed nothing; name a --topic")
        return sorted(described.offsets)
    places: list[NamedPartition] = []
    for topic in topics:
        count = len(client.topic(topic, timeout=timeout).partitions)
        beyond = [number for number in numbers if not 0 <= number < count]
        if beyond:
            raise NotFound(f"{topic}: no partition {beyond[0]}; it has {count}, 0 to {count - 1}")
        places += [(topic, number) for number in sorted(set(numbers)) or range(count)]
    return places


def _offsets_at(
    client: Client, places: Sequence[NamedPartition], position: Position, timeout: float
) -> dict[NamedPartition, int]:
    with client.consumer() as consumer:
        consumer.assign(places)
        first = consumer.beginning_offsets(timeout=timeout)
        following = consumer.end_offsets(timeout=timeout)
        match position:
            case Beginning():
                return first
            case End():
                return following
            case AtTime(timestamp_ms):
                for topic in sorted({topic for topic, _ in places}):
                    consumer.seek(topic, timestamp_ms=timestamp_ms, timeout=timeout)
                return {tp: consumer.position(*tp, timeout=timeout) for tp in places}
            case AtOffset(offset):
                for (topic, number), end in sorted(following.items()):
                    if not first[topic, number] <= offset <= end:
                        raise InvalidRequest(
                            f"{topic}-{number}: holds {first[topic, number]} to {end}, and {offset} is not in it"
                        )
                return dict.fromkeys(places, offset)


class _Kept(NamedTuple):
    """Offsets of a log: of its first message that is still there, and of its next one."""

    begin: int
    end: int


def _kept(client: Client, places: Sequence[NamedPartition], timeout: float) -> dict[NamedPartition, _Kept]:
    if not places:
        return {}
    with client.consumer() as consumer:
        consumer.assign(places)
        first, following = consumer.beginning_offsets(timeout), consumer.end_offsets(timeout)
    return {tp: _Kept(first[tp], following[tp]) for tp in places}


def _partitions(described: GroupDescription, kept: Mapping[NamedPartition, _Kept]) -> list[dict[str, Any]]:
    owners = {tp: member.member_id for member in described.members for tp in member.assigned}
    rows: list[dict[str, Any]] = []
    for tp in sorted({*described.offsets, *owners}):
        committed, log = described.offsets.get(tp), kept.get(tp)
        lag = None if committed is None or log is None else max(0, log.end - max(committed, log.begin))
        rows.append(
            {
                "topic": tp[0],
                "partition": tp[1],
                "committed": committed,
                "end": None if log is None else log.end,
                "lag": lag,
                "member": owners.get(tp),
            }
        )
    return rows


def _label(tp: NamedPartition) -> str:
    return f"{tp[0]}-{tp[1]}"


def _cells(row: Mapping[str, Any]) -> list[Any]:
    return [_shown(value) for value in row.values()]


def _shown(value: Any) -> Any:
    if value is None:
        return "-"
    return ", ".join(value) if isinstance(value, list) else value
