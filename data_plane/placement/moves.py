"""Which replicas move when a broker is drained or a new one joined, or a topic gets more or fewer copies. Pure
and deterministic.

Each move names all replicas of one partition as they are to be; no partition changes more than one of its replicas at
a time. Moves keep, in this order:

1. No broker holds a partition twice. What comes goes to a zone with the fewest copies of the partition, there to a host
   with the fewest; a move that only evens out never makes this worse.
2. The broker with the fewest replicas takes the next one, so that many moves even out; of equals the lowest id.
3. The place of the replica that goes is taken by the one that comes: who was preferred as a leader stays so.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from data_plane.placement.planner import BrokerView, PlacementRefused
from penstock.rules.domains import ACTIVE, Copies, Crowd, Location, locations


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPartition:
    """One partition and the brokers that hold it, in order of preference."""

    topic_id: str
    topic: str
    partition: int
    replicas: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """`partition` is to be on `target`, in this order: `source` goes, `destination` comes; None = no broker does."""

    partition: PlacedPartition
    target: tuple[int, ...]
    source: int | None
    destination: int | None


def moves_off(
    broker: int, partitions: Sequence[PlacedPartition], brokers: Sequence[BrokerView]
) -> tuple[PlannedMove, ...]:
    """A move for each partition that `broker` holds, to brokers that are active and not this one.

    Raises `PlacementRefused` naming the first partition that the others cannot hold, and why.
    """
    others = {b.id: b for b in brokers if b.state == ACTIVE and b.id != broker}
    where = locations(brokers)
    load = Counter({number: view.replicas for number, view in others.items()})
    moves: list[PlannedMove] = []
    for partition in _in_order(partitions):
        if broker not in partition.replicas:
            continue
        able = [number for number in sorted(others) if number not in partition.replicas]
        if not able:
            raise PlacementRefused(_cannot_hold(broker, partition, brokers))
        staying = Copies(where, [b for b in partition.replicas if b != broker])
        chosen = min(able, key=lambda number: (staying.around(number), load[number], number))
        load[chosen] += 1
        moves.append(_replaced(partition, broker, chosen))
    return tuple(moves)


def towards(
    copies: int, partitions: Sequence[PlacedPartition], brokers: Sequence[BrokerView]
) -> tuple[PlannedMove, ...]:
    """A move for each partition that has not `copies` replicas: one more, on an active broker of the emptiest zone and
    host, or one less, of a broker that is not active or of the fullest zone and host, and never the preferred leader's.

    Raises `PlacementRefused` naming the first partition for which there is no broker.
    """
    active = {b.id: b for b in brokers if b.state == ACTIVE}
    where = locations(brokers)
    load = Counter({b.id: b.replicas for b in brokers})
    moves: list[PlannedMove] = []
    for partition in _in_order(partitions):
        stored = partition.replicas
        there = Copies(where, stored)
        if len(stored) < copies:
            able = [number for number in sorted(active) if number not in stored]
            if not able:
                raise PlacementRefused(
                    f"{partition.name}: {copies} copies need {copies} active brokers, there are {len(active)}"
                )
            taken = min(able, key=lambda number: (there.around(number), load[number], number))
            load[taken] += 1
            moves.append(
                PlannedMove(partition=partition, target=(*stored, taken), source=None, destination=taken)
            )
        elif len(stored) > copies:
            given = max(
                stored[1:],
                key=lambda number: (number not in active, there.around(number), load[number], number),
            )
            load[given] -= 1
            left = tuple(number for number in stored if number != given)
            moves.append(PlannedMove(partition=partition, target=left, source=given, destination=None))
    return tuple(moves)


def rebalance(
    partitions: Sequence[PlacedPartition], brokers: Sequence[BrokerView], moves_max: int = 10_000
) -> tuple[PlannedMove, ...]:
    """Moves after which copies are spread over zones and hosts where active brokers allow it, and no active broker
    holds two replicas more than another as far as rule 1 allows.

    A partition moves at most once: what is left then is for the next plan.
    """
    active = {b.id: b for b in brokers if b.state == ACTIVE}
    evening = _Evening(partitions, sorted(active), locations(brokers))
    while len(evening.moves) < moves_max and (evening.spread_one() or evening.even_one()):
        pass
    return tuple(evening.moves)


class _Evening:
    """Plans one move after the other, each with the ones before it done."""

    def __init__(
        self, partitions: Sequence[PlacedPartition], active: Sequence[int], where: dict[int, Location]
    ) -> None:
        self.moves: list[PlannedMove] = []
        self._where, self._active = where, active
        self._stored: dict[int, list[PlacedPartition]] = {number: [] for number in active}
        self._crowded: list[PlacedPartition] = []
        """Those that may have copies closer to each other than they have to be, in order."""
        for partition in _in_order(partitions):
            copies = Copies(where, partition.replicas)
            if any(copies.around(number) > Crowd(1, 1) for number in partition.replicas):
                self._crowded.append(partition)
            for number in partition.replicas:
                if number in self._stored:
                    self._stored[number].append(partition)
        self._load = Counter({number: len(placed) for number, placed in self._stored.items()})
        self._crowded.reverse()
        self._moved: dict[str, None] = {}

    def spread_one(self) -> bool:
        """Move a copy that shares its zone or host to one that has fewer copies; whether there was such a copy."""
        while self._crowded:
            partition = self._crowded.pop()
            copies = Copies(self._where, partition.replicas)
            able = [number for number in self._active if number not in partition.replicas]
            ways = [
                (gain, self._load[source] - self._load[destination], position, -destination)
                for position, source in enumerate(partition.replicas)
                if source in self._stored
                for destination in able
                if (gain := copies.gain(source, destination)) > Crowd(0, 0)
            ]
            if ways:
                _, _, position, destination = max(ways)  # of equals a copy that is not preferred as leader
                self._move(partition, partition.replicas[position], -destination)
                return True
        return False

    def even_one(self) -> bool:
        """A move from a fuller broker to an emptier one, the widest gap first; whether there was one."""
        fullest = sorted(self._stored, key=lambda number: (-self._load[number], number))
        emptiest = sorted(self._stored, key=lambda number: (self._load[number], number))
        for source in fullest:
            for destination in emptiest:
                if self._load[source] - self._load[destination] < 2:
                    break
                for partition in self._stored[source]:
                    if _key(partition) in self._moved or destination in partition.replicas:
                        continue
                    copies = Copies(self._where, partition.replicas)
                    if copies.gain(source, destination) < Crowd(0, 0):
                        continue
                    self._move(partition, source, destination)
                    return True
        return False

    def _move(self, partition: PlacedPartition, source: int, destination: int) -> None:
        self._moved[_key(partition)] = None
        self._load[source] -= 1
        self._load[destination] += 1
        self.moves.append(_replaced(partition, source, destination))


def _replaced(partition: PlacedPartition, source: int, destination: int) -> PlannedMove:
    target = tuple(destination if number == source else number for number in partition.replicas)
    return PlannedMove(partition=partition, target=target, source=source, destination=destination)


def _in_order(partitions: Sequence[PlacedPartition]) -> list[PlacedPartition]:
    return sorted(partitions, key=lambda placed: (placed.topic_id, placed.partition))


def _key(partition: PlacedPartition) -> str:
    return f"{partition.topic_id}/{partition.partition}"


def _cannot_hold(broker: int, partition: PlacedPartition, brokers: Sequence[BrokerView]) -> str:
    rest = sorted(b.id for b in brokers if b.state == ACTIVE and b.id != broker)
    away = sorted((b.id, b.state) for b in brokers if b.state != ACTIVE and b.id != broker)
    states = "".join(f"; broker {number} is {state}" for number, state in away[:10])
    there = ", ".join(map(str, rest)) or "no broker"
    return (
        f"broker {broker} cannot be drained: {partition.name} needs {len(partition.replicas)} brokers, "
        f"without it {there} would be left{states}"
    )
