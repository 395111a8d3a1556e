"""Prove one invoice: fetch its documents, read every offset range from the brokers, compare. Alone does I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.contract.documents import InvoiceDocument, document_sha256, read_document
from penstock.contract.errors import ErrorCode, InvalidRequest, NotFound, PenstockError, error_class
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.invariant import InvariantBroken, invariant
from penstock.receipts import Receipts
from penstock.records.seal import Seal
from penstock.records.stamp import STAMP_BYTES, StampCorrupt, stamp_seed, unpack_stamp
from penstock.rules.names import AUDIT_TOPIC
from penstock.verification import (
    charges_check,
    granted_check,
    history,
    invoice_check,
    measured_check,
    numbering_check,
    prices_check,
)
from penstock.verification.anchors import Anchor
from penstock.verification.claims import PartitionClaim, claims_of, where_of
from penstock.verification.commitments import NOTHING_NOTED, Commitments, Notes
from penstock.verification.findings import Kind, Problem, Report, Verdict
from penstock.verification.partition_check import PartitionCheck
from penstock.verification.receipts_check import BilledPart, check_receipts, offsets_to_count
from penstock.verification.stamped_reads import LiveTopic, StampedBatches

Progress = Callable[[int, int, str], None]
"""(offsets read, offsets in all, what is read now)."""
FIRST_PERIOD_TOLERANCE_MS = 60_000
"""The first period begins by the control plane's clock, and messages are accepted by the brokers'."""
_TRIES = 3
_BEYOND = 2**62
"""Above every offset."""
_NOT_FOR_THIS_KEY = (ErrorCode.NOT_FOUND, ErrorCode.FORBIDDEN)


class Documents(Protocol):
    """What the service says, as parsed JSON: nothing of it is believed."""

    def invoice(self, invoice_id: str) -> Any:
        """`GET /v1/invoices/ID`."""

    def evidence(self, invoice_id: str) -> Any:
        """`GET /v1/invoices/ID/evidence`."""

    def chain(self) -> Sequence[Mapping[str, Any]]:
        """All items of `GET /v1/billing/chain`."""


class Reads(Protocol):
    """What proving needs of the brokers; `StampedReads` is it."""

    def topics(self) -> dict[bytes, LiveTopic]: ...

    def commitments(self) -> Commitments: ...

    def seals(self, where: TopicPartition) -> Sequence[Seal]: ...

    def read(
        self, where: TopicPartition, offset: int, end_offset: int, bytes_max: int = ...
    ) -> StampedBatches: ...


def prove(
    invoice_id: str,
    documents: Documents,
    reads: Reads,
    *,
    notes: Notes = NOTHING_NOTED,
    price_book_sha256: str | None = None,
    receipts: Receipts | None = None,
    receipts_complete: bool = False,
    from_bundle: bool = False,
    anchors: Sequence[Anchor] = (),
    made_ms: int | None = None,
    progress: Progress = lambda done, total, what: None,
) -> Report:
    """Read all that the invoice counts and report.

    `notes`: what this machine noted of the tenant; `price_book_sha256`: the hash of the prices as they were promised;
    `receipts`: what producers noted of their acknowledgements, `receipts_complete`: all producers of the tenant did.
    `from_bundle`: all that is said is of an earlier time, of `made_ms`; `anchors`: entries of the chain that were kept
    elsewhere.
    Raises only when nothing can be said: no broker answers, the key is refused, the invoice is a draft, or a document
    cannot be read (`InvalidRequest`). What is wrong stands in the report.
    """
    for attempt in range(_TRIES):
        commitments, topics = reads.commitments(), reads.topics()
        chain = history.read_chain(documents.chain())
        view = _View(documents=documents, reads=reads, commitments=commitments, topics=topics, chain=chain)
        report = _prove_once(
            invoice_id,
            view,
            notes=notes,
            price_book_sha256=price_book_sha256,
            receipts=receipts,
            receipts_complete=receipts_complete,
            from_bundle=from_bundle,
            anchors=anchors,
            made_ms=made_ms,
            progress=progress,
        )
        if report.verdict is not Verdict.WRONG or attempt == _TRIES - 1:
            return report
        # Periods end, credit notes come and topics go while one verifies: nothing is wrong that was seen half.
        now = (reads.commitments(), _extent(reads.topics()), history.read_chain(documents.chain()))
        if now == (commitments, _extent(topics), chain):
            return report
    raise InvariantBroken("the last attempt returns")


def _extent(topics: Mapping[bytes, LiveTopic]) -> dict[bytes, tuple[str, int]]:
    """Which topics exist, with any leader."""
    return {topic_id: (topic.name, len(topic.leaders)) for topic_id, topic in topics.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What one attempt sees."""

    documents: Documents
    reads: Reads
    commitments: Commitments
    topics: Mapping[bytes, LiveTopic]
    chain: history.BillingChain


