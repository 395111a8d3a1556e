"""Proofs of invoices: threads of this process count an invoice again from the log and report their progress.

A proof is not stored: it reads, reports and is forgotten. It reads the database before its thread begins. The thread
calls the brokers only, with the console's key of the person who asked.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from billing import queries
from billing.models import Invoice
from control_plane.brokers.as_tenant import connection_with
from control_plane.rest import billing_shapes as shapes
from control_plane.rest.billing import as_sent
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import NotFound, PenstockError, Throttled
from penstock.verification.findings import Report
from penstock.verification.proving import Documents, prove
from penstock.verification.stamped_reads import StampedReads
from tenants.models import Tenant
from web.broker_access import api_key
from web.tenant_access import TenantAccess

THREADS = 2
WAITING_MAX = 20
KEPT_MAX = 200
PATIENCE_S = 20.0
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Proof:
    """One verification, running or ended. Only its thread writes it."""

    tenant: str
    invoice: str
    began_at: datetime
    done: int = 0
    total: int = 0
    what: str = ""
    report: Report | None = None
    error: PenstockError | None = None
    ended_at: datetime | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    @property
    def percent(self) -> int:
        return 100 * self.done // self.total if self.total else 0

    @property
    def seconds(self) -> float:
        return ((self.ended_at or timezone.now()) - self.began_at).total_seconds()


_proofs: dict[tuple[str, str], Proof] = {}
_lock = threading.Lock()
_pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="proof")


def find(tenant: str, invoice: str) -> Proof | None:
    """The last proof of this invoice that this process made."""
    with _lock:
        return _proofs.get((tenant, invoice))


def start(access: TenantAccess, invoice: Invoice) -> Proof:
    """Begin a proof, or return the running one. Raises `Throttled` if too many wait, and errors of reading evidence."""
    name = (access.tenant.public_id, invoice.public_id)
    known = find(*name)
    if known is not None and not known.ended:
        return known
    documents = GatheredDocuments(access.tenant, invoice)
    settings = connection_with(api_key(access))
    proof = Proof(tenant=name[0], invoice=name[1], began_at=timezone.now())
    with _lock:
        if sum(not other.ended for other in _proofs.values()) >= WAITING_MAX:
            raise Throttled("too many invoices are being verified now; try again in a minute")
        _proofs.pop(name, None)
        _proofs[name] = proof
        while len(_proofs) > KEPT_MAX:
            del _proofs[next(iter(_proofs))]
    _pool.submit(_run, proof, documents, settings)
    return proof


def _run(proof: Proof, documents: Documents, settings: ConnectionSettings) -> None:
    def report(done: int, total: int, what: str) -> None:
        proof.done, proof.total, proof.what = done, total, what

    try:
        with StampedReads(settings, patience_s=PATIENCE_S) as reads:
            proof.report = prove(proof.invoice, documents, reads, progress=report)
    except PenstockError as error:
        proof.error = error
    except Exception:
        _log.exception("a proof failed", extra={"invoice": proof.invoice})
        proof.error = PenstockError("the verification itself failed; it says nothing about the invoice")
    finally:
        proof.ended_at = timezone.now()


class GatheredDocuments:
    """The documents as REST gives them, gathered before the proof's thread begins."""

    def __init__(self, tenant: Tenant, invoice: Invoice) -> None:
        self._shown = as_sent(shapes.InvoiceShape(invoice).data)
        self._evidence: dict[str, Any] = {}
        # Later ones show whether a loss had to be credited by now, earlier ones what was billed of gone topics.
        for row in (invoice, *queries.invoices_to_compare(invoice)):
            self._evidence[row.public_id] = as_sent(queries.evidence(row))
        self._chain: list[dict[str, Any]] = [
            as_sent(shapes.ChainEntryShape(entry).data) for entry in queries.chain(tenant).order_by("pk")
        ]

    def invoice(self, invoice_id: str) -> Any:
        return self._shown

    def evidence(self, invoice_id: str) -> Any:
        if invoice_id not in self._evidence:
            raise NotFound(f"invoice {invoice_id[:64]!r} does not exist")
        return self._evidence[invoice_id]

    def chain(self) -> Sequence[Mapping[str, Any]]:
        return self._chain
