"""`penstock server web` and `worker`: the processes of the control plane, each until SIGTERM."""

import os
import sys
from pathlib import Path

import click

from penstock.cli.invocation import Group

_CONFIG = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="JSON file with the service's settings; variables PENSTOCK_SERVER_<SETTING> stand above it.",
)


@click.group(name="server", cls=Group, path=("server",), short_help="Run a process of the control plane.")
def server() -> None:
    """Run a process of the service beside its brokers: web, worker or runner.

    Any number of web and worker processes can run, on any hosts. Of the runners one works and the others wait.
    `penstock config check` says beforehand what is wrong with a configuration.
    """


@server.command("web", examples=["penstock server web --config /etc/penstock/server.json"])
@_CONFIG
def web(config: Path) -> None:
    """Serve the console and REST in the foreground. SIGTERM finishes the requests that have begun, 10 s at most."""
    _configure(config)
    from control_plane.serve import main

    main()


@server.command("worker", examples=["penstock server worker --config /etc/penstock/server.json"])
@_CONFIG
def worker(config: Path) -> None:
    """Deliver changes to the brokers and do what is due, in the foreground. SIGTERM finishes what has begun."""
    _configure(config)
    from control_plane.worker import main

    sys.exit(main())


def _configure(file: Path) -> None:
    """Name the configuration for this process and those that it forks."""
    from control_plane import config as configuration  # half a second of imports, which the help needs not

    os.environ[configuration.VARIABLE] = str(file.absolute())
