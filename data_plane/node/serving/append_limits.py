"""What a full storage or a spent budget refuses of one produce stream, and what waits behind that.

    may append --storage is full, or a budget is spent--> refused, with the time after which to come again
               --unnumbered, and the partition's last one was refused just now--> refused until that is back

A batch without a producer's number would otherwise slip in before the one that was refused and comes back.
"""

import math

from data_plane.node.ports import Clock
from data_plane.node.replicas.replica import Replica
from data_plane.node.serving.allowance import Allowance
from data_plane.storage_limits.standing import RETRY_MS
from penstock.contract import errors
from penstock.contract.ids import NO_PRODUCER_ID, TopicPartition
from penstock.records.batch import BatchHeader


class AppendLimits:
    """One stream's. Only topics that are metered are asked about."""

    def __init__(self, allowance: Allowance, clock: Clock) -> None:
        self._allowance = allowance
        self._clock = clock
        self._full_until_ms: dict[TopicPartition, tuple[float, str]] = {}
        """Until what this stream refused last may be back, and by which limit."""

    def check(self, replica: Replica, header: BatchHeader, size: int, claimed_epoch: int) -> bool:
        """Refuse what may not be appended now. Whether the batch counts for budgets once it was appended: one that the
        log has already neither counts nor is refused.

        Raises:
            Throttled: storage is full, or the broker waits for its next part of a budget.
            LimitExceeded: a budget is spent.
            NotLeader: another broker leads; that goes before any limit.
        """
        self._check_storage(replica, header, claimed_epoch)
        if not self._allowance.budgets.any or replica.has_already(header):
            return False
        self._check_budgets(replica, header, size, claimed_epoch)
        return True

    def _check_budgets(self, replica: Replica, header: BatchHeader, size: int, claimed_epoch: int) -> None:
        refusal = self._allowance.budgets.refusal(replica.topic.name, header.record_count, size)
        if refusal is not None:
            replica.leadership(claimed_epoch)
            if isinstance(refusal, errors.Throttled) and header.producer_id == NO_PRODUCER_ID:
                until_ms = self._clock.monotonic_ms() + refusal.retry_after_ms
                self._full_until_ms[replica.where] = (until_ms, refusal.limit)
            raise refusal

    def _check_storage(self, replica: Replica, header: BatchHeader, claimed_epoch: int) -> None:
        refusal, now_ms = self._allowance.storage_refusal(), self._clock.monotonic_ms()
        wait_ms = float(RETRY_MS)
        numbered = header.producer_id != NO_PRODUCER_ID
        if refusal is not None:
            limit, why = refusal.limit, refusal.text
        else:
            if numbered or not self._full_until_ms:
                return
            until_ms, limit = self._full_until_ms.get(replica.where, (now_ms, ""))
            wait_ms = until_ms - now_ms
            if wait_ms <= 0:
                self._full_until_ms.pop(replica.where, None)
                return
            why = f"{limit} was reached just now, what was refused comes first; clears in {wait_ms:.0f} ms"
        replica.leadership(claimed_epoch)
        if replica.has_already(header):
            return
        if not numbered:
            self._full_until_ms[replica.where] = (now_ms + wait_ms, limit)
        raise errors.Throttled(
            f"{replica.name}: {why}",
            limit=limit,
            retry_after_ms=max(1, math.ceil(wait_ms)),
        )
