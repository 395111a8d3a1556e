"""What the streams of a key hear of its tenant's budgets: refusals that say all, of the right messages alone."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from data_plane.leases.budget_holder import BudgetHolder
from data_plane.metadata import model
from data_plane.metadata.budget_use import BudgetKey, BudgetUse, BudgetUseRecord, budget_use_key
from data_plane.node.leasing.key_budgets import KeyBudgets
from penstock.contract.errors import LimitExceeded, Throttled
from penstock.contract.ids import BrokerId
from penstock.rules.budgets import PARTS, Budget, period_at
from tests.unit.controller.setup import ACME, Store

NOW_MS = 1_793_836_800_000
BUDGET = Budget(
    budget_id="bud_1",
    name="prod",
    period="month",
    amount=10_000,
    unit="bytes",
    policy="refuse_produce",
    byte_in=PARTS,
)


class World:
    def __init__(self, *budgets: Budget) -> None:
        self.store = Store()
        self.give(*budgets)
        self.woken = 0
        image = self.store.image
        holder = BudgetHolder(
            BrokerId(1), budget=image.budget, stored=image.budget_use_of, brokers=lambda: len(image.brokers)
        )
        clock = SimpleNamespace(monotonic_ms=lambda: 0.0, now_ms=lambda: NOW_MS)
        self.budgets = KeyBudgets(image, holder, self._wake, cast(Any, clock), ACME, "k")

    def _wake(self) -> None:
        self.woken += 1

    def give(self, *budgets: Budget) -> None:
        self.store.put(model.tenant_key(ACME), model.TenantRecord(tenant=ACME, budgets=budgets).encode())

    def spent(self, budget: Budget, granted: int, unused: int = 0) -> None:
        began_ms, ends_ms = period_at(budget.period, NOW_MS)
        use = BudgetUse(began_ms=began_ms, ends_ms=ends_ms, granted=granted, unused=unused)
        self.store.put(budget_use_key(ACME), BudgetUseRecord(uses={budget.budget_id: use}).encode())


def test_a_spent_budget_says_which_how_much_when_it_clears_and_who_raises_it() -> None:
    world = World(BUDGET)
    world.spent(BUDGET, 10_000)
    refusal = world.budgets.refusal("orders", 1, 100)
    assert isinstance(refusal, LimitExceeded) and refusal.limit == "budget"
    assert refusal.message == (
        "budget 'prod': 10000 of 10000 bytes are used this month; clears at 2026-12-01T00:00:00Z, or once"
        " a person of the tenant who is owner, admin or billing raises it"
    )
    world.give(replace(BUDGET, amount=5_000))
    lowered = world.budgets.refusal("orders", 1, 10)
    assert lowered is not None and "10000 of 5000 bytes are used this month" in lowered.message
    world.give(replace(BUDGET, amount=20_000))
    assert world.budgets.refusal("orders", 1, 10) is None, "a higher amount counts at once"


def test_a_batch_that_is_more_than_what_is_left_says_so() -> None:
    world = World(BUDGET)
    world.spent(BUDGET, 9_000)
    refusal = world.budgets.refusal("orders", 1, 1_001)
    assert isinstance(refusal, LimitExceeded)
    assert "9000 of 10000 bytes are used this month, and this batch takes 1001; clears at" in refusal.message
    assert world.budgets.read_refusal("orders") is None


def test_what_brokers_hold_unused_counts_and_is_said_so_that_the_numbers_are_those_of_the_refusal() -> None:
    world = World(BUDGET)
    world.spent(BUDGET, 10_000, unused=1_000)
    refusal = world.budgets.refusal("orders", 1, 500)
    assert isinstance(refusal, LimitExceeded)
    assert (
        "10000 of 10000 bytes are used this month, 1000 of them by brokers that have not said so yet or may give them"
        " back; clears at 2026-12-01T00:00:00Z, within seconds if they are given back, or once"
    ) in refusal.message


def test_before_an_answer_a_broker_lets_its_floor_in_and_then_asks_for_a_moment() -> None:
    world = World(BUDGET)
    let_in = 0
    while world.budgets.refusal("orders", 1, 1) is None:
        world.budgets.produced("orders", 1, 1)
        let_in += 1
    assert let_in == 10_000 // 200 // 3, "a third of the floor of all three brokers"
    refusal = world.budgets.refusal("orders", 1, 1)
    assert isinstance(refusal, Throttled) and refusal.limit == "budget" and world.woken
    assert "clears when the controller answers" in refusal.message


@pytest.mark.parametrize(
    ("scope", "topic", "counted"),
    [
        ({"topic": "orders"}, "orders", True),
        ({"topic": "orders"}, "clicks", False),
        ({"principal": "service_account:x"}, "orders", False),
        ({}, "orders", True),
    ],
)
def test_a_budget_stops_what_it_counts_alone(scope: dict[str, str], topic: str, counted: bool) -> None:
    budget = replace(BUDGET, **cast(Any, scope))
    world = World(budget)
    world.spent(budget, 10_000)
    refusal = world.budgets.refusal(topic, 1, 1)
    assert (refusal is not None) is counted
    if refusal is not None and scope:
        assert "of topic orders" in refusal.message


def test_only_a_budget_that_refuses_reads_stops_readers() -> None:
    for policy, stops in (("refuse", True), ("refuse_produce", False), ("slow", False), ("notify", False)):
        budget = replace(BUDGET, policy=policy, slow_bytes_per_s=1 if policy == "slow" else 0)
        world = World(budget)
        assert world.budgets.read_refusal("orders") is None
        world.spent(budget, 10_000)
        assert (world.budgets.read_refusal("orders") is not None) is stops, policy


def test_a_refusal_of_a_slowed_topic_names_the_budget_its_use_and_when_it_clears() -> None:
    slow = replace(BUDGET, policy="slow", slow_bytes_per_s=1, topic="orders")
    world = World(slow)
    assert world.budgets.slows_topics and not World(BUDGET).budgets.slows_topics
    assert world.budgets.slowing("produce_bytes_per_s", "", "orders") == ""
    world.spent(slow, 10_000)
    said = world.budgets.slowing("produce_bytes_per_s", "", "orders")
    assert (
        "; slowed down by budget 'prod' of topic orders: 10000 of 10000 bytes are used this month; clears"
        in said
    )
    assert not world.budgets.slowing("produce_bytes_per_s", "", "") + world.budgets.slowing(
        "requests_per_s", "", "orders"
    )


def test_what_counts_nothing_of_a_delivery_leaves_the_budget_alone() -> None:
    world = World(BUDGET, replace(BUDGET, budget_id="bud_2", byte_in=0, byte_out=PARTS))
    world.budgets.delivered("orders", 5, 50)
    wants = world.budgets._holder
    assert wants.is_active and list(wants.unused()) == [BudgetKey(ACME, "bud_2")]
