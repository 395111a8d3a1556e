"""Which partitions of `__groups` a broker coordinates, and what it answers for groups of others."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from data_plane.metadata import broker_records, model
from data_plane.metadata.model import PartitionRecord, Tombstone, TopicRecord
from data_plane.metadata.port import Delete, Put
from data_plane.node.groups.group_coordinators import GROUPS_TOPIC, GroupCoordinators
from data_plane.node.groups.group_seats import GroupSeats
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.replicas.replica import Replica
from data_plane.node.tasks import Turn
from data_plane.testkit.rng import Chances, SimRng
from data_plane.testkit.store import SimulatedStore
from penstock.contract import errors
from penstock.contract.ids import NO_BROKER, SYSTEM_TENANT, BrokerId, TenantId, TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings
from tests.unit.groups.setup import TENANT
from tests.unit.log.miniature import TOPIC, where
from tests.unit.node.storage import CONFIG

from .test_group_partition import Coordinating, some_turns

OTHER_BROKER = BrokerId(2)
ORDERS, GONE = TopicId(b"o" * 16), TopicId(b"g" * 16)
SOON_S = 1.5
"""Longer than between two looks at what is led."""


@dataclass
class Coordinators(Coordinating):
    """A broker that leads `__groups-0`, while its metadata say that broker 2 does."""

    has_replica: bool = True
    """The broker has a replica of it."""

    def play_beside_metadata(self, story: Callable[[], Awaitable[None]], *, exists: bool = True) -> None:
        async def whole() -> None:
            self.store = SimulatedStore(random.Random(1))
            if exists:
                self.make_topic()
            self.view = MetadataView(self.store.client("broker"), CONFIG.timings)
            await self.view.load()
            watching = asyncio.create_task(self.view.run())

            def turn() -> Turn:
                return Turn(self.clock, SimRng(1, Chances(1)))

            self.coordinators = GroupCoordinators(
                self.view,
                self._find,
                self.storage.disk,
                self.clock,
                self.stats,
                lambda: self.confident,
                GroupSeats(self.view, self.store.client("broker"), 3_000, turn),
                retention_ms=1_000_000,
                advance=self._begin,
                begin_turn=turn,
            )
            running = asyncio.create_task(self.coordinators.run())
            await asyncio.sleep(SOON_S)
            await story()
            for task in (watching, running):
                task.cancel()
            await asyncio.wait([watching, running])
            assert watching.cancelled() and running.cancelled(), "they run without an end"

        self.play(whole)

    def _find(self, place: TopicPartition) -> Replica | None:
        return self.replica if self.has_replica and place == where() else None

    def make_topic(self, leader: BrokerId = OTHER_BROKER) -> None:
        """`__groups` with one partition, and the broker that leads it by the metadata."""
        topic = TopicRecord(
            topic_id=TOPIC, tenant=SYSTEM_TENANT, name=GROUPS_TOPIC, partitions=1, settings=TopicSettings()
        )
        record = PartitionRecord(
            partition=0, replicas=(OTHER_BROKER,), replica_generations=(1,), leader=leader, in_sync=()
        )
        broker = broker_records.BrokerRecord(
            broker_id=OTHER_BROKER, directory_id="d", client_address="c:2", internal_address="i", zone="z"
        )
        self.put(
            {
                model.topic_key(TOPIC): topic.encode(),
                model.name_key(SYSTEM_TENANT, GROUPS_TOPIC): TOPIC.hex().encode(),
                model.block_key(TOPIC, 0): model.encode_block({0: record}),
                broker_records.broker_key(OTHER_BROKER): broker.encode(),
            }
        )

    def register(self) -> None:
        live = broker_records.LiveRecord(incarnation="i", directory_id="d")
        self.put({broker_records.live_key(OTHER_BROKER): live.encode()})

    def put(self, values: dict[str, bytes]) -> None:
        self.store.apply_txn((), [Put(key, value) for key, value in values.items()])

    async def joined(self) -> None:
        """The group has a member, and that is committed."""
        led = self.coordinators.of(TENANT, "readers")
        joins = asyncio.create_task(led.carry_out(self.joining("a")))
        await some_turns()
        self.hold(self.written)
        await joins


def test_until_the_topic_exists_there_is_no_coordinator_and_from_then_on_there_is() -> None:
    made = Coordinators()

    async def story() -> None:
        coordinators = made.coordinators
        assert coordinators.topic is None and coordinators.serving() == []
        for ask in (coordinators.of, coordinators.locate, coordinators.partition):
            with pytest.raises(errors.CoordinatorNotReady, match="being set up"):
                ask(TENANT, "readers")
        made.make_topic()
        await asyncio.sleep(SOON_S)
        assert coordinators.partition(TENANT, "readers") == where()
        assert [led.replica for led in coordinators.serving()] == [made.replica]
        assert coordinators.of(TENANT, "readers") is coordinators.serving()[0]

    made.play_beside_metadata(story, exists=False)


def test_groups_are_counted_once_their_partition_is_loaded() -> None:
    made = Coordinators()

    async def story() -> None:
        assert made.coordinators.groups_of(TENANT) == 0
        await made.joined()
        assert made.coordinators.groups_of(TENANT) == 1
        made.lead_again()
        with pytest.raises(errors.CoordinatorNotReady, match="the log is being read"):
            made.coordinators.of(TENANT, "readers")
        assert made.coordinators.groups_of(TENANT) is None, "another leadership reads it again"
        assert made.coordinators.serving() == []

    made.play_beside_metadata(story)


def test_what_is_not_led_any_more_is_dropped_and_another_broker_is_asked() -> None:
    made = Coordinators()

    async def story() -> None:
        await made.joined()
        made.replica.rest()
        for _ in range(2):
            with pytest.raises(errors.NotCoordinator, match="this broker does not coordinate it"):
                made.coordinators.of(TENANT, "readers")
            assert made.coordinators.groups_of(TENANT) == 0
            await asyncio.sleep(SOON_S)
            assert made.coordinators.serving() == []

    made.play_beside_metadata(story)


def test_a_broker_without_the_partition_coordinates_nothing() -> None:
    made = Coordinators(has_replica=False)

    async def story() -> None:
        with pytest.raises(errors.NotCoordinator):
            made.coordinators.of(TENANT, "readers")

    made.play_beside_metadata(story)


def test_partitions_of_a_deleted_topic_are_coordinated_no_more() -> None:
    made = Coordinators()

    async def story() -> None:
        led = made.coordinators.of(TENANT, "readers")
        made.store.apply_txn(
            (), (Delete(model.topic_key(TOPIC)), Delete(model.name_key(SYSTEM_TENANT, GROUPS_TOPIC)))
        )
        await asyncio.sleep(SOON_S)
        assert made.coordinators.serving() == [] and not led.serving

    made.play_beside_metadata(story)


def test_a_group_is_located_at_the_registered_leader_of_its_partition() -> None:
    made = Coordinators()

    async def story() -> None:
        with pytest.raises(errors.CoordinatorNotReady, match="is being elected"):
            made.coordinators.locate(TENANT, "readers")
        made.register()
        await asyncio.sleep(SOON_S)
        assert made.coordinators.locate(TENANT, "readers") == (OTHER_BROKER, "c:2")
        made.make_topic(NO_BROKER)
        await asyncio.sleep(SOON_S)
        with pytest.raises(errors.CoordinatorNotReady, match="is being elected"):
            made.coordinators.locate(TENANT, "readers")

    made.play_beside_metadata(story)


def test_groups_know_topics_by_the_names_that_tenants_have_now() -> None:
    made = Coordinators()

    async def story() -> None:
        topic = TopicRecord(
            topic_id=ORDERS, tenant=TenantId("t"), name="orders", partitions=6, settings=TopicSettings()
        )
        made.put(
            {
                model.topic_key(ORDERS): topic.encode(),
                model.name_key("t", "orders"): ORDERS.hex().encode(),
                model.tombstone_key(GONE): Tombstone(tenant="t", name="gone", partitions=1).encode(),
            }
        )
        await asyncio.sleep(SOON_S)
        topics = made.coordinators.topics
        described = topics.find("t", "orders")
        assert described is not None
        assert (described.topic_id, described.name, described.partitions) == (ORDERS, "orders", 6)
        assert topics.find("t", "gone") is None and topics.find("tn_other", "orders") is None
        assert [topics.deleted(each) for each in (ORDERS, GONE, TOPIC)] == [False, True, False]
        assert [topics.binned(each) for each in (ORDERS, GONE)] == [False, False]
        made.put({model.topic_key(ORDERS): replace(topic, binned=True).encode()})
        await asyncio.sleep(SOON_S)
        assert topics.binned(ORDERS)

    made.play_beside_metadata(story)
