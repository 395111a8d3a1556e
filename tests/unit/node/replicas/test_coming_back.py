"""A follower's way back to its leader: nothing that is told it once, or given to it anew, passes it by."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from data_plane.contract import replication_pb2 as pb
from data_plane.log import layout
from data_plane.log.identity import read_identity
from data_plane.metadata import broker_records, model
from data_plane.metadata.port import (
    Compare,
    KeyValue,
    MetaStore,
    OutcomeUnknown,
    Put,
    StoreUnavailable,
    TxnResult,
)
from data_plane.node.environment import Environment
from data_plane.node.log_directory.log_directory import LogDirectory
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import CallFailed, Peer
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.replicas.wing import Hosting
from data_plane.node.stats import NodeStats
from data_plane.replication.health import LostTail, Retired, Sound
from data_plane.testkit.clock import SimClock
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.medium import CutChoice, Medium
from data_plane.testkit.rng import Chances, SimRng
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import NO_BROKER, BrokerId, TenantId
from tests.unit.node.storage import CONFIG, ME, SETTINGS, born, topic_id_of, where
from tests.waiting import PATIENCE_S

LEADER = BrokerId(2)
LEADER_EPOCH = 4
REGISTERED, ANEW = 7, 8
"""Virtual: it costs nothing."""
NOBODY: Any = None
_STEPS_MAX = 100
"""Of the event loop, until something begins."""


class LeadersEnd:
    """The leader, by hand: what a test says in its name, and what the follower said."""

    peer = "leader"

    def __init__(self) -> None:
        self._said: asyncio.Queue[bytes] = asyncio.Queue()
        self._heard: asyncio.Queue[bytes] = asyncio.Queue()
        self._taken = asyncio.Event()

    async def connect(self, peer: Peer, method: str, timeout_ms: int) -> "LeadersEnd":
        return self

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        raise CallFailed(ErrorCode.INTERNAL, "nobody calls here")

    async def send(self, frame: bytes) -> None:
        self._heard.put_nowait(frame)

    async def receive(self) -> bytes:
        frame = await self._said.get()
        self._taken.set()
        return frame

    def close(self) -> None:
        """There is but one stream."""

    @property
    def is_gone(self) -> bool:
        return False

    def when_gone(self, wake: object) -> None:
        """It stays."""

    async def answer(self, answer: pb.ReplicaAnswer) -> None:
        """Returns when the follower has done with it what it does at once."""
        self._taken.clear()
        answer.leader_epoch = LEADER_EPOCH
        head = pb.ReplicaAnswerHead(answers=[answer])
        self._said.put_nowait(pack_frame(FrameKind.REPLICA_ANSWER, head.SerializeToString()))
        await self._taken.wait()

    async def heard(self) -> tuple[FrameKind, bytes] | None:
        """What the follower says next; None when it stays silent."""
        try:
            kind, head, _ = unpack_frame(await asyncio.wait_for(self._heard.get(), PATIENCE_S))
        except TimeoutError:
            return None
        return kind, bytes(head)

    async def opened(self) -> pb.ReplicaOpenHead:
        heard = await self.heard()
        assert heard is not None, "it opens"
        assert heard[0] is FrameKind.REPLICA_OPEN
        return pb.ReplicaOpenHead.FromString(heard[1])


class WillingStore:
    """Takes transactions; what comes of it is the test's to tell."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuses = 0
        """So many transactions."""
        self.trouble: list[Exception] = []
        """What the next transactions raise."""

    async def txn(self, compares: list[Compare], changes: list[Put]) -> TxnResult:
        self.asked.extend(change.key for change in changes)
        if self.trouble:
            raise self.trouble.pop(0)
        self.refuses -= 1
        return TxnResult(succeeded=self.refuses < 0, revision=ANEW)


class Readings:
    """Last readings of deleted topics: the test's to make."""

    def __init__(self) -> None:
        self.owed: dict[Replica, Callable[[Replica], None]] = {}
        self.wanted = False

    def hold(self, replica: Replica, release: Callable[[Replica], None]) -> bool:
        if self.wanted:
            self.owed[replica] = release
        return self.wanted

    def waiting_replicas(self) -> list[Replica]:
        return list(self.owed)

    def make(self) -> None:
        for replica, release in self.owed.items():
            release(replica)
        self.owed.clear()


