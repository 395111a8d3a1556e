"""`penstock terms`: discounts, prepaid credit, tax and the price book of one tenant, for operators."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.cluster import operator_client, token_option
from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Group, current
from penstock.cli.invoice import moment
from penstock.cli.output import print_json, print_table, say
from penstock.cli.price_books import read_json, terms_path
from penstock.cli.waits import SECONDS
from penstock.rules.rating import grouped_amount
from penstock.rules.timestamps import moment_of

_timeout = click.option(
    "--timeout", type=SECONDS, default=15.0, show_default=True, help="Seconds to wait for an answer."
)
PARTS = ("discounts", "credits", "tax")


@click.group(name="terms", cls=Group, path=("terms",))
def terms() -> None:
    """What a tenant has beside the general prices, for operators: show, set, history."""


@terms.command(
    "show",
    short_help="Show a tenant's discounts, prepaid credit and tax.",
    examples=["penstock terms show tn_4fZ8 --token-file operator.token"],
)
@click.argument("tenant_id", metavar="TENANT")
@token_option
@_timeout
def terms_show(tenant_id: str, token_file: Path | None, timeout: float) -> None:
    """Show a tenant's discounts, prepaid credit, tax and own price book, as they are from its next period on."""
    with operator_client(token_file) as rest:
        _show(rest.get(terms_path(tenant_id), timeout_s=timeout))


@terms.command(
    "set",
    cls=ChangingCommand,
    short_help="Set a tenant's discounts, prepaid credit and tax.",
    examples=[
        "penstock terms set tn_4fZ8 terms.json --dry-run --token-file operator.token",
        "penstock terms set tn_4fZ8 terms.json --token-file operator.token",
    ],
)
@click.argument("tenant_id", metavar="TENANT")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@token_option
@_timeout
def terms_set(tenant_id: str, file: Path, token_file: Path | None, timeout: float) -> None:
    """Set a tenant's terms from a JSON file: `discounts`, `credits`, `tax`. What the file does not name stays.

    They hold from the tenant's next period on. A dry run says what the last invoiced period would have cost. A price
    book of its own: penstock price-book assign.
    """
    body = read_json(file, "terms")
    with operator_client(token_file) as rest:
        _show(rest.patch(terms_path(tenant_id), body, timeout_s=timeout))


@terms.command("history", examples=["penstock terms history tn_4fZ8 --token-file operator.token"])
@click.argument("tenant_id", metavar="TENANT")
@token_option
@_timeout
def terms_history(tenant_id: str, token_file: Path | None, timeout: float) -> None:
    """List every change of a tenant's terms, oldest first."""
    with operator_client(token_file) as rest:
        changes = list(rest.items(f"{terms_path(tenant_id)}/history", timeout_s=timeout))
    if current().json:
        print_json({"terms": changes})
        return
    print_table(
        ["revision", "since", "discounts", "grants", "tax", "price book"],
        [
            [
                one["revision"],
                moment(one["changed_at"]),
                len(one["discounts"]),
                len(one["credits"]),
                "-" if one["tax"] is None else one["tax"]["country"],
                one["price_book_sha256"] or "general",
            ]
            for one in changes
        ],
        empty="No terms were set for this tenant.",
    )


def _show(found: dict[str, Any]) -> None:
    if current().json:
        print_json(found)
        return
    rows = [["price book", found["price_book_sha256"] or "general", "", "", ""], *term_rows(found)]
    print_table(["what", "name", "amount", "time", "reason"], rows)
    if found["revision"]:
        say(f"Revision {found['revision']}, for periods that begin from {moment(found['changed_at'])} on.")


def term_rows(found: dict[str, Any]) -> list[list[str]]:
    """A row for each discount, each grant and the tax: what, name, amount, time, reason."""
    return [
        *(_discount(one) for one in found["discounts"]),
        *(_grant(one) for one in found["credits"]),
        *([] if found["tax"] is None else [_tax(found["tax"])]),
    ]


def _discount(one: dict[str, Any]) -> list[str]:
    amount = points_text(one["basis_points"]) if one["basis_points"] else _money(one)
    of = f" of {', '.join(one['meters'])}" if one["meters"] else ""
    return [
        "discount",
        one["id"],
        amount + of,
        f"{_day(one['from_ms'])} to {_day(one['until_ms'])}",
        one["reason"],
    ]


def _grant(one: dict[str, Any]) -> list[str]:
    until = "never expires" if one["expires_ms"] is None else f"until {_day(one['expires_ms'])}"
    return ["credit", one["id"], _money(one), until, one["reason"]]


def _tax(tax: dict[str, Any]) -> list[str]:
    region = f"{tax['country']}-{tax['region']}" if tax["region"] else tax["country"]
    rates = ", ".join(
        f"{points_text(one['basis_points'])} from {_day(one['from_ms'])}" for one in tax["rates"]
    )
    return ["tax", region, "reverse charge" if tax["reverse_charge"] else rates, "", tax["reason"]]


def points_text(basis_points: int) -> str:
    """`1950` as `19.5 %`."""
    return f"{basis_points // 100}.{basis_points % 100:02d}".rstrip("0").rstrip(".") + " %"


def _money(one: dict[str, Any]) -> str:
    return f"{grouped_amount(int(one['amount_micro']), 2)} {one['currency']}"


def _day(at_ms: int) -> str:
    return f"{moment_of(int(at_ms)):%Y-%m-%d}"
