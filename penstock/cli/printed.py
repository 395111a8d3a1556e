"""`penstock invoice pdf`: an invoice or a credit note as a file to print."""

from pathlib import Path

import click

from penstock.cli.display import byte_text
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, say
from penstock.cli.rest import patient_client
from penstock.cli.waits import SECONDS
from penstock.cli.whole_files import whole_file
from penstock.rest.client import segment

_CREDIT_NOTE = "cn_"


@click.command(
    "pdf",
    cls=Command,
    short_help="Keep an invoice or a credit note as PDF.",
    examples=["penstock invoice pdf inv_... invoice-3.pdf", "penstock invoice pdf cn_... credit-note-1.pdf"],
)
@click.argument("document", metavar="DOCUMENT")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@click.option(
    "--timeout", type=SECONDS, default=60.0, show_default=True, help="Seconds to wait for an answer."
)
def invoice_pdf(document: str, file: Path, force: bool, timeout: float) -> None:
    """Write FILE: the issued invoice inv_... or the credit note cn_... as PDF."""
    if file.exists() and not force:
        raise click.UsageError(f"{file} is there already: name another file, or replace it with --force.")
    kind = "credit-notes" if document.startswith(_CREDIT_NOTE) else "invoices"
    with patient_client() as rest, whole_file(file) as out:
        size = rest.download(f"/v1/{kind}/{segment(document)}/pdf", out, timeout_s=timeout)
    if current().json:
        print_json({"document": document, "file": str(file), "bytes": size})
        return
    say(f"Wrote {file}: {byte_text(size)}.")
