"""The commands `penstock dev …`: a whole service on this machine, or its brokers alone."""

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from local import cores, guardian, supervision
from local.access import data_option, directory_of
from local.account import read_account
from local.bill import bill
from local.cluster import DRAIN_S, DevCluster, Report
from local.layout import (
    BROKERS_DEFAULT,
    METADATA_STORES,
    ClusterSpec,
)
from local.profile import PROFILE, is_written, pointed_elsewhere
from local.service import DevService
from local.service_layout import PIPELINE_INTERVAL_S
from local.service_processes import ServiceStatus
from local.status import BrokerStatus, ClusterStatus, look
from local.supervision import WATCH_S, Supervisor
from penstock.cli.invocation import Group, current
from penstock.cli.output import Bar, print_json, print_table, progress, say
from penstock.cli.waits import SECONDS
from penstock.contract.errors import PenstockError
from penstock.contract.limits import MIN_INSYNC_DEFAULT, REPLICATION_DEFAULT
from penstock.profiles import PROFILE_FILE, profile_file


@click.group(name="dev", cls=Group, path=("dev",), short_help="The whole service on this machine.")
def dev() -> None:
    """The whole service on this machine, for developing and trying out."""
    cores.choose()


@dev.command("up", examples=["penstock dev up", "penstock dev up --bare --brokers 1 --detach"])
@data_option
@click.option("--brokers", type=int, help=f"How many brokers (default {BROKERS_DEFAULT}).")
@click.option(
    "--metadata",
    type=click.Choice(METADATA_STORES),
    help="What keeps the brokers' metadata in a new cluster (default sqlite); etcd is started beside them.",
)
@click.option(
    "--pipeline-interval",
    type=click.IntRange(1, 86_400),
    help=f"Seconds between two rounds of the usage pipeline (default {PIPELINE_INTERVAL_S} in a new service)."
    " A long one spares a small machine; `dev bill` does not wait for it.",
)
@click.option("--bare", is_flag=True, help="Brokers alone, without control plane and bills.")
@click.option("--detach", is_flag=True, help="Leave everything running, supervised, and return.")
def up(
    data: Path | None,
    brokers: int | None,
    metadata: str | None,
    pipeline_interval: int | None,
    bare: bool,
    detach: bool,
) -> None:
    """Start the service, or whatever of it does not run, and wait until it is ready.

    Brokers, control plane, its worker, the usage pipeline and a prober. Writes the profile `dev` with addresses, tenant
    and key. Without --detach it stays, and Ctrl-C stops everything. What ends by itself is started again after a
    second, and later each time; what was stopped by a command stays down.
    """
    if not detach:
        guardian.guard()
    service = DevService(directory_of(data))
    was_supervised = supervision.stop(service.directory)
    password: str | None = None
    try:
        with progress("Starting", total=1.0) as bar:
            if bare:
                result = service.cluster.up(
                    brokers, _on(bar), provisioned=not service.service.exists, metadata=metadata
                )
                started: Sequence[int | str] = result.started
            else:
                known = service.service.account_file.exists()
                whole = service.up(
                    brokers, _on(bar), metadata=metadata, pipeline_interval_s=pipeline_interval
                )
                result, started = whole.cluster, (*whole.cluster.started, *whole.started)
                password = None if known else whole.account.password
    except KeyboardInterrupt as stopped:
        if not detach:
            service.down()
        else:
            if was_supervised:
                supervision.leave_behind(service.directory)
            stopped.add_note(
                "What was started goes on: `penstock dev down` stops it, `penstock dev up` starts the rest."
            )
        raise
    except (PenstockError, OSError):
        if was_supervised:
            # What ran before this command goes on, and needs it.
            guardian.let_go()
            supervision.leave_behind(service.directory)
        raise
    if detach:
        supervision.leave_behind(service.directory)
    _tell_up(service, result.spec, started, password)
    cores.make_for_later(say)
    if not detach:
        _stay(service)


