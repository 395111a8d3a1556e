"""The schedule of faults is fixed by its seed, reaches every kind that works, and is what each plan claims."""

from collections import Counter
from itertools import islice

from chaos.faults import (
    ALL_UNSYNCED_LOST,
    BROKERS,
    COMPANIONS,
    UNSYNCED_LOST,
    Kind,
    Plan,
    brokers_of,
    strikes,
)


def test_a_seed_fixes_the_faults_and_their_order() -> None:
    first, second, other = (
        [str(strike) for strike in islice(strikes(Plan.ALL, seed, list(Kind)), 50)] for seed in (7, 7, 8)
    )
    assert first == second
    assert first != other


def test_every_kind_that_works_comes_once_a_deck_and_no_other() -> None:
    works = [kind for kind in Kind if kind is not Kind.CLOCK_STEP]
    struck = [strike.kind for strike in islice(strikes(Plan.ALL, 1, works), 2 * len(works))]
    assert Counter(struck[: len(works)]) == Counter(works)
    assert Counter(struck[len(works) :]) == Counter(works)


def test_two_faults_meet_from_the_second_deck_on_and_the_other_one_loses_nothing() -> None:
    decks = list(islice(strikes(Plan.ALL, 1, list(Kind)), 10 * len(Kind)))
    first, later = decks[: len(Kind)], decks[len(Kind) :]
    assert all(strike.companion is None for strike in first)
    companions = {strike.companion for strike in later} - {None}
    assert companions == set(COMPANIONS)
    assert all(strike.companion is not strike.kind for strike in later)
    assert companions.isdisjoint({*UNSYNCED_LOST, *ALL_UNSYNCED_LOST})


def test_the_short_plan_has_its_five_kinds_once_or_those_of_them_that_work() -> None:
    kinds = {strike.kind for strike in strikes(Plan.SHORT, 1, list(Kind))}
    assert kinds == {Kind.KILL, Kind.PAUSE, Kind.CUT, Kind.CUT_OUTWARDS, Kind.POWER_CUT_EXT4}
    assert len(list(strikes(Plan.SHORT, 1, list(Kind)))) == 5
    assert [strike.kind for strike in strikes(Plan.SHORT, 1, [Kind.KILL])] == [Kind.KILL]


def test_the_plan_of_zones_loses_a_host_a_zone_and_the_leader_of_etcd_once() -> None:
    struck = [strike.kind for strike in strikes(Plan.ZONES, 1, list(Kind))]
    assert sorted(struck, key=list(Kind).index) == [
        *(Kind.HOST_LOST, Kind.ZONE_LOST, Kind.ZONE_CUT_INWARDS, Kind.ZONE_CUT_OUTWARDS),
        *(Kind.STORE_LEADER_CUT, Kind.CERTIFICATES_RENEWED),
    ]
    assert not any(strike.companion for strike in strikes(Plan.ZONES, 1, list(Kind)))


def test_what_takes_the_power_of_a_zone_waits_until_all_replicas_are_in_sync() -> None:
    assert {Kind.HOST_LOST, Kind.ZONE_LOST, Kind.DISK_PULLED} <= set(UNSYNCED_LOST)


def test_a_run_of_all_faults_has_two_brokers_a_host() -> None:
    assert len(brokers_of(Plan.ALL)) == 6
    assert {len(brokers_of(plan)) for plan in Plan if plan is not Plan.ALL} == {3}


def test_the_rounds_hit_each_broker_in_turn_both_ways_and_three_times_all_at_once() -> None:
    rounds = list(strikes(Plan.ROUNDS, 1, list(Kind)))
    assert len(rounds) == 30
    together = [strike.kind for strike in rounds if strike.kind in (Kind.ALL_KILL, Kind.ALL_PAUSE)]
    assert together == [Kind.ALL_KILL, Kind.ALL_PAUSE, Kind.ALL_KILL]
    single = Counter((BROKERS[s.pick], s.kind) for s in rounds if s.kind in (Kind.KILL, Kind.PAUSE))
    assert set(single) == {(broker, kind) for broker in BROKERS for kind in (Kind.KILL, Kind.PAUSE)}
    assert min(single.values()) >= 4


def test_no_kind_waits_for_ever_when_nothing_works() -> None:
    assert list(strikes(Plan.ALL, 1, [])) == []
