"""`penstock payment account` and `penstock payment address`: a tenant's currency, and where it is for taxes."""

from typing import Any

import click

from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_table, say
from penstock.cli.rest import rest_client
from penstock.cli.waits import SECONDS

_ADDRESS = "/v1/billing-account/address"
_TAXED = {
    "none": "no tax",
    "table": "by the table of its terms",
    "stripe_tax": "as Stripe Tax states it",
}
_timeout = click.option(
    "--timeout", type=SECONDS, default=30.0, show_default=True, help="Seconds to wait for an answer."
)


@click.command(
    "account",
    cls=Command,
    short_help="Show the tenant's currency, its tax and its address.",
    examples=["penstock payment account"],
)
@_timeout
def payment_account(timeout: float) -> None:
    """Show what the tenant is invoiced in, how it is taxed, and where it is for taxes.

    The currency is chosen when a tenant is made, for good: penstock tenant create NAME --currency EUR.
    """
    with rest_client() as rest:
        account = rest.get("/v1/billing-account", timeout_s=timeout)
        address = rest.get(_ADDRESS, timeout_s=timeout)
    if current().json:
        print_json({**account, "address": address})
        return
    print_table(
        ["currency", "tax", "address", "tax id"],
        [[account["currency"] or "-", _TAXED[account["tax_by"]], _line(address), _tax_id(address)]],
    )
    if account["tax_by"] == "stripe_tax" and not address["country"]:
        say("No invoice with tax is issued without an address: penstock payment address --country DE ...")


@click.command(
    "address",
    cls=ChangingCommand,
    short_help="Set who and where the tenant is for invoices.",
    examples=[
        "penstock payment address --country DE --postal-code 10115 --city Berlin --tax-id eu_vat:DE123456789",
        "penstock payment address --legal-name 'Acme GmbH' --country DE --city Berlin --email books@acme.example",
    ],
)
@click.option("--country", required=True, help="Two letters of ISO 3166-1: DE.")
@click.option("--state", default="", help="State, province or region.")
@click.option("--postal-code", default="", help="As the country writes it.")
@click.option("--city", default="", help="Town.")
@click.option("--line1", default="", help="Street and number.")
@click.option("--line2", default="", help="Building, floor or department.")
@click.option(
    "--tax-id", default="", metavar="TYPE:NUMBER", help="As Stripe names its type: eu_vat:DE123456789."
)
@click.option("--legal-name", default="", help="Who is invoiced, as its register calls it.")
@click.option("--email", default="", help="Where issued invoices go; else to the people who may pay them.")
@click.option("--no-mail", is_flag=True, help="Send no issued invoices by e-mail.")
@_timeout
def payment_address(
    country: str,
    state: str,
    postal_code: str,
    city: str,
    line1: str,
    line2: str,
    tax_id: str,
    legal_name: str,
    email: str,
    no_mail: bool,
    timeout: float,
) -> None:
    """Set the tenant's billing profile, all of it. It stands on the invoices that are issued from then on."""
    kind, colon, number = tax_id.partition(":")
    if tax_id and not (colon and kind and number):
        raise click.BadParameter(f"{tax_id[:80]!r} is not like eu_vat:DE123456789", param_hint="--tax-id")
    body = {
        "country": country,
        "state": state,
        "postal_code": postal_code,
        "city": city,
        "line1": line1,
        "line2": line2,
        "tax_id_type": kind,
        "tax_id": number,
        "legal_name": legal_name,
        "email": email,
        "no_mail": no_mail,
    }
    with rest_client() as rest:
        found = rest.put(_ADDRESS, body, timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    say(f"The tenant is at {_line(found)}, tax id {_tax_id(found)}.")


def _line(address: dict[str, Any]) -> str:
    parts = ("line1", "line2", "postal_code", "city", "state", "country")
    return ", ".join(str(address[name]) for name in parts if address[name]) or "-"


def _tax_id(address: dict[str, Any]) -> str:
    return f"{address['tax_id_type']} {address['tax_id']}" if address["tax_id"] else "-"
