"""Bugs in how a broker gets its authority."""

from data_plane.testkit.faults import FaultKind, Step
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.store import StoreFaults
from data_plane.testkit.swarm import Plan
from tests.simulation.planting import PlantedBug, Seeds, directed


def _never_mine(held: str, mine: str) -> bool:
    return False


def _no_answers(seed: int) -> Plan:
    """The store applies every transaction and not one answer arrives."""
    return directed(
        seed,
        (FaultKind.PAUSE, Step.IDLE),
        chaos_s=2.0,
        store=StoreFaults(answer_lost_chance=1.0, timeout_ms=200.0),
    )


BUGS = (
    PlantedBug(
        name="registration not idempotent",
        rule="RL2",
        target="data_plane.controller.registration:same_incarnation",
        replacement=_never_mine,
        breaks=(Invariant.I20,),
        finder=Seeds(plan=_no_answers, count=3),
    ),
)
