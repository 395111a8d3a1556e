"""Budgets that brokers share: never much above the amount, whatever is lost or restarted; released by a higher amount
and by the next period."""

from dataclasses import replace

import pytest

from data_plane.leases.budget_books import BudgetBooks
from data_plane.leases.budget_holder import IDLE_MS, BudgetHolder, Verdict
from data_plane.leases.budget_terms import BudgetAnswer, BudgetRequest, Granted, Want, hold_max
from penstock.contract.ids import BrokerId
from penstock.rules.budgets import NOTIFY, PARTS, SLOW
from tests.unit.leases.budget_cluster import BEGINS_MS, ENDS_MS, KEY, Cluster, messages

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def run_dry(cluster: Cluster, per_step: int, steps: int = 400) -> None:
    """All brokers at once, until none lets anything in for some seconds."""
    quiet = 0
    for _ in range(steps):
        let_in = sum(cluster.produce(number, per_step) for number in cluster.brokers)
        cluster.step(250)
        quiet = 0 if let_in else quiet + 1
        if quiet > 30:
            return


@pytest.mark.parametrize("brokers", [1, 3, 9])
def test_all_brokers_loaded_stop_within_one_percent_of_the_amount(brokers: int) -> None:
    cluster = Cluster(messages(100_000), brokers, seed=1)
    run_dry(cluster, per_step=2_000)
    assert 99_000 <= cluster.used <= 101_000
    assert cluster.verdicts[Verdict.SPENT] > 0


def test_with_nothing_lost_the_amount_is_used_up_to_the_last_percent() -> None:
    cluster = Cluster(messages(50_000), 3, seed=2)
    run_dry(cluster, per_step=100)
    assert 49_500 <= cluster.used <= 50_000 + cluster.floors


@pytest.mark.parametrize("seed", range(40))
def test_no_random_history_gives_more_than_the_amount_and_what_brokers_may_use_unheard(seed: int) -> None:
    cluster = Cluster(messages(20_000), 3, seed, lost=0.15)
    restarts = 0
    for _ in range(300):
        for number in cluster.brokers:
            cluster.produce(number, cluster.rng.randrange(200))
        cluster.step(cluster.rng.choice([50, 250, 1_000]))
        event = cluster.rng.random()
        if event < 0.01:
            cluster.restart(BrokerId(cluster.rng.randrange(1, 4)))
            restarts += 1
        elif event < 0.02:
            cluster.fail_over()
        elif event < 0.04:
            cluster.away = not cluster.away
        elif event < 0.05:
            cluster.idle(70_000)
    # Of each restart what the process had not said is not known: at most its own floor.
    each = cluster.floors // 3 + 1
    assert cluster.used <= 20_000 + cluster.floors + restarts * each, f"seed {seed}"
    record = cluster.record
    assert record is not None and record.granted + cluster.floors + restarts * each >= cluster.used


@pytest.mark.parametrize("seed", range(5))
def test_with_nothing_lost_the_record_tells_what_was_used_whenever_all_have_said_it(seed: int) -> None:
    cluster = Cluster(messages(20_000), 3, seed)
    for _ in range(12):
        for _ in range(cluster.rng.randrange(8)):
            cluster.produce(BrokerId(cluster.rng.randrange(1, 4)), cluster.rng.randrange(300))
            cluster.step(cluster.rng.choice([50, 250, 1_000]))
        cluster.idle(2 * IDLE_MS)
        assert cluster.record is None or cluster.record.used == cluster.used, f"seed {seed}"
    assert cluster.used > 1_000


def test_a_restarted_cluster_does_not_give_the_budget_again() -> None:
    cluster = Cluster(messages(10_000), 3, seed=3)
    run_dry(cluster, per_step=500)
    before = cluster.used
    for _ in range(20):
        for number in list(cluster.brokers):
            cluster.restart(number)
        cluster.fail_over()
        for number in cluster.brokers:
            cluster.produce(number, 500)
        cluster.step(250)
    assert cluster.used == before, "the record says that nothing is left"


