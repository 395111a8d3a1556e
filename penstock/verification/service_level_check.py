"""Checks a month's service level: its numbers follow from its evidence, its invoices are those of the billing chain,
and the credit is granted with the evidence's hash. Pure.

What brokers counted cannot be shown by the log: a request that failed is in no log. It can be compared with what a
client counted itself.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec import UNSET

from penstock.contract.document_fields import NO_HASH
from penstock.contract.documents import (
    CreditGrant,
    InvoiceDocument,
    chain_hash,
    document_sha256,
    read_document,
)
from penstock.contract.errors import InvalidRequest
from penstock.contract.service_level_documents import ServiceLevelDocument
from penstock.rules.allocation import month_of
from penstock.rules.service_level_months import (
    KNOWN_LEVELS,
    charged_invoice,
    day_parts,
    differences,
    excluded_lines,
    grant_reason,
    latency_shown,
)
from penstock.rules.service_levels import DAY_S
from penstock.rules.timestamps import day_of, read_moment, time_ms
from penstock.verification.findings import Verdict
from penstock.verification.history import BillingChain, read_chain


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLevelProof:
    """`wrong` and `missing` are sentences: what does not follow, and what cannot be shown yet."""

    month: str
    wrong: tuple[str, ...]
    missing: tuple[str, ...]
    credit_micro: int
    excluded: tuple[str, ...] = ()
    """What operators took out of the month, with when they announced it and why."""

    @property
    def verdict(self) -> Verdict:
        if self.wrong:
            return Verdict.WRONG
        return Verdict.PARTLY if self.missing else Verdict.PROVEN


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownInvoice:
    """An issued invoice of the tenant's, with the document that the service gives for it, and since when it is void as
    the service lists it; None: it is not.
    """

    document: object
    void_at: str | None = None


def check_service_level(
    shown: Mapping[str, Any], chain_items: Sequence[Mapping[str, Any]], invoices: Sequence[ShownInvoice]
) -> ServiceLevelProof:
    """Check what `GET /v1/sla/{month}` shows. `invoices`: those of periods with a part in the month, as listed. What is
    malformed is wrong as well; nothing is raised.
    """
    wrong: list[str] = []
    missing: list[str] = []
    try:
        document = read_document(shown.get("document"), ServiceLevelDocument, "document")
        chain = read_chain(chain_items)
        own = [read_document(one.document, InvoiceDocument, "invoice") for one in invoices]
        void_at = {
            document.id: read_moment(one.void_at)
            for one, document in zip(invoices, own, strict=True)
            if one.void_at is not None
        }
        posted_at = None if shown.get("posted_at") is None else read_moment(str(shown["posted_at"]))
    except (InvalidRequest, ValueError) as error:
        return ServiceLevelProof(
            month=str(shown.get("month"))[:20], wrong=(str(error),), missing=(), credit_micro=0
        )
    sha256 = document_sha256(document)
    if shown.get("document_sha256") != sha256:
        wrong.append(
            f"document_sha256 is {str(shown.get('document_sha256'))[:64]}, the document has {sha256}"
        )
    wrong += [
        f"{name} is shown as {str(shown.get(name))[:40]}, the document says {due}"
        for name, due in (
            ("month", document.month),
            ("binding_parts", document.binding_parts),
            ("basis_points", document.basis_points),
            ("charge_micro", document.charge_micro),
            ("credit_micro", document.credit_micro),
            ("currency", document.currency),
            ("target_parts", document.level.target_parts),
            ("minor_digits", document.minor_digits),
            ("latency", latency_shown(document)),
        )
        if shown.get(name) != due
    ]
    inner = list(differences(document))
    wrong += inner or _day_differences(document, shown.get("days"))
    wrong += _chain_differences(document.tenant, chain)
    posted = shown.get("provisional") is False
    wrong += _invoice_differences(document, chain, own, posted=posted)
    given_back = {one.id for one in own if _is_credited_in_whole(one, chain)}
    wrong += _void_differences(document, void_at, posted_at, given_back, posted=posted)
    level = document.level
    if (level.name, level.version) not in KNOWN_LEVELS:
        missing.append(f"level {level.name} {level.version} is not one that is shipped: compare its tiers")
    if not posted:
        missing.append("the month is not posted yet: its numbers may change, and nothing is granted")
    elif document.credit_micro:
        found = _grants(chain).get(document.grant)
        if found is None:
            missing.append(
                f"grant {document.grant} is not in the billing chain yet: it enters it when the running period ends"
            )
        else:
            wrong += _grant_differences(document, sha256, found)
    return ServiceLevelProof(
        month=document.month,
        wrong=tuple(wrong),
        missing=tuple(missing),
        credit_micro=document.credit_micro,
        excluded=tuple(excluded_lines(document)),
    )


def _day_differences(document: ServiceLevelDocument, shown: object) -> list[str]:
    """Days stand beside the document, for people, and follow from it."""
    parts = day_parts(document)
    due = [
        {"day": day_of(day * 1_000).isoformat(), "parts": parts.get(day)}
        for day in range(document.from_s // DAY_S * DAY_S, document.until_s, DAY_S)
    ]
    if not isinstance(shown, list) or len(shown) != len(due):
        return [f"days: {len(due)} required"]
    return [
        f"days: {str(one)[:80]} is shown, the document says {other}"
        for one, other in zip(shown, due, strict=True)
        if one != other
    ]


def _chain_differences(tenant: str, chain: BillingChain) -> Iterator[str]:
    previous = NO_HASH
    for number, entry in enumerate(chain.entries, 1):
        if entry.sequence != number or entry.hash != chain_hash(tenant, previous, entry):
            yield f"billing chain, entry {number}: does not follow from the entry before"
        document = chain.prices.get(number) or chain.credit_notes.get(number)
        if document is not None and document_sha256(document) != entry.document_sha256:
            yield f"billing chain, entry {number}: its document was altered"
        previous = entry.hash


def _invoice_differences(
    document: ServiceLevelDocument, chain: BillingChain, own: Sequence[InvoiceDocument], *, posted: bool
) -> Iterator[str]:
    bounds = month_of(document.month)
    if bounds is None:
        yield f"month {document.month} is none"
        return
    first_ms, end_ms = time_ms(bounds[0]), time_ms(bounds[1])
    begins_ms = max([first_ms, *(one.effective_from_ms for one in list(chain.prices.values())[:1])])
    if posted and document.until_s * 1_000 != end_ms:
        yield f"until_s is {document.until_s}, the month {document.month} ends at {end_ms // 1_000}"
    if not first_ms <= document.from_s * 1_000 <= max(first_ms, begins_ms):
        yield f"from_s is {document.from_s}, the month or the tenant begins at {begins_ms // 1_000}"
    counted = {one.id: one for one in document.invoices}
    if len(counted) != len(document.invoices):
        yield "invoices: one stands twice"
    chained = {entry.object_id: entry for entry in chain.invoices()}
    for invoice in own:
        one = counted.pop(invoice.id, None)
        name = f"invoice {invoice.id}"
        entry = chained.get(invoice.id)
        if not invoice.period_start_ms < end_ms or not invoice.period_end_ms > first_ms:
            yield f"{name} is none of the month"
            continue
        if one is None:
            yield f"{name} is of the month and does not count"
            continue
        sha256 = document_sha256(invoice)
        if entry is None or sha256 != entry.document_sha256 or sha256 != one.document_sha256:
            yield f"{name} is not the document of the billing chain"
            continue
        notes = [
            note
            for _, note in sorted(chain.credit_notes.items())
            if note.invoice.id == invoice.id
            and note.id in _notes_counted(one.credited_micro, chain, invoice, (first_ms, end_ms))
        ]
        due = charged_invoice(invoice, sha256, notes, (first_ms, end_ms))
        if one.charge_micro != due.charge_micro:
            yield f"{name}: charge_micro is {one.charge_micro}, the invoice has {due.charge_micro}"
        if one.credited_micro != due.credited_micro:
            yield f"{name}: credited_micro is {one.credited_micro}, its credit notes have {due.credited_micro}"
    for name in counted:
        yield f"invoice {name} counts and is not among the month's"


def _void_differences(
    document: ServiceLevelDocument,
    void_at: Mapping[str, datetime],
    posted_at: datetime | None,
    given_back: Collection[str],
    *,
    posted: bool,
) -> Iterator[str]:
    """What counts as void was void at the report. Reports that were posted before void invoices were left out counted
    them, in the tenant's favour; what became void after a report counts in it. So only a month that is not posted must
    leave out each void one. Those in `given_back` are void to those who pay, and still charge what prepaid credit paid.
    """
    for one in document.invoices:
        since = void_at.get(one.id)
        if one.void is True and since is None:
            yield f"invoice {one.id} counts as void, and is not"
        elif one.void is True and posted and posted_at is None:
            yield f"invoice {one.id} counts as void, and posted_at does not say that it was before the report"
        elif one.void is True and since is not None and posted_at is not None and since > posted_at:
            yield f"invoice {one.id} counts as void, and became it after the report"
        elif since is not None and not posted and one.counted_micro and one.id not in given_back:
            yield f"invoice {one.id} is void, and counts"


def _is_credited_in_whole(invoice: InvoiceDocument, chain: BillingChain) -> bool:
    """Whether its credit notes give back all that was to be paid of it: it is void without being taken back."""
    notes = [note for note in chain.credit_notes.values() if note.invoice.id == invoice.id]
    return bool(notes) and sum(note.total_micro for note in notes) >= invoice.total_micro


def _notes_counted(
    credited_micro: int, chain: BillingChain, invoice: InvoiceDocument, month_ms: tuple[int, int]
) -> set[str]:
    """The invoice's credit notes up to the report: the first so many whose sum is what it says, else all."""
    notes = [note for _, note in sorted(chain.credit_notes.items()) if note.invoice.id == invoice.id]
    for count in range(len(notes) + 1):
        if charged_invoice(invoice, "", notes[:count], month_ms).credited_micro == credited_micro:
            return {note.id for note in notes[:count]}
    return {note.id for note in notes}


def _grants(chain: BillingChain) -> dict[str, CreditGrant]:
    """Every grant of the chain's prices, the newest of an id."""
    found: dict[str, CreditGrant] = {}
    for _, prices in sorted(chain.prices.items()):
        if prices.terms is not UNSET:
            found.update({grant.id: grant for grant in prices.terms.credits})
    return found


def _grant_differences(document: ServiceLevelDocument, sha256: str, grant: CreditGrant) -> Iterator[str]:
    if grant.amount_micro != document.credit_micro:
        yield f"grant {grant.id} is of {grant.amount_micro}, the report credits {document.credit_micro}"
    if grant.currency != document.currency:
        yield f"grant {grant.id} is in {grant.currency}, the report in {document.currency}"
    if grant.reason != grant_reason(document, sha256):
        yield f"grant {grant.id} names other evidence than {sha256}"
