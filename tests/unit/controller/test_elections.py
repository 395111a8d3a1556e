"""Elections of one partition: who may lead, what a lost broker leaves behind, which epochs rise."""

from collections.abc import Callable

import pytest

from data_plane.controller.elections import (
    candidate,
    elect,
    moved_from,
    strip_unclean,
    successor,
    without_broker,
)
from penstock.contract.ids import NO_BROKER, BrokerId

from .setup import record


def only(*alive: int) -> Callable[[BrokerId], bool]:
    return lambda broker: broker in alive


def test_the_first_alive_in_sync_replica_in_order_of_preference_is_elected() -> None:
    before = record((2, 3), leader=NO_BROKER, replicas=(3, 1, 2))
    after = elect(before, alive=only(1, 2, 3), min_insync=2)
    assert after is not None
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (3, 6, 8)
    assert after.in_sync == (3, 2)


def test_a_replica_out_of_sync_is_never_elected() -> None:
    assert elect(record((1, 2), leader=NO_BROKER), alive=only(3), min_insync=2) is None


def test_an_eligible_replica_is_not_elected_while_the_in_sync_set_has_members() -> None:
    assert elect(record((1,), leader=NO_BROKER, eligible=(2,)), alive=only(2), min_insync=2) is None


def test_an_eligible_replica_is_elected_into_an_empty_set_alone() -> None:
    after = elect(record((), leader=NO_BROKER, eligible=(2, 3)), alive=only(2, 3), min_insync=2)
    assert after is not None
    assert (after.leader, after.in_sync, after.eligible) == (2, (2,), (3,))


def test_election_of_the_only_member_with_min_one_clears_the_lists() -> None:
    before = record((), leader=NO_BROKER, eligible=(2,), last_known=(3,))
    after = elect(before, alive=only(2), min_insync=1)
    assert after is not None
    assert (after.in_sync, after.eligible, after.last_known) == ((2,), (), ())


def test_a_last_known_replica_is_not_elected() -> None:
    assert elect(record((), leader=NO_BROKER, last_known=(2,)), alive=only(1, 2, 3), min_insync=2) is None


def test_a_partition_with_a_leader_is_not_elected_for() -> None:
    assert elect(record(), alive=only(2), min_insync=2) is None


def test_candidate_of_nobody_alive_is_nobody() -> None:
    assert candidate(record(leader=NO_BROKER), only()) == NO_BROKER


# -- losing a broker ------------------------------------------------------------------------------------


def test_a_fenced_leader_leaves_leadership_and_set_and_the_epoch_rises_at_once() -> None:
    after = without_broker(record(), BrokerId(1), min_insync=2)
    assert after is not None
    assert (after.leader, after.leader_epoch, after.in_sync, after.eligible) == (NO_BROKER, 6, (2, 3), ())


def test_a_fenced_follower_leaves_the_set_and_leadership_stays() -> None:
    after = without_broker(record(), BrokerId(3), min_insync=2)
    assert after is not None
    assert (after.leader, after.leader_epoch, after.in_sync) == (1, 5, (1, 2))


def test_a_member_that_leaves_the_set_below_the_minimum_is_eligible() -> None:
    after = without_broker(record((1, 2)), BrokerId(2), min_insync=2)
    assert after is not None
    assert (after.in_sync, after.eligible) == ((1,), (2,))


def test_the_last_member_leaves_an_empty_set_and_is_eligible() -> None:
    after = without_broker(record((1,), eligible=(2,)), BrokerId(1), min_insync=2)
    assert after is not None
    assert (after.leader, after.in_sync, after.eligible) == (NO_BROKER, (), (1, 2))


def test_the_last_member_with_min_one_is_eligible_too() -> None:
    after = without_broker(record((1,)), BrokerId(1), min_insync=1)
    assert after is not None
    assert (after.in_sync, after.eligible) == ((), (1,))


