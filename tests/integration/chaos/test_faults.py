"""The schedule of faults is what it claims to be."""

from collections import Counter

from tests.integration.chaos.faults import BROKERS, ROUNDS_FULL, ROUNDS_QUICK, Fault, schedule


def test_the_full_schedule_hits_all_brokers_at_once_three_times_and_each_in_turn() -> None:
    rounds = schedule(ROUNDS_FULL)
    assert len(rounds) == 30
    together = [r for r in rounds if len(r.brokers) > 1]
    assert [r.brokers for r in together] == [BROKERS] * 3
    assert {r.fault for r in together} == set(Fault)
    single = Counter((r.brokers[0], r.fault) for r in rounds if len(r.brokers) == 1)
    assert set(single) == {(broker, fault) for broker in BROKERS for fault in Fault}
    assert min(single.values()) >= 4


def test_the_quick_schedule_hits_each_broker_and_once_all() -> None:
    rounds = schedule(ROUNDS_QUICK)
    assert sum(len(r.brokers) > 1 for r in rounds) == 1
    assert {r.brokers[0] for r in rounds if len(r.brokers) == 1} == set(BROKERS)
    assert {r.fault for r in rounds} == set(Fault)
