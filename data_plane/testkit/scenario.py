"""One seed from beginning to end: boot, work under faults, heal, demand liveness, judge the evidence."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from data_plane.testkit.activities import Activity, Actor
from data_plane.testkit.changing_topic import ChangingTopic
from data_plane.testkit.checkers import Evidence, check_history
from data_plane.testkit.clock import SimClock
from data_plane.testkit.cluster import SimCluster
from data_plane.testkit.faults import ReachedTable
from data_plane.testkit.group_readers import GroupReaders
from data_plane.testkit.history import History, Outcome
from data_plane.testkit.invariants import Invariant, InvariantViolated
from data_plane.testkit.loop import Process, SimLoop, SimulationStalled, TimeLimitPassed
from data_plane.testkit.metered import all_metered, check_usage
from data_plane.testkit.nemesis import Nemesis
from data_plane.testkit.operator import Operator
from data_plane.testkit.sdk_clients import SdkConsumer, SdkProducer
from data_plane.testkit.sealed import sealed
from data_plane.testkit.seed_result import SeedResult
from data_plane.testkit.standing import at_rest, led_of, remains_of
from data_plane.testkit.swarm import GROUP_CLIENTS, Plan, TopicPlan
from data_plane.testkit.timeline import Timeline
from data_plane.testkit.transport import SimTransport
from data_plane.testkit.upkeep import Stopper, Throttler
from data_plane.testkit.watcher import Watcher
from data_plane.testkit.wire_client import WireClient
from data_plane.testkit.wire_consumer import BEGINNING, WireConsumer
from data_plane.testkit.wire_producer import WireProducer
from penstock.contract.ids import TopicPartition
from penstock.contract.topic_settings import UNLIMITED

BOOT_S_MAX = 60.0
LEADER_S_MAX = 5.0
WRITES_S_MAX = 15.0
IN_SYNC_S_MAX = 60.0
READ_S_MAX = 60.0
TIME_LIMIT_S = 500.0
_LOOK_S = 0.1
_READINGS_MAX = 5
_NEWS_S = 0.6
"""Time for the new key to reach every broker's image."""


