"""A tenant's billing chain: read, held together, and compared with what brokers keep and this machine noted. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from penstock.contract.document_fields import NO_HASH
from penstock.contract.documents import (
    ChainEntry,
    CreditNoteDocument,
    InvoiceDocument,
    PricesDocument,
    chain_hash,
    document_sha256,
    read_document,
)
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TopicPartition
from penstock.records.cut import CutEnd, cut_sha256
from penstock.verification.anchors import Anchor, DayAnchors
from penstock.verification.claims import cut_ends, where_of
from penstock.verification.commitments import ChainPoint, Commitments, KeptCut, Notes
from penstock.verification.findings import Kind, Problem

CHAIN = "billing chain"


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingChain:
    """The entries in order, and the documents that came with them, by sequence."""

    entries: tuple[ChainEntry, ...]
    prices: Mapping[int, PricesDocument]
    credit_notes: Mapping[int, CreditNoteDocument]

    @property
    def head(self) -> ChainPoint:
        last = self.entries[-1] if self.entries else None
        return (
            ChainPoint(sequence=0, hash=NO_HASH)
            if last is None
            else ChainPoint(sequence=last.sequence, hash=last.hash)
        )

    def at(self, sequence: int) -> ChainEntry | None:
        return self.entries[sequence - 1] if 0 < sequence <= len(self.entries) else None

    def invoices(self) -> list[ChainEntry]:
        """Entries of invoices in order."""
        return [entry for entry in self.entries if entry.kind == "invoice"]


def read_chain(items: Sequence[Mapping[str, Any]]) -> BillingChain:
    """The pages of `GET /v1/billing/chain` as values. Raises `InvalidRequest` with what is malformed."""
    entries: list[ChainEntry] = []
    prices: dict[int, PricesDocument] = {}
    credit_notes: dict[int, CreditNoteDocument] = {}
    for number, item in enumerate(items, 1):
        what = f"{CHAIN}, entry {number}"
        if not isinstance(item, Mapping):
            raise InvalidRequest(f"{what}: no object")
        document = item.get("document")
        fields = {name: value for name, value in item.items() if name != "document"}
        entry = read_document(fields, ChainEntry, what)
        entries.append(entry)
        if entry.kind == "prices":
            prices[number] = read_document(document, PricesDocument, what)
        elif entry.kind == "credit_note":
            credit_notes[number] = read_document(document, CreditNoteDocument, what)
        elif document is not None:
            raise InvalidRequest(f"{what}: an invoice's document is in its evidence, not in the chain")
    return BillingChain(entries=tuple(entries), prices=prices, credit_notes=credit_notes)


def check_chain(chain: BillingChain, commitments: Commitments, notes: Notes) -> Iterator[Problem]:
    """What is wrong with the chain as a whole."""
    tenant = commitments.tenant
    previous, at_ms = NO_HASH, 0
    named: set[tuple[str, str]] = set()
    for number, entry in enumerate(chain.entries, 1):
        where = f"{CHAIN}, entry {number}"
        if entry.sequence != number:
            yield _altered(where, f"is numbered {entry.sequence}")
        if entry.hash != chain_hash(tenant, previous, entry):
            yield _altered(where, f"its hash is not that of {tenant}'s entry behind the one before")
        if entry.at_ms < at_ms:
            yield _altered(where, "is older than the one before")
        if (entry.kind, entry.object_id) in named:
            yield _altered(where, f"{entry.object_id} stands in it twice")
        named.add((entry.kind, entry.object_id))
        previous, at_ms = entry.hash, entry.at_ms
        document = chain.prices.get(number) or chain.credit_notes.get(number)
        if document is None:
            continue
        if document_sha256(document) != entry.document_sha256:
            yield Problem(
                kind=Kind.DOCUMENT_ALTERED, where=where, message="its document has another hash than it says"
            )
        if document.tenant != tenant:
            yield Problem(
                kind=Kind.DOCUMENT_ALTERED, where=where, message=f"its document is of {document.tenant}"
            )
        if isinstance(document, CreditNoteDocument) and (
            document.id != entry.object_id or document.issued_at_ms != entry.at_ms
        ):
            yield Problem(
                kind=Kind.DOCUMENT_ALTERED,
                where=where,
                message=f"its document is of {document.id} or another time",
            )
        if isinstance(document, CreditNoteDocument) and ("invoice", document.invoice.id) not in named:
            yield _altered(where, f"credits {document.invoice.id}, and no entry before it issued that")
    if notes.billing is not None:
        yield from _compare(chain, notes.billing, "this machine noted")
    cuts = commitments.cuts
    for number, cut in enumerate(cuts):
        if cut.billing is not None:
            yield from _compare(chain, cut.billing, f"brokers noted with cut {cut.cut_id}")
        if number and cut.start_ms != cuts[number - 1].end_ms:
            yield _altered(f"cut {cut.cut_id}", "the brokers' cuts do not follow one another")


def comparable(notes: Notes, chain: BillingChain) -> Notes:
    """What was noted as far as this chain reaches: that of a bundle ends where it did when the bundle was made."""
    point = notes.billing
    if point is None or point.sequence <= len(chain.entries):
        return notes
    return Notes(billing=None, invoices=notes.invoices)


def check_bundled(
    invoice: InvoiceDocument,
    position: "ChainPosition",
    chain: BillingChain,
    notes: Notes,
    anchors: Sequence[Anchor],
    made_ms: int | None,
) -> Iterator[Problem]:
    """What a bundle's chain contradicts of the anchors, and what of anchors and notes it cannot be compared with. One
    anchor that shows the invoice is enough. `made_ms`: when the bundle was made, None = after all anchors.
    """
    ends = len(chain.entries)
    if notes.billing is not None and notes.billing.sequence > ends and invoice.number not in notes.invoices:
        yield _not_compared(f"this machine noted entry {notes.billing.sequence}, the bundle's ends at {ends}")
    found = [list(_compare_anchor(invoice, position, chain, anchor, made_ms)) for anchor in anchors]
    is_shown = any(not problems for problems in found)
    yield from (one for problems in found for one in problems if one.is_wrong or not is_shown)
    days: dict[tuple[str, str], DayAnchors] = {}
    for anchor in anchors:
        if isinstance(anchor, DayAnchors) and days.setdefault((anchor.day, anchor.key), anchor) != anchor:
            yield _altered(CHAIN, f"two different documents of {anchor.day} are signed by one key")


def _compare_anchor(
    invoice: InvoiceDocument,
    position: "ChainPosition",
    chain: BillingChain,
    anchor: Anchor,
    made_ms: int | None,
) -> Iterator[Problem]:
    """Nothing: the invoice is as the anchor has it."""
    ends = len(chain.entries)
    if isinstance(anchor, DayAnchors):
        yield from _compare_day(invoice, position, chain, anchor, made_ms)
        return
    if anchor.sequence > ends:
        yield _not_compared(f"the anchor is entry {anchor.sequence}, the bundle's ends at {ends}")
    else:
        yield from _compare(chain, anchor, "the anchor has")
    if anchor.sequence < position.entry.sequence:
        yield _older(invoice, position, f"entry {anchor.sequence}")


def _compare_day(
    invoice: InvoiceDocument,
    position: "ChainPosition",
    chain: BillingChain,
    anchor: DayAnchors,
    made_ms: int | None,
) -> Iterator[Problem]:
    """The day's document holds the newest entry that the chain had at its end: one that a bundle from before that has
    not, where the chain went on.
    """
    newest = anchor.newest(invoice.tenant, chain.entries)
    begun = [entry for entry in chain.entries if entry.at_ms < anchor.end_ms]
    goes_on = len(begun) < len(chain.entries) or made_ms is None or made_ms >= anchor.end_ms
    if newest is None and begun and not goes_on:
        yield _not_compared(
            f"the anchors of {anchor.day} hold none of its entries, and the bundle was made before that day's end"
        )
    elif newest is None and begun:
        yield _altered(
            CHAIN,
            f"the anchors of {anchor.day} hold none of its entries, {len(begun)} of which were made before that"
            " day's end as it says",
        )
    elif newest is None or newest.sequence < position.entry.sequence:
        yield _older(invoice, position, f"of {anchor.day}")


def _older(invoice: InvoiceDocument, position: "ChainPosition", which: str) -> Problem:
    return Problem(
        kind=Kind.UNPROVEN,
        where=invoice.id,
        message=f"it is entry {position.entry.sequence} of the billing chain, and the anchor, {which}, is older: it"
        " says nothing of the invoice",
    )


def _not_compared(what: str) -> Problem:
    return Problem(
        kind=Kind.UNPROVEN, where=CHAIN, message=f"{what}: they are not compared; a newer bundle has both"
    )


def _compare(chain: BillingChain, point: ChainPoint, who: str) -> Iterator[Problem]:
    entry = chain.at(point.sequence)
    if entry is None:
        yield _altered(CHAIN, f"{who} entry {point.sequence}, it ends at {len(chain.entries)}")
    elif entry.hash != point.hash:
        yield _altered(CHAIN, f"{who} another entry {point.sequence}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPosition:
    """Where an invoice stands: its entry, its cut as the brokers keep it, and the invoice and the cut before."""

    entry: ChainEntry
    previous: ChainEntry | None
    cut: KeptCut | None
    """None: brokers keep none, the invoice is older than that."""
    previous_cut: KeptCut | None
    noted_before: int
    """Of the chain, entries that the brokers had noted before `previous_cut`."""
    rank: int
    """The number of the invoice in the chain, from 1 on."""


def position_of(
    chain: BillingChain, invoice_id: str, cut_id: str, commitments: Commitments
) -> ChainPosition | None:
    """None when the chain does not know the invoice."""
    invoices = chain.invoices()
    index = next((i for i, entry in enumerate(invoices) if entry.object_id == invoice_id), None)
    if index is None:
        return None
    cuts = commitments.cuts
    at = next((i for i, cut in enumerate(cuts) if cut.cut_id == cut_id), None)
    return ChainPosition(
        entry=invoices[index],
        previous=invoices[index - 1] if index else None,
        cut=None if at is None else cuts[at],
        previous_cut=cuts[at - 1] if at else None,
        noted_before=max(
            [1, *(cut.billing.sequence for cut in cuts[: max(0, (at or 0) - 1)] if cut.billing is not None)]
        ),
        rank=index + 1,
    )


def check_document(
    invoice: InvoiceDocument,
    position: ChainPosition,
    commitments: Commitments,
    chain: BillingChain,
    notes: Notes,
) -> Iterator[Problem]:
    """The document is the one of the chain, of this tenant, for the period that the brokers keep, and the one due."""
    name = invoice.id
    sha256 = document_sha256(invoice)
    if sha256 != position.entry.document_sha256:
        yield _document(
            name, f"has the hash {sha256}, the billing chain says {position.entry.document_sha256}"
        )
    if invoice.issued_at_ms != position.entry.at_ms:
        yield _document(name, "was issued at another time than the billing chain says")
    if invoice.tenant != commitments.tenant:
        yield _document(name, f"is an invoice of {invoice.tenant}, this key is one of {commitments.tenant}")
    noted = notes.invoices.get(invoice.number)
    if noted is not None and noted != sha256:
        yield _document(name, f"this machine has proven another invoice {invoice.number}")
    if invoice.period_end_ms <= invoice.period_start_ms:
        yield _cut(name, "its period ends before it begins")
    order = [(p.topic, p.topic_id, p.partition, p.log_generation) for p in invoice.partitions]
    if order != sorted(order):
        yield _document(name, "its partitions are not in order")
    cut = position.cut
    if cut is None and commitments.cuts and invoice.period_end_ms > commitments.cuts[0].start_ms:
        yield _cut(
            name, f"the brokers keep the tenant's cuts of that time, and {invoice.cut.id} is none of them"
        )
    elif cut is None:
        yield Problem(
            kind=Kind.UNCOMMITTED,
            where=name,
            message=f"the brokers keep nothing of its cut, {invoice.cut.id}: nothing shows where the period ends",
        )
    else:
        if invoice.period_end_ms != cut.end_ms or (cut.start_ms and invoice.period_start_ms != cut.start_ms):
            yield _cut(name, f"its period is not that of cut {cut.cut_id} as the brokers keep it")
        index = commitments.cuts.index(cut)
        if not commitments.cuts[0].start_ms:
            if (position.rank, invoice.number) != (index + 1, index + 1):
                message = f"is numbered {invoice.number} and invoice {position.rank} of the chain, of cut {index + 1}"
                yield _altered(name, message)
        elif position.previous is None and index:
            yield _altered(name, "is the first of the chain, and the brokers keep a cut before its own")
    yield from check_readings(invoice, cut)
    if position.previous is None:
        if invoice.previous is not None:
            yield _document(
                name, f"names {invoice.previous.id} before it, which the billing chain does not know"
            )
        older = cut is not None and cut.start_ms > 0
        if invoice.number != 1 and not older and cut is not None:
            yield _document(name, f"is numbered {invoice.number}, it is the first")
        if older or (cut is None and invoice.number != 1):
            yield Problem(
                kind=Kind.UNCOMMITTED,
                where=name,
                message="the invoice before is older than the billing chain: nothing shows where it ended",
            )
    elif invoice.previous is None:
        yield _document(name, f"names none before it, {position.previous.object_id} is due")
    else:
        said = (invoice.previous.id, invoice.previous.document_sha256, invoice.previous.number)
        due = (position.previous.object_id, position.previous.document_sha256, invoice.number - 1)
        if said != due:
            yield _document(name, f"names {said[0]} before it, {due[0]} is due, or one of another content")


def check_readings(invoice: InvoiceDocument, cut: KeptCut | None) -> Iterator[Problem]:
    """The document's readings are those that the brokers keep by their hash."""
    where = [(r.topic_id, r.partition) for r in invoice.cut.readings]
    if where != sorted(set(where)):
        yield _cut(invoice.id, "the readings of its cut are not in order, or one stands there twice")
    elif cut is not None:
        ends = cut_ends(invoice.cut.readings)
        found = cut_sha256(invoice.tenant, invoice.cut.id, invoice.period_end_ms, ends)
        if found != cut.sha256:
            yield _cut(
                invoice.id, f"the readings of its cut have the hash {found}, the brokers keep {cut.sha256}"
            )


