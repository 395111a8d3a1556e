"""One request, as large as the limits allow, takes no long turn of a broker's event loop (RL134, RL137).

A turn is what runs between two returns to the loop; others wait for it, the brokers' signs of life among them. It is
counted in lines of Python run, which is the same on every machine. The broker's clock counts the same lines, so
that turns which end by the clock end where they would.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from data_plane import testkit
from data_plane.testkit.clock import SimClock
from data_plane.testkit.cluster import SimBroker, SimCluster
from data_plane.testkit.loop import Process, SimLoop
from data_plane.testkit.sealed import sealed
from data_plane.testkit.swarm import TopicPlan
from data_plane.testkit.timeline import Timeline
from data_plane.testkit.transport import SimTransport
from penstock.contract import limits, methods
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import SYSTEM_TENANT, BrokerId, TopicId
from penstock.contract.topic_settings import TopicSettings
from penstock.contract.v1 import groups_pb2, log_pb2, proof_pb2
from penstock.records.build import BatchBuilder
from quotas.plans import STANDARD
from tests.simulation.plans import TIMINGS, plan_of

pytestmark = pytest.mark.pure

LINES_A_MS = 10_000
"""What the interpreter of the machine that this was written on runs: 8,000 to 15,000 of the lines in question."""
LINES_MAX = 150_000
"""Some 15 ms: a turn that can be parted ends after 2 (`TURN_MS`), the decision about a whole group cannot. A leader's
sign of life may be 1.2 s late before anybody doubts it; but a neighbour's acknowledgement waits for each turn.
"""
NARROW = 400
PARTITIONS = STANDARD.partitions_max
WIDE = PARTITIONS - NARROW
"""Topics of one partition, and partitions of one topic: together what a tenant may have."""
SETTINGS = TopicSettings(replication=1, min_insync_replicas=1)
GROUPS = 100
_MS, _BOOT_S = 120_000, 120.0
_TESTKIT = str(Path(testkit.__file__).parent)
_GROUPS_TOPIC = TopicPlan(name="__groups", partitions=1, settings=SETTINGS)


class Lines:
    """Counts the lines of Python that run, while it is told to."""

    def __init__(self) -> None:
        run = 0

        # Closures, which are called for each of many million lines in two thirds of a method's time.
        def line(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
            nonlocal run
            run += 1
            return line

        def called(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
            nonlocal run
            if frame.f_code.co_filename.startswith(_TESTKIT):
                return None  # a simulated disk or network is no work of a broker's
            run += 1
            return line

        self._called = called
        self._run: Callable[[], int] = lambda: run

    @property
    def run(self) -> int:
        """How many lines so far."""
        return self._run()

    def start(self) -> None:
        sys.settrace(self._called)

    def stop(self) -> None:
        sys.settrace(None)


class CountedClock(SimClock):
    """Time passes with lines, too."""

    def __init__(self, loop: SimLoop, lines: Lines) -> None:
        super().__init__(loop)
        self._lines = lines

    def monotonic_ms(self) -> float:
        return super().monotonic_ms() + self._lines.run / LINES_A_MS


class World:
    """One broker that leads all that a tenant may have, and a client of the tenant's."""

    def __init__(self) -> None:
        narrow = [TopicPlan(name=f"narrow-{n}", partitions=1, settings=SETTINGS) for n in range(NARROW)]
        wide = TopicPlan(name="wide", partitions=WIDE, settings=SETTINGS)
        self.plan = replace(
            plan_of(0, (), ()),
            brokers=1,
            topics=(wide, *narrow),
            producers=(),
            timings=replace(TIMINGS, session_ttl_ms=600_000, suspicion_ms=600_000),
            clock_skew_ms_max=0,
        )
        self.loop = SimLoop(0, time_limit_s=3_600.0)
        self.lines = Lines()
        self.longest = 0
        self._before = 0

    def run(self, story: Callable[["World"], Awaitable[None]]) -> None:
        async def told() -> None:
            await self._boot()
            await story(self)

        try:
            with sealed():
                self.loop.run_until_complete(told())
        finally:
            self.lines.stop()
            self.loop.close()

    async def _boot(self) -> None:
        self.cluster = SimCluster(self.loop, self.plan, Timeline(self.loop.time))
        self.cluster.chances.enabled = False
        self.broker = self.cluster.brokers[0] = SimBroker(BrokerId(0), CountedClock(self.loop, self.lines))
        self.cluster.start(self.broker)
        await self.cluster.set_up()
        await self.cluster.create_topic(_GROUPS_TOPIC, SYSTEM_TENANT)
        self.client = SimTransport(
            self.cluster.network,
            self.loop.process("client"),
            "c0",
            authorization=f"Bearer {self.cluster.api_key}",
        )
        self.address = self.broker.client_address
        node = self.broker.node
        assert node is not None
        self.node = node
        await self._until(
            lambda: self._led() == WIDE + NARROW + 1 and bool(node.serving.groups.coordinators.serving())
        )

    async def _until(self, holds: Callable[[], bool]) -> None:
        deadline = self.loop.time() + _BOOT_S
        while not holds():
            assert self.loop.time() < deadline, self.cluster.timeline.lines()
            await asyncio.sleep(0.1)

    def _led(self) -> int:
        """How many partitions take writes."""
        return sum(one.leading is not None and one.leading.ready for one in self.node.replicas.all())

    def wide(self) -> TopicId:
        return self.cluster.topic_ids["wide"]

    # -- counting ---------------------------------------------------------------------------------------------

    def _stepped(self, process: Process) -> None:
        if process is self.broker.process:
            self.longest = max(self.longest, self.lines.run - self._before)
        self._before = self.lines.run

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """For what only prepares the largest request."""
        self.lines.stop()
        try:
            yield
        finally:
            self.lines.start()

    async def longest_turn(self, work: Callable[["World"], Awaitable[None]]) -> int:
        """Lines of the broker's longest turn while the work is done."""
        self.longest = 0
        self._before = self.lines.run
        self.loop.on_step = self._stepped
        self.lines.start()
        try:
            await work(self)
        finally:
            self.lines.stop()
            self.loop.on_step = None
        return self.longest

    async def call(self, method: str, request: Any, answer: type[Any]) -> Any:
        return answer.FromString(
            await self.client.call(self.address, method, request.SerializeToString(), _MS)
        )


