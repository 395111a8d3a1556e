"""What goes on while the cluster is hurt: producers of unique values, readers, a group whose members come and go.

All of it is the asyncio SDK, outside of the hosts; whatever is sent, answered, read, assigned and reported is recorded.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chaos.history_lines import names_of, partition_name, value_of
from chaos.recording import Recorder
from data_plane.testkit.history import MarkKind, Outcome
from penstock.asyncio import Client
from penstock.asyncio.consumer import Consumer
from penstock.asyncio.delivery import Delivery
from penstock.contract.errors import Belief, CorruptBatch, LogTruncated, OffsetOutOfRange, PenstockError
from penstock.contract.topic_settings import Durability, TopicSettings

_POLL_S = 0.5
_POLL_MESSAGES = 1_000
_MARKS_EVERY_S = 4.0
_MARKS_S = 2.0
_LOOK_EVERY_S = 0.5
_REFUSED_S = 0.2
_MEMBER_S = (15.0, 40.0)
"""A member leaves its group, and another one joins, after so long."""
_BURST_MAX = 20
_FINISH_S = 90.0
SEGMENT_BYTES = 16 * 1024
"""So small that segments roll while brokers fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One topic of the workload."""

    name: str
    partitions: int
    durability: Durability = Durability.FSYNC

    @property
    def settings(self) -> TopicSettings:
        return TopicSettings(
            replication=3,
            min_insync_replicas=2,
            durability=self.durability,
            segment_bytes=SEGMENT_BYTES,
        )

    @property
    def named_partitions(self) -> list[tuple[str, int]]:
        return [(self.name, partition) for partition in range(self.partitions)]


STRICT = Topic(name="strict", partitions=4)
GROUPED = Topic(name="grouped", partitions=4)
RELAXED = Topic(name="relaxed", partitions=2, durability=Durability.REPLICATED)
TOPICS = (STRICT, GROUPED, RELAXED)
GROUP = "workers"
MEMBERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerPlan:
    """One producer. A short delivery timeout makes outcomes unknown, a long one tries through every fault."""

    name: str
    topic: Topic
    messages_per_s: float
    delivery_timeout_ms: int
    compression: str


PRODUCERS = (
    ProducerPlan(name="p1", topic=STRICT, messages_per_s=60, delivery_timeout_ms=60_000, compression="zstd"),
    ProducerPlan(name="p2", topic=STRICT, messages_per_s=60, delivery_timeout_ms=60_000, compression="none"),
    ProducerPlan(name="p3", topic=STRICT, messages_per_s=30, delivery_timeout_ms=2_500, compression="lz4"),
    ProducerPlan(name="p4", topic=GROUPED, messages_per_s=60, delivery_timeout_ms=60_000, compression="zstd"),
    ProducerPlan(name="p5", topic=RELAXED, messages_per_s=40, delivery_timeout_ms=60_000, compression="none"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How clients get in."""

    bootstrap: Sequence[str]
    api_key: str
    ca_file: Path

    def client(self) -> Client:
        return Client(bootstrap=self.bootstrap, api_key=self.api_key, ca_file=str(self.ca_file))