def test_a_broker_that_is_killed_takes_what_it_held_with_it_and_no_more() -> None:
    cluster = Cluster(messages(100_000), 2, seed=4)
    for _ in range(40):
        cluster.produce(ONE, 100)
        cluster.step(250)
    unused = cluster.brokers[ONE].holder.unused()[KEY]
    assert unused <= 500, "half of one part in a hundred, though 5 s of its traffic are 2,000"
    cluster.restart(ONE)
    run_dry(cluster, per_step=2_000)
    assert 100_000 - unused - 500 <= cluster.used <= 100_000 + cluster.floors


def test_without_a_controller_a_broker_goes_on_with_what_it_holds_and_its_floor_and_then_refuses() -> None:
    cluster = Cluster(messages(1_000_000), 1, seed=5)
    for _ in range(20):
        cluster.produce(ONE, 1_000)
        cluster.step(250)
    unused = cluster.brokers[ONE].holder.unused()[KEY]
    cluster.away = True
    more = 0
    for _ in range(100):
        more += cluster.produce(ONE, 1_000)
        cluster.step(250)
    assert unused <= more <= unused + cluster.floors
    assert cluster.verdicts[Verdict.AWAITED] > 0 and Verdict.SPENT not in cluster.verdicts
    cluster.away = False
    cluster.produce(ONE, 1)
    cluster.step(250)
    assert cluster.produce(ONE, 400) == 400


def test_a_higher_amount_releases_at_once() -> None:
    cluster = Cluster(messages(1_000), 2, seed=6)
    run_dry(cluster, per_step=100)
    assert cluster.produce(ONE, 1) == 0
    cluster.raise_to(2_000)
    assert cluster.produce(ONE, 1) == 1, "before any answer"
    run_dry(cluster, per_step=100)
    assert 1_980 <= cluster.used <= 2_000 + cluster.floors


def loaded(amount: int, seed: int) -> Cluster:
    """Two brokers that each hold a part of that amount, and have used less than all."""
    cluster = Cluster(messages(amount), 2, seed)
    for _ in range(20):
        for number in cluster.brokers:
            cluster.produce(number, 100)
        cluster.step(250)
    assert all(broker.holder.unused()[KEY] > 100 for broker in cluster.brokers.values())
    return cluster


def test_an_amount_that_is_lowered_below_what_was_used_stops_every_broker_with_its_next_batch() -> None:
    cluster = loaded(100_000, seed=7)
    before = cluster.used
    cluster.raise_to(1_000)
    run_dry(cluster, per_step=100)
    assert cluster.used == before, "what brokers hold is not used any more"


def test_an_amount_that_is_lowered_to_less_than_was_granted_is_used_up_and_no_more() -> None:
    cluster = loaded(100_000, seed=7)
    lower = cluster.used + 300
    record = cluster.record
    assert record is not None and record.granted > lower
    cluster.raise_to(lower)
    run_dry(cluster, per_step=10)
    assert lower - lower // 100 <= cluster.used <= lower + cluster.floors
    assert Verdict.SPENT in cluster.verdicts


@pytest.mark.parametrize(
    ("more", "verdict"), [(300, Verdict.AWAITED), (1, Verdict.AWAITED), (0, Verdict.SPENT)]
)
def test_a_lowered_amount_is_spent_once_it_was_used_and_awaited_while_others_hold_what_is_left(
    more: int, verdict: Verdict
) -> None:
    cluster = loaded(100_000, seed=7)
    record = cluster.record
    assert record is not None and record.granted > record.used + more
    budget = replace(cluster.budget, amount=record.used + more)
    for broker in cluster.brokers.values():
        broker.sees = record
        holder = broker.holder
        assert holder.verdict(KEY, budget, PARTS, cluster.now_ms, cluster.wall_ms) is verdict
        assert holder.hurried
        assert holder.is_spent(KEY, budget, cluster.now_ms, cluster.wall_ms) is (verdict is Verdict.SPENT)


