"""Writes an invoice's evidence bundle from rows: its documents, the chain, the brokers' cuts and losses, and seals.

The batches are not in it: they are the tenant's messages, and its own key reads them (`penstock invoice evidence
--with-log`). So seals and cuts stand in for the log.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from typing import Any

from billing import queries
from billing.models import BillingEntry, Cut, Invoice, Seal
from penstock.contract.documents import InvoiceDocument, read_document
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TopicId, TopicPartition
from penstock.rules.timestamps import time_ms
from penstock.verification import bundle_file as records
from penstock.verification.bundle_file import BundleWriter
from penstock.verification.bundle_recording import write_commitments, write_seal
from penstock.verification.commitments import ChainPoint, Commitments, KeptCut, KeptLoss

_ROWS_AT_A_TIME = 200


def write_bundle(
    invoice: Invoice,
    shown: Any,
    *,
    chain_item: Callable[[BillingEntry], Any],
    losses: Collection[KeptLoss],
    now: datetime,
    write: Callable[[bytes], object],
) -> None:
    """Write the bundle of an issued invoice, a row at a time. `shown` and `chain_item` are what REST shows; `losses`
    are those that brokers declared of the tenant.

    Raises `InvalidRequest` for a draft, and for an invoice that is older than documents.
    """
    entry = require_issued(invoice)
    document = read_document(entry.document, InvoiceDocument, invoice.public_id)
    tenant = invoice.tenant.public_id
    writer = BundleWriter(
        write,
        records.Header(
            format=records.FORMAT,
            invoice=invoice.public_id,
            tenant=tenant,
            made_at_ms=time_ms(now),
            log=False,
        ),
    )
    write_commitments(writer, Commitments(tenant=tenant, cuts=tuple(_cuts(invoice)), losses=tuple(losses)))
    partitions: dict[str, tuple[str, int]] = {}
    for part in document.partitions:
        _, most = partitions.get(part.topic_id, ("", 0))
        partitions[part.topic_id] = (part.topic, max(most, part.partition + 1))
    for topic_id, (name, count) in partitions.items():
        writer.add(records.Topic(topic_id=topic_id, name=name, partitions=count))
    writer.add(records.Shown(answer=shown))
    for row in queries.invoices_to_compare(invoice, lost=bool(losses)):
        writer.add(records.Evidence(invoice=row.public_id, answer=queries.evidence(row)))
    for one in queries.chain(invoice.tenant).order_by("pk").iterator(_ROWS_AT_A_TIME):
        writer.add(records.Link(item=chain_item(one)))
    for seal in _seals(invoice, document, losses):
        where = TopicPartition(TopicId(bytes.fromhex(seal.topic_id)), seal.partition)
        write_seal(writer, where, bytes(seal.seal))
    writer.end()


def require_issued(invoice: Invoice) -> BillingEntry:
    """The entry of its document. Raises `InvalidRequest` as `write_bundle` does."""
    if invoice.status != Invoice.Status.ISSUED:
        raise InvalidRequest(f"{invoice.public_id}: is a draft, there is nothing to prove yet")
    entry = BillingEntry.objects.filter(
        tenant=invoice.tenant, kind=BillingEntry.Kind.INVOICE, object_id=invoice.public_id
    ).first()
    if entry is None:
        raise InvalidRequest(
            f"{invoice.public_id}: was issued before invoices had documents, and cannot be proven"
        )
    return entry


def _cuts(invoice: Invoice) -> Iterator[KeptCut]:
    """As the brokers keep them: they answered with the hash of each. Older ones have none and are not kept."""
    rows = Cut.objects.filter(tenant=invoice.tenant, delivered_at__isnull=False).exclude(sha256="")
    first = Cut.objects.filter(tenant=invoice.tenant).order_by("period_start").values_list("pk", flat=True)[0]
    for cut in rows.order_by("period_end"):
        if cut.delivered_at is None:
            continue
        point = ChainPoint(sequence=cut.chain_sequence, hash=cut.chain_hash)
        yield KeptCut(
            cut_id=cut.public_id,
            start_ms=0 if cut.pk == first else time_ms(cut.period_start),
            end_ms=time_ms(cut.period_end),
            sha256=cut.sha256,
            billing=point if cut.chain_sequence else None,
            kept_ms=time_ms(cut.delivered_at),
        )


def _seals(invoice: Invoice, document: InvoiceDocument, losses: Collection[KeptLoss]) -> Iterator[Seal]:
    """Of the billed partitions: from the segment before the first offset, whose end gives the totals to count from, to
    the one that holds the last. Those of a generation that lost the segment are left out.
    """
    lost: dict[TopicPartition, list[KeptLoss]] = defaultdict(list)
    for loss in losses:
        lost[loss.where].append(loss)
    for part in document.partitions:
        where = TopicPartition(TopicId(bytes.fromhex(part.topic_id)), part.partition)
        known = Seal.objects.filter(tenant=invoice.tenant, topic_id=part.topic_id, partition=part.partition)
        before = known.filter(end_offset__lte=part.counts_from).order_by("-end_offset").first()
        rows = known.filter(
            base_offset__gte=0 if before is None else before.base_offset, base_offset__lt=part.end_offset
        )
        for seal in rows.order_by("base_offset", "log_generation").iterator(_ROWS_AT_A_TIME):
            if not any(
                loss.log_generation > seal.log_generation and loss.offset < seal.end_offset
                for loss in lost[where]
            ):
                yield seal
