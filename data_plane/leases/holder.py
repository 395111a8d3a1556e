"""A broker's leases: what it may use of each limit, and what it says to the coordinator.

    NONE --an answer grants an amount--> HELD --its time ends--> ENDED --lapse_ms later--> LAPSED
    HELD, ENDED, LAPSED --an answer--> HELD          --it is given up--> NONE
    ENDED, LAPSED --another coordinator--> NONE      HELD stays HELD, and ends in NONE

In HELD the broker may use its lease. In NONE and ENDED it may use its floor, a small part of the limit that each broker
has without asking. In LAPSED, while it cannot reach the coordinator that granted its lease, it may use its safe share,
which the coordinator keeps for it: together the safe shares of all brokers are the limit.

A request says all, as long as that is `wishes_max` limits at most. Beyond that requests go round: each has the next
part of the limits, first those that are not leased, and none comes twice before each has come.
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
        self._holder = holder
        self.terms = terms
        self._epoch = self._registration = 0
        self._sequence = self._answered = 0
        self._leases: dict[LimitKey, _Lease] = {}
        self._owes = False
        """Whether the coordinator has to hear of this holder even if it holds and wants nothing."""
        self._sent: tuple[int, float] | None = None
        """Sequence and time of the request that may be answered."""
        self._heard_ms = float("-inf")
        """When the last request was sent that this coordinator answered."""
        self._said: dict[LimitKey, None] = {}
        """Limits of which the coordinator may have an entry."""
        self._round: dict[LimitKey, None] = {}
        """Limits that had their turn in this round of requests; empty while requests say all."""
        self._round_failed = False

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
        self._epoch = epoch
        self._registration = registration
        self._answered = 0
        self._sent = None
        self._owes = True
        self._heard_ms = float("-inf")
        self._round_failed = False
        self._said.clear()
        self._round.clear()
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
        # The coordinator keeps the safe share once it hears nothing at all from this holder.
        lapses_ms = max(lease.until_ms, self._heard_ms + self.terms.lease_ms) + self.terms.lapse_ms
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
        self._round_failed = self._round_failed or self._sent is not None
        for key in [key for key in self._leases if not wants.get(key)]:
            del self._leases[key]
            self._owes = True
        asked = [key for key, wanted in wants.items() if wanted > 0]
        partial = len(asked) > self.terms.wishes_max
        whole = True
        if partial:
            asked, whole = self._next_part([*asked, *(key for key in self._said if wants.get(key, 0) <= 0)])
        else:
            self._round.clear()
        wishes = {key: self._wish(key, wants.get(key, 0), now_ms) for key in asked}
        if not wishes and not self._owes:
            return None
        self._said |= dict.fromkeys(wishes)
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
            partial=partial,
            whole=whole,
        )

    def _wish(self, key: LimitKey, wanted: int, now_ms: float) -> Wish:
        lease = self._leases.get(key)
        holds = 0
        if lease is not None and now_ms < lease.until_ms:
            holds = lease.amount = min(lease.amount, wanted)
        return Wish(holds=holds, wants=max(0, wanted))

    def _next_part(self, keys: list[LimitKey]) -> tuple[list[LimitKey], bool]:
        """(the next part of them, whether all of this round have been answered, but for it)."""
        left = [key for key in keys if key not in self._round]
        if not left:
            self._round.clear()
            self._round_failed, left = False, keys
        left.sort(key=lambda key: key in self._leases)
        part = left[: self.terms.wishes_max]
        self._round |= dict.fromkeys(part)
        return part, len(part) == len(left) and not self._round_failed

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
        self._heard_ms = sent_ms
        if not request.partial:
            self._said = dict.fromkeys(request.wishes)
        for key, wish in request.wishes.items():
            if not wish.wants:
                self._said.pop(key, None)
                continue
            self._leases[key] = _Lease(grants.get(key, 0), sent_ms + self.terms.lease_ms, may_lapse=True)
        self._owes = bool(self._said)
        return True

    def unanswered(self, request: Request) -> None:
        """No answer came in time, or a refusal: an answer that still comes counts for nothing."""
        if self._sent is not None and self._sent[0] == request.sequence:
            self._sent = None
            self._round_failed = True