class Workload:
    """Started on the run's loop, within its task group; `finish` ends it part by part."""

    def __init__(self, access: Access, recorder: Recorder, seed: int, group: asyncio.TaskGroup) -> None:
        self._access = access
        self._recorder = recorder
        self._seed = seed
        self._tasks = group
        self._acknowledged: dict[tuple[str, int], float] = {}
        """When the newest acknowledged message of each partition was sent, in seconds of the run."""
        self.acknowledged = 0
        self._retired: dict[str, None] = {}
        self._churning = True
        self._ended = False
        self._producing: dict[str, asyncio.Task[None]] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._positions: dict[str, dict[tuple[str, int], int]] = {}
        """Next offset by reader (or group) and partition."""
        self._read_by: dict[str, tuple[str, ...]] = {}
        """Names of topics by reader or group."""
        self._members = 0
        self._group_settled = asyncio.Event()
        """A look showed the group stable, with an owner for each partition, since this was asked."""
        self._leaving: list[asyncio.Event] = []

    def start(self, topics: Sequence[Topic]) -> None:
        """Producers and readers of these topics, and the group when `grouped` is among them."""
        for plan in PRODUCERS:
            if plan.topic in topics:
                self._producing[plan.name] = self._tasks.create_task(self._produce(plan))
        whole = [topic for topic in topics if topic is not RELAXED]
        for reader, read in (("r1", whole), ("r2", [STRICT]), ("r3", [RELAXED])):
            if all(topic in topics for topic in read) and read:
                self._reading[reader] = self._tasks.create_task(self._read(reader, read))
        if GROUPED in topics:
            self._read_by[GROUP] = (GROUPED.name,)
            self._recorder.note("group", group=GROUP, partitions=names_of(GROUPED.named_partitions))
            for _ in range(MEMBERS):
                self._tasks.create_task(self._membership())
            self._reading[GROUP] = self._tasks.create_task(self._watch_group())

    # -- producing ---------------------------------------------------------------------------------------------

    async def _produce(self, plan: ProducerPlan) -> None:
        rng = random.Random(f"{self._seed}/{plan.name}")
        number = 0
        async with self._access.client() as client, asyncio.TaskGroup() as watching:
            producer = client.producer(
                compression=plan.compression,
                delivery_timeout_ms=plan.delivery_timeout_ms,
                max_block_ms=2_000,
            )
            queues: dict[int, asyncio.Queue[tuple[int, float, Delivery] | None]] = {}
            for partition in range(plan.topic.partitions):
                queues[partition] = asyncio.Queue()
                watching.create_task(self._await_outcomes(plan, partition, queues[partition]))
            while plan.topic.name not in self._retired:
                burst = rng.randint(1, _BURST_MAX)
                await asyncio.sleep(rng.expovariate(plan.messages_per_s / burst))
                partition = rng.randrange(plan.topic.partitions)
                for _ in range(burst):
                    number += 1
                    began = self._recorder.note(
                        "sent",
                        producer=plan.name,
                        number=number,
                        partition=partition_name(plan.topic.name, partition),
                        acks=-1,
                    )
                    try:
                        value = value_of(plan.name, number)
                        delivery = await producer.send(plan.topic.name, value, partition=partition)
                    except PenstockError as error:
                        self._failed(plan.name, number, error)
                        continue
                    queues[partition].put_nowait((number, began, delivery))
            await producer.close()
            for queue in queues.values():
                queue.put_nowait(None)

    async def _await_outcomes(
        self,
        plan: ProducerPlan,
        partition: int,
        deliveries: "asyncio.Queue[tuple[int, float, Delivery] | None]",
    ) -> None:
        """Of one partition, in the order sent."""
        tp = (plan.topic.name, partition)
        while (waiting := await deliveries.get()) is not None:
            number, began, delivery = waiting
            try:
                receipt = await delivery
            except PenstockError as error:
                self._failed(plan.name, number, error)
                continue
            duplicate = {"duplicate": True} if receipt.duplicate else {}
            self._recorder.note(
                "outcome",
                producer=plan.name,
                number=number,
                outcome=Outcome.APPLIED.value,
                offset=receipt.offset,
                **duplicate,
            )
            self.acknowledged += 1
            self._acknowledged[tp] = max(began, self._acknowledged.get(tp, 0.0))

    def _failed(self, producer: str, number: int, error: PenstockError) -> None:
        definite = error.belief is Belief.NOT_APPLIED
        outcome = Outcome.NOT_APPLIED if definite else Outcome.UNKNOWN
        self._recorder.note(
            "outcome", producer=producer, number=number, outcome=outcome.value, code=error.code.name
        )

    def silent_since(self, at_s: float) -> list[str]:
        """Partitions that are written to, and of which nothing sent after `at_s` has been acknowledged yet."""
        return [
            partition_name(*tp)
            for plan in PRODUCERS
            if plan.name in self._producing and plan.topic.name not in self._retired
            for tp in plan.topic.named_partitions
            if self._acknowledged.get(tp, -1.0) <= at_s
        ]

    # -- reading -----------------------------------------------------------------------------------------------

    async def _read(self, reader: str, topics: Sequence[Topic]) -> None:
        """Everything, from the beginning, for as long as the run lasts."""
        self._read_by[reader] = tuple(topic.name for topic in topics)
        partitions = [tp for topic in topics for tp in topic.named_partitions]
        self._recorder.note("reader", reader=reader, partitions=names_of(partitions))
        loop, marked = asyncio.get_running_loop(), 0.0
        async with self._access.client() as client:
            consumer = client.consumer([topic.name for topic in topics], malformed="stop")
            while True:
                await self._poll(reader, reader, consumer)
                if loop.time() >= marked:
                    marked = loop.time() + _MARKS_EVERY_S
                    await self._ask_marks(reader, consumer)

    async def _poll(self, reader: str, counted_as: str, consumer: Consumer) -> None:
        try:
            messages = await consumer.poll(max_messages=_POLL_MESSAGES, timeout=_POLL_S)
        except (LogTruncated, OffsetOutOfRange) as error:
            self._recorder.anomaly("I1", f"{reader}: {error}")
            await asyncio.sleep(_REFUSED_S)
            return
        except CorruptBatch as error:
            self._recorder.anomaly("I19", f"{reader}: {error}")
            await asyncio.sleep(_REFUSED_S)
            return
        except PenstockError as error:
            self._recorder.note("refused", reader=reader, code=error.code.name)
            await asyncio.sleep(_REFUSED_S)
            return
        positions = self._positions.setdefault(counted_as, {})
        for m in messages:
            positions[m.topic, m.partition] = max(positions.get((m.topic, m.partition), 0), m.offset + 1)
        found = ((partition_name(m.topic, m.partition), m.offset, m.value or b"") for m in messages)
        self._recorder.read(reader, found)

    async def _ask_marks(self, reader: str, consumer: Consumer) -> None:
        for ask, kind in (
            (consumer.end_offsets, MarkKind.HIGH_WATERMARK),
            (consumer.beginning_offsets, MarkKind.LOG_START),
        ):
            try:
                answer = await ask(_MARKS_S)
            except PenstockError:
                continue
            for tp, value in answer.items():
                self._recorder.note(
                    "mark", client=reader, partition=partition_name(*tp), kind=kind.value, value=value
                )

    # -- the group ---------------------------------------------------------------------------------------------

    async def _membership(self) -> None:
        """One member after the other."""
        rng = random.Random(f"{self._seed}/members/{self._members}")
        while not self._ended:
            self._members += 1
            name, leave = f"m{self._members}", asyncio.Event()
            self._leaving.append(leave)
            self._recorder.note("member", member=name, group=GROUP)
            timer = asyncio.get_running_loop().call_later(rng.uniform(*_MEMBER_S), self._may_leave, leave)
            await self._be_member(name, leave)
            timer.cancel()
            self._leaving.remove(leave)

    def _may_leave(self, leave: asyncio.Event) -> None:
        if self._churning:
            leave.set()

    async def _be_member(self, name: str, leave: asyncio.Event) -> None:
        def tell(what: str, partitions: list[tuple[str, int]]) -> None:
            self._recorder.note(what, member=name, partitions=names_of(partitions))

        async with self._access.client() as client:
            consumer = client.consumer(
                GROUPED.name,
                group=GROUP,
                auto_commit_interval_ms=500,
                session_timeout_ms=6_000,
                malformed="stop",
                on_assigned=lambda partitions: tell("assigned", partitions),
                on_revoked=lambda partitions: tell("revoked", partitions),
            )
            while not leave.is_set():
                await self._poll(name, GROUP, consumer)
            await consumer.close()

    async def _watch_group(self) -> None:
        async with self._access.client() as client:
            while True:
                await asyncio.sleep(_LOOK_EVERY_S)
                try:
                    seen = await client.group(GROUP, timeout=3.0)
                except PenstockError:
                    continue
                self._recorder.note(
                    "look",
                    group=GROUP,
                    state=seen.state,
                    epoch=seen.epoch,
                    members={member.member_id: names_of(member.assigned) for member in seen.members},
                    offsets={partition_name(*tp): offset for tp, offset in seen.offsets.items()},
                )
                owned = {tp for member in seen.members for tp in member.assigned}
                if seen.state == "stable" and owned.issuperset(GROUPED.named_partitions):
                    self._group_settled.set()

    # -- the end -----------------------------------------------------------------------------------------------

    async def retire(self, topics: Sequence[Topic]) -> None:
        """End the producers of these topics: everything they sent has an outcome on return."""
        for topic in topics:
            self._retired[topic.name] = None
        ending = [self._producing[plan.name] for plan in PRODUCERS if plan.topic in topics]
        await asyncio.gather(*ending)

    async def drain(self, topics: Sequence[Topic]) -> list[str]:
        """What readers and the group still have not read when they have had time; read from the end offsets."""
        self._churning = False
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _FINISH_S
        async with self._access.client() as client:
            consumer = client.consumer([topic.name for topic in topics], malformed="stop")
            missing = ["the end offsets are not known"]
            while missing and loop.time() < deadline:
                await asyncio.sleep(_REFUSED_S)
                try:
                    ends = await consumer.end_offsets(_MARKS_S)
                except PenstockError:
                    continue
                missing = [
                    f"{reader} is at {found.get(tp, 0)} of {end} of {partition_name(*tp)}"
                    for reader, found in self._positions.items()
                    for tp, end in ends.items()
                    if self._reads(reader, tp[0]) and found.get(tp, 0) < end
                ]
        return missing

    async def group_settled(self, patience_s: float) -> None:
        """Return once another look shows the group stable, or after `patience_s`: the judge then says so."""
        if GROUP in self._reading:
            self._group_settled.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self._group_settled.wait()

    def _reads(self, reader: str, topic: str) -> bool:
        return topic in self._read_by[reader]

    def stop_reader(self, reader: str) -> None:
        """It has read what it was to read."""
        task = self._reading.pop(reader, None)
        if task is not None:
            task.cancel()

    def stop(self) -> None:
        """End readers and members."""
        self._churning = False
        self._ended = True
        for reader in list(self._reading):
            self.stop_reader(reader)
        for leave in self._leaving:
            leave.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRead:
    """What a fresh consumer found: the end of each partition, and those whose end it did not reach."""

    ends: dict[tuple[str, int], int]
    missing: tuple[str, ...]


