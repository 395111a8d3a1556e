"""One run from the first broker to the last reader: probe, boot, load, faults, healing, and the history of it all."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaos.faults import ALL_UNSYNCED_LOST, Plan, Strike, brokers_of, kinds_of, strikes
from chaos.fuzzer import Fuzzer
from chaos.history_lines import partition_name
from chaos.judgement import REBALANCE_S_MAX
from chaos.neighbours import Neighbours
from chaos.nemesis import Nemesis, Stuck
from chaos.probes import Probes
from chaos.recording import Recorder
from chaos.replica_files import differences, stored_batches
from chaos.workload import RELAXED, TOPICS, Access, Topic, Workload, read_everything
from data_plane.contract.admin_client import AdminClient
from hosts.cluster import JOURNAL_BYTES, SOFT_FREE_BYTES, TENANT, Cluster, Shape
from hosts.ground import ZONES
from hosts.switch import Switch
from penstock.cli.output import say
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicId, TopicPartition

_STRICT_FROM = 0.6
"""From this part of the time on no topic is written to that may lose what all brokers have not synced."""
_FLUSH_S = 0.5
_READ_ALL_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run is asked to be."""

    plan: Plan
    seconds: float
    seed: int
    etcd: bool


class Run:
    """One run in one folder, inside the namespaces. `run` once; the history is complete when it returns."""

    def __init__(self, folder: Path, wanted: Wanted) -> None:
        self._folder = folder
        self._wanted = wanted
        switch = Switch()
        self.probes = Probes(folder / "probes", switch, kinds_of(wanted.plan), etcd=wanted.etcd)
        self._recorder = Recorder(folder)
        self._recorder.note(
            "run",
            seed=wanted.seed,
            plan=wanted.plan.value,
            metadata="etcd" if wanted.etcd else "sqlite",
            available=[kind.value for kind in self.probes.available],
            unavailable={kind.value: why for kind, why in self.probes.unavailable.items()},
        )
        self._topics: tuple[Topic, ...] = TOPICS if wanted.plan is Plan.ALL else TOPICS[:2]
        self._ids: dict[str, bytes] = {}
        self._ends: dict[tuple[str, int], int] = {}
        """Of the partitions that were read to their end last."""
        self._replicas: dict[tuple[str, int], list[int]] = {}
        """The brokers that hold them."""
        self._cluster = Cluster(folder, self._shape(), switch)
        self._neighbours: Neighbours | None = None

    def _shape(self) -> Shape:
        kinds = self.probes.disks or ["tmpfs"]
        return Shape(
            disks=tuple(kinds[index % len(kinds)] for index in range(len(ZONES))),
            brokers_per_host=len(brokers_of(self._wanted.plan)) // len(ZONES),
            stepping_clocks=self._wanted.plan is Plan.ALL,
            etcd=self._wanted.etcd,
            limits={"journal_bytes": JOURNAL_BYTES, "disk_soft_free_bytes": SOFT_FREE_BYTES},
        )

    async def run(self) -> None:
        """Raises what is the run's own fault; what is the cluster's stands in the history."""
        recorder, cluster = self._recorder, self._cluster
        try:
            await asyncio.to_thread(cluster.boot)
            await asyncio.to_thread(cluster.provision)
            await self._play()
            recorder.note("end")
        except* (Stuck, TimeoutError) as stuck:
            for error in stuck.exceptions:
                recorder.anomaly("I20", str(error))
            say(cluster.last_words())
        finally:
            killed = await asyncio.to_thread(cluster.end)
            for number, broker in cluster.brokers.items():
                for line in broker.critical():
                    recorder.anomaly("I18", f"broker {number}: {line}")
                recorder.note("ended by itself", broker=number, statuses=broker.ended_by_itself)
            recorder.note("ended", killed=killed)
            await asyncio.to_thread(self._compare_replicas)
            if self._neighbours is not None:
                await asyncio.to_thread(self._neighbours.search_files)
            await asyncio.to_thread(cluster.unmount)
            recorder.close()

    async def _play(self) -> None:
        cluster, recorder = self._cluster, self._recorder
        self._ids = {topic.name: await cluster.desk.ask(partial(self._make, topic)) for topic in self._topics}
        access = Access(bootstrap=cluster.bootstrap, api_key=cluster.api_key, ca_file=cluster.ca_file)
        async with asyncio.TaskGroup() as tasks:
            guards = [tasks.create_task(broker.keep_running()) for broker in cluster.brokers.values()]
            guards.append(tasks.create_task(self._flush()))
            workload = Workload(access, recorder, self._wanted.seed, tasks)
            fuzzer = Fuzzer(cluster, access, recorder, self._wanted.seed)
            fuzzer.watch_over(self._ids[self._topics[0].name])
            nemesis = Nemesis(cluster, workload, recorder, lambda: [topic.name for topic in self._topics])
            workload.start(self._topics)
            await nemesis.writing("at the start", 0.0)
            await nemesis.whole("at the start")
            await self._note_layout()
            neighbours = self._neighbours = Neighbours(cluster, access, recorder, self._wanted.seed)
            await neighbours.move_in()
            living = tasks.create_task(neighbours.run())
            fuzzing = tasks.create_task(fuzzer.run()) if self._wanted.plan is Plan.ALL else None
            await self._strike(nemesis, workload, access)
            fuzzer.stop()
            if fuzzing is not None:
                await fuzzing
            neighbours.stop()
            await living
            await self._wind_down(nemesis, workload, fuzzer, access)
            await neighbours.last_look()
            workload.stop()
            for guard in guards:
                guard.cancel()

    def _make(self, topic: Topic, admin: AdminClient) -> bytes:
        return self._cluster.create_topic(admin, topic.name, topic.partitions, topic.settings)

    async def _note_layout(self) -> None:
        """Where brokers are, and over which zones each partition's copies are spread."""
        brokers = self._cluster.brokers
        self._recorder.note(
            "layout",
            brokers={
                number: {"zone": broker.host.zone, "host": broker.host.name, "address": broker.peer_address}
                for number, broker in brokers.items()
            },
        )
        await self._look_at_replicas()
        for (topic, partition), replicas in self._replicas.items():
            zones = sorted({brokers[number].host.zone for number in replicas})
            self._recorder.note("copies", partition=partition_name(topic, partition), zones=zones)

    async def _look_at_replicas(self) -> None:
        described = await self._cluster.desk.ask(self._cluster.describe)
        self._replicas = {
            (p.topic, p.partition): list(p.replicas)
            for p in (described.partitions if described is not None else ())
            if p.tenant == TENANT
        }

    async def _strike(self, nemesis: Nemesis, workload: Workload, access: Access) -> None:
        """All faults of the plan, or as many as the time allows; the later part without `replicated` topics."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        put_off: list[Strike] = []
        planned = strikes(self._wanted.plan, self._wanted.seed, self.probes.available)
        while True:
            passed = loop.time() - began
            if self._wanted.plan is Plan.ALL and passed > self._wanted.seconds:
                return
            if RELAXED in self._topics and passed > self._wanted.seconds * _STRICT_FROM:
                await self._leave_relaxed(nemesis, workload, access)
            ready = put_off and RELAXED not in self._topics
            strike = put_off.pop(0) if ready else next(planned, None)
            if strike is None:
                return
            if RELAXED in self._topics and strike.kind in ALL_UNSYNCED_LOST:
                put_off.append(strike)
                continue
            say(f"{passed:5.0f} s  {strike}; {workload.acknowledged} acknowledged")
            await nemesis.strike(strike)

    async def _leave_relaxed(self, nemesis: Nemesis, workload: Workload, access: Access) -> None:
        """Judge what `replicated` topics kept so far, before faults that are beyond their promise."""
        await nemesis.whole("before the replicated topics are left")
        await workload.retire([RELAXED])
        await self._read_to_the_end(workload, access, [RELAXED])
        workload.stop_reader("r3")
        self._topics = tuple(topic for topic in self._topics if topic is not RELAXED)

    async def _wind_down(self, nemesis: Nemesis, workload: Workload, fuzzer: Fuzzer, access: Access) -> None:
        """Nothing is wrong any more: everything comes back, is read, and can be deleted."""
        healed = self._recorder.note("healed")
        await nemesis.writing("after the last fault", healed)
        await nemesis.whole("after the last fault")
        await workload.retire(self._topics)
        await self._read_to_the_end(workload, access, self._topics)
        await workload.group_settled(REBALANCE_S_MAX)
        for left in await fuzzer.delete_what_is_left():
            self._recorder.anomaly("I20", f"a topic cannot be deleted after healing: {left}")
        self._recorder.note("fuzzed", done=fuzzer.done, refused=fuzzer.refused)

    async def _read_to_the_end(self, workload: Workload, access: Access, topics: Sequence[Topic]) -> None:
        for missing in await workload.drain(topics):
            self._recorder.anomaly("I9", missing)
        last = await read_everything(access, self._recorder, topics, _READ_ALL_S)
        for missing in last.missing:
            self._recorder.anomaly("I9", f"the last reader did not get to the end: {missing}")
        self._ends = last.ends
        await self._look_at_replicas()

    def _compare_replicas(self) -> None:
        """Once all brokers have ended: the replicas' files are equal, batch by batch and stamp by stamp (I11)."""
        batches, segments = 0, 0
        for (topic, partition), end in self._ends.items():
            where = TopicPartition(TopicId(self._ids[topic]), partition)
            try:
                stored = {
                    number: stored_batches(self._cluster.brokers[number].log_directory, where, end)
                    for number in self._replicas.get((topic, partition), ())
                }
            except (AssertionError, OSError, PenstockError) as damaged:
                self._recorder.anomaly("I11", f"{topic}/{partition} up to {end}: {damaged}")
                continue
            if not stored:
                self._recorder.anomaly("I11", f"{topic}/{partition}: which brokers hold it is not known")
                continue
            for found in differences(stored):
                self._recorder.anomaly("I11", f"{topic}/{partition} up to {end}: {found}")
            first = next(iter(stored.values()))
            if (first[-1].end_offset if first else 0) != end:
                self._recorder.anomaly("I11", f"{topic}/{partition}: the files do not reach up to {end}")
            batches += len(first)
            segments += len({one.segment for one in first})
        self._recorder.note("compared", batches=batches, segments=segments)

    async def _flush(self) -> None:
        """So that a run that is killed leaves what it saw."""
        while True:
            await asyncio.sleep(_FLUSH_S)
            self._recorder.flush()


def name_of_run() -> str:
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime())
