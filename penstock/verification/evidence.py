"""What an invoice claims: the evidence document of the control plane as values, refused where it cannot be read."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from penstock.contract.errors import InvalidRequest, PenstockError
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.seal import TOPIC_ID_BYTES, Seal, SealCorrupt, unpack_seal
from penstock.rules.rating import PriceBook
from penstock.rules.usage_folding import time_ms

MESSAGES = "messages_in"
BYTES = "bytes_in"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRange:
    """What the invoice counts of one day's part of a partition's log, [first_offset, end_offset)."""

    day: date
    first_offset: int
    end_offset: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionClaim:
    """One partition and log generation of the period, [start_offset, end_offset)."""

    topic: str
    where: TopicPartition
    log_generation: int
    start_offset: int
    """Where the cut before ended."""
    end_offset: int
    ranges: tuple[ClaimedRange, ...]
    counts_from: int
    """Where the invoice begins to count: below `start_offset` when a declared loss made it count anew."""
    generations: tuple[tuple[int, int], ...] = ()
    """Log generations that declared losses began, and where."""

    @property
    def name(self) -> str:
        shown = f"{self.topic}-{self.where.partition}"
        return shown if self.log_generation <= 1 else f"{shown} (log generation {self.log_generation})"

    @property
    def key(self) -> tuple[TopicPartition, int]:
        return (self.where, self.log_generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedLine:
    """A line of the invoice as it was billed."""

    id: str
    meter: str
    quantity: int
    amount_micro: int
    price_book_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """What a credit note says of one partition: [first_offset, end_offset) of a log generation is lost."""

    where: TopicPartition
    log_generation: int
    first_offset: int
    end_offset: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditClaim:
    """A credit note of the invoice. `lines` are (meter, quantity, amount in micro-units)."""

    id: str
    lines: tuple[tuple[str, int, int], ...]
    ranges: tuple[LostRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that an invoice rests on. Times are ms UTC, the period is half open."""

    invoice: str
    number: int
    status: str
    tenant: str
    currency: str
    period_start_ms: int
    period_end_ms: int
    total_micro: int
    lines: tuple[ClaimedLine, ...]
    price_book: PriceBook
    cut: str
    vector: Mapping[tuple[TopicPartition, int], int]
    """End offset of each partition and log generation at the cut."""
    partitions: tuple[PartitionClaim, ...]
    seals: Mapping[TopicPartition, tuple[Seal, ...]]
    """By base offset."""
    damaged_seals: tuple[str, ...]
    """Seals that could not be read, each with why."""
    previous_invoice: str | None
    gaps: tuple[str, ...]
    credits: tuple[CreditClaim, ...] = ()


def read_evidence(document: Any) -> Evidence:
    """The evidence in a REST answer. Raises `InvalidRequest` naming what is missing or malformed."""
    try:
        return _evidence(document)
    except PenstockError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidRequest(
            f"evidence: not as this version of the program reads it ({type(error).__name__}: {error})"
        ) from error


def _evidence(document: Any) -> Evidence:
    invoice = document["invoice"]
    seals: dict[TopicPartition, dict[int, Seal]] = {}
    damaged: list[str] = []
    for entry in document["seals"]:
        where = _where(entry)
        named = f"seal of {where} at offset {entry['base_offset']}"
        try:
            seal, end = unpack_seal(base64.b64decode(entry["seal"], validate=True))
        except (SealCorrupt, binascii.Error) as error:
            damaged.append(f"{named}: {error}")
            continue
        if seal.where != where or seal.base_offset != int(entry["base_offset"]) or not end:
            damaged.append(f"{named}: it is the seal of {seal.where} at offset {seal.base_offset}")
            continue
        known = seals.setdefault(where, {})
        other = known.get(seal.base_offset)
        if other is None or other.log_generation < seal.log_generation:
            known[seal.base_offset] = seal
    return Evidence(
        invoice=str(invoice["id"]),
        number=int(invoice["number"]),
        status=str(invoice["status"]),
        tenant=str(invoice["tenant"]),
        currency=str(invoice["currency"]),
        period_start_ms=_moment(invoice["period_start"]),
        period_end_ms=_moment(invoice["period_end"]),
        total_micro=int(invoice["total_micro"] or 0),
        lines=tuple(
            ClaimedLine(
                id=str(line["id"]),
                meter=str(line["meter"]),
                quantity=int(line["quantity"]),
                amount_micro=int(line["amount_micro"]),
                price_book_sha256=str(line["price_book_sha256"]),
            )
            for line in invoice["lines"]
        ),
        price_book=PriceBook.read(document["price_book"]),
        cut=str(document["cut"]["id"]),
        vector={
            (_where(entry), int(entry["log_generation"])): int(entry["end_offset"])
            for entry in document["cut"]["readings"]
        },
        partitions=tuple(_claim(entry) for entry in document["partitions"]),
        seals={
            where: tuple(seal for _, seal in sorted(of_partition.items()))
            for where, of_partition in sorted(seals.items())
        },
        damaged_seals=tuple(damaged),
        previous_invoice=document["previous_invoice"],
        gaps=tuple(map(str, invoice["gaps"])),
        credits=tuple(_credit(entry) for entry in document.get("credits", ())),
    )


def _credit(entry: Any) -> CreditClaim:
    return CreditClaim(
        id=str(entry["id"]),
        lines=tuple(
            (str(line["meter"]), int(line["quantity"]), int(line["amount_micro"])) for line in entry["lines"]
        ),
        ranges=tuple(
            LostRange(
                where=_where(lost),
                log_generation=int(lost["log_generation"]),
                first_offset=int(lost["first_offset"]),
                end_offset=int(lost["end_offset"]),
                messages=int(lost["quantities"].get(MESSAGES, 0)),
                bytes=int(lost["quantities"].get(BYTES, 0)),
            )
            for lost in entry["ranges"]
        ),
    )


def _claim(entry: Any) -> PartitionClaim:
    ranges = [
        ClaimedRange(
            day=date.fromisoformat(row["day"]),
            first_offset=int(row["first_offset"]),
            end_offset=int(row["end_offset"]),
            messages=int(row["quantities"].get(MESSAGES, 0)),
            bytes=int(row["quantities"].get(BYTES, 0)),
        )
        for row in entry["days"]
    ]
    start, end = int(entry["start_offset"]), int(entry["end_offset"])
    counts_from = int(entry.get("counts_from", start))
    if not 0 <= counts_from <= min(start, end):
        raise InvalidRequest(
            f"evidence: {entry['topic']}-{entry['partition']}: offsets {counts_from} to {end}"
        )
    return PartitionClaim(
        topic=str(entry["topic"]),
        where=_where(entry),
        log_generation=int(entry["log_generation"]),
        start_offset=start,
        end_offset=end,
        counts_from=counts_from,
        generations=tuple(
            (int(one["log_generation"]), int(one["begins_at"])) for one in entry.get("generations", ())
        ),
        ranges=tuple(sorted(ranges, key=lambda row: (row.first_offset, row.end_offset, row.day))),
    )


def _where(entry: Any) -> TopicPartition:
    topic_id = bytes.fromhex(entry["topic_id"])
    if len(topic_id) != TOPIC_ID_BYTES:
        raise InvalidRequest(f"evidence: topic id {entry['topic_id']!r} has not {TOPIC_ID_BYTES} bytes")
    return TopicPartition(TopicId(topic_id), int(entry["partition"]))


def _moment(text: str) -> int:
    return time_ms(datetime.fromisoformat(text))
