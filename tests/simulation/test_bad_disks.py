"""Disks that lie, hang, come back empty or belong to another broker: each alone, with nothing but it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from data_plane.disk.port import Disk
from data_plane.node.config import NodeConfig
from data_plane.node.log_directory import directory
from data_plane.node.log_directory.directory import Directory
from data_plane.node.ports import Rng
from data_plane.testkit.faults import FaultKind, Step
from data_plane.testkit.scenario import Scenario
from data_plane.testkit.swarm import Plan
from tests.simulation.bug import planted
from tests.simulation.plans import plan_of

pytestmark = pytest.mark.slow


def one_fault(fault: FaultKind, seed: int) -> Plan:
    """Again and again, with time between for the replicas to come in sync."""
    return replace(plan_of(seed, (fault,), (Step.PRODUCE, Step.IDLE)), fault_gap_s=1.0, chaos_s=10.0)


@pytest.mark.parametrize(
    "fault",
    [
        FaultKind.LYING_SYNC,
        FaultKind.STUCK_READ,
        FaultKind.SLOW_LINK,
        FaultKind.EMPTIED_DIRECTORY,
        FaultKind.SWAPPED_DIRECTORY,
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_acknowledged_outlives_a_bad_disk_or_link(fault: FaultKind, seed: int) -> None:
    result = Scenario(one_fault(fault, seed)).run()
    assert result.passed, f"{result.violated}: {result.explanation}"
    assert sum(result.reached.values()) > 1
    if fault is FaultKind.SWAPPED_DIRECTORY:
        assert result.counts["wrong directories refused"] > 0
    if fault is FaultKind.LYING_SYNC:
        assert result.counts["lies met by a power cut"] > 0


def _whosever_it_is(right: Callable[[Disk, NodeConfig, Rng], Directory]) -> Any:
    def opened(disk: Disk, config: NodeConfig, rng: Rng) -> Directory:
        identity = directory._read_identity(disk)
        whose = config.broker_id if identity is None else identity["broker_id"]
        return right(disk, replace(config, broker_id=whose), rng)

    return opened


def test_a_broker_that_takes_anothers_log_directory_is_found() -> None:
    with planted("data_plane.node.log_directory.directory:open_directory", _whosever_it_is):
        result = Scenario(one_fault(FaultKind.SWAPPED_DIRECTORY, 1)).run()
    assert result.violated in ("I10", "I11", "I19"), f"{result.violated}: {result.explanation}"