def _prove_once(
    invoice_id: str,
    view: _View,
    *,
    notes: Notes,
    price_book_sha256: str | None,
    receipts: Receipts | None,
    receipts_complete: bool,
    from_bundle: bool,
    anchors: Sequence[Anchor],
    made_ms: int | None,
    progress: Progress,
) -> Report:
    chain, commitments, documents, reads = view.chain, view.commitments, view.documents, view.reads
    invoice = _issued(documents, invoice_id)
    comparable = history.comparable(notes, chain) if from_bundle else notes
    problems = list(history.check_chain(chain, commitments, comparable))
    position = history.position_of(chain, invoice_id, invoice.cut.id, commitments)
    if position is None:
        message = "is not in the tenant's billing chain"
        raise InvalidRequest(f"{invoice_id}: {message}; nothing was issued under this name")
    problems += history.check_document(invoice, position, commitments, chain, notes)
    if from_bundle:
        problems += history.check_bundled(invoice, position, chain, notes, anchors, made_ms)
    previous = None
    if position.previous is not None:
        previous = _issued(documents, position.previous.object_id)
        problems += history.check_previous(invoice, previous, position, commitments)
    problems += numbering_check.check_invoice_number(invoice, previous)
    problems += numbering_check.check_credit_numbers(invoice, history.all_credits(chain))
    first_of_all = position.previous is None and (position.cut is None or not position.cut.start_ms)
    before = None if previous is None and not first_of_all else history.before_of(previous)
    prices, wrong_prices = prices_check.check_prices(invoice, position, chain, price_book_sha256)
    problems += wrong_prices
    if prices is None:
        raise InvalidRequest(f"{invoice_id}: {wrong_prices[0].message}")
    credits = history.credits_of(chain, invoice)
    problems += history.check_credit_documents(invoice, credits)
    problems += granted_check.check_granted(invoice, credits)
    by_loss = granted_check.by_loss(credits)
    quantities = invoice_check.billed_quantities(invoice)
    notes_since = history.notes_since_previous(chain, position)
    problems += charges_check.check_returns(notes_since)
    returned = charges_check.returned_by(notes_since)
    earlier = prices_check.earlier_prices(invoice, position, chain)
    due = charges_check.due_charges(invoice, prices, quantities, previous, returned, earlier)
    problems += invoice_check.check_lines(invoice, prices.book, due.charged.total_micro)
    problems += charges_check.check_charges(invoice, prices, due)
    problems += charges_check.check_statement(invoice, prices, due)
    problems += charges_check.check_grants(invoice, prices, earlier, previous, returned)
    problems += charges_check.check_coupons(invoice, prices, earlier)
    problems += measured_check.check_measured(
        invoice,
        prices.book,
        before,
        commitments,
        lambda: _invoices_before(invoice, view),
    )
    if prices.format == 1:
        problems += invoice_check.check_credits(invoice, prices.book, by_loss)
    else:
        problems += charges_check.check_charged_credits(invoice, prices, due, quantities, by_loss)
    shown = documents.invoice(invoice_id)
    problems += invoice_check.check_shown(shown, invoice, credits)
    seen_later = _seen_later(invoice, view)
    claims, wrong_claims = claims_of(invoice, before, commitments, credits, seen_later)
    problems += wrong_claims
    if previous is not None:
        recounted = {claim.where: claim.billed.counts_from for claim in claims}
        problems += history.check_lost_before(previous, position, chain, recounted)
    begins_ms = invoice.period_start_ms - (0 if previous is not None else FIRST_PERIOD_TOLERANCE_MS)
    checks = _read_all(claims, view.topics, reads, (begins_ms, invoice.period_end_ms), receipts, progress)
    problems += _omitted(invoice, view.topics, reads)
    notes_on_receipts: list[str] = []
    if receipts is not None:
        wrong_receipts, notes_on_receipts = _compare_receipts(
            invoice, claims, checks, receipts, receipts_complete, commitments
        )
        problems += wrong_receipts
    findings = [check.finding for check in checks]
    return invoice_check.make_report(
        invoice,
        prices.book,
        credits,
        claims,
        findings,
        problems,
        due_total_micro=due.charged.total_micro,
        head=chain.head,
        void=invoice_check.void_of(shown, invoice, credits),
        receipts=notes_on_receipts,
    )