def test_a_record_of_the_last_period_takes_nothing_back_in_a_new_one() -> None:
    cluster = loaded(100_000, seed=7)
    before = cluster.record
    assert before is not None and before.granted > 1_000
    next_period = replace(before, began_ms=before.ends_ms, ends_ms=before.ends_ms + 1, granted=100)
    cluster.restart(ONE)
    holder = cluster.brokers[ONE].holder
    holder.use(KEY, PARTS, cluster.now_ms)
    request = holder.request(1, cluster.now_ms)
    assert request is not None
    began_ms, ends_ms = next_period.began_ms, next_period.ends_ms
    grant = Granted(began_ms=began_ms, ends_ms=ends_ms, total=100, left=900)
    holder.answered(request, BudgetAnswer(term=99, granted={KEY: grant}), began_ms)
    lowered = replace(cluster.budget, amount=1_000)
    cluster.brokers[ONE].sees = before
    assert holder.verdict(KEY, lowered, PARTS, cluster.now_ms, began_ms) is Verdict.OPEN
    cluster.brokers[ONE].sees = replace(next_period, granted=1_200, unused=0)
    assert holder.verdict(KEY, lowered, PARTS, cluster.now_ms, began_ms) is Verdict.SPENT


def test_the_books_give_no_broker_more_than_its_part_whatever_it_wants() -> None:
    """A broker of an earlier release wants what it would use in 5 s."""
    want = Want(term=0, began_ms=0, holds=0, wants=9_000, needs=1, received=0, returned=0, owed=0)
    asked = BudgetRequest(holder=ONE, registration=1, epoch=1, sequence=1, wants={KEY: want})
    books = BudgetBooks(1, budget=lambda key: messages(10_000), stored=lambda key: None)
    answered = books.asked(asked, {ONE: 1, TWO: 2}, 0.0, BEGINS_MS)
    assert answered is not None and answered[0].granted[KEY].total == hold_max(10_000, 2) == 50


def test_a_lower_amount_that_all_fits_in_takes_back_what_brokers_hold_of_the_higher_one() -> None:
    cluster = loaded(1_000_000, seed=7)
    cluster.raise_to(20_000)
    cluster.step(250)
    assert all(broker.holder.unused()[KEY] <= 100 for broker in cluster.brokers.values())


def test_what_is_given_back_of_a_higher_amount_is_given_to_the_next_controller_too() -> None:
    """Else the next books would count it as used, which may be all of an amount that is much lower."""
    cluster = loaded(10_000_000, seed=7)
    cluster.raise_to(100_000)
    cluster.fail_over()
    run_dry(cluster, per_step=2_000)
    assert 99_000 - cluster.floors <= cluster.used <= 100_000 + cluster.floors


def test_brokers_that_are_all_killed_stop_a_budget_one_part_in_a_hundred_early_at_most() -> None:
    """Though each would use all of it within some seconds."""
    cluster = Cluster(messages(10_000), 3, seed=18)
    for _ in range(8):
        for number in cluster.brokers:
            cluster.produce(number, 400)
        cluster.step(60)
    assert 1_000 < cluster.used < 9_000
    for number in list(cluster.brokers):
        cluster.restart(number)
    run_dry(cluster, per_step=1_000)
    assert 9_900 - cluster.floors <= cluster.used <= 10_000 + cluster.floors


