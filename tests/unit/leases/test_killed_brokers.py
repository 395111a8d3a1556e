"""Brokers that are killed while they hold parts of a budget: how early the budget stops after that, small ones too."""

import pytest

from data_plane.leases.budget_terms import hold_max
from penstock.contract.ids import BrokerId
from tests.unit.leases.budget_cluster import KEY, Cluster, messages
from tests.unit.leases.test_budgets import run_dry

BROKERS = 3


def use_a_part(cluster: Cluster, share: float, per_step: int, size: int = 1) -> None:
    """All brokers at once, until so much of the amount is used. The last thing that happens are answers."""
    while cluster.used < share * cluster.budget.amount:
        for number in cluster.brokers:
            cluster.produce(number, per_step, size)
        cluster.step(50)


def fullest(cluster: Cluster) -> BrokerId:
    return max(cluster.brokers, key=lambda number: cluster.brokers[number].holder.unused().get(KEY, 0))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("amount", [1_000, 10_000, 200_000])
def test_one_of_three_brokers_that_is_killed_with_its_part_stops_a_budget_one_percent_early_at_most(
    amount: int, share: float
) -> None:
    """At a rate that would use all of it up within 17 s, and once the controller has just answered everyone."""
    cluster = Cluster(messages(amount), BROKERS, seed=amount)
    use_a_part(cluster, share, per_step=amount // 1_000)
    unused = cluster.kill(fullest(cluster))
    assert unused > 0
    run_dry(cluster, per_step=amount // 100)
    assert amount - amount // 100 <= cluster.used <= amount + cluster.floors, f"{unused} were held"


def test_a_broker_that_is_killed_with_a_part_for_a_large_batch_takes_that_batch_alone() -> None:
    """The batch may have been appended before the process died, so it counts, though it is a tenth of the amount."""
    cluster = Cluster(messages(1_000), BROKERS, seed=1)
    for number in cluster.brokers:
        assert cluster.produce(number, 1, size=100) == 0, "each asks for as much as its batch"
    cluster.step(50)
    assert cluster.kill(BrokerId(1)) == 100
    run_dry(cluster, per_step=10)
    assert 900 <= cluster.used <= 900 + cluster.floors


def test_a_killed_broker_takes_one_part_however_many_answers_to_it_were_lost() -> None:
    cluster = Cluster(messages(10_000), BROKERS, seed=2)
    for _ in range(20):
        cluster.produce(BrokerId(1), 5)
        cluster.lose_answer(BrokerId(1))
        cluster.now_ms += 1_000
    cluster.kill(BrokerId(1))
    run_dry(cluster, per_step=100)
    assert 10_000 - hold_max(10_000, BROKERS) <= cluster.used <= 10_000 + cluster.floors


@pytest.mark.parametrize("seed", range(24))
def test_no_random_history_of_kills_takes_more_of_a_budget_than_what_the_killed_might_hold(seed: int) -> None:
    """Beside kills brokers lie idle, and in half of the histories controllers change, in the others answers are lost.
    Then all that is left is used."""
    cluster = Cluster(messages((1_000, 10_000, 200_000)[seed % 3]), BROKERS, seed)
    rng, amount = cluster.rng, cluster.budget.amount
    batch = rng.choice([1, 1, max(1, amount // 300), amount // 50])
    kills = taken = 0
    for _ in range(24):
        if cluster.used > 0.8 * amount:
            break
        for number in cluster.brokers:
            cluster.produce(number, rng.randrange(2 + amount // (200 * batch)), size=batch)
        cluster.step(rng.choice([50, 250, 1_000]))
        event = rng.random()
        if event < 0.1 and len(cluster.brokers) == BROKERS:
            kills += 1
            # Its part may be from the time when another broker was away.
            taken += max(batch, hold_max(amount, BROKERS - 1))
            cluster.kill(rng.choice(list(cluster.brokers)))
        elif event < 0.25:
            for number in map(BrokerId, range(1, BROKERS + 1)):
                if number not in cluster.brokers:
                    cluster.restart(number)
        elif event < 0.5 and seed % 2:
            cluster.fail_over()
        elif event < 0.5:
            for number in cluster.brokers:
                cluster.produce(number, 2, size=batch)
                cluster.lose_answer(number)
        elif event < 0.53:
            cluster.idle(10_000)
    run_dry(cluster, per_step=amount // 100)
    said = f"seed {seed}: {kills} kills, batches of {batch}"
    assert amount - taken <= cluster.used <= amount + cluster.floors * (1 + kills), said