class Scenario:
    """One simulation of one plan. `run` once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop = SimLoop(plan.seed, put_off_chance=plan.put_off_chance, time_limit_s=TIME_LIMIT_S)
        self.timeline = Timeline(self.loop.time)
        self.history = History()
        self.reached = ReachedTable()
        self.cluster: SimCluster | None = None
        self.watcher: Watcher | None = None
        self.nemesis: Nemesis | None = None
        self.operator: Operator | None = None
        self.actors: list[Actor] = []
        self.changing: ChangingTopic | None = None
        self.readers: GroupReaders | None = None
        self.activities: Counter[Activity] = Counter()
        self._rng = random.Random(f"{plan.seed}/scenario")
        self._clients = 0
        self._producers: list[WireProducer | SdkProducer] = []
        self._restarting = False
        """Brokers that end by themselves are started again, as an init system would; the nemesis does it before."""

    def run(self) -> SeedResult:
        """Run to the end or to the first violation."""
        began = time.perf_counter()
        result = SeedResult(seed=self.plan.seed)
        try:
            with sealed():
                self.loop.run_until_complete(self._story())
        except InvariantViolated as violation:
            result.violated, result.explanation = violation.name, violation.explanation
        except (TimeLimitPassed, SimulationStalled) as stuck:
            result.violated, result.explanation = Invariant.I9.name, str(stuck)
        finally:
            self.loop.close()
        result.trace_hash, result.steps = self.loop.trace_hash, self.loop.steps_run
        result.virtual_s, result.wall_s = self.loop.time(), time.perf_counter() - began
        self._account(result)
        return result

    def _account(self, result: SeedResult) -> None:
        result.reached = self.reached.named()
        result.refusals = dict(sorted(self.history.refusals.items()))
        outcomes = [batch.outcome for batch in self.history.sent]
        result.counts = {outcome.value: outcomes.count(outcome) for outcome in Outcome}
        result.counts["reads"] = len(self.history.reads)
        result.counts["answered as duplicates"] = sum(batch.duplicate for batch in self.history.sent)
        if self.watcher is not None:
            result.counts["elections"] = self.watcher.elections
            result.counts["in-sync changes"] = self.watcher.in_sync_changes
        if self.operator is not None:
            result.counts |= self.operator.asked
        for actor in self.actors:
            self.activities.update(actor.reached)
        if self.watcher is not None:
            self.activities[Activity.MOVED] += self.watcher.moves
        if self.cluster is not None:
            alive = [broker.node for broker in self.cluster.brokers if broker.node is not None]
            self.activities[Activity.READ_NEAR] += sum(node.stats.pushed_bytes_follower for node in alive)
        result.activities = {what.value: count for what, count in self.activities.items() if count}
        if self.nemesis is not None:
            result.counts["strikes"] = self.nemesis.strikes
            result.counts["lies met by a power cut"] = self.nemesis.lies_met
            result.harms = self.nemesis.harms
            result.missed = [str(combination) for combination in self.nemesis.missed]
        if self.cluster is not None:
            result.counts["wrong directories refused"] = self.cluster.wrong_directories
            reached = self.cluster.chances.reached
            result.store_faults = {kind.value: count for kind, count in self.cluster.store.reached.items()}
            result.chances = {name: reached[name].taken for name in sorted(reached)}
        if result.violated:
            result.timeline = self.timeline.lines()

    # -- the story ------------------------------------------------------------------------------------

    async def _story(self) -> None:
        cluster = self.cluster = SimCluster(self.loop, self.plan, self.timeline)
        watcher = self.watcher = Watcher(
            cluster, lambda broker, where: nemesis.promise.is_lossy(broker, where)
        )
        watcher.attach()
        nemesis = self.nemesis = Nemesis(cluster, watcher, self.reached)
        for broker in cluster.brokers:
            cluster.start(broker)
            await asyncio.sleep(self._rng.choice((0.0, 0.3)))
        await self._set_up(cluster)
        await asyncio.sleep(_NEWS_S)
        self._start_workload(cluster)
        self._hire(cluster, watcher)
        acting = [asyncio.create_task(actor.run()) for actor in self.actors]
        await self._chaos(nemesis)
        for actor in self.actors:
            actor.over.set()
        self.timeline.note("scenario", "heal", "")
        cluster.heal()
        self._restarting = True
        await self._check_ends(acting)
        await self._check_liveness(cluster, watcher)
        await self._judge(cluster, watcher)

    async def _booted(self, *, watched: bool = True) -> SimCluster:
        """A cluster that stands, for a story of its own; `watched` by one that knows of no fault."""
        cluster = self.cluster = SimCluster(self.loop, self.plan, self.timeline)
        if watched:
            self.watcher = Watcher(cluster, lambda broker, where: False)
            self.watcher.attach()
        for broker in cluster.brokers:
            cluster.start(broker)
        await self._set_up(cluster)
        return cluster

    async def _set_up(self, cluster: SimCluster) -> None:
        """Every broker is ready, and the plan's topics are there."""
        set_up = asyncio.create_task(cluster.set_up())
        await self._require(
            BOOT_S_MAX, lambda: set_up.done() and cluster.all_ready(), Invariant.I20, lambda: "the first boot"
        )
        set_up.result()

    def _start_workload(self, cluster: SimCluster) -> None:
        for topic in self.plan.topics:
            for partition in range(topic.partitions):
                where = TopicPartition(cluster.topic_ids[topic.name], partition)
                self.history.names[where] = f"{topic.name}-{partition}"
        for plan in self.plan.producers:
            process, client = self._client(cluster, "p", self.plan.topics[plan.topic])
            kind = SdkProducer if plan.sdk else WireProducer
            producer = kind(client, plan, self.plan.topics[plan.topic].partitions)
            self._producers.append(producer)
            self.loop.spawn(process, producer.run())
        for _ in range(self.plan.sdk_consumers):
            process, client = self._client(cluster, "s", self.plan.topics[0])
            self.loop.spawn(process, SdkConsumer(client, self.plan.reader_zone).run())
        for number in range(self.plan.consumers):
            read = self.plan.topics[number % len(self.plan.topics)]
            process, client = self._client(cluster, "r", read)
            restless = self._rng.random() < 0.5
            consumer = WireConsumer(client, read.partitions, restless=restless)
            self.loop.spawn(process, consumer.run())

    def _hire(self, cluster: SimCluster, watcher: Watcher) -> None:
        """All actors that the plan wants besides its workload."""
        plan = self.plan
        if plan.throttled:
            self.actors.append(Throttler(cluster))
        if plan.stopped:
            self.actors.append(Stopper(cluster, watcher))
        if plan.changing:
            self.changing = ChangingTopic(cluster, watcher, self.history, partial(self._client, cluster))
            self.actors.append(self.changing)
        if plan.grouped:
            first, rng = plan.topics[0], random.Random(f"{plan.seed}/group readers")
            self.readers = GroupReaders(
                cluster, first.name, first.partitions, rng, first_host=plan.client_hosts - GROUP_CLIENTS
            )
            self.actors.append(self.readers)

    def _client(self, cluster: SimCluster, kind: str, plan: TopicPlan) -> tuple[Process, WireClient]:
        host = f"c{self._clients}"
        name = f"{kind}{self._clients}"
        self._clients += 1
        process = self.loop.process(name)
        client = WireClient(
            name=name,
            loop=self.loop,
            transport=SimTransport(cluster.network, process, host, authorization=f"Bearer {cluster.api_key}"),
            clock=SimClock(self.loop),
            rng=random.Random(f"{self.plan.seed}/{name}"),
            history=self.history,
            bootstrap=tuple(broker.client_address for broker in cluster.brokers),
            topic=plan.name,
            topic_id=cluster.topic_ids[plan.name],
            deletes=plan.settings.retention_bytes != UNLIMITED,
            resting=lambda: self.loop.time() < cluster.lull_until_s,
        )
        return process, client

    async def _chaos(self, nemesis: Nemesis) -> None:
        striking = asyncio.create_task(nemesis.run())
        operating = asyncio.create_task(self._operate())
        until = self.loop.time() + self.plan.chaos_s
        while self.loop.time() < until and not striking.done():
            self._no_failures()
            await asyncio.sleep(_LOOK_S)
        nemesis.end()
        for task in (operating, striking):
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass

    async def _operate(self) -> None:
        if self.plan.operated and self.cluster is not None and self.watcher is not None:
            self.operator = Operator(self.cluster, self.watcher)
            await self.operator.run()

    # -- liveness -------------------------------------------------------------------------------------

    async def _check_liveness(self, cluster: SimCluster, watcher: Watcher) -> None:
        """I20 and I9: after the heal things come back by themselves, in bounded time."""
        healed_s = self.loop.time()

        def left(seconds: float) -> float:
            return healed_s + seconds - self.loop.time()

        def unled() -> list[str]:
            return [name for name, led in led_of(cluster, watcher) if not led]

        def unwritten() -> list[str]:
            return self._without_write_since(healed_s)

        def out_of_sync() -> list[str]:
            return [
                f"{watcher.name_of(where)} {list(record.in_sync)} of {list(record.replicas)}"
                for where, record in watcher.records.items()
                if len(record.in_sync) < len(record.replicas) or record.target
            ]

        await self._require(
            left(LEADER_S_MAX), lambda: not unled(), Invariant.I20, lambda: f"no leader: {unled()}"
        )
        await self._require(
            left(WRITES_S_MAX),
            lambda: not unwritten(),
            Invariant.I20,
            lambda: f"no acknowledged write: {unwritten()}",
        )
        for producer in self._all_producers():
            producer.stopping = True
        await self._require(
            READ_S_MAX,
            lambda: all(producer.idle for producer in self._all_producers()),
            Invariant.I9,
            self._pending,
        )
        await self._require(
            left(IN_SYNC_S_MAX),
            lambda: not out_of_sync(),
            Invariant.I20,
            lambda: f"not wholly in sync: {out_of_sync()}",
        )

    async def _check_ends(self, acting: list[asyncio.Task[None]]) -> None:
        """I9: what had begun when all was healed comes to its end."""
        await self._require(
            READ_S_MAX,
            lambda: all(task.done() for task in acting),
            Invariant.I9,
            lambda: f"still under way: {[str(task.get_coro()) for task in acting if not task.done()]}",
        )
        for task in acting:
            task.result()

    def _all_producers(self) -> list[WireProducer | SdkProducer]:
        return [*self._producers, *([] if self.changing is None else self.changing.producers)]

    def _without_write_since(self, since_s: float) -> list[str]:
        """Partitions with a producer that demands acknowledgement, and none since then."""
        wanted = {where: name for where, name in self.history.names.items() if self._promises(where)}
        for batch in reversed(self.history.sent):
            if batch.promised and batch.ended_s >= since_s:
                wanted.pop(batch.where, None)
        return list(wanted.values())

    def _promises(self, where: TopicPartition) -> bool:
        assert self.cluster is not None
        if self.changing is not None and where.topic_id == self.cluster.topic_ids[self.changing.topic.name]:
            return True
        return any(
            plan.acks == -1 and self.cluster.topic_ids[self.plan.topics[plan.topic].name] == where.topic_id
            for plan in self.plan.producers
        )

    def _pending(self) -> str:
        pending = [batch for batch in self.history.sent if batch.outcome is Outcome.PENDING]
        first = pending[0] if pending else None
        return "" if first is None else (
            f"{len(pending)} batches without an outcome, the first is batch {first.order} of {first.producer}"
            f" to {self.history.name(first.where)}, begun at {first.began_s:.3f} s, {first.attempts} attempts"
        )  # fmt: skip

    # -- judgement ------------------------------------------------------------------------------------

    async def _judge(self, cluster: SimCluster, watcher: Watcher) -> None:
        restless: InvariantViolated | None = None
        try:
            # No check waits for the last batches of producers without a promise: they are committed now or later.
            await self._require(
                READ_S_MAX,
                lambda: at_rest(cluster, watcher),
                Invariant.I9,
                lambda: "replicas never came to rest",
            )
        except InvariantViolated as violated:
            restless = violated
        evidence = await self._evidence(cluster, watcher)
        check_history(evidence)  # tells more than that there is no rest
        if restless is not None:
            raise restless
        watcher.check_at_rest()
        if self.plan.metered:
            await self._require(
                READ_S_MAX,
                lambda: all_metered(cluster, watcher),
                Invariant.I21,
                lambda: "not everything committed was metered",
            )
            self.activities[Activity.METERED] += check_usage(cluster, watcher)
        if self.changing is not None:
            self.changing.check(evidence.log_starts)
            await self._require(
                READ_S_MAX, lambda: not remains_of(cluster, watcher), Invariant.I18,
                lambda: f"of deleted topics there are still {remains_of(cluster, watcher)}",
            )  # fmt: skip
        if self.readers is not None:
            await self._judge_group(self.readers, watcher, evidence)
        await self._require(
            READ_S_MAX,
            lambda: len(cluster.store.session_ids) <= len(cluster.brokers),
            Invariant.I18,
            lambda: f"{len(cluster.store.session_ids)} sessions of {len(cluster.brokers)} brokers",
        )
        violations = cluster.store_history.violations(cluster.store.history)
        if violations:
            raise InvariantViolated(Invariant.I16, "; ".join(violations[:3]))
        self._no_failures()

    async def _judge_group(self, readers: GroupReaders, watcher: Watcher, evidence: Evidence) -> None:
        """I14: all is delivered and committed, no commit was lost, and each partition has one owner."""
        mine = {
            where.partition: (start, watcher.ledger(where).end)
            for where, start in evidence.log_starts.items()
            if watcher.name_of(where).rpartition("-")[0] == self.plan.topics[0].name
        }
        await self._require(
            READ_S_MAX,
            lambda: not readers.unfinished(mine),
            Invariant.I14,
            lambda: readers.unfinished(mine),
        )
        if readers.wrong():
            raise InvariantViolated(Invariant.I14, readers.wrong())
        for where, log in evidence.final.items():
            if watcher.name_of(where).rpartition("-")[0] == self.plan.topics[0].name:
                missing = [offset for offset in log if offset not in readers.life.delivered[where.partition]]
                if missing:
                    raise InvariantViolated(
                        Invariant.I14, f"{watcher.name_of(where)}: offsets {missing[:5]} were never delivered"
                    )

    async def _evidence(self, cluster: SimCluster, watcher: Watcher) -> Evidence:
        """What stands in the logs. A batch that a broker held back for its tenant's rate may come after its sender
        has given it up: then everything is read again."""
        for _ in range(_READINGS_MAX):
            evidence = Evidence(
                history=self.history, final={}, log_starts={}, deleted=frozenset(watcher.deleted)
            )
            ends = self._ends(watcher)
            for topic in (*self.plan.topics, *([] if self.changing is None else [self.changing.topic])):
                await self._read_all(cluster, topic, evidence)
            if self._ends(watcher) == ends:
                return evidence
        raise InvariantViolated(Invariant.I9, f"still written after {_READINGS_MAX} readings of everything")

    def _ends(self, watcher: Watcher) -> dict[TopicPartition, int]:
        """Committed ends of what clients write."""
        return {where: watcher.ledger(where).end for where in self.history.names}

    async def _read_all(self, cluster: SimCluster, topic: TopicPlan, evidence: Evidence) -> None:
        """A fresh consumer reads everything there is (I9)."""
        process, client = self._client(cluster, "last", topic)
        partitions = topic.partitions
        consumer = WireConsumer(client, partitions, restless=False)
        seen = len(self.history.reads)
        behind = await self.loop.spawn(process, consumer.read_to_the_end(READ_S_MAX))
        if behind:
            raise InvariantViolated(
                Invariant.I9,
                f"{topic.name}: not read within {READ_S_MAX} s: {behind} still to reach",
            )
        for partition in range(partitions):
            where = client.where(partition)
            evidence.log_starts[where] = await self._beginning(process, consumer, where)
            evidence.final[where] = {
                read.offset + index: value
                for read in self.history.reads[seen:]
                if read.where == where and read.consumer == client.name
                for index, value in enumerate(read.values)
            }

    async def _beginning(self, process: Process, consumer: WireConsumer, where: TopicPartition) -> int:
        """Where the log begins. A leader that has just come to lead says so a moment later (RL108)."""
        deadline = self.loop.time() + READ_S_MAX
        while (start := await self.loop.spawn(process, consumer.ask(where.partition, BEGINNING))) is None:
            if self.loop.time() > deadline:
                raise InvariantViolated(Invariant.I9, f"{where}: where it begins is not reported")
            await asyncio.sleep(_LOOK_S)
        return start

    # -- requirements ---------------------------------------------------------------------------------

    async def _require(
        self, within_s: float, holds: Callable[[], bool], invariant: Invariant, what: Callable[[], str]
    ) -> None:
        deadline = self.loop.time() + within_s
        while not holds():
            self._no_failures()
            if self.loop.time() > deadline:
                raise InvariantViolated(invariant, f"{what()} (not within {within_s:.1f} s)")
            if self._restarting and self.cluster is not None:
                for broker in self.cluster.brokers:
                    self.cluster.start(broker)
            await asyncio.sleep(_LOOK_S)

    def _no_failures(self) -> None:
        """I18."""
        if self.loop.failures:
            failure = self.loop.failures[0]
            raise InvariantViolated(
                Invariant.I18,
                f"{failure.process} at {failure.at_s:.6f} s: {failure.message}: {failure.exception!r}",
            ) from failure.exception
        if self.cluster is not None and self.cluster.unexpected_ends:
            broker, error = self.cluster.unexpected_ends[0]
            raise InvariantViolated(Invariant.I18, f"{broker.host} ended by {error!r}") from error
