"""`penstock partition losses`, `elect` and `repair`: for operators, when messages cannot be had back."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.cluster import operator_client, token_option
from penstock.cli.confirmation import must_agree
from penstock.cli.display import line
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_json, print_table
from penstock.cli.waits import SECONDS
from penstock.rules.timestamps import moment_of

_LOSSES = "/v1/cluster/losses"
_timeout = click.option(
    "--timeout", type=SECONDS, default=30.0, show_default=True, help="Seconds to wait for an answer."
)
_yes = click.option("--yes", is_flag=True, help="Accept the loss without being asked.")
_dry_run = click.option("--dry-run", is_flag=True, help="Only show what would be lost.")


@click.group(name="partition", cls=Group, path=("partition",))
def partition() -> None:
    """For operators: partitions whose messages cannot be had back."""


@partition.command(
    "losses",
    short_help="List every loss that was ever declared.",
    examples=["penstock partition losses", "penstock partition losses --token-file operator.token"],
)
@token_option
@_timeout
def partition_losses(token_file: Path | None, timeout: float) -> None:
    """List every loss that was ever declared, with the log generation that began with it."""
    with operator_client(token_file) as rest:
        losses = list(rest.items(_LOSSES, timeout_s=timeout))
    if current().json:
        print_json({"losses": losses})
        return
    print_table(
        [
            "tenant",
            "partition",
            "topic id",
            "generation",
            "from offset",
            "known end",
            "leader",
            "declared",
            "by",
        ],
        [
            [
                loss["tenant"],
                f"{loss['topic']}-{loss['partition']}",
                loss["topic_id"],
                loss["log_generation"],
                loss["offset"],
                loss["known_end_offset"],
                loss["leader"],
                _moment(loss["declared_ms"]),
                loss["asked_by"] or "all copies were back",
            ]
            for loss in losses
        ],
        empty="No loss was ever declared.",
    )


@partition.command(
    "elect",
    short_help="Let a named replica lead, whatever is lost by it.",
    examples=[
        "penstock partition elect 0123456789abcdef0123456789abcdef 0 --broker 3 --dry-run",
        "penstock partition elect 0123456789abcdef0123456789abcdef 0 --broker 3 --yes",
    ],
)
@click.argument("topic_id")
@click.argument("number", metavar="PARTITION", type=click.IntRange(min=0))
@click.option("--broker", type=click.IntRange(min=0), required=True, help="Whose replica leads from now on.")
@_yes
@_dry_run
@token_option
@_timeout
def partition_elect(
    topic_id: str,
    number: int,
    broker: int,
    yes: bool,
    dry_run: bool,
    token_file: Path | None,
    timeout: float,
) -> None:
    """Force the election of a broker's replica when those that may lead without a loss never return.

    What it does not hold is lost for good, and a new log generation begins. Refused while the partition is led or
    another replica can be elected without a loss.
    """
    _declare({"topic_id": topic_id, "partition": number, "broker": broker}, yes, dry_run, token_file, timeout)


@partition.command(
    "repair",
    short_help="Cut the only copy where its damage begins.",
    examples=[
        "penstock partition repair 0123456789abcdef0123456789abcdef 0 --dry-run",
        "penstock partition repair 0123456789abcdef0123456789abcdef 0 --yes",
    ],
)
@click.argument("topic_id")
@click.argument("number", metavar="PARTITION", type=click.IntRange(min=0))
@_yes
@_dry_run
@token_option
@_timeout
def partition_repair(
    topic_id: str, number: int, yes: bool, dry_run: bool, token_file: Path | None, timeout: float
) -> None:
    """Give up what the only copy of a partition holds from its first damaged offset on, and take writes again.

    Until then its good ranges are read: copy what lies behind the damage first.
    """
    _declare({"topic_id": topic_id, "partition": number}, yes, dry_run, token_file, timeout)


def _declare(body: dict[str, Any], yes: bool, dry_run: bool, token_file: Path | None, timeout: float) -> None:
    with operator_client(token_file) as rest:
        answer = rest.post(_LOSSES, body, timeout_s=timeout)
        loss = answer["loss"]
        if not dry_run:
            if not yes:
                must_agree(f"{_sentence(loss)} Go on?", instead="--yes or --dry-run")
            answer = rest.post(_LOSSES, {**body, "accept_loss": True}, timeout_s=timeout)
            loss = answer["loss"]
    if current().json:
        print_json(answer)
        return
    click.echo(line(_sentence(loss)))
    if answer["declared"]:
        click.echo(f"Declared: log generation {loss['log_generation']}, leader epoch {loss['leader_epoch']}.")


def _sentence(loss: dict[str, Any]) -> str:
    """What is lost."""
    known = int(loss["known_end_offset"]) - int(loss["offset"])
    return (
        f"{loss['topic']}-{loss['partition']} of {loss['tenant']} goes on with what broker {loss['leader']} holds, "
        f"{loss['offset']} offsets; {known} behind them are known of and lost, and whatever only others hold."
    )


def _moment(ms: int) -> str:
    return f"{moment_of(ms):%Y-%m-%d %H:%M:%S}Z"
