"""`penstock verify-invoice`: prove an invoice from the log, with the tenant's key and nothing of the server."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from penstock.cli.display import counted, line
from penstock.cli.exit_codes import ExitCode
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_table, progress
from penstock.cli.rest import rest_client, settings
from penstock.profiles import profile_file
from penstock.rest.client import RestClient, segment
from penstock.rules.rating import shown_amount
from penstock.verification.findings import Report, Verdict
from penstock.verification.notes import FILE, note, read_notes

_EVIDENCE_S = 120.0
"""The evidence of a large invoice is megabytes."""
_PROBLEMS_SHOWN_MAX = 50
_CODES = {Verdict.PROVEN: ExitCode.OK, Verdict.PARTLY: ExitCode.PARTLY, Verdict.WRONG: ExitCode.REFUSED}


@click.command(
    "verify-invoice",
    short_help="Prove an invoice from the log.",
    cls=Command,
    examples=["penstock verify-invoice inv_...", "penstock verify-invoice inv_... --json"],
)
@click.argument("invoice_id", metavar="INVOICE")
@click.option(
    "--price-book-sha256",
    metavar="HASH",
    help="The hash of the prices as you were promised them; the invoice's must be the same.",
)
@click.option(
    "--receipts",
    "receipts_files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A file that a producer kept of its acknowledgements; may be given several times.",
)
@click.option(
    "--receipts-complete",
    is_flag=True,
    help="These are the receipts of all producers: what is billed and in none of them is wrong.",
)
@click.option(
    "--notes",
    "notes_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"Where this machine notes what it has verified (default {FILE} beside the profiles).",
)
@click.option(
    "--timeout", type=float, default=60.0, show_default=True, help="Seconds to wait for brokers at each read."
)
@click.pass_context
def verify_invoice(
    context: click.Context,
    invoice_id: str,
    price_book_sha256: str | None,
    receipts_files: tuple[Path, ...],
    receipts_complete: bool,
    notes_file: Path | None,
    timeout: float,
) -> None:
    """Read every batch that the invoice counts, with its stamp, and count and price it again.

    Nothing that the service's documents say is believed: the log is read with your key, the brokers show what they kept
    when the period ended, and this machine compares with what it noted when it verified before.

    Exit code 0: everything is shown to be right. 10: nothing is wrong, but not everything is shown; the report names
    the ranges. 5: something is wrong, and the report names it; nothing is noted then.
    """
    # Imported here: no other command must wait for grpc to load.
    from penstock.receipts import Receipts, read_receipts
    from penstock.verification.proving import prove
    from penstock.verification.stamped_reads import StampedReads

    if receipts_complete and not receipts_files:
        raise click.UsageError("--receipts-complete says something of --receipts, and none is given")
    receipts = Receipts.merged(*map(read_receipts, receipts_files)) if receipts_files else None
    chosen = settings()
    file = profile_file().with_name(FILE) if notes_file is None else notes_file
    with (
        rest_client(chosen) as rest,
        StampedReads(chosen, patience_s=timeout) as reads,
        progress(f"Reading what {invoice_id} counts", total=1.0) as bar,
    ):
        documents = _OverRest(rest)
        documents.invoice(invoice_id)  # an unknown one is refused before brokers are asked
        report = prove(
            invoice_id,
            documents,
            reads,
            notes=read_notes(file, reads.commitments().tenant),
            price_book_sha256=price_book_sha256,
            receipts=receipts,
            receipts_complete=receipts_complete,
            progress=lambda done, total, what: bar.to(
                done / total if total else 1.0, f"{escape(line(what))}, {done:,} of {total:,} offsets"
            ),
        )
    note(file, report)
    if current().json:
        print_json(report.to_dict())
    else:
        _print(report)
    if not report.proven:
        sys.stdout.flush()
        context.exit(int(_CODES[report.verdict]))


class _OverRest:
    """The documents as the service gives them to this key."""

    def __init__(self, rest: RestClient) -> None:
        self._rest = rest

    def invoice(self, invoice_id: str) -> Any:
        return self._rest.get(f"/v1/invoices/{segment(invoice_id)}", timeout_s=_EVIDENCE_S)

    def evidence(self, invoice_id: str) -> Any:
        return self._rest.get(f"/v1/invoices/{segment(invoice_id)}/evidence", timeout_s=_EVIDENCE_S)

    def chain(self) -> Sequence[Mapping[str, Any]]:
        return list(self._rest.items("/v1/billing/chain", timeout_s=_EVIDENCE_S))


def _print(report: Report) -> None:
    rows: list[list[Any]] = [
        [
            finding.topic,
            finding.partition,
            finding.start_offset,
            finding.end_offset,
            finding.messages,
            finding.bytes,
            finding.batches,
            finding.segments_sealed,
            finding.verdict,
        ]
        for finding in report.partitions
    ]
    print_table(
        [
            "topic",
            "partition",
            "from offset",
            "to offset",
            "messages",
            "bytes",
            "batches",
            "sealed segments",
            "verdict",
        ],
        rows,
    )
    print_table(
        ["line", "billed quantity", "shown by the log", "not shown", "billed amount", "by the prices"],
        [
            [
                priced.meter,
                "-" if priced.billed_quantity is None else priced.billed_quantity,
                priced.counted_quantity,
                priced.unproven_quantity or "-",
                "-" if priced.billed_amount_micro is None else _money(report, priced.billed_amount_micro),
                _money(report, priced.due_amount_micro),
            ]
            for priced in report.lines
        ],
    )
    for finding in report.partitions:
        name = line(f"{finding.topic}-{finding.partition}")
        if finding.by_seals is not None:
            first, end = finding.by_seals
            click.echo(
                f"{name}: offsets {first} to {end} are deleted; the seals that the brokers keep stand in."
            )
        if finding.by_cuts is not None:
            first, end = finding.by_cuts
            click.echo(
                f"{name}: offsets {first} to {end} are deleted; the brokers' readings at the period's end stand in."
            )
        if finding.lost is not None and finding.lost_messages:
            first, end = finding.lost
            click.echo(
                f"{name}: a loss was declared at offset {first} after the invoice had "
                f"counted up to {end}: {finding.lost_messages} messages and {finding.lost_bytes} bytes are credited."
            )
        for text in finding.malformed:
            click.echo(f"{name}: {line(text)}")
    for text in report.receipts:
        click.echo(line(text))
    click.echo(f"Prices {report.price_book_sha256}, cut {line(report.cut)}")
    click.echo(
        f"Total billed {_money(report, report.billed_total_micro)}, "
        f"by the prices {_money(report, report.due_total_micro)}"
    )
    if report.credited_total_micro:
        click.echo(f"Credited for what was lost {_money(report, report.credited_total_micro)}")
    for problem in report.problems[:_PROBLEMS_SHOWN_MAX]:
        click.secho(line(str(problem)), fg="red" if problem.is_wrong else "yellow")
    left = len(report.problems) - _PROBLEMS_SHOWN_MAX
    if left > 0:
        click.echo(f"and {left} more")
    invoice = line(report.invoice)
    wrong = sum(problem.is_wrong for problem in report.problems)
    if report.verdict is Verdict.PROVEN:
        click.secho(f"{invoice}: proven", fg="green", bold=True)
    elif report.verdict is Verdict.PARTLY:
        named = counted(len(report.problems), "thing")
        click.secho(f"{invoice}: proven but for {named} named above", fg="yellow", bold=True)
    else:
        click.secho(f"{invoice}: WRONG, {counted(wrong, 'problem')}", fg="red", bold=True)


def _money(report: Report, amount_micro: int) -> str:
    return f"{shown_amount(amount_micro, report.minor_digits)} {report.currency}"
