"""Wrong decisions of the controller, and of brokers about their registration."""

from collections.abc import Callable
from typing import Any

from data_plane.controller import elections
from data_plane.metadata.model import PartitionRecord
from penstock.contract.ids import BrokerId
from tests.properties.replication import test_partition_model
from tests.simulation.bug import PlantedBug
from tests.simulation.finders import Model, Registering

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
)
