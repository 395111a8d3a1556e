"""`penstock verify-invoice`: prove an invoice from the log, with the tenant's key and nothing of the server, or from an
evidence bundle without any connection.
"""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import click
from rich.markup import escape

from penstock.cli.display import byte_text, counted, line
from penstock.cli.exit_codes import ExitCode
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.rest import patient_client, settings
from penstock.cli.rest_documents import RestDocuments
from penstock.cli.waits import SECONDS
from penstock.contract.anchor_documents import DOCUMENT_BYTES_MAX, is_day
from penstock.contract.errors import InvalidRequest
from penstock.profiles import profile_file
from penstock.rest.client import REACH_S, RestClient
from penstock.rules.rating import grouped_amount
from penstock.verification.anchors import Anchor, DayAnchors, read_anchor, read_file
from penstock.verification.commitments import Notes
from penstock.verification.findings import Report, Verdict
from penstock.verification.notes import FILE, note, read_notes

_PROBLEMS_SHOWN_MAX = 50
_DELETED = "deleted"
_Tell = Callable[[int, int, str], None]
_Proven = Callable[[str, "Documents", "Reads", str, _Tell], Report]
"""(invoice, documents, reads, whose key, progress) to what was found."""
if TYPE_CHECKING:
    from penstock.verification.proving import Documents, Reads

_CODES = {Verdict.PROVEN: ExitCode.OK, Verdict.PARTLY: ExitCode.PARTLY, Verdict.WRONG: ExitCode.REFUSED}


@click.command(
    "verify-invoice",
    short_help="Prove an invoice from the log.",
    cls=Command,
    examples=[
        "penstock verify-invoice inv_...",
        "penstock verify-invoice inv_... --json",
        "penstock verify-invoice --bundle invoice-3.evidence",
        "penstock verify-invoice --bundle invoice-3.evidence --anchor 2026-10.anchor",
        "penstock verify-invoice --bundle invoice-3.evidence --anchor https://penstock.example/v1/anchors/2026-11-02",
    ],
)
@click.argument("invoice_id", metavar="[INVOICE]", required=False)
@click.option(
    "--bundle",
    "bundle_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A file of `penstock invoice evidence`: nothing else is read, and nothing is connected to.",
)
@click.option(
    "--anchor",
    "anchors_from",
    metavar="FILE|URL",
    multiple=True,
    help="With --bundle: a file of `penstock invoice anchor`, or a day's anchors as the service publishes them, from a"
    " file or from https://SERVICE/v1/anchors/DAY. Kept, or kept by others, since before anyone had a reason to lie."
    " May be given several times.",
)
@click.option(
    "--anchor-key",
    metavar="KEY",
    help="The key by which the service signs its anchors, as you noted it; --anchor must be signed by it.",
)
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
    "--timeout",
    type=SECONDS,
    default=60.0,
    show_default=True,
    help="Seconds to wait for brokers at each read.",
)
@click.pass_context
def verify_invoice(
    context: click.Context,
    invoice_id: str | None,
    bundle_file: Path | None,
    anchors_from: tuple[str, ...],
    anchor_key: str | None,
    price_book_sha256: str | None,
    receipts_files: tuple[Path, ...],
    receipts_complete: bool,
    notes_file: Path | None,
    timeout: float,
) -> None:
    """Read every batch that the invoice counts, with its stamp, and count and price it again.

    Nothing that the service's documents say is believed: the log is read with your key, the brokers show what they kept
    when the period ended, and this machine compares with what it noted when it verified before.

    With --bundle all of that comes from the file. It is compared with what this machine noted, and nothing is noted:
    a bundle may be anyone's, and is not signed. One that lies consistently from end to end is found only by something
    that its maker does not have in their hands: --anchor, the notes, --receipts or --price-book-sha256.

    Exit code 0: everything is shown to be right. 10: nothing is wrong, but not everything is shown; the report names
    the ranges. 5: something is wrong, or the bundle is altered, and the report names it; nothing is noted then.
    """
    # Imported here: no other command must wait for grpc to load.
    from penstock.receipts import Receipts, read_receipts

    if receipts_complete and not receipts_files:
        raise click.UsageError("--receipts-complete says something of --receipts, and none is given")
    if invoice_id is None and bundle_file is None:
        raise click.UsageError("Name an invoice, or a bundle of one with --bundle.")
    if anchor_key is not None and not anchors_from:
        raise click.UsageError("--anchor-key says something of --anchor, and none is given")
    if anchors_from and bundle_file is None:
        raise click.UsageError(
            "--anchor is for a bundle: online the brokers' word and the notes are compared."
        )
    anchors = [_anchor(source, anchor_key, timeout) for source in anchors_from]
    receipts = Receipts.merged(*map(read_receipts, receipts_files)) if receipts_files else None
    file = profile_file().with_name(FILE) if notes_file is None else notes_file

    def proven(invoice: str, documents: "Documents", reads: "Reads", tenant: str, tell: _Tell) -> Report:
        from penstock.verification.bundle_reads import Bundle
        from penstock.verification.proving import prove

        return prove(
            invoice,
            documents,
            reads,
            notes=read_notes(file, tenant),
            price_book_sha256=price_book_sha256,
            receipts=receipts,
            receipts_complete=receipts_complete,
            from_bundle=bundle_file is not None,
            anchors=anchors,
            made_ms=reads.header.made_at_ms if isinstance(reads, Bundle) else None,
            progress=tell,
        )

    if bundle_file is not None:
        report, away = _from_bundle(bundle_file, invoice_id, proven)
    else:
        report, away = _online(str(invoice_id), timeout, proven), _DELETED
        note(file, report)
    if current().json:
        print_json(report.to_dict())
    else:
        _print(report, away=away)
        if bundle_file is not None:
            _say_compared(read_notes(file, report.tenant), anchors, receipts is not None)
    if not report.proven:
        sys.stdout.flush()
        context.exit(int(_CODES[report.verdict]))


