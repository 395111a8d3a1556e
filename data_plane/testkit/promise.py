"""What the simulation may take from a cluster without leaving what is promised.

A topic with `min_insync_replicas` m keeps everything through m - 1 replicas that lost what they had acknowledged. A
replica that lost data counts until it has booted since, is in sync again and its files hold everything committed.
Faults that lose nothing a broker may rely on (kills and power cuts of strict topics, pauses, cuts) are unlimited.
"""

from data_plane.log.layout import LOG_SUFFIX, STAMPS_SUFFIX, partition_directory
from data_plane.testkit.cluster import SimBroker, SimCluster
from data_plane.testkit.faults import FaultKind
from data_plane.testkit.medium import Inode
from data_plane.testkit.watcher import Watcher
from penstock.contract.ids import TopicPartition
from penstock.contract.topic_settings import Durability

_LOSSY = (
    FaultKind.SYNC_ERROR,
    FaultKind.BIT_FLIP,
    FaultKind.READ_ERROR,
    FaultKind.MISDIRECTED_WRITE,
    FaultKind.LYING_SYNC,
    FaultKind.EMPTIED_DIRECTORY,
)
_ENDING = (
    FaultKind.KILL,
    FaultKind.POWER_CUT,
    FaultKind.ALL_POWER_CUT,
    FaultKind.SWAPPED_DIRECTORY,
)
"""Faults that lose what a relaxed topic had not synced."""


