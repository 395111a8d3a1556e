"""`penstock usage`: what the tenant used, by topic and day, billed or provisional."""

from datetime import date, datetime
from typing import Any

import click

from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_table
from penstock.cli.rest import rest_client
from penstock.contract.limits import PAGE_ITEMS_MAX

_GROUPS = ("topic", "day")
_DAY = click.DateTime(formats=["%Y-%m-%d"])


@click.command(
    "usage",
    short_help="Messages and bytes by topic and day.",
    cls=Command,
    examples=["penstock usage", "penstock usage --by day --from 2026-01-01 --to 2026-02-01"],
)
@click.option(
    "--by",
    "by",
    default="topic,day",
    show_default=True,
    metavar="GROUPS",
    help="topic, day, both with a comma, or total.",
)
@click.option("--from", "first", type=_DAY, help="First day (UTC).")
@click.option("--to", "end", type=_DAY, help="Day after the last (UTC).")
@click.option("--timeout", type=float, default=15.0, show_default=True, help="Seconds to wait for an answer.")
def usage(by: str, first: datetime | None, end: datetime | None, timeout: float) -> None:
    """Show messages and bytes produced and delivered. What is shown is what is billed."""
    groups = [] if by == "total" else [name for name in by.split(",") if name]
    if any(name not in _GROUPS for name in groups) or len(set(groups)) != len(groups):
        raise click.BadParameter(f"{by!r} is none of: topic, day, topic,day, total", param_hint="--by")
    query: dict[str, object] = {
        "limit": PAGE_ITEMS_MAX,
        "by": ",".join(groups) or None,
        "from": _text(first),
        "to": _text(end),
    }
    with rest_client() as rest:
        items = list(rest.items("/v1/usage", query, timeout_s=timeout))
    if current().json:
        print_json({"usage": items})
        return
    rows = [
        [
            *(item[name] for name in groups),
            *(_quantity(item, meter) for meter in ("messages_in", "bytes_in", "messages_out", "bytes_out")),
            _state(item),
        ]
        for item in items
    ]
    print_table(
        [*groups, "messages in", "bytes in", "messages out", "bytes out", "billed"],
        rows,
        empty="No usage in this time yet. What was sent shows within about a minute.",
    )


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else date(moment.year, moment.month, moment.day).isoformat()


def _quantity(item: dict[str, Any], meter: str) -> int:
    return int(item["meters"].get(meter, {}).get("quantity", 0))


def _state(item: dict[str, Any]) -> str:
    """Whether the produced usage stands on issued invoices."""
    produced = [item["meters"].get(meter, {}) for meter in ("messages_in", "bytes_in")]
    provisional = any(meter.get("provisional", 0) for meter in produced)
    billed = any(meter.get("billed", 0) for meter in produced)
    if provisional:
        return "in part" if billed else "provisional"
    return "billed" if billed else "-"