def _anchor(source: str, key: str | None, timeout: float) -> Anchor:
    """Raises `InvalidRequest`, and what a call raises."""
    if not source.startswith(("https://", "http://")):
        return read_anchor(read_file(Path(source)), source, key)
    parts = urlsplit(source)
    # What everyone may read takes no credential, and none may go to a server that only publishes.
    with RestClient(f"{parts.scheme}://{parts.netloc}", reach_s=REACH_S) as rest:
        found = rest.text(f"{parts.path}?{parts.query}" if parts.query else parts.path, timeout_s=timeout)
    if len(found or "") > DOCUMENT_BYTES_MAX:
        raise InvalidRequest(f"{source}: is no anchor: over {DOCUMENT_BYTES_MAX} bytes")
    anchor = read_anchor((found or "").encode(), source, key)
    # A copy may be called DAY.anchors, or its address end in a slash.
    asked = unquote(parts.path).rstrip("/").rpartition("/")[2][:10]
    if isinstance(anchor, DayAnchors) and is_day(asked) and anchor.day != asked:
        # It may be a later one, made up since.
        raise InvalidRequest(f"{source}: is of {anchor.day}, another day than was asked for")
    return anchor


def _online(invoice_id: str, timeout: float, proven: "_Proven") -> Report:
    from penstock.verification.stamped_reads import StampedReads

    chosen = settings(brokers=True)
    with (
        patient_client(chosen) as rest,
        StampedReads(chosen, patience_s=timeout) as reads,
        progress(f"Reading what {invoice_id} counts", total=1.0) as bar,
    ):
        documents = RestDocuments(rest)
        documents.invoice(invoice_id)  # an unknown one is refused before brokers are asked
        return proven(
            invoice_id,
            documents,
            reads,
            reads.commitments().tenant,
            lambda done, total, what: bar.to(
                done / total if total else 1.0, f"{escape(line(what))}, {done:,} of {total:,} offsets"
            ),
        )


