"""Wrong decisions about where logs part and where they are cut."""

from collections.abc import Callable
from typing import Any

from data_plane.replication.follower import FollowerState, Phase
from tests.properties.replication import test_partition_model
from tests.simulation import plans
from tests.simulation.bug import PlantedBug
from tests.simulation.finders import Model, Seeds

_MANY_EPOCHS = test_partition_model.run


def _at_the_watermark(right: Any) -> Callable[..., int]:
    def diverging(follower: FollowerState, **_: object) -> int:
        follower.phase = Phase.IDLE
        return follower.high_watermark

    return diverging


def _never(right: Any) -> Callable[..., None]:
    return lambda position, *, epoch_lookup, log_end: None


def _leaders_end_alone(right: Any) -> Callable[..., int]:
    return lambda *, epoch_lookup, log_end, divergence_epoch, divergence_end: min(log_end, divergence_end)


BUGS = (
    PlantedBug(
        name="truncate to the watermark",
        rule="RL24",
        target="data_plane.replication.follower:FollowerState.diverging",
        wrong=_at_the_watermark,
        finders=(
            Model(run=_MANY_EPOCHS, first=0, by=("I10",), tries=600),
            Seeds(plan=plans.left_with_a_tail, first=3, by=("I10",)),
        ),
    ),
    PlantedBug(
        name="no divergence seen",
        rule="RL25",
        target="data_plane.replication.leader:divergence",
        wrong=_never,
        finders=(Model(run=_MANY_EPOCHS, first=0, by=("I10", "I11")),),
    ),
    PlantedBug(
        name="own epoch's end ignored when truncating",
        rule="RL26",
        target="data_plane.replication.follower:truncation_point",
        wrong=_leaders_end_alone,
        finders=(Model(run=_MANY_EPOCHS, first=570, by=("I20",)),),
    ),
)
