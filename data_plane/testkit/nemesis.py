"""The nemesis: strikes with the faults of the plan at the protocol steps of the plan, within what is promised.

The promise it knows: a topic with `min_insync_replicas` m keeps everything through m - 1 replicas that lost what they
had acknowledged. A replica that lost data counts until it has booted since, is in sync again and its files hold
everything committed. Faults that lose nothing a broker may rely on (kills and power cuts of strict topics, pauses,
cuts) are unlimited.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

from data_plane.log.layout import LOG_SUFFIX, STAMPS_SUFFIX, partition_directory
from data_plane.metadata import model
from data_plane.node.log_directory.directory import IDENTITY_FILE
from data_plane.testkit.cluster import BrokerState, SimBroker, SimCluster
from data_plane.testkit.faults import Cell, FaultKind, ReachedTable, Step
from data_plane.testkit.medium import SECTOR_BYTES, Inode
from data_plane.testkit.steps import Provoker, StepWatch
from data_plane.testkit.watcher import Watcher
from penstock.contract.ids import TopicPartition
from penstock.contract.topic_settings import Durability

_WAIT_FOR_STEP_S = 2.5
_HOUR_MS = 3_600_000
_JUMPS_MS = (5_000, 60_000, _HOUR_MS, 24 * _HOUR_MS, 365 * 24 * _HOUR_MS)
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
_SECTORS_SPOILT_MAX = 8
_FOR_ALL_PARTITIONS = ("journal/", "checkpoint")


class Nemesis:
    """`run` strikes until it is cancelled; what is still on then is undone by `SimCluster.heal`."""

    def __init__(self, cluster: SimCluster, watcher: Watcher, reached: ReachedTable) -> None:
        self._cluster, self._watcher, self._reached = cluster, watcher, reached
        self._plan = cluster.plan
        self._store_usual = replace(cluster.plan.store)
        self._rng = random.Random(f"{cluster.plan.seed}/nemesis")
        self._steps = StepWatch(cluster, self._rng)
        self._provoker = Provoker(
            cluster,
            self._rng,
            lambda broker: self._allowed(broker, FaultKind.KILL) and self._kill(broker),
            self._spares,
        )
        self.harms: dict[int, str] = {}
        """What was done to whom and when, by number; provocations count too."""
        self._harms_counted = 0
        self._lossy: dict[tuple[SimBroker, TopicPartition], int] = {}
        """Replicas that lost what they acknowledged, with the life of the broker in which they did."""
        self._astray: dict[SimBroker, None] = {}
        """Brokers of which a write was set to go astray at some time."""
        self._flips: dict[SimBroker, list[tuple[str, Inode, int, int]]] = {}
        """Per broker the flipped bytes of files that all partitions share: (path, file, position, value)."""
        self._failed_syncs: dict[SimBroker, int] = {}
        self._back_at: dict[SimBroker, float] = {}
        """When a broker that is down may be started again."""
        self.over = False
        """No fault begins or ends any more."""
        self.strikes = 0
        self._liar: SimBroker | None = None
        """Whose power was cut while its disk lied, until nobody counts on it."""
        self.lies_met = 0
        """Power cuts of hosts whose disks had lied."""
        self.missed: list[Cell] = []
        """Cells whose step did not come about in time, or that the promise forbade."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._start_what_is_down())
            group.create_task(self._strike_for_ever())

    async def _strike_for_ever(self) -> None:
        turn = 0
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / self._plan.fault_gap_s))
            cell = self._plan.cells[turn % len(self._plan.cells)]
            turn += 1
            if await self._meet(cell):
                self.strikes += 1
            else:
                self.missed.append(cell)

    async def _start_what_is_down(self) -> None:
        """As an init system: every broker that is down is started again after a while."""
        while True:
            now = self._cluster.loop.time()
            for broker in self._cluster.brokers:
                if broker.state is BrokerState.DOWN:
                    if broker not in self._back_at:
                        self._back_at[broker] = now + self._rng.choice((0.05, 0.5, 2.0)) * self._rng.random()
                    if self._back_at[broker] <= now:
                        del self._back_at[broker]
                        self._cluster.start(broker)
            await asyncio.sleep(0.02)

    # -- meeting a cell -------------------------------------------------------------------------------

    async def _meet(self, cell: Cell) -> bool:
        """Wait for the step, provoke it when it does not come, and strike."""
        if cell.step in (Step.ROLL, Step.TRUNCATION, Step.BOOT) and cell.fault in (
            FaultKind.KILL,
            FaultKind.POWER_CUT,
            FaultKind.ALL_POWER_CUT,
        ):
            provoking = asyncio.create_task(self._provoker.provoke(cell.step))
            met = await self._steps.strike_within(
                cell.step, lambda broker: self._strike_now(broker, cell), 2 * _WAIT_FOR_STEP_S
            )
            await provoking
            return met
        by_itself = cell.step not in (Step.BOOT, Step.TRUNCATION)
        for attempt in range(3):
            step = None if by_itself and attempt == 0 else cell.step
            provoking = asyncio.create_task(self._provoker.provoke(step))
            victim = await self._steps.wait_for(
                cell.step, lambda broker: self._allowed(broker, cell.fault), _WAIT_FOR_STEP_S
            )
            met = victim is not None and self._strike_now(victim, cell)
            await provoking
            if met:
                return True
        return False

    def _strike_now(self, victim: SimBroker, cell: Cell) -> bool:
        """Strike, without an await between the look at the step and the fault."""
        if not self._allowed(victim, cell.fault):
            return False
        if self._spares(str(cell), victim):
            return True
        self._cluster.timeline.note(victim.host, "fault", str(cell))
        struck = _STRIKES[cell.fault](self, victim)
        if struck:
            self._reached.add(cell)
        return struck

    def _spares(self, what: str, victim: SimBroker) -> bool:
        """Count one harm; whether the plan leaves it out."""
        number = self._harms_counted
        self._harms_counted += 1
        if number in self._plan.spared:
            return True
        self.harms[number] = f"{self._cluster.loop.time():.3f} s  {victim.host}  {what}"
        return False

    # -- what is promised -----------------------------------------------------------------------------

    def _allowed(self, broker: SimBroker, fault: FaultKind) -> bool:
        """Whether the fault stays within the promise."""
        if self._still_counted(broker):
            return False
        if fault in _LOSSY:
            lost = self._hosted(broker)
        elif fault in _ENDING:
            lost = [where for where in self._hosted(broker) if not self._strict(where)]
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
        if self._liar is not None and not any(
            (self._liar, where) in self._lossy
            and self._liar.broker_id in self._watcher.records[where].in_sync
            and not self._recovered(self._liar, where)
            for where in self._hosted(self._liar)
        ):
            self._liar = None
        return self._liar is not None and self._liar is not broker

    def _may_lose(self, broker: SimBroker, where: TopicPartition) -> bool:
        tolerated = self._watcher.topics[where.topic_id].settings.min_insync_replicas - 1
        hosts = self._watcher.records[where].replicas
        others = [other for other in map(self._cluster.broker, hosts) if self.is_lossy(other, where)]
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
            self._note_lost(broker, [where])
        return astray

    def _recovered(self, broker: SimBroker, where: TopicPartition) -> bool:
        """The replica is whole again, and trusted again because it is."""
        record = self._watcher.records.get(where)
        if record is None or broker.broker_id not in record.replicas:
            del self._lossy[broker, where]  # deleted or moved off: nobody counts on it
            return True
        failed = broker.faults.failed_syncs
        if failed != self._failed_syncs.get(broker, 0):
            self._failed_syncs[broker] = failed
            self._note_lost(broker, self._hosted(broker))
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
        directory = f"{partition_directory(where)}/"
        return any(
            inode.bad or inode.harmed
            for path, inode in broker.medium.files()
            if path.startswith(directory) and path.endswith((LOG_SUFFIX, STAMPS_SUFFIX))
        )

    def _hosted(self, broker: SimBroker) -> list[TopicPartition]:
        return [
            where for where, record in self._watcher.records.items() if broker.broker_id in record.replicas
        ]

    def _strict(self, where: TopicPartition) -> bool:
        return self._watcher.topics[where.topic_id].settings.durability is Durability.FSYNC

    def _note_lost(self, broker: SimBroker, partitions: list[TopicPartition]) -> None:
        for where in partitions:
            self._lossy[broker, where] = broker.lives

    # -- the faults -----------------------------------------------------------------------------------

    def _after(self, seconds: float, action: Callable[..., None], *args: object) -> None:
        loop = self._cluster.loop
        loop.call_at(loop.time() + seconds, self._unless_over, action, *args, context=loop.outside.context)

    def _unless_over(self, action: Callable[..., None], *args: object) -> None:
        if not self.over:
            action(*args)

    def _kill(self, victim: SimBroker) -> bool:
        self._note_lost(victim, [where for where in self._hosted(victim) if not self._strict(where)])
        self._cluster.kill(victim)
        return True

    def _power_cut(self, victim: SimBroker) -> bool:
        self._note_lost(victim, [where for where in self._hosted(victim) if not self._strict(where)])
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
        self._note_lost(victim, self._hosted(victim))
        victim.faults.failing_syncs += 1
        return True

    def _disk_full(self, victim: SimBroker) -> bool:
        victim.faults.capacity_bytes = victim.medium.used_bytes() + self._rng.choice((0, 100, 5_000, 100_000))
        self._after(self._rng.uniform(0.5, 4.0), self._room_again, victim)
        return True

    def _room_again(self, victim: SimBroker) -> None:
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
        hosted = self._hosted(victim)
        touched = [where for where in hosted if path.startswith(f"{partition_directory(where)}/")]
        shared = path.startswith(_FOR_ALL_PARTITIONS)
        self._note_lost(victim, hosted if shared else touched)
        position = self._position(inode)
        victim.medium.flip(path, position, self._rng.randrange(8))
        if shared:
            self._flips.setdefault(victim, []).append((path, inode, position, inode.data[position]))
        self._cluster.timeline.note(victim.host, "flipped", f"{path} byte {position} of {len(inode.data)}")
        self._after(self._rng.uniform(0.2, 3.0), self._kill_if_same_life, victim, victim.lives)
        return True

    def _read_error(self, victim: SimBroker) -> bool:
        """As the broker finds it at a cold read, or at its next boot."""
        files = [
            (where, path, inode)
            for where in self._hosted(victim)
            for path, inode in victim.medium.files()
            if inode.data
            and path.startswith(f"{partition_directory(where)}/")
            and path.endswith((LOG_SUFFIX, STAMPS_SUFFIX))
        ]
        if not files:
            return False
        where, path, inode = self._rng.choice(files)
        self._note_lost(victim, [where])
        position = self._position(inode) // SECTOR_BYTES * SECTOR_BYTES
        victim.medium.spoil(path, position, self._rng.randint(1, _SECTORS_SPOILT_MAX) * SECTOR_BYTES)
        self._cluster.timeline.note(victim.host, "spoilt", f"{path} from byte {position}")
        self._after(self._rng.uniform(0.2, 3.0), self._kill_if_same_life, victim, victim.lives)
        return True

    def _misdirected_write(self, victim: SimBroker) -> bool:
        self._note_lost(victim, self._hosted(victim))
        self._astray[victim] = None
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
        sessions = self._cluster.store.sessions_of(model.live_key(victim.broker_id))
        for session_id in sessions:
            self._cluster.store.expire(session_id)
        return bool(sessions)

    def _lying_sync(self, victim: SimBroker) -> bool:
        self._note_lost(victim, self._hosted(victim))
        victim.faults.lying = True
        self._after(self._rng.uniform(0.05, 1.0), self._cut_liar, victim)
        return True

    def _cut_liar(self, victim: SimBroker) -> None:
        """Only while others hold what it lied about, enough of them to go on without it: one that leaves a set that is
        too small then stays eligible, and does not know what it lost ("What each setting survives")."""
        records = [self._watcher.records[where] for where in self._hosted(victim)]
        demanded = [
            self._watcher.topics[where.topic_id].settings.min_insync_replicas
            for where in self._hosted(victim)
        ]
        if all(
            len({*record.in_sync} - {victim.broker_id}) >= minimum and victim.broker_id not in record.eligible
            for record, minimum in zip(records, demanded, strict=True)
        ):
            self._note_lost(victim, self._hosted(victim))
            self._cluster.power_cut(victim)
            victim.faults.lying = False
            self._liar = victim
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
        self._note_lost(victim, self._hosted(victim))
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
        self._note_lost(victim, [where for where in self._hosted(victim) if not self._strict(where)])
        self._cluster.swap(victim, other)
        self._after(self._rng.uniform(0.5, 3.0), self._cluster.give_back, victim)
        return True

    def _kill_if_same_life(self, victim: SimBroker, life: int) -> None:
        """So that the flip is met at a boot if not before."""
        if victim.lives == life and victim.state is not BrokerState.DOWN:
            if self._allowed(victim, FaultKind.KILL):
                self._kill(victim)
            else:
                self._after(1.0, self._kill_if_same_life, victim, life)

    def _position(self, inode: Inode) -> int:
        """Anywhere, but rather in what was written than in room made ahead."""
        for _ in range(20):
            position = self._rng.randrange(len(inode.data))
            if inode.data[position]:
                return position
        return 0


