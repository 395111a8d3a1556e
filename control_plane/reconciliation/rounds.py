"""Which round of reconciliation compares: at rest neither side has changed, and a short look says so.

What the brokers hold changes with their metadata revision; what is wanted changes with a new row of the outbox.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from control_plane.brokers import actions, client
from control_plane.outbox import queries
from control_plane.reconciliation.reconcile import Finding, reconcile

COMPARED_S = 120.0
"""A round compares when the last comparison is this old: rows may have been changed by hand or from a backup, and what
differs again soon after a redelivery is left for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """What tells that nothing has changed on either side."""

    cluster_id: str
    revision: int
    outbox_row: int


class Rounds:
    """Of one process. Each process compares once after every change; a second comparison is harmless."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._compared: _Sides | None = None
        """None: there was no comparison yet, or the last one found something."""
        self._compared_at = 0.0

    def turn(self) -> Sequence[Finding]:
        """Compare, unless nothing has changed. Raises `BrokerUnavailable`."""
        # Read before the comparison: a row that is written meanwhile is compared by the next round.
        row = queries.newest_row()
        seen = client.describe()
        sides = _Sides(cluster_id=seen.cluster_id, revision=seen.changed_at, outbox_row=row)
        if sides == self._compared and self._clock() < self._compared_at + COMPARED_S:
            actions.remember_brokers(seen.brokers)
            return []
        self._compared = None
        # Another broker may have answered than the one above, with an older view: what was compared is what it read.
        made = reconcile()
        if not made.findings:
            self._compared = _Sides(cluster_id=made.cluster_id, revision=made.revision, outbox_row=row)
            self._compared_at = self._clock()
        return made.findings
