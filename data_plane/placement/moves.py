"""Which replicas move when a broker is drained, a topic gets more or fewer copies, or a tenant another cell. Pure
and deterministic. What evens out is in `balance.py`.

Each move names all replicas of one partition as they are to be; no partition changes more than one of its replicas at
a time. Moves keep, in this order:

1. No broker holds a partition twice. What comes goes to a zone with the fewest copies of the partition, there to a host
   with the fewest, and always to a broker of its tenant's cell.
2. The broker with the fewest replicas takes the next one, so that many moves even out; of equals the lowest id.
3. The place of the replica that goes is taken by the one that comes: who was preferred as a leader stays so.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from data_plane.placement.planner import BrokerView, PlacementRefused
from penstock.rules.domains import ACTIVE, Copies, locations


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPartition:
    """One partition and the brokers that hold it, in order of preference."""

    topic_id: str
    topic: str
    partition: int
    replicas: tuple[int, ...]
    log_bytes: int = 0
    """What one copy stores, as far as is known."""
    bytes_per_s: int = 0
    """What its leader takes and gives, as far as is known."""
    within: tuple[int, ...] | None = None
    """The brokers of its tenant's cell, sorted: copies come to these alone. None = it may be on any."""

    def may_be_on(self, broker: int) -> bool:
        """Whether a copy may come to this broker."""
        return self.within is None or broker in self.within

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """`partition` is to be on `target`, in this order: `source` goes, `destination` comes; None = no broker does.
    Neither: only the order is another one, so that another replica is preferred as leader."""

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
        able = [
            number
            for number in sorted(others)
            if number not in partition.replicas and partition.may_be_on(number)
        ]
        if not able:
            raise PlacementRefused(_cannot_hold(broker, partition, brokers))
        staying = Copies(where, [b for b in partition.replicas if b != broker])
        chosen = min(able, key=lambda number: (staying.around(number), load[number], number))
        load[chosen] += 1
        moves.append(replaced(partition, broker, chosen))
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
            able = [
                number for number in sorted(active) if number not in stored and partition.may_be_on(number)
            ]
            if not able:
                there_are = sum(partition.may_be_on(number) for number in active)
                raise PlacementRefused(
                    f"{partition.name}: {copies} copies need {copies} active brokers"
                    f"{_of_cell(partition)}, there are {there_are}"
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


def into_cell(
    partitions: Sequence[PlacedPartition], brokers: Sequence[BrokerView], moves_max: int = 10_000
) -> tuple[PlannedMove, ...]:
    """One move for each partition that has a copy outside of its cell (`within`): all such copies go to brokers of the
    cell that hold none, each as far from the others as it can be, then to the one with the fewest replicas.

    A copy on a broker of the cell stays. Raises `PlacementRefused` naming the first partition that does not fit.
    """
    where = locations(brokers)
    active = [b.id for b in sorted(brokers, key=lambda b: b.id) if b.state == ACTIVE]
    load = Counter({b.id: b.replicas for b in brokers})
    moves: list[PlannedMove] = []
    for partition in _in_order(partitions):
        if len(moves) == moves_max:
            break
        target = list(partition.replicas)
        outside = [broker for broker in target if not partition.may_be_on(broker)]
        for broker in outside:
            able = [number for number in active if number not in target and partition.may_be_on(number)]
            if not able:
                raise PlacementRefused(
                    f"{partition.name}: its {len(target)} copies do not fit on the active brokers{_of_cell(partition)}"
                )
            staying = Copies(where, [b for b in target if b != broker])
            chosen = min(able, key=lambda number: (staying.around(number), load[number], number))
            load[chosen] += 1
            load[broker] -= 1
            target[target.index(broker)] = chosen
        if outside:
            came = [broker for broker in target if broker not in partition.replicas]
            moves.append(
                PlannedMove(partition=partition, target=tuple(target), source=outside[0], destination=came[0])
            )
    return tuple(moves)


def copied_bytes(move: PlannedMove) -> int:
    """What the brokers that come have to copy, as far as sizes are known."""
    came = sum(broker not in move.partition.replicas for broker in move.target)
    return came * move.partition.log_bytes


def replaced(partition: PlacedPartition, source: int, destination: int) -> PlannedMove:
    """`destination` takes the place of `source`."""
    target = tuple(destination if number == source else number for number in partition.replicas)
    return PlannedMove(partition=partition, target=target, source=source, destination=destination)


def _in_order(partitions: Sequence[PlacedPartition]) -> list[PlacedPartition]:
    return sorted(partitions, key=lambda placed: (placed.topic_id, placed.partition))


def _of_cell(partition: PlacedPartition) -> str:
    return "" if partition.within is None else " of its tenant's cell"


def _cannot_hold(broker: int, partition: PlacedPartition, brokers: Sequence[BrokerView]) -> str:
    rest = sorted(b.id for b in brokers if b.state == ACTIVE and b.id != broker and partition.may_be_on(b.id))
    away = sorted((b.id, b.state) for b in brokers if b.state != ACTIVE and b.id != broker)
    states = "".join(f"; broker {number} is {state}" for number, state in away[:10])
    there = ", ".join(map(str, rest)) or "no broker"
    return (
        f"broker {broker} cannot be drained: {partition.name} needs {len(partition.replicas)} brokers"
        f"{_of_cell(partition)}, "
        f"without it {there} would be left{states}"
    )
