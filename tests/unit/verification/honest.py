"""An honest service in memory: logs, brokers that keep cuts, and the documents of each period, for tests to alter."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET

from penstock.contract.document_fields import NO_HASH, Strict
from penstock.contract.documents import (
    ChainEntry,
    CreditGrant,
    CreditNoteDocument,
    InvoiceDocument,
    PricesDocument,
    Terms,
    chain_hash,
    document_sha256,
    plain,
    read_document,
)
from penstock.contract.errors import NotFound
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.cut import cut_sha256
from penstock.records.seal import Seal
from penstock.rules.charges import (
    ChargedCredit,
    LeftCredit,
    charge,
    charge_id,
    charged_terms,
    credit_charged,
    standing_credit,
)
from penstock.rules.odometer import Odometer
from penstock.rules.rating import Credited, PriceBook, credit, credit_line_id, line_id, rate
from penstock.rules.stated_tax import TaxedLine, taxed_lines
from penstock.rules.usage_folding import UsageFold
from penstock.verification.charges_check import grants_of, stated_in
from penstock.verification.claims import cut_ends
from penstock.verification.commitments import (
    NOTHING_NOTED,
    ChainPoint,
    Commitments,
    KeptCut,
    KeptLoss,
    Notes,
)
from penstock.verification.findings import Report
from penstock.verification.proving import prove
from penstock.verification.stamped_reads import LiveTopic, StampedBatches
from tests.unit.verification.stored_log import BEGIN_MS, BOOK, DAY_MS, StoredLog

TENANT = "tn_1"
PERIOD_MS = 10 * DAY_MS
KINDS: Mapping[str, type[Strict]] = {
    "prices": PricesDocument,
    "invoice": InvoiceDocument,
    "credit_note": CreditNoteDocument,
}


def state_tax(lines: Sequence[TaxedLine], at_ms: int) -> dict[str, Any]:
    """As Stripe Tax would: 19 % of each line in whole cents, by the rates of that moment."""
    stated = []
    for one in lines:
        tax = (one.base_micro * 19 // 100 + 5_000) // 10_000 * 10_000
        part = {
            "country": "DE", "state": "", "jurisdiction": "Germany", "level": "country", "tax": "vat",
            "percent": "19.0", "taxable_micro": one.base_micro, "amount_micro": tax, "reason": "standard_rated",
        }  # fmt: skip
        stated.append({"line": one.line, "base_micro": one.base_micro, "tax_micro": tax, "parts": [part]})
    return {
        "by": "stripe_tax", "calculation": "taxcalc_1", "tax_at_ms": at_ms, "tax_ids": [], "lines": stated,
        "address": {
            "country": "DE", "state": "", "postal_code": "", "city": "Berlin", "line1": "", "line2": "",
        },
    }  # fmt: skip


class Service:
    """Brokers and control plane of one tenant. `chain_items`, `documents` and `shown` are what REST says; the logs,
    `cuts` and `losses` are the brokers'.
    """

    def __init__(
        self,
        *logs: StoredLog,
        book: PriceBook = BOOK,
        begins_ms: int = BEGIN_MS,
        terms: Terms | None = None,
    ) -> None:
        self.logs = list(logs)
        self.binned: list[StoredLog] = []
        """Logs of topics in the recycle bin: cuts count them, and no key sees them."""
        self.gone: list[StoredLog] = []
        """Logs of deleted topics, each until a cut has counted it."""
        self.book = book
        self.bytes_max = 200
        self.chain_items: list[dict[str, Any]] = []
        self.documents: dict[str, dict[str, Any]] = {}
        self.shown: dict[str, dict[str, Any]] = {}
        self.records: list[dict[str, Any]] = []
        """Those of a bundle, where there is one."""
        self.cuts: list[KeptCut] = []
        self.losses: list[KeptLoss] = []
        self.period_begins_ms = begins_ms
        self.assign(book, begins_ms, terms)

    # -- what an honest service does ---------------------------------------------------------------------------

    def assign(self, book: PriceBook, from_ms: int, terms: Terms | None = None) -> None:
        """Prices for periods from then on; of format 2 with `terms`."""
        self.book = book
        priced = {"format": 1} if terms is None else {"format": 2, "terms": plain(terms)}
        self.enter(
            "prices",
            f"pa_{len(self.chain_items) + 1}",
            {
                **priced,
                "kind": "prices",
                "tenant": TENANT,
                "effective_from_ms": from_ms,
                "price_book": book.document(),
            },
            from_ms if not self.chain_items else self.period_begins_ms + PERIOD_MS,
        )

    def delete_topic(self, log: StoredLog) -> None:
        self.logs.remove(log)
        self.gone.append(log)

    def lose_from(self, log: StoredLog, offset: int) -> None:
        """A declared loss: the log ends at `offset`, and goes on from there."""
        log.lose_from(offset)
        self.losses.append(KeptLoss(where=log.where, log_generation=log.generation, offset=offset))

    def cut(
        self,
        end_ms: int | None = None,
        ends: Mapping[TopicPartition, int] | None = None,
        credits: Sequence[tuple[str, StoredLog, int, int, int]] = (),
        measured: Sequence[Mapping[str, Any]] | None = None,
        open_ms: tuple[int, int] | None = None,
    ) -> str:
        """End the period and issue its invoice; its id. `ends` where a partition is cut below its log's end; `credits`
        as `credit` takes them, issued before the invoice; `measured`: rows of meters that count no offsets; `open_ms`:
        the tenant's open time, where it is a part of the period.
        """
        end_ms = self.period_begins_ms + PERIOD_MS if end_ms is None else end_ms
        number = len(self.cuts) + 1
        cut_id, invoice = f"cut_{number}", f"inv_{number}"
        before = self._document_of(number - 1)
        earlier = (
            {} if before is None else {(r["topic_id"], r["partition"]): r for r in before["cut"]["readings"]}
        )
        readings, partitions = [], []
        for log in sorted(
            [*self.logs, *self.binned, *self.gone], key=lambda log: (log.where.topic_id, log.where.partition)
        ):
            end = (ends or {}).get(log.where, log.end_offset)
            reading, part = _part(
                log, earlier.get((log.where.topic_id.hex(), log.where.partition)), end, self.losses
            )
            reading["last"] = log in self.gone
            readings.append(reading)
            partitions.append(part)
        self.gone = []
        head = self.head
        document: dict[str, Any] = {
            "format": 1,
            "kind": "invoice",
            "id": invoice,
            "number": number,
            "issuer_number": f"INV-{5 * number:06d}",
            "tenant": TENANT,
            "period_start_ms": self.period_begins_ms,
            "period_end_ms": end_ms,
            "issued_at_ms": end_ms + 60_000,
            "cut": {"id": cut_id, "readings": readings},
            "partitions": sorted(
                partitions, key=lambda part: (part["topic"], part["topic_id"], part["partition"])
            ),
            "previous": None
            if before is None
            else {"id": before["id"], "number": number - 1, "document_sha256": sha256_of(before)},
            **({} if measured is None else {"measured": list(measured)}),
            **rated(
                partitions,
                self._book_for(self.period_begins_ms),
                invoice,
                self.period_begins_ms,
                end_ms,
                measured or (),
            ),
        }
        # As it is once it has charges, so that `measured` has its place.
        document |= {} if measured is None else {"format": 2, "charges": [], "balances": []}
        if open_ms is not None:
            opened = {"from_ms": open_ms[0], "until_ms": open_ms[1]}
            document |= {"format": 2, "charges": [], "balances": [], "open_time": opened}
        read = read_document(document, InvoiceDocument, invoice)
        self.cuts.append(
            KeptCut(
                cut_id=cut_id,
                start_ms=self.cuts[-1].end_ms if self.cuts else 0,
                end_ms=end_ms,
                sha256=cut_sha256(TENANT, cut_id, end_ms, cut_ends(read.cut.readings)),
                billing=head,
                kept_ms=end_ms,
            )
        )
        for one in credits:
            self.credit(*one)
        self.documents[invoice] = document
        self.charge(document)
        self.enter("invoice", invoice, document, end_ms + 60_000)
        self.shown[invoice] = shown(document, [])
        self.period_begins_ms = end_ms
        return invoice

    def charge(self, document: dict[str, Any]) -> None:
        """Put the charges that are due into an invoice whose prices have format 2."""
        prices = self._prices_for(document["period_start_ms"])
        if prices.terms is UNSET:
            return
        before = None if document["previous"] is None else self.documents[document["previous"]["id"]]
        names = [item["object_id"] for item in self.chain_items]
        at = names.index(document["id"]) if document["id"] in names else len(names)
        since = 0 if before is None else names.index(before["id"])
        back: dict[str, int] = {}
        for item in self.chain_items[since:at]:
            for one in (item["document"] or {}).get("charges", []):
                if one["kind"] == "credit":
                    back[one["name"]] = back.get(one["name"], 0) + one["amount_micro"]
        left = {
            one["grant"]: one["before_micro"] - one["used_micro"]
            for one in (before or {}).get("balances", [])
        }
        start_ms = document["period_start_ms"]
        left_at_ms = 0 if before is None else before["period_start_ms"]
        given = standing_credit(
            prices.terms,
            self._grants(start_ms),
            LeftCredit(period_start_ms=left_at_ms, rests=left),
            back,
            start_ms,
        )
        book = PriceBook.read(plain(prices.price_book))
        amounts = {line["meter"]: line["amount_micro"] for line in document["lines"]}
        period = (start_ms, document["period_end_ms"])
        opened = document.get("open_time")
        open_ms = None if opened is None else (opened["from_ms"], opened["until_ms"])
        found = charge(book, given.terms, amounts, period, given.rests, open_ms=open_ms)
        if prices.terms.tax_stated_by is not UNSET:
            document["tax_statement"] = state_tax(
                taxed_lines(book, amounts, found), document["period_end_ms"]
            )
            stated = stated_in(
                read_document(document | {"format": 2, "charges": [], "balances": []}, InvoiceDocument, "")
            )
            found = charge(book, given.terms, amounts, period, given.rests, stated, open_ms=open_ms)
        document.update(
            format=2,
            charges=[
                {**asdict(one), "id": charge_id(document["id"], one.key, document_sha256(prices))}
                for one in found.charges
            ],
            balances=[asdict(one) for one in found.balances],
            total_micro=found.total_micro,
        )

    def credit(self, invoice: str, log: StoredLog, first: int, messages: int, size: int) -> None:
        """A credit note for what was lost of one partition from `first` on."""
        document = self.documents[invoice]
        notes = [item["document"] for item in self.chain_items if item["kind"] == "credit_note"]
        mine = [note for note in notes if note["invoice"]["id"] == invoice]
        place = (log.where.topic_id.hex(), log.where.partition)
        part = next(p for p in document["partitions"] if (p["topic_id"], p["partition"]) == place)
        rows = [
            row for note in mine for row in note["ranges"] if (row["topic_id"], row["partition"]) == place
        ]
        end = min([part["end_offset"], *(row["first_offset"] for row in rows)])
        billed = {line["meter"]: line["quantity"] for line in document["lines"]}
        for note in mine:
            for line in note["lines"]:
                billed[line["meter"]] -= line["quantity"]
        name = f"cn_{len(notes) + 1}"
        lost = {"messages_in": messages, "bytes_in": size}
        prices = self._prices_for(document["period_start_ms"])
        credited: Credited | ChargedCredit
        added: dict[str, Any] = {}
        if prices.terms is UNSET:
            credited = credit(self.book, billed, lost)
        else:
            amounts = {line["meter"]: line["amount_micro"] for line in document["lines"]}
            for earlier in mine:
                for line in earlier["lines"]:
                    amounts[line["meter"]] -= line["amount_micro"]
            rests = {one["grant"]: one["before_micro"] for one in document["balances"]}
            period = (document["period_start_ms"], document["period_end_ms"])
            given_terms = charged_terms(prices.terms, self._grants(period[0]), rests)
            book = PriceBook.read(plain(prices.price_book))
            issued = read_document(document, InvoiceDocument, invoice)
            credited = credit_charged(
                book,
                given_terms,
                period,
                rests,
                amounts,
                billed,
                lost,
                stated_in(issued),
                open_ms=issued.open_ms,
            )
            added = {"charges": [asdict(one) for one in credited.changes]}
        note = {
            "format": document["format"],
            **added,
            "kind": "credit_note",
            "id": name,
            "number": len(notes) + 1,
            "issuer_number": f"CN-{5 * len(notes) + 5:06d}",
            "tenant": TENANT,
            "issued_at_ms": max(self.cuts[-1].end_ms + 50_000, self.chain_items[-1]["at_ms"]),
            "invoice": {"id": invoice, "document_sha256": sha256_of(document)},
            "cut_id": self.cuts[-1].cut_id,
            "currency": self.book.currency,
            "price_book_sha256": self.book.sha256,
            "lines": [
                {
                    "id": credit_line_id(name, line.meter, self.book.sha256),
                    "meter": line.meter,
                    "unit": line.unit,
                    "unit_size": line.unit_size,
                    "quantity": line.quantity,
                    "amount_micro": line.amount_micro,
                }
                for line in credited.lines
            ],
            "ranges": [
                {
                    "topic": log.name,
                    "topic_id": log.where.topic_id.hex(),
                    "partition": log.where.partition,
                    "log_generation": part["log_generation"],
                    "first_offset": first,
                    "end_offset": end,
                    "messages": messages,
                    "bytes": size,
                }
            ],
            "total_micro": credited.total_micro,
        }
        self.enter("credit_note", name, note, note["issued_at_ms"])
        self.shown[invoice] = shown(document, [*mine, note])

    # -- what it is asked --------------------------------------------------------------------------------------

    @property
    def head(self) -> ChainPoint:
        last = self.chain_items[-1]
        return ChainPoint(sequence=last["sequence"], hash=last["hash"])

    def invoice(self, invoice_id: str) -> Any:
        return copy.deepcopy(self.shown[invoice_id])

    def evidence(self, invoice_id: str) -> Any:
        if invoice_id not in self.documents:
            raise NotFound(f"invoice {invoice_id}: not here")
        return copy.deepcopy({"status": "issued", "gaps": [], "document": self.documents[invoice_id]})

    def chain(self) -> Sequence[Mapping[str, Any]]:
        return copy.deepcopy(self.chain_items)

    def topics(self) -> dict[bytes, LiveTopic]:
        return {
            log.where.topic_id: LiveTopic(name=log.name, topic_id=log.where.topic_id, leaders=(0,) * 4)
            for log in self.logs
        }

    def commitments(self) -> Commitments:
        return Commitments(tenant=TENANT, cuts=tuple(self.cuts), losses=tuple(self.losses))

    def seals(self, where: TopicPartition) -> Sequence[Seal]:
        return next((log.seals for log in self.logs if log.where == where), [])

    def read(self, where: TopicPartition, offset: int, end_offset: int, bytes_max: int = 0) -> StampedBatches:
        for log in self.logs:
            if log.where == where:
                return log.read(offset, end_offset, self.bytes_max)
        raise NotFound(f"{where}: not here")

    def verify(self, invoice: str = "inv_1", notes: Notes = NOTHING_NOTED, **options: Any) -> Report:
        return prove(invoice, self, self, notes=notes, **options)

    # -- a service that lies well ------------------------------------------------------------------------------

    def rechain(self) -> None:
        """Write the whole chain again over the documents as they are now, with the predecessors' hashes."""
        previous, before = NO_HASH, None
        for item in self.chain_items:
            document = self.documents[item["object_id"]] if item["kind"] == "invoice" else item["document"]
            if item["kind"] == "invoice":
                if before is not None and document["previous"] is not None:
                    document["previous"]["document_sha256"] = sha256_of(before)
                before = document
            elif item["kind"] == "credit_note" and document["invoice"]["id"] in self.documents:
                document["invoice"]["document_sha256"] = sha256_of(self.documents[document["invoice"]["id"]])
            item["document_sha256"] = sha256_of(document)
            item["hash"] = previous = chain_hash(TENANT, previous, _entry(item))

    def show_again(self) -> None:
        """REST says what the documents say now."""
        notes = [item["document"] for item in self.chain_items if item["kind"] == "credit_note"]
        for invoice, document in self.documents.items():
            self.shown[invoice] = shown(document, [n for n in notes if n["invoice"]["id"] == invoice])

    def keep_again(self) -> None:
        """Brokers that lie with it: they keep cuts and chain as the documents are now."""
        self.rechain()
        self.show_again()
        kept: list[KeptCut] = []
        for number, cut in enumerate(self.cuts, 1):
            invoice = read_document(self.documents[f"inv_{number}"], InvoiceDocument, "test")
            billing = cut.billing
            if billing is not None:
                billing = replace(billing, hash=self.chain_items[billing.sequence - 1]["hash"])
            sha256 = cut_sha256(TENANT, cut.cut_id, cut.end_ms, cut_ends(invoice.cut.readings))
            kept.append(replace(cut, sha256=sha256, billing=billing))
        self.cuts = kept

    def enter(self, kind: str, name: str, document: dict[str, Any], at_ms: int) -> None:
        """The chain's next entry."""
        self.chain_items.append(chained(TENANT, self.chain_items, kind, name, document, at_ms))

    def _document_of(self, number: int) -> dict[str, Any] | None:
        return self.documents.get(f"inv_{number}")

    def _grants(self, begins_ms: int) -> list[CreditGrant]:
        """Of the prices for periods that begin then or earlier."""
        documents = [item["document"] for item in self.chain_items if item["kind"] == "prices"]
        read = [read_document(one, PricesDocument, "test") for one in documents]
        return grants_of(one for one in read if one.effective_from_ms <= begins_ms)

    def _prices_for(self, begins_ms: int) -> PricesDocument:
        found = [
            item["document"]
            for item in self.chain_items
            if item["kind"] == "prices" and item["document"]["effective_from_ms"] <= begins_ms
        ]
        return read_document(found[-1], PricesDocument, "test")

    def _book_for(self, begins_ms: int) -> PriceBook:
        found = [
            item["document"]
            for item in self.chain_items
            if item["kind"] == "prices" and item["document"]["effective_from_ms"] <= begins_ms
        ]
        return PriceBook.read(found[-1]["price_book"])


