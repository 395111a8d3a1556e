"""Brokers and controllers of one budget on a virtual clock, with a network that loses messages."""

import random
from dataclasses import dataclass, field, replace

from data_plane.leases.budget_books import BudgetBooks
from data_plane.leases.budget_holder import BudgetHolder, Verdict
from data_plane.leases.budget_terms import BudgetAnswer, BudgetRequest
from data_plane.metadata.budget_use import BudgetKey, BudgetUse
from penstock.contract.ids import BrokerId, TenantId
from penstock.rules.budgets import MONTH, PARTS, REFUSE_PRODUCE, Budget, period_at
from penstock.rules.timestamps import day_start_ms, moment_of

KEY = BudgetKey(TenantId("acme"), "b1")
BEGINS_MS = day_start_ms(moment_of(1_793_836_800_000).date().replace(day=1))
ENDS_MS = period_at(MONTH, BEGINS_MS)[1]


def messages(amount: int, policy: str = REFUSE_PRODUCE) -> Budget:
    """A budget of so many messages a month."""
    return Budget(
        budget_id="b1",
        name="prod",
        period=MONTH,
        amount=amount,
        unit="messages",
        policy=policy,
        slow_bytes_per_s=1_000 if policy == "slow" else 0,
        message_in=PARTS,
    )


@dataclass(slots=True)
class Broker:
    """A process of a broker: gone with a restart, but for what it used."""

    holder: BudgetHolder
    registration: int
    sees: BudgetUse | None
    """The record, as its image has it: behind what is stored."""
    ahead_ms: int = 0
    """Its wall clock."""
    is_blind: bool = False
    """Its image gets nothing new."""


@dataclass
class Cluster:
    budget: Budget
    brokers_count: int
    seed: int
    lost: float = 0.0
    """The part of requests and of answers that are lost."""
    now_ms: float = 0.0
    record: BudgetUse | None = None
    used: int = 0
    """By all brokers, in this period: what they let through."""
    brokers: dict[BrokerId, Broker] = field(default_factory=dict)
    verdicts: dict[Verdict, int] = field(default_factory=dict)
    books: BudgetBooks | None = None
    away: bool = False
    """No controller answers."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self._term = 0
        self._registrations = 0
        for number in range(1, self.brokers_count + 1):
            self.restart(BrokerId(number))
        self.fail_over()

    @property
    def wall_ms(self) -> int:
        return BEGINS_MS + int(self.now_ms)

    def wall_of(self, number: BrokerId) -> int:
        return self.wall_ms + self.brokers[number].ahead_ms

    def idle(self, ms: int) -> None:
        """Nothing is produced for so long."""
        for _ in range(ms // 1_000):
            self.step(1_000)

    @property
    def floors(self) -> int:
        """What all brokers may use without a grant, once."""
        return -(-self.budget.amount // 200) + self.brokers_count

    def kill(self, number: BrokerId) -> int:
        """The broker's process ends, and it is fenced. Messages that it held and had not used."""
        return self.brokers.pop(number).holder.unused().get(KEY, 0)

    def restart(self, number: BrokerId) -> None:
        """The broker's process ends if it runs, and comes back: what it held and had not said is gone."""
        self._registrations += 1
        broker: Broker
        holder = BudgetHolder(
            number,
            budget=lambda key: self.budget,
            stored=lambda key: self.brokers[number].sees,
            brokers=lambda: len(self.brokers),
        )
        holder.register(self._registrations)
        broker = Broker(holder, self._registrations, self.record)
        self.brokers[number] = broker

    def fail_over(self) -> None:
        """Another controller: it knows what is stored."""
        self._term += 1
        self.books = BudgetBooks(self._term, budget=lambda key: self.budget, stored=lambda key: self.record)

    def produce(self, number: BrokerId, count: int, size: int = 1) -> int:
        """Messages that the broker lets in, of so many batches of `size` that come one by one."""
        let_in = 0
        broker = self.brokers[number]
        for _ in range(count):
            verdict = broker.holder.verdict(KEY, self.budget, size * PARTS, self.now_ms, self.wall_of(number))
            self.verdicts[verdict] = self.verdicts.get(verdict, 0) + 1
            if verdict is not Verdict.OPEN:
                break
            broker.holder.use(KEY, size * PARTS, self.now_ms)
            let_in += size
        self.used += let_in
        return let_in

    def exchange(self, number: BrokerId) -> None:
        """The broker asks if it has to, and is answered, unless something is lost."""
        broker = self.brokers[number]
        request = broker.holder.request(1, self.now_ms)
        if request is None or self.away or self._loses():
            return
        answer = self._answer(request)
        if answer is not None and not self._loses():
            broker.holder.answered(request, answer, self.wall_of(number))
        if self.rng.random() < 0.9 and not broker.is_blind:
            broker.sees = self.record

    def lose_answer(self, number: BrokerId) -> None:
        """The broker asks if it has to, and does not hear the answer."""
        request = self.brokers[number].holder.request(1, self.now_ms)
        if request is not None:
            self._answer(request)

    def step(self, ms: float) -> None:
        """Time passes, and everyone exchanges."""
        self.now_ms += ms
        for number in self.brokers:
            self.exchange(number)

    def _answer(self, request: BudgetRequest) -> BudgetAnswer | None:
        assert self.books is not None
        registered = {number: broker.registration for number, broker in self.brokers.items()}
        decided = self.books.asked(request, registered, self.now_ms, self.wall_ms)
        assert decided is not None
        answer, changes = decided
        if self.lost and self.rng.random() < self.lost / 4:
            # The store did not take it, or its answer was lost: these books are dropped.
            if self.rng.random() < 0.5 and KEY in changes:
                self._store(changes[KEY])
            self.fail_over()
            return None
        if KEY in changes:
            self._store(changes[KEY])
        return answer

    def _store(self, use: BudgetUse) -> None:
        self.record = use

    def _loses(self) -> bool:
        return self.rng.random() < self.lost

    def raise_to(self, amount: int) -> None:
        self.budget = replace(self.budget, amount=amount)
