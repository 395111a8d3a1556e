"""One partition's part of an invoice, checked against its log: batches and stamps in, a finding out.

States: *open* (nothing read yet; a log that begins later makes the seals stand in for what is deleted), *reading*
(each answer of the leader is fed in order), *done* (the claim is compared with what was counted). Reading begins where
the segment of the first offset begins, so that the segment's digest can be proven, and goes on to the end of the
segment that holds the last one, if that is sealed, or one batch beyond it, which shows that the cut is where
the period ends.
"""

from collections.abc import Sequence

from penstock.contract.errors import CorruptBatch, UnsupportedCompression
from penstock.contract.invariant import InvariantBroken
from penstock.records.batch import BATCH_HEADER_BYTES, BatchHeader, check_batch, read_header
from penstock.records.seal import Seal, SegmentDigest
from penstock.records.stamp import STAMP_BYTES, Stamp, StampCorrupt, StampFlag, stamp_seed, unpack_stamp
from penstock.records.usage import Totals
from penstock.rules.odometer import Odometer
from penstock.rules.usage_folding import UsageFold, day_of, day_start_ms, sealed_totals
from penstock.verification.evidence import ClaimedRange, PartitionClaim
from penstock.verification.findings import CountedDay, Kind, PartitionFinding, Problem

PROBLEMS_MAX = 20
"""Of one partition: after so many the rest says nothing new."""
_MARKERS = StampFlag.CONTROL_COMMIT | StampFlag.CONTROL_ABORT


