"""`penstock invoice`: amounts, lines, what lies under a line down to offsets, and files of FOCUS and of evidence."""

import csv
import io
import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from penstock.cli.display import byte_text
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_fact, print_json, print_part, print_table, say
from penstock.cli.printed import invoice_pdf
from penstock.cli.rest import patient_client
from penstock.cli.waits import SECONDS
from penstock.contract.errors import ConfigurationError, NotFound
from penstock.private_file import write_private
from penstock.rest.client import segment
from penstock.rules.payment_words import PAYMENT_WORDS
from penstock.rules.rating import change_text, grouped_amount, unit_text

_TIMEOUT_S = 15.0
_DAY = click.DateTime(["%Y-%m-%d"])
_DOCUMENT_S = 120.0
"""The document of a large invoice is megabytes."""


@click.group(name="invoice", cls=Group, path=("invoice",))
def invoice() -> None:
    """Invoices: list, show, pdf, focus, evidence, anchor."""


invoice.add_command(invoice_pdf)


def rows_of_csv(text: str) -> list[dict[str, str]]:
    """The rows by their headings. A field in quotes may have ends of lines of each kind in it."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


@invoice.command("list", examples=["penstock invoice list"])
@click.option(
    "--timeout", type=SECONDS, default=_TIMEOUT_S, show_default=True, help="Seconds to wait for an answer."
)
def invoice_list(timeout: float) -> None:
    """List the tenant's invoices, oldest first."""
    with patient_client() as rest:
        invoices = list(rest.items("/v1/invoices", timeout_s=timeout))
    if current().json:
        print_json({"invoices": invoices})
        return
    any_credit = any(entry["credit_notes"] for entry in invoices)
    rows = [
        [
            entry["number"],
            entry["id"],
            _status(entry),
            moment(entry["period_start"]),
            moment(entry["period_end"]),
            *(_quantity(entry, meter) for meter in ("messages_in", "bytes_in")),
            total(entry),
            *([credited(entry)] if any_credit else []),
            *_payment(entry),
        ]
        for entry in invoices
    ]
    print_table(
        [
            *("no.", "invoice", "status", "from", "to", "messages", "bytes", "total"),
            *(["credited"] if any_credit else []),
            *("due", "open", "paid"),
        ],
        rows,
        empty="No invoices yet: a month is invoiced when it ends. Until then: penstock usage",
    )


@invoice.command("show", examples=["penstock invoice show inv_...", "penstock invoice show inv_... --open"])
@click.argument("invoice_id", metavar="INVOICE")
@click.option(
    "--open", "opened", is_flag=True, help="Open the lines: topic, partition, day and offsets of each."
)
@click.option(
    "--timeout", type=SECONDS, default=_TIMEOUT_S, show_default=True, help="Seconds to wait for an answer."
)
def invoice_show(invoice_id: str, opened: bool, timeout: float) -> None:
    """Show one invoice with its lines."""
    path = f"/v1/invoices/{segment(invoice_id)}"
    with patient_client() as rest:
        shown = rest.get(path, timeout_s=timeout)
        notes = [
            rest.get(f"/v1/credit-notes/{segment(note['id'])}", timeout_s=timeout)
            for note in shown["credit_notes"]
        ]
        evidence = rest.get(f"{path}/evidence", timeout_s=_DOCUMENT_S) if opened else None
    rows = None if evidence is None else _opened(evidence, [line["meter"] for line in shown["lines"]])
    if current().json:
        shown["credit_notes"] = notes
        print_json({**shown, "evidence": rows or {}} if opened else shown)
        return
    number, status, cut = shown["number"], _status(shown), shown["cut"]
    print_fact("invoice", [number, shown["id"], status], f"Invoice {number}  {shown['id']}  {status}")
    if shown.get("issuer_number"):
        print_fact("number", [shown["issuer_number"]], f"Number {shown['issuer_number']}, over all tenants")
    if shown.get("void_at"):
        when = moment(shown["void_at"])
        print_fact("void", [when], f"Void since {when}: it was taken back, and nothing of it is to be paid")
    start, end = moment(shown["period_start"]), moment(shown["period_end"])
    print_fact("period", [start, end, cut], f"Period  {start} to {end}, cut {cut}")
    for gap in shown["gaps"]:
        say(f"  not issued: {gap}")
    for line in shown["lines"]:
        meter, quantity, book = line["meter"], int(line["quantity"]), line["price_book_sha256"]
        amount = money(shown, line["amount_micro"])
        print_fact(
            "line",
            [meter, quantity, amount, book],
            f"\n{meter}: {quantity:,}  {amount}  (prices {book[:12]}…)",
        )
        print_part(
            f"{meter} price", ["quantity", "at", "each"], [_part(line, part) for part in line["parts"]]
        )
        if rows is not None:
            _print_evidence(meter, rows[meter])
    for charge in shown.get("charges", ()):
        amount, named = money(shown, charge["amount_micro"]), charge_name(shown, charge)
        print_fact("charge", [charge["kind"], charge["name"], amount], f"\n{named}  {amount}")
    if shown["total_micro"] is not None:
        print_fact("total", [total(shown)], f"Total  {total(shown)}")
    for note in notes:
        _print_credit_note(note)


