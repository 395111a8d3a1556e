"""`penstock broker run`: one broker, until SIGTERM."""

from pathlib import Path

import click

from penstock.cli.invocation import Group


@click.group(name="broker", cls=Group, path=("broker",), short_help="Run a broker.")
def broker() -> None:
    """Run a broker on this host."""


@broker.command("run", examples=["penstock broker run --config /etc/penstock/broker.json"])
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="JSON file with the broker's settings; variables PENSTOCK_BROKER_<SETTING> stand above it.",
)
def run(config: Path) -> None:
    """Run one broker in the foreground. SIGTERM drains it, a second one ends it at once.

    It ends with 0 when it was drained, 1 when it was aborted, 2 when it cannot start, and 70 when its disk or the
    broker itself failed: start it again, it recovers. `penstock config check` says beforehand what is wrong.
    """
    # Half a second of imports, which the help needs not.
    from data_plane.broker.process import main

    main(["--config", str(config)])
