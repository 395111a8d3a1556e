"""Handshakes of the internal listener that came to nothing. gRPC says when one begins, and not how it ends: one that no
call follows in time counts as refused. Admin clients look at a broker's certificate first and say so in a call.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

_CALL_S = 15.0
"""For a handshake, for which gRPC's own limit is 10 s, and the first call after it."""
_CONNECTIONS_MAX = 10_000
"""Of which is remembered that a call came."""
_REMEMBERED_S = 60.0
"""Since its last call. So long the kernel keeps back the port of a connection that has ended; then a new connection may
have it."""


class InternalHandshakes:
    """Those of one listener. Safe between threads: gRPC begins handshakes on its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begun: deque[float] = deque()
        self._called: dict[str, float] = {}
        """When the last call came, by connection; the longest ago first."""

    def began(self) -> None:
        with self._lock:
            self._begun.append(self._clock())

    def called(self, connection: str) -> None:
        """A call has come on this connection, so its handshake went well."""
        with self._lock:
            now_s = self._clock()
            last_s = self._called.pop(connection, None)
            self._called[connection] = now_s
            if last_s is not None and now_s - last_s <= _REMEMBERED_S:
                return
            if len(self._called) > _CONNECTIONS_MAX:
                del self._called[next(iter(self._called))]
            if self._begun:
                self._begun.popleft()

    def looked(self, handshakes: int) -> None:
        """A process of the cluster says so: it made so many to look at this broker's certificate, before it called."""
        with self._lock:
            for _ in range(min(handshakes, len(self._begun))):
                self._begun.popleft()

    def take_failed(self) -> int:
        """How many more came to nothing since this was asked last."""
        failed = 0
        with self._lock:
            while self._begun and self._clock() - self._begun[0] > _CALL_S:
                self._begun.popleft()
                failed += 1
        return failed