@invoice.command(
    "focus",
    short_help="Print what was invoiced as a file of FOCUS 1.2.",
    examples=[
        "penstock invoice focus > focus.csv",
        "penstock invoice focus --from 2026-10-01 --to 2026-11-01 > october.csv",
        "penstock invoice focus inv_... > invoice.csv",
    ],
)
@click.argument("invoice_id", metavar="[INVOICE]", required=False)
@click.option("--from", "first", type=_DAY, help="What was issued from this day (UTC) on.")
@click.option("--to", "end", type=_DAY, help="What was issued before this day (UTC).")
@click.option(
    "--timeout", type=SECONDS, default=_DOCUMENT_S, show_default=True, help="Seconds to wait for an answer."
)
def invoice_focus(
    invoice_id: str | None, first: datetime | None, end: datetime | None, timeout: float
) -> None:
    """Print invoices and credit notes as rows of FOCUS, the FinOps Open Cost and Usage Specification 1.2: CSV by topic,
    day and price.

    With INVOICE that one and its credit notes. The BilledCost of one InvoiceId adds up to what that document charges
    or gives back; what was made void has corrections, and adds up to 0. A name that a spreadsheet would take as a
    formula begins with an apostrophe.
    """
    query = {"invoice": invoice_id, "from": _day_text(first), "to": _day_text(end)}
    with patient_client() as rest:
        text = rest.text("/v1/billing/focus", query, timeout_s=timeout)
    if current().json:
        print_json({"rows": rows_of_csv(text)})
    else:
        sys.stdout.write(text)


@invoice.command(
    "evidence",
    short_help="Keep all that proves an invoice in one file.",
    examples=[
        "penstock invoice evidence inv_... invoice-3.evidence",
        "penstock invoice evidence inv_... invoice-3.evidence --with-log",
    ],
)
@click.argument("invoice_id", metavar="INVOICE")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@click.option(
    "--with-log",
    is_flag=True,
    help="Read the messages as well, with your key; the bundle holds them and is as large as they are.",
)
@click.option(
    "--timeout", type=SECONDS, default=_DOCUMENT_S, show_default=True, help="Seconds to wait for an answer."
)
def invoice_evidence(invoice_id: str, file: Path, force: bool, with_log: bool, timeout: float) -> None:
    """Write FILE: everything that `penstock verify-invoice --bundle FILE` needs to prove the invoice without any
    connection, also when service and brokers are gone.

    It holds the documents, what the brokers keep, and the seals of closed segments. What no seal covers is then only
    known by the brokers' readings at both ends. With --with-log it holds the messages, and shows as much as a
    verification online.
    """
    from penstock.cli.evidence import evidence_with_log, evidence_without_log

    if file.exists() and not force:
        raise click.UsageError(f"{file} is there already: name another file, or replace it with --force.")
    made = (evidence_with_log if with_log else evidence_without_log)(invoice_id, file, timeout)
    if current().json:
        print_json({"invoice": invoice_id, "file": str(file), "bytes": made, "with_log": with_log})
        return
    say(f"Wrote {file}: {byte_text(made)}. Check it anywhere: penstock verify-invoice --bundle {file}")