_STRIKES = {
    FaultKind.KILL: Nemesis._kill,
    FaultKind.POWER_CUT: Nemesis._power_cut,
    FaultKind.ALL_POWER_CUT: Nemesis._all_power_cut,
    FaultKind.PAUSE: Nemesis._pause,
    FaultKind.CUT: Nemesis._cut,
    FaultKind.ONE_WAY_CUT: Nemesis._one_way_cut,
    FaultKind.RESET: Nemesis._reset,
    FaultKind.CLOCK_JUMP: Nemesis._clock_jump,
    FaultKind.SLOW_SYNC: Nemesis._slow_sync,
    FaultKind.SYNC_ERROR: Nemesis._sync_error,
    FaultKind.DISK_FULL: Nemesis._disk_full,
    FaultKind.BIT_FLIP: Nemesis._bit_flip,
    FaultKind.READ_ERROR: Nemesis._read_error,
    FaultKind.MISDIRECTED_WRITE: Nemesis._misdirected_write,
    FaultKind.FLAPPING: Nemesis._flapping,
    FaultKind.STORE_CUT: Nemesis._store_cut,
    FaultKind.STORE_UNSURE: Nemesis._store_unsure,
    FaultKind.STORE_COMPACTED: Nemesis._store_compacted,
    FaultKind.SESSION_LOST: Nemesis._session_lost,
    FaultKind.LYING_SYNC: Nemesis._lying_sync,
    FaultKind.SLOW_LINK: Nemesis._slow_link,
    FaultKind.STUCK_READ: Nemesis._stuck_read,
    FaultKind.EMPTIED_DIRECTORY: Nemesis._emptied_directory,
    FaultKind.SWAPPED_DIRECTORY: Nemesis._swapped_directory,
}