@dev.command("status", examples=["penstock dev status", "penstock dev status --json"])
@data_option
def status(data: Path | None) -> None:
    """Show brokers and processes, and what the cluster says of its brokers."""
    service = DevService(directory_of(data))
    seen = look(service.directory)
    if current().json:
        print_json(_status_json(service, seen))
        return
    _print_status(seen, service.look())
    away = sorted(service.directory.wanted() - service.running())
    if away and supervision.find(service.directory) is None:
        say(
            f"Not running, though started: {', '.join(away)}. `penstock dev up --detach` starts what is missing."
        )


@dev.command("down", examples=["penstock dev down"])
@data_option
@click.option("--timeout", type=SECONDS, default=DRAIN_S, show_default=True, help="Seconds before SIGKILL.")
def down(data: Path | None, timeout: float) -> None:
    """Stop everything. The data stays; `dev up` goes on from there."""
    service = DevService(directory_of(data))
    with progress("Stopping"):
        killed = service.down(timeout)
    if current().json:
        print_json({"data": str(service.directory.path), "running": False, "killed": list(killed)})
        return
    say("Everything is down.")
    if killed:
        say(f"Killed because they did not end in time: {', '.join(killed)}")


dev.add_command(bill)


@dev.group("broker", cls=Group, path=("dev", "broker"))
def broker() -> None:
    """Kill, stop and start single brokers."""


@broker.command("kill", examples=["penstock dev broker kill 2"])
@click.argument("number", metavar="ID", type=int)
@data_option
def broker_kill(number: int, data: Path | None) -> None:
    """End a broker with SIGKILL, as a crash would."""
    pid = DevCluster(directory_of(data)).kill_broker(number)
    _tell_broker(number, pid, "killed" if pid is not None else "was not running")


@broker.command("stop", examples=["penstock dev broker stop 2"])
@click.argument("number", metavar="ID", type=int)
@data_option
@click.option("--timeout", type=SECONDS, default=DRAIN_S, show_default=True, help="Seconds to wait for it.")
def broker_stop(number: int, data: Path | None, timeout: float) -> None:
    """Drain a broker and end it: leaders move away first (SIGTERM)."""
    with progress(f"Draining broker {number}"):
        pid = DevCluster(directory_of(data)).stop_broker(number, timeout)
    _tell_broker(number, pid, "stopped" if pid is not None else "was not running")


@broker.command("start", examples=["penstock dev broker start 2"])
@click.argument("number", metavar="ID", type=int)
@data_option
def broker_start(number: int, data: Path | None) -> None:
    """Start a broker unless it runs, and wait until it is ready."""
    with progress(f"Starting broker {number}", total=1.0) as bar:
        seen = DevCluster(directory_of(data)).start_broker(number, _on(bar))
    _tell_broker(number, seen.pid, seen.state.value)


@broker.command("add", examples=["penstock dev broker add"])
@data_option
def broker_add(data: Path | None) -> None:
    """Start one broker more, with an empty disk. It joins the cluster and takes new topics.

    `penstock cluster rebalance` moves a share of what is there to it.
    """
    with progress("Starting a broker", total=1.0) as bar:
        seen = DevCluster(directory_of(data)).add_broker(_on(bar))
    _tell_broker(seen.spec.id, seen.pid, seen.state.value)


@broker.command("remove", examples=["penstock dev broker remove 4"])
@click.argument("number", metavar="ID", type=int)
@data_option
def broker_remove(number: int, data: Path | None) -> None:
    """Take a broker out of the data directory, once the others have forgotten it.

    `penstock dev up` would start it again. Drain, stop and forget it before: `penstock cluster drain`, `penstock dev
    broker stop`, `penstock cluster forget`.
    """
    files = DevCluster(directory_of(data)).remove_broker(number)
    if current().json:
        print_json({"broker": number, "pid": None, "state": "removed", "files": str(files)})
    else:
        say(f"Broker {number}: removed. Its files are in {files}; delete them when you no longer need them.")


def _on(bar: Bar) -> Report:
    return lambda done, steps, note: bar.to(done / steps, note)


def _tell_broker(number: int, pid: int | None, state: str) -> None:
    if current().json:
        print_json({"broker": number, "pid": pid, "state": state})
    else:
        say(f"Broker {number}: {state}" + (f" (process {pid})" if pid is not None else ""))


