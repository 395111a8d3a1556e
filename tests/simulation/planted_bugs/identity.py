"""Wrong decisions about who is who: epochs, registrations, and who may act."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

from data_plane.controller.registration import FenceFirst, Register
from data_plane.metadata import broker_records, model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Compare, KeyValue, Put
from data_plane.node.replicas.assignment import Assignment
from data_plane.node.replicas.replica import Replica
from data_plane.replication.leader import LeaderState
from penstock.client.cluster_view import PartitionView
from penstock.contract.errors import ErrorCode
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.planted_bugs.replacements import answers, nothing
from tests.unit.client import test_cluster_view
from tests.unit.controller import test_plan, test_registration, test_suspicion, test_topics
from tests.unit.node.replicas import test_coming_back
from tests.unit.replication import test_in_sync_set, test_opening

_ELECTIONS = "data_plane.controller.elections"
_REGISTRATION = "data_plane.controller.registration"


def _over_the_living(right: Any) -> Callable[..., object]:
    """Registers over another incarnation that is not fenced."""

    def registration(
        live: KeyValue | None, known: Any, record: Any, mine: Any, session_id: int, *supported: Any
    ) -> object:
        step = right(live, known, record, mine, session_id, *supported)
        if not isinstance(step, FenceFirst):
            return step
        put = Put(broker_records.live_key(record.broker_id), mine.encode(), session_id)
        return Register(
            step.compares, (put, Put(broker_records.broker_key(record.broker_id), record.encode()))
        )

    return registration


def _in_the_old_epoch(right: Any) -> Callable[..., object]:
    return lambda before, after: replace(right(before, after), leader_epoch=before.leader_epoch)


def _whatever_is_seen(right: Any) -> Callable[..., bool]:
    def record_seen(leader: LeaderState, record: model.PartitionRecord) -> bool:
        leader._resolve_change(record, own=False)
        return record.leader == leader.me and record.leader_epoch == leader.leader_epoch

    return record_seen


def _without_compares(wanted: Callable[[Compare], bool]) -> Callable[[Any], Callable[..., Any]]:
    """The right transaction, with fewer comparisons."""

    def wrong(right: Any) -> Callable[..., Any]:
        def decide(*arguments: Any, **named: Any) -> Any:
            made = right(*arguments, **named)
            if made is None:
                return None
            if isinstance(made, tuple):
                return tuple(compare for compare in made[0] if wanted(compare)), *made[1:]
            return replace(made, compares=tuple(compare for compare in made.compares if wanted(compare)))

        return decide

    return wrong


def _is_live(compare: Compare) -> bool:
    return compare.key.startswith("/live/")


def _unburied(right: Any) -> Callable[..., Any]:
    """As if no topic had ever been deleted."""

    def create_topic(image: ClusterImage, *arguments: Any, **named: Any) -> Any:
        forgetful = copy(image)
        forgetful.buried, forgetful.tombstones = {}, {}
        made = right(forgetful, *arguments, **named)
        kept = tuple(compare for compare in made.compares if not compare.key.startswith("/tombstones/"))
        return replace(made, compares=kept)

    return create_topic


def _of_any_epoch(right: Any) -> Callable[..., bool]:
    def apply_partition(view: PartitionView, message: Any, current: bool) -> bool:
        view.leader_epoch = min(view.leader_epoch, message.leader_epoch)
        applied: bool = right(view, message, current)
        return applied

    return apply_partition


def _when_it_is_at_rest(right: Any) -> Callable[..., None]:
    """What a busy replica was given lasts until it is at rest, over the end of the registration."""

    def give_role(assignment: Assignment, replica: Replica) -> None:
        if replica.busy:
            replica.on_settled = assignment.give_role
        else:
            right(assignment, replica)

    return give_role


BUGS = (
    PlantedBug(
        name="a topic id is used again",
        rule="RL1",
        target="data_plane.controller.topics:create_topic",
        wrong=_unburied,
        finders=(
            Check(
                test=test_topics.test_a_taken_name_and_a_used_topic_id_are_refused,
                arguments=lambda: {"store": test_topics.fresh_store()},
            ),
        ),
    ),
    PlantedBug(
        name="registered over the living",
        rule="RL3",
        target=f"{_REGISTRATION}:registration",
        wrong=_over_the_living,
        finders=(
            Check(test=test_registration.test_another_incarnation_is_fenced_first_and_gets_a_higher_epoch),
        ),
    ),
    PlantedBug(
        name="a busy replica follows on into the next registration",
        rule="RL3",
        target="data_plane.node.replicas.assignment:Assignment.give_role",
        wrong=_when_it_is_at_rest,
        finders=(
            Check(
                test=test_coming_back.test_what_a_busy_replica_followed_is_opened_again_under_the_new_registration
            ),
        ),
    ),
    PlantedBug(
        name="a new leader in the old epoch",
        rule="RL4",
        target=f"{_ELECTIONS}:as_one_write",
        wrong=_in_the_old_epoch,
        finders=(Check(test=test_plan.test_a_fenced_leader_is_replaced_and_then_nothing_is_left_to_do),),
    ),
    PlantedBug(
        name="a record that is not newer resolves what is open",
        rule="RL5",
        target="data_plane.replication.leader:LeaderState.record_seen",
        wrong=_whatever_is_seen,
        finders=(
            Check(
                test=test_in_sync_set.test_a_record_of_the_same_partition_epoch_does_not_settle_an_unknown_outcome
            ),
        ),
    ),
    PlantedBug(
        name="an election that does not compare the partition block",
        rule="RL5",
        target=f"{_ELECTIONS}:rewritten_block",
        wrong=_without_compares(_is_live),
        finders=(
            Check(test=test_plan.test_an_election_compares_the_cell_and_the_registration_of_the_elected),
        ),
    ),
    PlantedBug(
        name="any leader epoch is answered",
        rule="RL7",
        target="data_plane.replication.opening:checked_epoch",
        wrong=nothing,
        finders=(
            Check(
                test=partial(
                    test_opening.test_only_the_equal_leader_epoch_is_answered,
                    epoch=4,
                    code=ErrorCode.FENCED_LEADER_EPOCH,
                )
            ),
        ),
    ),
    PlantedBug(
        name="a client believes a leader of before",
        rule="RL7",
        target="penstock.client.cluster_view:_apply_partition",
        wrong=_of_any_epoch,
        finders=(Check(test=test_cluster_view.test_a_lower_leader_epoch_never_counts),),
    ),
    PlantedBug(
        name="the broker that is registered now is fenced",
        rule="RL8",
        target=f"{_ELECTIONS}:fence_changes",
        wrong=_without_compares(lambda compare: False),
        finders=(Check(test=test_plan.test_fencing_compares_the_registration_that_was_suspected),),
    ),
    PlantedBug(
        name="two take the controller's seat",
        rule="RL9",
        target=f"{_REGISTRATION}:takeover_changes",
        wrong=_without_compares(lambda compare: False),
        finders=(Check(test=test_registration.test_of_two_that_take_over_one_succeeds),),
    ),
    PlantedBug(
        name="a fenced broker changes its partitions",
        rule="RL9",
        target=f"{_ELECTIONS}:strip_replica",
        wrong=_without_compares(lambda compare: not _is_live(compare)),
        finders=(Check(test=test_plan.test_a_broker_gives_up_a_damaged_replica_under_its_own_registration),),
    ),
    PlantedBug(
        name="all take over at once",
        rule="RL10",
        target="data_plane.controller.suspicion:takeover_delay_ms",
        wrong=answers(0),
        finders=(
            Check(test=test_suspicion.test_the_lowest_active_broker_besides_the_controller_takes_over_first),
        ),
    ),
    PlantedBug(
        name="a reset is no suspicion",
        rule="RL10",
        target="data_plane.controller.suspicion:is_due",
        wrong=lambda right: lambda *, lost, **named: right(lost=False, **named),
        finders=(Check(test=test_suspicion.test_a_lost_connection_is_due_at_once_and_a_beat_ends_it),),
    ),
)