@invoice.command(
    "anchor",
    short_help="Keep the newest entry of your billing chain.",
    examples=["penstock invoice anchor 2026-10.anchor"],
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@click.option(
    "--timeout", type=SECONDS, default=_DOCUMENT_S, show_default=True, help="Seconds to wait for an answer."
)
def invoice_anchor(file: Path, force: bool, timeout: float) -> None:
    """Write FILE: sequence and hash of the newest entry of your billing chain, with what it is of.

    The hash covers every document that was issued to you up to then. Keep the file where the service cannot change it,
    or send it to your auditor: `penstock verify-invoice --bundle BUNDLE --anchor FILE` then finds a bundle whose
    history was made up afterwards, also by the service. It is no secret.
    """
    if file.exists() and not force:
        raise click.UsageError(f"{file} is there already: name another file, or replace it with --force.")
    with patient_client() as rest:
        entries = list(rest.items("/v1/billing/chain", timeout_s=timeout))
    if not entries:
        raise NotFound("billing chain: nothing was issued yet, so it has no entry")
    newest = {name: value for name, value in entries[-1].items() if name != "document"}
    try:
        write_private(file, json.dumps(newest, indent=2) + "\n")
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be written: {error.strerror}") from None
    if current().json:
        print_json({"file": str(file), **newest})
        return
    say(
        f"Wrote {file}: entry {newest['sequence']} ({newest['kind']} {newest['object_id']}), {newest['hash']}"
    )


def _payment(entry: dict[str, Any]) -> list[str]:
    """Due date, what is open and what is paid; a draft has none, nor has an invoice of an older service."""
    asked = entry.get("payment")
    if not asked:
        return ["-", "-", "-"]
    return [
        str(asked["due_at"])[:10],
        money(entry, asked["open_micro"]),
        money(entry, asked["paid_micro"]),
    ]


def _status(entry: dict[str, Any]) -> str:
    """As it is paid, once it is asked for. A service of the version before says neither that nor that it is void."""
    if entry.get("void_at"):
        return "void"
    asked = entry.get("payment")
    return PAYMENT_WORDS[asked["state"]] if asked else str(entry["status"])


def _day_text(day: datetime | None) -> str | None:
    return None if day is None else f"{day:%Y-%m-%d}"


def moment(text: str) -> str:
    """A time of the REST interface, to the second."""
    return text[:19].replace("T", " ") + "Z"


def charge_name(invoice: dict[str, Any], charge: dict[str, Any]) -> str:
    """What a charge is, and of what: `tax DE, 19 % of 10.00 USD (VAT)`."""
    points = int(charge["basis_points"])
    share = f"{points // 100}.{points % 100:02d}".rstrip("0").rstrip(".") + " % of " if points else "of "
    of = f" for {charge['meter']}" if charge["meter"] else ""
    named = charge["kind"] if charge["name"] == charge["kind"] else f"{charge['kind']} {charge['name']}"
    reason = f" ({charge['reason']})" if charge["reason"] else ""
    return f"{named}{of}, {share}{money(invoice, charge['base_micro'])}{reason}"


def money(invoice: dict[str, Any], amount_micro: int) -> str:
    """An amount with its currency."""
    return f"{grouped_amount(int(amount_micro), int(invoice['minor_digits']))} {invoice['currency']}"


def total(invoice: dict[str, Any]) -> str:
    """The invoice's total; a draft has none."""
    return "-" if invoice["total_micro"] is None else money(invoice, invoice["total_micro"])


def credited(invoice: dict[str, Any]) -> str:
    """The sum of the invoice's credit notes."""
    return money(invoice, invoice["credited_micro"]) if invoice["credit_notes"] else "-"


def _print_credit_note(note: dict[str, Any]) -> None:
    number, amount, issued = note["number"], money(note, note["total_micro"]), moment(note["issued_at"])
    print_fact(
        "credit note",
        [number, note["id"], amount, issued],
        f"\nCredit note {number}  {note['id']}  {amount}, issued {issued}: "
        + (note.get("reason") or "messages were lost after they had been billed"),
    )
    if note.get("reason"):
        _print_granted(note, number)
        return
    print_part(
        f"credit note {number} line",
        ["meter", "quantity", "amount"],
        [[line["meter"], int(line["quantity"]), money(note, line["amount_micro"])] for line in note["lines"]],
    )
    changes = note.get("charges", ())
    if changes:
        print_part(
            f"credit note {number} charge",
            ["charge", "what changes", "change"],
            [
                [_changed(one), change_text(str(one["kind"]), int(one["amount_micro"])), _signed(note, one)]
                for one in changes
            ],
        )
    print_part(
        f"credit note {number} lost",
        ["topic", "partition", "first offset lost", "end offset", "messages", "bytes"],
        [
            [
                lost["topic"],
                int(lost["partition"]),
                int(lost["first_offset"]),
                int(lost["end_offset"]),
                *(int(lost["quantities"].get(meter, 0)) for meter in ("messages_in", "bytes_in")),
            ]
            for lost in note["ranges"]
        ],
    )


def _print_granted(note: dict[str, Any], number: int) -> None:
    """What an operator took off: parts of the invoice, or an amount of the whole, and its tax."""
    rows: list[list[object]] = [[line["meter"], money(note, line["amount_micro"])] for line in note["lines"]]
    rows += [[_changed(one), money(note, -int(one["amount_micro"]))] for one in note["charges"]]
    if note["granted_micro"]:
        rows.insert(0, ["of the whole invoice", money(note, note["granted_micro"])])
    print_part(f"credit note {number} part", ["of", "credited"], rows)


def _changed(change: dict[str, Any]) -> str:
    of = f" for {change['meter']}" if change["meter"] else ""
    name = "" if change["name"] == change["kind"] else f" {change['name']}"
    return f"{change['kind']}{name}{of}"


def _signed(note: dict[str, Any], change: dict[str, Any]) -> str:
    amount = int(change["amount_micro"])
    return f"{'+' if amount > 0 else ''}{money(note, amount)}"


def _quantity(invoice: dict[str, Any], meter: str) -> int:
    return sum(int(line["quantity"]) for line in invoice["lines"] if line["meter"] == meter)


def _part(line: dict[str, Any], part: dict[str, Any]) -> list[object]:
    unit = unit_text(str(line["meter"]), str(line["unit"]), int(line["unit_size"]))
    price = str(part["unit_price"]).rstrip("0").rstrip(".")
    return [int(part["quantity"]), "free" if price in ("0", "") else price, unit]


def _opened(evidence: dict[str, Any], meters: Sequence[str]) -> dict[str, list[dict[str, Any]]] | None:
    """The rows of the invoice's document by meter: topic, partition, day and offsets; none of a line that is 0. None: a
    draft, or an invoice without a document.
    """
    document = evidence["document"]
    if document is None:
        if evidence["status"] == "issued":
            say("  It was issued before invoices had documents, so its lines cannot be opened.")
        return None
    found: dict[str, list[dict[str, Any]]] = {meter: [] for meter in ("messages_in", "bytes_in", *meters)}
    for part in document["partitions"]:
        identity = {name: part[name] for name in ("topic", "topic_id", "partition", "log_generation")}
        for day in part["days"]:
            offsets = {name: day[name] for name in ("day", "first_offset", "end_offset")}
            for meter, quantity in (("messages_in", day["messages"]), ("bytes_in", day["bytes"])):
                found[meter].append({**identity, **offsets, "quantity": quantity})
    for row in document.get("measured", ()):
        found.setdefault(row["meter"], []).append(row)
    return found


def _print_evidence(meter: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        say(f"  {meter}: nothing was counted")
        return
    print_part(
        f"{meter} evidence",
        ["topic", "partition", "day", "first offset", "end offset", "quantity"],
        [
            [
                row["topic"] or "-",
                row.get("partition", "-"),
                row["day"],
                row.get("first_offset", "-"),
                row.get("end_offset", "-"),
                int(row["quantity"]),
            ]
            for row in rows
        ],
    )
