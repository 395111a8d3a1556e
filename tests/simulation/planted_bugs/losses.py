"""Wrong decisions about elections that may lose something."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from data_plane.controller.losses import ReplicaEnd
from data_plane.metadata.model import PartitionRecord
from penstock.contract.ids import NO_BROKER, BrokerId
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.planted_bugs.replacements import answers
from tests.unit.controller import test_losses
from tests.unit.controller.setup import record

_LOSSES = "data_plane.controller.losses"


def _once_one_is_back(right: Any) -> Callable[..., bool]:
    def all_back(record: PartitionRecord, ends: Mapping[BrokerId, ReplicaEnd]) -> bool:
        return any(broker in ends for broker in record.last_known)

    return all_back


def _whatever_is_wrong_with_it(right: Any) -> Callable[..., bool]:
    def all_back(record: PartitionRecord, ends: Mapping[BrokerId, ReplicaEnd]) -> bool:
        return all(broker in ends for broker in record.last_known)

    return all_back


def _the_first_one(right: Any) -> Callable[..., ReplicaEnd]:
    return lambda ends: ends[0]


def _by_length_alone(right: Any) -> Callable[..., ReplicaEnd]:
    def longest(ends: Sequence[ReplicaEnd]) -> ReplicaEnd:
        return max(ends, key=lambda end: end.log_end_offset)

    return longest


def _while_others_are_eligible(right: Any) -> Callable[..., bool]:
    return lambda record: record.leader == NO_BROKER and bool(record.last_known)


def _in_the_same_generation(right: Any) -> Callable[..., PartitionRecord]:
    def led_after_loss(record: PartitionRecord, leader: BrokerId) -> PartitionRecord:
        after: PartitionRecord = right(record, leader)
        return replace(after, log_generation=record.log_generation, generation_epoch=record.generation_epoch)

    return led_after_loss


def _with_everybody_in_sync(right: Any) -> Callable[..., PartitionRecord]:
    def led_after_loss(record: PartitionRecord, leader: BrokerId) -> PartitionRecord:
        after: PartitionRecord = right(record, leader)
        return replace(after, in_sync=record.replicas)

    return led_after_loss


def _for_ever(right: Any) -> Callable[..., bool]:
    return lambda record, *, last_epoch: record.generation_epoch > 0


def _with_its_damage(right: Any) -> property:
    return property(lambda end: end.log_end_offset)


def _remembered(right: Any) -> Callable[..., PartitionRecord]:
    return lambda record, broker: record


BUGS = (
    PlantedBug(
        name="an election with a loss before every replica is back",
        rule="RL47",
        target=f"{_LOSSES}:all_back",
        wrong=_once_one_is_back,
        finders=(
            Check(test=test_losses.test_nobody_is_elected_before_all_last_known_replicas_have_answered),
        ),
    ),
    PlantedBug(
        name="a damaged replica is as good as any",
        rule="RL47",
        target=f"{_LOSSES}:all_back",
        wrong=_whatever_is_wrong_with_it,
        finders=(Check(test=test_losses.test_a_damaged_replica_leaves_the_choice_to_an_operator),),
    ),
    PlantedBug(
        name="the first replica is elected, not the longest",
        rule="RL47",
        target=f"{_LOSSES}:longest",
        wrong=_the_first_one,
        finders=(Check(test=test_losses.test_the_longest_log_of_the_highest_epoch_is_elected),),
    ),
    PlantedBug(
        name="a longer log wins over a higher epoch",
        rule="RL47",
        target=f"{_LOSSES}:longest",
        wrong=_by_length_alone,
        finders=(Check(test=test_losses.test_a_higher_epoch_wins_over_a_longer_log),),
    ),
    PlantedBug(
        name="a loss is risked while others are eligible",
        rule="RL47",
        target=f"{_LOSSES}:awaits_last_known",
        wrong=_while_others_are_eligible,
        finders=(
            Check(
                test=partial(
                    test_losses.test_nothing_is_risked_while_somebody_else_may_lead_or_nobody_is_known,
                    record((), leader=NO_BROKER, eligible=(2,), last_known=(3,)),
                )
            ),
        ),
    ),
    PlantedBug(
        name="a loss begins no log generation",
        rule="RL48",
        target=f"{_LOSSES}:led_after_loss",
        wrong=_in_the_same_generation,
        finders=(
            Check(test=test_losses.test_an_operator_may_name_a_replica_when_a_last_known_one_never_returns),
        ),
    ),
    PlantedBug(
        name="after a loss every replica is in sync",
        rule="RL47",
        target=f"{_LOSSES}:led_after_loss",
        wrong=_with_everybody_in_sync,
        finders=(Check(test=test_losses.test_the_longest_log_of_the_highest_epoch_is_elected),),
    ),
    PlantedBug(
        name="an election is forced without need",
        rule="RL48",
        target=f"{_LOSSES}:why_not",
        wrong=answers(""),
        finders=(Check(test=test_losses.test_a_loss_is_never_risked_without_need),),
    ),
    PlantedBug(
        name="after a loss a log may be truncated without an end",
        rule="RL31",
        target=f"{_LOSSES}:begins_below",
        wrong=_for_ever,
        finders=(
            Check(
                test=test_losses.test_a_log_may_be_cut_below_its_watermark_only_until_it_has_begun_the_new_generation
            ),
        ),
    ),
    PlantedBug(
        name="the only copy goes on with its damage",
        rule="RL122",
        target=f"{_LOSSES}:ReplicaEnd.end_offset",
        wrong=_with_its_damage,
        finders=(Check(test=test_losses.test_the_only_copy_is_repaired_where_its_damage_begins),),
    ),
    PlantedBug(
        name="an emptied directory is waited for",
        rule="RL54",
        target="data_plane.replication.eligibility:forgotten",
        wrong=_remembered,
        finders=(
            Check(
                test=partial(
                    test_losses.test_nobody_waits_for_an_emptied_log_directory, test_losses.lost((1, 2))
                )
            ),
        ),
    ),
)
