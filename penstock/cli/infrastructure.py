"""`penstock infrastructure`: for operators, what the infrastructure costs, and FOCUS exports of it."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.cluster import operator_client, token_option
from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Command, Group, current
from penstock.cli.invoice import moment
from penstock.cli.output import print_json, print_table, say
from penstock.cli.waits import SECONDS
from penstock.contract.errors import InvalidRequest
from penstock.contract.limits import PAGE_ITEMS_MAX
from penstock.rest.client import segment
from penstock.rules import focus_costs
from penstock.rules.rating import grouped_amount

_IMPORTS = "/v1/billing/cost-imports"
_timeout = click.option(
    "--timeout", type=SECONDS, default=60.0, show_default=True, help="Seconds to wait for an answer."
)


@click.group(name="infrastructure", cls=Group, path=("infrastructure",))
def infrastructure() -> None:
    """What the infrastructure costs, for operators: list, import FOCUS exports, undo them."""


@infrastructure.command(
    "list", cls=Command, examples=["penstock infrastructure list --token-file operator.token"]
)
@token_option
@_timeout
def infrastructure_list(token_file: Path | None, timeout: float) -> None:
    """List what was entered or taken in. `penstock margins` divides it over tenants."""
    with operator_client(token_file) as rest:
        found = list(rest.items("/v1/billing/costs", {"limit": PAGE_ITEMS_MAX}, timeout_s=timeout))
    if current().json:
        print_json({"costs": found})
        return
    print_table(
        ["cost", "id", "kind", "divided by", "pieces", "price of one", "for", "from", "until", "source"],
        [
            [
                *(one["name"], one["id"], one["kind"], one["driver"], one["amount"]),
                f"{grouped_amount(one['price_micro'], 2)} {one['currency']}",
                *(one["per"], moment(one["from_at"])),
                "-" if one["until_at"] is None else moment(one["until_at"]),
                one["source"] or "entered",
            ]
            for one in found
        ],
        empty="No cost is entered: take in an export with `penstock infrastructure import`.",
    )


@infrastructure.command(
    "import",
    cls=ChangingCommand,
    short_help="Take in a FOCUS 1.2 export.",
    examples=[
        "penstock infrastructure import focus.csv --source aws --dry-run --token-file operator.token",
        "penstock infrastructure import focus.csv --source aws --cost-column BilledCost --token-file operator.token",
    ],
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--source", required=True, help="Whose export it is.")
@click.option(
    "--cost-column",
    type=click.Choice(focus_costs.COST_COLUMNS),
    default=focus_costs.EFFECTIVE,
    show_default=True,
    help="What a row costs.",
)
@token_option
@_timeout
def infrastructure_import(
    file: Path, source: str, cost_column: str, token_file: Path | None, timeout: float
) -> None:
    """Take in the CSV of a FOCUS 1.2 export: what the same source had in its months is replaced.

    The file is read and summed up here, so it may be large. The same again changes nothing.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            export = focus_costs.read(lines, cost_column)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file}: cannot be read: {error}") from None
    body = {
        "source": source,
        "csv": "".join(focus_costs.compact(export, cost_column)),
        "cost_column": cost_column,
    }
    with operator_client(token_file) as rest:
        answer = rest.post(_IMPORTS, body, timeout_s=timeout)
    if current().json:
        print_json(answer)
        return
    counts = ", ".join(f"{answer[name]} {name}" for name in ("created", "changed", "removed", "unchanged"))
    say(
        f"{answer['id']}: {export.rows:,} rows are {answer['costs']} costs of {', '.join(answer['months'])}: {counts}."
    )
    for currency, micro in answer["totals"].items():
        say(f"Together {grouped_amount(micro, 2)} {currency}.")


@infrastructure.command(
    "imports", cls=Command, examples=["penstock infrastructure imports --token-file operator.token"]
)
@token_option
@_timeout
def infrastructure_imports(token_file: Path | None, timeout: float) -> None:
    """List the exports that were taken in."""
    with operator_client(token_file) as rest:
        found = list(rest.items(_IMPORTS, {"limit": PAGE_ITEMS_MAX}, timeout_s=timeout))
    if current().json:
        print_json({"imports": found})
        return
    print_table(
        ["import", "source", "months", "rows", "costs", "total", "made", "state"],
        [
            [
                *(one["id"], one["source"], ", ".join(one["months"]), one["rows"], one["costs"]),
                _totals(one["totals"]),
                moment(one["made_at"]),
                "counts" if one["undone_at"] is None else "undone",
            ]
            for one in found
        ],
        empty="Nothing was taken in yet.",
    )


@infrastructure.command(
    "undo-import",
    cls=ChangingCommand,
    short_help="Undo an import.",
    examples=["penstock infrastructure undo-import cim_4fZ8 --token-file operator.token"],
)
@click.argument("cost_import", metavar="IMPORT")
@token_option
@_timeout
def infrastructure_undo_import(cost_import: str, token_file: Path | None, timeout: float) -> None:
    """Bring back what the source had in the import's months before. The newest import of a month is undone first."""
    with operator_client(token_file) as rest:
        rest.delete(f"{_IMPORTS}/{segment(cost_import)}", timeout_s=timeout)
    if current().json:
        print_json({"import": cost_import, "undone": True})
        return
    say(f"{cost_import} is undone.")


def _totals(totals: dict[str, Any]) -> str:
    return ", ".join(f"{grouped_amount(micro, 2)} {currency}" for currency, micro in totals.items()) or "-"
