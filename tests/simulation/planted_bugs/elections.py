"""Wrong decisions of the controller, and of brokers about their registration."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from data_plane.controller import elections
from data_plane.controller.elections import Alive, registered_in
from data_plane.metadata.model import PartitionRecord
from penstock.contract.ids import NO_BROKER, BrokerId
from tests.properties.replication import test_partition_model
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.finders import Model, Registering
from tests.simulation.planted_bugs.replacements import always, answers, asked_about
from tests.unit.controller import (
    test_elections,
    test_generations,
    test_leader_return,
    test_plan,
    test_registration,
    test_topics,
    test_waits_in_vain,
)
from tests.unit.controller.setup import record

_MANY_EPOCHS = test_partition_model.run


def _never_mine(right: Any) -> Callable[..., bool]:
    return lambda held, mine: False


def _as_if_clean(right: Any) -> Callable[..., PartitionRecord | None]:
    def strip_unclean(
        record: PartitionRecord, broker: BrokerId, *, min_insync: int
    ) -> PartitionRecord | None:
        return elections.without_broker(record, broker, min_insync=min_insync)

    return strip_unclean


def _nothing(right: Any) -> Callable[..., list[object]]:
    return lambda *_, **__: []


def _anybody(right: Any) -> Callable[..., BrokerId]:
    def candidate(record: PartitionRecord, alive: Alive) -> BrokerId:
        return next((broker for broker in record.replicas if alive(broker)), NO_BROKER)

    return candidate


def _eligible_as_well(right: Any) -> Callable[..., BrokerId]:
    def candidate(record: PartitionRecord, alive: Alive) -> BrokerId:
        pool = record.in_sync + record.eligible
        return next((broker for broker in record.replicas if broker in pool and alive(broker)), NO_BROKER)

    return candidate


def _with_all_eligible(right: Any) -> Callable[..., PartitionRecord | None]:
    def elect(record: PartitionRecord, *, alive: Alive, min_insync: int) -> PartitionRecord | None:
        led: PartitionRecord | None = right(record, alive=alive, min_insync=min_insync)
        if led is None or record.in_sync:
            return led
        return replace(led, in_sync=tuple(b for b in record.replicas if b in record.eligible), eligible=())

    return elect


def _in_its_old_epoch(right: Any) -> Callable[..., PartitionRecord | None]:
    def without(record: PartitionRecord, gone: Alive, *, min_insync: int) -> PartitionRecord | None:
        left: PartitionRecord | None = right(record, gone, min_insync=min_insync)
        return None if left is None else replace(left, leader_epoch=record.leader_epoch)

    return without


def _out_of_the_set(right: Any) -> Callable[..., PartitionRecord | None]:
    def moved_from(record: PartitionRecord, broker: BrokerId, *, alive: Alive) -> PartitionRecord | None:
        moved: PartitionRecord | None = right(record, broker, alive=alive)
        return moved and replace(moved, in_sync=tuple(b for b in moved.in_sync if b != broker))

    return moved_from


def _to_whoever_is_alive(right: Any) -> Callable[..., BrokerId]:
    def move_back_to(record: PartitionRecord, *, alive: Alive, **_: Any) -> BrokerId:
        preferred = record.replicas[0]
        return NO_BROKER if record.leader in (NO_BROKER, preferred) or not alive(preferred) else preferred

    return move_back_to


def _without_a_trace(right: Any) -> Callable[..., Any]:
    def delete_topic(*arguments: Any, **named: Any) -> Any:
        made = right(*arguments, **named)
        kept = tuple(change for change in made.changes if not change.key.startswith("/tombstones/"))
        return replace(made, changes=kept)

    return delete_topic


BUGS = (
    PlantedBug(
        name="registration not idempotent",
        rule="RL2",
        target="data_plane.controller.registration:same_incarnation",
        wrong=_never_mine,
        finders=(Registering(),),
    ),
    PlantedBug(
        name="unclean replica stays eligible",
        rule="RL44",
        target="data_plane.controller.elections:strip_unclean",
        wrong=_as_if_clean,
        finders=(Model(run=_MANY_EPOCHS, first=0, by=("I10", "I11")),),
    ),
    PlantedBug(
        name="a broker returns with what it led",
        rule="RL42",
        target="data_plane.controller.elections:departures",
        wrong=_nothing,
        finders=(Model(run=_MANY_EPOCHS, first=0, by=("I10", "I11", "I13")),),
    ),
    PlantedBug(
        name="any broker that is alive is elected",
        rule="RL41",
        target="data_plane.controller.elections:candidate",
        wrong=_anybody,
        finders=(
            Check(test=test_elections.test_a_replica_out_of_sync_is_never_elected),
            Model(run=_MANY_EPOCHS, first=0, by=("I10", "I11", "I13")),
        ),
    ),
    PlantedBug(
        name="an eligible replica before an in-sync one",
        rule="RL41",
        target="data_plane.controller.elections:candidate",
        wrong=_eligible_as_well,
        finders=(
            Check(
                test=test_elections.test_an_eligible_replica_is_not_elected_while_the_in_sync_set_has_members
            ),
        ),
    ),
    PlantedBug(
        name="all eligible replicas are in sync again",
        rule="RL40",
        target="data_plane.controller.elections:elect",
        wrong=_with_all_eligible,
        finders=(Check(test=test_elections.test_an_eligible_replica_is_elected_into_an_empty_set_alone),),
    ),
    PlantedBug(
        name="a lost leader's epoch stays",
        rule="RL42",
        target="data_plane.controller.elections:without",
        wrong=_in_its_old_epoch,
        finders=(
            Check(
                test=test_elections.test_a_fenced_leader_leaves_leadership_and_set_and_the_epoch_rises_at_once
            ),
        ),
    ),
    PlantedBug(
        name="damage below the durable mark costs nothing",
        rule="RL45",
        target="data_plane.controller.elections:departures",
        wrong=asked_about(damaged=answers(False)(None)),
        finders=(Check(test=test_plan.test_a_damaged_replica_alone_is_stripped),),
    ),
    PlantedBug(
        name="a lower demand leaves the lists",
        rule="RL49",
        target="data_plane.controller.topics:_eased",
        wrong=answers({}),
        finders=(
            Check(
                test=test_generations.test_a_lower_demand_clears_whoever_was_electable_because_of_the_higher_one,
                arguments=lambda: {"store": test_generations.fresh_store()},
            ),
        ),
    ),
    PlantedBug(
        name="a draining broker is as good as any",
        rule="RL50",
        target="data_plane.controller.elections:alive_in",
        wrong=lambda right: registered_in,
        finders=(Check(test=test_plan.test_a_draining_leader_is_moved_away),),
    ),
    PlantedBug(
        name="a draining broker stops while it leads",
        rule="RL50",
        target="data_plane.controller.registration:may_stop",
        wrong=always,
        finders=(Check(test=test_registration.test_a_drained_broker_may_stop_when_it_leads_nothing),),
    ),
    PlantedBug(
        name="a draining broker waits for no other broker",
        rule="RL50",
        target="data_plane.controller.registration:waits_in_vain",
        wrong=always,
        finders=(
            Check(test=test_waits_in_vain.test_a_draining_leader_waits_while_an_in_sync_broker_can_take_over),
        ),
    ),
    PlantedBug(
        name="moving a leader takes it out of the set",
        rule="RL51",
        target="data_plane.controller.elections:moved_from",
        wrong=_out_of_the_set,
        finders=(
            Check(test=test_elections.test_a_draining_leader_moves_to_an_in_sync_member_and_the_set_stays),
        ),
    ),
    PlantedBug(
        name="the preferred leader returns out of sync",
        rule="RL51",
        target="data_plane.controller.leader_return:move_back_to",
        wrong=_to_whoever_is_alive,
        finders=(
            Check(
                test=partial(
                    test_leader_return.test_what_is_led_as_wanted_or_is_not_whole_stays,
                    stays=record((2, 3), leader=2),
                )
            ),
        ),
    ),
    PlantedBug(
        name="a topic is deleted without a tombstone",
        rule="RL53",
        target="data_plane.controller.topics:delete_topic",
        wrong=_without_a_trace,
        finders=(
            Check(
                test=test_topics.test_a_deleted_topic_leaves_its_tombstone_alone,
                arguments=lambda: {"store": test_topics.fresh_store()},
            ),
        ),
    ),
)