def check_previous(
    invoice: InvoiceDocument, previous: InvoiceDocument, position: ChainPosition, commitments: Commitments
) -> Iterator[Problem]:
    """The invoice before is the one of the chain, and of the cut before."""
    if position.previous is not None and document_sha256(previous) != position.previous.document_sha256:
        yield _document(previous.id, "is not the document of the billing chain")
    if previous.tenant != commitments.tenant:
        yield _document(previous.id, f"is an invoice of {previous.tenant}")
    if previous.number != invoice.number - 1:
        yield _document(invoice.id, f"is numbered {invoice.number}, {previous.number} is the one before")
    if previous.period_end_ms != invoice.period_start_ms:
        yield _cut(invoice.id, f"its period does not begin where that of {previous.id} ends")
    kept = position.previous_cut
    if kept is not None and kept.cut_id != previous.cut.id:
        yield _cut(
            previous.id, f"is of cut {previous.cut.id}, the brokers keep {kept.cut_id} before this one"
        )
    yield from check_readings(previous, kept)


def before_of(previous: InvoiceDocument | None) -> dict[Any, CutEnd]:
    """Where each partition stood at the cut before."""
    return {} if previous is None else {end.where: end for end in cut_ends(previous.cut.readings)}


def notes_since_previous(chain: BillingChain, position: ChainPosition) -> list[CreditNoteDocument]:
    """The credit notes between the previous invoice's entry and this invoice's."""
    first = 0 if position.previous is None else position.previous.sequence
    return [note for at, note in sorted(chain.credit_notes.items()) if first < at < position.entry.sequence]