# -- the largest requests -------------------------------------------------------------------------------------


def _batch() -> bytes:
    builder = BatchBuilder(bytes_max=1_000)
    builder.append(0, None, b"x")
    return builder.build()


def _many(world: World) -> list[tuple[TopicId, int]]:
    """As many partitions as one request may name: all of the tenant's, again and again."""
    ids = world.cluster.topic_ids
    known = [
        *((ids["wide"], number) for number in range(WIDE)),
        *((ids[f"narrow-{n}"], 0) for n in range(NARROW)),
    ]
    return [known[number % len(known)] for number in range(limits.FRAME_ENTRIES_MAX)]


async def produce(world: World) -> None:
    """Batches that are none, then whole ones of all partitions, then of one."""
    stream = await world.client.connect(world.address, methods.PRODUCE, _MS)
    await stream.receive()
    unanswered = 0
    everywhere = _many(world)
    for batch, places in (
        (b"x", everywhere),
        (_batch(), everywhere),
        (_batch(), everywhere[:1] * len(everywhere)),
    ):
        head = log_pb2.ProduceHead(acks=-1)
        for number, (topic_id, partition) in enumerate(places):
            head.batches.add(
                id=number, topic_id=topic_id, partition=partition, size=len(batch), leader_epoch=-1
            )
        batches = [batch] * len(head.batches)
        await stream.send(pack_frame(FrameKind.PRODUCE, head.SerializeToString(), batches))
        unanswered += len(head.batches)
        while unanswered:
            _, answer, _ = unpack_frame(await stream.receive())
            unanswered -= len(log_pb2.ProduceAnswerHead.FromString(bytes(answer)).results)
    stream.close()