def _seen_later(invoice: InvoiceDocument, view: _View) -> dict[TopicPartition, int]:
    """The log generation of each partition that has lost something, at the newest later cut that was billed."""
    lost = {loss.where for loss in view.commitments.losses}
    mine = {where_of(reading) for reading in invoice.cut.readings}
    if not lost & mine:
        return {}
    found: dict[TopicPartition, int] = {}
    entries = view.chain.invoices()
    names = [entry.object_id for entry in entries]
    for entry in entries[names.index(invoice.id) + 1 :]:
        later = _issued(view.documents, entry.object_id)
        for reading in later.cut.readings:
            where = where_of(reading)
            if where in lost & mine:
                found[where] = max(found.get(where, 0), reading.log_generation)
    return found


def _invoices_before(invoice: InvoiceDocument, view: _View) -> list[InvoiceDocument]:
    """Each as it stands in the chain; one that does not is none that the brokers noted."""
    found = []
    for entry in view.chain.invoices():
        if entry.object_id == invoice.id:
            break
        document = _issued(view.documents, entry.object_id)
        if document_sha256(document) == entry.document_sha256:
            found.append(document)
    return found


def _compare_receipts(
    invoice: InvoiceDocument,
    claims: Sequence[PartitionClaim],
    checks: Sequence[PartitionCheck],
    receipts: Receipts,
    complete: bool,
    commitments: Commitments,
) -> tuple[list[Problem], list[str]]:
    """What producers' receipts contradict, and what else is to be said of them."""
    parts = [
        BilledPart(
            topic=claim.billed.topic,
            where=claim.where,
            start_offset=claim.first_offset,
            end_offset=claim.end_offset,
            messages=max(0, claim.messages - claim.credited_messages),
            bytes=max(0, claim.bytes - claim.credited_bytes),
            lost=tuple((loss.offset, _BEYOND) for loss in commitments.losses_of(claim.where)),
            totals_at=check.counted_at,
            read_from=check.read_from,
        )
        for claim, check in zip(claims, checks, strict=True)
    ]
    billed = {claim.where for claim in claims}
    parts += [
        # Given up: nothing of it is billed, whatever was acknowledged.
        BilledPart(
            topic=where_of(reading).topic_id.hex(),
            where=where_of(reading),
            start_offset=0,
            end_offset=0,
            messages=0,
            bytes=0,
            lost=((0, _BEYOND),),
        )
        for reading in invoice.cut.readings
        if reading.last and where_of(reading) not in billed
    ]
    compared = check_receipts(
        receipts,
        parts,
        period_start_ms=invoice.period_start_ms,
        period_end_ms=invoice.period_end_ms,
        complete=complete,
    )
    wrong = [
        Problem(
            kind=Kind.RECEIPT_DIFFERS,
            where=found.where,
            message=f"{found.message} ({found.kind})",
            offset=found.offset,
        )
        for found in compared.findings
        if found.wrong
    ]
    notes_on_receipts = [
        f"Receipts cover {compared.messages_covered:,} of {compared.messages_billed:,} billed offsets",
        *(str(found) for found in compared.findings if not found.wrong),
    ]
    return wrong, notes_on_receipts


def _issued(documents: Documents, invoice_id: str) -> InvoiceDocument:
    """The document of an issued invoice. Raises `InvalidRequest`."""
    evidence = documents.evidence(invoice_id)
    if not isinstance(evidence, Mapping):
        raise InvalidRequest(f"{invoice_id}: its evidence is no object")
    if evidence.get("status") != "issued":
        gaps = evidence.get("gaps")
        missing = "; ".join(map(str, gaps)) if isinstance(gaps, list) else ""
        raise InvalidRequest(f"{invoice_id}: is a draft, there is nothing to prove yet: {missing}")
    if evidence.get("document") is None:
        raise InvalidRequest(f"{invoice_id}: was issued before invoices had documents, and cannot be proven")
    invoice = read_document(evidence["document"], InvoiceDocument, invoice_id)
    if invoice.id != invoice_id:
        raise InvalidRequest(f"{invoice_id}: its document is that of {invoice.id}")
    return invoice


