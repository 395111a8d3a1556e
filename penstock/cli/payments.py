"""`penstock payment`: what is paid and owed, how a tenant pays, and what operators note of receivables."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.billing_accounts import payment_account, payment_address
from penstock.cli.cluster import operator_client, token_option
from penstock.cli.invocation import Group, current
from penstock.cli.invoice import moment, money
from penstock.cli.output import print_json, print_table, say
from penstock.cli.rest import rest_client
from penstock.cli.waits import SECONDS
from penstock.rest.client import segment

_STATES = ("open", "past_due", "paid", "uncollectible", "void")
_timeout_option = click.option(
    "--timeout", type=SECONDS, default=30.0, show_default=True, help="Seconds to wait for an answer."
)


@click.group(name="payment", cls=Group, path=("payment",))
def payment() -> None:
    """Payments and receivables: list, show, note what came by bank."""


payment.add_command(payment_account)
payment.add_command(payment_address)


@payment.command("list", examples=["penstock payment list"])
@_timeout_option
def payment_list(timeout: float) -> None:
    """List the tenant's payments and refunds, oldest first."""
    with rest_client() as rest:
        payments = list(rest.items("/v1/payments", timeout_s=timeout))
    if current().json:
        print_json({"payments": payments})
        return
    print_table(
        ["time", "invoice", "kind", "by", "reference", "amount"],
        [
            [
                moment(one["at"]),
                one["invoice"],
                one["kind"],
                one["source"],
                one["reference"],
                money(one, one["amount_micro"]),
            ]
            for one in payments
        ],
        empty="No payments yet. What is owed of an invoice: penstock payment show INVOICE",
    )


@payment.command(
    "show", short_help="Show what is owed of an invoice.", examples=["penstock payment show inv_..."]
)
@click.argument("invoice", metavar="INVOICE")
@_timeout_option
def payment_show(invoice: str, timeout: float) -> None:
    """Show whether an invoice is paid, when it is due, and where it can be paid."""
    with rest_client() as rest:
        _print_receivable(rest.get(f"/v1/invoices/{segment(invoice)}/payment", timeout_s=timeout))


@payment.command(
    "receivables",
    short_help="List what is owed of every invoice, for operators.",
    examples=["penstock payment receivables --state past_due --token-file operator.token"],
)
@click.option("--state", type=click.Choice(_STATES), help="Only those in this state.")
@token_option
@_timeout_option
def payment_receivables(state: str | None, token_file: Path | None, timeout: float) -> None:
    """List what is owed of every issued invoice of all tenants, oldest first."""
    asked = {} if state is None else {"state": state}
    with operator_client(token_file) as rest:
        receivables = list(rest.items("/v1/billing/receivables", asked, timeout_s=timeout))
    if current().json:
        print_json({"receivables": receivables})
        return
    print_table(
        ["tenant", "invoice", "number", "state", "due", "open", "problem"],
        [
            [
                one["tenant"],
                one["invoice"],
                _number(one),
                one["state"],
                moment(one["due_at"]),
                money(one, one["open_micro"]),
                one["problem"],
            ]
            for one in receivables
        ],
        empty="No invoice is asked for in this state.",
    )


@payment.command(
    "paid",
    short_help="Note that an invoice was paid by bank, for operators.",
    examples=["penstock payment paid inv_... --reference 'BANK 4711' --token-file operator.token"],
)
@click.argument("invoice", metavar="INVOICE")
@click.option("--reference", required=True, help="What the bank calls it. It is counted once.")
@token_option
@_timeout_option
def payment_paid(invoice: str, reference: str, token_file: Path | None, timeout: float) -> None:
    """Note that all that is open of the invoice came by bank. The same reference again changes nothing."""
    _note(invoice, "paid", {"reference": reference}, token_file, timeout)


@payment.command(
    "refunded",
    short_help="Note that an overpaid amount was given back by bank, for operators.",
    examples=["penstock payment refunded inv_... --reference 'BANK 4712' --token-file operator.token"],
)
@click.argument("invoice", metavar="INVOICE")
@click.option("--reference", required=True, help="What the bank calls it. It is counted once.")
@token_option
@_timeout_option
def payment_refunded(invoice: str, reference: str, token_file: Path | None, timeout: float) -> None:
    """Note that what credit notes left overpaid was given back by bank. Stripe gives back what was paid there."""
    _note(invoice, "refunded", {"reference": reference}, token_file, timeout)


@payment.command(
    "give-up",
    short_help="Mark an invoice as uncollectible, for operators.",
    examples=["penstock payment give-up inv_... --reason insolvent --token-file operator.token"],
)
@click.argument("invoice", metavar="INVOICE")
@click.option("--reason", required=True, help="Why, for the audit log.")
@token_option
@_timeout_option
def payment_give_up(invoice: str, reason: str, token_file: Path | None, timeout: float) -> None:
    """Do not ask for the invoice any more: it is uncollectible. A late payment still pays it."""
    _note(invoice, "uncollectible", {"reason": reason}, token_file, timeout)


