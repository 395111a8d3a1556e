"""`penstock topic hot-keys`: keys that are a large part of a partition's messages, over REST."""

from contextlib import closing
from typing import Any

import click

from penstock.cli import display
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_table, say
from penstock.cli.rest import rest_client
from penstock.cli.topic_changes import timeout_option
from penstock.rest.client import segment


@click.command(
    "hot-keys",
    cls=Command,
    examples=["penstock topic hot-keys orders", "penstock topic hot-keys orders --json"],
)
@click.argument("name")
@timeout_option
def topic_hot_keys(name: str, timeout: float) -> None:
    """Show keys that are a large part of a topic's messages.

    Producers sample the keys that they send and report them, within a minute or so. It needs a key that may consume
    the topic.
    """
    with closing(rest_client()) as rest:
        found = rest.get(f"/v1/topics/{segment(name)}/hot-keys", timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    print_table(
        ["partition", "share", "key", "bytes", "encoding"],
        [
            [part["partition"], f"{one['share_percent']} %", _shown(one), one["size"], one["encoding"]]
            for part in found["partitions"]
            for one in part["keys"]
        ],
        empty="No producer has reported a hot key within the last two minutes.",
    )
    if found["silent_brokers"]:
        silent = ", ".join(str(broker) for broker in found["silent_brokers"])
        say(f"Brokers that do not say it, so that their partitions are missing: {silent}.")


def _shown(key: dict[str, Any]) -> str:
    return display.line(str(key["key"])) + ("…" if key["cut"] else "")