async def read_everything(
    access: Access, recorder: Recorder, topics: Sequence[Topic], timeout_s: float
) -> LastRead:
    """A fresh consumer reads each partition from its start to its end, or until the time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    async with access.client() as client:
        consumer = client.consumer([topic.name for topic in topics], malformed="stop")
        ends: dict[tuple[str, int], int] | None = None
        at: dict[tuple[str, int], int] = {}
        while ends is None or any(at.get(tp, 0) < end for tp, end in ends.items()):
            if loop.time() > deadline:
                break
            try:
                if ends is None:
                    for tp, start in (await consumer.beginning_offsets(_MARKS_S)).items():
                        recorder.note("log start", partition=partition_name(*tp), offset=start)
                    ends = await consumer.end_offsets(_MARKS_S)
                messages = await consumer.poll(max_messages=_POLL_MESSAGES, timeout=_POLL_S)
            except PenstockError as error:
                recorder.note("refused", reader="last", code=error.code.name)
                await asyncio.sleep(_REFUSED_S)
                continue
            for m in messages:
                at[m.topic, m.partition] = m.offset + 1
            found = ((partition_name(m.topic, m.partition), m.offset, m.value or b"") for m in messages)
            recorder.final(found)
    if ends is None:
        return LastRead(ends={}, missing=("the end offsets are not known",))
    missing = (
        f"{partition_name(*tp)} {at.get(tp, 0)} of {end}" for tp, end in ends.items() if at.get(tp, 0) < end
    )
    return LastRead(ends=ends, missing=tuple(missing))