def credits_of(chain: BillingChain, invoice: InvoiceDocument) -> list[CreditNoteDocument]:
    """Every credit note of the invoice, in the order of the chain."""
    return [note for note in all_credits(chain) if note.invoice.id == invoice.id]


def all_credits(chain: BillingChain) -> list[CreditNoteDocument]:
    """Every credit note of the tenant, in the order of the chain."""
    return [note for _, note in sorted(chain.credit_notes.items())]


def check_lost_before(
    previous: InvoiceDocument,
    position: ChainPosition,
    chain: BillingChain,
    recounted: Mapping[TopicPartition, int],
) -> Iterator[Problem]:
    """What a loss took from the invoices before, and this one counts again, was credited in between. `recounted`: from
    which offset, by partition.
    """
    first = 0 if position.previous is None else position.previous.sequence
    credited: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for sequence, note in chain.credit_notes.items():
        if first < sequence < position.entry.sequence:
            for lost in note.ranges:
                ranges = credited.setdefault((lost.topic_id, lost.partition), [])
                ranges.append((lost.first_offset, lost.end_offset))
    for reading in previous.cut.readings:
        at = recounted.get(where_of(reading))
        if at is None or at >= reading.end_offset:
            continue
        lost_from = at
        for first_offset, end_offset in sorted(credited.get((reading.topic_id, reading.partition), ())):
            if first_offset <= at:
                at = max(at, end_offset)
        if at < reading.end_offset:
            yield Problem(
                kind=Kind.CREDIT_DIFFERS,
                where=str(where_of(reading)),
                message=f"offsets {lost_from} to {reading.end_offset} were lost after {previous.id} had billed them, "
                f"are counted again here, and are not credited from {at} on",
                offset=at,
                end_offset=reading.end_offset,
            )


