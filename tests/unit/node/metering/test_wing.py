"""What runs of metering on a broker."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from data_plane.metadata.image import ClusterImage
from data_plane.metering.connection_time import ConnectionTime
from data_plane.node.metering.wing import Usage
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.stats import NodeStats
from data_plane.testkit.rng import SimRng
from tests.unit.node.metering.test_rounds import Clock
from tests.unit.node.storage import CONFIG

NOTHING: Any = None


@pytest.mark.pure  # its environment is a stand-in
@pytest.mark.parametrize("meters", [True, False])
def test_a_broker_that_meters_reads_writes_and_looks_for_what_is_not_served(meters: bool) -> None:
    environment: Any = SimpleNamespace(
        config=replace(CONFIG, metering=meters), transport=NOTHING, clock=Clock(), rng=SimRng(1), stats=NodeStats()
    )  # fmt: skip
    view: Any = SimpleNamespace(image=ClusterImage())
    usage = Usage(
        environment, view=view, store=NOTHING, replicas=ReplicaSet(), confident=lambda: True, leaderless=dict,
        connection_time=ConnectionTime(),
    )  # fmt: skip
    tasks: Any = usage.tasks()
    names = [task.__qualname__ for task in tasks]
    for task in tasks:
        task.close()
    every = ["UsageTopic.run", "Metering.run", "DeletedReplicas.run", "Metering.run_unserved"]
    assert names == (every if meters else [])
