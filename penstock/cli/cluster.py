"""`penstock cluster …`: what operators do with brokers: list, drain, take back, even out, forget; over REST."""

import os
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.confirmation import must_agree
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.rest import client_with, settings
from penstock.cli.topic_changes import timeout_option
from penstock.contract.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.rest.client import RestClient

TOKEN_VARIABLE = "PENSTOCK_OPERATOR_TOKEN"
_LISTED_MAX = 200
_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])


def token_option(command: _FunctionT) -> _FunctionT:
    """Operators carry a token of their own, not a tenant's key."""
    return click.option(
        "--token-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"File with the operator's token (or {TOKEN_VARIABLE}); of a dev service <data>/service/operator.token.",
    )(command)


@click.group(name="cluster", cls=Group, path=("cluster",))
def cluster() -> None:
    """Brokers and certificates, for operators."""


@cluster.command("brokers", examples=["penstock cluster brokers --token-file operator.token"])
@token_option
@timeout_option
def cluster_brokers(token_file: Path | None, timeout: float) -> None:
    """List the brokers, what they hold, and how far drains are."""
    with operator_client(token_file) as rest:
        found = list(rest.items("/v1/cluster/brokers", timeout_s=timeout))
    if current().json:
        print_json({"brokers": found})
        return
    with_hosts = any(broker.get("host") for broker in found)
    rows = [
        [
            *(b["id"], b["state"], _use(b), b["leaders"], b["replicas"], b["zone"]),
            *([b.get("host") or "own"] if with_hosts else []),
            *(b.get("version") or "-", b["client_address"], _why(b)),
        ]
        for b in found
    ]
    hosts = ["host"] if with_hosts else []
    columns = [
        "broker",
        "state",
        "use",
        "leaders",
        "replicas",
        "zone",
        *hosts,
        "version",
        "client address",
        "",
    ]
    print_table(columns, rows)
    for text in dict.fromkeys(text for broker in found for text in broker.get("warnings", ())):
        click.echo(f"Warning: {text}.", err=True)


