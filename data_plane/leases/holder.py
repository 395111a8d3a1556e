"""A broker's leases: what it may use of each limit, and what it says to the coordinator.

    NONE --an answer grants an amount--> HELD --its time ends--> ENDED --lapse_ms later--> LAPSED
    HELD, ENDED, LAPSED --an answer--> HELD          --it is given up--> NONE
    ENDED, LAPSED --another coordinator--> NONE      HELD stays HELD, and ends in NONE

In HELD the broker may use its lease. In NONE and ENDED it may use its floor, a small part of the limit that each broker
has without asking. In LAPSED, while it cannot reach the coordinator that granted its lease, it may use its safe share,
which the coordinator keeps for it: together the safe shares of all brokers are the limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from data_plane.leases.terms import LimitKey, Request, Share, Terms, Wish
from penstock.contract.ids import BrokerId

_NEVER = float("inf")


@dataclass(slots=True)
class _Lease:
    amount: int
    until_ms: float
    may_lapse: bool
    """It is of the present coordinator, which keeps the safe share for this holder when it lapses."""


class LeaseHolder:
    """All leases of one broker. A request is sent as soon as it is made, one at a time."""

    def __init__(self, holder: BrokerId, terms: Terms) -> None:
        self._holder, self.terms = holder, terms
        self._epoch = self._registration = 0
        self._sequence = self._answered = 0
        self._leases: dict[LimitKey, _Lease] = {}
        self._owes = False
        """Whether the coordinator has to hear of this holder even if it holds and wants nothing."""
        self._sent: tuple[int, float] | None = None
        """Sequence and time of the request that may be answered."""

    @property
    def owes(self) -> bool:
        """Whether the coordinator has to hear of this holder, even if it wants nothing."""
        return self._owes and self._epoch != 0 and self._registration != 0

    @property
    def keys(self) -> list[LimitKey]:
        """Of all leases, ended ones as well."""
        return list(self._leases)

    def follow(self, epoch: int, registration: int) -> bool:
        """The coordinator and this broker's own registration (0 = there is none) as the metadata show them now. True
        if one of them is new: the coordinator then has to hear what is leased."""
        if registration != self._registration:
            self._leases.clear()
        elif epoch == self._epoch:
            return False
        self._epoch, self._registration = epoch, registration
        self._answered, self._sent, self._owes = 0, None, True
        for lease in self._leases.values():
            lease.may_lapse = False
        return True

    def share(self, key: LimitKey, *, floor: int, safe: int, now_ms: float) -> Share:
        """What may be used now of a limit."""
        lease = self._leases.get(key)
        if lease is None:
            return Share(floor, _NEVER)
        if now_ms < lease.until_ms:
            return Share(max(floor, lease.amount), lease.until_ms)
        if not lease.may_lapse:
            return Share(floor, _NEVER)
        lapses_ms = lease.until_ms + self.terms.lapse_ms
        if now_ms < lapses_ms:
            return Share(floor, lapses_ms)
        return Share(max(floor, safe), _NEVER)

    def is_awaited(self, key: LimitKey, now_ms: float) -> bool:
        """Whether there is no lease that holds: an answer may bring one."""
        lease = self._leases.get(key)
        return lease is None or now_ms >= lease.until_ms

    def request(self, wants: Mapping[LimitKey, int], now_ms: float) -> Request | None:
        """What to send now, None = nothing. `wants`: what could be used of each limit, 0 or absent = give it up. The
        share of what is wanted less is smaller from this moment on."""
        if not self._epoch or not self._registration:
            return None
        wishes: dict[LimitKey, Wish] = {}
        for key in [key for key in self._leases if not wants.get(key)]:
            del self._leases[key]
            self._owes = True
        for key, wanted in wants.items():
            if wanted <= 0:
                continue
            lease = self._leases.get(key)
            holds = 0
            if lease is not None and now_ms < lease.until_ms:
                holds = lease.amount = min(lease.amount, wanted)
            wishes[key] = Wish(holds=holds, wants=wanted)
        if not wishes and not self._owes:
            return None
        self._owes = True
        self._sequence += 1
        self._sent = (self._sequence, now_ms)
        return Request(
            holder=self._holder,
            registration=self._registration,
            epoch=self._epoch,
            sequence=self._sequence,
            answered=self._answered,
            wishes=wishes,
        )

    def answered(self, request: Request, grants: Mapping[LimitKey, int], now_ms: float) -> bool:
        """The coordinator's answer. False if it comes too late or is of another coordinator: it then counts for
        nothing."""
        if self._sent is None or self._sent[0] != request.sequence:
            return False
        sent_ms = self._sent[1]
        if now_ms - sent_ms > self.terms.answer_ms:
            return False
        self._sent = None
        self._answered = request.sequence
        self._owes = bool(request.wishes)
        for key in request.wishes:
            self._leases[key] = _Lease(grants.get(key, 0), sent_ms + self.terms.lease_ms, may_lapse=True)
        return True

    def unanswered(self, request: Request) -> None:
        """No answer came in time, or a refusal: an answer that still comes counts for nothing."""
        if self._sent is not None and self._sent[0] == request.sequence:
            self._sent = None
