"""Wrong decisions about moving replicas and leaders on purpose."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from data_plane.controller.elections import Alive
from data_plane.metadata.model import PartitionRecord
from data_plane.replication.leader import LeaderState
from penstock.contract.ids import BrokerId
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.planted_bugs.replacements import answers, asked_about
from tests.unit.controller import test_cordons, test_leader_return, test_reassignment
from tests.unit.replication import test_handing_over, test_in_sync_set

_REASSIGNMENT = "data_plane.controller.reassignment"
_RETURN = "data_plane.controller.leader_return"
_LEADER = "data_plane.replication.leader:LeaderState"


def _not_waiting_for_the_added(right: Any) -> Callable[..., bool]:
    def may_finish(record: PartitionRecord, min_insync: int) -> bool:
        staying = [broker for broker in record.target if broker in record.in_sync]
        return bool(record.target) and len(staying) >= max(min_insync, 1)

    return may_finish


def _with_too_few(right: Any) -> Callable[..., bool]:
    def may_finish(record: PartitionRecord, min_insync: int) -> bool:
        return bool(right(record, 1))

    return may_finish


def _cancelled_at_once(right: Any) -> Callable[..., bool]:
    def may_finish(record: PartitionRecord, min_insync: int) -> bool:
        cancel = bool(record.target) and not any(b in record.adding for b in record.target)
        return bool(right(record, 1 if cancel else min_insync))

    return may_finish


def _in_the_same_epoch(right: Any) -> Callable[..., PartitionRecord | None]:
    def finished(record: PartitionRecord, **named: Any) -> PartitionRecord | None:
        after = right(record, **named)
        return None if after is None else replace(after, leader_epoch=record.leader_epoch)

    return finished


def _to_whoever_is_alive(right: Any) -> Callable[..., PartitionRecord | None]:
    def handed_over(record: PartitionRecord, to: BrokerId, *, alive: Alive) -> PartitionRecord | None:
        if to == record.leader or not alive(to):
            return None
        return record.changed(leader=to, leader_epoch=record.leader_epoch + 1)

    return handed_over


def _while_it_takes(right: Any) -> Callable[..., bool]:
    def handed_to(leader: LeaderState, broker: BrokerId) -> bool:
        return broker in leader.maximal and leader.counted_end_of(broker) >= leader.log_end

    return handed_to


def _before_it_holds_all(right: Any) -> Callable[..., bool]:
    return lambda leader, broker: not leader.taking and broker in leader.maximal


BUGS = (
    PlantedBug(
        name="join without having opened in this epoch",
        rule="RL34",
        target="data_plane.replication.in_sync:may_join",
        wrong=asked_about(following=True),
        finders=(
            Check(
                test=partial(
                    test_in_sync_set.test_each_condition_alone_keeps_a_follower_out,
                    broken={"following": False},
                )
            ),
        ),
    ),
    PlantedBug(
        name="a replica that comes back is the old one",
        rule="RL39",
        target=f"{_REASSIGNMENT}:new_generation",
        wrong=answers(1),
        finders=(Check(test=test_reassignment.test_a_replica_that_comes_back_is_a_new_one),),
    ),
    PlantedBug(
        name="a reassignment does not wait for who was added",
        rule="RL52",
        target=f"{_REASSIGNMENT}:may_finish",
        wrong=_not_waiting_for_the_added,
        finders=(Check(test=test_reassignment.test_it_ends_only_with_every_added_replica_in_sync),),
    ),
    PlantedBug(
        name="a reassignment ends with too few in sync",
        rule="RL52",
        target=f"{_REASSIGNMENT}:may_finish",
        wrong=_with_too_few,
        finders=(
            Check(test=test_reassignment.test_it_does_not_end_below_the_number_in_sync_that_is_demanded),
        ),
    ),
    PlantedBug(
        name="a cancel obeys no bound",
        rule="RL52",
        target=f"{_REASSIGNMENT}:may_finish",
        wrong=_cancelled_at_once,
        finders=(
            Check(
                test=test_reassignment.test_a_cancel_goes_back_to_the_replicas_before_and_obeys_the_same_bound
            ),
        ),
    ),
    PlantedBug(
        name="a reassignment ends in the same leader epoch",
        rule="RL4",
        target=f"{_REASSIGNMENT}:finished",
        wrong=_in_the_same_epoch,
        finders=(Check(test=test_reassignment.test_a_leader_that_stays_leads_on_in_the_next_epoch),),
    ),
    PlantedBug(
        name="leadership is handed to a replica out of sync",
        rule="RL51",
        target=f"{_RETURN}:handed_over",
        wrong=_to_whoever_is_alive,
        finders=(
            Check(
                test=partial(
                    test_leader_return.test_only_another_in_sync_replica_that_is_alive_is_handed_leadership,
                    to=3,
                )
            ),
        ),
    ),
    PlantedBug(
        name="leadership is handed over while batches are taken",
        rule="RL50",
        target=f"{_LEADER}.handed_to",
        wrong=_while_it_takes,
        finders=(Check(test=test_handing_over.test_nothing_is_handed_over_while_batches_are_taken),),
    ),
    PlantedBug(
        name="leadership is handed to one who does not hold everything",
        rule="RL50",
        target=f"{_LEADER}.handed_to",
        wrong=_before_it_holds_all,
        finders=(
            Check(test=test_handing_over.test_the_next_leader_must_hold_everything_and_all_must_be_committed),
        ),
    ),
    PlantedBug(
        name="a broker that still holds something is forgotten",
        rule="RL53",
        target="data_plane.controller.cordons:kept_on",
        wrong=answers([]),
        finders=(
            Check(
                test=test_cordons.test_a_broker_is_forgotten_only_when_it_was_drained_stopped_and_holds_nothing
            ),
        ),
    ),
)