class Promise:
    """Knows which replicas lost what they acknowledged, and which faults the others can still bear."""

    def __init__(self, cluster: SimCluster, watcher: Watcher) -> None:
        self._cluster = cluster
        self._watcher = watcher
        self._lossy: dict[tuple[SimBroker, TopicPartition], int] = {}
        """Replicas that lost what they acknowledged, with the life of the broker in which they did."""
        self._astray: dict[SimBroker, None] = {}
        """Brokers of which a write was set to go astray at some time."""
        self._flips: dict[SimBroker, list[tuple[str, Inode, int, int]]] = {}
        """Per broker the flipped bytes of files that all partitions share: (path, file, position, value)."""
        self._failed_syncs: dict[SimBroker, int] = {}
        self.liar: SimBroker | None = None
        """A broker that lost power while its disk lied, until none counts on it."""

    def allows(self, broker: SimBroker, fault: FaultKind) -> bool:
        """Whether the fault stays within the promise."""
        if self._still_counted(broker):
            return False
        if fault in _LOSSY:
            lost = self.hosted(broker)
        elif fault in _ENDING:
            lost = self._relaxed(broker)
        else:
            return True
        if (
            fault in (FaultKind.EMPTIED_DIRECTORY, FaultKind.SWAPPED_DIRECTORY)
            and broker.own_medium is not None
        ):
            return False
        return all(self._may_lose(broker, where) for where in lost)

    def _still_counted(self, broker: SimBroker) -> bool:
        """Whether another broker that lost what its disk lied about is still in sync and not whole again: were this
        one to leave now, that one might have to stay eligible, not knowing what it lost."""
        if self.liar is not None and not any(
            (self.liar, where) in self._lossy
            and self.liar.broker_id in self._watcher.records[where].in_sync
            and not self._recovered(self.liar, where)
            for where in self.hosted(self.liar)
        ):
            self.liar = None
        return self.liar is not None and self.liar is not broker

    def _may_lose(self, broker: SimBroker, where: TopicPartition) -> bool:
        tolerated = self._watcher.topics[where.topic_id].settings.min_insync_replicas - 1
        record = self._watcher.records[where]
        if not {*record.in_sync, *record.eligible} - {broker.broker_id}:
            return False  # made while it was alone: without it only an operator lets another one lead (RL48)
        others = [
            other for other in map(self._cluster.broker, record.replicas) if self.is_lossy(other, where)
        ]
        others = [other for other in others if other is not broker]
        return sum(not self._recovered(other, where) for other in others) < tolerated

    def is_lossy(self, broker: SimBroker, where: TopicPartition) -> bool:
        """Whether the replica lost what it acknowledged, or may: a write that is set to go astray can meet one that is
        made after the fault was set up.
        """
        if (broker, where) in self._lossy:
            return True
        astray = broker in self._astray and (
            broker.faults.misdirected_writes > 0 or self._still_spoilt(broker, where)
        )
        if astray:
            self.note_lost(broker, [where])
        return astray

    def _recovered(self, broker: SimBroker, where: TopicPartition) -> bool:
        """The replica is whole again, and trusted again because it is."""
        record = self._watcher.records.get(where)
        if record is None or broker.broker_id not in record.replicas:
            del self._lossy[broker, where]  # deleted or moved off: none counts on it
            return True
        failed = broker.faults.failed_syncs
        if failed != self._failed_syncs.get(broker, 0):
            self._failed_syncs[broker] = failed
            self.note_lost(broker, self.hosted(broker))
        if not (
            broker.lives > self._lossy[broker, where]
            and not broker.faults.failing_syncs
            and not broker.faults.misdirected_writes
            and not self._still_flipped(broker)
            and not self._still_spoilt(broker, where)
            and broker.ready
            and broker.broker_id in record.in_sync
            and self._watcher.intact(broker, where)
        ):
            return False
        del self._lossy[broker, where]
        return True

    def _still_flipped(self, broker: SimBroker) -> bool:
        """A spoilt journal file or checkpoint may be read once more, until it is replaced or given back."""
        left = [
            flip
            for flip in self._flips.get(broker, [])
            if broker.medium.find(flip[0]) is flip[1]
            and flip[2] < len(flip[1].data)
            and flip[1].data[flip[2]] == flip[3]
        ]
        self._flips[broker] = left
        return bool(left)

    def _still_spoilt(self, broker: SimBroker, where: TopicPartition) -> bool:
        """Some bytes of its segments answer an error yet, or are not what was written there.

        `intact` does not see the latter above what is committed: a write may go astray long after the fault was set up,
        lives later, and be committed after a look that found everything committed until then.
        """
        return any(
            (inode.bad or inode.harmed) and path.endswith((LOG_SUFFIX, STAMPS_SUFFIX))
            for path, inode in broker.medium.files(partition_directory(where))
        )

    def hosted(self, broker: SimBroker) -> list[TopicPartition]:
        return [
            where for where, record in self._watcher.records.items() if broker.broker_id in record.replicas
        ]

    def _relaxed(self, broker: SimBroker) -> list[TopicPartition]:
        return [
            where
            for where in self.hosted(broker)
            if self._watcher.topics[where.topic_id].settings.durability is not Durability.FSYNC
        ]

    def note_lost(self, broker: SimBroker, partitions: list[TopicPartition]) -> None:
        for where in partitions:
            self._lossy[broker, where] = broker.lives

    def note_ended(self, broker: SimBroker) -> None:
        """Its process or its host ends now: what relaxed topics had not synced is lost."""
        self.note_lost(broker, self._relaxed(broker))

    def note_astray(self, broker: SimBroker) -> None:
        """A write of this broker was set to go astray."""
        self.note_lost(broker, self.hosted(broker))
        self._astray[broker] = None

    def note_flip(self, broker: SimBroker, path: str, inode: Inode, position: int) -> None:
        """A byte of a file that all partitions share was spoilt."""
        self._flips.setdefault(broker, []).append((path, inode, position, inode.data[position]))

    def liar_may_go(self, liar: SimBroker) -> bool:
        """Whether a host whose disk lies may lose its power: only while others hold what it lied about, enough of them
        to go on without it.

        One that leaves a set that becomes too small stays eligible (RL43) and does not know what it lost, so it loses
        it for all when all others leave before it is back: no promise covers that ("What each setting survives").
        Those that are isolated may leave too and do not count. That the liar loses nothing while one other stays has
        a story of its own in `tests/simulation/test_bad_disks.py`, and so has the loss.
        """
        reached = {one.broker_id for one in self._cluster.brokers if self._cluster.hears_all(one)}

        def enough_stay(where: TopicPartition) -> bool:
            record, settings = self._watcher.records[where], self._watcher.topics[where.topic_id].settings
            stay = (
                len((reached - {liar.broker_id}).intersection(record.in_sync)) >= settings.min_insync_replicas
            )
            return stay and liar.broker_id not in record.eligible

        return all(enough_stay(where) for where in self.hosted(liar))
