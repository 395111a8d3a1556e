"""`penstock budget …`: what the tenant may use in a day or month, and what of it is used; over REST."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from penstock.cli import described, named
from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.quantities import SIZES, read_micro, read_quantity
from penstock.cli.topic_changes import timeout_option
from penstock.cli.whose import client_for, whose_option
from penstock.contract.resources import BUDGETS
from penstock.rest.client import RestClient, segment
from penstock.rules.rating import grouped_amount

_BAR = 20
_whose = whose_option("budgets")
_AMOUNT = (
    "In a period: 500GB, 1000000 messages, or 12.50 of the currency. A higher one releases within seconds."
)
_COLUMNS: dict[str, Callable[[dict[str, Any]], object]] = {
    "budget": lambda budget: budget["id"],
    "name": lambda budget: budget["name"],
    "of": lambda budget: _of(budget),
    "used": lambda budget: "?" if budget["used"] is None else _shown(budget, budget["used"]),
    "amount": lambda budget: f"{_shown(budget, budget['amount'])} a {budget['period']}",
    "": lambda budget: _bar(budget["used_percent"]),
    "at the full amount": lambda budget: _policy(budget),
    "period ends": lambda budget: budget["period_ends"],
}


@click.group(name="budget", cls=Group, path=("budget",))
def budget() -> None:
    """What the tenant may use in a day or month: list, show, create, set, remove."""


@budget.command("list", examples=["penstock budget list", "penstock budget list --json"])
@_whose
@timeout_option
def budget_list(token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """List the tenant's budgets and what is used of them."""
    with client_for(token_file, tenant) as rest:
        budgets = list(rest.items("/v1/budgets", timeout_s=timeout))
    described.print_list(
        "budgets",
        budgets,
        _COLUMNS,
        empty="No budgets. Make one: penstock budget create monthly --measure bytes --amount 500GB",
    )


