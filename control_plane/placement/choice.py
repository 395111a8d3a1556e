"""Which brokers a topic's partitions go to now: the planner, asked with what the cluster looks like."""

from collections.abc import Iterable
from typing import Protocol

from control_plane.placement.planner import Assignment, BrokerView, plan


class SeenBroker(Protocol):
    """What must be known of a broker."""

    @property
    def id(self) -> int: ...
    @property
    def zone(self) -> str: ...
    @property
    def replicas(self) -> int: ...
    @property
    def leaders(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def cordoned(self) -> bool:
        """Whether an operator wants it empty."""


def assignments(partitions: int, replication: int, brokers: Iterable[SeenBroker]) -> tuple[Assignment, ...]:
    """One assignment a partition, leaders spread over the brokers that live. Raises `PlacementRefused`."""
    views = [
        BrokerView(id=b.id, zone=b.zone, replicas=b.replicas, leaders=b.leaders, state=_state(b))
        for b in brokers
    ]
    return plan(partitions, replication, views)


def _state(broker: SeenBroker) -> str:
    """A cordoned broker is given nothing, like one that drains."""
    return "draining" if broker.cordoned else broker.state
