"""Makes evidence bundles: the service's own, or one with the log, which this machine reads with the tenant's key."""

import time
from pathlib import Path

from rich.markup import escape

from penstock.cli.display import line
from penstock.cli.output import progress
from penstock.cli.rest import patient_client, settings
from penstock.cli.rest_documents import RestDocuments
from penstock.cli.whole_files import whole_file
from penstock.rest.client import segment
from penstock.verification.bundle_file import FORMAT, BundleWriter, Header
from penstock.verification.bundle_recording import RecordedDocuments, RecordedReads
from penstock.verification.proving import prove
from penstock.verification.stamped_reads import StampedReads


def evidence_without_log(invoice_id: str, file: Path, timeout: float) -> int:
    """The bundle as the service makes it; its bytes."""
    with whole_file(file) as out, patient_client() as rest:
        return rest.download(f"/v1/invoices/{segment(invoice_id)}/evidence-bundle", out, timeout_s=timeout)


def evidence_with_log(invoice_id: str, file: Path, timeout: float) -> int:
    """The bundle of everything that a verification reads now, whatever it finds; its bytes."""
    chosen = settings(brokers=True)
    with (
        whole_file(file) as out,
        patient_client(chosen) as rest,
        StampedReads(chosen, patience_s=timeout) as reads,
        progress(f"Reading what {invoice_id} counts", total=1.0) as bar,
    ):
        documents = RestDocuments(rest)
        documents.invoice(invoice_id)  # an unknown one is refused before brokers are asked
        tenant = reads.commitments().tenant
        made_at_ms = time.time_ns() // 1_000_000
        writer = BundleWriter(
            out.write,
            Header(format=FORMAT, invoice=invoice_id, tenant=tenant, made_at_ms=made_at_ms, log=True),
        )
        prove(
            invoice_id,
            RecordedDocuments(documents, writer),
            RecordedReads(reads, writer),
            progress=lambda done, total, what: bar.to(
                done / total if total else 1.0, f"{escape(line(what))}, {done:,} of {total:,} offsets"
            ),
        )
        writer.end()
        return writer.bytes
