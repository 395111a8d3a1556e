"""A partition's log in memory as a leader stores it: placed batches, stamps, seals; and leaders that answer with it."""

import base64
from datetime import UTC, datetime
from typing import Any

from penstock.contract.errors import ErrorCode, NotFound
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.batch import BATCH_HEADER_BYTES, CRC_COVERS_FROM, placed, read_header
from penstock.records.build import BatchBuilder
from penstock.records.seal import Seal, SegmentDigest, pack_seal
from penstock.records.stamp import Stamp, StampFlag, pack_stamp, stamp_seed, unpack_stamp
from penstock.rules.odometer import Odometer
from penstock.rules.rating import PriceBook, line_id, rate
from penstock.rules.usage_folding import UsageFold
from penstock.verification.stamped_reads import LiveTopic, StampedBatches

TOPIC = TopicId(bytes(range(16)))
DAY_MS = 86_400_000
BEGIN_MS = 20_000 * DAY_MS
BOOK = PriceBook.read(
    {
        "format": 1,
        "name": "test",
        "version": 1,
        "currency": "USD",
        "minor_digits": 2,
        "meters": [
            {
                "meter": "messages_in",
                "unit": "message",
                "unit_size": 1,
                "free": 2,
                "tiers": [{"up_to": 10, "unit_price": "0.02"}, {"up_to": None, "unit_price": "0.01"}],
            },
            {
                "meter": "bytes_in",
                "unit": "MB",
                "unit_size": 1_000_000,
                "free": 0,
                "tiers": [{"up_to": None, "unit_price": "100"}],
            },
        ],
    }
)


class StoredLog:
    """Write to it, then let it answer. Anything in it may be altered in between."""

    def __init__(self, partition: int = 0, topic_id: TopicId = TOPIC, name: str = "orders") -> None:
        self.where = TopicPartition(topic_id, partition)
        self.name = name
        self.seed = stamp_seed(self.where)
        self.batches: list[bytearray] = []
        self.stamps: list[bytearray] = []
        self.seals: list[Seal] = []
        self.log_start_offset = 0
        self.generation = 0
        """Of the log."""
        self.reads = 0
        self._odometer = Odometer()
        self._digest: SegmentDigest | None = None

    @property
    def end_offset(self) -> int:
        return self._odometer.end_offset

    def write(self, count: int, at_ms: int, *, principal: int = 7, rolls: bool = False) -> None:
        """One batch accepted at `at_ms`; `rolls`: it begins a segment, and the one before is sealed."""
        builder = BatchBuilder()
        for number in range(count):
            builder.append(at_ms, None, number.to_bytes(4, "big"))
        batch = bytearray(b"".join(placed(builder.build(), self.end_offset, 3)))
        header = read_header(batch)
        first = rolls or not self.batches
        if rolls and self._digest is not None:
            self.seals.append(self._odometer.seal(self.where, self._digest.digest(), self.generation))
        stamp = Stamp(
            base_offset=self.end_offset, offset_span=count, record_count=count, size=len(batch), leader_epoch=3,
            accepted_ms=at_ms, principal=principal, producer_id=header.producer_id,
            producer_epoch=header.producer_epoch, flags=int(StampFlag.FIRST_OF_SEGMENT if first else 0),
            position=0, base_sequence=header.base_sequence,
        )  # fmt: skip
        raw = pack_stamp(stamp, self.seed)
        if first:
            self._digest = SegmentDigest(self.where, self.end_offset)
        assert self._digest is not None
        self._digest.add(bytes(batch[:BATCH_HEADER_BYTES]), raw)
        self._odometer.apply(stamp)
        self.batches.append(batch)
        self.stamps.append(bytearray(raw))

    def stamp(self, index: int) -> Stamp:
        return unpack_stamp(bytes(self.stamps[index]), self.seed)

    def restamp(self, index: int, **changes: Any) -> None:
        """Alter a stamp and make its checksum good again."""
        self.stamps[index] = bytearray(pack_stamp(self.stamp(index)._replace(**changes), self.seed))

    def flip(self, index: int, at: int = CRC_COVERS_FROM + 45) -> None:
        """Alter one byte of a batch."""
        self.batches[index][at] ^= 1

    def lose_from(self, offset: int) -> None:
        """What a declared loss does: the log ends at `offset`, and goes on from there. Seals stay as they are."""
        kept = [index for index in range(len(self.stamps)) if self.stamp(index).end_offset <= offset]
        self.stamps, self.batches = self.stamps[: len(kept)], self.batches[: len(kept)]
        self._odometer, self._digest = Odometer(), None
        for index in kept:
            stamp = self.stamp(index)
            if stamp.flags & StampFlag.FIRST_OF_SEGMENT:
                self._digest = SegmentDigest(self.where, stamp.base_offset)
            assert self._digest is not None
            self._digest.add(bytes(self.batches[index][:BATCH_HEADER_BYTES]), bytes(self.stamps[index]))
            self._odometer.apply(stamp)
        self.generation += 1

    def delete_below(self, offset: int) -> None:
        """What retention does."""
        self.log_start_offset = offset

    def read(self, offset: int, end_offset: int, bytes_max: int) -> StampedBatches:
        self.reads += 1
        stamps, batches = b"", b""
        error = 0
        if not self.log_start_offset <= offset <= self.end_offset:
            error = int(ErrorCode.OFFSET_OUT_OF_RANGE)
        else:
            for index, raw in enumerate(self.stamps):
                base = int.from_bytes(self.batches[index][:8], "big")
                following = self._following(index)
                if following <= offset or (stamps and base >= end_offset):
                    continue
                if stamps and len(batches) + len(self.batches[index]) > bytes_max:
                    break
                stamps, batches = stamps + bytes(raw), batches + bytes(self.batches[index])
        return StampedBatches(
            error=error,
            message="out of range" if error else "",
            stamps=stamps,
            batches=batches,
            log_start_offset=self.log_start_offset,
            high_watermark=self.end_offset,
        )

    def _following(self, index: int) -> int:
        if index + 1 < len(self.batches):
            return int.from_bytes(self.batches[index + 1][:8], "big")
        return self.end_offset


