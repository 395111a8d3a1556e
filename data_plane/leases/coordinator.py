"""The coordinator of leases: one broker at a time divides each limit among the brokers that ask.

What it promises: all that brokers may hold under its leases and those before it, and the safe shares of brokers that
it cannot hear, is never more than the limit. It does not depend on a message to arrive, or to arrive in time.

    LEARNING --every registered broker has reported what it holds, or learn_ms have passed--> COMPLETE

While it learns it knows only part of what its predecessor granted. It then renews what holders report, and grants
no one more. It answers alone: it sends nothing by itself, keeps no timer, and forgets everything with its seat.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from data_plane.leases.division import divide
from data_plane.leases.terms import LimitKey, Request, Terms
from penstock.contract.ids import BrokerId


@dataclass(slots=True)
class _Entry:
    """Of one holder and limit."""

    reserved: int
    """The most that the holder may use until its lease ends, whether or not the last answer reached it."""
    wants: int


@dataclass(slots=True)
class _Account:
    """Of one holder under one registration."""

    registration: int
    sequence: int
    heard_ms: float
    """When its last request was answered."""
    confirmed_ms: float
    """When the last request was answered whose answer is known to have arrived; the first one counts as that."""
    whole: bool = False
    """Whether all that the holder holds was reported."""
    entries: dict[LimitKey, _Entry] = field(default_factory=dict)


class LeaseCoordinator:
    """The books of one term of office."""

    def __init__(
        self,
        terms: Terms,
        epoch: int,
        began_ms: float,
        *,
        limit: Callable[[LimitKey], int],
        safe_share: Callable[[BrokerId, LimitKey], int],
    ) -> None:
        """`limit`: 0 = there is none, and nothing is granted. `safe_share`: a broker's part of a limit while it cannot
        reach the coordinator."""
        self._terms = terms
        self.epoch = epoch
        self._began_ms = began_ms
        self._limit = limit
        self._safe_share = safe_share
        self._accounts: dict[BrokerId, _Account] = {}
        self._holders: dict[LimitKey, dict[BrokerId, None]] = {}
        """Who has an entry for a limit."""
        self._complete = False

    @property
    def limits_leased(self) -> int:
        """Limits of which some broker holds or wants something."""
        return len(self._holders)

    def asked(
        self, request: Request, registered: Mapping[BrokerId, int], now_ms: float
    ) -> dict[LimitKey, int] | None:
        """The amounts granted from now on, None: the request is not for this coordinator, late, or of a broker that is
        not registered so. `registered`: the epoch of each registered broker.

        A broker that is not registered any more is forgotten at once: what it still takes is never committed.
        """
        if request.epoch != self.epoch or registered.get(request.holder) != request.registration:
            return None
        for broker, account in list(self._accounts.items()):
            if registered.get(broker) != account.registration:
                self._close(broker)
        if not self._heard(request, now_ms):
            return None
        account = self._accounts[request.holder]
        account.whole = account.whole or request.whole
        if not self._complete:
            self._complete = now_ms - self._began_ms >= self._terms.learn_ms or all(
                broker in self._accounts and self._accounts[broker].whole for broker in registered
            )
        for key in [key for key in account.entries if _is_given_up(key, request)]:
            del account.entries[key]
            self._leave(request.holder, key)
        grants: dict[LimitKey, int] = {}
        for key, wish in request.wishes.items():
            if not wish.wants:
                grants[key] = 0
                continue
            entry = account.entries.get(key)
            if entry is None:
                entry = account.entries[key] = _Entry(wish.holds, wish.wants)
                self._holders.setdefault(key, {})[request.holder] = None
            entry.reserved, entry.wants = wish.holds, wish.wants
            granted = self._granted(request.holder, key, wish.holds, now_ms)
            entry.reserved = max(wish.holds, granted)
            grants[key] = granted
        return grants

    def reserved(self, key: LimitKey, now_ms: float) -> int:
        """All that brokers may hold of a limit now."""
        return sum(self._reserved(broker, key, now_ms) for broker in self._holders.get(key, ()))

    def _heard(self, request: Request, now_ms: float) -> bool:
        """False: a later request of this holder came before."""
        account = self._accounts.get(request.holder)
        if account is None:
            self._accounts[request.holder] = _Account(request.registration, request.sequence, now_ms, now_ms)
            return True
        if request.sequence <= account.sequence:
            return False
        if request.answered == account.sequence:
            account.confirmed_ms = account.heard_ms
        account.sequence, account.heard_ms = request.sequence, now_ms
        return True

    def _granted(self, holder: BrokerId, key: LimitKey, holds: int, now_ms: float) -> int:
        limit = self._limit(key)
        others = sum(self._reserved(broker, key, now_ms) for broker in self._holders[key] if broker != holder)
        available = max(0, limit - others)
        if not self._complete:
            return min(holds, available)
        brokers = sorted(self._holders[key])
        silent = [broker for broker in brokers if broker != holder and self._is_silent(broker, now_ms)]
        asking = [broker for broker in brokers if broker not in silent]
        kept = sum(self._reserved(broker, key, now_ms) for broker in silent)
        parts = divide(limit - kept, [self._accounts[broker].entries[key].wants for broker in asking])
        return min(parts[asking.index(holder)], available)

    def _is_silent(self, broker: BrokerId, now_ms: float) -> bool:
        """It does not renew its leases."""
        return now_ms - self._accounts[broker].heard_ms > self._lease_ms

    def _reserved(self, broker: BrokerId, key: LimitKey, now_ms: float) -> int:
        account = self._accounts[broker]
        leased = account.entries[key].reserved if now_ms - account.heard_ms <= self._lease_ms else 0
        if now_ms - account.confirmed_ms <= self._lease_ms:
            return leased
        return max(leased, self._safe_share(broker, key))

    @property
    def _lease_ms(self) -> int:
        return self._terms.lease_ms + self._terms.margin_ms

    def _close(self, broker: BrokerId) -> None:
        for key in self._accounts.pop(broker).entries:
            self._leave(broker, key)

    def _leave(self, broker: BrokerId, key: LimitKey) -> None:
        holders = self._holders[key]
        del holders[broker]
        if not holders:
            del self._holders[key]


def _is_given_up(key: LimitKey, request: Request) -> bool:
    wish = request.wishes.get(key)
    return not request.partial if wish is None else not wish.wants
