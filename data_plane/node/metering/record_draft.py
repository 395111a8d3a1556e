"""One record of `__usage` in the making, and what is true once it is committed."""

from dataclasses import dataclass, field

from data_plane.contract import usage_pb2
from data_plane.metadata.kept_ends import KeptEnd
from data_plane.metering.increments import Increments
from data_plane.metering.readings import DueReading
from data_plane.metering.retained import RetainedOdometer
from data_plane.node.metering.usage_messages import (
    add_delivered,
    add_elapsed,
    add_kept_reading,
    add_reading,
    add_requests,
    add_seal,
)
from data_plane.node.replicas.replica import Replica
from penstock.contract.ids import TenantId

ROWS_MAX = 500
"""Readings, minute rows, increments or seals in one record: some 60 KB, and a millisecond or two to pack."""
BUCKETS_A_ROW = 16
"""Of a histogram of latencies: as many take the space of a row."""


@dataclass(slots=True)
class RecordDraft:
    """Rows are readings, rows of minutes, increments and seals."""

    record: usage_pb2.UsageRecord = field(default_factory=usage_pb2.UsageRecord)
    read: list[tuple[Replica, int, DueReading]] = field(default_factory=list)
    """With the log generation it was read in."""
    sealed: list[tuple[Replica, int]] = field(default_factory=list)
    rows: int = 0

    @property
    def full(self) -> bool:
        """Nothing more should come in."""
        return self.rows >= ROWS_MAX

    def read_one(
        self,
        replica: Replica,
        due: DueReading,
        cut_id: str = "",
        cut_end_ms: int = 0,
        *,
        last: bool = False,
        retained: RetainedOdometer | None = None,
    ) -> None:
        add_reading(self.record, replica, due, cut_id, cut_end_ms, last=last, retained=retained)
        self.rows += 1 + len(due.mark.minute_rows)
        self.read.append((replica, replica.log.usage.log_generation, due))

    def read_kept(self, tenant: TenantId, end: KeptEnd, cut_id: str, cut_end_ms: int) -> None:
        """The cut's reading of a partition that is led elsewhere, or by no broker."""
        add_kept_reading(self.record, tenant, end, cut_id, cut_end_ms)
        self.rows += 1

    def add_seals(self, replica: Replica) -> None:
        """Those that are not known to be in `__usage`."""
        if replica.log.usage.sealed_end_offset > replica.sealed_offset:
            seals = replica.log.usage.seals_above(replica.sealed_offset)[:ROWS_MAX]
            for seal in seals:
                add_seal(self.record, replica.topic, seal)
            self.rows += len(seals)
            self.sealed.append((replica, seals[-1].end_offset))

    def take_increments(self, increments: Increments) -> None:
        """As many as there is space for."""
        for delivered, taken in increments.take_delivered(max(0, ROWS_MAX - self.rows)):
            add_delivered(self.record, delivered, taken)
            self.rows += 1
        for elapsed, spent in increments.take_elapsed(max(0, ROWS_MAX - self.rows)):
            add_elapsed(self.record, elapsed, spent)
            self.rows += 1
        for requests, sums in increments.take_requests(max(0, ROWS_MAX - self.rows)):
            add_requests(self.record, requests, sums)
            # Two numbers of a histogram take some four bytes, a row without one some sixty.
            self.rows += 1 + len(sums.latencies) // BUCKETS_A_ROW
