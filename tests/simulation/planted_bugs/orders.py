"""What is done in the wrong order: answered, committed, noted or ended too early or too late."""

from collections.abc import Callable
from typing import Any

from data_plane.node.replicas.replica import Replica
from data_plane.replication.acknowledgement import AnswerWhen
from tests.properties.replication import test_leader_model
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.finders import Model
from tests.simulation.planted_bugs.replacements import nothing
from tests.unit.node.replicas import test_carrying_out
from tests.unit.replication import test_effects

_LEADER = "data_plane.replication.leader:LeaderState"
_CARRY_OUT = "data_plane.node.replicas.replica:Replica.carry_out"


def _as_soon_as_written(right: Any) -> Callable[..., AnswerWhen]:
    """The leader alone is asked, and answers before its sync."""
    return lambda acks, strict: AnswerWhen.COMMITTED if acks == -1 else AnswerWhen.WRITTEN


def _last(method: str) -> Callable[[Any], Callable[..., None]]:
    """What the log has to note first it notes behind everything else."""

    def wrong(right: Any) -> Callable[..., None]:
        def carry_out(replica: Replica) -> None:
            put_off: list[tuple[Any, ...]] = []
            setattr(replica.log, method, lambda *noted: put_off.append(noted))
            try:
                right(replica)
            finally:
                delattr(replica.log, method)
            for noted in put_off:
                getattr(replica.log, method)(*noted)

        return carry_out

    return wrong


BUGS = (
    PlantedBug(
        name="the leader answers before its own sync",
        rule="RL14",
        target="data_plane.replication.acknowledgement:answered_when",
        wrong=_as_soon_as_written,
        finders=(
            Check(
                test=test_carrying_out.test_the_leaders_acknowledgement_waits_for_its_disk_and_for_no_other_replica
            ),
        ),
    ),
    PlantedBug(
        name="the watermark counts a set that is only proposed",
        rule="RL15",
        target=f"{_LEADER}.in_sync_count",
        wrong=lambda right: property(lambda leader: len(leader.maximal)),
        finders=(
            Check(
                test=test_effects.test_the_watermark_does_not_move_before_the_store_has_confirmed_the_in_sync_set
            ),
            Model(run=test_leader_model.run, first=0, by=("I10",), tries=3_000),
        ),
    ),
    PlantedBug(
        name="answered before the log says that it is committed",
        rule="RL20",
        target=_CARRY_OUT,
        wrong=_last("set_high_watermark"),
        finders=(
            Check(
                test=test_carrying_out.test_a_batch_is_written_synced_pushed_committed_and_answered_in_that_order
            ),
        ),
    ),
    PlantedBug(
        name="a leader reads its log beyond its epoch",
        rule="RL38",
        target=f"{_LEADER}.end",
        wrong=nothing,
        finders=(Check(test=test_effects.test_a_leader_reads_its_log_while_its_epoch_lasts_and_not_after),),
    ),
)
