"""Metadata streams to two brokers, so that a stopped one cannot hide a new leader."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from penstock.client.ports import Connections
from penstock.client.timing import NEVER, Backoff
from penstock.contract import methods
from penstock.contract.v1 import log_pb2

WATCHES = 2
_FIRST_PUSH_MS = 2_000
"""The whole state comes first; a broker that does not send it in this time is left."""
_ALONE_MS = 1_000
"""With one known broker there is one watch; another broker is looked for this often."""
_REOPEN_MS = 50
"""Topics that come into use one after the other share one reopening."""


@dataclass(slots=True)
class _Watch:
    token: int = -1
    address: str = ""
    topics: tuple[str, ...] = ()
    since: float = 0.0
    heard: bool = False
    retry_at: float = 0.0
    failures: int = 0

    @property
    def open(self) -> bool:
        return self.token != -1


class MetadataWatches:
    """Keeps `WATCHES` streams to different brokers while there is a topic to watch."""

    def __init__(self, core: Connections, random: Random) -> None:
        self._core = core
        self._backoff = Backoff(50, 1_000, random)
        self._watches = [_Watch() for _ in range(WATCHES)]
        self._topics: tuple[str, ...] = ()
        self._changed_at = 0.0

    def topics_changed(self, topics: tuple[str, ...], now: float) -> None:
        self._topics = topics
        self._changed_at = now

    def step(self, now: float) -> None:
        for watch in self._watches:
            if watch.open and not self._topics:
                self._close(watch)
            elif watch.open and not watch.heard and now - watch.since >= _FIRST_PUSH_MS:
                why = f"no metadata came within {_FIRST_PUSH_MS} ms"
                self._core.address_failed(watch.address, why, now)
                self._failed(watch, now)
            elif watch.open and (self._departed(watch) or self._outdated(watch, now)):
                self._close(watch)
            if not watch.open and self._topics and now >= watch.retry_at:
                self._open(watch, now)

    def next_step_at(self) -> float:
        at = NEVER
        if not self._topics:
            return at
        for watch in self._watches:
            if not watch.open:
                at = min(at, watch.retry_at)
            else:
                if not watch.heard:
                    at = min(at, watch.since + _FIRST_PUSH_MS)
                if watch.topics != self._topics:
                    at = min(at, self._changed_at + _REOPEN_MS)
        return at

    def pushed(self, token: int) -> bool:
        """Whether the push is of a watch that is still ours."""
        for watch in self._watches:
            if watch.token == token:
                watch.heard, watch.failures = True, 0
                self._core.answered()
                return True
        return False

    def lost(self, token: int, code: int | None, message: str, now: float) -> None:
        for watch in self._watches:
            if watch.token == token:
                if code is None:
                    self._core.address_failed(watch.address, message, now)
                else:
                    self._core.answered()
                watch.token = -1
                watch.failures += 1
                watch.retry_at = now + self._backoff.delay_ms(watch.failures)

    def close(self) -> None:
        self._topics = ()
        for watch in self._watches:
            if watch.open:
                self._close(watch)

    def _departed(self, watch: _Watch) -> bool:
        """The broker is registered no more: what it knows may be old."""
        brokers = self._core.view.brokers
        return (
            bool(brokers)
            and watch.heard
            and watch.address not in brokers.values()
            and len(brokers) >= WATCHES
        )

    def _outdated(self, watch: _Watch, now: float) -> bool:
        """It watches other topics than are in use, and has for a while."""
        return watch.topics != self._topics and now - self._changed_at >= _REOPEN_MS

    def _open(self, watch: _Watch, now: float) -> None:
        taken = [other.address for other in self._watches if other is not watch and other.open]
        address = self._core.address_for(None, avoid=taken)
        if address is None or address in taken:
            watch.retry_at = now + _ALONE_MS
            return
        request = log_pb2.WatchMetadataRequest(topics=self._topics)
        watch.address, watch.topics, watch.since, watch.heard = address, self._topics, now, False
        watch.token = self._core.open_watch(address, methods.WATCH_METADATA, request.SerializeToString())

    def _failed(self, watch: _Watch, now: float) -> None:
        self._close(watch)
        watch.failures += 1
        watch.retry_at = now + self._backoff.delay_ms(watch.failures)

    def _close(self, watch: _Watch) -> None:
        self._core.close_stream(watch.token)
        watch.token = -1
        watch.retry_at = 0.0
