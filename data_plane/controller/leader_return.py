"""Preferred leaders are moved back (RL51): gently, few at a time, and only where everything is well.

A partition's preferred leader is its first replica. After a broker was away others lead what it preferred, and
the load stays on them. A partition is

    elsewhere --all replicas in sync, the preferred one alive--> steady --STEADY_MS later--> moved back

and back in `elsewhere` whenever its leader or its in-sync set changes. The set is never reduced for it. Times are
monotonic milliseconds of one clock.
"""

from dataclasses import dataclass

from data_plane.controller.elections import Alive, CellWrite, alive_in, rewritten_cell
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord
from penstock.contract.ids import NO_BROKER, TopicId, TopicPartition

STEADY_MS = 5_000
"""So long the preferred leader has been in sync before it leads again: a broker that comes and goes moves nothing."""
LOOK_MS = 1_000
MOVES_MAX = 16
"""Partitions moved at one look: each costs its clients one refused batch and one look at the metadata."""


def moved_back(record: PartitionRecord, *, alive: Alive) -> PartitionRecord | None:
    """The record led by its preferred replica, if another one leads, every replica is in sync and it is alive."""
    preferred = record.replicas[0]
    if record.leader in (NO_BROKER, preferred) or not alive(preferred):
        return None
    if len(record.in_sync) != len(record.replicas):
        return None
    return record.changed(leader=preferred, leader_epoch=record.leader_epoch + 1)


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

    def forget(self) -> None:
        """This broker is not the controller, or does not know what was while it was not."""
        self._steady.clear()

    def due(self, image: ClusterImage, now_ms: float) -> list[CellWrite]:
        """Cell writes of at most MOVES_MAX partitions, the ones that have waited longest first; none before
        LOOK_MS have passed since the last look. The caller adds its controller key's revision to the compares.
        """
        if now_ms - self._looked_ms < LOOK_MS:
            return []
        self._looked_ms = now_ms
        self._look(image, now_ms)
        ready = [where for where, steady in self._steady.items() if now_ms - steady.since_ms >= STEADY_MS]
        ready.sort(key=lambda where: (self._steady[where].since_ms, where))
        chosen = dict.fromkeys(ready[:MOVES_MAX])
        alive = alive_in(image)

        def change(topic_id: TopicId, record: PartitionRecord, _: int) -> PartitionRecord | None:
            if TopicPartition(topic_id, record.partition) not in chosen:
                return None
            return moved_back(record, alive=alive)

        cells = {
            cell.key: (where.topic_id, cell) for where in chosen if (cell := image.cell_of(where)) is not None
        }
        writes = (rewritten_cell(image, *cells[key], change) for key in sorted(cells))
        return [write for write in writes if write is not None]

    def _look(self, image: ClusterImage, now_ms: float) -> None:
        alive, before = alive_in(image), self._steady
        self._steady = {}
        for topic_id in sorted(image.cells):
            if topic_id not in image.topics:
                continue
            for number in sorted(image.cells[topic_id]):
                for record in image.cells[topic_id][number].partitions.values():
                    if moved_back(record, alive=alive) is None:
                        continue
                    where = TopicPartition(topic_id, record.partition)
                    known = before.get(where)
                    if known is None or known.partition_epoch != record.partition_epoch:
                        known = _Steady(record.partition_epoch, now_ms)
                    self._steady[where] = known