class PartitionCheck:
    """Feed it until `done`, then take `finding`. Reads nothing by itself."""

    def __init__(
        self, claim: PartitionClaim, seals: Sequence[Seal], *, period_start_ms: int, period_end_ms: int
    ) -> None:
        self._claim = claim
        self._period_start_ms, self._period_end_ms = period_start_ms, period_end_ms
        self._seals = {
            seal.base_offset: seal for seal in seals if seal.log_generation <= claim.log_generation
        }
        self._seed = stamp_seed(claim.where)
        before = [seal for seal in self._seals.values() if seal.end_offset <= claim.start_offset]
        last = max(before, key=lambda seal: seal.end_offset, default=None)
        if claim.start_offset == claim.end_offset:
            odometer = Odometer(claim.start_offset)  # nothing to count: only that nothing is missing
        else:
            odometer = Odometer() if last is None else Odometer.resumed([last])
        self._fold = UsageFold(
            odometer,
            start_offset=claim.start_offset,
            end_offset=claim.end_offset,
            wanted=[offset for row in claim.ranges for offset in (row.first_offset, row.end_offset)],
        )
        holding = [s for s in self._seals.values() if s.base_offset < claim.end_offset < s.end_offset]
        self._end_is_sealed = bool(holding) and claim.start_offset < claim.end_offset
        self.read_to = (
            max(seal.end_offset for seal in holding) if self._end_is_sealed else claim.end_offset + 1
        )
        """Batches from here on are not wanted."""
        self._digest: SegmentDigest | None = None
        self._broken = False
        self.finding = PartitionFinding(
            topic=claim.topic,
            topic_id=claim.where.topic_id.hex(),
            partition=claim.where.partition,
            log_generation=claim.log_generation,
            start_offset=claim.start_offset,
            end_offset=claim.end_offset,
        )
        self.done = False
        self._read_any = False

    @property
    def next_offset(self) -> int:
        """Where to read on."""
        return self._fold.odometer.end_offset

    def log_begins_at(self, log_start_offset: int) -> bool:
        """Before the first answer is fed: offsets below `log_start_offset` are deleted. True = news."""
        if self._read_any or log_start_offset <= self.next_offset or self.done:
            return False
        claim = self._claim
        if claim.start_offset == claim.end_offset:
            self._finish()
            return True
        chain: list[Seal] = []
        at = self.next_offset
        while at < min(log_start_offset, claim.end_offset):
            seal = self._seals.get(at)
            if seal is None:
                self._problem(
                    Kind.UNPROVEN,
                    f"offsets {at} to {log_start_offset} are deleted, and no seal begins at {at}",
                    at,
                )
                self._finish()
                return True
            if chain and seal.before != chain[-1].totals:
                self._problem(
                    Kind.SEAL_MISMATCH, f"the seals before and after offset {at} contradict each other", at
                )
            chain.append(seal)
            at = seal.end_offset
        if chain[0].base_offset == 0 and chain[0].before != Totals():
            self._problem(Kind.SEAL_MISMATCH, "the first seal does not begin at zero", 0)
        self._fold.resume(Odometer.resumed(chain), chain)
        first, last = max(claim.start_offset, chain[0].base_offset), min(at, claim.end_offset)
        if first < last:
            self.finding.by_seals_alone = (first, last)
        for seal in chain:
            self._learn_from_rows(seal)
        if at >= claim.end_offset:
            self._finish()
        return True

    def log_is_gone(self) -> None:
        """The topic is deleted: seals are all that is left."""
        if not self.log_begins_at(self._claim.end_offset):
            self._finish()

    def refused(self, message: str, kind: Kind = Kind.UNPROVEN) -> None:
        """The leader would not answer for good."""
        self._problem(kind, f"offset {self.next_offset}: {message}", self.next_offset)
        self._finish()

    def nothing_more(self, high_watermark: int) -> None:
        """The log ends: there is no batch from `next_offset` on."""
        if self.next_offset < self._claim.end_offset:
            self._problem(
                Kind.OFFSETS_NOT_CONTIGUOUS,
                f"the log ends at {high_watermark}, the invoice counts up to {self._claim.end_offset}",
                offset=self.next_offset,
            )
        self._finish()

    def feed(self, stamps: bytes, batches: bytes) -> None:
        """The next batches with their stamps, as the leader gave them."""
        self._read_any = True
        asked = self.next_offset
        at = 0
        view = memoryview(batches)
        if len(stamps) % STAMP_BYTES or not stamps:
            self.refused(f"{len(stamps)} bytes of stamps, {STAMP_BYTES} a batch required")
            return
        for stamp_at in range(0, len(stamps), STAMP_BYTES):
            if self.done:
                return
            raw = stamps[stamp_at : stamp_at + STAMP_BYTES]
            try:
                stamp = unpack_stamp(raw, self._seed)
            except StampCorrupt as error:
                self._problem(
                    Kind.STAMP_ALTERED, f"stamp of offset {self.next_offset}: {error}", self.next_offset
                )
                self._finish()
                return
            batch = view[at : at + stamp.size]
            at += stamp.size
            if not self._take(stamp, raw, batch):
                return
        if at < len(view) and not self.done:
            self.refused(f"{len(view) - at} bytes of batches without a stamp")
        elif self.next_offset == asked and not self.done:
            self.refused("the leader's answer does not hold it")

    # -- batches -------------------------------------------------------------------------------------------------

    def _take(self, stamp: Stamp, raw: bytes, batch: memoryview) -> bool:
        """Check and count one batch; False when reading ends here."""
        if stamp.end_offset <= self.next_offset:
            return True  # a batch before the one asked for
        if self.next_offset >= self._claim.end_offset:
            if self.next_offset == self._claim.end_offset and stamp.accepted_ms < self._period_end_ms:
                self._problem(
                    Kind.CUT_DIFFERS,
                    f"offset {stamp.base_offset} was accepted before the period's end and is not in it",
                    stamp.base_offset,
                )
            if not self._end_is_sealed:
                self._finish()
                return False
        if stamp.base_offset != self.next_offset:
            self._problem(
                Kind.OFFSETS_NOT_CONTIGUOUS,
                f"offsets {self.next_offset} to {stamp.base_offset} are not there",
                self.next_offset,
            )
            self._finish()
            return False
        if stamp.flags & StampFlag.CLEANED:
            self._problem(
                Kind.UNPROVEN,
                "cleaned by compaction: what is left is not what was produced",
                stamp.base_offset,
            )
            self._finish()
            return False
        if self._digest is None or stamp.flags & StampFlag.FIRST_OF_SEGMENT:
            self._close_segment()
            self._digest = SegmentDigest(self._claim.where, stamp.base_offset)
        self._check_batch(stamp, batch)
        if len(batch) >= BATCH_HEADER_BYTES:
            self._digest.add(batch[:BATCH_HEADER_BYTES], raw)
        try:
            self._fold.apply(stamp)
        except InvariantBroken as error:
            self._problem(
                Kind.STAMP_ALTERED, f"stamp of offset {stamp.base_offset}: {error}", stamp.base_offset
            )
            self._finish()
            return False
        self.finding.batches += 1
        self._at_boundary()
        return not self.done

    def _at_boundary(self) -> None:
        """After a batch: a sealed segment that ends here is closed, and so may be the whole check."""
        seal = self._seals.get(self._fold.odometer.segment_base)
        if seal is not None and self.next_offset >= seal.end_offset:
            self._close_segment()
        if self._end_is_sealed and self.next_offset >= self.read_to:
            self._finish()

    def _check_batch(self, stamp: Stamp, batch: memoryview) -> None:
        where = f"batch at offset {stamp.base_offset}"
        if len(batch) != stamp.size:
            self._problem(
                Kind.STAMP_ALTERED,
                f"{where}: {len(batch)} bytes came, its stamp says {stamp.size}",
                stamp.base_offset,
            )
            return
        try:
            header = check_batch(batch, from_producer=False)
        except (CorruptBatch, UnsupportedCompression) as error:
            fact = error.message
            try:
                read_header(batch)
            except CorruptBatch:
                fact = f"{fact} (its header is unreadable)"
            self._problem(Kind.BATCH_ALTERED, f"{where}: {fact}", stamp.base_offset)
            return
        for field, stamped, held in _fields(stamp, header):
            if stamped != held:
                self._problem(
                    Kind.STAMP_ALTERED,
                    f"{where}: its stamp says {field} {stamped}, the batch itself {held}",
                    stamp.base_offset,
                )

    def _close_segment(self) -> None:
        """The segment that was read last is whole: it must be what was sealed."""
        digest, self._digest = self._digest, None
        odometer = self._fold.odometer
        if digest is None:
            return
        seal = self._seals.get(odometer.segment_base)
        if seal is None:
            return
        where = f"segment {seal.base_offset} to {seal.end_offset}"
        made = odometer.seal(self._claim.where, digest.digest(), seal.log_generation)
        if made == seal:
            self.finding.segments_sealed += 1
            return
        differing = [name for name in Seal.__slots__ if getattr(made, name) != getattr(seal, name)]
        if "digest" in differing:
            told = "its batch headers and stamps are not those that were sealed"
            others = [name for name in differing if name != "digest"]
            told += f" (also differing: {', '.join(others)})" if others else ""
        else:
            told = f"its seal says another {', '.join(differing)}"
        self._problem(Kind.SEAL_MISMATCH, f"{where}: {told}", seal.base_offset)

    # -- seals instead of the log --------------------------------------------------------------------------------

    def _learn_from_rows(self, seal: Seal) -> None:
        """Totals at the claim's boundaries inside a deleted segment, where its rows tell them."""
        claim = self._claim
        boundaries = [(claim.start_offset, self._period_start_ms), (claim.end_offset, self._period_end_ms)]
        boundaries += [(row.end_offset, day_start_ms(row.day) + 86_400_000) for row in claim.ranges]
        for offset, before_ms in boundaries:
            if seal.base_offset < offset < seal.end_offset and self._fold.mark(offset) is None:
                counted = sealed_totals(seal, before_ms)
                if counted is not None:
                    messages, size = counted
                    totals = Totals(committed_messages=messages, committed_bytes=size)
                    self._fold.learn(offset, totals, before_ms - 1)

    # -- the claim -----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        if self.done:
            return
        self.done = True
        claim, fold, finding = self._claim, self._fold, self.finding
        begin, end = fold.mark(claim.start_offset), fold.mark(claim.end_offset)
        if begin is None or end is None:
            if not self._broken:
                at = claim.start_offset if begin is None else claim.end_offset
                self._problem(Kind.OFFSETS_NOT_CONTIGUOUS, f"no batch ends at offset {at}", at)
            return
        finding.messages = end.totals.committed_messages - begin.totals.committed_messages
        finding.bytes = end.totals.committed_bytes - begin.totals.committed_bytes
        if claim.end_offset > claim.start_offset and end.accepted_ms >= self._period_end_ms:
            self._problem(
                Kind.CUT_DIFFERS,
                f"the batch below offset {claim.end_offset} was accepted after the period's end",
                claim.end_offset,
            )
        at = claim.start_offset
        for row in claim.ranges:
            if row.first_offset != at or row.end_offset < row.first_offset:
                self._problem(
                    Kind.OFFSETS_NOT_CONTIGUOUS,
                    f"the invoice's range of {row.day} is {row.first_offset} to {row.end_offset}, {at} to … is due",
                    at,
                )
            at = row.end_offset
            self._compare(row)
        if at != claim.end_offset:
            self._problem(
                Kind.OFFSETS_NOT_CONTIGUOUS,
                f"the invoice's ranges end at {at}, the cut is at {claim.end_offset}",
                at,
            )

    def _compare(self, row: ClaimedRange) -> None:
        begin, end = self._fold.mark(row.first_offset), self._fold.mark(row.end_offset)
        named = f"{row.day}, offsets {row.first_offset} to {row.end_offset}"
        if begin is None or end is None:
            if not self._broken:
                self._problem(
                    Kind.UNPROVEN, f"{named}: its bounds are no bounds of batches", row.first_offset
                )
            return
        messages = end.totals.committed_messages - begin.totals.committed_messages
        size = end.totals.committed_bytes - begin.totals.committed_bytes
        self.finding.days.append(
            CountedDay(
                day=row.day.isoformat(),
                first_offset=row.first_offset,
                end_offset=row.end_offset,
                messages=messages,
                bytes=size,
            )
        )
        for meter, billed, counted in (("messages", row.messages, messages), ("bytes", row.bytes, size)):
            if billed != counted:
                self._problem(
                    Kind.QUANTITY_DIFFERS,
                    f"{named}: {billed} {meter} on the invoice, {counted} in the log",
                    row.first_offset,
                )
        if row.end_offset > row.first_offset and end.accepted_ms >= 0 and day_of(end.accepted_ms) != row.day:
            self._problem(
                Kind.DAY_DIFFERS,
                f"{named}: its last batch was accepted on {day_of(end.accepted_ms)}",
                row.first_offset,
            )

    def _problem(self, kind: Kind, message: str, offset: int | None = None) -> None:
        self._broken = True
        problems = self.finding.problems
        if len(problems) < PROBLEMS_MAX:
            problems.append(Problem(kind=kind, where=self._claim.name, message=message, offset=offset))
        elif not self.done:
            self.done = True


def _fields(stamp: Stamp, header: BatchHeader) -> list[tuple[str, int, int]]:
    """What stamp and batch both say: (name, the stamp's, the batch's)."""
    return [
        ("base offset", stamp.base_offset, header.base_offset),
        ("offset span", stamp.offset_span, header.offset_span),
        ("record count", stamp.record_count, header.record_count),
        ("size", stamp.size, header.size),
        ("leader epoch", stamp.leader_epoch, header.leader_epoch),
        ("producer id", stamp.producer_id, header.producer_id),
        ("producer epoch", stamp.producer_epoch, header.producer_epoch),
        ("base sequence", stamp.base_sequence, header.base_sequence),
        ("transactional", int(bool(stamp.flags & StampFlag.TRANSACTIONAL)), int(header.transactional)),
        ("control", int(bool(stamp.flags & _MARKERS)), int(header.control)),
    ]
