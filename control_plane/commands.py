"""`penstock server web` and `worker`: the processes of the control plane, each until SIGTERM."""

import os
import sys
from pathlib import Path

import click

from penstock.cli.invocation import Group
from penstock.contract.errors import ConfigurationError

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


@server.command(
    "prober",
    short_help="Probe the brokers as a client does.",
    examples=[
        "penstock server prober --config /etc/penstock/server.json",
        "penstock server prober --config /etc/penstock/server.json --key-file probe.key --topic probes",
    ],
)
@_CONFIG
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The key of a tenant that was made for probes; it produces to the topic and reads it. Without it that of the"
    " service's own tenant, which is not billed, and the topic `probes` is made in it.",
)
@click.option("--topic", help="With the key: one with a partition for each broker, and a short retention.")
@click.option("--name", default="", help="Of this prober, where several run; without it the host's.")
def prober(config: Path, key_file: Path | None, topic: str | None, name: str) -> None:
    """Produce and read every five seconds, in the foreground, until SIGTERM. What comes of it judges the windows of
    service levels in which a tenant asked for too little. Run it where clients are, not beside a broker.
    """
    if (key_file is None) != (topic is None):
        raise click.UsageError("--key-file and --topic go together: the topic is one that the key may use.")
    _configure(config)
    from control_plane.prober import run

    run(key_file, topic, name)


@server.command(
    "rotate-pepper",
    short_help="Make the next pepper of API keys now.",
    examples=["penstock server rotate-pepper --config /etc/penstock/server.json"],
)
@_CONFIG
def rotate_pepper(config: Path) -> None:
    """Make the next pepper of API keys now, in the folder `brokers.pepper_folder`, whatever `brokers.pepper_days` says.

    A worker puts it to use when every active broker has it. Keys are hashed with it as they are used, and a pepper that
    no key needs any more is removed. No key changes its text, and none is refused meanwhile. Brokers are asked which
    peppers they have.
    """
    _configure(config)
    from control_plane.brokers import client
    from tenants.credentials import current_version
    from tenants.key_use.peppers import make_next

    try:
        before = current_version()
        version, is_new = make_next(client.key_use(0.0))
    except (OSError, ValueError) as error:
        raise ConfigurationError(str(error)) from error
    if is_new:
        click.echo(
            f"Pepper {version} is made. It is in use, in place of {before}, when every active broker has it."
        )
    else:
        click.echo(f"Pepper {version} was made before, and waits until every active broker has it.")


def _configure(file: Path) -> None:
    """Name the configuration for this process and those that it forks."""
    from control_plane import config as configuration  # half a second of imports, which the help needs not

    os.environ[configuration.VARIABLE] = str(file.absolute())
