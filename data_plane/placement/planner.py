"""The planner: which brokers hold each partition of a new topic, and in what order. Pure and deterministic.

Failure domains are zones, their hosts, and the brokers on these (`domains.py`). The plan keeps, in this order:

1. No broker holds a partition twice, and no zone holds two more copies of one than another zone that could take one.
2. The same of hosts, as far as 1 allows.
3. Each broker holds as many replicas of the topic as any other, give or take one, as far as 1 and 2 allow; who
   holds one more is who carries least in the whole cluster. So one topic's load is spread, and many small ones
   even out.
4. The same of leaders: the first broker of each assignment is the one that should lead.
5. Partitions led by one broker name different brokers next, so that its load is spread when it fails.

Steps 1 and 2 give each zone and host a least and a most number of copies of one partition (`_bounds`). Step 3 fills
brokers evenly within them and deals each partition its share of every zone and host (a fractional solution of such a
transportation problem can always be rounded). Step 4 moves leaderships along shortest augmenting paths until
none evens the counts any more: the optimum for convex costs on a flow (Ahuja, Magnanti, Orlin: Network Flows,
chapter 14).
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from data_plane.placement import pressure
from penstock.contract import limits
from penstock.contract.errors import InvalidRequest
from penstock.contract.invariant import invariant
from penstock.rules.domains import ACTIVE, Location, locations


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
    """Empty = its host."""
    host: str = ""
    """Empty = a host of its own."""
    replicas: int = 0
    leaders: int = 0
    state: str = ACTIVE
    log_bytes: int = 0
    """Of its replicas; like the two below 0 where it is not known."""
    bytes_per_s: int = 0
    """What it takes and gives as leader."""
    connections: int = 0


Assignment = tuple[int, ...]
"""Broker ids of one partition in order of preference; the first should lead."""


def plan(
    partitions: int, replication: int, brokers: Sequence[BrokerView], draw: bytes = b""
) -> tuple[Assignment, ...]:
    """One assignment a partition, each of `replication` distinct brokers. What brokers hold already counts by
    `pressure.py`; with a `draw` (the topic's id, say) the lesser of two drawn brokers is taken instead of the least.

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
    where = locations(brokers)
    bounds = _bounds(replication, [where[broker.id] for broker in active])
    quotas = _replica_quotas(partitions, replication, active, where, bounds, draw)
    holders = _deal(partitions, replication, where, quotas)
    leaders = _choose_leaders(holders, pressure.serving(active))
    return _in_order_of_preference(holders, leaders)


def _too_few(replication: int, brokers: Sequence[BrokerView], active: int) -> str:
    others = sorted((broker.id, broker.state) for broker in brokers if broker.state != ACTIVE)
    listed = ", ".join(f"{number} is {state}" for number, state in others[:10])
    return f"replication: {replication} brokers required, {active} active" + (
        f" ({listed})" if listed else ""
    )


class _Share(NamedTuple):
    """How many copies of one partition a zone or host is given."""

    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    zones: dict[str, _Share]
    hosts: dict[str, _Share]


def _bounds(replication: int, active: Sequence[Location]) -> _Bounds:
    """The smallest levels that have capacity for all copies, of zones first. Below its level every zone and host is
    full, so that none has two more than one that could take one."""
    sizes: dict[str, Counter[str]] = {}
    for location in active:
        sizes.setdefault(location.zone, Counter())[location.host] += 1
    by_zone = _levelled(replication, [sum(hosts.values()) for hosts in sizes.values()])
    zones = dict(zip(sizes, by_zone, strict=True))

    def capacity(zone: str, level: int) -> int:
        """Copies that the zone takes when a host of it takes `level` at most, if it can do with that."""
        capacity_of_hosts = sum(min(level, size) for size in sizes[zone].values())
        return min(zones[zone].most, max(zones[zone].least, capacity_of_hosts))

    level = 1
    while sum(capacity(zone, level) for zone in sizes) < replication:
        level += 1
    zones = {
        zone: _Share(max(share.least, capacity(zone, level - 1)), capacity(zone, level))
        for zone, share in zones.items()
    }
    hosts: dict[str, _Share] = {}
    for zone, of_zone in sizes.items():
        hosts |= zip(of_zone, _levelled(zones[zone].most, list(of_zone.values())), strict=True)
    return _Bounds(zones=zones, hosts=hosts)


def _levelled(copies: int, sizes: Sequence[int]) -> list[_Share]:
    """What each of these takes of `copies` when none takes two more than one that could take one."""
    level = 0
    while sum(min(level, size) for size in sizes) < copies:
        level += 1
    return [_Share(min(max(level - 1, 0), size), min(level, size)) for size in sizes]


class _Filling:
    """Gives brokers quotas of replicas one by one; each goes to the broker that has the fewest of those that may."""

    def __init__(
        self,
        partitions: int,
        active: Sequence[BrokerView],
        where: dict[int, Location],
        bounds: _Bounds,
        draw: bytes,
    ) -> None:
        self._partitions = partitions
        self._where = where
        self._draw = draw
        self._turn = 0
        self._loads = pressure.storing(active)
        self.quotas = dict.fromkeys(self._loads, 0)
        self.in_zone: Counter[str] = Counter()
        self.on_host: Counter[str] = Counter()
        self._zone_most = {zone: partitions * share.most for zone, share in bounds.zones.items()}
        self._host_most = {host: partitions * share.most for host, share in bounds.hosts.items()}

    def give(self, count: int, members: Sequence[int]) -> None:
        """`count` more to these brokers, as far as their zones and hosts can take them."""
        heap = [(self.quotas[b], self._loads[b] + self.quotas[b], b) for b in members]
        heapq.heapify(heap)
        while count > 0:
            quota, load, number = self._taken(heap) if self._draw else heapq.heappop(heap)
            zone, host = self._where[number]
            if (
                quota == self._partitions
                or self.in_zone[zone] == self._zone_most[zone]
                or self.on_host[host] == self._host_most[host]
            ):
                continue  # it takes no more, however much others get
            count -= 1
            self.in_zone[zone] += 1
            self.on_host[host] += 1
            self.quotas[number] = quota + 1
            heapq.heappush(heap, (quota + 1, load + 1, number))

    def _taken(self, heap: list[tuple[int, int, int]]) -> tuple[int, int, int]:
        """The lesser of two drawn among those that have the fewest replicas of this topic."""
        self._turn += 1
        level = heap[0][0]
        loads = {number: load for quota, load, number in heap if quota == level}
        number = pressure.less_of_two(sorted(loads), loads, self._draw, self._turn)
        taken = (level, loads[number], number)
        heap.remove(taken)
        heapq.heapify(heap)
        return taken


def _replica_quotas(
    partitions: int,
    replication: int,
    active: Sequence[BrokerView],
    where: dict[int, Location],
    bounds: _Bounds,
    draw: bytes,
) -> dict[int, int]:
    """How many replicas of the topic each broker gets: as even as zones and hosts allow, the least loaded first."""
    filling = _Filling(partitions, active, where, bounds, draw)
    for host, share in bounds.hosts.items():
        filling.give(partitions * share.least, [b.id for b in active if where[b.id].host == host])
    for zone, share in bounds.zones.items():
        missing = partitions * share.least - filling.in_zone[zone]
        filling.give(missing, [b.id for b in active if where[b.id].zone == zone])
    filling.give(partitions * replication - filling.in_zone.total(), [b.id for b in active])
    return filling.quotas


def _deal(
    partitions: int, replication: int, where: dict[int, Location], quotas: dict[int, int]
) -> list[Assignment]:
    """The brokers of each partition, in no order yet, such that every quota is met exactly.

    A zone, host or broker with Q replicas left for P partitions gives floor(Q / P) or one more: then what is left
    still fits.
    """
    left = dict(quotas)
    hosts_of: dict[str, dict[str, list[int]]] = {}
    for number in left:
        hosts_of.setdefault(where[number].zone, {}).setdefault(where[number].host, []).append(number)
    in_zone = Counter(dict.fromkeys(hosts_of, 0))
    on_host: Counter[str] = Counter()
    for number, quota in left.items():
        in_zone[where[number].zone] += quota
        on_host[where[number].host] += quota
    holders: list[Assignment] = []
    for partition in range(partitions):
        remaining = partitions - partition
        chosen: list[int] = []
        for zone, of_zone in _shares(replication, remaining, hosts_of, in_zone).items():
            in_zone[zone] -= of_zone
            for host, of_host in _shares(of_zone, remaining, hosts_of[zone], on_host).items():
                on_host[host] -= of_host
                most_left = sorted(hosts_of[zone][host], key=lambda number: (-left[number], number))
                chosen.extend(most_left[:of_host])
        for number in chosen:
            left[number] -= 1
        holders.append(tuple(chosen))
    invariant(not any(left.values()), "every broker was dealt its quota of replicas")
    return holders


def _shares(copies: int, remaining: int, names: Iterable[str], left: Mapping[str, int]) -> dict[str, int]:
    """How many of `copies` each of these gives, having so many left for so many partitions."""
    shares = {name: left[name] // remaining for name in sorted(names)}
    extra = copies - sum(shares.values())
    if extra:
        by_remainder = sorted(shares, key=lambda name: (-(left[name] % remaining), name))
        for name in by_remainder[:extra]:
            shares[name] += 1
    return shares


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
