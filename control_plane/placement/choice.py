"""Which brokers a topic's partitions go to now: the planner, asked with what the cluster looks like."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from control_plane.brokers.view import BrokerLoadSeen
from data_plane.placement.planner import Assignment, BrokerView, PlacementRefused, plan
from penstock.contract.errors import BrokerUnavailable
from penstock.rules.domains import ACTIVE


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Partitions to be placed. `within` are the brokers of the tenant's cell, None = all; `draw` is the topic's id."""

    partitions: int
    replication: int
    within: tuple[int, ...] | None = None
    draw: bytes = b""


def assignments(
    wanted: Wanted, brokers: Iterable[SeenBroker], loads: Mapping[int, BrokerLoadSeen] = MappingProxyType({})
) -> tuple[Assignment, ...]:
    """One assignment a partition, leaders spread over the brokers that live.

    Raises `PlacementRefused` when the cluster, or the cell, has too few brokers, `BrokerUnavailable` when it has enough
    and too few of them are there now.
    """
    return assignments_of_all([wanted], brokers, loads)[0]


def assignments_of_all(
    topics: Sequence[Wanted],
    brokers: Iterable[SeenBroker],
    loads: Mapping[int, BrokerLoadSeen] = MappingProxyType({}),
) -> list[tuple[Assignment, ...]]:
    """The assignments of each topic; each counts for the choice of the next.

    Raises as `assignments` does.
    """
    seen = list(brokers)
    known = broker_views(seen, loads)
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    placed = []
    for wanted in topics:
        views = [
            replace(view, replicas=view.replicas + replicas[view.id], leaders=view.leaders + leaders[view.id])
            for view in known
            if wanted.within is None or view.id in wanted.within
        ]
        try:
            placed.append(plan(wanted.partitions, wanted.replication, views, wanted.draw if loads else b""))
        except PlacementRefused as refused:
            usable = sum(not broker.cordoned and broker.id in {v.id for v in views} for broker in seen)
            message = refused.message + ("" if wanted.within is None else "; the tenant is in a cell")
            if usable < wanted.replication:
                raise PlacementRefused(message) from None
            raise BrokerUnavailable(message) from None
        replicas.update(broker for assignment in placed[-1] for broker in assignment)
        leaders.update(assignment[0] for assignment in placed[-1])
    return placed


def broker_views(
    brokers: Iterable[SeenBroker], loads: Mapping[int, BrokerLoadSeen] = MappingProxyType({})
) -> list[BrokerView]:
    """For the planner: a cordoned broker is given nothing, like one that drains. Loads count if every active broker has
    said its own."""
    seen = list(brokers)
    known = loads if all(b.id in loads for b in seen if b.state == ACTIVE) else {}
    return [
        BrokerView(
            id=b.id,
            zone=b.zone,
            host=b.host,
            replicas=b.replicas,
            leaders=b.leaders,
            state="draining" if b.cordoned else b.state,
            log_bytes=known[b.id].log_bytes if b.id in known else 0,
            bytes_per_s=known[b.id].bytes_in_per_s + known[b.id].bytes_out_per_s if b.id in known else 0,
            connections=known[b.id].connections if b.id in known else 0,
        )
        for b in seen
    ]
