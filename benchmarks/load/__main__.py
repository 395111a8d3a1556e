"""`make load`: a whole service on PostgreSQL and Redis, and all kinds of its users at once for some minutes.

Usage: python -m benchmarks.load [--minutes 10] [--json FILE]. It ends with 0 only if no answer was unexpected, every
acknowledged message came back, and the usage counts exactly the messages of the log.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from demo.servers import ServerFailed, Servers
from local import guardian
from local.layout import DataDirectory
from local.service import DevService
from local.service_layout import Backends
from penstock import Client
from penstock.admin.blocking import Admin
from penstock.cli.output import print_table, progress, say
from penstock.contract.errors import PenstockError
from penstock.rest.client import RestClient

BROKERS = 3
TOPIC, PARTITIONS = "load", 3
USERS = 13
"""As many as the kinds of `mixed` want together."""
_STOP_S = 120
"""What a user that stops may still take: it looks for what it sent."""
_LATE_S = 180
_METERED_S = 600.0
_ANSWER_S = 30.0
_POLL_S = 1.0
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What Locust says of one kind of request. Times are milliseconds."""

    name: str
    count: int
    failures: int
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A service that runs."""

    api_url: str
    bootstrap: tuple[str, ...]
    """host:port of client listeners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run."""

    rows: tuple[Row, ...]
    problems: tuple[str, ...]
    """Whatever should not be; empty when all went well."""
    acknowledged: int
    """Messages of the users of messages."""
    stored: int
    """Messages in the log: a burst may be in it whose user was stopped before it heard so."""
    token: str
    """A session of the tenant that sent them."""
    seconds: float


def run(folder: Path, minutes: float) -> Outcome:
    """Start a service in `folder`, run all users on it, wait for the usage, and stop it.

    Raises `ServerFailed` and what starting raises.
    """
    with ExitStack() as at_end:
        servers = Servers(folder / "servers")
        at_end.callback(servers.stop)
        with progress("Starting PostgreSQL and Redis"):
            addresses = servers.start(lambda name: None)
        backends = Backends(
            database_url=addresses.database_url, celery_broker_url=addresses.celery_broker_url
        )
        service = DevService(DataDirectory(folder / "service"))
        at_end.callback(service.down, 10.0)
        with progress("Starting the service"):
            up = service.up(BROKERS, lambda done, steps, note: None, backends=backends)
        bootstrap = tuple(broker.client_address for broker in up.cluster.spec.brokers)
        target = Target(api_url=up.spec.api_url, bootstrap=bootstrap)
        outcome = load(target, folder, minutes)
        return replace(outcome, problems=(*outcome.problems, *wrongly_metered(target, outcome)))


def load(target: Target, folder: Path, minutes: float) -> Outcome:
    """Run all users for `minutes`; Locust's files go into `folder`."""
    token, key = _tenant_for_messages(target.api_url)
    began = time.monotonic()
    status = _run_locust(target, key, folder, minutes)
    seconds = time.monotonic() - began
    if not (folder / "messages.json").exists():
        raise click.ClickException(f"Locust ended with {status}; its output is in {folder / 'locust.log'}")
    rows, problems = read_statistics(json.loads((folder / "locust.json").read_text()))
    if status != 0 and not problems:
        problems = [f"Locust ended with status {status}"]
    acknowledged = len(json.loads((folder / "messages.json").read_text())["acknowledged"])
    if (stored := _stored(target, key)) < acknowledged:
        problems.append(f"{acknowledged:,} messages were acknowledged and {stored:,} are in the log")
    return Outcome(
        rows=tuple(rows),
        problems=tuple(problems),
        acknowledged=acknowledged,
        stored=stored,
        token=token,
        seconds=seconds,
    )


def wrongly_metered(target: Target, outcome: Outcome) -> list[str]:
    """Wait until the usage counts what is in the log; else the problem."""
    deadline = time.monotonic() + _METERED_S
    with RestClient(target.api_url, outcome.token) as rest, progress("Metering every message") as bar:
        while (metered := _metered(rest)) < outcome.stored and time.monotonic() < deadline:
            bar.to(0, f"{metered:,} of {outcome.stored:,}")
            time.sleep(_POLL_S)
    if metered == outcome.stored:
        return []
    return [f"{outcome.stored:,} messages are in the log and {metered:,} metered"]


def _stored(target: Target, key: str) -> int:
    with Client(bootstrap=list(target.bootstrap), api_key=key) as client, client.consumer(TOPIC) as consumer:
        consumer.assign([(TOPIC, partition) for partition in range(PARTITIONS)])
        return sum(consumer.end_offsets(_ANSWER_S).values())


def _tenant_for_messages(api_url: str) -> tuple[str, str]:
    """A tenant with the topic; a session's token and a key."""
    name = f"load-{time.time_ns()}"
    body = {"email": f"{name}@load.example", "password": secrets.token_urlsafe(12), "tenant": name}
    with RestClient(api_url) as rest:
        token = str(rest.post("/v1/sign-up", body)["token"])
    with RestClient(api_url, token) as rest:
        admin = Admin(rest)
        admin.create_topic(TOPIC, PARTITIONS)
        return token, admin.create_key("load").api_key


