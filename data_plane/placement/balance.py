"""Which replicas and leaderships move so that brokers have about equally much of everything. Pure and deterministic.

Four things are weighed: replicas, their bytes, leaders, and the bytes a second that leaders take and give. Each has a
mean over the brokers that may be used, and a broker's *skew* is its distance from that mean in percent of it. Of what
is counted, one more or less than the mean is no skew: it cannot be divided.

    balanced --a skew passes TRIGGER_PERCENT--> moves until all are within AIM_PERCENT, or none makes it better

Two steps, each of which makes the sum of squares (value / mean)^2 over brokers and things smaller with every move, so
that it ends, and plans one after the other end too:

1. Replicas, of a broker that has too much of something, or to one that has too little; or two change places. Copies
   that share a zone or host without need go first. Never is a copy put closer to the others, or out of its cell.
2. Leaders: the order of a partition's replicas changes, which copies nothing.

A partition changes one replica at most. The partitions of each cell are evened out over its brokers alone. A plan has
a bound of moves, and a step is in it as a whole or not at all: half of an exchange or of a chain of leaderships could
leave a broker with more than it had.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil, floor

from data_plane.placement.moves import PlacedPartition, PlannedMove
from data_plane.placement.planner import BrokerView
from penstock.rules.domains import ACTIVE, Copies, Crowd, Location, locations

TRIGGER_PERCENT = 10
AIM_PERCENT = 5
MOVES_MAX = 10_000
_LOOKED_MAX = 48
"""Partitions compared for one move: those whose size is nearest to what is too much."""
_SWAPPED_MAX = 12
"""Of each of two brokers, when partitions change places."""
_CHAIN_MAX = 4
"""Leaderships that one chain passes on."""
_CHAINS_KEPT = 24
"""The best chains of each length are made longer, so many of them."""
_CHAINS_FROM = 8
"""Brokers that a chain may begin with, those with the most first."""
_BETTER = 1e-9
"""Less is rounding."""

REPLICAS, LOG_BYTES, LEADERS, BYTES_PER_S = range(4)
_COUNTED = (REPLICAS, LEADERS)
_Values = list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """The largest distance of a broker from the mean, in percent of the mean."""

    replicas: float
    log_bytes: float
    leaders: float
    bytes_per_s: float

    @property
    def worst(self) -> float:
        return max(self.replicas, self.log_bytes, self.leaders, self.bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Balanced:
    """What to do, and what it changes."""

    moves: tuple[PlannedMove, ...]
    before: Skew
    after: Skew


def skew_of(partitions: Sequence[PlacedPartition], brokers: Sequence[BrokerView]) -> Skew:
    """As the partitions are placed now, over active brokers."""
    state = _State(partitions, [b.id for b in brokers if b.state == ACTIVE], 0)
    return _skew(state.sums)


def skew_after(
    partitions: Sequence[PlacedPartition], brokers: Sequence[BrokerView], moves: Iterable[PlannedMove]
) -> Skew:
    """As it will be when all of these have ended."""
    targets = {(m.partition.topic_id, m.partition.partition): m.target for m in moves}
    moved = [
        PlacedPartition(
            topic_id=p.topic_id,
            topic=p.topic,
            partition=p.partition,
            replicas=targets.get((p.topic_id, p.partition), p.replicas),
            log_bytes=p.log_bytes,
            bytes_per_s=p.bytes_per_s,
        )
        for p in partitions
    ]
    return skew_of(moved, brokers)


def rebalance(
    partitions: Sequence[PlacedPartition],
    brokers: Sequence[BrokerView],
    moves_max: int = MOVES_MAX,
    *,
    leaders_only: bool = False,
) -> Balanced:
    """At most `moves_max` moves, none while everything is balanced and spread. Brokers that are not active give
    nothing and take nothing: a drain empties them."""
    active = sorted(b.id for b in brokers if b.state == ACTIVE)
    where = locations(brokers)
    state = _State(sorted(partitions, key=lambda p: (p.topic_id, p.partition)), active, moves_max)
    before = _skew(state.sums)
    cells = dict.fromkeys(partition.within for partition in state.partitions)
    for cell in sorted(cells, key=lambda cell: (cell is None, cell or ())):
        members = [number for number in active if cell is None or number in cell]
        if len(members) > 1:
            evening = _Evening(state, members, cell, where)
            if not leaders_only:
                evening.spread()
            evening.even_out(leaders_only=leaders_only)
    return Balanced(moves=tuple(state.moves()), before=before, after=_skew(state.sums))


class _State:
    """Where every copy is, and what each active broker has of each thing."""

    def __init__(self, partitions: Sequence[PlacedPartition], active: Sequence[int], moves_max: int) -> None:
        self.partitions = partitions
        self._moves_max = moves_max
        self._changed: set[int] = set()
        """Partitions that were changed, though some may be as they were again."""
        self.replicas = [list(partition.replicas) for partition in partitions]
        self.moved: dict[int, tuple[int, int]] = {}
        """By partition its source and destination."""
        self.sums: dict[int, _Values] = {number: [0.0] * 4 for number in active}
        for index, partition in enumerate(partitions):
            for number in partition.replicas:
                self._add(index, number, 1)
            self._add_leader(index, 1)

    def _add(self, index: int, broker: int, sign: int) -> None:
        sums = self.sums.get(broker)
        if sums is not None:
            sums[REPLICAS] += sign
            sums[LOG_BYTES] += sign * self.partitions[index].log_bytes

    def _add_leader(self, index: int, sign: int) -> None:
        sums = self.sums.get(self.replicas[index][0]) if self.replicas[index] else None
        if sums is not None:
            sums[LEADERS] += sign
            sums[BYTES_PER_S] += sign * self.partitions[index].bytes_per_s

    def takes(self, indices: Iterable[int]) -> bool:
        """Note that all of these partitions change; False: they are more than the bound leaves, and none may."""
        changed = self._changed.union(indices)
        if len(changed) > self._moves_max:
            return False
        self._changed = changed
        return True

    def replace(self, index: int, source: int, destination: int) -> None:
        """`destination` takes the place of `source`."""
        self._add_leader(index, -1)
        self._add(index, source, -1)
        stored = self.replicas[index]
        stored[stored.index(source)] = destination
        self._add(index, destination, 1)
        self._add_leader(index, 1)

    def prefer(self, index: int, leader: int) -> None:
        """`leader` and the first replica change places."""
        self._add_leader(index, -1)
        stored = self.replicas[index]
        position = stored.index(leader)
        stored[0], stored[position] = stored[position], stored[0]
        self._add_leader(index, 1)

    def moves(self) -> Iterator[PlannedMove]:
        """Those that differ from what was: first what copies, in the order of partitions."""
        only_order: list[PlannedMove] = []
        for index, partition in enumerate(self.partitions):
            target = tuple(self.replicas[index])
            if target == partition.replicas:
                continue
            source, destination = self.moved.get(index, (None, None))
            move = PlannedMove(partition=partition, target=target, source=source, destination=destination)
            if source is None:
                only_order.append(move)
            else:
                yield move
        yield from only_order


class _Evening:
    """Evens out the partitions of one cell (or of none) over the brokers that they may be on."""

    def __init__(
        self,
        state: _State,
        members: Sequence[int],
        cell: tuple[int, ...] | None,
        where: Mapping[int, Location],
    ) -> None:
        self._state = state
        self._members = members
        self._where = where
        self._sums = {number: state.sums[number] for number in members}
        mine = [index for index, p in enumerate(state.partitions) if p.within == cell]
        self._mine = mine
        self._by_size: dict[int, list[tuple[int, int]]] = {number: [] for number in members}
        self._led: dict[int, list[tuple[int, int]]] = {number: [] for number in members}
        """(log bytes or bytes a second, partition), sorted, of each broker."""
        for index in mine:
            for number in state.replicas[index]:
                if number in self._by_size:
                    self._by_size[number].append((state.partitions[index].log_bytes, index))
            leader = state.replicas[index][0] if state.replicas[index] else None
            if leader in self._led:
                self._led[leader].append((state.partitions[index].bytes_per_s, index))
        for listed in (*self._by_size.values(), *self._led.values()):
            listed.sort()

    def _means(self) -> _Values:
        return [sum(sums[thing] for sums in self._sums.values()) / len(self._sums) for thing in range(4)]

    # -- copies that share a zone or host ------------------------------------------------------------------

    def spread(self) -> None:
        """Move copies that are closer to each other than they have to be; of equals to the emptier broker."""
        for index in self._mine:
            stored = self._state.replicas[index]
            copies = Copies(self._where, stored)
            if not any(copies.around(number) > Crowd(1, 1) for number in stored):
                continue
            able = [number for number in self._members if number not in stored]
            ways = [
                (
                    gain,
                    self._sums[source][REPLICAS] - self._sums[destination][REPLICAS],
                    position,
                    -destination,
                )
                for position, source in enumerate(stored)
                if source in self._sums
                for destination in able
                if (gain := copies.gain(source, destination)) > Crowd(0, 0)
            ]
            if ways:
                _, _, position, destination = max(ways)  # of equals a copy that is not preferred as leader
                if not self._carry_out([(index, stored[position], -destination)]):
                    return

    # -- what evens out --------------------------------------------------------------------------------------

    def even_out(self, *, leaders_only: bool) -> None:
        """Replicas first: with them go leaders."""
        means = self._means()
        if not any(self._uneven(thing, means, TRIGGER_PERCENT) for thing in range(4)):
            return
        while not leaders_only and self._move_a_replica(means):
            pass
        while self._move_a_leader(means) or self._pass_leaders_on(means):
            pass

    def _uneven(self, thing: int, means: _Values, percent: float) -> bool:
        return any(_distance(thing, sums[thing], means[thing]) > percent for sums in self._sums.values())

    def _extremes(self, thing: int, means: _Values) -> tuple[list[int], list[int]]:
        """Brokers that may give and those that may take, the most uneven first; none while all is near the mean."""
        if not self._uneven(thing, means, AIM_PERCENT):
            return [], []
        fullest = sorted(self._members, key=lambda number: (-self._sums[number][thing], number))
        return fullest, fullest[::-1]

    def _move_a_replica(self, means: _Values) -> bool:
        """The best move, or two that change places, between brokers as far from each other as can be."""
        for thing in (REPLICAS, LOG_BYTES):
            fullest, emptiest = self._extremes(thing, means)
            for source in fullest:
                for destination in emptiest:
                    gap = self._sums[source][thing] - self._sums[destination][thing]
                    if gap <= 0 or not (
                        _distance(thing, self._sums[source][thing], means[thing]) > AIM_PERCENT
                        or _distance(thing, self._sums[destination][thing], means[thing]) > AIM_PERCENT
                    ):
                        break
                    found = self._best_between(source, destination, thing, means)
                    if found:
                        return self._carry_out(found)
        return False

    def _best_between(
        self, source: int, destination: int, thing: int, means: _Values
    ) -> list[tuple[int, int, int]]:
        bytes_gap = self._sums[source][LOG_BYTES] - self._sums[destination][LOG_BYTES]
        count_gap = self._sums[source][REPLICAS] - self._sums[destination][REPLICAS]
        wanted = max(0.0, bytes_gap / max(2.0, count_gap if thing == REPLICAS else 2.0))
        ways = [
            [(index, source, destination)]
            for index in islice(self._movable(source, destination, wanted), _LOOKED_MAX)
        ]
        if thing == LOG_BYTES:
            for index in islice(self._movable(source, destination, wanted), _SWAPPED_MAX):
                size = self._state.partitions[index].log_bytes
                back = self._movable(destination, source, max(0.0, size - wanted))
                ways += [
                    [(index, source, destination), (other, destination, source)]
                    for other in islice(back, _SWAPPED_MAX)
                    if other != index
                ]
        best: tuple[float, int, int] | None = None
        for number, way in enumerate(ways):
            gain = self._gain(way, means)
            cost = sum(self._state.partitions[index].log_bytes for index, _, _ in way)
            if gain > _BETTER and (best is None or (-gain, cost, number) < best):
                best = (-gain, cost, number)
        return [] if best is None else ways[best[2]]

    def _movable(self, source: int, destination: int, wanted: float) -> Iterator[int]:
        """Partitions of `source` that may go, those of a size near `wanted` first."""
        for index in _around(self._by_size[source], wanted):
            stored = self._state.replicas[index]
            if index in self._state.moved or destination in stored:
                continue
            if Copies(self._where, stored).gain(source, destination) >= Crowd(0, 0):
                yield index

    def _gain(self, way: Sequence[tuple[int, int, int]], means: _Values) -> float:
        touched = sorted({number for _, *pair in way for number in pair})
        before = self._weight(touched, means)
        for index, source, destination in way:
            self._state.replace(index, source, destination)
        after = self._weight(touched, means)
        for index, source, destination in reversed(way):
            self._state.replace(index, destination, source)
        return before - after

    def _weight(self, brokers: Sequence[int], means: _Values) -> float:
        return sum(
            (self._sums[number][thing] / means[thing]) ** 2
            for number in brokers
            for thing in range(4)
            if means[thing]
        )

    def _carry_out(self, way: Sequence[tuple[int, int, int]]) -> bool:
        """False: it does not fit into the plan."""
        if not self._state.takes(index for index, _, _ in way):
            return False
        for index, source, destination in way:
            partition, led = self._state.partitions[index], self._state.replicas[index][0] == source
            self._state.replace(index, source, destination)
            self._state.moved[index] = (source, destination)
            self._by_size[source].remove((partition.log_bytes, index))
            insort(self._by_size[destination], (partition.log_bytes, index))
            if led:
                self._led[source].remove((partition.bytes_per_s, index))
                insort(self._led[destination], (partition.bytes_per_s, index))
        return True

    def _move_a_leader(self, means: _Values) -> bool:
        """The leadership whose change evens out most, of a broker that leads too much; or two that change places."""
        for thing in (LEADERS, BYTES_PER_S):
            fullest, emptiest = self._extremes(thing, means)
            for source in fullest:
                if self._sums[source][thing] <= self._sums[emptiest[0]][thing]:
                    break
                best: tuple[float, int, list[tuple[int, int, int]]] | None = None
                for number, way in enumerate(self._ways_of_leaders(source, emptiest)):
                    gain = self._gain_of_leaders(way, means)
                    if gain > _BETTER and (best is None or (-gain, number) < best[:2]):
                        best = (-gain, number, way)
                if best is not None:
                    return self._lead(best[2])
        return False

    def _ways_of_leaders(self, source: int, others: Sequence[int]) -> Iterator[list[tuple[int, int, int]]]:
        """(partition, leader, next leader) of one that goes, and of one that comes back for it."""
        for destination in others:
            if destination == source:
                continue
            wanted = max(0.0, (self._sums[source][BYTES_PER_S] - self._sums[destination][BYTES_PER_S]) / 2)
            going = list(islice(self._led_and_stored(source, destination, wanted), _LOOKED_MAX))
            for index in going:
                yield [(index, source, destination)]
            for index in going[:_SWAPPED_MAX]:
                rest = max(0.0, self._state.partitions[index].bytes_per_s - wanted)
                back = self._led_and_stored(destination, source, rest)
                for other in islice(back, _SWAPPED_MAX):
                    yield [(index, source, destination), (other, destination, source)]

    def _led_and_stored(self, leader: int, holder: int, wanted: float) -> Iterator[int]:
        for index in _around(self._led[leader], wanted):
            if holder in self._state.replicas[index]:
                yield index

    def _pass_leaders_on(self, means: _Values) -> bool:
        """Where two brokers alone cannot help each other and the bound is passed: a chain, in which each broker takes
        a leadership of the one before and gives another one on, if need be back to the first.
        """
        for thing in (LEADERS, BYTES_PER_S):
            if self._uneven(thing, means, TRIGGER_PERCENT):
                fullest, _ = self._extremes(thing, means)
                for source in fullest[:_CHAINS_FROM]:
                    chain = self._best_chain(source, means)
                    if chain:
                        return self._lead(chain)
        return False

    def _best_chain(self, source: int, means: _Values) -> list[tuple[int, int, int]]:
        best: tuple[float, list[tuple[int, int, int]]] = (_BETTER, [])
        chains: list[list[tuple[int, int, int]]] = [[]]
        for _ in range(_CHAIN_MAX):
            longer = [
                (self._gain_of_leaders(chain, means), chain)
                for shorter in chains
                for chain in self._made_longer(shorter, source)
            ]
            longer.sort(key=lambda known: (-known[0], known[1]))
            if longer and longer[0][0] > best[0]:
                best = longer[0]
            chains = [chain for _, chain in longer if chain[-1][2] != source][:_CHAINS_KEPT]
        return best[1]

    def _made_longer(
        self, chain: list[tuple[int, int, int]], source: int
    ) -> Iterator[list[tuple[int, int, int]]]:
        """With one more, of those that are about as much as what came, and of the smallest and largest."""
        leader = chain[-1][2] if chain else source
        passed = {index for index, _, _ in chain}
        came = self._state.partitions[chain[-1][0]].bytes_per_s if chain else 0
        led = self._led[leader]
        able = dict.fromkeys(
            [
                *islice(_around(led, came), _SWAPPED_MAX),
                *(index for _, index in (*led[:_SWAPPED_MAX], *led[-_SWAPPED_MAX:])),
            ]
        )
        for index in able:
            if index not in passed:
                for holder in self._state.replicas[index]:
                    if holder != leader and holder in self._sums:
                        yield [*chain, (index, leader, holder)]

    def _gain_of_leaders(self, way: Sequence[tuple[int, int, int]], means: _Values) -> float:
        touched = sorted({number for _, *pair in way for number in pair})
        before = self._weight(touched, means)
        for index, _, leader in way:
            self._state.prefer(index, leader)
        after = self._weight(touched, means)
        for index, leader, _ in way:
            self._state.prefer(index, leader)
        return before - after

    def _lead(self, way: Sequence[tuple[int, int, int]]) -> bool:
        """False: it does not fit into the plan."""
        if not self._state.takes(index for index, _, _ in way):
            return False
        for index, source, leader in way:
            load = self._state.partitions[index].bytes_per_s
            self._state.prefer(index, leader)
            self._led[source].remove((load, index))
            insort(self._led[leader], (load, index))
        return True


def _around(listed: Sequence[tuple[int, int]], wanted: float) -> Iterator[int]:
    """Partitions of a sorted list, those with a value nearest to `wanted` first."""
    above = bisect_left(listed, (ceil(wanted), -1))
    below = above - 1
    while below >= 0 or above < len(listed):
        take_above = below < 0 or (
            above < len(listed) and listed[above][0] - wanted <= wanted - listed[below][0]
        )
        if take_above:
            yield listed[above][1]
            above += 1
        else:
            yield listed[below][1]
            below -= 1


def _distance(thing: int, value: float, mean: float) -> float:
    """From the mean, in percent of it. Of what is counted, the whole numbers next to the mean are no distance."""
    if not mean:
        return 0.0
    if thing in _COUNTED and floor(mean) <= value <= ceil(mean):
        return 0.0
    return abs(value - mean) * 100 / mean


def _skew(sums: Mapping[int, _Values]) -> Skew:
    values = list(sums.values())
    found = []
    for thing in range(4):
        mean = sum(value[thing] for value in values) / len(values) if values else 0.0
        found.append(round(max((_distance(thing, value[thing], mean) for value in values), default=0.0), 1))
    return Skew(
        replicas=found[REPLICAS],
        log_bytes=found[LOG_BYTES],
        leaders=found[LEADERS],
        bytes_per_s=found[BYTES_PER_S],
    )
