"""A broker's side of budgets: what it may use of each, what it used, and what it says to the controller.

    use below what it holds and may use             --> OPEN
    above it after a lowering, which others give up  --> AWAITED: what all give back may be granted once more
    use above it, within the floor                  --> OPEN, and owed to the controller
    above the floor, while something is left        --> AWAITED: refused for a moment, an answer may bring more
    nothing is left in this period                  --> SPENT: refused until the next period, or a higher amount

The floor is what a broker may use before it has heard an answer: all brokers' floors together are one part in FLOOR of
the amount. It is all that is not granted first, so it bounds the overshoot; and what a broker that is killed had not
said yet is at most its floor. Without the controller a broker goes on with what it holds and its floor, and then
refuses. Budgets that refuse nothing are counted and owed, without grants.

The amount may be lowered below what brokers have got. By how much the record is above the amount, no broker knows who
has used it: so each one keeps as much of what it holds unused from the moment it sees the lower amount, and gives it
back. All together use at most what the lower amount leaves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from data_plane.leases.budget_terms import ENTRIES_MAX, BudgetAnswer, BudgetRequest, Want, hold_max
from data_plane.metadata.budget_use import BudgetKey, BudgetUse
from penstock.contract.ids import BrokerId
from penstock.rules.budgets import PARTS, Budget, period_at

FLOOR = 200
HOLD_MS = 5_000
"""So much of its traffic a broker wants to hold: longer than a change of the controller takes. It is less where it is
more than a broker may hold of the amount (`hold_max`)."""
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
class _Own:
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
    said_first: int = 0
    """The part of `returned` that no request before the last one said."""
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
    answered_wall_ms: int = 0
    left: int = 0
    """Units that the last answer left of `amount`, which came with it."""
    amount: int = 0
    said_amount: int = 0
    """The budget's when something was said last."""
    heard: bool = False
    """The books are known to have heard this broker's totals."""
    asks: bool = False
    """Something was refused, or used, since it was said last."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is lost when this is forgotten: else the books would give again what was used."""
        known = self.returned == self.returned_known and (self.heard or not self.received)
        return known and self.hold < PARTS and self.unknown_debt < PARTS

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
        self._budget = budget
        self._stored = stored
        self._brokers = brokers
        self._own: dict[BudgetKey, _Own] = {}
        self._registration = self._sequence = 0
        self.hurried = False
        """Something waits for an answer."""

    @property
    def is_active(self) -> bool:
        """Whether something may have to be said."""
        return bool(self._own)

    def register(self, registration: int) -> None:
        """This broker's registration (0 = there is none). Under another one the books know nothing of it."""
        if registration != self._registration:
            self._registration = registration
            for own in self._own.values():
                _begin_term(own, 0)

    # -- use ---------------------------------------------------------------------------------------------

    def verdict(self, key: BudgetKey, budget: Budget, parts: int, now_ms: float, wall_ms: int) -> Verdict:
        """Whether so much may be used now. What is refused is asked for."""
        own = self._of(key, now_ms)
        excess, comes_back = self._lowered(key, budget, own)
        if not budget.refuses or parts <= own.hold - excess * PARTS:
            return Verdict.OPEN
        own.need, own.asks, own.used_ms = max(own.need, parts), True, now_ms
        if excess:
            self.hurried = True
            return Verdict.AWAITED if comes_back * PARTS >= parts else Verdict.SPENT
        began_ms, left = self._left(key, budget, own, wall_ms)
        if left * PARTS + own.hold < parts:
            return Verdict.SPENT
        answered = own.began_ms and began_ms == own.began_ms and budget.amount == own.amount
        if answered and own.left * PARTS + own.hold < parts:
            # The image is behind the answer, or others have given back since: the next answer says which.
            self.hurried = True
            return Verdict.AWAITED
        floor = budget.amount * PARTS // (FLOOR * max(1, self._brokers()))
        if own.unknown_debt + parts - own.hold <= floor:
            return Verdict.OPEN
        self.hurried = True
        return Verdict.AWAITED

    def is_spent(self, key: BudgetKey, budget: Budget, now_ms: float, wall_ms: int) -> bool:
        """Whether nothing is left in the whole cluster, or too little for what was refused. Of any policy."""
        own = self._own.get(key) or _Own()
        began_ms, left = self._left(key, budget, own, wall_ms)
        use = self._stored(key)
        if use is not None and use.began_ms == began_ms and use.short_of == budget.amount:
            return True
        excess, comes_back = self._lowered(key, budget, own)
        if excess:
            return not comes_back
        return left == 0 and own.hold < PARTS

    def use(self, key: BudgetKey, parts: int, now_ms: float) -> None:
        """So much was used, whatever the verdict was."""
        own = self._of(key, now_ms)
        own.used += parts
        own.used_ms, own.asks = now_ms, True
        covered = min(parts, own.hold)
        own.hold -= covered
        own.debt += parts - covered

    def _of(self, key: BudgetKey, now_ms: float) -> _Own:
        own = self._own.get(key)
        if own is None:
            own = self._own[key] = _Own(measured_ms=now_ms)
            self.hurried = True
        return own

    def _lowered(self, key: BudgetKey, budget: Budget, own: _Own) -> tuple[int, int]:
        """Units by which the record of the present period is above the amount, which was lowered, and units that are
        left of that amount once all brokers have given back what they hold above it."""
        use = self._stored(key)
        if use is None or use.began_ms != own.began_ms:
            return 0, 0
        return max(0, use.granted - budget.amount), max(0, budget.amount - use.used)

    def _left(self, key: BudgetKey, budget: Budget, own: _Own, wall_ms: int) -> tuple[int, int]:
        """The present period, 0 = one that this broker has not heard of, and units that the record leaves in it.

        Whether a period has ended is the controller's to say: this broker's own clock counts only until it has heard
        an answer at a later time of that clock.
        """
        use = self._stored(key)
        if use is None or use.began_ms < own.began_ms:
            # The record has not come here yet.
            used = budget.used_before and budget.used_before_in(period_at(budget.period, wall_ms)[0])
            return own.began_ms, max(0, budget.amount - used)
        if wall_ms >= use.ends_ms and (use.began_ms != own.began_ms or own.answered_wall_ms < use.ends_ms):
            return 0, budget.amount
        return use.began_ms, max(0, budget.amount - use.granted)

    # -- requests ----------------------------------------------------------------------------------------

    def request(self, epoch: int, now_ms: float) -> BudgetRequest | None:
        """What to say now to the controller of that epoch, None = nothing. Forgets what is not used any more."""
        self.hurried = False
        if not epoch or not self._registration:
            return None
        wants: dict[BudgetKey, Want] = {}
        for key, own in list(self._own.items()):
            budget = self._budget(key)
            if budget is None:
                del self._own[key]
                continue
            if now_ms - own.used_ms > FORGET_MS and own.is_settled:
                del self._own[key]
                continue
            if len(wants) < ENTRIES_MAX and self._is_due(key, own, budget, now_ms):
                wants[key] = self._want(key, own, budget, now_ms)
        if not wants:
            return None
        self._sequence += 1
        # Those that were said wait behind those that had no place.
        for key in wants:
            self._own[key] = self._own.pop(key)
        return BudgetRequest(
            holder=self._holder,
            registration=self._registration,
            epoch=epoch,
            sequence=self._sequence,
            wants=wants,
        )

    def answered(self, request: BudgetRequest, answer: BudgetAnswer, wall_ms: int) -> None:
        """The answer to that request."""
        if request.registration != self._registration:
            return
        for key, want in request.wants.items():
            own, granted = self._own.get(key), answer.granted.get(key)
            if own is None or granted is None or granted.began_ms == 0:
                continue
            if granted.began_ms != own.began_ms:
                if own.began_ms:
                    # What was used after the end and before this answer was of the period before.
                    own.hold = own.debt = own.owed = own.owed_known = 0
                own.began_ms = granted.began_ms
                _begin_term(own, answer.term)
            elif answer.term != own.term:
                # These books heard it as of the ones before, and took nothing back: it is given back to them next.
                own.hold += own.said_first * PARTS
                _begin_term(own, answer.term)
            if granted.total > own.received:
                own.hold += (granted.total - own.received) * PARTS
                own.received = granted.total
            if want.term == answer.term and want.began_ms == granted.began_ms:
                own.owed_known = max(own.owed_known, want.owed)
                own.returned_known = max(own.returned_known, want.returned)
                own.heard = True
            own.answered_wall_ms = wall_ms
            budget = self._budget(key)
            own.left, own.amount = granted.left, 0 if budget is None else budget.amount

    def _is_due(self, key: BudgetKey, own: _Own, budget: Budget, now_ms: float) -> bool:
        waited = now_ms - own.said_ms >= REPORT_MS
        if own.returned > own.returned_known or own.owed > own.owed_known:
            return waited or self.awaits(own)
        if self._surplus(key, own, budget):
            return True
        if now_ms - own.used_ms >= IDLE_MS and (own.hold >= PARTS or own.debt >= PARTS):
            return True
        if not own.asks:
            return False
        if not budget.refuses:
            return waited
        return waited or self.awaits(own) or own.hold * 2 < self._target(own, budget) * PARTS

    def awaits(self, own: _Own) -> bool:
        return own.need > own.hold

    def _target(self, own: _Own, budget: Budget) -> int:
        """Units that it wants to hold."""
        traffic = max(int(own.per_s * HOLD_MS / 1000) // PARTS, budget.amount // FEWEST)
        return max(-(-own.need // PARTS), min(traffic, hold_max(budget.amount, self._brokers())), 1)

    def _surplus(self, key: BudgetKey, own: _Own, budget: Budget) -> int:
        """Units of what it holds that a lower amount leaves it no more."""
        hold = own.hold // PARTS
        surplus, _ = self._lowered(key, budget, own)
        if budget.amount < own.said_amount:
            surplus = max(surplus, hold - hold_max(budget.amount, self._brokers()))
        return min(hold, surplus)

    def _want(self, key: BudgetKey, own: _Own, budget: Budget, now_ms: float) -> Want:
        passed_ms = now_ms - own.measured_ms
        if passed_ms > 0:
            own.per_s += (own.used * 1000 / passed_ms - own.per_s) * _SMOOTHING
            own.used, own.measured_ms = 0, now_ms
        wants = needs = 0
        if budget.refuses and now_ms - own.used_ms < IDLE_MS:
            wants, needs = self._target(own, budget), -(-own.need // PARTS)
            gives_back = self._surplus(key, own, budget)
        else:
            gives_back = own.hold // PARTS
        own.returned += gives_back
        own.said_first = gives_back
        own.hold -= gives_back * PARTS
        own.said_amount = budget.amount
        own.owed += own.debt // PARTS
        own.debt %= PARTS
        own.need, own.asks, own.said_ms = 0, False, now_ms
        return Want(
            term=own.term,
            began_ms=own.began_ms,
            holds=own.hold // PARTS,
            wants=wants,
            needs=needs,
            received=own.received,
            returned=own.returned,
            owed=own.owed,
        )

    def unused(self) -> Mapping[BudgetKey, int]:
        """Whole units that may be used without asking."""
        return {key: own.hold // PARTS for key, own in self._own.items()}


def _begin_term(own: _Own, term: int) -> None:
    """Other books: what the ones before may not have heard is owed to these; what was given back to them is gone."""
    own.debt += (own.owed - own.owed_known) * PARTS
    own.term, own.heard = term, False
    own.received = own.returned = own.owed = own.said_first = own.returned_known = own.owed_known = 0