class Follower:
    """The replicas of one broker, of which one follows; its registration is the test's to give and to take."""

    def __init__(
        self,
        loop: SimLoop,
        medium: Medium | None = None,
        metadata: list[KeyValue] | None = None,
        *,
        last_reading: bool = False,
    ) -> None:
        self.leader = LeadersEnd()
        self.store = WillingStore()
        self.readings = Readings()
        self.readings.wanted = last_reading
        clock = SimClock(loop)
        self.disk = SimDisk(medium or Medium())
        environment = Environment(
            config=CONFIG,
            clock=clock,
            rng=SimRng(1, Chances(1)),
            transport=self.leader,
            disk=self.disk,
            stats=NodeStats(),
        )
        view = MetadataView(NOBODY, CONFIG.timings)
        self.image = view.image
        self.image.load(_metadata(in_sync=(LEADER,)) if metadata is None else metadata, ANEW)
        self.replicas, log_directory = ReplicaSet(), LogDirectory(environment)
        born(self.disk)
        _, booted = log_directory.open(self.image)
        self.registration = Registration(
            CONFIG, "directory", view, NOBODY, clock, environment.rng,
            data_lost=lambda topic_id: False, damaged=lambda where: False,
            gained=lambda: self.assignment.look_at_all(), lost=lambda reason: self.assignment.look_at_all(),
        )  # fmt: skip
        self.hosting = Hosting(
            environment,
            view=view,
            registration=self.registration,
            store=cast(MetaStore, self.store),
            replicas=self.replicas,
            log_directory=log_directory,
            booted=booted,
            last_readings=self.readings,
            clock_off_ms=lambda: None,
            may_delete=lambda where, end: True,
            spawn=lambda work: self.tasks.append(loop.create_task(work)),
        )
        self.assignment = self.hosting.assignment
        self.tasks = [loop.create_task(part) for part in self.hosting.tasks()]

    @property
    def replica(self) -> Replica:
        return self.replicas.by_partition[where(1)]

    def stop(self) -> None:
        for task in self.tasks:
            task.cancel()


def _metadata(
    in_sync: tuple[BrokerId, ...],
    leader: BrokerId = LEADER,
    *,
    number: int = 1,
    replicas: tuple[BrokerId, ...] = (ME, LEADER),
    partition_epoch: int = 0,
    generation: int = 1,
) -> list[KeyValue]:
    topic = model.TopicRecord(
        topic_id=topic_id_of(number), tenant=TenantId("tn_a"), name="orders", partitions=1, settings=SETTINGS
    )
    record = model.PartitionRecord(
        partition=0, replicas=replicas, replica_generations=(generation,) * len(replicas), leader=leader,
        leader_epoch=LEADER_EPOCH, in_sync=in_sync, partition_epoch=partition_epoch,
    )  # fmt: skip
    broker = broker_records.BrokerRecord(
        broker_id=LEADER, directory_id="d", client_address="c:2", internal_address="i:2", zone="z"
    )
    live = broker_records.LiveRecord(incarnation="i", directory_id="d")
    values = {
        model.topic_key(topic.topic_id): topic.encode(),
        model.block_key(topic.topic_id, 0): model.encode_block({0: record}),
        broker_records.broker_key(LEADER): broker.encode(),
        broker_records.live_key(LEADER): live.encode(),
    }
    return [KeyValue(key=key, value=value, mod_revision=1) for key, value in values.items()]


def _tombstone() -> KeyValue:
    buried = model.Tombstone(tenant="tn_a", name="orders", partitions=1)
    return KeyValue(key=model.tombstone_key(topic_id_of(1)), value=buried.encode(), mod_revision=ANEW + 1)


def _run(story: "Coroutine[Any, Any, None]", loop: SimLoop) -> None:
    try:
        loop.run_until_complete(story)
        assert not loop.failures
    finally:
        loop.close()


def test_what_a_busy_replica_followed_is_opened_again_under_the_new_registration() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.registration._begin(REGISTERED)
        opened = await follower.leader.opened()
        assert opened.broker_epoch == REGISTERED
        await follower.leader.answer(pb.ReplicaAnswer(handle=opened.partitions[0].handle))
        assert (await follower.leader.heard() or ("nothing",))[0] is FrameKind.REPLICA_HELD
        follower.replica.busy = True
        follower.registration._drop("the session expired")
        assert follower.replica.following is None, "what it was given is over at once"
        follower.registration._begin(ANEW)
        assert follower.replica.following is None, "a role is given when it is at rest"
        follower.replica.no_longer_busy()
        kind, _ = await follower.leader.heard() or (None, b"")
        assert kind is FrameKind.REPLICA_CLOSE
        assert (await follower.leader.opened()).broker_epoch == ANEW
        follower.stop()

    _run(story(), loop)


@pytest.mark.parametrize(
    ("error", "said"), [(ErrorCode.OK, FrameKind.REPLICA_HELD), (ErrorCode.NOT_LEADER, FrameKind.REPLICA_OPEN)]
)  # fmt: skip
def test_an_answer_to_a_busy_replica_counts_when_it_is_at_rest(error: ErrorCode, said: FrameKind) -> None:
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.registration._begin(REGISTERED)
        opened = await follower.leader.opened()
        follower.replica.busy = True
        await follower.leader.answer(pb.ReplicaAnswer(handle=opened.partitions[0].handle, error=error))
        follower.replica.no_longer_busy()
        heard = await follower.leader.heard()
        assert heard is not None, "it goes on"
        assert heard[0] is said
        follower.stop()

    _run(story(), loop)


