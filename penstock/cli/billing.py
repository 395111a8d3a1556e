"""`penstock billing`: for operators, invoices that are still drafts, and credit notes."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.cluster import operator_client, token_option
from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Group, current
from penstock.cli.invoice import moment, money
from penstock.cli.output import print_json, print_table, say
from penstock.cli.quantities import read_micro
from penstock.cli.waits import SECONDS
from penstock.rest.client import segment

_HOUR_S = 3_600


@click.group(name="billing", cls=Group, path=("billing",))
def billing() -> None:
    """Draft invoices and credit notes, for operators: list, finalize, credit."""


@billing.command("drafts", examples=["penstock billing drafts --token-file operator.token"])
@token_option
@click.option(
    "--timeout", type=SECONDS, default=30.0, show_default=True, help="Seconds to wait for an answer."
)
def billing_drafts(token_file: Path | None, timeout: float) -> None:
    """List every invoice that is still a draft, with the reasons and the next steps.

    A draft that is older than a day is an alert. Metrics and the control plane's log show it, too.
    """
    with operator_client(token_file) as rest:
        drafts = list(rest.items("/v1/billing/drafts", timeout_s=timeout))
        alerts = rest.get("/v1/billing/drafts", {"limit": 1}, timeout_s=timeout)["alerts"]
    if current().json:
        print_json({"drafts": drafts, "alerts": alerts})
        return
    print_table(
        ["tenant", "invoice", "cut", "period's end", "waits", ""],
        [
            [
                draft["tenant_name"],
                draft["invoice"],
                draft["cut"],
                moment(draft["period_end"]),
                _age(int(draft["age_s"])),
                "overdue" if draft["overdue"] else "",
            ]
            for draft in drafts
        ],
        empty="No invoice is a draft.",
    )
    for draft in drafts:
        click.echo()
        click.echo(f"{draft['invoice']} of {draft['tenant_name']}")
        for reason in draft["reasons"]:
            click.echo(f"  because  {reason}")
        for step in draft["next_steps"]:
            click.echo(f"  next     {step}")
    for alert in alerts:
        click.secho(f"Alert: {alert}", fg="red", err=True)


@billing.command(
    "finalize",
    short_help="Finalize a draft invoice.",
    examples=[
        "penstock billing finalize cut_... --token-file operator.token",
        "penstock billing finalize cut_... --waive 0123456789abcdef0123456789abcdef-0 --reason 'its brokers are gone'",
    ],
)
@click.argument("cut", metavar="CUT")
@click.option(
    "--waive",
    multiple=True,
    metavar="TOPIC_ID-PARTITION",
    help="Do not bill this partition of a deleted topic from this cut on. May be repeated.",
)
@click.option("--reason", default="", help="Why it is waived, for the audit log; required with --waive.")
@token_option
@click.option(
    "--timeout", type=SECONDS, default=120.0, show_default=True, help="Seconds to wait for an answer."
)
def billing_finalize(
    cut: str, waive: tuple[str, ...], reason: str, token_file: Path | None, timeout: float
) -> None:
    """Ask the brokers for the cut again, wake the usage pipeline, and issue the invoice if it is complete.

    It may be repeated. It prints what was done and why the invoice is still a draft.
    """
    if waive and not reason:
        raise click.UsageError("--waive needs a --reason.")
    with operator_client(token_file) as rest:
        outcome = rest.post(
            f"/v1/billing/cuts/{segment(cut)}/finalize",
            {"waive": list(waive), "reason": reason},
            timeout_s=timeout,
        )
    if current().json:
        print_json(outcome)
        return
    _print_outcome(outcome)


@billing.command(
    "credit",
    cls=ChangingCommand,
    short_help="Issue a credit note for an invoice.",
    examples=[
        "penstock billing credit inv_... --amount 5.00 --reason goodwill --reference TICKET-4711 "
        "--token-file operator.token",
        "penstock billing credit inv_... --part messages_in=2.50 --part messages_in --reason 'wrong price'",
    ],
)
@click.argument("invoice", metavar="INVOICE")
@click.option("--amount", metavar="AMOUNT", help="Off the whole invoice, with tax, in its currency.")
@click.option(
    "--part",
    "parts",
    multiple=True,
    metavar="PART[=AMOUNT]",
    help="A line, a fee or the minimum, by id, meter or name, before tax; without an amount all that is left of it. "
    "May be repeated.",
)
@click.option("--all", "whole", is_flag=True, help="All that is left of the invoice.")
@click.option("--reason", required=True, help="Why. The credit note says it to the tenant.")
@click.option(
    "--reference",
    help="What you call it. The same one again for the invoice credits nothing more. Without it the reason stands in.",
)
@token_option
@click.option(
    "--timeout", type=SECONDS, default=30.0, show_default=True, help="Seconds to wait for an answer."
)
def billing_credit(
    invoice: str,
    amount: str | None,
    parts: tuple[str, ...],
    whole: bool,
    reason: str,
    reference: str | None,
    token_file: Path | None,
    timeout: float,
) -> None:
    """Take an amount off an issued invoice: a credit note is issued, and the invoice stays as it is.

    What is open of it shrinks. What was paid is given back by Stripe, or by bank where it came by bank.
    """
    if [amount is not None, bool(parts), whole].count(True) != 1:
        raise click.UsageError("One of --amount, --part and --all is required.")
    body: dict[str, Any] = {"reference": reference or reason[:120], "reason": reason}
    if amount is not None:
        body["amount_micro"] = read_micro("--amount", amount)
    if parts:
        body["parts"] = [_part(part) for part in parts]
    with operator_client(token_file) as rest:
        note = rest.post(f"/v1/billing/invoices/{segment(invoice)}/credit-notes", body, timeout_s=timeout)
    if current().json:
        print_json(note)
        return
    say(f"Credit note no. {note['number']} ({note['id']}) of {money(note, note['total_micro'])} is issued.")


def _part(text: str) -> dict[str, Any]:
    name, equals, amount = text.partition("=")
    return {"part": name, **({"amount_micro": read_micro("--part", amount)} if equals else {})}


def _print_outcome(outcome: dict[str, Any]) -> None:
    for done in outcome["done"]:
        say(f"Done: {done}.")
    for reason in outcome["reasons"]:
        click.echo(f"Still a draft: {reason}")
    if outcome["status"] == "issued":
        say(f"{outcome['invoice']} is issued.")
    elif not outcome["done"]:
        say("There was nothing to do. Try again later.")


def _age(age_s: int) -> str:
    hours = age_s // _HOUR_S
    if hours >= 48:
        return f"{hours // 24} days"
    return f"{hours} h" if hours else f"{age_s // 60} min"