@pytest.mark.parametrize("seed", range(16))
def test_no_change_of_the_amount_under_load_lets_more_through_than_the_amount_of_that_moment(
    seed: int,
) -> None:
    """Several changes may come between two exchanges; the oracle is asked after each of them."""
    cluster = Cluster(messages(40_000), 3, seed)
    rng, restarts = cluster.rng, 0

    def produce() -> None:
        before = cluster.used
        for number in cluster.brokers:
            cluster.produce(number, rng.randrange(60))
        # What a process that was killed had not said is at most its floor.
        most = cluster.budget.amount + cluster.floors * (1 + restarts)
        assert cluster.used <= max(before, most), f"seed {seed}"

    for _ in range(250):
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            change = rng.randrange(5)
            if change == 0:
                cluster.raise_to(cluster.budget.amount + rng.randrange(1, 4_000))
            elif change == 1:
                cluster.raise_to(max(1, cluster.budget.amount // 2))
            elif change == 2:
                cluster.raise_to(max(1, cluster.budget.amount - rng.randrange(500)))
            elif change == 3:
                cluster.restart(BrokerId(rng.randrange(1, 4)))
                restarts += 1
            else:
                cluster.fail_over()
            produce()
            cluster.exchange(BrokerId(rng.randrange(1, 4)))
        produce()
        cluster.step(rng.choice([50, 250, 1_000]))


def test_the_next_period_begins_with_all_of_it() -> None:
    cluster = Cluster(messages(1_000), 2, seed=8)
    run_dry(cluster, per_step=100)
    cluster.now_ms = ENDS_MS - BEGINS_MS + 5.0
    cluster.used = 0
    run_dry(cluster, per_step=100)
    assert 980 <= cluster.used <= 1_000 + cluster.floors
    assert cluster.record is not None and cluster.record.began_ms == ENDS_MS


def test_what_the_first_period_used_before_counts_in_it_and_not_in_the_next_one() -> None:
    cluster = Cluster(replace(messages(1_000), used_before=700, first_began_ms=BEGINS_MS), 2, seed=8)
    run_dry(cluster, per_step=100)
    assert 290 <= cluster.used <= 300 + cluster.floors
    assert cluster.record is not None and 990 <= cluster.record.used <= 1_000 + cluster.floors
    cluster.now_ms, cluster.used = ENDS_MS - BEGINS_MS + 5.0, 0
    run_dry(cluster, per_step=100)
    assert 980 <= cluster.used <= 1_000 + cluster.floors


def test_what_was_used_up_before_it_was_made_refuses_before_any_answer() -> None:
    budget = replace(messages(1_000), used_before=1_000, first_began_ms=BEGINS_MS)
    cluster = Cluster(budget, 2, seed=8)
    assert cluster.produce(ONE, 1) == 0 and cluster.verdicts[Verdict.SPENT] == 1
    holder = cluster.brokers[TWO].holder
    assert holder.is_spent(KEY, budget, 0.0, BEGINS_MS), "readers stop as well"
    assert not holder.is_spent(KEY, budget, 0.0, ENDS_MS)


def test_a_broker_whose_clock_is_ahead_opens_no_period_by_itself() -> None:
    cluster = Cluster(messages(100_000), 1, seed=9)
    run_dry(cluster, per_step=10_000)
    before = cluster.used
    cluster.brokers[ONE].ahead_ms = ENDS_MS - cluster.wall_ms + 1
    for _ in range(40):
        for _ in range(14):
            cluster.produce(ONE, 1_000)
            cluster.step(250)
        cluster.idle(4_000)
    assert cluster.used <= before + cluster.floors, "its floor, once"


def test_a_broker_whose_image_is_behind_goes_by_the_answers() -> None:
    cluster = Cluster(messages(100_000), 3, seed=13)
    cluster.brokers[TWO].is_blind = True
    run_dry(cluster, per_step=1_000)
    for _ in range(40):
        cluster.produce(TWO, 1_000)
        cluster.step(1_000)
    assert 99_000 <= cluster.used <= 100_000 + cluster.floors


def test_what_others_gave_back_is_waited_for_and_not_refused() -> None:
    cluster = Cluster(messages(10_000), 2, seed=17)
    run_dry(cluster, per_step=1_000)
    one, record = cluster.brokers[ONE], cluster.record
    assert record is not None

    def verdict() -> Verdict:
        return one.holder.verdict(KEY, cluster.budget, PARTS, cluster.now_ms, cluster.wall_ms)

    assert verdict() is Verdict.SPENT
    one.sees = replace(record, granted=9_900)
    assert verdict() is Verdict.AWAITED and one.holder.hurried


def test_a_budget_that_lay_idle_is_not_given_again() -> None:
    cluster = Cluster(messages(10_000), 1, seed=14)
    for _ in range(8):
        for _ in range(200):
            cluster.produce(ONE, 5)
            cluster.step(50)
        cluster.idle(62_000)
        assert not cluster.brokers[ONE].holder.is_active
        record = cluster.record
        assert record is not None and record.granted == cluster.used, "all of it stays counted"
    run_dry(cluster, per_step=1_000)
    assert cluster.used <= 10_000 + cluster.floors
    cluster.idle(70_000)
    spent = cluster.used
    for _ in range(5):
        cluster.produce(ONE, 10)
        cluster.idle(70_000)
    assert cluster.used <= spent + cluster.floors


def test_what_is_too_little_for_a_batch_spends_the_budget_everywhere() -> None:
    cluster = Cluster(messages(10_005), 2, seed=15)
    for _ in range(400):
        cluster.produce(ONE, 50, size=10)
        cluster.step(250)
    cluster.idle(5_000)
    record = cluster.record
    assert record is not None and 9_000 < record.granted < 10_005 and record.short_of == 10_005
    cluster.brokers[TWO].sees = record
    for number in cluster.brokers:
        holder = cluster.brokers[number].holder
        assert holder.is_spent(KEY, cluster.budget, cluster.now_ms, cluster.wall_ms)
    cluster.raise_to(20_000)
    assert not cluster.brokers[TWO].holder.is_spent(KEY, cluster.budget, cluster.now_ms, cluster.wall_ms)


@pytest.mark.parametrize("already_said", [False, True])
def test_a_budget_of_which_an_idle_broker_gives_much_back_is_not_spent(already_said: bool) -> None:
    cluster = Cluster(messages(100_000), 2, seed=1)
    assert cluster.produce(TWO, 1, size=20_000) == 0, "it asks for a part that this large batch fits in"
    cluster.exchange(TWO)
    for _ in range(50):
        cluster.produce(ONE, 200, size=2_000)
        cluster.step(30)
    assert cluster.verdicts[Verdict.SPENT] > 0
    record = cluster.record
    assert record is not None and record.unused >= 20_000 and record.short_of == 0, "two holds a fifth"
    if already_said:
        assert cluster.books is not None
        cluster.books._books[KEY].use = replace(record, short_of=100_000)
    cluster.step(IDLE_MS + 1.0)
    cluster.step(300)
    record = cluster.record
    assert record is not None and record.granted <= 80_000 and record.short_of == 0
    for broker in cluster.brokers.values():
        broker.sees = record
        assert not broker.holder.is_spent(KEY, cluster.budget, cluster.now_ms, cluster.wall_ms)


def test_a_large_batch_spends_no_budget_of_which_much_is_left() -> None:
    cluster = Cluster(messages(10_000), 1, seed=16)
    for _ in range(20):
        cluster.produce(ONE, 1, size=8_000)
        cluster.step(250)
    record = cluster.record
    assert record is not None and record.granted >= 8_000 and record.short_of == 0
    assert not cluster.brokers[ONE].holder.is_spent(KEY, cluster.budget, cluster.now_ms, cluster.wall_ms)


def test_a_batch_that_is_all_of_what_is_left_is_let_in() -> None:
    cluster = Cluster(messages(100), 1, seed=12)
    assert cluster.produce(ONE, 1, size=100) == 0 and Verdict.SPENT not in cluster.verdicts
    cluster.step(250)
    assert cluster.produce(ONE, 1, size=100) == 100


def test_what_was_given_back_while_no_controller_answered_comes_back_later() -> None:
    """However long it takes: a broker forgets no budget of which the books do not know all."""
    cluster = Cluster(messages(100_000), 1, seed=20)
    for _ in range(10):
        cluster.produce(ONE, 50)
        cluster.step(250)
    assert cluster.brokers[ONE].holder.unused()[KEY] > 0
    cluster.away = True
    cluster.idle(120_000)
    assert cluster.brokers[ONE].holder.is_active
    cluster.away = False
    cluster.idle(2_000)
    record = cluster.record
    assert record is not None and record.granted == record.used == cluster.used


@pytest.mark.parametrize(("share_used", "asks"), [(0.45, False), (0.55, True)])
def test_a_broker_asks_before_its_next_report_once_less_than_half_of_its_part_is_left(
    share_used: float, asks: bool
) -> None:
    cluster = Cluster(messages(100_000), 1, seed=21)
    for _ in range(4):
        cluster.produce(ONE, 700)
        cluster.step(1_000)
    part = cluster.brokers[ONE].holder.unused()[KEY]
    assert part == 1_000, "one in a hundred of the amount"
    used = int(part * share_used)
    assert cluster.produce(ONE, used) == used
    asked = cluster.brokers[ONE].holder.request(1, cluster.now_ms + 10) is not None
    assert asked is asks


@pytest.mark.parametrize(
    ("messages_a_second", "wanted"), [(0, 500), (40, 500), (400, 2_000), (4_000, 10_000), (20_000, 10_000)]
)
def test_a_broker_wants_what_it_uses_in_five_seconds_within_bounds_of_the_amount(
    messages_a_second: int, wanted: int
) -> None:
    """At least one in 2,000 of it, and at most one in a hundred."""
    cluster = Cluster(messages(1_000_000), 1, seed=22)
    holder = cluster.brokers[ONE].holder
    for _ in range(30):
        holder.use(KEY, messages_a_second * PARTS, cluster.now_ms)
        cluster.step(1_000)
    holder.use(KEY, max(1, messages_a_second) * PARTS, cluster.now_ms)
    asked = holder.request(1, cluster.now_ms + 1_000)
    assert asked is not None
    assert wanted * 0.98 <= asked.wants[KEY].wants <= wanted


def test_an_idle_broker_gives_back_what_it_holds() -> None:
    cluster = Cluster(messages(100_000), 2, seed=10)
    cluster.produce(ONE, 10)
    cluster.step(250)
    cluster.produce(ONE, 10)
    cluster.step(250)
    assert cluster.brokers[ONE].holder.unused()[KEY] > 0
    cluster.step(IDLE_MS + 1.0)
    cluster.step(250)
    record = cluster.record
    assert record is not None and record.used == record.granted == 20
    cluster.step(60_001)
    cluster.step(60_001)
    assert not cluster.brokers[ONE].holder.is_active, "nothing is said of what is not used"


@pytest.mark.parametrize("policy", [NOTIFY, SLOW])
def test_what_refuses_nothing_is_counted_all_the_same(policy: str) -> None:
    cluster = Cluster(messages(1_000, policy), 2, seed=11)
    for _ in range(20):
        assert cluster.produce(ONE, 100) == 100
        cluster.step(1_000)
    cluster.step(IDLE_MS + 1.0)
    record = cluster.record
    assert record is not None and record.used == 2_000
    holder = cluster.brokers[TWO].holder
    cluster.brokers[TWO].sees = record
    assert holder.is_spent(KEY, cluster.budget, cluster.now_ms, cluster.wall_ms)


def test_a_batch_that_is_larger_than_what_is_left_takes_nothing_of_it() -> None:
    cluster = Cluster(messages(100), 1, seed=12)
    holder = cluster.brokers[ONE].holder
    for _ in range(3):
        verdict = holder.verdict(KEY, cluster.budget, 101 * 10**9, cluster.now_ms, cluster.wall_ms)
        assert verdict is Verdict.SPENT
        cluster.step(250)
    assert cluster.record is not None and cluster.record.granted == 0
    assert cluster.produce(ONE, 1) == 0
    cluster.step(250)
    assert cluster.produce(ONE, 1) == 1


def asked_and_answered(cluster: Cluster) -> tuple[BudgetHolder, BudgetRequest, BudgetAnswer]:
    """A request of the first broker, and the answer that is on its way."""
    cluster.produce(ONE, 10)
    holder = cluster.brokers[ONE].holder
    request = holder.request(1, cluster.now_ms)
    assert request is not None and cluster.books is not None
    registered = {number: broker.registration for number, broker in cluster.brokers.items()}
    decided = cluster.books.asked(request, registered, cluster.now_ms, cluster.wall_ms)
    assert decided is not None and decided[0].granted[KEY].total > 0
    return holder, request, decided[0]


def test_an_answer_to_an_earlier_registration_grants_nothing() -> None:
    """These books count what that registration had as used."""
    cluster = Cluster(messages(100_000), 2, seed=1)
    holder, request, answer = asked_and_answered(cluster)
    before = dict(holder.unused())
    holder.register(99)
    holder.answered(request, answer, cluster.wall_ms)
    assert holder.unused() == before
    holder, request, answer = asked_and_answered(Cluster(messages(100_000), 2, seed=1))
    holder.answered(request, answer, cluster.wall_ms)
    assert holder.unused()[KEY] > before.get(KEY, 0), "to the present one it does"


def test_an_answer_that_there_is_no_such_budget_takes_nothing_of_what_is_held() -> None:
    cluster = Cluster(messages(100_000), 2, seed=1)
    holder, request, answer = asked_and_answered(cluster)
    holder.answered(request, answer, cluster.wall_ms)
    held = dict(holder.unused())
    cluster.produce(ONE, 5)
    again = holder.request(1, cluster.now_ms + 1_000)
    assert held[KEY] > 5 and again is not None
    none = BudgetAnswer(term=answer.term, granted={KEY: Granted(began_ms=0, ends_ms=0, total=0)})
    holder.answered(again, none, cluster.wall_ms)
    assert holder.unused()[KEY] == held[KEY] - 5