def read_statistics(found: Sequence[Mapping[str, Any]]) -> tuple[list[Row], list[str]]:
    """The rows of Locust's JSON, and a problem for each kind of request that failed or never came about."""
    rows = [_row(one) for one in found]
    problems = [f"{row.name}: {row.failures:,} of {row.count:,} failed" for row in rows if row.failures]
    if not rows:
        problems.append("no request was made")
    return sorted(rows, key=lambda row: row.name), problems


def _row(found: Mapping[str, Any]) -> Row:
    times = sorted((float(taken), int(count)) for taken, count in found["response_times"].items())
    return Row(
        name=found["name"] if found["method"] != "penstock" else f"(SDK) {found['name']}",
        count=found["num_requests"],
        failures=found["num_failures"],
        p50_ms=_percentile(times, 0.5),
        p99_ms=_percentile(times, 0.99),
        max_ms=float(found["max_response_time"]),
    )


def _percentile(times: Sequence[tuple[float, int]], part: float) -> float:
    """Of (milliseconds, how often), in order."""
    left = part * sum(count for _, count in times)
    for taken, count in times:
        left -= count
        if left <= 0:
            return taken
    return 0.0


def _run_locust(target: Target, key: str, folder: Path, minutes: float) -> int:
    command = [
        *(sys.executable, "-m", "locust", "-f", str(_HERE / "mixed.py"), "--headless", "--only-summary"),
        *("-u", str(USERS), "-r", str(USERS), "-t", f"{int(minutes * 60)}s", "--stop-timeout", str(_STOP_S)),
        *("--host", target.api_url, "--topic", TOPIC),
        *("--report", str(folder / "messages.json"), "--json-file", str(folder / "locust")),
    ]
    settings = {
        "PENSTOCK_BOOTSTRAP": ",".join(target.bootstrap),
        "PENSTOCK_API_KEY": key,
        "GRPC_VERBOSITY": "ERROR",
    }
    with (folder / "locust.log").open("wb") as output, progress("All users at once", minutes * 60) as bar:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | settings | guardian.mark(),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        began = time.monotonic()
        while True:
            passed = time.monotonic() - began
            bar.to(min(passed, minutes * 60))
            try:
                return child.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                if passed > minutes * 60 + _STOP_S + _LATE_S:
                    child.kill()


def _metered(rest: RestClient) -> int:
    meters = [item["meters"].get("messages_in") for item in rest.get("/v1/usage")["items"]]
    return sum(int(meter["quantity"]) for meter in meters if meter is not None)


def show(outcome: Outcome) -> None:
    """The table and the verdict, for a person."""
    rows = [
        (one.name, one.count, one.failures, round(one.p50_ms), round(one.p99_ms), round(one.max_ms))
        for one in outcome.rows
    ]
    print_table(("request", "count", "failed", "p50 ms", "p99 ms", "max ms"), rows)
    requests = sum(one.count for one in outcome.rows)
    say(f"{requests:,} requests in {outcome.seconds:.0f} s, {outcome.acknowledged:,} messages acknowledged.")
    for problem in outcome.problems:
        say(f"Unexpected: {problem}")
    if not outcome.problems:
        say("0 unexpected errors; every message came back and is metered.")


def as_json(outcome: Outcome) -> str:
    """The same for a program: one object."""
    return json.dumps(
        {
            "requests": {
                row.name: {
                    "count": row.count,
                    "failures": row.failures,
                    "p50_ms": row.p50_ms,
                    "p99_ms": row.p99_ms,
                    "max_ms": row.max_ms,
                }
                for row in outcome.rows
            },
            "acknowledged": outcome.acknowledged,
            "stored": outcome.stored,
            "seconds": round(outcome.seconds, 1),
            "unexpected": list(outcome.problems),
        }
    )


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0.1), default=10.0, show_default=True)
@click.option(
    "--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Also write it as JSON."
)
def main(minutes: float, file: Path | None) -> None:
    """All kinds of users at once on a whole service: REST, messages, sign-up, sign-in and the console."""
    guardian.guard()
    Path("var").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="load-", dir=Path("var"))).absolute()
    folder.chmod(0o711)  # PostgreSQL's own user gets through it
    try:
        outcome = run(folder, minutes)
    except PenstockError as error:
        say(f"Error: {error.message} [{error.code.name}]\n  {error.remedy}")
        sys.exit(1)
    except ServerFailed as error:
        say(f"Error: {error}")
        sys.exit(1)
    show(outcome)
    if file is not None:
        file.write_text(as_json(outcome) + "\n", encoding="utf-8")
    if outcome.problems:
        say(f"Locust's output: {folder / 'locust.log'}; the service's own: {folder / 'service'}")
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