async def consume(world: World) -> None:
    """Opens all, gives credit to all, as often as frames may, and closes all."""
    stream = await world.client.connect(world.address, methods.CONSUME, _MS)
    many = _many(world)
    opening = log_pb2.ConsumeOpenHead(group="g")
    for handle, (topic_id, partition) in enumerate(many):
        opening.partitions.add(
            handle=handle, topic_id=topic_id, partition=partition, last_epoch=-1, leader_epoch=-1,
            credit_bytes=1,
        )  # fmt: skip
    credit = log_pb2.ConsumeCreditHead()
    for handle in range(len(many)):
        credit.credits.add(handle=handle, credit_bytes=limits.MIB)
    closing = log_pb2.ConsumeCloseHead(handles=range(len(many)))
    for kind, head in (
        (FrameKind.CONSUME_OPEN, opening),
        (FrameKind.CONSUME_CREDIT, credit),
        (FrameKind.CONSUME_CREDIT, credit),
    ):
        await stream.send(pack_frame(kind, head.SerializeToString()))
        await stream.receive()
        await asyncio.sleep(5)
    world.node.serving.streams.recheck()
    await stream.send(pack_frame(FrameKind.CONSUME_CLOSE, closing.SerializeToString()))
    await asyncio.sleep(5)
    stream.close()


async def metadata(world: World) -> None:
    names = [topic.name for topic in world.plan.topics]
    names += [f"none-{number}" for number in range(limits.FRAME_ENTRIES_MAX - len(names))]
    for request in (log_pb2.MetadataRequest(topics=names), log_pb2.MetadataRequest(all_topics=True)):
        await world.call(methods.METADATA, request, log_pb2.MetadataResponse)


async def watch_metadata(world: World) -> None:
    names = [topic.name for topic in world.plan.topics]
    names += [f"none-{number}" for number in range(limits.FRAME_ENTRIES_MAX - len(names))]
    request = log_pb2.WatchMetadataRequest(topics=names).SerializeToString()
    async for _ in world.client.watch(world.address, methods.WATCH_METADATA, request):
        break


async def list_offsets(world: World) -> None:
    for timestamp_ms in (-2, -1, 0):
        request = log_pb2.ListOffsetsRequest()
        for topic_id, partition in _many(world):
            request.partitions.add(
                topic_id=topic_id, partition=partition, leader_epoch=-1, timestamp_ms=timestamp_ms
            )
        await world.call(methods.LIST_OFFSETS, request, log_pb2.ListOffsetsResponse)


async def init_producer(world: World) -> None:
    request = log_pb2.InitProducerRequest(producer_id=-1)
    await world.call(methods.INIT_PRODUCER, request, log_pb2.InitProducerResponse)


async def report_keys(world: World) -> None:
    request = log_pb2.ReportKeysRequest()
    for topic_id, partition in _many(world):
        report = request.partitions.add(
            topic_id=topic_id, partition=partition, messages=1_000, over_ms=20_000
        )
        for number in range(10):
            report.keys.add(key=b"%d" % number, size=9, messages=100)
    await world.call(methods.REPORT_KEYS, request, log_pb2.ReportKeysResponse)


async def delete_records(world: World) -> None:
    request = log_pb2.DeleteRecordsRequest()
    for topic_id, partition in _many(world):
        request.partitions.add(topic_id=topic_id, partition=partition, leader_epoch=-1, before_offset=-1)
    await world.call(methods.DELETE_RECORDS, request, log_pb2.DeleteRecordsResponse)


async def describe_durability(world: World) -> None:
    request = log_pb2.DescribeDurabilityRequest()
    for topic_id, partition in _many(world):
        request.partitions.add(topic_id=topic_id, partition=partition, leader_epoch=-1)
    await world.call(methods.DESCRIBE_DURABILITY, request, log_pb2.DescribeDurabilityResponse)


