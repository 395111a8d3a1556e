"""The work of passwords: few are hashed or checked at once, a few more wait in a line, and further ones are refused.

A password takes a quarter of a second of a processor, on purpose, and anyone can ask for that without a key. Threads of
the web application that wait for it serve nothing else, and threads that do it leave no processor to the others. So at
most half of the processors do it, the line is shorter than the threads are many, and who would wait too long hears so.
Nothing else in the service hashes a password or checks one; a test sees to that.
"""

import logging
import math
import os
import threading
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.contrib.auth import hashers
from prometheus_client import Counter, Gauge

from penstock.contract.errors import Throttled
from penstock.rules.addresses import counted_address

LIMIT = "rest:passwords"
WAITING_MAX = 8
"""A quarter of the web application's threads, and some two seconds of work for one processor."""
WAIT_S = 5.0
"""After this time in the line the answer would come too late for most who asked."""
PASSWORD_S = 0.3
"""About what one takes, for `Retry-After`."""
LOG_EVERY_S = 60.0
waiting = Gauge(
    "penstock_passwords_waiting", "Number of passwords that wait to be hashed or checked.", registry=None
)
refused = Counter(
    "penstock_passwords_refused",
    "Number of requests that were refused because too many passwords waited to be hashed or checked.",
    registry=None,
)
"""Both are in the web application's registry once Django is set up."""
_log = logging.getLogger(__name__)


class _Waiter:
    """One who waits."""

    def __init__(self) -> None:
        self.decided = threading.Event()
        self.refused = False


class PasswordLine:
    """Lets `at_once` in at a time. Any thread may ask for its turn, which it takes itself.

    Addresses take turns: the next one is from the address after the one that was let in last. A line that is full takes
    one more only from an address that has fewer places than another, whose newest place ends: a flood from one address
    keeps no other one out.
    """

    def __init__(
        self,
        *,
        at_once: int,
        waiting_max: int = WAITING_MAX,
        wait_s: float = WAIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._free = at_once
        self._at_once = at_once
        self._waiting_max = waiting_max
        self._wait_s = wait_s
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: dict[str, deque[_Waiter]] = {}
        """By address, of those that wait; the address whose turn is next stands first."""
        self._logged_at: float | None = None

    @property
    def waiting(self) -> int:
        """How many wait."""
        with self._lock:
            return self._count()

    @contextmanager
    def turn(self, address: str) -> Iterator[None]:
        """The block is one's turn. Raises `Throttled` when the line is full, or the turn does not come in time."""
        self._enter(counted_address(address))
        try:
            yield
        finally:
            self._leave()

    def _enter(self, address: str) -> None:
        with self._lock:
            if self._free and not self._lines:
                self._free -= 1
                return
            if self._count() >= self._waiting_max and not self._makes_way_for(address):
                raise self._refusal(address)
            waiter = _Waiter()
            self._lines.setdefault(address, deque()).append(waiter)
        if not waiter.decided.wait(self._wait_s):
            with self._lock:
                if not waiter.decided.is_set():
                    self._remove(address, waiter)
                    raise self._refusal(address)
        if waiter.refused:
            with self._lock:
                raise self._refusal(address)

    def _leave(self) -> None:
        with self._lock:
            address = next(iter(self._lines), None)
            if address is None:
                self._free += 1
                return
            places = self._lines.pop(address)
            waiter = places.popleft()
            if places:
                self._lines[address] = places
            waiter.decided.set()

    def _makes_way_for(self, address: str) -> bool:
        longest = max(self._lines, key=lambda other: len(self._lines[other]), default=None)
        if longest is None or len(self._lines[longest]) <= len(self._lines.get(address, ())) + 1:
            return False
        newest = self._lines[longest].pop()
        newest.refused = True
        newest.decided.set()
        if not self._lines[longest]:
            del self._lines[longest]
        return True

    def _remove(self, address: str, waiter: _Waiter) -> None:
        self._lines[address].remove(waiter)
        if not self._lines[address]:
            del self._lines[address]

    def _count(self) -> int:
        return sum(len(places) for places in self._lines.values())

    def _refusal(self, address: str) -> Throttled:
        refused.inc()
        now = self._clock()
        if self._logged_at is None or now >= self._logged_at + LOG_EVERY_S:
            self._logged_at = now
            _log.warning(
                "requests with a password are refused: too many wait",
                extra={"limit": LIMIT, "address": address},
            )
        after_s = math.ceil((self._waiting_max / self._at_once + 1) * PASSWORD_S)
        return Throttled(
            f"too many passwords are being checked at this moment; try again in {after_s} s",
            limit=LIMIT,
            retry_after_ms=after_s * 1_000,
        )


line = PasswordLine(at_once=max(1, len(os.sched_getaffinity(0)) // 2))
"""The one of this process."""
waiting.set_function(lambda: line.waiting)


PREPARED_LENGTH_MAX = 256
"""Characters; longer passwords are refused where they are set."""


def prepared(password: str) -> str:
    """The password as it is hashed: `é` is one character however a keyboard makes it, and each space is a plain one.

    These are the mappings of OpaqueString in RFC 8265. What it refuses besides is taken, as ever. A password that is
    longer than any may be is left as it is: the time of normalising grows with the square of the length.
    """
    if len(password) > PREPARED_LENGTH_MAX:
        return password
    spaced = "".join(" " if unicodedata.category(character) == "Zs" else character for character in password)
    return unicodedata.normalize("NFC", spaced)


def hash_password(password: str, *, source: str) -> str:
    """What is kept of a password. `source`: the address that asks. Raises `Throttled`."""
    with line.turn(source):
        return hashers.make_password(prepared(password))


def is_password(password: str, hashed: str, *, source: str) -> bool:
    """Whether what is kept is of this password. `source`: the address that asks. Raises `Throttled`."""
    with line.turn(source):
        return any(hashers.check_password(form, hashed) for form in _forms(password))


def check_nothing(password: str, *, source: str) -> None:
    """The work of checking a wrong password, for an address that no person has. Raises `Throttled`."""
    with line.turn(source):
        for form in _forms(password):
            hashers.make_password(form)


def _forms(password: str) -> dict[str, None]:
    """As it is hashed, and as it was typed: so was it hashed before 0.2."""
    return dict.fromkeys((prepared(password), password))


def no_password() -> str:
    """What is kept of a person without a password: none is theirs."""
    return hashers.make_password(None)
