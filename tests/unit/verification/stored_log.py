"""A partition's log in memory as a leader stores it: placed batches, stamps, seals."""

from typing import Any

from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.batch import BATCH_HEADER_BYTES, CRC_COVERS_FROM, placed, read_header
from penstock.records.build import BatchBuilder
from penstock.records.seal import Seal, SegmentDigest
from penstock.records.stamp import Stamp, StampFlag, pack_stamp, stamp_seed, unpack_stamp
from penstock.rules.odometer import Odometer
from penstock.rules.rating import PriceBook
from penstock.verification.stamped_reads import StampedBatches

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
        """What a declared loss does: the log ends at `offset`, and goes on from there."""
        kept = [index for index in range(len(self.stamps)) if self.stamp(index).end_offset <= offset]
        self.stamps, self.batches = self.stamps[: len(kept)], self.batches[: len(kept)]
        self._odometer = Odometer()
        self._digest = None
        for index in kept:
            stamp = self.stamp(index)
            if stamp.flags & StampFlag.FIRST_OF_SEGMENT:
                self._digest = SegmentDigest(self.where, stamp.base_offset)
            assert self._digest is not None
            self._digest.add(bytes(self.batches[index][:BATCH_HEADER_BYTES]), bytes(self.stamps[index]))
            self._odometer.apply(stamp)
        bases = [self.stamp(i).base_offset for i in kept if self.stamp(i).flags & StampFlag.FIRST_OF_SEGMENT]
        # The segment that is appended to again has no seal any more.
        self.seals = [seal for seal in self.seals if seal.end_offset <= max(bases, default=0)]
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
