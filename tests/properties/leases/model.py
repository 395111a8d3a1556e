"""Brokers that hold leases of one limit, a coordinator that changes, and messages that are lost, late or repeated.

Each broker has a clock of its own that runs up to 2 % too fast or too slow, and learns late who the coordinator is. A
predecessor goes on granting until it notices. The truth is what all registered brokers may use together, and it is
looked at after every event.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from data_plane.leases.coordinator import LeaseCoordinator
from data_plane.leases.holder import LeaseHolder
from data_plane.leases.terms import LimitKey, Request, Terms
from penstock.contract.ids import BrokerId, TenantId

KEY = LimitKey(TenantId("tn_model"), "produce_bytes_per_s")
OTHERS = [LimitKey(TenantId(f"tn_{number}"), "produce_bytes_per_s") for number in range(8)]
TERMS = Terms()
LIMIT = 1_000_000
NOTICE_MS = TERMS.notice_ms
"""In which every broker knows of a new coordinator, or serves nothing: also its predecessor."""


@dataclass(slots=True, kw_only=True)
class Faults:
    """`loss`, `late`, `repeat`: of each message, from 0 to 1. A late one takes up to `late_ms`."""

    loss: float = 0.0
    late: float = 0.0
    repeat: float = 0.0
    late_ms: float = 20_000.0
    cuts: float = 0.0
    """Of each broker, in each second: it and the coordinator do not hear each other for up to 25 s."""
    changes: float = 0.0
    """Of the coordinator, in each second."""
    restarts: float = 0.0
    """Of each broker, in each second: it is registered newly."""


@dataclass(slots=True)
class Broker:
    number: BrokerId
    rate: float
    """Its milliseconds in one of true time."""
    holder: LeaseHolder
    registration: int
    wants: int = 0
    cut_until_ms: float = 0.0
    books: LeaseCoordinator | None = None
    """While it believes that it is the coordinator."""


class Violation(AssertionError):
    """More may be used than the limit and all floors."""


@dataclass
class Model:
    """`wishes(broker, now)`: what it could use. Runs on true time in ms."""

    seed: int
    brokers_count: int
    faults: Faults
    wishes: Callable[[int, float], int]
    terms: Terms = TERMS
    others: int = 0
    """Limits besides KEY that each broker wants all the time, and some of them now and then."""
    now_ms: float = 0.0
    brokers: list[Broker] = field(default_factory=list)
    most: int = 0
    """The most that could be used at once."""
    messages: int = 0

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._epoch = 0
        self._registrations = 100
        for number in range(1, self.brokers_count + 1):
            holder = LeaseHolder(BrokerId(number), self.terms)
            rate = 1 + self._dice.uniform(-0.01, 0.01)
            self.brokers.append(Broker(BrokerId(number), rate, holder, self._registrations + number))
        self._registrations += self.brokers_count + 1
        self._take_seat()
        for broker in self.brokers:
            self._after(self._dice.uniform(0, self.terms.renew_ms), partial(self._tick, broker))
        self._after(1_000.0, self._misfortunes)

    # -- what is true ------------------------------------------------------------------------------------

    @property
    def floor(self) -> int:
        return LIMIT // 25 // self.brokers_count

    @property
    def safe(self) -> int:
        return LIMIT // self.brokers_count

    def usable(self, broker: Broker) -> int:
        at = self._clock(broker)
        return broker.holder.share(KEY, floor=self.floor, safe=self.safe, now_ms=at).amount

    def check(self) -> None:
        together = sum(self.usable(broker) for broker in self.brokers)
        self.most = max(self.most, together)
        if together > LIMIT + self.brokers_count * self.floor:
            shares = {broker.number: self.usable(broker) for broker in self.brokers}
            raise Violation(f"seed {self.seed}, {self.now_ms:.0f} ms: {shares} are {together} of {LIMIT}")

    # -- time --------------------------------------------------------------------------------------------

    def run(self, until_ms: float) -> None:
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, act = heapq.heappop(self._events)
            act()
            self.check()
        self.now_ms = until_ms

    def _after(self, wait_ms: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now_ms + wait_ms, self._number, act))

    def _clock(self, broker: Broker) -> float:
        return self.now_ms * broker.rate

    # -- brokers -----------------------------------------------------------------------------------------

    def _tick(self, broker: Broker) -> None:
        wanted = self.wishes(broker.number, self.now_ms)
        wants = {
            key: 1 + self._dice.randrange(3) for key in OTHERS[: self.others] if self._dice.random() < 0.9
        }
        if wanted:
            wants[KEY] = wanted
        request = broker.holder.request(wants, self._clock(broker))
        if request is not None:
            self._send(broker, partial(self._arrives, broker, request))
        self._after(self.terms.renew_ms / broker.rate, lambda: self._tick(broker))

    def _send(self, broker: Broker, deliver: Callable[[], None]) -> None:
        self.messages += 1
        if self._dice.random() < self.faults.loss or broker.cut_until_ms > self.now_ms:
            return
        for _ in range(2 if self._dice.random() < self.faults.repeat else 1):
            late = self._dice.random() < self.faults.late
            self._after(self._dice.uniform(0.1, self.faults.late_ms if late else 5.0), deliver)

    def _arrives(self, broker: Broker, request: Request) -> None:
        """At whoever believes to be the coordinator of that epoch."""
        for seated in self.brokers:
            if seated.books is None or seated.books.epoch != request.epoch:
                continue
            registered = {each.number: each.registration for each in self.brokers}
            grants = seated.books.asked(request, registered, self._clock(seated))
            if grants is not None:
                holder = broker.holder
                self._send(broker, partial(self._answered, broker, holder, request, grants))

    def _answered(
        self, broker: Broker, holder: LeaseHolder, request: Request, grants: dict[LimitKey, int]
    ) -> None:
        if broker.holder is holder:
            holder.answered(request, grants, self._clock(broker))

    # -- misfortunes -------------------------------------------------------------------------------------

    def _take_seat(self) -> None:
        """Another broker is the coordinator. The one before notices within NOTICE_MS, as all others do."""
        self._epoch += 1
        epoch = self._epoch
        broker = self._dice.choice(self.brokers)
        for other in self.brokers:
            wait = 0.0 if other is broker else self._dice.choice((1.0, self._dice.uniform(0.0, NOTICE_MS)))
            self._after(wait, partial(self._learns, other, epoch))
        broker.books = LeaseCoordinator(
            self.terms,
            epoch,
            self._clock(broker),
            limit=lambda key: LIMIT,
            safe_share=lambda number, key: self.safe,
        )

    def _learns(self, broker: Broker, epoch: int) -> None:
        if broker.books is not None and broker.books.epoch < epoch:
            broker.books = None
        if epoch >= broker.holder._epoch:
            broker.holder.follow(epoch, broker.registration)

    def _restart(self, broker: Broker) -> None:
        self._registrations += 1
        broker.registration = self._registrations
        broker.holder = LeaseHolder(broker.number, self.terms)
        broker.books = None
        self._learns(broker, self._epoch)

    def _misfortunes(self) -> None:
        for broker in self.brokers:
            if self._dice.random() < self.faults.cuts:
                broker.cut_until_ms = self.now_ms + self._dice.uniform(500, 25_000)
            if self._dice.random() < self.faults.restarts:
                self._restart(broker)
        seated = any(
            broker.books is not None and broker.books.epoch == self._epoch for broker in self.brokers
        )
        if not seated or self._dice.random() < self.faults.changes:
            self._take_seat()
        self._after(1_000.0, self._misfortunes)
