"""Counts refusals and sensitive reads by the minute, in the memory of a web process.

Counting is a few operations under a lock: it asks no database, waits for no other process and raises nothing, so that
no request is slowed or failed by it. A thread of the process writes the counts down (`control_plane.audit.writing`);
the worker chains each minute once it is over (`control_plane.audit.chaining`).

Rows are bounded by tenant and minute, and over all. What does not fit into a tenant's rows is counted in one row for
each outcome, as `audit.more` of the service.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from control_plane.audit.actor import Actor, system
from penstock.contract.limits import AUDIT_TALLIES_MAX

MORE = "audit.more"
"""The action of the row that holds the rest."""
ROWS_MAX = 50_000
"""Of one process, while the database takes none: some minutes of a thousand tenants that are all flooded."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What is counted together."""

    tenant: str
    minute: datetime
    outcome: str
    actor_kind: str
    actor_id: str
    action: str

    @property
    def is_rest(self) -> bool:
        return self.action == MORE

    def as_rest(self) -> "Counted":
        """The row that takes this one in."""
        rest = system("audit")
        return Counted(
            tenant=self.tenant,
            minute=self.minute,
            outcome=self.outcome,
            actor_kind=rest.kind.value,
            actor_id=rest.id,
            action=MORE,
        )


@dataclass(slots=True, kw_only=True)
class Tally:
    """How often, with request id and address of the first."""

    times: int
    request_id: str
    source: str


class Tallies:
    """The counts of one process. Safe between threads."""

    def __init__(self, clock: Callable[[], datetime] = timezone.now) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: dict[Counted, Tally] = {}
        self._rows_of: Counter[tuple[str, datetime]] = Counter()
        self._lost = 0

    def count(self, actor: Actor, *, tenant: str, action: str, outcome: str) -> None:
        """Once more. `tenant` is the public id of the tenant whose log it belongs to."""
        counted = Counted(
            tenant=tenant,
            minute=self._clock().replace(second=0, microsecond=0),
            outcome=outcome,
            actor_kind=actor.kind.value,
            actor_id=actor.id[:64],
            action=action,
        )
        with self._lock:
            self._add(counted, 1, actor.request_id, actor.source)

    def take(self) -> dict[Counted, Tally]:
        """All counts so far, which are then no longer here."""
        with self._lock:
            taken, self._rows = self._rows, {}
            self._rows_of.clear()
            lost, self._lost = self._lost, 0
        if lost:
            _log.warning("refusals and reads were not counted for the audit log", extra={"times": lost})
        return taken

    def put_back(self, taken: dict[Counted, Tally]) -> None:
        """What could not be written down; it is taken again the next time."""
        with self._lock:
            for counted, tally in taken.items():
                self._add(counted, tally.times, tally.request_id, tally.source)

    def _add(self, counted: Counted, times: int, request_id: str, source: str) -> None:
        there = self._rows.get(counted)
        of_minute = (counted.tenant, counted.minute)
        if there is None and not counted.is_rest and self._rows_of[of_minute] >= AUDIT_TALLIES_MAX:
            counted = counted.as_rest()
            there = self._rows.get(counted)
        if there is not None:
            there.times += times
            return
        if len(self._rows) >= ROWS_MAX:
            self._lost += times
            return
        self._rows[counted] = Tally(times=times, request_id=request_id, source=source)
        if not counted.is_rest:
            self._rows_of[of_minute] += 1


def merged(rows: Iterable[tuple[Counted, Tally]]) -> list[tuple[Counted, Tally]]:
    """The rows of one tenant and minute, from any number of processes, as they are chained: refusals first, then by how
    often. At most `AUDIT_TALLIES_MAX`, and one for each outcome that holds the rest.
    """
    sums: dict[Counted, Tally] = {}
    for counted, tally in rows:
        _merge(sums, counted, tally)
    ordered = sorted(
        sums.items(),
        key=lambda item: (
            item[0].outcome != "refused",
            -item[1].times,
            item[0].action,
            item[0].actor_kind,
            item[0].actor_id,
        ),
    )
    distinct = [item for item in ordered if not item[0].is_rest]
    rest = {counted: tally for counted, tally in ordered if counted.is_rest}
    for counted, tally in distinct[AUDIT_TALLIES_MAX:]:
        _merge(rest, counted.as_rest(), tally)
    return [*distinct[:AUDIT_TALLIES_MAX], *rest.items()]


def _merge(sums: dict[Counted, Tally], counted: Counted, tally: Tally) -> None:
    there = sums.get(counted)
    if there is None:
        sums[counted] = Tally(times=tally.times, request_id=tally.request_id, source=tally.source)
    else:
        there.times += tally.times


_own = Tallies()


def tallies() -> Tallies:
    """Those of this process."""
    return _own
