"""`penstock server runner`: the usage pipeline, until SIGTERM."""

import os
import sys
from pathlib import Path

import click

from penstock.cli.invocation import Command


@click.command("runner", cls=Command, examples=["penstock server runner --config /etc/penstock/server.json"])
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="JSON file with the service's settings; variables PENSTOCK_SERVER_<SETTING> stand above it.",
)
def runner(config: Path) -> None:
    """Turn metered usage into data sets in the foreground. Of several runners one works and the others wait for it to
    end. SIGTERM finishes the round that has begun, 15 s at most.

    Spark needs Java 17: JAVA_HOME, or `java` on the path.
    """
    # Half a second of imports, which the help needs not.
    from spark_usage import configuration

    os.environ[configuration.VARIABLE] = str(config.absolute())
    from spark_usage.runner import main

    sys.exit(main())