def check_credit_documents(
    invoice: InvoiceDocument, credits: Iterable[CreditNoteDocument]
) -> Iterator[Problem]:
    """Credit notes name this very invoice and its prices."""
    sha256 = document_sha256(invoice)
    billed = {(part.topic_id, part.partition) for part in invoice.partitions}
    for note in credits:
        granted = note.granted is not UNSET
        if not (note.ranges or granted) or any(
            (lost.topic_id, lost.partition) not in billed for lost in note.ranges
        ):
            yield Problem(
                kind=Kind.CREDIT_DIFFERS,
                where=note.id,
                message="credits nothing, or what the invoice does not count",
            )
        if note.invoice.document_sha256 != sha256:
            yield _document(note.id, f"credits {note.invoice.id} as it was with another content")
        if (note.price_book_sha256, note.currency) != (invoice.price_book_sha256, invoice.currency):
            yield Problem(
                kind=Kind.CREDIT_DIFFERS, where=note.id, message="is at other prices than its invoice"
            )


def _altered(where: str, message: str) -> Problem:
    return Problem(kind=Kind.HISTORY_ALTERED, where=where, message=message)


def _document(where: str, message: str) -> Problem:
    return Problem(kind=Kind.DOCUMENT_ALTERED, where=where, message=message)


def _cut(where: str, message: str) -> Problem:
    return Problem(kind=Kind.CUT_DIFFERS, where=where, message=message)


def _price(where: str, message: str) -> Problem:
    return Problem(kind=Kind.PRICE_DIFFERS, where=where, message=message)
