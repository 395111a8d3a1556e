"""`penstock verify-invoice`: prove an invoice from the log, with the tenant's key and nothing of the server."""

import sys
from typing import Any

import click

from penstock.cli.exit_codes import ExitCode
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_table, progress
from penstock.cli.rest import rest_client, settings
from penstock.contract.errors import InvalidRequest
from penstock.rest.client import RestClient, segment
from penstock.rules.rating import amount_text
from penstock.verification.evidence import Evidence, read_evidence
from penstock.verification.findings import Report

_EVIDENCE_S = 120.0
"""The evidence of a large invoice is megabytes."""
_PROBLEMS_SHOWN_MAX = 50


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
    "--timeout", type=float, default=60.0, show_default=True, help="Seconds to wait for brokers at each read."
)
@click.pass_context
def verify_invoice(
    context: click.Context, invoice_id: str, price_book_sha256: str | None, timeout: float
) -> None:
    """Read every batch that the invoice counts, with its stamp, and count and price it again.

    Exit code 0 only when everything agrees; 5 when something does not, and the report names it.
    """
    # Imported here: no other command must wait for grpc to load.
    from penstock.verification.proving import prove
    from penstock.verification.stamped_reads import StampedReads

    chosen = settings()
    with rest_client(chosen) as rest:
        evidence = _fetch(rest, invoice_id)
        previous = None if evidence.previous_invoice is None else _fetch(rest, evidence.previous_invoice)
    with (
        StampedReads(chosen, patience_s=timeout) as reads,
        progress(f"Reading what {invoice_id} counts", total=1.0) as bar,
    ):
        report = prove(
            evidence,
            previous,
            reads,
            price_book_sha256=price_book_sha256,
            progress=lambda done, total, what: bar.to(
                done / total if total else 1.0, f"{what}, {done:,} of {total:,} offsets"
            ),
        )
    if current().json:
        print_json(report.to_dict())
    else:
        _print(report)
    if not report.proven:
        sys.stdout.flush()
        context.exit(int(ExitCode.REFUSED))


def _fetch(rest: RestClient, invoice_id: str) -> Evidence:
    evidence = read_evidence(rest.get(f"/v1/invoices/{segment(invoice_id)}/evidence", timeout_s=_EVIDENCE_S))
    if evidence.invoice != invoice_id:
        raise InvalidRequest(f"{invoice_id}: the evidence is that of {evidence.invoice}")
    return evidence


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
        ["line", "billed quantity", "in the log", "billed amount", "by the prices"],
        [
            [
                line.meter,
                "-" if line.billed_quantity is None else line.billed_quantity,
                line.counted_quantity,
                "-" if line.billed_amount_micro is None else _money(report, line.billed_amount_micro),
                _money(report, line.counted_amount_micro),
            ]
            for line in report.lines
        ],
    )
    for finding in report.partitions:
        if finding.by_seals_alone is not None:
            first, end = finding.by_seals_alone
            click.echo(
                f"{finding.topic}-{finding.partition}: offsets {first} to {end} are deleted by retention; "
                "their seals carry the totals."
            )
        if finding.lost is not None:
            first, end = finding.lost
            click.echo(
                f"{finding.topic}-{finding.partition}: a loss was declared at offset {first} after the invoice had "
                f"counted up to {end}: {finding.lost_messages} messages and {finding.lost_bytes} bytes are credited."
            )
    click.echo(f"Prices {report.price_book_sha256}, cut {report.cut}")
    click.echo(
        f"Total billed {_money(report, report.billed_total_micro)}, "
        f"by log and prices {_money(report, report.counted_total_micro)}"
    )
    if any(finding.lost for finding in report.partitions):
        click.echo(f"Credited for what was lost {_money(report, report.credited_total_micro)}")
    for problem in report.problems[:_PROBLEMS_SHOWN_MAX]:
        click.secho(str(problem), fg="red")
    left = len(report.problems) - _PROBLEMS_SHOWN_MAX
    if left > 0:
        click.echo(f"and {left} more")
    if report.proven:
        click.secho(f"{report.invoice}: proven", fg="green", bold=True)
    else:
        click.secho(f"{report.invoice}: NOT proven, {len(report.problems)} problems", fg="red", bold=True)


def _money(report: Report, amount_micro: int) -> str:
    digits = report.minor_digits if amount_micro % 10 ** (6 - report.minor_digits) == 0 else 6
    return f"{amount_text(amount_micro, digits)} {report.currency}"
