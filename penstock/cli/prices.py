"""`penstock prices`: the prices of the running period, the tenant's discounts, credit and tax, and the cost so far."""

from typing import Any

import click

from penstock.cli.invocation import Command, current
from penstock.cli.invoice import charge_name, moment, money
from penstock.cli.output import print_fact, print_json, print_part
from penstock.cli.price_books import monthly_texts, price_text_of
from penstock.cli.rest import rest_client
from penstock.cli.terms import term_rows
from penstock.cli.waits import SECONDS


@click.command(
    "prices",
    cls=Command,
    short_help="Prices of the running period, and its cost so far.",
    examples=["penstock prices", "penstock prices --json"],
)
@click.option(
    "--timeout", type=SECONDS, default=15.0, show_default=True, help="Seconds to wait for an answer."
)
def prices(timeout: float) -> None:
    """Show the prices that the tenant has in its running period, its discounts, credit and tax, and the cost so far.

    The cost is an estimate until the period ends: it is what would be billed if it ended now.
    """
    with rest_client() as rest:
        found = rest.get("/v1/prices", timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    book = found["price_book"]
    print_fact(
        "price book",
        [book["name"], book["version"], found["price_book_sha256"]],
        f"Price book  {book['name']} {book['version']} in {found['currency']}",
    )
    print_part(
        "price",
        ["meter", "price"],
        [
            *([meter["meter"], price_text_of(meter)] for meter in book["meters"]),
            *([name, then] for name, _, then in monthly_texts({}, book)),
        ],
    )
    left = {one["grant"]: money(found, one["left_micro"]) for one in found["credits_left"]}
    terms = [[*row, left.get(str(row[1]), "")] for row in term_rows(found)]
    if terms:
        print_part("terms", ["what", "name", "amount", "time", "reason", "left"], terms)
    print_fact("since", [moment(found["begins"])], f"\nCost since {moment(found['begins'])}, so far")
    print_part("cost", ["line", "quantity", "amount"], [*_lines(found), *_charges(found)])
    total = money(found, found["total_micro"])
    # A service of before does not say it.
    more = ", and tax as Stripe Tax will state it" if found.get("tax_stated_by") else ""
    print_fact("total", [total], f"Total so far  {total}{more}")


def _lines(found: dict[str, Any]) -> list[list[object]]:
    return [
        [line["meter"], int(line["quantity"]), money(found, line["amount_micro"])] for line in found["lines"]
    ]


def _charges(found: dict[str, Any]) -> list[list[object]]:
    return [[charge_name(found, one), "", money(found, one["amount_micro"])] for one in found["charges"]]
