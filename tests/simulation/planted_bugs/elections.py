"""Bugs in who may be elected."""

from data_plane.controller import elections
from data_plane.controller.elections import Alive
from data_plane.metadata.model import PartitionRecord
from data_plane.node.config import Timings
from data_plane.testkit.faults import FaultKind, Step
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.store import StoreFaults
from data_plane.testkit.swarm import Plan
from penstock.contract.ids import NO_BROKER, BrokerId
from penstock.contract.topic_settings import Durability
from tests.simulation.planting import PlantedBug, Seeds, directed

_LOSES = (Invariant.I1, Invariant.I3, Invariant.I10, Invariant.I11)


def _anybody_alive(record: PartitionRecord, alive: Alive) -> BrokerId:
    return next((broker for broker in record.replicas if alive(broker)), NO_BROKER)


def _unclean_stays_eligible(
    record: PartitionRecord, broker: BrokerId, *, min_insync: int
) -> PartitionRecord | None:
    return elections.without_broker(record, broker, min_insync=min_insync)


def _lagging(seed: int) -> Plan:
    """Leaders that fall while somebody lags."""
    return directed(
        seed,
        (FaultKind.PAUSE, Step.CATCH_UP),
        (FaultKind.KILL, Step.PRODUCE),
        chaos_s=15.0,
        timings=Timings(replica_lag_ms_max=1_000, in_sync_check_ms=100),
    )


def _relaxed_losses(seed: int) -> Plan:
    """A relaxed topic: power is lost where few are in sync, and the others then fall silent."""
    return directed(
        seed,
        (FaultKind.PAUSE, Step.CATCH_UP),
        (FaultKind.POWER_CUT, Step.PRODUCE),
        (FaultKind.CUT, Step.PRODUCE),
        (FaultKind.PAUSE, Step.PRODUCE),
        chaos_s=25.0,
        topic={"durability": Durability.REPLICATED, "flush_ms": 5_000},
        timings=Timings(replica_lag_ms_max=1_000, in_sync_check_ms=100),
        store=StoreFaults(),
    )


BUGS = (
    PlantedBug(
        name="anybody alive is elected",
        rule="RL41",
        target="data_plane.controller.elections:candidate",
        replacement=_anybody_alive,
        breaks=_LOSES,
        finder=Seeds(plan=_lagging),
    ),
    PlantedBug(
        name="a replica that lost data stays eligible",
        rule="RL44",
        target="data_plane.controller.elections:strip_unclean",
        replacement=_unclean_stays_eligible,
        breaks=_LOSES,
        finder=Seeds(plan=_relaxed_losses, count=40),
    ),
)