async def read_stamped(world: World) -> None:
    request = proof_pb2.ReadStampedRequest(topic_id=world.wide(), partition=0, offset=0)
    await world.call(methods.READ_STAMPED, request, proof_pb2.ReadStampedResponse)


async def read_seals(world: World) -> None:
    request = proof_pb2.ReadSealsRequest(topic_id=world.wide(), partition=0)
    await world.call(methods.READ_SEALS, request, proof_pb2.ReadSealsResponse)


async def read_commitments(world: World) -> None:
    await world.call(
        methods.READ_COMMITMENTS, proof_pb2.ReadCommitmentsRequest(), proof_pb2.ReadCommitmentsResponse
    )


async def find_coordinator(world: World) -> None:
    request = groups_pb2.FindCoordinatorRequest(group="g" * limits.GROUP_NAME_LENGTH_MAX)
    await world.call(methods.FIND_COORDINATOR, request, groups_pb2.FindCoordinatorResponse)


async def _beat(
    world: World, group: str, member: int, epoch: int, **more: Any
) -> groups_pb2.GroupHeartbeatResponse:
    request = groups_pb2.GroupHeartbeatRequest(
        group=group, member_id=f"member-{member}", member_epoch=epoch,
        session_timeout_ms=3_600_000, rebalance_timeout_ms=3_600_000, **more,
    )  # fmt: skip
    answer = await world.call(methods.GROUP_HEARTBEAT, request, groups_pb2.GroupHeartbeatResponse)
    assert isinstance(answer, groups_pb2.GroupHeartbeatResponse)
    assert not answer.error, answer.message
    return answer