def _tell_up(
    service: DevService, spec: ClusterSpec, started: Sequence[int | str], password: str | None
) -> None:
    if spec.replication < REPLICATION_DEFAULT:
        say(
            f"{len(spec.brokers)} broker{'s' if len(spec.brokers) > 1 else ''}: topics get replication "
            f"{spec.replication} and min_insync {spec.min_insync} here unless you say otherwise "
            f"(usually {REPLICATION_DEFAULT} and {MIN_INSYNC_DEFAULT})."
        )
    seen = look(service.directory)
    if current().json:
        print_json({**_status_json(service, seen), "started": list(started)})
        return
    _print_status(seen, service.look())
    account = read_account(service.service)
    if account is not None:
        say(f"Console: {service.service.load().api_url}/  (tenant {account.tenant})")
        shown = f"password {password}" if password else f"its password is in {service.service.account_file}"
        say(f"Sign in as {account.email}, {shown}")
        say(
            f"Operators' commands, as penstock cluster, take --token-file {service.service.operator_token_file}"
        )
    elsewhere = pointed_elsewhere(service.directory)
    if elsewhere is None and not is_written(service.directory):
        say(
            f"Profile {PROFILE!r} could not be written to {profile_file()}. "
            f"For this service: export {PROFILE_FILE}={service.directory.profile_file}"
        )
        return
    if elsewhere is None:
        say(f"Profile {PROFILE!r} is ready; commands use it unless another is named. Next: penstock doctor")
        return
    say(
        f"Profile {PROFILE!r} of {profile_file()} points to another service ({elsewhere}) and was left as it is."
    )
    say(f"For this service: export {PROFILE_FILE}={service.directory.profile_file}")
    say(f"Or, if the other one is not needed: penstock profile remove {PROFILE}, and `penstock dev up` again")


def _status_json(service: DevService, seen: ClusterStatus) -> dict[str, Any]:
    """The document of `penstock dev status --json`."""
    document = seen.to_json()
    processes_seen = service.look()
    document["processes"] = [process.to_json() for process in processes_seen]
    document["supervised"] = supervision.find(service.directory) is not None
    document["running"] = seen.running or any(process.pid is not None for process in processes_seen)
    if service.service.exists:
        account = read_account(service.service)
        document["api_url"] = service.service.load().api_url
        document["tenant"] = None if account is None else account.tenant
        document["account_file"] = str(service.service.account_file)
        document["operator_token_file"] = str(service.service.operator_token_file)
    return document


def _print_status(seen: ClusterStatus, processes_seen: Sequence[ServiceStatus]) -> None:
    running = {f"broker {broker.spec.id}": broker.cores for broker in seen.brokers}
    running |= {status.process.name: status.cores for status in processes_seen}
    print_table(
        ["broker", "state", "membership", "pid", "client address", "leaders", "replicas", ""],
        [_row(broker) for broker in seen.brokers],
        title=f"{seen.spec.cluster_id} in {seen.directory.path}",
    )
    etcd = seen.etcd
    if processes_seen or etcd is not None:
        rows: list[list[object]] = []
        if etcd is not None:
            pid = "-" if etcd.pid is None else etcd.pid
            rows.append(["etcd", etcd.state, pid, etcd.spec.client_address, "metadata store"])
        rows += [
            [
                status.process.name,
                status.state.value,
                "-" if status.pid is None else status.pid,
                status.address or "-",
                status.detail or status.process.what,
            ]
            for status in processes_seen
        ]
        print_table(["process", "state", "pid", "address", ""], rows)
    for kind in (cores.COMPILED, cores.PURE):
        names = [name for name, runs in running.items() if runs == kind]
        if names:
            say(f"Cores: {kind} in {', '.join(names)}.")


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


def _stay(service: DevService) -> None:
    """Supervise until Ctrl-C or SIGTERM, then stop everything; or until all of it was stopped by other commands."""
    try:
        for end in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(end) is not signal.SIG_IGN:  # nohup: the terminal's end is none of ours
                signal.signal(end, signal.default_int_handler)
        say("Ctrl-C stops everything. What ends by itself is started again.")
        supervisor = Supervisor(service, say)
        while supervisor.look(time.monotonic()):
            guardian.guard()
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        with progress("Stopping"):
            service.down()
        say("Everything is down.")
