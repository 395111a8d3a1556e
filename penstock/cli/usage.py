"""`penstock usage`: what the tenant used or kept, by topic, time and principal, billed or provisional."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, time
from typing import Any

import click

from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_table
from penstock.cli.rest import rest_client
from penstock.cli.waits import SECONDS
from penstock.contract.limits import PAGE_ITEMS_MAX
from penstock.rules.meters import (
    BYTES_OTHER_ZONE,
    BYTES_OWN_ZONE,
    CONNECTIONS,
    GB_HOUR,
    HOUR_MINUTES,
    HOUR_MS,
    MESSAGES_OTHER_ZONE,
    MESSAGES_OWN_ZONE,
    PARTITIONS,
    REPLICATED,
    REQUESTS,
    RETAINED,
    SECOND_MS,
    THROTTLED,
    decimal_text,
)

_GROUPS = ("topic", "day", "hour", "minute", "principal")
_UNBILLED = frozenset({"hour", "minute", "principal"})
"""Groups of which it is not known what is on invoices."""
_Columns = Mapping[str, tuple[str, Callable[[int], object]]]
_TRAFFIC: _Columns = {
    "messages_in": ("messages in", int),
    "bytes_in": ("bytes in", int),
    "messages_out": ("messages out", int),
    "bytes_out": ("bytes out", int),
}
_PRODUCED = ("messages_in", "bytes_in")
_KEPT: _Columns = {
    RETAINED: ("stored GB-hours", lambda quantity: decimal_text(quantity, GB_HOUR)),
    REPLICATED: ("with all copies", lambda quantity: decimal_text(quantity, GB_HOUR)),
    PARTITIONS: ("partition hours", lambda quantity: decimal_text(quantity, HOUR_MINUTES)),
    REQUESTS: ("requests", int),
}
_ZONES: _Columns = {
    MESSAGES_OWN_ZONE: ("messages out in zone", int),
    BYTES_OWN_ZONE: ("bytes out in zone", int),
    MESSAGES_OTHER_ZONE: ("messages to other zones", int),
    BYTES_OTHER_ZONE: ("bytes to other zones", int),
}
_TIME: _Columns = {
    CONNECTIONS: ("connection hours", lambda quantity: decimal_text(quantity, HOUR_MS)),
    THROTTLED: ("delayed seconds", lambda quantity: decimal_text(quantity, SECOND_MS)),
}
_SHOWN: Mapping[str, _Columns] = {"": _TRAFFIC, "kept": _KEPT, "zones": _ZONES, "time": _TIME}
_TIME_FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%SZ")
_MOMENT = click.DateTime(formats=_TIME_FORMATS)


@click.command(
    "usage",
    short_help="Messages, bytes and storage by topic, time and key.",
    cls=Command,
    examples=[
        "penstock usage",
        "penstock usage --by day --from 2026-01-01 --to 2026-02-01",
        "penstock usage --by hour,topic --from 2026-01-31T08:00 --to 2026-01-31T18:00",
        "penstock usage --by principal --from 2026-01-01 --to 2026-02-01",
        "penstock usage --kept --by topic",
        "penstock usage --zones --by day",
        "penstock usage --time --by total",
    ],
)
@click.option(
    "--by",
    "by",
    default="topic,day",
    show_default=True,
    metavar="GROUPS",
    help="topic, day, hour, minute, principal, several with a comma, or total. Minutes are of the last three days, and"
    " go with topic alone.",
)
@click.option(
    "--kept",
    "shown",
    flag_value="kept",
    default="",
    help="Storage, partitions' time and requests instead of traffic.",
)
@click.option("--zones", "shown", flag_value="zones", help="What consumers got in its zone and in others.")
@click.option("--time", "shown", flag_value="time", help="Time of connections, and by which limits delayed.")
@click.option(
    "--from",
    "first",
    type=_MOMENT,
    metavar="TIME",
    help="First day (UTC); by hour and minute also 2026-01-31T08:00. By hour unless given: the day before --to, by"
    " minute the hour, by principal 31 days.",
)
@click.option(
    "--to", "end", type=_MOMENT, metavar="TIME", help="Day after the last (UTC), or a time as --from."
)
@click.option(
    "--timeout", type=SECONDS, default=15.0, show_default=True, help="Seconds to wait for an answer."
)
def usage(by: str, shown: str, first: datetime | None, end: datetime | None, timeout: float) -> None:
    """Show messages and bytes produced and delivered, or other usage. What is shown is what is billed.

    What a consumer gets is in its zone if it names the broker's zone or host.
    """
    groups = [] if by == "total" else [name for name in by.split(",") if name]
    if any(name not in _GROUPS for name in groups) or len(set(groups)) != len(groups):
        raise click.BadParameter(
            f"{by!r}: total, or some of {', '.join(_GROUPS)}, each once, required", param_hint="--by"
        )
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
    meters = _SHOWN[shown]
    has_state = _UNBILLED.isdisjoint(groups)
    rows = [
        [
            *(item.get(f"{name}_name") or item[name] or "-" for name in groups),
            *(text(_quantity(item, meter)) for meter, (_, text) in meters.items()),
            *([_state(item, meters if shown else _PRODUCED)] if has_state else []),
        ]
        for item in items
        if any(meter in item["meters"] for meter in meters)
    ]
    print_table(
        [*groups, *(heading for heading, _ in meters.values()), *(["billed"] if has_state else [])],
        rows,
        empty="No usage in this time yet. What was sent shows within about a minute.",
    )


def _text(moment: datetime | None) -> str | None:
    """A day as a day, and every other moment with its time."""
    if moment is None:
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}" if moment.time() != time.min else moment.date().isoformat()


def _quantity(item: dict[str, Any], meter: str) -> int:
    return int(item["meters"].get(meter, {}).get("quantity", 0))


def _state(item: dict[str, Any], meters: Iterable[str]) -> str:
    """Whether the usage stands on issued invoices. What has no price stays provisional."""
    found = [item["meters"].get(meter, {}) for meter in meters]
    provisional = any(meter.get("provisional", 0) for meter in found)
    billed = any(meter.get("billed", 0) for meter in found)
    if provisional:
        return "in part" if billed else "provisional"
    return "billed" if billed else "-"
