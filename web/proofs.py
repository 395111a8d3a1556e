"""Proofs of invoices: worker threads of this process that count an invoice again from the log, and how far they are.

A proof is no state of the service: it reads, tells and is forgotten. What it needs of the database is gathered before
its thread begins; the thread speaks with the brokers alone, with the console's key of the person who asked.
"""

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone

from billing import queries
from billing.models import Invoice
from billing.shapes import shown_invoice
from control_plane import config
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import PenstockError, Throttled
from penstock.verification.evidence import Evidence, read_evidence
from penstock.verification.findings import Report
from penstock.verification.proving import prove
from penstock.verification.stamped_reads import StampedReads
from web.broker_access import api_key
from web.places import Place

THREADS = 2
WAITING_MAX = 20
KEPT_MAX = 200
PATIENCE_S = 20.0
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Proof:
    """One verification, under way or ended. Its thread alone writes it."""

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
    """The last proof of this invoice that was asked for here."""
    with _lock:
        return _proofs.get((tenant, invoice))


def start(place: Place, invoice: Invoice) -> Proof:
    """Begin a proof, or join the one under way. Raises `Throttled` when too many wait, and as reading evidence does."""
    name = (place.tenant.public_id, invoice.public_id)
    known = find(*name)
    if known is not None and not known.ended:
        return known
    evidence = _evidence(invoice)
    previous = None
    if evidence.previous_invoice is not None:
        previous = _evidence(queries.invoice(place.tenant, evidence.previous_invoice))
    settings = ConnectionSettings(bootstrap=tuple(config.current().brokers.bootstrap), api_key=api_key(place))
    proof = Proof(tenant=name[0], invoice=name[1], began_at=timezone.now())
    with _lock:
        if sum(not other.ended for other in _proofs.values()) >= WAITING_MAX:
            raise Throttled("many invoices are being verified now; try again in a minute")
        _proofs.pop(name, None)
        _proofs[name] = proof
        while len(_proofs) > KEPT_MAX:
            del _proofs[next(iter(_proofs))]
    _pool.submit(_run, proof, evidence, previous, settings)
    return proof


def _run(proof: Proof, evidence: Evidence, previous: Evidence | None, settings: ConnectionSettings) -> None:
    def tell(done: int, total: int, what: str) -> None:
        proof.done, proof.total, proof.what = done, total, what

    try:
        with StampedReads(settings, patience_s=PATIENCE_S) as reads:
            proof.report = prove(evidence, previous, reads, progress=tell)
    except PenstockError as error:
        proof.error = error
    except Exception:
        _log.exception("a proof failed", extra={"invoice": proof.invoice})
        proof.error = PenstockError("the verification itself broke; nothing is said about the invoice")
    finally:
        proof.ended_at = timezone.now()


def _evidence(invoice: Invoice) -> Evidence:
    """As `penstock verify-invoice` gets it over REST, and read by the same reader."""
    document: dict[str, Any] = {"invoice": shown_invoice(invoice), **queries.evidence(invoice)}
    return read_evidence(json.loads(json.dumps(document, cls=DjangoJSONEncoder)))
