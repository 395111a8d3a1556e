"""The commands `penstock dev …`: a whole cluster on this machine."""

import signal
import time
from pathlib import Path

import click

from data_plane.dev import processes
from data_plane.dev.access import data_option, directory_of
from data_plane.dev.cluster import DRAIN_S, DevCluster, Report, UpResult
from data_plane.dev.layout import BROKERS_DEFAULT, MIN_INSYNC_DEFAULT, REPLICATION_DEFAULT, DataDirectory
from data_plane.dev.profile import PROFILE
from data_plane.dev.status import BrokerStatus, ClusterStatus, look
from penstock.cli.invocation import Group, current
from penstock.cli.output import Bar, print_json, print_table, progress, say

_WATCH_S = 0.5
"""How often a foreground `dev up` looks whether its brokers still run."""


@click.group(name="dev", cls=Group, path=("dev",))
def dev() -> None:
    """A cluster of brokers on this machine, for developing and trying out."""


@dev.command("up")
@data_option
@click.option("--brokers", type=int, help=f"How many brokers (default {BROKERS_DEFAULT}).")
@click.option("--detach", is_flag=True, help="Leave the brokers running and return.")
def up(data: Path | None, brokers: int | None, detach: bool) -> None:
    """Start a cluster, or whatever of it does not run, and wait until it is ready.

    Writes the profile `dev` with address, tenant and key. Without --detach it stays, and Ctrl-C stops all
    brokers.
    """
    cluster = DevCluster(directory_of(data))
    try:
        with progress("Starting brokers", total=1.0) as bar:
            result = cluster.up(brokers, _on(bar))
    except KeyboardInterrupt:
        if not detach:
            cluster.down()
        raise
    _tell_up(cluster.directory, result)
    if not detach:
        _stay(cluster)


@dev.command("status")
@data_option
def status(data: Path | None) -> None:
    """Show brokers, their processes and what the cluster says of them."""
    seen = look(directory_of(data))
    if current().json:
        print_json(seen.to_json())
        return
    _print_status(seen)


@dev.command("down")
@data_option
@click.option("--timeout", type=float, default=DRAIN_S, show_default=True, help="Seconds before SIGKILL.")
def down(data: Path | None, timeout: float) -> None:
    """Stop all brokers. The data stays; `dev up` goes on from there."""
    cluster = DevCluster(directory_of(data))
    with progress("Stopping brokers"):
        killed = cluster.down(timeout)
    if current().json:
        print_json({"data": str(cluster.directory.path), "running": False, "killed": list(killed)})
        return
    say("All brokers are down.")
    if killed:
        say(f"Killed because they did not end within {timeout:g} s: {', '.join(map(str, killed))}")


@dev.group("broker", cls=Group, path=("dev", "broker"))
def broker() -> None:
    """Kill, stop and start single brokers."""


@broker.command("kill")
@click.argument("number", metavar="ID", type=int)
@data_option
def broker_kill(number: int, data: Path | None) -> None:
    """End a broker with SIGKILL, as a crash would."""
    pid = DevCluster(directory_of(data)).kill_broker(number)
    _tell_broker(number, pid, "killed" if pid is not None else "was not running")


@broker.command("stop")
@click.argument("number", metavar="ID", type=int)
@data_option
@click.option("--timeout", type=float, default=DRAIN_S, show_default=True, help="Seconds to wait for it.")
def broker_stop(number: int, data: Path | None, timeout: float) -> None:
    """Drain a broker and end it: leaders move away first (SIGTERM)."""
    with progress(f"Draining broker {number}"):
        pid = DevCluster(directory_of(data)).stop_broker(number, timeout)
    _tell_broker(number, pid, "stopped" if pid is not None else "was not running")


@broker.command("start")
@click.argument("number", metavar="ID", type=int)
@data_option
def broker_start(number: int, data: Path | None) -> None:
    """Start a broker unless it runs, and wait until it is ready."""
    with progress(f"Starting broker {number}", total=1.0) as bar:
        seen = DevCluster(directory_of(data)).start_broker(number, _on(bar))
    _tell_broker(number, seen.pid, seen.state.value)


def _on(bar: Bar) -> Report:
    return lambda done, steps, note: bar.to(done / steps, note)


def _tell_broker(number: int, pid: int | None, state: str) -> None:
    if current().json:
        print_json({"broker": number, "pid": pid, "state": state})
    else:
        say(f"Broker {number}: {state}" + (f" (process {pid})" if pid is not None else ""))


def _tell_up(directory: DataDirectory, result: UpResult) -> None:
    spec = result.spec
    if spec.replication < REPLICATION_DEFAULT:
        say(
            f"{len(spec.brokers)} broker{'s' if len(spec.brokers) > 1 else ''}: topics get replication "
            f"{spec.replication} and min_insync {spec.min_insync} here unless you say otherwise "
            f"(usually {REPLICATION_DEFAULT} and {MIN_INSYNC_DEFAULT})."
        )
    seen = look(directory)
    if current().json:
        print_json({**seen.to_json(), "started": list(result.started)})
        return
    _print_status(seen)
    say(f"Profile {PROFILE!r} is ready: add --profile {PROFILE}, or export PENSTOCK_PROFILE={PROFILE}.")


def _print_status(seen: ClusterStatus) -> None:
    print_table(
        ["broker", "state", "membership", "pid", "client address", "leaders", "replicas", ""],
        [_row(broker) for broker in seen.brokers],
        title=f"{seen.spec.cluster_id} in {seen.directory.path}",
    )


def _row(broker: BrokerStatus) -> list[object]:
    return [
        broker.spec.id,
        broker.state.value,
        broker.membership,
        "-" if broker.pid is None else broker.pid,
        broker.spec.client_address,
        broker.leaders,
        broker.replicas,
        "controller" if broker.is_controller else "",
    ]


def _stay(cluster: DevCluster) -> None:
    """Stay until Ctrl-C or SIGTERM, then stop all brokers; or until all of them were ended by somebody
    else.
    """
    directory = cluster.directory
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        say("Ctrl-C stops all brokers.")
        running = {b.id for b in directory.load().brokers}
        while running:
            time.sleep(_WATCH_S)
            cluster.reap()
            now = {b.id for b in directory.load().brokers if processes.find(directory.config_file(b.id))}
            for number in sorted(running - now):
                say(f"Broker {number} has ended; `penstock dev broker start {number}` starts it again.")
            for number in sorted(now - running):
                say(f"Broker {number} runs again.")
            running = now
    except KeyboardInterrupt:
        with progress("Stopping brokers"):
            cluster.down()
        say("All brokers are down.")
