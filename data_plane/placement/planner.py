"""The planner: which brokers hold each partition of a new topic, and in what order. Pure and deterministic.

A zone is a failure domain (a host, unless the operator says otherwise). The plan keeps, in this order:

1. No broker holds a partition twice, and no zone holds more copies of one than the number of zones demands.
2. Each broker holds as many replicas of the topic as any other, give or take one, as far as 1 allows; who
   holds one more is who holds least in the whole cluster. So one topic's load is spread, and many small ones
   even out.
3. The same of leaders: the first broker of each assignment is the one that should lead.
4. Partitions led by one broker name different brokers next, so that its load is spread when it fails.

Step 2 fills brokers evenly and deals each partition its share of every zone (a fractional solution of such a
transportation problem can always be rounded). Step 3 moves leaderships along shortest augmenting paths until
none evens the counts any more: the optimum for convex costs on a flow (Ahuja, Magnanti, Orlin: Network Flows,
chapter 14).
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from penstock.contract import limits
from penstock.contract.errors import InvalidRequest
from penstock.contract.invariant import invariant

ACTIVE = "active"


class PlacementRefused(InvalidRequest):
    """The brokers that are there cannot hold what was asked for."""

    remedy: ClassVar[str] = "Start more brokers or ask for a lower replication."


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """A broker as the planner sees it. `replicas` and `leaders` count what it holds already, of all topics.

    Only brokers whose `state` is `active` are given anything.
    """

    id: int
    zone: str = ""
    """Empty = a zone of its own."""
    replicas: int = 0
    leaders: int = 0
    state: str = ACTIVE

    @property
    def failure_domain(self) -> str:
        return self.zone or f"broker {self.id}"


Assignment = tuple[int, ...]
"""Broker ids of one partition in order of preference; the first should lead."""


def plan(partitions: int, replication: int, brokers: Sequence[BrokerView]) -> tuple[Assignment, ...]:
    """One assignment a partition, each of `replication` distinct brokers.

    The same arguments give the same plan, whatever the order of `brokers`. Raises `PlacementRefused` when
    fewer brokers are active than copies are asked for, `InvalidRequest` when a number is out of its bounds.
    """
    if not 1 <= partitions <= limits.PARTITIONS_PER_TOPIC_MAX:
        raise InvalidRequest(f"partitions: {partitions} is not within 1 to {limits.PARTITIONS_PER_TOPIC_MAX}")
    if not 1 <= replication <= limits.REPLICATION_FACTOR_MAX:
        raise InvalidRequest(f"replication: {replication} is not within 1 to {limits.REPLICATION_FACTOR_MAX}")
    invariant(len({broker.id for broker in brokers}) == len(brokers), "each broker is seen once")
    active = sorted((broker for broker in brokers if broker.state == ACTIVE), key=lambda broker: broker.id)
    if len(active) < replication:
        raise PlacementRefused(_too_few(replication, brokers, len(active)))
    zones: dict[str, list[BrokerView]] = {}
    for broker in active:
        zones.setdefault(broker.failure_domain, []).append(broker)
    copies_max = _copies_a_zone(replication, zones)
    quotas = _replica_quotas(partitions, replication, zones, copies_max)
    holders = _deal(partitions, replication, zones, quotas)
    leaders = _choose_leaders(holders, {broker.id: broker.leaders for broker in active})
    return _in_order_of_preference(holders, leaders)


def _too_few(replication: int, brokers: Sequence[BrokerView], active: int) -> str:
    others = sorted((broker.id, broker.state) for broker in brokers if broker.state != ACTIVE)
    listed = ", ".join(f"{number} is {state}" for number, state in others[:10])
    return f"replication: {replication} brokers required, {active} active" + (
        f" ({listed})" if listed else ""
    )


def _copies_a_zone(replication: int, zones: dict[str, list[BrokerView]]) -> dict[str, int]:
    """The most copies of one partition each zone may hold: the smallest even bound that has enough capacity."""
    bound = 1
    while sum(min(bound, len(members)) for members in zones.values()) < replication:
        bound += 1
    return {zone: min(bound, len(members)) for zone, members in zones.items()}


def _replica_quotas(
    partitions: int, replication: int, zones: dict[str, list[BrokerView]], copies_max: dict[str, int]
) -> dict[int, int]:
    """How many replicas of the topic each broker gets: as even as the zones allow, the least loaded first."""
    quotas = {broker.id: 0 for members in zones.values() for broker in members}
    capacity = {zone: partitions * copies_max[zone] for zone in zones}
    heap = [(0, broker.replicas, broker.id, zone) for zone, members in zones.items() for broker in members]
    heapq.heapify(heap)
    left = partitions * replication
    while left:
        quota, load, number, zone = heapq.heappop(heap)
        if capacity[zone] == 0 or quota == partitions:
            continue
        capacity[zone] -= 1
        left -= 1
        quotas[number] = quota + 1
        heapq.heappush(heap, (quota + 1, load + 1, number, zone))
    return quotas


def _deal(
    partitions: int, replication: int, zones: dict[str, list[BrokerView]], quotas: dict[int, int]
) -> list[Assignment]:
    """The brokers of each partition, in no order yet, such that every quota is met exactly.

    A zone with Q replicas left for P partitions gives floor(Q / P) or one more: then what is left still fits.
    """
    left = dict(quotas)
    zone_left = {zone: sum(quotas[broker.id] for broker in members) for zone, members in zones.items()}
    names = sorted(zones)
    holders: list[Assignment] = []
    for partition in range(partitions):
        remaining = partitions - partition
        share = {zone: zone_left[zone] // remaining for zone in names}
        extra = replication - sum(share.values())
        by_remainder = sorted(names, key=lambda zone: (-(zone_left[zone] % remaining), zone))
        for zone in by_remainder[:extra]:
            share[zone] += 1
        chosen: list[int] = []
        for zone in names:
            most_left = sorted(
                (broker.id for broker in zones[zone]), key=lambda number: (-left[number], number)
            )
            chosen.extend(most_left[: share[zone]])
            zone_left[zone] -= share[zone]
        for number in chosen:
            left[number] -= 1
        holders.append(tuple(chosen))
    invariant(not any(left.values()), "every broker was dealt its quota of replicas")
    return holders


class _Leaderships:
    """Who leads which partition, and along which partitions a leadership can move to another broker."""

    def __init__(self, holders: Sequence[Assignment], loads: dict[int, int]) -> None:
        self.holders = holders
        self.leader: list[int] = []
        self.count = dict.fromkeys(loads, 0)
        self.load = dict(loads)
        # movable[a][b]: partitions that a leads and b holds; a dict is an ordered set
        self.movable: dict[int, dict[int, dict[int, None]]] = {number: {} for number in loads}
        for partition, copies in enumerate(holders):
            first = min(copies, key=self._weight)
            self.leader.append(first)
            self._lead(partition, first)

    def even_out(self) -> None:
        """Move leaderships as long as a path of moves makes the counts, then the loads, more even."""
        while any(self._relieve(number) for number in sorted(self.count, key=self._weight, reverse=True)):
            pass

    def _weight(self, number: int) -> tuple[int, int, int]:
        return self.count[number], self.load[number], number

    def _relieve(self, source: int) -> bool:
        came_from = {source: source}
        queue = [source]
        for number in queue:
            for target, partitions in self.movable[number].items():
                if partitions and target not in came_from:
                    came_from[target] = number
                    queue.append(target)
        target = min(queue, key=self._weight)
        fewer = self.count[source] - self.count[target]
        if fewer < 1 or (fewer == 1 and self.load[source] - self.load[target] < 2):
            return False
        while target != source:
            before = came_from[target]
            self._move(next(iter(self.movable[before][target])), target)
            target = before
        return True

    def _move(self, partition: int, target: int) -> None:
        source = self.leader[partition]
        for other in self.holders[partition]:
            self.movable[source].get(other, {}).pop(partition, None)
        self.count[source] -= 1
        self.load[source] -= 1
        self.leader[partition] = target
        self._lead(partition, target)

    def _lead(self, partition: int, number: int) -> None:
        self.count[number] += 1
        self.load[number] += 1
        for other in self.holders[partition]:
            if other != number:
                self.movable[number].setdefault(other, {})[partition] = None


def _choose_leaders(holders: Sequence[Assignment], loads: dict[int, int]) -> list[int]:
    """The leader of each partition; `loads` counts what each broker leads already."""
    leaderships = _Leaderships(holders, loads)
    leaderships.even_out()
    return leaderships.leader


def _in_order_of_preference(holders: Sequence[Assignment], leaders: Sequence[int]) -> tuple[Assignment, ...]:
    """Leader first; behind one leader each follower stands at each position about equally often."""
    stood: dict[tuple[int, int, int], int] = {}
    ordered: list[Assignment] = []
    for copies, leader in zip(holders, leaders, strict=True):
        waiting = sorted(number for number in copies if number != leader)
        line = [leader]
        while waiting:
            position = len(line)
            follower = min(waiting, key=lambda number: (stood.get((leader, position, number), 0), number))
            waiting.remove(follower)
            stood[leader, position, follower] = stood.get((leader, position, follower), 0) + 1
            line.append(follower)
        ordered.append(tuple(line))
    return tuple(ordered)