def _from_bundle(file: Path, invoice_id: str | None, proven: "_Proven") -> tuple[Report, str]:
    """And why a part of the log is not read. Raises `InvalidRequest` for an altered bundle, and for one of another
    invoice than the named one.
    """
    from penstock.verification.bundle_reads import Bundle

    bundle = Bundle(file)
    header = bundle.header
    if invoice_id is not None and invoice_id != header.invoice:
        raise InvalidRequest(f"{file}: is a bundle of {header.invoice}, not of {invoice_id}")
    report = proven(header.invoice, bundle, bundle, header.tenant, lambda done, total, what: None)
    if not current().json:
        made = datetime.fromtimestamp(header.made_at_ms / 1000, UTC)
        click.echo(
            f"Bundle {line(str(file))}: {byte_text(bundle.bytes)}, {bundle.records:,} records, made "
            f"{made:%Y-%m-%d %H:%M}Z for {line(header.tenant)}, "
            + (
                "with the log"
                if header.log
                else "without the log: seals and the brokers' cuts stand in for it"
            )
        )
    return report, _DELETED if header.log else "not in the bundle"


def _say_compared(notes: Notes, anchors: Sequence[Anchor], receipts: bool) -> None:
    """What the maker of the bundle could not make up."""
    kept = [
        *map(_called, anchors),
        *([] if notes.billing is None else ["what this machine noted"]),
        *(["receipts"] if receipts else []),
    ]
    if kept:
        say(f"Compared with {' and '.join(kept)}.")
    else:
        say(
            "Compared with nothing but itself: a bundle is not signed, and one that lies consistently passes. "
            "An anchor that you kept would show it (--anchor)."
        )


def _called(anchor: Anchor) -> str:
    if isinstance(anchor, DayAnchors):
        return f"the anchors of {anchor.day} by {line(anchor.issuer)}, signed by the key {anchor.key}"
    return f"the anchor of entry {anchor.sequence}"


def _print(report: Report, *, away: str = _DELETED) -> None:
    """`away`: why the log is not read where seals or cuts stand in for it."""
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
        if finding.called_now is not None:
            click.echo(f"{name}: its topic is called {line(finding.called_now)} today; the id is the same.")
        if finding.by_seals is not None:
            first, end = finding.by_seals
            click.echo(
                f"{name}: offsets {first} to {end} are {away}; the seals that the brokers keep stand in."
            )
        if finding.by_cuts is not None:
            first, end = finding.by_cuts
            click.echo(
                f"{name}: offsets {first} to {end} are {away}; the brokers' readings at the period's end stand in."
            )
        if finding.lost is not None and finding.lost_messages:
            first, end = finding.lost
            click.echo(
                f"{name}: a loss was declared at offset {first} after the invoice had "
                f"counted up to {end}: {finding.lost_messages} messages and {finding.lost_bytes} bytes are credited."
            )
        for text in finding.malformed:
            click.echo(f"{name}: {line(text)}")
    by_headers = sum(finding.by_headers for finding in report.partitions)
    if by_headers:
        click.echo(
            f"The key counts and reads no records: {counted(by_headers, 'batch')} were held to their headers, stamps"
            " and seals, not to the checksum of their records."
        )
    for text in report.receipts:
        click.echo(line(text))
    click.echo(f"Prices {report.price_book_sha256}, cut {line(report.cut)}")
    click.echo(
        f"Total billed {_money(report, report.billed_total_micro)}, "
        f"by the prices {_money(report, report.due_total_micro)}"
    )
    if report.credited_total_micro:
        click.echo(f"Credited {_money(report, report.credited_total_micro)}")
    for text in report.granted:
        click.echo(line(text))
    for problem in report.problems[:_PROBLEMS_SHOWN_MAX]:
        click.secho(line(str(problem)), fg="red" if problem.is_wrong else "yellow")
    left = len(report.problems) - _PROBLEMS_SHOWN_MAX
    if left > 0:
        click.echo(f"and {left} more")
    invoice = line(report.invoice)
    if report.void is not None:
        click.secho(f"{invoice}: {line(str(report.void))}", fg="yellow", bold=True)
    wrong = sum(problem.is_wrong for problem in report.problems)
    if report.verdict is Verdict.PROVEN:
        click.secho(f"{invoice}: proven", fg="green", bold=True)
    elif report.verdict is Verdict.PARTLY:
        named = counted(len(report.problems), "thing")
        click.secho(f"{invoice}: proven but for {named} named above", fg="yellow", bold=True)
    else:
        click.secho(f"{invoice}: WRONG, {counted(wrong, 'problem')}", fg="red", bold=True)


def _money(report: Report, amount_micro: int) -> str:
    return f"{grouped_amount(amount_micro, report.minor_digits)} {report.currency}"