async def heartbeat(world: World) -> None:
    """As many members as a group may have, and as many topics as they may subscribe to, no two to the same ones: the
    last member joins, beats and leaves.
    """
    narrow = [f"narrow-{number}" for number in range(NARROW)]
    owned = [groups_pb2.GroupPartition(topic_id=t, partition=p) for t, p in _many(world)]
    few = limits.GROUP_SUBSCRIPTIONS_MAX // limits.GROUP_MEMBERS_MAX
    for group, members, each in (
        ("crowd", limits.GROUP_MEMBERS_MAX, few),
        ("members", limits.GROUP_SUBSCRIPTIONS_MAX // NARROW, NARROW),
    ):
        names = {m: ["wide", *(narrow[m:] + narrow[:m])[: each - 1]] for m in range(members)}
        with world.uncounted():
            for member in range(members - 1):
                await _beat(world, group, member, 0, topics=names[member])
        last = await _beat(world, group, members - 1, 0, topics=names[members - 1])
        again = {"topics": names[0], "owned": owned[:PARTITIONS]}
        epoch = (await _beat(world, group, members - 1, last.member_epoch, **again)).member_epoch
        await asyncio.sleep(2)  # the group is looked at
        await _beat(world, group, members - 1, epoch, owned=owned[:PARTITIONS])
        await _beat(world, group, members - 1, -1)


def _commits(world: World) -> list[groups_pb2.OffsetCommit]:
    return [
        groups_pb2.OffsetCommit(topic_id=topic_id, partition=partition, offset=0, leader_epoch=-1)
        for topic_id, partition in _many(world)
    ]


async def commit_offsets(world: World) -> None:
    request = groups_pb2.CommitOffsetsRequest(group="offsets", member_epoch=-1, offsets=_commits(world))
    answer = await world.call(methods.COMMIT_OFFSETS, request, groups_pb2.CommitOffsetsResponse)
    assert not answer.error, answer.message
    for number in range(GROUPS):
        request = groups_pb2.CommitOffsetsRequest(
            group=f"group-{number}", member_epoch=-1, offsets=_commits(world)[:10]
        )
        await world.call(methods.COMMIT_OFFSETS, request, groups_pb2.CommitOffsetsResponse)


async def fetch_committed(world: World) -> None:
    partitions = [groups_pb2.GroupPartition(topic_id=t, partition=p) for t, p in _many(world)]
    for request in (
        groups_pb2.FetchCommittedRequest(group="offsets", partitions=partitions),
        groups_pb2.FetchCommittedRequest(group="offsets"),
    ):
        answer = await world.call(methods.FETCH_COMMITTED, request, groups_pb2.FetchCommittedResponse)
        assert not answer.error, answer.message
        assert len(answer.offsets) >= PARTITIONS


async def list_groups(world: World) -> None:
    answer = await world.call(
        methods.LIST_GROUPS, groups_pb2.ListGroupsRequest(), groups_pb2.ListGroupsResponse
    )
    assert len(answer.groups) > GROUPS


async def describe_group(world: World) -> None:
    for group in ("offsets", "members"):
        answer = await world.call(
            methods.DESCRIBE_GROUP,
            groups_pb2.DescribeGroupRequest(group=group),
            groups_pb2.DescribeGroupResponse,
        )
        assert not answer.error, answer.message


async def reset_offsets(world: World) -> None:
    request = groups_pb2.ResetOffsetsRequest(group="offsets", offsets=_commits(world))
    answer = await world.call(methods.RESET_OFFSETS, request, groups_pb2.GroupChangeResponse)
    assert not answer.error, answer.message


async def delete_group(world: World) -> None:
    request = groups_pb2.DeleteGroupRequest(group="offsets")
    answer = await world.call(methods.DELETE_GROUP, request, groups_pb2.GroupChangeResponse)
    assert not answer.error, answer.message


MADE = 150
MADE_LINES_MAX = 20_000
"""Some 2 ms, beside all that a tenant may have: what a turn costs does not grow with the partitions that are there."""


async def make_topics(world: World) -> None:
    """Many at once, as the control plane delivers them."""
    plans = [TopicPlan(name=f"made-{number}", partitions=1, settings=SETTINGS) for number in range(MADE)]
    await asyncio.gather(*(world.cluster.create_topic(plan) for plan in plans))
    await world._until(lambda: world._led() == WIDE + NARROW + 1 + MADE)


LARGEST: dict[str, Callable[[World], Awaitable[None]]] = {
    methods.PRODUCE: produce,
    methods.CONSUME: consume,
    methods.METADATA: metadata,
    methods.WATCH_METADATA: watch_metadata,
    methods.LIST_OFFSETS: list_offsets,
    methods.INIT_PRODUCER: init_producer,
    methods.DESCRIBE_DURABILITY: describe_durability,
    methods.READ_STAMPED: read_stamped,
    methods.READ_SEALS: read_seals,
    methods.READ_COMMITMENTS: read_commitments,
    methods.FIND_COORDINATOR: find_coordinator,
    methods.GROUP_HEARTBEAT: heartbeat,
    methods.COMMIT_OFFSETS: commit_offsets,
    methods.FETCH_COMMITTED: fetch_committed,
    methods.LIST_GROUPS: list_groups,
    methods.DESCRIBE_GROUP: describe_group,
    methods.RESET_OFFSETS: reset_offsets,
    methods.DELETE_GROUP: delete_group,
    methods.REPORT_KEYS: report_keys,
    methods.DELETE_RECORDS: delete_records,
}
"""In this order: what is made by one is asked for by another."""


@pytest.mark.slow
def test_no_call_and_no_stream_of_a_client_takes_a_long_turn() -> None:
    longest: dict[str, int] = {}

    async def story(world: World) -> None:
        service = world.node.client_service
        offered = {*service.streams, *service.calls, *service.watches}
        assert offered == {*LARGEST}, "each method has its largest request here"
        for method, largest in LARGEST.items():
            longest[method] = await world.longest_turn(largest)

    World().run(story)
    too_long = {method: lines for method, lines in longest.items() if lines > LINES_MAX}
    assert not too_long, "\n".join(f"{lines:>9,} {method}" for method, lines in longest.items())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_topics_that_are_made_beside_many_partitions_take_no_long_turn() -> None:
    longest = 0

    async def story(world: World) -> None:
        nonlocal longest
        longest = await world.longest_turn(make_topics)

    World().run(story)
    assert longest <= MADE_LINES_MAX