def test_a_replica_that_stops_leaves_its_leader_at_once() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.registration._begin(REGISTERED)
        opened = await follower.leader.opened()
        await follower.leader.answer(pb.ReplicaAnswer(handle=opened.partitions[0].handle))
        assert (await follower.leader.heard() or ("nothing",))[0] is FrameKind.REPLICA_HELD
        follower.replica.stop("damage was found")
        assert (await follower.leader.heard() or ("nothing",))[0] is FrameKind.REPLICA_CLOSE
        follower.stop()

    _run(story(), loop)


def test_a_stopped_replica_that_was_taken_in_all_the_same_gives_itself_up_again() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.registration._begin(REGISTERED)
        await follower.leader.opened()
        follower.replica.stop("damage was found")
        await follower.leader.heard()
        follower.image.load(_metadata(in_sync=(ME, LEADER)), ANEW + 1)
        follower.assignment.look_at_all()
        assert await follower.leader.heard() is None, "it takes no part"
        assert follower.store.asked == [model.block_key(topic_id_of(1), 0)] * 2
        follower.stop()

    _run(story(), loop)


def test_a_replica_whose_partition_has_no_leader_leaves_and_follows_again_when_it_has_one() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.registration._begin(REGISTERED)
        opened = await follower.leader.opened()
        told: list[object] = []
        follower.replica.on_role["test"] = lambda replica: told.append(replica.following)
        await follower.leader.answer(pb.ReplicaAnswer(handle=opened.partitions[0].handle))
        assert (await follower.leader.heard() or ("nothing",))[0] is FrameKind.REPLICA_HELD
        for times in (1, 2):
            follower.image.load(_metadata((LEADER,), leader=NO_BROKER), ANEW + 2 * times)
            for _ in range(2):
                follower.assignment.look_at_all()
                assert follower.replica.following is None
            assert len(told) == 2 * times - 1, "each change is told once"
            assert (await follower.leader.heard() or ("nothing",))[0] is FrameKind.REPLICA_CLOSE
            follower.image.load(_metadata((LEADER,)), ANEW + 2 * times + 1)
            follower.assignment.look_at_all()
            assert follower.replica.following is not None
            assert len(told) == 2 * times
            opened = await follower.leader.opened()
            await follower.leader.answer(pb.ReplicaAnswer(handle=opened.partitions[0].handle))
            assert (await follower.leader.heard() or ("nothing",))[0] is FrameKind.REPLICA_HELD
        follower.stop()

    _run(story(), loop)


def test_a_deleted_topics_replica_stays_until_its_last_reading_is_made() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.readings.wanted = True
        follower.registration._begin(REGISTERED)
        await follower.leader.opened()
        path = layout.partition_directory(where(1))
        follower.image.load([_tombstone()], ANEW + 1)
        follower.assignment.look_at_all()
        await asyncio.sleep(PATIENCE_S)
        assert follower.disk.exists(path) and follower.readings.owed
        follower.readings.make()
        await asyncio.sleep(PATIENCE_S)
        assert not follower.disk.exists(path)
        follower.stop()

    _run(story(), loop)


def test_a_removal_that_takes_long_delays_no_new_replica() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.registration._begin(REGISTERED)
        await follower.leader.opened()
        going = follower.replica
        going.busy = True
        for revision, metadata in enumerate(([], _metadata((LEADER,), number=2)), start=ANEW + 1):
            follower.image.load([_tombstone(), *metadata], revision)
            follower.assignment.look_at_all()
            await asyncio.sleep(PATIENCE_S)
        assert follower.disk.exists(layout.partition_directory(where(1))), "its removal is not done"
        assert where(2) in follower.replicas.by_partition
        going.no_longer_busy()
        await asyncio.sleep(PATIENCE_S)
        assert not follower.disk.exists(layout.partition_directory(where(1)))
        follower.stop()

    _run(story(), loop)


def test_a_replica_that_is_not_wanted_any_more_takes_no_role_when_its_repair_ends() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.registration._begin(REGISTERED)
        await follower.leader.opened()
        replica = follower.replica
        replica.health = LostTail(reason="the journal is damaged", given_up=True)
        follower.assignment.give_role(replica)
        for _ in range(_STEPS_MAX):
            if not replica.busy:
                await asyncio.sleep(0)
        assert replica.busy, "it is being cut"
        follower.image.load(_metadata((LEADER,), replicas=(LEADER,), partition_epoch=1), ANEW + 1)
        follower.assignment.look_at_all()
        await asyncio.sleep(PATIENCE_S)
        assert replica.following is None and isinstance(replica.health, Retired)
        assert not follower.disk.exists(layout.partition_directory(where(1)))
        follower.stop()

    _run(story(), loop)


