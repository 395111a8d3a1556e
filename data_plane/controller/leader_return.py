"""Planned moves of leaders (RL51): back to their preferred replicas, and away from brokers that are not to lead.

A broker is not to lead when an operator takes it out of use (it is cordoned), or when its clock is far off. A
partition's preferred leader is its first replica that may lead. After a broker was away others lead what it
preferred, and the load stays on them. A partition is

    elsewhere --all replicas in sync, the preferred one alive--> steady --STEADY_MS later--> to be moved

and back in `elsewhere` whenever its leader or its in-sync set changes. What a broker leads that is not to lead is
moved without waiting, as soon as another in-sync replica is alive. The in-sync set is never reduced for it, and the
leader itself hands over when the other one holds everything: so nobody's answer is lost. Times are monotonic
milliseconds of one clock.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from data_plane.controller.elections import Alive, alive_in
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord
from penstock.contract.ids import NO_BROKER, BrokerId, TopicPartition

STEADY_MS = 5_000
"""So long the preferred leader has been in sync before it leads again: a broker that comes and goes moves nothing."""
LOOK_MS = 1_000
MOVES_MAX = 16
"""Partitions moved back at one look: each costs its clients one refused batch and one look at the metadata."""
MOVES_OFF_MAX = 64
"""Partitions moved at one look off brokers that are not to lead."""

KeptOff = Callable[[BrokerId], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderMove:
    """`leader`, which leads in `leader_epoch`, shall hand over to `to`."""

    where: TopicPartition
    leader: BrokerId
    leader_epoch: int
    to: BrokerId


def _nobody(broker: BrokerId) -> bool:
    return False


# -- decisions on one record ----------------------------------------------------------------------------


def handed_over(record: PartitionRecord, to: BrokerId, *, alive: Alive) -> PartitionRecord | None:
    """The record led by `to`, if that is an in-sync member which is alive and does not lead yet (RL41, RL51)."""
    if to == record.leader or record.leader == NO_BROKER or to not in record.in_sync or not alive(to):
        return None
    return record.changed(leader=to, leader_epoch=record.leader_epoch + 1)


def move_back_to(record: PartitionRecord, *, alive: Alive, kept_off: KeptOff = _nobody) -> BrokerId:
    """The preferred replica, if another one leads, every replica is in sync and it is alive; else NO_BROKER."""
    preferred = next((broker for broker in record.replicas if not kept_off(broker)), NO_BROKER)
    if record.leader in (NO_BROKER, preferred) or not alive(preferred) or record.target:
        return NO_BROKER
    return preferred if len(record.in_sync) == len(record.replicas) else NO_BROKER


def move_off_to(record: PartitionRecord, *, alive: Alive, kept_off: KeptOff) -> BrokerId:
    """Who takes over from a leader that is not to lead: the first in-sync replica that is alive and may."""
    if record.leader == NO_BROKER or not kept_off(record.leader):
        return NO_BROKER
    staying = record.target or record.replicas
    able = (b for b in staying if b in record.in_sync and alive(b) and not kept_off(b))
    return next(able, NO_BROKER)


@dataclass(frozen=True, slots=True)
class _Steady:
    """What has to stay as it is, and since when it is so."""

    partition_epoch: int
    since_ms: float


class LeaderReturn:
    """The controller's memory of what could be moved back. A new controller starts with an empty one."""

    def __init__(self) -> None:
        self._steady: dict[TopicPartition, _Steady] = {}
        self._looked_ms = float("-inf")
        self._looked_at = -1
        """The image's revision at the last look: without another one, and nobody to be moved off, all is as it was."""
        self._unfit: tuple[BrokerId, ...] = ()
        """At the last look."""

    def forget(self) -> None:
        """This broker is not the controller, or does not know what was while it was not."""
        self._steady.clear()
        self._looked_at = -1

    def due(self, image: ClusterImage, now_ms: float, unfit: tuple[BrokerId, ...] = ()) -> list[LeaderMove]:
        """Moves off brokers that are cordoned or `unfit`, and of at most MOVES_MAX partitions back, the ones that have
        waited longest first; none before LOOK_MS have passed since the last look.
        """
        if now_ms - self._looked_ms < LOOK_MS:
            return []
        self._looked_ms = now_ms

        def kept_off(broker: BrokerId) -> bool:
            return broker in unfit or image.cordoned(broker)

        somebody = bool(image.cordons or unfit)
        changed = image.revision != self._looked_at or unfit != self._unfit
        moves = self._look(image, now_ms, kept_off if somebody else None) if somebody or changed else []
        self._looked_at, self._unfit = image.revision, unfit
        ready = [where for where, steady in self._steady.items() if now_ms - steady.since_ms >= STEADY_MS]
        ready.sort(key=lambda where: (self._steady[where].since_ms, where))
        alive = alive_in(image)
        for where in ready[:MOVES_MAX]:
            record = image.partition(where)
            if record is not None:
                to = move_back_to(record, alive=alive, kept_off=kept_off)
                moves.append(_move(where, record, to))
        return moves

    def _look(self, image: ClusterImage, now_ms: float, kept_off: KeptOff | None) -> list[LeaderMove]:
        """Note what could be moved back; the moves off brokers that are not to lead, None: every broker may."""
        alive, before = alive_in(image), self._steady
        moves: list[LeaderMove] = []
        self._steady = {}
        for where, record in _records(image):
            off = move_off_to(record, alive=alive, kept_off=kept_off) if kept_off else NO_BROKER
            if off != NO_BROKER:
                if len(moves) < MOVES_OFF_MAX:
                    moves.append(_move(where, record, off))
                continue
            if move_back_to(record, alive=alive, kept_off=kept_off or _nobody) == NO_BROKER:
                continue
            known = before.get(where)
            if known is None or known.partition_epoch != record.partition_epoch:
                known = _Steady(record.partition_epoch, now_ms)
            self._steady[where] = known
        return moves


def _move(where: TopicPartition, record: PartitionRecord, to: BrokerId) -> LeaderMove:
    return LeaderMove(where=where, leader=record.leader, leader_epoch=record.leader_epoch, to=to)


def _records(image: ClusterImage) -> Iterable[tuple[TopicPartition, PartitionRecord]]:
    for topic_id in sorted(image.cells):
        if topic_id not in image.topics:
            continue
        for number in sorted(image.cells[topic_id]):
            for record in image.cells[topic_id][number].partitions.values():
                yield TopicPartition(topic_id, record.partition), record
