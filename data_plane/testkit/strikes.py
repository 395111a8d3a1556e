"""How each fault is done to a broker of a simulation, and taken back."""

import random
from collections.abc import Callable
from dataclasses import replace

from data_plane.log.layout import LOG_SUFFIX, STAMPS_SUFFIX, partition_directory
from data_plane.metadata import broker_records
from data_plane.node.log_directory.directory import IDENTITY_FILE
from data_plane.testkit.cluster import BrokerState, SimBroker, SimCluster
from data_plane.testkit.faults import FaultKind
from data_plane.testkit.medium import SECTOR_BYTES, Inode
from data_plane.testkit.promise import Promise

_HOUR_MS = 3_600_000
_JUMPS_MS = (5_000, 60_000, _HOUR_MS, 24 * _HOUR_MS, 365 * 24 * _HOUR_MS)
_SECTORS_SPOILT_MAX = 8
_FOR_ALL_PARTITIONS = ("journal/", "checkpoint")


class Strikes:
    """Faults that end do so by themselves; what is still on when `over` is set is undone by `SimCluster.heal`."""

    def __init__(self, cluster: SimCluster, promise: Promise, rng: random.Random) -> None:
        self._cluster = cluster
        self._promise = promise
        self._rng = rng
        self._store_usual = replace(cluster.plan.store)
        self.over = False
        """No fault begins or ends any more."""
        self.lies_met = 0
        """Power cuts of hosts whose disks had lied."""

    def strike(self, fault: FaultKind, victim: SimBroker) -> bool:
        """Whether it could be done: there may be nothing that it could hurt."""
        return _STRIKES[fault](self, victim)

    def _after(self, seconds: float, action: Callable[..., None], *args: object) -> None:
        loop = self._cluster.loop
        loop.call_at(loop.time() + seconds, self._unless_over, action, *args, context=loop.outside.context)

    def _unless_over(self, action: Callable[..., None], *args: object) -> None:
        if not self.over:
            action(*args)

    def kill(self, victim: SimBroker) -> bool:
        self._promise.note_ended(victim)
        self._cluster.kill(victim)
        return True

    def _power_cut(self, victim: SimBroker) -> bool:
        self._promise.note_ended(victim)
        self._cluster.power_cut(victim)
        return True

    def _all_power_cut(self, victim: SimBroker) -> bool:
        for broker in self._cluster.brokers:
            self._cluster.power_cut(broker)
        return True

    def _pause(self, victim: SimBroker) -> bool:
        self._cluster.pause(victim)
        self._after(self._rng.choice((0.2, 2.0, 8.0)) * self._rng.random(), self._cluster.resume, victim)
        return True

    def _cut(self, victim: SimBroker) -> bool:
        self._cluster.isolate(victim)
        self._after(self._rng.choice((0.5, 3.0, 8.0)) * self._rng.random(), self._cluster.rejoin, victim)
        return True

    def _one_way_cut(self, victim: SimBroker) -> bool:
        hosts = [host for host in self._cluster.all_hosts() if host != victim.host]
        chosen = self._rng.sample(hosts, self._rng.randint(1, len(hosts)))
        outwards = self._rng.random() < 0.5
        for host in chosen:
            self._cluster.network.cut(*((victim.host, host) if outwards else (host, victim.host)))
        if self._rng.random() < 0.3:
            self._cluster.store.cut(victim.host)
        self._after(self._rng.choice((0.5, 3.0, 8.0)) * self._rng.random(), self._cluster.rejoin, victim)
        return True

    def _reset(self, victim: SimBroker) -> bool:
        others = [host for host in self._cluster.all_hosts() if host != victim.host]
        for flap in range(self._rng.randint(1, 8)):
            self._after(
                flap * self._rng.uniform(0.0, 0.2), self._reset_once, victim.host, self._rng.choice(others)
            )
        peers = [broker.host for broker in self._cluster.brokers if broker is not victim]
        return sum(self._cluster.network.reset_between(victim.host, peer) for peer in peers) > 0

    def _reset_once(self, one: str, other: str) -> None:
        self._cluster.network.reset_between(one, other)

    def _clock_jump(self, victim: SimBroker) -> bool:
        by_ms = self._rng.choice(_JUMPS_MS) * self._rng.choice((-1, 1))
        self._cluster.timeline.note(victim.host, "clock", f"by {by_ms} ms")
        victim.clock.jump(by_ms)
        return True

    def _slow_sync(self, victim: SimBroker) -> bool:
        victim.faults.extra_sync_ms = self._rng.choice((50.0, 500.0, 3_000.0)) * self._rng.random()
        self._after(self._rng.uniform(0.5, 5.0), self._fast_again, victim)
        return True

    def _fast_again(self, victim: SimBroker) -> None:
        victim.faults.extra_sync_ms = 0.0

    def _sync_error(self, victim: SimBroker) -> bool:
        self._promise.note_lost(victim, self._promise.hosted(victim))
        victim.faults.failing_syncs += 1
        return True

    def _disk_full(self, victim: SimBroker) -> bool:
        victim.faults.capacity_bytes = victim.medium.used_bytes() + self._rng.choice((0, 100, 5_000, 100_000))
        self._after(self._rng.uniform(0.5, 4.0), self._disk_free_again, victim)
        return True

    def _disk_free_again(self, victim: SimBroker) -> None:
        victim.faults.capacity_bytes = 1 << 30

    def _bit_flip(self, victim: SimBroker) -> bool:
        files = [
            (path, inode)
            for path, inode in victim.medium.files()
            if inode.data and path.startswith(("topics/", *_FOR_ALL_PARTITIONS)) and ".stray" not in path
        ]
        if not files:
            return False
        path, inode = self._rng.choice(files)
        hosted = self._promise.hosted(victim)
        touched = [where for where in hosted if path.startswith(f"{partition_directory(where)}/")]
        shared = path.startswith(_FOR_ALL_PARTITIONS)
        self._promise.note_lost(victim, hosted if shared else touched)
        position = self._position(inode)
        victim.medium.flip(path, position, self._rng.randrange(8))
        if shared:
            self._promise.note_flip(victim, path, inode, position)
        self._cluster.timeline.note(victim.host, "flipped", f"{path} byte {position} of {len(inode.data)}")
        self._after(self._rng.uniform(0.2, 3.0), self._kill_if_same_life, victim, victim.lives)
        return True

    def _read_error(self, victim: SimBroker) -> bool:
        """As the broker finds it at a cold read, or at its next boot."""
        files = [
            (where, path, inode)
            for where in self._promise.hosted(victim)
            for path, inode in victim.medium.files()
            if inode.data
            and path.startswith(f"{partition_directory(where)}/")
            and path.endswith((LOG_SUFFIX, STAMPS_SUFFIX))
        ]
        if not files:
            return False
        where, path, inode = self._rng.choice(files)
        self._promise.note_lost(victim, [where])
        position = self._position(inode) // SECTOR_BYTES * SECTOR_BYTES
        victim.medium.spoil(path, position, self._rng.randint(1, _SECTORS_SPOILT_MAX) * SECTOR_BYTES)
        self._cluster.timeline.note(victim.host, "spoilt", f"{path} from byte {position}")
        self._after(self._rng.uniform(0.2, 3.0), self._kill_if_same_life, victim, victim.lives)
        return True

    def _misdirected_write(self, victim: SimBroker) -> bool:
        self._promise.note_astray(victim)
        victim.faults.misdirected = (LOG_SUFFIX, STAMPS_SUFFIX)
        victim.faults.misdirected_writes += 1
        self._after(self._rng.uniform(0.2, 3.0), self._kill_if_same_life, victim, victim.lives)
        return True

    def _flapping(self, victim: SimBroker) -> bool:
        at = 0.0
        for _ in range(self._rng.randint(2, 10)):
            self._after(at, self._cluster.isolate, victim)
            at += self._rng.choice((0.01, 0.1, 0.5)) * self._rng.random()
            self._after(at, self._cluster.rejoin, victim)
            at += self._rng.choice((0.01, 0.1, 0.5)) * self._rng.random()
        return True

    def _store_cut(self, victim: SimBroker) -> bool:
        store = self._cluster.store
        store.cut(victim.host)
        self._after(self._rng.choice((0.5, 3.0, 8.0)) * self._rng.random(), store.heal, victim.host)
        return True

    def _store_unsure(self, victim: SimBroker) -> bool:
        faults = self._cluster.store.faults
        before = self._store_usual.answer_lost_chance
        faults.answer_lost_chance = self._rng.choice((0.3, 1.0))
        self._after(self._rng.uniform(0.2, 2.0), setattr, faults, "answer_lost_chance", before)
        return True

    def _store_compacted(self, victim: SimBroker) -> bool:
        store = self._cluster.store
        for broker in self._cluster.brokers:
            store.cut(broker.host)
            store.heal(broker.host)
        store.compact(store.revision - self._rng.randint(0, 3))
        return True

    def _session_lost(self, victim: SimBroker) -> bool:
        sessions = self._cluster.store.sessions_of(broker_records.live_key(victim.broker_id))
        for session_id in sessions:
            self._cluster.store.expire(session_id)
        return bool(sessions)

    def _lying_sync(self, victim: SimBroker) -> bool:
        self._promise.note_lost(victim, self._promise.hosted(victim))
        victim.faults.lying = True
        self._after(self._rng.uniform(0.05, 1.0), self.cut_liar, victim)
        return True

    def cut_liar(self, victim: SimBroker) -> None:
        """The power of a host whose disk lies goes, if the promise allows it; else the disk is honest again."""
        if self._promise.liar_may_go(victim):
            self._promise.note_lost(victim, self._promise.hosted(victim))
            self._cluster.power_cut(victim)
            victim.faults.lying = False
            self._promise.liar = victim
            self.lies_met += 1
        else:
            self._cluster.honest(victim)

    def _slow_link(self, victim: SimBroker) -> bool:
        hosts = [host for host in self._cluster.all_hosts() if host != victim.host]
        chosen = self._rng.sample(hosts, self._rng.randint(1, len(hosts)))
        self._slow_down(victim.host, chosen, self._rng.choice((20.0, 200.0, 1_000.0)) * self._rng.random())
        self._after(self._rng.uniform(0.5, 5.0), self._slow_down, victim.host, chosen, 0.0)
        return True

    def _slow_down(self, host: str, others: list[str], extra_ms: float) -> None:
        for other in others:
            self._cluster.network.link(host, other).extra_ms = extra_ms
            self._cluster.network.link(other, host).extra_ms = extra_ms

    def _stuck_read(self, victim: SimBroker) -> bool:
        victim.faults.extra_read_ms = self._rng.choice((200.0, 3_000.0, 10_000.0))
        self._after(self._rng.uniform(0.5, 4.0), setattr, victim.faults, "extra_read_ms", 0.0)
        return True

    def _emptied_directory(self, victim: SimBroker) -> bool:
        self._promise.note_lost(victim, self._promise.hosted(victim))
        self._cluster.empty(victim)
        return True

    def _swapped_directory(self, victim: SimBroker) -> bool:
        other = self._rng.choice([broker for broker in self._cluster.brokers if broker is not victim])
        identity = other.medium.find(IDENTITY_FILE)
        if (
            other.own_medium is not None
            or not isinstance(identity, Inode)
            or not identity.settled
            or identity.harmed
        ):
            return False  # it would not tell whose directory it is
        self._promise.note_ended(victim)
        self._cluster.swap(victim, other)
        self._after(self._rng.uniform(0.5, 3.0), self._cluster.give_back, victim)
        return True

    def _kill_if_same_life(self, victim: SimBroker, life: int) -> None:
        """So that the flip is met at a boot if not before."""
        if victim.lives == life and victim.state is not BrokerState.DOWN:
            if self._promise.allows(victim, FaultKind.KILL):
                self.kill(victim)
            else:
                self._after(1.0, self._kill_if_same_life, victim, life)

    def _position(self, inode: Inode) -> int:
        """Anywhere, but rather in what was written than in preallocated space."""
        for _ in range(20):
            position = self._rng.randrange(len(inode.data))
            if inode.data[position]:
                return position
        return 0


