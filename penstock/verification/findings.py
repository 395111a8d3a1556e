"""What a verification found: counts, and each disagreement by name."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """Names of what can be wrong. Stable: scripts read them."""

    BATCH_ALTERED = "batch-altered"
    """A stored batch is not what was acknowledged."""
    STAMP_ALTERED = "stamp-altered"
    """A stamp is damaged, or says something else than its batch."""
    SEAL_MISMATCH = "seal-mismatch"
    """A sealed segment is not what was sealed."""
    SEAL_DAMAGED = "seal-damaged"
    OFFSETS_NOT_CONTIGUOUS = "offsets-not-contiguous"
    """An offset is missing or counted twice."""
    CUT_DIFFERS = "cut-differs"
    """The period does not end where the invoice says."""
    PARTITION_OMITTED = "partition-omitted"
    QUANTITY_DIFFERS = "quantity-differs"
    """A partition's day has another count in the log."""
    DAY_DIFFERS = "day-differs"
    LINE_DIFFERS = "line-differs"
    """A line's quantity is not the sum of the log's."""
    AMOUNT_DIFFERS = "amount-differs"
    """A line's amount is not its quantity at the price."""
    TOTAL_DIFFERS = "total-differs"
    CREDIT_DIFFERS = "credit-differs"
    """A credit note is not what was lost, at the invoice's prices."""
    PRICE_DIFFERS = "price-differs"
    """The prices are not those that the lines were rated with."""
    UNPROVEN = "unproven"
    """Neither the log nor a seal tells."""
    NOT_ISSUED = "not-issued"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One disagreement. `where` names the object: an invoice, a line, a topic's partition."""

    kind: Kind
    where: str
    message: str
    offset: int | None = None

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
    topic_id: str
    partition: int
    log_generation: int
    start_offset: int
    end_offset: int
    messages: int = 0
    bytes: int = 0
    batches: int = 0
    """Read and checked, of the whole range that was read."""
    segments_sealed: int = 0
    """Whole segments that agree with their seals."""
    by_seals_alone: tuple[int, int] | None = None
    """Offsets whose segments are deleted: their seals carry the totals."""
    lost: tuple[int, int] | None = None
    """Offsets that the invoice counted, and a declared loss took: credited, not in the log."""
    lost_messages: int = 0
    lost_bytes: int = 0
    days: list[CountedDay] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        if not self.problems:
            told = "proven" if self.by_seals_alone is None else "proven, partly by seals alone"
            return told if self.lost is None else f"{told}, what was lost is credited"
        kinds: list[str] = []
        for problem in self.problems:
            if problem.kind.value not in kinds:
                kinds.append(problem.kind.value)
        return ", ".join(kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFinding:
    """A line as billed and as the log gives it."""

    meter: str
    billed_quantity: int | None
    counted_quantity: int
    billed_amount_micro: int | None
    counted_amount_micro: int
    """Of both: what is in the log and what was lost and credited."""
    credited_quantity: int = 0
    """Lost, and on the invoice's credit notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole verification. `proven` only when nothing disagrees."""

    invoice: str
    tenant: str
    currency: str
    minor_digits: int
    period_start_ms: int
    period_end_ms: int
    cut: str
    price_book_sha256: str
    partitions: tuple[PartitionFinding, ...]
    lines: tuple[LineFinding, ...]
    billed_total_micro: int
    counted_total_micro: int
    credited_total_micro: int
    """The sum of the invoice's credit notes."""
    problems: tuple[Problem, ...]
    """All of them, partitions' included."""

    @property
    def proven(self) -> bool:
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        fields = asdict(self)
        return {"proven": self.proven, **fields}