@budget.command("show", examples=["penstock budget show monthly", "penstock budget show bud_... --json"])
@click.argument("budget_id", metavar="ID|NAME")
@_whose
@timeout_option
def budget_show(budget_id: str, token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """Show a budget and what is used of it."""
    with client_for(token_file, tenant) as rest:
        _show(rest.get(_path(rest, budget_id, timeout), timeout_s=timeout))


@budget.command(
    "create",
    cls=ChangingCommand,
    examples=[
        "penstock budget create monthly --measure bytes --amount 500GB",
        "penstock budget create tests --measure messages --amount 1000000 --period day --policy refuse_produce",
        "penstock budget create spend --measure cost --amount 250.00 --policy slow --slow-bytes-per-s 100000",
        "penstock budget create ceiling --measure cost --amount 500.00 --policy stop_growth",
        "penstock budget create robot --measure bytes --amount 1TB --service-account sa_... --policy refuse",
    ],
)
@click.argument("name")
@click.option("--amount", required=True, help=_AMOUNT)
@described.options_to_make(
    BUDGETS, without=("name", "amount"), defaults={"period": "month", "policy": "notify"}
)
@_whose
@timeout_option
def budget_create(
    name: str, amount: str, token_file: Path | None, tenant: str | None, timeout: float, **given: Any
) -> None:
    """Make a budget. What the period is known to have used counts, and brokers count from now on."""
    body = described.body({"name": name, "amount": _read_amount(given["measure"], amount), **given})
    with client_for(token_file, tenant) as rest, progress("Making a budget"):
        made = rest.post("/v1/budgets", body, timeout_s=timeout)
    _answer(made)


@budget.command(
    "set",
    cls=ChangingCommand,
    examples=[
        "penstock budget set monthly --amount 1TB",
        "penstock budget set bud_... --policy notify --threshold 90",
    ],
)
@click.argument("budget_id", metavar="ID|NAME")
@click.option("--amount", help=_AMOUNT)
@described.options_to_change(BUDGETS, without=("amount",))
@_whose
@timeout_option
def budget_set(
    budget_id: str,
    amount: str | None,
    token_file: Path | None,
    tenant: str | None,
    timeout: float,
    **given: Any,
) -> None:
    """Change what is given. What a budget counts stays: make another one for that."""
    body = described.changes(BUDGETS, {"amount": amount, **given})
    with client_for(token_file, tenant) as rest, progress("Changing"):
        path = _path(rest, budget_id, timeout)
        if amount is not None:
            body["amount"] = _read_amount(rest.get(path, timeout_s=timeout)["measure"], amount)
        changed = rest.patch(path, body, timeout_s=timeout)
    _answer(changed)


@budget.command("remove", cls=ChangingCommand, examples=["penstock budget remove monthly"])
@click.argument("budget_id", metavar="ID|NAME")
@_whose
@timeout_option
def budget_remove(budget_id: str, token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """Remove a budget with what it counted. What it stopped goes on."""
    with client_for(token_file, tenant) as rest, progress("Removing"):
        rest.delete(_path(rest, budget_id, timeout), timeout_s=timeout)
    if current().json:
        print_json({"budget": budget_id, "removed": True})
        return
    say(f"Removed {budget_id}.")


def _path(rest: RestClient, budget_id: str, timeout_s: float) -> str:
    """The address of a budget by its id, or by its name. Raises `NotFound`."""
    return f"/v1/budgets/{segment(named.BUDGETS.id_of(rest, budget_id, timeout_s))}"


def _read_amount(measure: str, amount: str) -> int:
    try:
        if measure == "bytes":
            return read_quantity(amount, SIZES)
        if measure == "messages":
            return read_quantity(amount, {})
        return read_micro("--amount", amount)
    except ValueError as error:
        raise click.UsageError(f"--amount: {error}") from None


def _answer(changed: dict[str, Any]) -> None:
    _show(changed)
    if not current().json and not changed["delivered"]:
        say("The brokers do not have it yet; they get it as soon as they answer.")


def _show(found: dict[str, Any]) -> None:
    if current().json:
        print_json(found)
        return
    used = "the brokers do not say it" if found["used"] is None else _shown(found, found["used"])
    print_table(
        ["", ""],
        [
            ["budget", found["id"]],
            ["name", found["name"]],
            ["of", _of(found)],
            ["amount", f"{_shown(found, found['amount'])} a {found['period']}"],
            ["used", f"{used}  {_bar(found['used_percent'])}".rstrip()],
            ["counted", _counted(found)],
            ["period", f"{found['period_began']} to {found['period_ends']}"],
            ["at the full amount", _policy(found)],
            *_ceiling(found),
            ["thresholds", ", ".join(f"{one} %" for one in found["thresholds"]) or "none"],
        ],
    )


def _ceiling(budget: dict[str, Any]) -> list[list[str]]:
    if budget["policy"] != "stop_growth":
        return []
    expected = (
        "not known yet"
        if budget["forecast"] is None
        else f"{_shown(budget, budget['forecast'])} at the month's end"
    )
    stopped = f"refused since {budget['growth_stopped_at']}" if budget["growth_stopped_at"] else "allowed"
    return [["expected", expected], ["growth", stopped]]


def _counted(budget: dict[str, Any]) -> str:
    """What counts, and since when where that is not the period's beginning."""
    what = "produced and delivered" if budget.get("counts_reads") else "produced"
    since = budget.get("counted_since", budget["period_began"])
    return (
        what
        if since == budget["period_began"]
        else f"{what}, since {since}; before that {_shown(budget, budget.get('used_before', 0))}"
    )


def _of(budget: dict[str, Any]) -> str:
    parts = [budget["topic"] and f"topic {budget['topic']}", budget["service_account"] or ""]
    return " and ".join(part for part in parts if part) or "the tenant"


def _policy(budget: dict[str, Any]) -> str:
    return (
        f"slow to {budget['slow_bytes_per_s']} B/s" if budget["policy"] == "slow" else str(budget["policy"])
    )


def _shown(budget: dict[str, Any], amount: int) -> str:
    if budget["measure"] == "cost":
        return f"{grouped_amount(amount)} {budget['unit'].removeprefix('micro-')}".rstrip()
    if budget["measure"] == "messages":
        return f"{amount:,} message{'' if amount == 1 else 's'}"
    for unit in ("TB", "GB", "MB", "kB"):
        if amount >= SIZES[unit]:
            return f"{Decimal(amount) / SIZES[unit]:,.1f} {unit}"
    return f"{amount} B"


def _bar(percent: int | None) -> str:
    """Use, as a bar of characters with its number: readable without colour, and by a screen reader."""
    if percent is None:
        return ""
    filled = min(_BAR, percent * _BAR // 100)
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {percent} %"
