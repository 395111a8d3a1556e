"""What the budgets of a tenant say to the streams of one of its keys."""

from collections.abc import Callable

from data_plane.leases.budget_holder import BudgetHolder, Verdict
from data_plane.metadata.budget_use import BudgetKey
from data_plane.metadata.image import ClusterImage
from data_plane.node.leasing.pacing import slows
from data_plane.node.ports import Clock
from penstock.contract.errors import LimitExceeded, PenstockError, Throttled
from penstock.contract.ids import TenantId
from penstock.rules.budgets import BUDGET, DAY, PARTS, REFUSE, SLOW, Budget, period_at
from penstock.rules.limit_words import PAYERS, limit_words
from penstock.rules.timestamps import moment_of

RETRY_MS = 100
"""After which a batch that waits for an answer is worth another try. An answer takes some milliseconds; a producer
of one message after the other would wait this long with each, use little, and so be given little at a time."""
ENDED_MS = 253_402_300_800_000
"""The calendar ends here."""


class KeyBudgets:
    """Of one key. A tenant without budgets costs one look."""

    def __init__(
        self,
        image: ClusterImage,
        holder: BudgetHolder,
        was_used: Callable[[], None],
        clock: Clock,
        tenant: TenantId,
        key_id: str,
    ) -> None:
        self._image = image
        self._holder = holder
        self._was_used = was_used
        self._clock = clock
        self._tenant = tenant
        self._key_id = key_id

    @property
    def any(self) -> bool:
        """Whether the tenant has a budget."""
        return bool(self._image.budgets_of(self._tenant))

    @property
    def slows_topics(self) -> bool:
        """Whether some budget may slow a topic of the tenant."""
        return any(budget.topic and budget.policy == SLOW for budget in self._image.budgets_of(self._tenant))

    def slowing(self, limit: str, principal: str, topic: str) -> str:
        """For a refusal by the limit of that name of that principal and topic: the budgets that have lowered it."""
        return "".join(
            f"; slowed down by {self._spent(budget)}"
            for budget in self._image.budgets_of(self._tenant)
            if slows(budget, limit)
            and (budget.principal, budget.topic) == (principal, topic)
            and self._is_spent(budget)
        )

    def refusal(self, topic: str, messages: int, size: int) -> PenstockError | None:
        """Why a batch may not be appended now; None: it may."""
        now_ms = self._clock.monotonic_ms()
        for budget in self._of(topic):
            if not budget.refuses:
                continue
            key = BudgetKey(self._tenant, budget.budget_id)
            wall_ms = self._clock.now_ms()
            parts = budget.produced(messages, size)
            verdict = self._holder.verdict(key, budget, parts, now_ms, wall_ms)
            if verdict is Verdict.OPEN:
                continue
            self._was_used()
            if verdict is Verdict.SPENT:
                return LimitExceeded(self._spent(budget, -(-parts // PARTS)), limit=BUDGET)
            return Throttled(
                f"budget {budget.name!r}: this broker waits for its next part of what is left of"
                f" {budget.amount} {budget.unit}; clears when the controller answers, usually within a second",
                limit=BUDGET,
                retry_after_ms=RETRY_MS,
            )
        return None

    def read_refusal(self, topic: str) -> PenstockError | None:
        """Why the topic may not be read now; None: it may."""
        for budget in self._of(topic):
            if budget.policy == REFUSE and self._is_spent(budget):
                return LimitExceeded(self._spent(budget), limit=BUDGET)
        return None

    def produced(self, topic: str, messages: int, size: int) -> None:
        """A batch was appended."""
        for budget in self._of(topic):
            self._use(budget, budget.produced(messages, size))

    def delivered(self, topic: str, messages: int, size: int) -> None:
        """A consumer has taken messages."""
        for budget in self._of(topic):
            self._use(budget, budget.delivered(messages, size))

    def _use(self, budget: Budget, parts: int) -> None:
        if parts:
            self._holder.use(BudgetKey(self._tenant, budget.budget_id), parts, self._clock.monotonic_ms())
            self._was_used()

    def _is_spent(self, budget: Budget) -> bool:
        key = BudgetKey(self._tenant, budget.budget_id)
        return self._holder.is_spent(key, budget, self._clock.monotonic_ms(), self._clock.now_ms())

    def _of(self, topic: str) -> list[Budget]:
        budgets = self._image.budgets_of(self._tenant)
        if not budgets:
            return []
        key = self._image.keys.get(self._key_id)
        owner = "" if key is None else key.owner
        return [budget for budget in budgets if budget.counts(topic, owner)]

    def _spent(self, budget: Budget, needs: int = 0) -> str:
        """`needs`: units of the batch that was refused. It may be more than is left of a budget that is not full."""
        use = self._image.budget_use_of(BudgetKey(self._tenant, budget.budget_id))
        # What brokers got counts as used: they use it, or give it back within seconds.
        got = budget.amount if use is None else use.granted
        ends_ms = period_at(budget.period, self._clock.now_ms())[1] if use is None else use.ends_ms
        ends_ms = min(ends_ms, ENDED_MS - 1)
        whose = "".join(
            f" of {what} {which}"
            for what, which in (("topic", budget.topic), ("principal", budget.principal))
            if which
        )
        spent = f"{got} of {budget.amount} {budget.unit} are used {'today' if budget.period == DAY else 'this month'}"
        at = f"at {moment_of(ends_ms):%Y-%m-%dT%H:%M:%SZ}"
        if use is not None and use.used < got:
            spent += f", {got - use.used} of them by brokers that have not said so yet or may give them back"
            at += ", within seconds if they are given back"
        if got < budget.amount and needs > 1:
            spent += f", and this batch takes {needs}"
        return limit_words(f"budget {budget.name!r}{whose}", spent, clears=at, raised_by=PAYERS)
