"""`penstock topic durability`: up to where the copies of a topic were read back from the disks, and when."""

from typing import Any

import click

from penstock.cli.connection import connect
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_table
from penstock.cli.waits import SECONDS
from penstock.client.record_safety import PartitionDurability
from penstock.rules.timestamps import moment_of

_TIMEOUT_S = 10.0


@click.command(
    "durability",
    cls=Command,
    examples=["penstock topic durability orders", "penstock topic durability orders --json"],
)
@click.argument("name")
@click.option(
    "--timeout", type=SECONDS, default=_TIMEOUT_S, show_default=True, help="Seconds to wait for an answer."
)
def topic_durability(name: str, timeout: float) -> None:
    """Show up to where a topic's copies were read back from the disks, and when."""
    with connect() as client:
        partitions = [_shown(partition) for partition in client.durability(name, timeout=timeout)]
    if current().json:
        print_json({"topic": name, "partitions": partitions})
        return
    print_table(
        ["partition", "first offset", "verified to offset", "copies", "checked since", "next offset"],
        [["nothing yet" if value is None else value for value in row.values()] for row in partitions],
    )
    click.echo("Full segments are read back within two weeks; what is behind the last of them waits.")


def _shown(found: PartitionDurability) -> dict[str, Any]:
    checked = None
    if found.verified_ms is not None:
        checked = moment_of(found.verified_ms).isoformat(timespec="seconds")
    return {
        "partition": found.partition,
        "first_offset": found.log_start_offset,
        "verified_to_offset": found.verified_end_offset,
        "verified_copies": found.replicas,
        "verified_at": checked,
        "next_offset": found.high_watermark,
    }
