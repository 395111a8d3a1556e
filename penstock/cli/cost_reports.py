"""`penstock cost show`, `tags` and `tag`: whose costs are whose, by day, topic, principal, group, meter or tag."""

import sys
from typing import Any

import click

from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Command, current
from penstock.cli.invoice import money
from penstock.cli.output import print_json, print_table, say
from penstock.cli.rest import rest_client
from penstock.cli.waits import SECONDS
from penstock.contract.errors import InvalidRequest
from penstock.contract.limits import PAGE_ITEMS_MAX
from penstock.rest.client import segment
from penstock.rules.cost_rows import as_csv, dimensions

_ADDRESS = "/v1/costs"
_timeout = click.option(
    "--timeout", type=SECONDS, default=60.0, show_default=True, help="Seconds to wait for an answer."
)
_NONE = {
    "principal": "(no principal)", "topic": "(no topic)", "group": "(no group)", "meter": "(no meter)",
    "partition": "(not known yet)",
}  # fmt: skip
_UNTAGGED = "(untagged)"


@click.command(
    "show",
    cls=Command,
    short_help="Usage and cost by day, topic, principal, group, meter or tag.",
    examples=[
        "penstock cost show",
        "penstock cost show --by topic --month 2026-11 --against 2026-10",
        "penstock cost show --by day,meter --from 2026-11-01 --to 2026-11-08",
        "penstock cost show --by partition --topic orders",
        "penstock cost show --by tag:team --csv",
    ],
)
@click.option(
    "--by",
    default="topic",
    show_default=True,
    metavar="GROUPS",
    help="One or two of day, month, topic, partition (with --topic), principal, group, meter, tag:KEY, with a comma;"
    " or total.",
)
@click.option("--month", help="A UTC month, as 2026-11; without it and --from: the running month.")
@click.option("--from", "first", help="First day (UTC), as 2026-11-01.")
@click.option("--to", "end", help="Day after the last (UTC).")
@click.option("--against", help="A month to compare with, as 2026-10.")
@click.option("--topic", help="Only this topic.")
@click.option("--partition", help="Only this partition of --topic.")
@click.option("--principal", help="Only this one, as access lists name it.")
@click.option("--group", help="Only this consumer group.")
@click.option("--meter", help="Only this meter, as bytes_in.")
@click.option("--tag", help="Only what has this tag, as team:payments; team: is what has none.")
@click.option("--currency", help="As USD; needed where invoices of the time have several.")
@click.option("--csv", "as_file", is_flag=True, help="As CSV, amounts in millionths.")
@_timeout
def cost_show(
    by: str, timeout: float, as_file: bool, first: str | None, end: str | None, **named: str | None
) -> None:
    """Show what was used and what it costs. Rows add up to the invoices, and to what the running period costs so far.

    What is on no issued invoice yet is provisional: it can still change.
    """
    groups = [] if by == "total" else [name for name in by.split(",") if name]
    asked: dict[str, object] = {"by": ",".join(groups) or None, "from": first, "to": end, **named}
    with rest_client() as rest:
        found = rest.get(_ADDRESS, {**asked, "limit": PAGE_ITEMS_MAX}, timeout_s=timeout)
        rows, after = list(found["items"]), found["next"]
        while after is not None:
            page = rest.get(_ADDRESS, {**asked, "limit": PAGE_ITEMS_MAX, "cursor": after}, timeout_s=timeout)
            rows += page["items"]
            after = page["next"]
    if as_file:
        for line in as_csv(groups, found["currency"], rows):
            sys.stdout.write(line)
        return
    if current().json:
        print_json({**{name: value for name, value in found.items() if name != "next"}, "items": rows})
        return
    shown = dimensions(groups)
    if not any(name in ("day", "month") for name, _ in shown):
        rows.sort(key=lambda row: (-row["cost_micro"], *(str(row[member]).rjust(10) for _, member in shown)))
    compared = named["against"] is not None
    table: list[list[object]] = [
        [*(_value(name, row[member]) for name, member in shown), *_cells(found, row, compared)]
        for row in rows
    ]
    if shown:
        total: list[object] = ["total", *[""] * (len(shown) - 1)]
        table.append([*total, *_cells(found, found["total"], compared)])
    print_table(
        [
            *(name for name, _ in shown),
            *("messages in", "by use", "beside use", "cost", "provisional"),
            *(("before", "change") if compared else ()),
        ],
        table,
        f"{found['from']} to {found['to']} (not included)",
    )
    if found["provisional"]:
        say("A part is provisional: it is on no issued invoice and can still change.")


def _value(name: str, value: object) -> object:
    if value is None or value == "":
        return _UNTAGGED if name.startswith("tag:") else _NONE.get(name, "-")
    return value


def _cells(found: dict[str, Any], row: dict[str, Any], compared: bool) -> list[object]:
    cells: list[object] = [row["meters"].get("messages_in", 0)]
    cells += [money(found, row[f"{name}_micro"]) for name in ("usage", "charges", "cost", "provisional")]
    if compared:
        cells += [money(found, row["before"]["cost_micro"]), money(found, row["difference_micro"])]
    return cells


@click.command(
    "tags", cls=Command, examples=["penstock cost tags"], short_help="Tags of topics and principals."
)
@_timeout
def cost_tags(timeout: float) -> None:
    """List the tags by which costs can be summed up."""
    with rest_client() as rest:
        found = list(rest.items("/v1/cost-tags", {"limit": PAGE_ITEMS_MAX}, timeout_s=timeout))
    if current().json:
        print_json({"tags": found})
        return
    found.sort(key=lambda one: (one["kind"], one["name"], one["key"]))
    print_table(
        ["kind", "name", "tag", "value"],
        [[one["kind"], one["name"], one["key"], one["value"]] for one in found],
        empty="No topic or principal has a tag: `penstock cost tag topic:orders team=payments` gives one.",
    )


@click.command(
    "tag",
    cls=ChangingCommand,
    short_help="Set the tags of a topic or principal.",
    examples=[
        "penstock cost tag topic:orders team=payments stage=production",
        "penstock cost tag principal:service_account:sa_4fZ8 team=web --dry-run",
        "penstock cost tag topic:orders",
    ],
)
@click.argument("of", metavar="KIND:NAME")
@click.argument("tags", nargs=-1, metavar="[KEY=VALUE]...")
@_timeout
def cost_tag(of: str, tags: tuple[str, ...], timeout: float) -> None:
    """Set all tags of a topic (topic:NAME) or of a principal (principal:NAME, as access lists name it).

    Without a tag it has none any more. They count for all of its usage, of earlier months too.
    """
    kind, colon, name = of.partition(":")
    if not colon or not name:
        raise click.BadParameter(f"{of!r} is not like topic:orders", param_hint="KIND:NAME")
    wanted: dict[str, str] = {}
    for text in tags:
        key, equals, value = text.partition("=")
        if not equals or key in wanted:
            raise InvalidRequest(
                f"tags: {text[:80]!r} is not like team=payments, or its key stands there twice"
            )
        wanted[key] = value
    with rest_client() as rest:
        answer = rest.put(
            f"/v1/cost-tags/{segment(kind)}/{segment(name)}", {"tags": wanted}, timeout_s=timeout
        )
    if current().json:
        print_json(answer)
        return
    shown = ", ".join(f"{key}={value}" for key, value in sorted(answer["tags"].items())) or "no tags"
    say(f"{of} has {shown}.")
