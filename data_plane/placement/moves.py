"""Which replicas move when a broker is drained or a new one joined, or a topic gets more or fewer copies. Pure
and deterministic.

Each move names all replicas of one partition as they are to be; no partition changes more than one of its replicas at
a time. Moves keep, in this order:

1. No broker holds a partition twice, and no move puts more copies of one into a zone than the fullest zone had before,
   unless no other broker is left.
2. The broker with the fewest replicas takes the next one, so that many moves even out; of equals the lowest id.
3. The place of the replica that goes is taken by the one that comes: who was preferred as a leader stays so.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from data_plane.placement.planner import ACTIVE, BrokerView, PlacementRefused


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
    zones = {b.id: b.failure_domain for b in brokers}
    load = Counter({number: view.replicas for number, view in others.items()})
    moves: list[PlannedMove] = []
    for partition in _in_order(partitions):
        if broker not in partition.replicas:
            continue
        able = [number for number in sorted(others) if number not in partition.replicas]
        if not able:
            raise PlacementRefused(_cannot_hold(broker, partition, brokers))
        staying = Counter(zones.get(b, f"broker {b}") for b in partition.replicas if b != broker)
        chosen = min(able, key=lambda number: (staying[zones[number]], load[number], number))
        load[chosen] += 1
        moves.append(_replaced(partition, broker, chosen))
    return tuple(moves)


def towards(
    copies: int, partitions: Sequence[PlacedPartition], brokers: Sequence[BrokerView]
) -> tuple[PlannedMove, ...]:
    """A move for each partition that has not `copies` replicas: one more, on an active broker of the emptiest zone, or
    one less, of a broker that is not active or of the fullest zone, and never the preferred leader's.

    Raises `PlacementRefused` naming the first partition for which there is no broker.
    """
    active = {b.id: b for b in brokers if b.state == ACTIVE}
    zones = {b.id: b.failure_domain for b in brokers}
    load = Counter({b.id: b.replicas for b in brokers})
    moves: list[PlannedMove] = []
    for partition in _in_order(partitions):
        stored = partition.replicas
        crowd = Counter(zones.get(b, f"broker {b}") for b in stored)
        if len(stored) < copies:
            able = [number for number in sorted(active) if number not in stored]
            if not able:
                raise PlacementRefused(
                    f"{partition.name}: {copies} copies need {copies} active brokers, there are {len(active)}"
                )
            taken = min(able, key=lambda number: (crowd[zones[number]], load[number], number))
            load[taken] += 1
            moves.append(
                PlannedMove(partition=partition, target=(*stored, taken), source=None, destination=taken)
            )
        elif len(stored) > copies:
            given = max(
                stored[1:],
                key=lambda number: (
                    number not in active,
                    crowd[zones.get(number, f"broker {number}")],
                    load[number],
                    number,
                ),
            )
            load[given] -= 1
            left = tuple(number for number in stored if number != given)
            moves.append(PlannedMove(partition=partition, target=left, source=given, destination=None))
    return tuple(moves)


def rebalance(
    partitions: Sequence[PlacedPartition], brokers: Sequence[BrokerView], moves_max: int = 10_000
) -> tuple[PlannedMove, ...]:
    """Moves after which no active broker holds two replicas more than another, as far as zones and rule 1 allow.

    A partition moves at most once: what is left uneven then is evened by the next plan.
    """
    active = {b.id: b for b in brokers if b.state == ACTIVE}
    zones = {b.id: b.failure_domain for b in brokers}
    stored: dict[int, list[PlacedPartition]] = {number: [] for number in sorted(active)}
    for partition in _in_order(partitions):
        for number in partition.replicas:
            if number in stored:
                stored[number].append(partition)
    load = Counter({number: len(placed) for number, placed in stored.items()})
    moved: dict[str, None] = {}
    moves: list[PlannedMove] = []
    while len(moves) < moves_max:
        move = _one_more(stored, load, zones, moved)
        if move is None:
            break
        planned, source, destination = move
        moved[_key(planned.partition)] = None
        load[source] -= 1
        load[destination] += 1
        moves.append(planned)
    return tuple(moves)


def _one_more(
    stored: dict[int, list[PlacedPartition]],
    load: Counter[int],
    zones: dict[int, str],
    moved: dict[str, None],
) -> tuple[PlannedMove, int, int] | None:
    """A move from a fuller broker to an emptier one, the widest gap first; and which these are."""
    fullest = sorted(stored, key=lambda number: (-load[number], number))
    emptiest = sorted(stored, key=lambda number: (load[number], number))
    for source in fullest:
        for destination in emptiest:
            if load[source] - load[destination] < 2:
                break
            for partition in stored[source]:
                if _key(partition) in moved or destination in partition.replicas:
                    continue
                if _crowds(partition, source, destination, zones):
                    continue
                return _replaced(partition, source, destination), source, destination
    return None


def _crowds(partition: PlacedPartition, source: int, destination: int, zones: dict[int, str]) -> bool:
    """Would a zone then hold more copies than the fullest one does now?"""
    before = Counter(zones.get(b, f"broker {b}") for b in partition.replicas)
    after = before.copy()
    after[zones.get(source, f"broker {source}")] -= 1
    after[zones[destination]] += 1
    return max(after.values()) > max(before.values())


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
