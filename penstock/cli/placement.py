"""`penstock placement …`: what brokers carry, plans that move partitions, cells, the balancer; over REST."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.cluster import operator_client, token_option
from penstock.cli.confirmation import must_agree
from penstock.cli.hot_partitions import hot_because
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.topic_changes import timeout_option

_LISTED_MAX = 200
_WEIGHED = ("replicas", "log_bytes", "leaders", "bytes_per_s")


@click.group(name="placement", cls=Group, path=("placement",))
def placement() -> None:
    """Where partitions are: loads, plans, cells and the balancer, for operators."""


@placement.command("load", examples=["penstock placement load --token-file operator.token"])
@token_option
@timeout_option
def placement_load(token_file: Path | None, timeout: float) -> None:
    """Show what each broker carries and how uneven that is."""
    with operator_client(token_file) as rest:
        found = rest.get("/v1/placement/load", timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    print_table(
        ["broker", "replicas", "leaders", "log bytes", "in B/s", "out B/s", "connections", "disk used"],
        [
            [
                *(b["broker"], b["replicas"], b["leaders"], f"{b['log_bytes']:,}"),
                *(f"{b['bytes_in_per_s']:,}", f"{b['bytes_out_per_s']:,}", b["connections"]),
                f"{b['disk_used_bytes'] * 100 // max(1, b['disk_total_bytes'])} %",
            ]
            for b in found["brokers"]
        ],
        empty="No broker has reported its load yet.",
    )
    say(f"Skew: {_skew(found['skew'])}.")


@placement.command("hot", examples=["penstock placement hot --token-file operator.token"])
@token_option
@timeout_option
def placement_hot(token_file: Path | None, timeout: float) -> None:
    """List partitions that take and give far more than others."""
    with operator_client(token_file) as rest:
        found = list(rest.items("/v1/placement/hot", timeout_s=timeout))
    if current().json:
        print_json({"partitions": found})
        return
    print_table(
        ["partition", "tenant", "broker", "in B/s", "out B/s", "of broker", "of tenant", "why"],
        [
            [
                *(f"{one['topic']}-{one['partition']}", one["tenant"], one["broker"]),
                *(f"{one['bytes_in_per_s']:,}", f"{one['bytes_out_per_s']:,}"),
                *(f"{one['of_broker_percent']} %", f"{one['of_tenant_percent']} %"),
                hot_because(one),
            ]
            for one in found[:_LISTED_MAX]
        ],
        empty="No partition is hot.",
    )


@placement.command(
    "plan",
    examples=[
        "penstock placement plan rebalance --token-file operator.token",
        "penstock placement plan drain --broker 4 --token-file operator.token",
        "penstock placement plan move-tenant --tenant tn_4fZk --cell north --token-file operator.token",
    ],
)
@click.argument("kind", type=click.Choice(["rebalance", "drain", "move-tenant"]))
@click.option("--broker", type=int, help="With drain: the broker to empty.")
@click.option("--tenant", help="With move-tenant: its public id.")
@click.option("--cell", help='With move-tenant: the cell; "" = every broker.')
@token_option
@timeout_option
def placement_plan(
    kind: str,
    broker: int | None,
    tenant: str | None,
    cell: str | None,
    token_file: Path | None,
    timeout: float,
) -> None:
    """Work out what would move, and show it. Nothing moves until the plan is confirmed."""
    given = {"broker": broker, "tenant": tenant, "cell": cell}
    wanted = {name: value for name, value in given.items() if value is not None}
    with operator_client(token_file) as rest, progress("Planning"):
        plan = rest.post("/v1/placement/plans", {"kind": kind.replace("-", "_"), **wanted}, timeout_s=timeout)
    _show(plan)
    if not current().json:
        say(f"Nothing moves yet. To begin: penstock placement confirm {plan['id']}")


@placement.command("plans", examples=["penstock placement plans --token-file operator.token"])
@token_option
@timeout_option
def placement_plans(token_file: Path | None, timeout: float) -> None:
    """List placement plans and how far they are."""
    with operator_client(token_file) as rest:
        found = list(rest.items("/v1/placement/plans", timeout_s=timeout))
    if current().json:
        print_json({"plans": found})
        return
    print_table(
        ["plan", "kind", "state", "moves", "done", "bytes to copy", "made by"],
        [
            [
                *(plan["id"], _what(plan), plan["state"], plan["move_count"], plan["progress"]["done"]),
                *(f"{plan['copied_bytes']:,}", "balancer" if plan["automatic"] else "operator"),
            ]
            for plan in found[-_LISTED_MAX:]
        ],
        empty="There is no plan.",
    )


@placement.command("show", examples=["penstock placement show plc_4fZk --token-file operator.token"])
@click.argument("plan")
@token_option
@timeout_option
def placement_show(plan: str, token_file: Path | None, timeout: float) -> None:
    """Show a plan with its moves and how far it is."""
    with operator_client(token_file) as rest:
        _show(rest.get(f"/v1/placement/plans/{plan}", timeout_s=timeout))


@placement.command(
    "confirm", examples=["penstock placement confirm plc_4fZk --token-file operator.token --yes"]
)
@click.argument("plan")
@click.option("--yes", is_flag=True, help="Do not ask.")
@token_option
@timeout_option
def placement_confirm(plan: str, yes: bool, token_file: Path | None, timeout: float) -> None:
    """Begin a plan's moves. Refused if the cluster has changed so that the plan no longer applies.

    It asks before, and needs --yes where there is no terminal.
    """
    with operator_client(token_file) as rest:
        if not yes:
            found = rest.get(f"/v1/placement/plans/{plan}", timeout_s=timeout)
            must_agree(
                f"{found['move_count']} partitions change, {found['copied_bytes']:,} bytes are copied. Go on?"
            )
        with progress("Confirming"):
            found = rest.post(f"/v1/placement/plans/{plan}/confirm", {}, timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    say(f"Plan {plan} is {found['state']}. `penstock placement show {plan}` shows how far it is.")


@placement.command("cancel", examples=["penstock placement cancel plc_4fZk --token-file operator.token"])
@click.argument("plan")
@token_option
@timeout_option
def placement_cancel(plan: str, token_file: Path | None, timeout: float) -> None:
    """Cancel a plan: what has moved stays where it is, what is moving goes back."""
    with operator_client(token_file) as rest, progress("Cancelling"):
        found = rest.delete(f"/v1/placement/plans/{plan}", timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    say(f"Plan {plan} is cancelled; {found['progress']['done']} of {found['move_count']} moves were done.")


@placement.command(
    "balancer",
    examples=[
        "penstock placement balancer --token-file operator.token",
        "penstock placement balancer --mode on --bytes-per-s 33554432 --token-file operator.token",
    ],
)
@click.option(
    "--mode", type=click.Choice(["off", "advise", "on"]), help="advise makes plans and confirms none."
)
@click.option("--bytes-per-s", type=int, help="What all moves together may copy a second.")
@click.option("--moves-at-once", type=int, help="Partitions that move at the same time.")
@token_option
@timeout_option
def placement_balancer(
    mode: str | None,
    bytes_per_s: int | None,
    moves_at_once: int | None,
    token_file: Path | None,
    timeout: float,
) -> None:
    """Show the balancer's switch, budget and last look, or set them."""
    given = {"mode": mode, "bytes_per_s": bytes_per_s, "moves_at_once": moves_at_once}
    wanted = {name: value for name, value in given.items() if value is not None}
    with operator_client(token_file) as rest:
        if wanted:
            found = rest.patch("/v1/placement/balancer", wanted, timeout_s=timeout)
        else:
            found = rest.get("/v1/placement/balancer", timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    say(
        f"The balancer is {found['mode']}; moves copy {found['bytes_per_s']:,} bytes a second at most, "
        f"{found['moves_at_once']} at once."
    )
    if found["skew"]:
        say(f"Skew at its last look: {_skew(found['skew'])}.")
    if found["waits"]:
        say(f"It waits: {found['waits']}.")


@placement.command("cells", examples=["penstock placement cells --token-file operator.token"])
@token_option
@timeout_option
def placement_cells(token_file: Path | None, timeout: float) -> None:
    """List cells: brokers that some tenants' topics are placed on."""
    with operator_client(token_file) as rest:
        found = list(rest.items("/v1/placement/cells", timeout_s=timeout))
    if current().json:
        print_json({"cells": found})
        return
    print_table(
        ["cell", "brokers", "hosts", "tenants"],
        [
            [one["name"], _listed(one["brokers"]), _listed(one["hosts"]), one["tenants"]]
            for one in found[:_LISTED_MAX]
        ],
        empty="There is no cell: tenants may be on every broker.",
    )


@placement.command(
    "set-cell",
    examples=["penstock placement set-cell north --broker 1 --broker 2 --token-file operator.token"],
)
@click.argument("name")
@click.option("--broker", "brokers", type=int, multiple=True, help="A broker of it; give it once for each.")
@click.option("--host", "hosts", multiple=True, help="All brokers on this host, also those that join later.")
@token_option
@timeout_option
def placement_set_cell(
    name: str, brokers: tuple[int, ...], hosts: tuple[str, ...], token_file: Path | None, timeout: float
) -> None:
    """Make a cell, or change which brokers are in it."""
    wanted = {"brokers": list(brokers), "hosts": list(hosts)}
    with operator_client(token_file) as rest, progress("Setting the cell"):
        known = {one["name"] for one in rest.items("/v1/placement/cells", timeout_s=timeout)}
        if name in known:
            found = rest.patch(f"/v1/placement/cells/{name}", wanted, timeout_s=timeout)
        else:
            found = rest.post("/v1/placement/cells", {"name": name, **wanted}, timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    say(f"Cell {name} has brokers {_listed(found['brokers'])} and hosts {_listed(found['hosts'])}.")


@placement.command(
    "delete-cell", examples=["penstock placement delete-cell north --token-file operator.token"]
)
@click.argument("name")
@token_option
@timeout_option
def placement_delete_cell(name: str, token_file: Path | None, timeout: float) -> None:
    """Delete a cell that no tenant is in."""
    with operator_client(token_file) as rest, progress("Deleting"):
        rest.delete(f"/v1/placement/cells/{name}", timeout_s=timeout)
    if current().json:
        print_json({"cell": name, "deleted": True})
        return
    say(f"Cell {name} is deleted.")


def _show(plan: dict[str, Any]) -> None:
    if current().json:
        print_json(plan)
        return
    say(f"Plan {plan['id']} ({_what(plan)}) is {plan['state']}.")
    say(
        f"{plan['move_count']} partitions change, {plan['copied_bytes']:,} bytes are copied: about {plan['copy_s']} s "
        "at the budget."
    )
    print_table(
        ["weighed", "skew before", "skew after"],
        [[name, f"{plan['skew_before'][name]} %", f"{plan['skew_after'][name]} %"] for name in _WEIGHED],
    )
    if plan["state"] != "draft":
        say(", ".join(f"{number} {state}" for state, number in plan["progress"].items()) + ".")
    print_table(
        ["partition", "tenant", "from", "to", "bytes"],
        [
            [
                *(f"{move['topic']}-{move['partition']}", move["tenant"]),
                *(_listed(move["replicas"]), _listed(move["target"]), f"{move['copied_bytes']:,}"),
            ]
            for move in plan["moves"][:_LISTED_MAX]
        ],
        empty="Nothing has to move.",
    )
    if plan["move_count"] > _LISTED_MAX:
        say(f"{plan['move_count'] - _LISTED_MAX} more; --json shows them all.")


def _what(plan: dict[str, Any]) -> str:
    if plan["kind"] == "drain":
        return f"drain broker {plan['broker']}"
    if plan["kind"] == "move_tenant":
        return f"move {plan['tenant']} to {plan['cell'] or 'every broker'}"
    return str(plan["kind"])


def _skew(skew: dict[str, float]) -> str:
    return ", ".join(f"{name} {skew[name]} %" for name in _WEIGHED if name in skew)


def _listed(items: list[Any]) -> str:
    return ", ".join(str(item) for item in items) or "-"