@cluster.command(
    "features",
    examples=[
        "penstock cluster features --token-file operator.token",
        "penstock cluster features --raise 2 --token-file operator.token",
    ],
)
@click.option(
    "--raise",
    "level",
    type=click.IntRange(min=1),
    help="Put this level in force. Brokers of a release that does not support it are refused from then on.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@token_option
@timeout_option
def cluster_features(level: int | None, yes: bool, token_file: Path | None, timeout: float) -> None:
    """Show the feature level in force and what brokers support, or raise it.

    It also says what the next level brings. A release uses what the one before cannot read only from its level on.
    Raise it when every broker runs the new release and you will not go back. It is refused while a registered broker
    does not support it. It asks before, and needs --yes where there is no terminal.
    """
    with operator_client(token_file) as rest:
        found = rest.get("/v1/cluster/features", timeout_s=timeout)
        if level is not None:
            if level != found["level"] and not yes:
                must_agree(
                    f"Level {level} will be in force, and brokers that do not support it are refused. Go on?"
                )
            with progress(f"Raising the level to {level}"):
                found = rest.patch("/v1/cluster/features", {"level": level}, timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    say(f"Feature level {found['level']} is in force.")
    print_table(
        ["broker", "state", "version", "supports"],
        [[b["id"], b["state"], b["version"] or "-", _levels(b)] for b in found["brokers"]],
    )
    above = [known for known in found["levels"] if known["level"] > found["level"]]
    for known in above:
        say(f"Level {known['level']} (since {known['release']}): {known['brings']}.")
    if not above:
        say("No higher level is known to this release.")


@cluster.command("drain", examples=["penstock cluster drain 4 --token-file operator.token"])
@click.argument("broker", type=int)
@token_option
@timeout_option
def cluster_drain(broker: int, token_file: Path | None, timeout: float) -> None:
    """Move leaders and replicas off a broker, so that it can be stopped for good.

    Refused when the other brokers cannot hold what it holds. `penstock cluster brokers` shows how far it is.
    """
    with operator_client(token_file) as rest, progress(f"Draining broker {broker}"):
        answer = rest.post(f"/v1/cluster/brokers/{broker}/drain", {}, timeout_s=timeout)
    if current().json:
        print_json(answer)
        return
    say(f"Broker {broker} is being drained of {answer['replicas_at_start']} replicas.")


@cluster.command("undrain", examples=["penstock cluster undrain 4 --token-file operator.token"])
@click.argument("broker", type=int)
@token_option
@timeout_option
def cluster_undrain(broker: int, token_file: Path | None, timeout: float) -> None:
    """Take a drain back: what has moved stays where it is, what is moving goes back."""
    with operator_client(token_file) as rest, progress(f"Taking broker {broker} back"):
        answer = rest.delete(f"/v1/cluster/brokers/{broker}/drain", timeout_s=timeout)
    if current().json:
        print_json(answer)
        return
    say(f"Broker {broker} serves.")


@cluster.command("forget", examples=["penstock cluster forget 4 --token-file operator.token --yes"])
@click.argument("broker", type=int)
@click.option("--yes", is_flag=True, help="Do not ask.")
@token_option
@timeout_option
def cluster_forget(broker: int, yes: bool, token_file: Path | None, timeout: float) -> None:
    """Remove a broker that was drained and has been stopped from the cluster. It asks before, and needs --yes where
    there is no terminal.
    """
    if not yes:
        must_agree(f"Broker {broker} will be removed from the cluster. Go on?")
    with operator_client(token_file) as rest, progress(f"Forgetting broker {broker}"):
        rest.delete(f"/v1/cluster/brokers/{broker}", timeout_s=timeout)
    if current().json:
        print_json({"broker": broker, "forgotten": True})
        return
    say(f"Broker {broker} is forgotten.")


@cluster.command("rebalance", examples=["penstock cluster rebalance --token-file operator.token"])
@token_option
@timeout_option
def cluster_rebalance(token_file: Path | None, timeout: float) -> None:
    """Even out how much brokers hold, for instance after one has joined."""
    with operator_client(token_file) as rest, progress("Planning"):
        answer = rest.post("/v1/cluster/rebalance", {}, timeout_s=timeout)
    if current().json:
        print_json(answer)
        return
    say(f"{answer['planned']} partitions will move." if answer["planned"] else "Nothing has to move.")


@cluster.command("moves", examples=["penstock cluster moves --token-file operator.token"])
@click.option("--all", "everything", is_flag=True, help="Those that have ended, too.")
@token_option
@timeout_option
def cluster_moves(everything: bool, token_file: Path | None, timeout: float) -> None:
    """List partitions that move or wait for it, and what is left of each."""
    with operator_client(token_file) as rest:
        moves = list(rest.items("/v1/cluster/moves", timeout_s=timeout))
    if not everything:
        moves = [move for move in moves if move["state"] in ("waiting", "moving")]
    if current().json:
        print_json({"moves": moves})
        return
    rows = [
        [
            f"{move['topic']}-{move['partition']}",
            move["tenant"],
            move["cause"],
            _way(move),
            move["state"],
            _left(move),
        ]
        for move in moves[:_LISTED_MAX]
    ]
    print_table(["partition", "tenant", "cause", "move", "state", "left"], rows, empty="Nothing moves.")
    if len(moves) > _LISTED_MAX:
        say(f"{len(moves) - _LISTED_MAX} more; --json shows them all.")


@cluster.command(
    "move-leader",
    examples=[
        "penstock cluster move-leader 0123456789abcdef0123456789abcdef 0 2 --token-file operator.token"
    ],
)
@click.argument("topic_id", metavar="TOPIC_ID")
@click.argument("partition", type=int)
@click.argument("broker", type=int)
@token_option
@timeout_option
def cluster_move_leader(
    topic_id: str, partition: int, broker: int, token_file: Path | None, timeout: float
) -> None:
    """Have a partition's leader hand over to another broker that is in sync."""
    with operator_client(token_file) as rest, progress("Moving"):
        wanted = {"topic_id": topic_id, "partition": partition, "broker": broker}
        answer = rest.post("/v1/cluster/leaders", wanted, timeout_s=timeout)
    if current().json:
        print_json(answer)
        return
    say(f"Broker {broker} leads partition {partition}.")


@contextmanager
def operator_client(token_file: Path | None) -> "Iterator[RestClient]":
    """A client with the operator's token. Raises `ConfigurationError` when there is none."""
    token = operator_token(token_file)
    with client_with(settings(), token) as rest:
        yield rest


def operator_token(token_file: Path | None) -> str:
    """The token in the file, or in the environment. Raises `ConfigurationError` when there is none."""
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="ascii", errors="replace").strip()
        except OSError as error:
            raise ConfigurationError(f"operator's token: {error}") from error
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise ConfigurationError(
            f"operator's token: name its file with --token-file, or set {TOKEN_VARIABLE}"
        )
    return token


def _use(broker: dict[str, Any]) -> str:
    if broker["use"] != "drain":
        return str(broker["use"])
    return (
        "drained"
        if broker["drained"]
        else f"drain ({broker['replicas']} of {broker['replicas_at_start']} left)"
    )


def _levels(broker: dict[str, Any]) -> str:
    if broker["state"] == "fenced":
        return "-"
    lowest, highest = broker["level_min"], broker["level_max"]
    return f"level {lowest}" if lowest == highest else f"levels {lowest} to {highest}"


def _why(broker: dict[str, Any]) -> str:
    return "; ".join(str(condition["message"]) for condition in broker["conditions"])


def _way(move: dict[str, Any]) -> str:
    """From which broker to which; one of them alone when a copy is added or taken away."""
    source, destination = move["from_broker"], move["to_broker"]
    if source is None and destination is None:
        return f"leader to {move['target'][0]}"
    if source is None:
        return f"one more, on {destination}"
    return f"{source} to {destination}" if destination is not None else f"one less, off {source}"


def _left(move: dict[str, Any]) -> str:
    steps = move["progress"]
    if not steps:
        return "; ".join(str(condition["message"]) for condition in move["conditions"])
    return "; ".join(
        "not begun" if step["bytes_left"] < 0 else f"{step['bytes_left']:,} bytes" for step in steps
    )