@pytest.mark.parametrize(
    "trouble", [[], [OutcomeUnknown("lost")], [StoreUnavailable("away"), OutcomeUnknown("lost")]], ids=len
)
def test_a_damaged_replica_is_fetched_again_only_after_its_give_up_was_written(
    trouble: list[Exception],
) -> None:
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.registration._begin(REGISTERED)
        await follower.leader.opened()
        follower.store.refuses = 2
        follower.store.trouble = list(trouble)
        follower.replica.health = LostTail(reason="the journal is damaged")
        follower.assignment.give_role(follower.replica)
        await asyncio.sleep(PATIENCE_S)
        assert len(follower.store.asked) == 3 + len(trouble)
        assert follower.replica.repairs == 0, "the metadata has not moved on yet"
        follower.assignment.look_at_all()
        await asyncio.sleep(PATIENCE_S)
        assert follower.replica.repairs == 1 and follower.replica.health == Sound()
        assert follower.replica.following is not None
        follower.stop()

    _run(story(), loop)


async def _being_made(follower: Follower) -> None:
    """It follows, and its directory is made and not synced yet."""
    assert [entry.replica_generation for entry in (await follower.leader.opened()).partitions] == [1]
    directory = layout.partition_directory(where(1))
    assert not follower.disk.exists(directory), "it takes part before anything is made"
    making = asyncio.Event()
    follower.disk.hook = lambda kind, path: making.set() if path == directory else None
    await asyncio.wait_for(making.wait(), PATIENCE_S)
    assert follower.disk.exists(directory) and not follower.replica.log.born


def test_a_partition_that_moves_away_while_its_directory_is_made_leaves_nothing_here() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.registration._begin(REGISTERED)
        await _being_made(follower)
        follower.image.load(_metadata((LEADER,), replicas=(LEADER,), partition_epoch=1), ANEW + 1)
        follower.assignment.look_at_all()
        await asyncio.sleep(PATIENCE_S)
        assert follower.replicas.all() == []
        assert not follower.disk.exists(layout.partition_directory(where(1)))
        follower.stop()

    _run(story(), loop)


def test_a_partition_that_moves_away_and_back_while_its_directory_is_made_gets_one_of_its_new_generation() -> (
    None
):
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.registration._begin(REGISTERED)
        await _being_made(follower)
        follower.image.load(_metadata((LEADER,), partition_epoch=2, generation=2), ANEW + 1)
        follower.assignment.look_at_all()
        left = await follower.leader.heard()
        assert left is not None and left[0] is FrameKind.REPLICA_CLOSE
        opened = await follower.leader.opened()
        assert [entry.replica_generation for entry in opened.partitions] == [2]
        assert follower.replica.log.replica_generation == 2
        await asyncio.sleep(PATIENCE_S)
        identity = read_identity(follower.disk, layout.partition_directory(where(1)), counted=True)
        assert identity.replica_generation == 2 and follower.replica.log.born
        follower.stop()

    _run(story(), loop)


def test_the_directory_of_a_replica_without_records_is_there_after_a_power_cut() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.registration._begin(REGISTERED)
        await _being_made(follower)
        await asyncio.sleep(PATIENCE_S)
        left = follower.disk.medium.after_cut(CutChoice())
        assert read_identity(
            SimDisk(left), layout.partition_directory(where(1)), counted=True
        ).where == where(1)
        follower.stop()

    _run(story(), loop)


def test_a_partition_that_comes_back_before_its_replica_has_gone_gets_a_new_one_after_it() -> None:
    loop = SimLoop(1)

    async def story() -> None:
        follower = Follower(loop)
        follower.registration._begin(REGISTERED)
        await follower.leader.opened()
        going = follower.replica
        going.busy = True
        follower.image.load(_metadata((LEADER,), replicas=(LEADER,), partition_epoch=1), ANEW + 1)
        follower.assignment.look_at_all()
        await asyncio.sleep(PATIENCE_S)
        follower.image.load(_metadata((LEADER,), partition_epoch=2, generation=2), ANEW + 2)
        follower.assignment.look_at_all()
        await asyncio.sleep(PATIENCE_S)
        assert follower.replicas.all() == [], "the files of the old one are in its way"
        going.no_longer_busy()
        await asyncio.sleep(PATIENCE_S)
        assert follower.replica is not going
        assert follower.replica.log.replica_generation == 2
        follower.stop()

    _run(story(), loop)
