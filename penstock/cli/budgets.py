"""`penstock budget …`: what the tenant may use in a day or month, and what of it is used; over REST."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.quantities import SIZES, read_micro, read_quantity
from penstock.cli.topic_changes import timeout_option
from penstock.cli.whose import client_for, whose_option
from penstock.contract.errors import NotFound
from penstock.rest.client import RestClient, segment
from penstock.rules.rating import grouped_amount

_MEASURES = ("cost", "bytes", "messages")
_POLICIES = ("notify", "slow", "refuse_produce", "refuse", "stop_growth")
_BAR = 20
_whose = whose_option("budgets")
_AMOUNT = "In a period: 500GB, 1000000 messages, or 12.50 of the currency."
_POLICY = (
    "At the full amount: notify nothing else, slow down producers, refuse_produce, or refuse reads too. stop_growth, of"
    " a month's cost: no new topics, partitions and storage while the month is expected to cost it."
)


@click.group(name="budget", cls=Group, path=("budget",))
def budget() -> None:
    """What the tenant may use in a day or month: list, show, create, set, remove."""


@budget.command("list", examples=["penstock budget list", "penstock budget list --json"])
@_whose
@timeout_option
def budget_list(token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """List the tenant's budgets and what is used of them."""
    with client_for(token_file, tenant) as rest:
        found = list(rest.items("/v1/budgets", timeout_s=timeout))
    if current().json:
        print_json({"budgets": found})
        return
    print_table(
        ["budget", "name", "of", "used", "amount", "", "at the full amount", "period ends"],
        [
            [
                one["id"],
                one["name"],
                _of(one),
                "?" if one["used"] is None else _shown(one, one["used"]),
                f"{_shown(one, one['amount'])} a {one['period']}",
                _bar(one["used_percent"]),
                _policy(one),
                one["period_ends"],
            ]
            for one in found
        ],
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
@click.option("--measure", type=click.Choice(_MEASURES), required=True, help="What is counted, as produced.")
@click.option("--amount", required=True, help=_AMOUNT)
@click.option(
    "--period", type=click.Choice(("month", "day")), default="month", show_default=True, help="Of UTC."
)
@click.option("--policy", type=click.Choice(_POLICIES), default="notify", show_default=True, help=_POLICY)
@click.option("--threshold", "thresholds", type=click.IntRange(1, 1_000), multiple=True, default=(50, 80, 100),
              show_default=True, help="Percent at which owners get an e-mail; repeatable.")  # fmt: skip
@click.option("--slow-bytes-per-s", type=click.IntRange(min=1), help="The produce rate of the policy slow.")
@click.option("--topic", help="Count this topic alone.")
@click.option("--service-account", metavar="ID", help="Count the keys of this one alone.")
@click.option(
    "--count-reads", is_flag=True, help="Count each delivery to a consumer, too; of bytes and messages."
)
@_whose
@timeout_option
def budget_create(
    name: str,
    measure: str,
    amount: str,
    period: str,
    policy: str,
    thresholds: tuple[int, ...],
    slow_bytes_per_s: int | None,
    topic: str | None,
    service_account: str | None,
    count_reads: bool,
    token_file: Path | None,
    tenant: str | None,
    timeout: float,
) -> None:
    """Make a budget. What the period is known to have used counts, and brokers count from now on."""
    given = {
        "name": name,
        "period": period,
        "measure": measure,
        "amount": _read_amount(measure, amount),
        "policy": policy,
        "thresholds": list(thresholds),
        "slow_bytes_per_s": slow_bytes_per_s,
        "topic": topic,
        "service_account": service_account,
        "counts_reads": count_reads or None,
    }
    body = {field: value for field, value in given.items() if value is not None}
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
@click.option("--name", help="Another name.")
@click.option("--amount", help=_AMOUNT + " A higher one releases within seconds.")
@click.option("--policy", type=click.Choice(_POLICIES), help=_POLICY)
@click.option(
    "--threshold", "thresholds", type=click.IntRange(1, 1_000), multiple=True, help="All of them; repeatable."
)
@click.option(
    "--slow-bytes-per-s", type=click.IntRange(min=0), help="The produce rate of the policy slow; else 0."
)
@_whose
@timeout_option
def budget_set(
    budget_id: str,
    name: str | None,
    amount: str | None,
    policy: str | None,
    thresholds: tuple[int, ...],
    slow_bytes_per_s: int | None,
    token_file: Path | None,
    tenant: str | None,
    timeout: float,
) -> None:
    """Change what is given. What a budget counts stays: make another one for that."""
    given: dict[str, Any] = {
        "name": name,
        "amount": amount,
        "policy": policy,
        "thresholds": list(thresholds) or None,
        "slow_bytes_per_s": slow_bytes_per_s,
    }
    body = {field: value for field, value in given.items() if value is not None}
    if not body:
        raise click.UsageError(
            "one of --name, --amount, --policy, --threshold and --slow-bytes-per-s is required"
        )
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
    if not budget_id.startswith("bud_"):
        named = [
            one["id"] for one in rest.items("/v1/budgets", timeout_s=timeout_s) if one["name"] == budget_id
        ]
        if not named:
            raise NotFound(f"budget {budget_id!r} does not exist")
        budget_id = named[0]
    return f"/v1/budgets/{segment(budget_id)}"


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


def _ceiling(one: dict[str, Any]) -> list[list[str]]:
    if one["policy"] != "stop_growth":
        return []
    expected = (
        "not known yet" if one["forecast"] is None else f"{_shown(one, one['forecast'])} at the month's end"
    )
    stopped = f"refused since {one['growth_stopped_at']}" if one["growth_stopped_at"] else "allowed"
    return [["expected", expected], ["growth", stopped]]


def _counted(one: dict[str, Any]) -> str:
    """What counts, and since when where that is not the period's beginning."""
    what = "produced and delivered" if one.get("counts_reads") else "produced"
    since = one.get("counted_since", one["period_began"])
    return (
        what
        if since == one["period_began"]
        else f"{what}, since {since}; before that {_shown(one, one.get('used_before', 0))}"
    )


def _of(one: dict[str, Any]) -> str:
    parts = [one["topic"] and f"topic {one['topic']}", one["service_account"] or ""]
    return " and ".join(part for part in parts if part) or "the tenant"


def _policy(one: dict[str, Any]) -> str:
    return f"slow to {one['slow_bytes_per_s']} B/s" if one["policy"] == "slow" else str(one["policy"])


def _shown(one: dict[str, Any], amount: int) -> str:
    if one["measure"] == "cost":
        return f"{grouped_amount(amount)} {one['unit'].removeprefix('micro-')}".rstrip()
    if one["measure"] == "messages":
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
