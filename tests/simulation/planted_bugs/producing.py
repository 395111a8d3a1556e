"""Bugs in what a producer is told, and in what of his is taken."""

from weakref import WeakKeyDictionary

from data_plane.log.producers import Producers
from data_plane.node.replica import Replica
from data_plane.replication.leader import LeaderState
from data_plane.testkit.faults import FaultKind, Step
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.swarm import Plan
from penstock.contract import errors
from tests.simulation.planting import PlantedBug, Seeds, directed, producer

_led: "WeakKeyDictionary[Replica, LeaderState]" = WeakKeyDictionary()


def _once_a_leader(self: Replica, claimed_epoch: int) -> LeaderState:
    """The fact as it was when somebody last looked."""
    if self.leading is not None:
        _led[self] = self.leading
    if self not in _led:
        raise errors.NotLeader(f"{self.name}: not led here")
    return _led[self]


def _surely_not_applied(self: Replica) -> None:
    """As `_drop_leadership`, but what was appended is called refused."""
    if self.leading is None:
        return
    self.leading = None
    lost = [*self._waiters, *self._late_waiters, *self._local_waiters]
    self._waiters.clear()
    self._late_waiters.clear()
    self._local_waiters.clear()
    for waiter in lost:
        waiter.outcome.error = errors.ErrorCode.NOT_LEADER
        waiter.answer(waiter.outcome)
    self._tell(self.on_role)


def _anything_goes(self: Producers, batch: object, last_accepted_ms: int, name: object) -> None:
    return None


def _failovers(seed: int) -> Plan:
    plan = directed(
        seed, (FaultKind.PAUSE, Step.PRODUCE), (FaultKind.CUT, Step.PRODUCE), (FaultKind.KILL, Step.PRODUCE),
        chaos_s=15.0, producers=(producer(-1), producer(-1), producer(-1, idempotent=False)),
    )  # fmt: skip
    return plan


BUGS = (
    PlantedBug(
        name="no epoch check after an await",
        rule="RL11",
        target="data_plane.node.replica:Replica.leadership",
        replacement=_once_a_leader,
        breaks=(Invariant.I1, Invariant.I2, Invariant.I3, Invariant.I4, Invariant.I10, Invariant.I11),
        finder=Seeds(plan=_failovers, count=30),
    ),
    PlantedBug(
        name="what was appended is refused when leadership moves",
        rule="RL16",
        target="data_plane.node.replica:Replica._drop_leadership",
        replacement=_surely_not_applied,
        breaks=(Invariant.I2,),
        finder=Seeds(plan=_failovers, count=30),
    ),
    PlantedBug(
        name="no sequence check",
        rule="RL61",
        target="data_plane.log.producers:Producers.check",
        replacement=_anything_goes,
        breaks=(Invariant.I4, Invariant.I5),
        finder=Seeds(plan=_failovers),
    ),
)