def sha256_of(document: Mapping[str, Any]) -> str:
    """Of any document."""
    return document_sha256(read_document(document, KINDS[document["kind"]], "test"))


def chained(
    tenant: str,
    chain: Sequence[Mapping[str, Any]],
    kind: str,
    name: str,
    document: dict[str, Any],
    at_ms: int,
) -> dict[str, Any]:
    """The next item of a chain."""
    item = {
        "sequence": len(chain) + 1,
        "kind": kind,
        "object_id": name,
        "document_sha256": sha256_of(document),
        "at_ms": at_ms,
        "hash": NO_HASH,
        "document": None if kind == "invoice" else document,
    }
    previous = chain[-1]["hash"] if chain else NO_HASH
    return item | {"hash": chain_hash(tenant, previous, _entry(item))}


def _entry(item: Mapping[str, Any]) -> ChainEntry:
    return read_document({k: v for k, v in item.items() if k != "document"}, ChainEntry, "test")


def _part(
    log: StoredLog, earlier: Mapping[str, Any] | None, end: int, losses: Sequence[KeptLoss]
) -> tuple[dict[str, Any], dict[str, Any]]:
    start = 0 if earlier is None else earlier["end_offset"]
    known = log.generation if earlier is None else earlier["log_generation"]
    since = [loss.offset for loss in losses if loss.where == log.where and loss.log_generation > known]
    first = min([start, *since])
    whole = UsageFold(Odometer(), start_offset=first, end_offset=end, wanted=[end])
    for index in range(len(log.stamps)):
        if log.stamp(index).end_offset <= end:
            whole.apply(log.stamp(index))
    mark = whole.mark(end)
    assert mark is not None
    place = {"topic_id": log.where.topic_id.hex(), "partition": log.where.partition}
    reading = {
        **place,
        "log_generation": log.generation,
        "end_offset": end,
        "accepted_ms": mark.accepted_ms,
        "messages": mark.totals.committed_messages,
        "bytes": mark.totals.committed_bytes,
        "last": False,
    }
    part = {
        "topic": log.name,
        **place,
        "log_generation": log.generation,
        "start_offset": start,
        "counts_from": first,
        "end_offset": end,
        "days": [
            {
                "day": day.day.isoformat(),
                "first_offset": day.first_offset,
                "end_offset": day.end_offset,
                "messages": day.messages,
                "bytes": day.bytes,
            }
            for day in whole.days()
        ],
    }
    return reading, part