_STRIKES = {
    FaultKind.KILL: Strikes.kill,
    FaultKind.POWER_CUT: Strikes._power_cut,
    FaultKind.ALL_POWER_CUT: Strikes._all_power_cut,
    FaultKind.PAUSE: Strikes._pause,
    FaultKind.CUT: Strikes._cut,
    FaultKind.ONE_WAY_CUT: Strikes._one_way_cut,
    FaultKind.RESET: Strikes._reset,
    FaultKind.CLOCK_JUMP: Strikes._clock_jump,
    FaultKind.SLOW_SYNC: Strikes._slow_sync,
    FaultKind.SYNC_ERROR: Strikes._sync_error,
    FaultKind.DISK_FULL: Strikes._disk_full,
    FaultKind.BIT_FLIP: Strikes._bit_flip,
    FaultKind.READ_ERROR: Strikes._read_error,
    FaultKind.MISDIRECTED_WRITE: Strikes._misdirected_write,
    FaultKind.FLAPPING: Strikes._flapping,
    FaultKind.STORE_CUT: Strikes._store_cut,
    FaultKind.STORE_UNSURE: Strikes._store_unsure,
    FaultKind.STORE_COMPACTED: Strikes._store_compacted,
    FaultKind.SESSION_LOST: Strikes._session_lost,
    FaultKind.LYING_SYNC: Strikes._lying_sync,
    FaultKind.SLOW_LINK: Strikes._slow_link,
    FaultKind.STUCK_READ: Strikes._stuck_read,
    FaultKind.EMPTIED_DIRECTORY: Strikes._emptied_directory,
    FaultKind.SWAPPED_DIRECTORY: Strikes._swapped_directory,
}