def test_a_broker_that_neither_leads_nor_is_in_sync_leaves_nothing() -> None:
    assert without_broker(record((1, 2)), BrokerId(3), min_insync=2) is None


# -- unclean --------------------------------------------------------------------------------------------


def test_an_unclean_replica_is_last_known_and_not_eligible() -> None:
    after = strip_unclean(record((1,), eligible=(2,)), BrokerId(2), min_insync=2)
    assert after is not None
    assert (after.in_sync, after.eligible, after.last_known) == ((1,), (), (2,))
    assert after.partition_epoch == 8


def test_an_unclean_leader_loses_everything_at_once() -> None:
    after = strip_unclean(record((1,), eligible=(2,)), BrokerId(1), min_insync=2)
    assert after is not None
    assert (after.leader, after.in_sync, after.eligible, after.last_known) == (NO_BROKER, (), (2,), (1,))


def test_an_unclean_member_of_a_set_that_stays_large_enough_is_simply_out() -> None:
    after = strip_unclean(record(), BrokerId(3), min_insync=2)
    assert after is not None
    assert (after.in_sync, after.eligible, after.last_known) == ((1, 2), (), ())


def test_stripping_again_changes_nothing() -> None:
    after = strip_unclean(record((1,), eligible=(2,)), BrokerId(2), min_insync=2)
    assert after is not None
    assert strip_unclean(after, BrokerId(2), min_insync=2) is None


# -- draining -------------------------------------------------------------------------------------------


def test_a_draining_leader_moves_to_an_in_sync_member_and_the_set_stays() -> None:
    after = moved_from(record(), BrokerId(1), alive=only(2, 3))
    assert after is not None
    assert (after.leader, after.leader_epoch, after.in_sync) == (2, 6, (1, 2, 3))


@pytest.mark.parametrize(("in_sync", "alive"), [((1,), (2, 3)), ((1, 2), (3,))])
def test_a_draining_leader_without_an_alive_in_sync_member_stays(
    in_sync: tuple[int, ...], alive: tuple[int, ...]
) -> None:
    assert moved_from(record(in_sync), BrokerId(1), alive=only(*alive)) is None


def test_only_the_leader_is_moved_from() -> None:
    assert moved_from(record(), BrokerId(2), alive=only(1, 3)) is None


# -- together -------------------------------------------------------------------------------------------


def test_losing_and_electing_a_leader_is_one_write_with_one_epoch_each() -> None:
    after = successor(record(), registered=only(2, 3), alive=only(2, 3), min_insync=2)
    assert after is not None
    assert (after.leader, after.leader_epoch, after.partition_epoch, after.in_sync) == (2, 6, 8, (2, 3))


def test_two_brokers_lost_together_leave_the_third_leading_and_both_eligible() -> None:
    after = successor(record(), registered=only(3), alive=only(3), min_insync=2)
    assert after is not None
    assert (after.leader, after.in_sync, after.eligible) == (3, (3,), (1, 2))


def test_all_brokers_lost_in_one_write_leave_an_empty_set_and_all_are_eligible() -> None:
    after = successor(record(), registered=only(), alive=only(), min_insync=2)
    assert after is not None
    assert (after.leader, after.in_sync, after.eligible) == (NO_BROKER, (), (1, 2, 3))


def test_a_draining_broker_is_not_elected_and_stays_in_sync() -> None:
    after = successor(record((1, 2)), registered=only(2), alive=only(), min_insync=2)
    assert after is not None
    assert (after.leader, after.in_sync, after.eligible) == (NO_BROKER, (2,), (1,))


def test_a_healthy_partition_stays_as_it_is() -> None:
    assert successor(record(), registered=only(1, 2, 3), alive=only(1, 2, 3), min_insync=2) is None


def test_a_leaderless_partition_that_nobody_may_lead_stays_as_it_is() -> None:
    before = record((), leader=NO_BROKER, eligible=(2,))
    assert successor(before, registered=only(1, 3), alive=only(1, 3), min_insync=2) is None