def rated(
    partitions: Sequence[Mapping[str, Any]],
    book: PriceBook,
    invoice: str,
    begin_ms: int,
    end_ms: int,
    measured: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Lines and total of an invoice over these partitions and rows."""
    days = [day for part in partitions for day in part["days"]]
    quantities = {
        "messages_in": sum(day["messages"] for day in days),
        "bytes_in": sum(day["bytes"] for day in days),
    }
    for row in measured:
        quantities[row["meter"]] = quantities.get(row["meter"], 0) + row["quantity"]
    rated = rate(book, quantities)
    return {
        "currency": book.currency,
        "minor_digits": book.minor_digits,
        "price_book_sha256": book.sha256,
        "lines": [
            {
                "id": line_id(invoice, line.meter, book.sha256, begin_ms, end_ms),
                "meter": line.meter,
                "unit": line.unit,
                "unit_size": line.unit_size,
                "quantity": line.quantity,
                "amount_micro": line.amount_micro,
                "parts": [{"quantity": part.quantity, "unit_price": part.unit_price} for part in line.parts],
            }
            for line in rated.lines
        ],
        "total_micro": rated.total_micro,
    }


def rate_again(document: dict[str, Any], book: PriceBook) -> None:
    """Make lines and total of an altered invoice agree with what it counts now."""
    document.update(
        rated(
            document["partitions"],
            book,
            document["id"],
            document["period_start_ms"],
            document["period_end_ms"],
            document.get("measured", ()),
        )
    )


def shown(document: Mapping[str, Any], notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What `GET /v1/invoices/ID` says."""
    return {
        **{
            name: document[name]
            for name in ("id", "number", "tenant", "currency", "minor_digits", "total_micro")
        },
        "issuer_number": document.get("issuer_number", ""),
        "status": "issued",
        "period_start": _text(document["period_start_ms"]),
        "period_end": _text(document["period_end_ms"]),
        "issued_at": _text(document["issued_at_ms"]),
        "cut": document["cut"]["id"],
        "gaps": [],
        "void_at": None,
        "lines": [
            {**copy.deepcopy(line), "price_book_sha256": document["price_book_sha256"]}
            for line in document["lines"]
        ],
        "credit_notes": [{name: note[name] for name in ("id", "number", "total_micro")} for note in notes],
        "credited_micro": sum(note["total_micro"] for note in notes),
        "charges": copy.deepcopy(document.get("charges", [])),
    }


def _text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


RETURNS, BRIEF = TopicId(bytes(16)), TopicId(b"b" * 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """`alter` changes a service; `invoice` is then verified. `right`: it bills what is due, and must be accepted."""

    name: str
    alter: Callable[[Service], None]
    invoice: str
    right: bool = False
    notes: Notes = NOTHING_NOTED
    periods: int = 3


def world(periods: int = 3) -> Service:
    """Several partitions, a loss that is credited, a topic that is deleted, prices that change for the third period."""
    orders, more = StoredLog(0), StoredLog(1)
    returns, brief = StoredLog(0, RETURNS, "returns"), StoredLog(0, BRIEF, "brief")
    orders.write(4, BEGIN_MS + 1)
    orders.write(6, BEGIN_MS + DAY_MS, rolls=True)
    more.write(3, BEGIN_MS + 7)
    returns.write(5, BEGIN_MS + 2)
    returns.write(5, BEGIN_MS + 3)
    service = Service(orders, more, returns, book=BOOK)
    service.cut()
    second_ms = BEGIN_MS + PERIOD_MS
    size = len(returns.batches[1])
    service.lose_from(returns, 5)
    returns.write(2, second_ms + 5)
    orders.write(3, second_ms + 6)
    service.logs.append(brief)
    brief.write(2, second_ms + 7)
    service.delete_topic(brief)
    dearer = BOOK.document() | {"version": 2}
    dearer["meters"][0]["tiers"][0]["unit_price"] = "0.030000000000"
    service.assign(PriceBook.read(dearer), second_ms + PERIOD_MS)
    service.book = BOOK
    service.cut(credits=[("inv_1", returns, 5, 5, size)])
    if periods > 2:
        orders.write(8, second_ms + PERIOD_MS + 1)
        service.cut()
    return service