def _read_all(
    claims: Sequence[PartitionClaim],
    topics: Mapping[bytes, LiveTopic],
    reads: Reads,
    period_ms: tuple[int, int],
    receipts: Receipts | None,
    progress: Progress,
) -> list[PartitionCheck]:
    total = sum(claim.end_offset - claim.first_offset for claim in claims)
    done = 0
    checks: list[PartitionCheck] = []
    for claim in claims:
        topic = topics.get(claim.where.topic_id)
        check = PartitionCheck(
            claim,
            () if topic is None else _seals(reads, claim.where),
            period_start_ms=period_ms[0],
            period_end_ms=period_ms[1],
            wanted=()
            if receipts is None
            else offsets_to_count(receipts, claim.where, claim.first_offset, claim.end_offset),
        )
        if topic is None:
            check.log_is_gone()
        else:

            def tell(at: int, claim: PartitionClaim = claim, before: int = done) -> None:
                read = min(max(at - claim.first_offset, 0), claim.end_offset - claim.first_offset)
                progress(before + read, total, claim.name)

            _read_partition(check, claim, reads, tell)
            if topic.name != claim.billed.topic:
                check.finding.called_now = topic.name
        checks.append(check)
        done += claim.end_offset - claim.first_offset
        progress(done, total, claim.name)
    return checks


def _seals(reads: Reads, where: TopicPartition) -> Sequence[Seal]:
    """Those that the leader keeps; none when it will not say: the log itself may still tell."""
    try:
        return reads.seals(where)
    except PenstockError as error:
        if error.code not in _NOT_FOR_THIS_KEY:
            raise
        return ()


def _read_partition(
    check: PartitionCheck, claim: PartitionClaim, reads: Reads, tell: Callable[[int], None]
) -> None:
    while not check.done:
        at = check.next_offset
        try:
            answer = reads.read(claim.where, at, check.read_to)
        except NotFound:
            check.log_is_gone()
            return
        except PenstockError as error:
            if error.code not in _NOT_FOR_THIS_KEY:
                raise
            check.refused(error.message)
            return
        if answer.log_start_offset > at and check.log_begins_at(answer.log_start_offset):
            continue
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE and at >= answer.high_watermark:
            check.nothing_more(answer.high_watermark)
        elif answer.error:
            damaged = answer.error == ErrorCode.CORRUPT_LOG
            check.refused(
                f"{answer.message or 'refused'} [{error_class(answer.error).code.name}]",
                Kind.BATCH_ALTERED if damaged else Kind.UNPROVEN,
            )
        elif not answer.stamps:
            check.nothing_more(answer.high_watermark)
        else:
            check.feed(answer.stamps, answer.batches, headers_only=answer.headers_only)
        tell(check.next_offset)


def _omitted(invoice: InvoiceDocument, topics: Mapping[bytes, LiveTopic], reads: Reads) -> list[Problem]:
    """Partitions of the tenant's that hold messages of the period and are not in the cut."""
    named = {(reading.topic_id, reading.partition) for reading in invoice.cut.readings}
    problems: list[Problem] = []
    for topic_id, topic in topics.items():
        if topic.name == AUDIT_TOPIC:
            continue  # what the service writes there is not billed
        for partition in range(len(topic.leaders)):
            if (topic_id.hex(), partition) in named:
                continue
            offset = _accepted_before(
                reads, TopicPartition(TopicId(topic_id), partition), invoice.period_end_ms
            )
            if offset is not None:
                problems.append(
                    Problem(
                        kind=Kind.PARTITION_OMITTED,
                        where=f"{topic.name}-{partition}",
                        message=f"offset {offset} was accepted in the period, and the invoice does not know the "
                        "partition",
                        offset=offset,
                    )
                )
    return problems


def _accepted_before(reads: Reads, where: TopicPartition, time_ms: int) -> int | None:
    """The offset of the log's first batch if it was accepted before a time."""
    try:
        answer = reads.read(where, 0, 1, bytes_max=1)
        if answer.log_start_offset > 0:
            answer = reads.read(where, answer.log_start_offset, answer.log_start_offset + 1, bytes_max=1)
    except PenstockError:
        return None  # a topic that came or went in between has nothing in a period that is over
    if answer.error or len(answer.stamps) < STAMP_BYTES:
        return None
    invariant(len(answer.stamps) % STAMP_BYTES == 0, "stamps come whole")
    try:
        stamp = unpack_stamp(answer.stamps, stamp_seed(where))
    except StampCorrupt:
        return None
    return stamp.base_offset if stamp.accepted_ms < time_ms else None
