"""What a verification found: counts, and each disagreement or missing proof by name."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """Names of what can be wrong or missing. Stable: scripts read them."""

    DOCUMENT_ALTERED = "document-altered"
    """A document is not the one of the billing chain, or says two things of one."""
    HISTORY_ALTERED = "history-altered"
    """The billing chain is not what brokers or this machine noted of it, or does not hold together."""
    BATCH_ALTERED = "batch-altered"
    """A stored batch is not what was acknowledged."""
    STAMP_ALTERED = "stamp-altered"
    """A stamp is damaged, or says something else than its batch."""
    SEAL_MISMATCH = "seal-mismatch"
    """A sealed segment is not what was sealed."""
    OFFSETS_NOT_CONTIGUOUS = "offsets-not-contiguous"
    """An offset is missing or counted twice."""
    CUT_DIFFERS = "cut-differs"
    """The period does not begin or end where the brokers say."""
    PARTITION_OMITTED = "partition-omitted"
    QUANTITY_DIFFERS = "quantity-differs"
    """A partition's day has another count in the log."""
    DAY_DIFFERS = "day-differs"
    LINE_DIFFERS = "line-differs"
    """A line is not the sum of what the invoice counts, or not as the prices give it."""
    AMOUNT_DIFFERS = "amount-differs"
    """A line's amount is not its quantity at the price."""
    TOTAL_DIFFERS = "total-differs"
    CREDIT_DIFFERS = "credit-differs"
    """A credit note is not what was lost, at the invoice's prices."""
    PRICE_DIFFERS = "price-differs"
    """The prices are not those that were assigned before the period began."""
    RECEIPT_DIFFERS = "receipt-differs"
    """What a producer noted of its acknowledgements contradicts the invoice."""
    UNPROVEN = "unproven"
    """Of this range neither the log nor anything that the brokers keep tells enough."""
    UNCOMMITTED = "uncommitted"
    """The brokers keep nothing to compare with: it is older than what they keep."""
    CREDIT_DUE = "credit-due"
    """A declared loss took a part of what was billed, and no credit note has come yet."""


_MISSING = frozenset({Kind.UNPROVEN, Kind.UNCOMMITTED, Kind.CREDIT_DUE})
"""What is not shown to be right. Everything else is shown to be wrong."""


class Verdict(StrEnum):
    PROVEN = "proven"
    PARTLY = "partly"
    """Proven but for what is named."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One disagreement or gap. `where` names the object: an invoice, a line, a topic's partition."""

    kind: Kind
    where: str
    message: str
    offset: int | None = None
    end_offset: int | None = None
    """With `offset`: the range [offset, end_offset)."""

    @property
    def is_wrong(self) -> bool:
        return self.kind not in _MISSING

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedDay:
    """What the log holds of one range of the invoice's."""

    day: str
    first_offset: int
    end_offset: int
    messages: int
    bytes: int


@dataclass(slots=True, kw_only=True)
class PartitionFinding:
    """One partition as counted from the log."""

    topic: str
    """Its name at the time. A name is a label: what is compared is the id."""
    topic_id: str
    partition: int
    log_generation: int
    start_offset: int
    end_offset: int
    called_now: str | None = None
    """The topic's name today, where that is another one."""
    messages: int = 0
    bytes: int = 0
    batches: int = 0
    """Read and checked, of the whole range that was read."""
    by_headers: int = 0
    """Of them, batches whose records the key may not read: header, stamp and seal were held together."""
    segments_sealed: int = 0
    """Whole segments that agree with their seals."""
    by_seals: tuple[int, int] | None = None
    """Offsets that are deleted, and whose seals the brokers keep."""
    by_cuts: tuple[int, int] | None = None
    """Offsets of which only the readings at both ends tell, in cuts that the brokers keep by their hash."""
    lost: tuple[int, int] | None = None
    """Offsets that the invoice counted, and a declared loss took: credited, not in the log."""
    lost_messages: int = 0
    lost_bytes: int = 0
    malformed: list[str] = field(default_factory=list)
    """Batches whose content is not what their header says: as their producer made them, and billed by the header."""
    days: list[CountedDay] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def is_wrong(self) -> bool:
        return any(problem.is_wrong for problem in self.problems)

    @property
    def verdict(self) -> str:
        """In words, for a table."""
        if not self.problems:
            parts = ["proven"]
            if self.by_seals is not None or self.by_cuts is not None:
                kept = [
                    name
                    for name, some in (("seals", self.by_seals), ("cuts", self.by_cuts))
                    if some is not None
                ]
                parts.append(f"partly by {' and '.join(kept)} alone")
            if self.lost is not None:
                parts.append("what was lost is credited")
            return ", ".join(parts)
        return ", ".join(dict.fromkeys(problem.kind.value for problem in self.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFinding:
    """A line as billed and as it was counted again."""

    meter: str
    billed_quantity: int | None
    counted_quantity: int
    """In the log, or in what the brokers keep; with what was lost and credited."""
    unproven_quantity: int
    """On the invoice, and shown by nothing."""
    billed_amount_micro: int | None
    due_amount_micro: int
    """What the billed quantity costs by the assigned prices."""
    credited_quantity: int = 0
    """Lost, and on the invoice's credit notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """The service says that nothing of the invoice is to be paid."""

    at: str
    """Since when, as the service says."""
    credit_notes: tuple[str, ...]
    """Those that give all of it back, by the billing chain. Empty: an operator took it back."""

    def __str__(self) -> str:
        why = (
            f"given back as a whole by {' and '.join(self.credit_notes)}"
            if self.credit_notes
            else "an operator took it back, and the tenant's audit log has the reason (receivable.void)"
        )
        return f"VOID since {self.at}: {why}; nothing of it is to be paid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole verification."""

    invoice: str
    number: int
    document_sha256: str
    tenant: str
    currency: str
    minor_digits: int
    period_start_ms: int
    period_end_ms: int
    cut: str
    price_book_sha256: str
    billing_sequence: int
    """Entries of the billing chain that was seen, and its hash: what to note."""
    billing_hash: str
    partitions: tuple[PartitionFinding, ...]
    lines: tuple[LineFinding, ...]
    billed_total_micro: int
    due_total_micro: int
    """What the billed quantities cost by the assigned prices."""
    credited_total_micro: int
    """The sum of the invoice's credit notes."""
    granted: tuple[str, ...]
    """Credit notes among them that operators granted, in words. Their amounts are checked, their reasons are not."""
    receipts: tuple[str, ...]
    """What was compared with the producers' receipts, in words; empty when none were given."""
    problems: tuple[Problem, ...]
    """All of them, partitions' included."""
    void: Void | None = None
    """None: it counts. Its numbers are proven all the same."""

    @property
    def verdict(self) -> Verdict:
        if any(problem.is_wrong for problem in self.problems):
            return Verdict.WRONG
        return Verdict.PARTLY if self.problems else Verdict.PROVEN

    @property
    def proven(self) -> bool:
        return self.verdict is Verdict.PROVEN

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        fields = asdict(self)
        return {"verdict": self.verdict.value, "proven": self.proven, **fields}
