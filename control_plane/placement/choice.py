"""Which brokers a topic's partitions go to now: the planner, asked with what the cluster looks like."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from data_plane.placement.planner import Assignment, BrokerView, PlacementRefused, plan
from penstock.contract.errors import BrokerUnavailable


class SeenBroker(Protocol):
    """What must be known of a broker."""

    @property
    def id(self) -> int: ...
    @property
    def zone(self) -> str: ...
    @property
    def host(self) -> str: ...
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
    """One assignment a partition, leaders spread over the brokers that live.

    Raises `PlacementRefused` when the cluster has too few brokers, `BrokerUnavailable` when it has enough and too few
    of them are there now.
    """
    return assignments_of_all([(partitions, replication)], brokers)[0]


def assignments_of_all(
    topics: Sequence[tuple[int, int]], brokers: Iterable[SeenBroker]
) -> list[tuple[Assignment, ...]]:
    """The assignments of each topic, which has (partitions, replication); each counts for the choice of the next.

    Raises as `assignments` does.
    """
    seen = list(brokers)
    known = broker_views(seen)
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    placed = []
    for partitions, replication in topics:
        views = [
            replace(view, replicas=view.replicas + replicas[view.id], leaders=view.leaders + leaders[view.id])
            for view in known
        ]
        try:
            placed.append(plan(partitions, replication, views))
        except PlacementRefused as refused:
            if sum(not broker.cordoned for broker in seen) < replication:
                raise
            raise BrokerUnavailable(refused.message) from None
        replicas.update(broker for assignment in placed[-1] for broker in assignment)
        leaders.update(assignment[0] for assignment in placed[-1])
    return placed


def broker_views(brokers: Iterable[SeenBroker]) -> list[BrokerView]:
    """For the planner: a cordoned broker is given nothing, like one that drains."""
    return [
        BrokerView(
            id=b.id,
            zone=b.zone,
            host=b.host,
            replicas=b.replicas,
            leaders=b.leaders,
            state="draining" if b.cordoned else b.state,
        )
        for b in brokers
    ]
