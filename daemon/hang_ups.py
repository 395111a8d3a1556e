"""Connections that a listener hung up on before they said who they are: counted by reason, and logged.

Every listener that anyone can connect to has a `HangUps`. A flood fills no log: one line when it begins, and then one
for each minute in which it goes on.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

NOT_IN_TIME = "not_in_time"
"""It did not say in time who it is, or what it asks for."""
ADDRESS_HAS_ENOUGH = "address_has_enough"
"""Its address had more connections of this kind than one address may have."""
MADE_WAY = "made_way"
"""There was no place left, and it had waited for the longest time."""
NO_SPACE = "no_space"
"""There was no place left, and no other connection could make way: it was a newcomer."""
REASONS = (NOT_IN_TIME, ADDRESS_HAS_ENOUGH, MADE_WAY, NO_SPACE)

HUNG_UP_ON = "penstock_connections_hung_up_on"
HUNG_UP_ON_SAID = (
    "Connections that were closed before they said who they are or what they ask for, by listener and reason: "
    f"{', '.join(REASONS)}."
)
LOG_EVERY_S = 60.0
LOGGED_FROM = 10
"""Connections that were not in time: a browser opens one and may not use it."""
CROWDED_S = 30.0
"""A listener is called crowded for this long after its places were last short."""
_ADDRESSES_LOGGED = 5
_ADDRESSES_MAX = 1_000
_log = logging.getLogger("penstock.connections")


class HangUps:
    """Counts of one listener; any thread may count."""

    def __init__(self, listener: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.listener = listener
        self.counts: Counter[str] = Counter()
        """By reason, from the start of the process on."""
        self._clock = clock
        self._lock = threading.Lock()
        self._untold: Counter[str] = Counter()
        self._addresses: Counter[str] = Counter()
        self._logged_at: float | None = None
        self._full_at: float | None = None

    def count(self, reason: str, address: str) -> None:
        """A connection of `address` was hung up on."""
        now = self._clock()
        with self._lock:
            self.counts[reason] += 1
            self._untold[reason] += 1
            if reason != NOT_IN_TIME:
                self._full_at = now
            if address in self._addresses or len(self._addresses) < _ADDRESSES_MAX:
                self._addresses[address] += 1
            if self._untold.total() == self._untold[NOT_IN_TIME] < LOGGED_FROM:
                return
            if self._logged_at is not None and now < self._logged_at + LOG_EVERY_S:
                return
            self._logged_at = now
            reasons, self._untold = self._untold, Counter()
            addresses, self._addresses = self._addresses, Counter()
        _log.warning(
            "connections were hung up on before they said who they are",
            extra={
                "listener": self.listener,
                "connections": reasons.total(),
                "reasons": dict(reasons),
                "addresses": dict(addresses.most_common(_ADDRESSES_LOGGED)),
            },
        )

    def crowded(self) -> str:
        """Says that places were short a short time ago; empty when they were not."""
        with self._lock:
            if self._full_at is None or self._clock() > self._full_at + CROWDED_S:
                return ""
        return (
            f"the {self.listener} listener is short of places, for all or for one address: connections that do not say"
            " who they are make way for newcomers"
        )


def hang_up_metric(all_hang_ups: Iterable[HangUps]) -> Metric:
    """Every reason of each listener, 0 included: an alert can be written before the first attack."""
    family = CounterMetricFamily(HUNG_UP_ON, HUNG_UP_ON_SAID, labels=("listener", "reason"))
    for hang_ups in all_hang_ups:
        for reason in REASONS:
            family.add_metric((hang_ups.listener, reason), hang_ups.counts[reason])
    return family


class HangUpCollector(Collector):
    """The metric of some listeners in a registry."""

    def __init__(self, *all_hang_ups: HangUps) -> None:
        self._all_hang_ups = all_hang_ups

    def collect(self) -> Iterable[Metric]:
        yield hang_up_metric(self._all_hang_ups)
