"""A broker's side of budgets: what it may use of each, what it used, and what it says to the controller.

    use below what it holds                         --> OPEN
    use above it, within the floor                  --> OPEN, and owed to the controller
    above the floor, while something is left        --> AWAITED: refused for a moment, an answer may bring more
    nothing is left in this period                  --> SPENT: refused until the next period, or a higher amount

The floor is what a broker may use before it has heard an answer: all brokers' floors together are one part in FLOOR of
the amount. It is all that is not granted first, so it bounds the overshoot; and what a broker that is killed had not
said yet is at most its floor. Without the controller a broker goes on with what it holds and its floor, and then
refuses. Budgets that refuse nothing are counted and owed, without grants.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from data_plane.leases.budget_terms import ENTRIES_MAX, BudgetAnswer, BudgetRequest, Want
from data_plane.metadata.budget_use import BudgetKey, BudgetUse
from penstock.contract.ids import BrokerId
from penstock.rules.budgets import PARTS, Budget

FLOOR = 200
HOLD_MS = 5_000
"""So much of its traffic a broker wants to hold: longer than a change of the controller takes."""
FEWEST = 2_000
"""It wants one part in so many of the amount at least."""
REPORT_MS = 1_000
"""Between reports of what is used, and between questions whether there is more."""
IDLE_MS = 2_000
"""What was not used for so long is given back."""
FORGET_MS = 60_000
_SMOOTHING = 0.3


class Verdict(Enum):
    OPEN = "open"
    AWAITED = "awaited"
    SPENT = "spent"


@dataclass(slots=True)
class _Held:
    """Of one budget. Parts unless it says units."""

    term: int = 0
    began_ms: int = 0
    hold: int = 0
    debt: int = 0
    """Used without a grant, and not in `owed` yet."""
    received: int = 0
    """Units, as the three below."""
    returned: int = 0
    owed: int = 0
    returned_known: int = 0
    owed_known: int = 0
    """What of `returned` and `owed` the books are known to have."""
    need: int = 0
    used: int = 0
    """Since the rate was measured last."""
    used_ms: float = float("-inf")
    measured_ms: float = 0.0
    per_s: float = 0.0
    said_ms: float = float("-inf")
    answered_ms: float = float("-inf")
    asks: bool = False
    """Something was refused, or used, since it was said last."""

    @property
    def unknown_debt(self) -> int:
        """What the books may not know of."""
        return self.debt + (self.owed - self.owed_known) * PARTS


class BudgetHolder:
    """All budgets that one broker uses. Requests are made one at a time, and each is answered or lost."""

    def __init__(
        self,
        holder: BrokerId,
        *,
        budget: Callable[[BudgetKey], Budget | None],
        stored: Callable[[BudgetKey], BudgetUse | None],
        brokers: Callable[[], int],
    ) -> None:
        """`budget` and `stored` by the broker's own image. `brokers`: how many are registered."""
        self._holder = holder
        self._budget, self._stored, self._brokers = budget, stored, brokers
        self._held: dict[BudgetKey, _Held] = {}
        self._registration = self._sequence = 0
        self.hurried = False
        """Something waits for an answer."""

    @property
    def is_active(self) -> bool:
        """Whether something may have to be said."""
        return bool(self._held)

    def register(self, registration: int) -> None:
        """This broker's registration (0 = there is none). Under another one the books know nothing of it."""
        if registration != self._registration:
            self._registration = registration
            for held in self._held.values():
                _begin_term(held, 0)

    # -- use ---------------------------------------------------------------------------------------------

    def verdict(self, key: BudgetKey, budget: Budget, parts: int, now_ms: float, wall_ms: int) -> Verdict:
        """Whether so much may be used now. What is refused is asked for."""
        held = self._of(key, now_ms)
        if not budget.refuses or parts <= held.hold:
            return Verdict.OPEN
        left = self._left(key, budget, held, now_ms, wall_ms)
        held.need, held.asks, held.used_ms = max(held.need, parts), True, now_ms
        if left * PARTS + held.hold < parts:
            return Verdict.SPENT
        floor = budget.amount * PARTS // (FLOOR * max(1, self._brokers()))
        if held.unknown_debt + parts - held.hold <= floor:
            return Verdict.OPEN
        self.hurried = True
        return Verdict.AWAITED

    def is_spent(self, key: BudgetKey, budget: Budget, now_ms: float, wall_ms: int) -> bool:
        """Whether nothing is left, wherever in the cluster it went. Of any policy."""
        held = self._held.get(key)
        if held is not None and held.hold > 0:
            return False
        return self._left(key, budget, held or _Held(), now_ms, wall_ms) == 0

    def use(self, key: BudgetKey, parts: int, now_ms: float) -> None:
        """So much was used, whatever the verdict was."""
        held = self._of(key, now_ms)
        held.used += parts
        held.used_ms, held.asks = now_ms, True
        covered = min(parts, held.hold)
        held.hold -= covered
        held.debt += parts - covered

    def _of(self, key: BudgetKey, now_ms: float) -> _Held:
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = _Held(measured_ms=now_ms)
            self.hurried = True
        return held

    def _left(self, key: BudgetKey, budget: Budget, held: _Held, now_ms: float, wall_ms: int) -> int:
        """Units that the record leaves in the present period. Whether that has ended is the controller's to say: this
        broker's own clock counts only where it has not just heard."""
        use = self._stored(key)
        if use is None:
            return budget.amount
        answered = held.began_ms == use.began_ms and now_ms - held.answered_ms < 2 * REPORT_MS
        if wall_ms >= use.ends_ms and not answered:
            return budget.amount
        if use.began_ms < held.began_ms:
            return budget.amount  # the next period's record has not come here yet
        return max(0, budget.amount - use.granted)

    # -- requests ----------------------------------------------------------------------------------------

    def request(self, epoch: int, now_ms: float) -> BudgetRequest | None:
        """What to say now to the controller of that epoch, None = nothing. Forgets what is not used any more."""
        self.hurried = False
        if not epoch or not self._registration:
            return None
        wants: dict[BudgetKey, Want] = {}
        for key, held in list(self._held.items()):
            budget = self._budget(key)
            if budget is None:
                del self._held[key]
                continue
            idle_ms = now_ms - held.used_ms
            if idle_ms > FORGET_MS and held.hold < PARTS and held.unknown_debt < PARTS:
                del self._held[key]
                continue
            if len(wants) < ENTRIES_MAX and self._is_due(held, budget, now_ms):
                wants[key] = self._want(held, budget, now_ms)
        if not wants:
            return None
        self._sequence += 1
        # Those that were said wait behind those that had no place.
        for key in wants:
            self._held[key] = self._held.pop(key)
        return BudgetRequest(
            holder=self._holder,
            registration=self._registration,
            epoch=epoch,
            sequence=self._sequence,
            wants=wants,
        )

    def answered(self, request: BudgetRequest, answer: BudgetAnswer, now_ms: float) -> None:
        """The answer to that request."""
        if request.registration != self._registration:
            return
        for key, want in request.wants.items():
            held, granted = self._held.get(key), answer.granted.get(key)
            if held is None or granted is None or granted.began_ms == 0:
                continue
            if granted.began_ms != held.began_ms:
                if held.began_ms:
                    # What was used after the end and before this answer was of the period before.
                    held.hold = held.debt = held.owed = held.owed_known = 0
                held.began_ms = granted.began_ms
                _begin_term(held, answer.term)
            elif answer.term != held.term:
                _begin_term(held, answer.term)
            if granted.total > held.received:
                held.hold += (granted.total - held.received) * PARTS
                held.received = granted.total
            if want.term == answer.term and want.began_ms == granted.began_ms:
                held.owed_known = max(held.owed_known, want.owed)
                held.returned_known = max(held.returned_known, want.returned)
            held.answered_ms = now_ms

    def _is_due(self, held: _Held, budget: Budget, now_ms: float) -> bool:
        waited = now_ms - held.said_ms >= REPORT_MS
        if held.returned > held.returned_known or held.owed > held.owed_known:
            return waited or self.awaits(held)
        if now_ms - held.used_ms >= IDLE_MS and (held.hold >= PARTS or held.debt >= PARTS):
            return True
        if not held.asks:
            return False
        if not budget.refuses:
            return waited
        return waited or self.awaits(held) or held.hold * 2 < self._target(held, budget) * PARTS

    def awaits(self, held: _Held) -> bool:
        return held.need > held.hold

    def _target(self, held: _Held, budget: Budget) -> int:
        """Units that it wants to hold."""
        return max(
            -(-held.need // PARTS),
            int(held.per_s * HOLD_MS / 1000) // PARTS,
            budget.amount // FEWEST,
            1,
        )

    def _want(self, held: _Held, budget: Budget, now_ms: float) -> Want:
        passed_ms = now_ms - held.measured_ms
        if passed_ms > 0:
            held.per_s += (held.used * 1000 / passed_ms - held.per_s) * _SMOOTHING
            held.used, held.measured_ms = 0, now_ms
        wants = needs = 0
        if budget.refuses and now_ms - held.used_ms < IDLE_MS:
            wants, needs = self._target(held, budget), -(-held.need // PARTS)
        elif held.hold >= PARTS:
            held.returned += held.hold // PARTS
            held.hold %= PARTS
        held.owed += held.debt // PARTS
        held.debt %= PARTS
        held.need, held.asks, held.said_ms = 0, False, now_ms
        return Want(
            term=held.term,
            began_ms=held.began_ms,
            holds=held.hold // PARTS,
            wants=wants,
            needs=needs,
            received=held.received,
            returned=held.returned,
            owed=held.owed,
        )

    def held(self) -> Mapping[BudgetKey, int]:
        """Whole units that may be used without asking."""
        return {key: held.hold // PARTS for key, held in self._held.items()}


def _begin_term(held: _Held, term: int) -> None:
    """Other books: what the ones before may not have heard is owed to these; what was given back to them is gone."""
    held.debt += (held.owed - held.owed_known) * PARTS
    held.term = term
    held.received = held.returned = held.owed = held.returned_known = held.owed_known = 0