class Leaders:
    """Several logs behind one door, as `StampedReads`."""

    def __init__(self, *logs: StoredLog, bytes_max: int = 200) -> None:
        self.logs = {log.where: log for log in logs}
        self.bytes_max = bytes_max

    def topics(self) -> dict[bytes, LiveTopic]:
        return {
            log.where.topic_id: LiveTopic(name=log.name, topic_id=log.where.topic_id, leaders=(0,) * 4)
            for log in self.logs.values()
        }

    def read(self, where: TopicPartition, offset: int, end_offset: int, bytes_max: int = 0) -> StampedBatches:
        if where not in self.logs:
            raise NotFound(f"{where}: not here")
        return self.logs[where].read(offset, end_offset, self.bytes_max)


def invoice_of(
    *logs: StoredLog,
    starts: dict[int, int] | None = None,
    ends: dict[int, int] | None = None,
    begin_ms: int = BEGIN_MS,
    end_ms: int = BEGIN_MS + 10 * DAY_MS,
    previous: str | None = None,
    invoice: str = "inv_1",
) -> dict[str, Any]:
    """The evidence that an honest service gives of these logs (starts and ends by partition)."""
    partitions, quantities = [], {"messages_in": 0, "bytes_in": 0}
    for log in logs:
        start = (starts or {}).get(log.where.partition, 0)
        end = (ends or {}).get(log.where.partition, log.end_offset)
        fold = UsageFold(Odometer(), start_offset=start, end_offset=end)
        for index in range(len(log.stamps)):
            if log.stamp(index).end_offset <= end:
                fold.apply(log.stamp(index))
        days = [
            {
                "day": day.day.isoformat(),
                "first_offset": day.first_offset,
                "end_offset": day.end_offset,
                "quantities": {"messages_in": day.messages, "bytes_in": day.bytes},
            }
            for day in fold.days()
        ]
        for day in fold.days():
            quantities["messages_in"] += day.messages
            quantities["bytes_in"] += day.bytes
        partitions.append(
            {
                "topic": log.name,
                "topic_id": log.where.topic_id.hex(),
                "partition": log.where.partition,
                "log_generation": 0,
                "start_offset": start,
                "end_offset": end,
                "days": days,
            }
        )
    rated = rate(BOOK, quantities)
    return {
        "invoice": {
            "id": invoice,
            "number": 1,
            "tenant": "tn_1",
            "status": "issued",
            "currency": "USD",
            "period_start": _text(begin_ms),
            "period_end": _text(end_ms),
            "total_micro": rated.total_micro,
            "gaps": [],
            "lines": [
                {
                    "id": line_id(invoice, line.meter, BOOK.sha256, begin_ms, end_ms),
                    "meter": line.meter,
                    "quantity": line.quantity,
                    "amount_micro": line.amount_micro,
                    "price_book_sha256": BOOK.sha256,
                }
                for line in rated.lines
            ],
        },
        "price_book": BOOK.document(),
        "previous_invoice": previous,
        "cut": {
            "id": "cut_1",
            "readings": [
                {name: part[name] for name in ("topic_id", "partition", "log_generation", "end_offset")}
                for part in partitions
            ],
        },
        "partitions": partitions,
        "seals": [
            {
                "topic_id": log.where.topic_id.hex(),
                "partition": log.where.partition,
                "base_offset": seal.base_offset,
                "seal": base64.b64encode(pack_seal(seal)).decode(),
            }
            for log in logs
            for seal in log.seals
        ],
    }


def _text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()