@payment.command(
    "void",
    short_help="Take an unpaid invoice back, for operators.",
    examples=[
        "penstock payment void inv_... --reason 'sent to the wrong company' --token-file operator.token"
    ],
)
@click.argument("invoice", metavar="INVOICE")
@click.option("--reason", required=True, help="Why; it stands in the audit log.")
@token_option
@_timeout_option
def payment_void(invoice: str, reason: str, token_file: Path | None, timeout: float) -> None:
    """Make an unpaid invoice void: nothing of it is asked for, now or later. Its number and its document stay, and what
    it used of prepaid credit stays used. What was paid is given back by a credit note instead.
    """
    _note(invoice, "void", {"reason": reason}, token_file, timeout)


@payment.command(
    "retry",
    short_help="Try to collect an invoice again, for operators.",
    examples=["penstock payment retry inv_... --token-file operator.token"],
)
@click.argument("invoice", metavar="INVOICE")
@token_option
@_timeout_option
def payment_retry(invoice: str, token_file: Path | None, timeout: float) -> None:
    """Compare the invoice with Stripe at once, and charge the tenant's payment method once more."""
    _note(invoice, "retry", {}, token_file, timeout)


@payment.command(
    "method",
    short_help="Show how the tenant pays, or make a page to change it.",
    examples=["penstock payment method", "penstock payment method --page setup"],
)
@click.option(
    "--page",
    type=click.Choice(("setup", "portal")),
    help="Make a page at Stripe: setup names a payment method, portal changes or removes one.",
)
@_timeout_option
def payment_method(page: str | None, timeout: float) -> None:
    """Show how the tenant pays and whether Stripe collects at all, or make a page at Stripe to change it."""
    with rest_client() as rest:
        if page is None:
            shown = rest.get("/v1/payment-method", timeout_s=timeout)
        else:
            shown = rest.post("/v1/payment-method/page", {"page": page}, timeout_s=timeout)
    if current().json:
        print_json(shown)
    elif page is not None:
        click.echo(shown["url"])
    elif shown["collection"] == "off":
        click.echo("Online payment is off: invoices are paid by bank.")
    else:
        click.echo(
            shown["method"] or "No payment method is named. Name one: penstock payment method --page setup"
        )


@payment.command(
    "reconciliation",
    short_help="Show differences from Stripe, for operators.",
    examples=["penstock payment reconciliation --now --token-file operator.token"],
)
@click.option("--now", is_flag=True, help="Compare now; else show the last report.")
@token_option
@click.option(
    "--timeout", type=SECONDS, default=120.0, show_default=True, help="Seconds to wait for an answer."
)
def payment_reconciliation(now: bool, token_file: Path | None, timeout: float) -> None:
    """Show each difference between what is owed and paid here and at Stripe."""
    path = "/v1/billing/reconciliation"
    with operator_client(token_file) as rest:
        report = rest.post(path, {}, timeout_s=timeout) if now else rest.get(path, timeout_s=timeout)
    if current().json:
        print_json(report)
        return
    print_table(
        ["kind", "tenant", "invoice", "at Stripe", "here", "there"],
        [
            [one[name] for name in ("kind", "tenant", "invoice", "stripe_invoice", "ours", "theirs")]
            for one in report["differences"]
        ],
        empty=(
            "Payment through Stripe is off."
            if report["collection"] == "off"
            else f"No difference over {report['compared']} receivables."
            if report["at"]
            else "No comparison was made yet. Make one with --now"
        ),
    )


def _note(invoice: str, what: str, body: dict[str, str], token_file: Path | None, timeout: float) -> None:
    with operator_client(token_file) as rest:
        _print_receivable(
            rest.post(f"/v1/billing/receivables/{segment(invoice)}/{what}", body, timeout_s=timeout)
        )


def _number(row: dict[str, Any]) -> str:
    """The invoice's number over all tenants, or within its tenant where there is none."""
    return row.get("issuer_number") or f"no. {row['invoice_number']}"


def _print_receivable(row: dict[str, Any]) -> None:
    if current().json:
        print_json(row)
        return
    print_table(
        ["invoice", "number", "state", "due", "total", "credited", "paid", "refunded", "open"],
        [
            [
                row["invoice"],
                _number(row),
                row["state"],
                moment(row["due_at"]),
                *(
                    money(row, row[f"{name}_micro"])
                    for name in ("total", "credited", "paid", "refunded", "open")
                ),
            ]
        ],
    )
    if row["overpaid_micro"]:
        say(f"{money(row, row['overpaid_micro'])} is to be refunded.")
    if row["pay_url"]:
        say(f"Pay at {row['pay_url']}")
    if row.get("waits"):
        say("It is less than Stripe charges, and waits for a later invoice that carries it.")
    if row.get("carried_by"):
        say(f"It is collected with {row['carried_by']}.")
    by_bank = row["state"] in ("open", "past_due") and not (
        row["pay_url"] or row.get("waits") or row.get("carried_by")
    )
    # A service without a bank account says none, nor does one of before 0.2.
    if by_bank and row.get("payment_reference"):
        say(f"Pay by bank with the reference {row['payment_reference']}.")
    if row["problem"]:
        say(f"Not collected: {row['problem']}")
    if row.get("retry_at"):
        say(f"Stripe is tried again at {moment(row['retry_at'])}.")
    if row.get("unsent"):
        say("Stripe has not heard of its last change yet.")
