"""One partition's part of an invoice, checked against its log: batches and stamps in, a finding out.

States: *open* (nothing read yet; a log that begins later makes seals, and then the brokers' cuts, stand in for what is
deleted), *reading* (each answer of the leader is fed in order), *done* (the claim is compared with what was counted).
Reading begins where the segment of the first offset begins, so that the segment's digest can be proven, and goes on to
the end of the segment that holds the last one, if that is sealed, or one batch beyond it, which shows that the cut is
where the period ends.

Where a log begins inside a segment that has no seal, batches are counted from there, and what they give is brought to
the totals of the cut; of what lies before only the readings at both ends tell.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from penstock.contract.errors import CorruptBatch, UnsupportedCompression
from penstock.contract.invariant import InvariantBroken
from penstock.records.batch import BATCH_HEADER_BYTES, BatchHeader, check_batch, read_header
from penstock.records.malformed import what_is_malformed
from penstock.records.seal import Seal, SegmentDigest
from penstock.records.stamp import STAMP_BYTES, Stamp, StampCorrupt, StampFlag, stamp_seed, unpack_stamp
from penstock.records.usage import Totals
from penstock.rules.odometer import Odometer
from penstock.rules.timestamps import DAY_MS, day_start_ms
from penstock.rules.usage_folding import UsageFold, sealed_totals
from penstock.verification.claim_check import PROBLEMS_MAX, ClaimCheck
from penstock.verification.claims import PartitionClaim
from penstock.verification.findings import Kind, PartitionFinding

_MARKERS = StampFlag.CONTROL_COMMIT | StampFlag.CONTROL_ABORT


class PartitionCheck:
    """Feed it until `done`, then take `finding`. Reads nothing by itself."""

    def __init__(
        self,
        claim: PartitionClaim,
        seals: Sequence[Seal],
        *,
        period_start_ms: int,
        period_end_ms: int,
        wanted: Iterable[int] = (),
    ) -> None:
        """`seals`: those that the brokers keep of the partition; `wanted`: further offsets whose totals `counted_at` is
        asked for. Times are ms UTC, the period is half open.
        """
        self._claim = claim
        self._first = claim.first_offset
        self._end = claim.end_offset
        self._period_start_ms = period_start_ms
        self._period_end_ms = period_end_ms
        self._seals = {seal.base_offset: seal for seal in seals}
        self._seed = stamp_seed(claim.where)
        before = [seal for seal in self._seals.values() if seal.end_offset <= self._first]
        last = max(before, key=lambda seal: seal.end_offset, default=None)
        if self._first == self._end:
            odometer = Odometer(self._first)  # nothing to count: only that nothing is missing
        else:
            odometer = Odometer() if last is None else Odometer.resumed([last])
        days = claim.billed.days
        self._fold = UsageFold(
            odometer,
            start_offset=self._first,
            end_offset=self._end,
            wanted=[
                *(
                    offset
                    for row in days
                    for offset in (row.first_offset, row.end_offset)
                    if offset <= self._end
                ),
                *wanted,
            ],
        )
        holding = [s for s in self._seals.values() if s.base_offset < self._end < s.end_offset]
        self._end_is_sealed = bool(holding) and self._first < self._end
        self.read_to = max(seal.end_offset for seal in holding) if self._end_is_sealed else self._end + 1
        """Batches from here on are not wanted."""
        self._digest: SegmentDigest | None = None
        self._before_gap: Odometer | None = None
        """What is known where the offsets begin that are deleted."""
        self.finding = PartitionFinding(
            topic=claim.billed.topic,
            topic_id=claim.billed.topic_id,
            partition=claim.billed.partition,
            log_generation=claim.billed.log_generation,
            start_offset=self._first,
            end_offset=claim.billed.end_offset,
        )
        self._claim_check = ClaimCheck(claim, self._fold, self.finding, period_end_ms=period_end_ms)
        self.done = False
        self._read_any = False

    @property
    def next_offset(self) -> int:
        """Where to read on."""
        return self._fold.odometer.end_offset

    @property
    def read_from(self) -> int | None:
        """Where the batches begin that were read; None when none was."""
        if not self._read_any:
            return None
        sealed_to = 0 if self.finding.by_seals is None else self.finding.by_seals[1]
        return max(self._first, sealed_to, self._claim_check.relative_from or 0)

    def counted_at(self, offset: int) -> tuple[int, int] | None:
        """(messages, bytes) counted from a fixed place of the log up to a wanted offset from `read_from` on."""
        mark, begins = self._fold.mark(offset), self.read_from
        if mark is None or begins is None or offset < begins:
            return None
        return mark.totals.committed_messages, mark.totals.committed_bytes

    def log_begins_at(self, log_start_offset: int) -> bool:
        """Before the first answer is fed: offsets below `log_start_offset` are deleted. True = news."""
        if (
            self._read_any
            or log_start_offset <= self.next_offset
            or self.done
            or self._claim_check.log_starts_at
        ):
            return False
        self._claim_check.log_starts_at = log_start_offset
        if self._first == self._end:
            self._finish()
            return True
        chain: list[Seal] = []
        at = self.next_offset
        while at < min(log_start_offset, self._end):
            seal = self._seals.get(at)
            if seal is None:
                break
            if chain and seal.before != chain[-1].totals:
                self._problem(
                    Kind.SEAL_MISMATCH, f"the seals before and after offset {at} contradict each other", at
                )
            chain.append(seal)
            at = seal.end_offset
        if chain:
            if chain[0].base_offset == 0 and chain[0].before != Totals():
                self._problem(Kind.SEAL_MISMATCH, "the first seal does not begin at zero", 0)
            self._fold.resume(Odometer.resumed(chain), chain)
            first, last = max(self._first, chain[0].base_offset), min(at, self._end)
            if first < last:
                self.finding.by_seals = (first, last)
            for seal in chain:
                self._learn_from_rows(seal)
        if at >= self._end:
            self._finish()
        elif at < log_start_offset:
            if log_start_offset >= self._end:
                self.finding.by_cuts = (max(at, self._first), self._end)
                self._finish()
            else:
                self._claim_check.relative_from, self._before_gap = log_start_offset, self._fold.odometer
                self._fold.resume(Odometer(log_start_offset), [])
        return True

    def log_is_gone(self) -> None:
        """The topic is deleted: what the brokers keep of it is all that is left."""
        if not self.log_begins_at(max(self._end, self._claim.billed.end_offset)):
            self._finish()

    def refused(self, message: str, kind: Kind = Kind.UNPROVEN) -> None:
        """The leader would not answer for good."""
        self._problem(kind, f"offset {self.next_offset}: {message}", self.next_offset)
        self._finish()

    def nothing_more(self, high_watermark: int) -> None:
        """The log ends: there is no batch from `next_offset` on."""
        if self.next_offset < self._end:
            self._problem(
                Kind.OFFSETS_NOT_CONTIGUOUS,
                f"the log ends at {high_watermark}, the invoice counts up to {self._end}",
                offset=self.next_offset,
            )
        self._finish()

    def feed(self, stamps: bytes, batches: bytes, *, headers_only: bool = False) -> None:
        """The next batches with their stamps, as the leader gave them; or the batches' headers alone."""
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
            size = BATCH_HEADER_BYTES if headers_only else stamp.size
            batch = view[at : at + size]
            at += size
            if not self._take(stamp, raw, batch, headers_only):
                return
        if at < len(view) and not self.done:
            self.refused(f"{len(view) - at} bytes of batches without a stamp")
        elif self.next_offset == asked and not self.done:
            self.refused("the leader's answer does not hold it")

    # -- batches -------------------------------------------------------------------------------------------------

    def _take(self, stamp: Stamp, raw: bytes, batch: memoryview, headers_only: bool) -> bool:
        """Check and count one batch; False when reading ends here."""
        if stamp.end_offset <= self.next_offset:
            return True  # a batch before the one asked for
        if self._claim_check.relative_from == self.next_offset and stamp.base_offset < self.next_offset:
            # The log begins within this batch, which is there as a whole.
            before = self._before_gap
            gap = before is None or before.end_offset != stamp.base_offset
            self._claim_check.relative_from = stamp.base_offset if gap else None
            self._fold.restart(Odometer(stamp.base_offset) if gap or before is None else before)
        if self.next_offset >= self._end:
            follows = self.next_offset == self._end == self._claim.billed.end_offset
            if follows and stamp.accepted_ms < self._period_end_ms:
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
        if headers_only:
            self._check_header(stamp, batch)
        else:
            self._check_batch(stamp, batch)
        if stamp.base_offset >= self._first and stamp.accepted_ms < self._period_start_ms:
            self._problem(
                Kind.CUT_DIFFERS,
                f"offset {stamp.base_offset} was accepted before the period began",
                stamp.base_offset,
            )
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
        self._look_inside(stamp, batch)
        self._compare(stamp, header)

    def _check_header(self, stamp: Stamp, header: memoryview) -> None:
        """The records are not there: what their header says of them must be what the stamp says."""
        self.finding.by_headers += 1
        try:
            self._compare(stamp, read_header(header))
        except CorruptBatch as error:
            self._problem(
                Kind.BATCH_ALTERED, f"batch at offset {stamp.base_offset}: {error.message}", stamp.base_offset
            )

    def _compare(self, stamp: Stamp, header: BatchHeader) -> None:
        for field, stamped, written in _fields(stamp, header):
            if stamped != written:
                self._problem(
                    Kind.STAMP_ALTERED,
                    f"batch at offset {stamp.base_offset}: its stamp says {field} {stamped}, the batch itself"
                    f" {written}",
                    stamp.base_offset,
                )

    def _look_inside(self, stamp: Stamp, batch: memoryview) -> None:
        """A batch that is not what its header says was made so by its producer: it is billed, and reported."""
        if not self._first <= stamp.base_offset < self._end or len(self.finding.malformed) >= PROBLEMS_MAX:
            return
        try:
            reason = what_is_malformed(batch)
        except MemoryError:
            reason = "too large for this machine's memory to be looked into"
        if reason:
            self.finding.malformed.append(
                f"offsets {stamp.base_offset} to {stamp.end_offset} are malformed as their producer (principal "
                f"{stamp.principal}) made them: {reason}"
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
        if self._claim_check.relative_from is not None and made.totals.since(
            made.before
        ) == seal.totals.since(seal.before):
            made = replace(made, before=seal.before, totals=seal.totals)
        if made == seal:
            self.finding.segments_sealed += 1
            return
        differing = [one.name for one in fields(Seal) if getattr(made, one.name) != getattr(seal, one.name)]
        if "digest" in differing:
            difference = "its batch headers and stamps are not those that were sealed"
            others = [name for name in differing if name != "digest"]
            difference += f" (also differing: {', '.join(others)})" if others else ""
        else:
            difference = f"its seal says another {', '.join(differing)}"
        self._problem(Kind.SEAL_MISMATCH, f"{where}: {difference}", seal.base_offset)

    # -- seals instead of the log --------------------------------------------------------------------------------

    def _learn_from_rows(self, seal: Seal) -> None:
        """Totals at the claim's boundaries inside a deleted segment, where its rows tell them."""
        boundaries = [(self._first, self._period_start_ms), (self._end, self._period_end_ms)]
        boundaries += [
            (row.end_offset, day_start_ms(row.day) + DAY_MS)
            for row in self._claim.billed.days
            if row.end_offset < self._end
        ]
        for offset, before_ms in boundaries:
            if seal.base_offset < offset < seal.end_offset and self._fold.mark(offset) is None:
                counted = sealed_totals(seal, before_ms)
                if counted is not None:
                    messages, size = counted
                    totals = Totals(committed_messages=messages, committed_bytes=size)
                    self._fold.learn(offset, totals, -1 if offset == self._end else before_ms - 1)

    def _finish(self) -> None:
        if not self.done:
            self.done = True
            self._claim_check.compare()

    def _problem(
        self, kind: Kind, message: str, offset: int | None = None, end_offset: int | None = None
    ) -> None:
        if not self._claim_check.problem(kind, message, offset, end_offset):
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
