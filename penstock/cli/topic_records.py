"""`penstock topic delete-records`: the oldest messages of a topic go for good."""

import click

from penstock.cli.confirmation import must_agree
from penstock.cli.connection import connect
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_table, progress
from penstock.cli.waits import SECONDS
from penstock.client.record_safety import END

_TIMEOUT_S = 30.0


@click.command(
    "delete-records",
    cls=Command,
    examples=[
        "penstock topic delete-records orders --partition 0 --before-offset 1000",
        "penstock topic delete-records orders --all --yes",
    ],
)
@click.argument("name")
@click.option("--partition", type=int, help="Of this partition; of every one when it is not given.")
@click.option("--before-offset", type=click.IntRange(min=0), help="Messages with lower offsets go.")
@click.option("--all", "everything", is_flag=True, help="All messages that are committed now go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--timeout", type=SECONDS, default=_TIMEOUT_S, show_default=True, help="Seconds to wait until it is done."
)
def topic_delete_records(
    name: str, partition: int | None, before_offset: int | None, everything: bool, yes: bool, timeout: float
) -> None:
    """Delete the oldest messages of a topic. They are metered before, and gone on every in-sync copy after."""
    if (before_offset is None) != everything:
        raise click.UsageError("Say up to where: --before-offset N, or --all.")
    if before_offset is not None and partition is None:
        raise click.UsageError("Each partition has offsets of its own: --before-offset needs --partition.")
    before = END if before_offset is None else before_offset
    with connect() as client:
        numbers = (
            [partition]
            if partition is not None
            else [each.partition for each in client.topic(name, timeout=timeout).partitions]
        )
        if not yes:
            what = "All messages" if everything else f"The messages before offset {before_offset}"
            from_where = name if partition is None else f"{name}-{partition}"
            must_agree(f"{what} of {from_where} will be gone for good. Go on?")
        with progress(f"Deleting records of {name}"):
            starts = client.delete_records({(name, number): before for number in numbers}, timeout=timeout)
    if current().json:
        print_json(
            {
                "topic": name,
                "partitions": [
                    {"partition": number, "first_offset": start}
                    for (_, number), start in sorted(starts.items())
                ],
            }
        )
        return
    print_table(
        ["partition", "first offset"], [[number, start] for (_, number), start in sorted(starts.items())]
    )
