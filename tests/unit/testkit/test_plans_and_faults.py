"""Plans are functions of their seed and between them try every combination of faults x steps; the table counts."""

import math

from data_plane.testkit.faults import COMBINATIONS, IMPOSSIBLE, FaultKind, ReachedTable, Step
from data_plane.testkit.forks import run_forked
from data_plane.testkit.swarm import COMBINATIONS_PER_SEED, draw_plan
from penstock.contract.topic_settings import Durability


def test_a_seed_always_draws_the_same_plan() -> None:
    assert [draw_plan(seed) for seed in range(20)] == [draw_plan(seed) for seed in range(20)]
    assert len({str(draw_plan(seed)) for seed in range(20)}) == 20


def test_consecutive_seeds_try_every_combination() -> None:
    seeds = math.ceil(len(COMBINATIONS) / COMBINATIONS_PER_SEED)
    assert {combination for seed in range(seeds) for combination in draw_plan(seed).combinations} == set(
        COMBINATIONS
    )


def test_every_pair_is_a_combination_or_says_why_not() -> None:
    assert len(COMBINATIONS) + len(IMPOSSIBLE) == len(FaultKind) * len(Step)
    assert all(len(reason) > 10 for reason in IMPOSSIBLE.values())


def test_all_power_is_cut_only_where_nothing_relaxed_can_be_lost() -> None:
    for seed in range(300):
        plan = draw_plan(seed)
        if any(combination.fault is FaultKind.ALL_POWER_CUT for combination in plan.combinations):
            assert all(topic.settings.durability is Durability.FSYNC for topic in plan.topics)


def test_every_plan_has_a_producer_whose_acknowledgements_promise_something() -> None:
    assert all(any(plan.acks == -1 for plan in draw_plan(seed).producers) for seed in range(300))


def test_few_seeds_draw_every_activity_and_most_seeds_few_of_them() -> None:
    plans = [draw_plan(seed) for seed in range(50)]
    drawn = [
        (plan.metered, plan.operated, plan.grouped, plan.throttled, plan.changing, plan.stopped)
        for plan in plans
    ]
    assert all(sum(column) >= 5 for column in zip(*drawn, strict=True))
    assert sum(map(sum, drawn)) < 2 * len(drawn)


def test_the_table_counts_merges_and_names_what_is_missing() -> None:
    table, other = ReachedTable(), ReachedTable()
    other.add(COMBINATIONS[0])
    table.add(COMBINATIONS[0])
    table.merge(other.named())
    assert table.counts[COMBINATIONS[0]] == 2
    assert set(table.missing()) == set(COMBINATIONS[1:])
    lines = table.lines()
    assert len(lines) == len(FaultKind) + 1
    assert lines[1].split()[1] == "2"
    assert " - " in f"{lines[1 + list(FaultKind).index(FaultKind.RESET)]} "


def _work(number: int) -> int:
    if number == 3:
        raise SystemExit(7)
    return number * number


def test_forked_work_answers_and_a_death_is_told() -> None:
    answers = {
        answer.item: (answer.result, answer.ending)
        for answer in run_forked(_work, range(5), jobs=2, wall_s_max=60)
    }
    assert [answers[number][0] for number in range(5)] == [0, 1, 4, None, 16]
    assert "ended with 7" in answers[3][1]
