"""Planned moves of leaders (RL51): back to their preferred replicas, and away from brokers that are not to lead.

A broker is not to lead when an operator takes it out of use (it is cordoned), or when its clock is far off. A
partition's preferred leader is its first replica that may lead. After a broker was away others lead what it
preferred, and the load stays on them. A partition is

    elsewhere --all replicas in sync, the preferred one alive--> steady --STEADY_MS later--> to be moved

and back in `elsewhere` whenever its leader or its in-sync set changes. What a broker leads that is not to lead is
moved without waiting, as soon as another in-sync replica is alive. The in-sync set is never reduced for it, and the
leader itself hands over when the other one has everything: so no answer is lost. Times are monotonic
milliseconds of one clock.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from itertools import islice

from data_plane.controller.changed_blocks import ChangedBlocks
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

LOOKED_MAX = 2_000
"""Partitions looked at in one look: some 10 ms of the event loop. What changed beyond them waits for the next."""

KeptOff = Callable[[BrokerId], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderMove:
    """`leader`, which leads in `leader_epoch`, has to hand over to `to`."""

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
    """The controller's memory of what could be moved. A new controller starts with an empty one."""

    def __init__(self) -> None:
        self._changed = ChangedBlocks()
        self._steady: dict[TopicPartition, _Steady] = {}
        self._off: dict[TopicPartition, None] = {}
        """Led by a broker that is not to lead, and another one could."""
        self._looked_ms = float("-inf")
        self._unfit: tuple[BrokerId, ...] = ()
        """At the last look."""

    def forget(self) -> None:
        """This broker is not the controller, or does not know what was while it was not."""
        self._steady.clear()
        self._off.clear()
        self._changed.everything()

    def due(self, image: ClusterImage, now_ms: float, unfit: tuple[BrokerId, ...] = ()) -> list[LeaderMove]:
        """Moves off brokers that are cordoned or `unfit`, and of at most MOVES_MAX partitions back, the ones that have
        waited longest first; none before LOOK_MS have passed since the last look.
        """
        if now_ms - self._looked_ms < LOOK_MS:
            return []
        self._looked_ms = now_ms
        if unfit != self._unfit:
            self._unfit = unfit
            self._changed.everything()

        def kept_off(broker: BrokerId) -> bool:
            return broker in unfit or image.cordoned(broker)

        alive = alive_in(image)
        for topic_id, number in self._changed.take(image, LOOKED_MAX):
            block = image.blocks.get(topic_id, {}).get(number)
            for record in () if block is None else block.partitions.values():
                self._note(TopicPartition(topic_id, record.partition), record, now_ms, alive, kept_off)
        return [
            *self._moves(
                image,
                islice(list(self._off), MOVES_OFF_MAX),
                partial(move_off_to, alive=alive, kept_off=kept_off),
            ),
            *self._moves(
                image, self._longest_steady(now_ms), partial(move_back_to, alive=alive, kept_off=kept_off)
            ),
        ]

    def _note(
        self, where: TopicPartition, record: PartitionRecord, now_ms: float, alive: Alive, kept_off: KeptOff
    ) -> None:
        """What could be moved as the record is now."""
        known = self._steady.pop(where, None)
        self._off.pop(where, None)
        if move_off_to(record, alive=alive, kept_off=kept_off) != NO_BROKER:
            self._off[where] = None
        elif move_back_to(record, alive=alive, kept_off=kept_off) != NO_BROKER:
            if known is None or known.partition_epoch != record.partition_epoch:
                known = _Steady(record.partition_epoch, now_ms)
            self._steady[where] = known

    def _longest_steady(self, now_ms: float) -> list[TopicPartition]:
        ready = (where for where, steady in self._steady.items() if now_ms - steady.since_ms >= STEADY_MS)
        return nsmallest(MOVES_MAX, ready, key=lambda where: (self._steady[where].since_ms, where))

    def _moves(
        self, image: ClusterImage, found: Iterable[TopicPartition], to: Callable[[PartitionRecord], BrokerId]
    ) -> Iterator[LeaderMove]:
        """Of partitions that still exist; the others are forgotten."""
        for where in found:
            record = image.partition(where)
            if record is None or where.topic_id not in image.topics:
                self._steady.pop(where, None)
                self._off.pop(where, None)
            elif (broker := to(record)) != NO_BROKER:
                yield _move(where, record, broker)


def _move(where: TopicPartition, record: PartitionRecord, to: BrokerId) -> LeaderMove:
    return LeaderMove(where=where, leader=record.leader, leader_epoch=record.leader_epoch, to=to)
