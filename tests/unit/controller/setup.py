"""A small cluster as an image, from the same keys and values that the store would hold."""

from collections.abc import Iterable, Sequence

from data_plane.metadata import broker_records, model
from data_plane.metadata.broker_records import BrokerRecord, LiveRecord
from data_plane.metadata.image import BlockId, ClusterImage
from data_plane.metadata.model import PartitionRecord, TopicRecord
from data_plane.metadata.port import Change, Compare, Event, KeyValue, Put, WatchBatch
from penstock.contract.ids import BrokerId, TenantId, TopicId
from penstock.contract.topic_settings import Durability, TopicSettings

ACME = TenantId("acme")
ORDERS = TopicId(bytes(15) + b"\x01")
LOGS = TopicId(bytes(15) + b"\x02")


def record(in_sync: Iterable[int] = (1, 2, 3), **changes: object) -> PartitionRecord:
    values: dict[str, object] = {
        "partition": 0,
        "replicas": (1, 2, 3),
        "replica_generations": (1, 1, 1),
        "leader": 1,
        "leader_epoch": 5,
        "in_sync": tuple(in_sync),
        "partition_epoch": 7,
        **changes,
    }
    return PartitionRecord(**values)  # type: ignore[arg-type]


class Store:
    """Keys with revisions, and the image that follows them. Transactions are checked as a store checks them."""

    def __init__(self, brokers: Sequence[int] = (1, 2, 3)) -> None:
        self.items: dict[str, KeyValue] = {}
        self.revision = 0
        self.image = ClusterImage()
        for broker in brokers:
            self.broker(broker)
            self.register(broker)

    def txn(self, compares: Iterable[Compare], changes: Iterable[Change]) -> bool:
        """Apply all or nothing; True = applied."""
        changes = list(changes)
        if any(self.mod_revision(compare.key) != compare.mod_revision for compare in compares):
            return False
        assert len({change.key for change in changes}) == len(changes), "a key stands in at most one change"
        self.revision += 1
        events = []
        for change in changes:
            if isinstance(change, Put):
                self.items[change.key] = KeyValue(change.key, change.value, self.revision, change.session_id)
                events.append(Event(change.key, change.value, self.revision))
            elif self.items.pop(change.key, None) is not None:
                events.append(Event(change.key, None, self.revision))
        self.image.apply(WatchBatch(self.revision, tuple(events)))
        return True

    def mod_revision(self, key: str) -> int:
        return self.items[key].mod_revision if key in self.items else 0

    def put(self, key: str, value: bytes, session_id: int = 0) -> None:
        assert self.txn((), (Put(key, value, session_id),))

    def broker(self, number: int, *, draining: bool = False) -> None:
        self.put(
            broker_records.broker_key(number),
            BrokerRecord(
                broker_id=BrokerId(number),
                directory_id=f"directory-{number}",
                client_address=f"h{number}:1",
                internal_address=f"h{number}:2",
                zone=f"z{number}",
                host=f"h{number}",
                draining=draining,
            ).encode(),
        )

    def register(self, number: int, incarnation: str = "") -> int:
        value = LiveRecord(
            incarnation=incarnation or f"i{number}", directory_id=f"directory-{number}"
        ).encode()
        self.put(broker_records.live_key(number), value, session_id=number)
        return self.revision

    def topic(
        self,
        *records: PartitionRecord,
        topic_id: TopicId = ORDERS,
        name: str = "orders",
        min_insync: int = 2,
        durability: Durability = Durability.FSYNC,
    ) -> None:
        topic = TopicRecord(
            topic_id=topic_id,
            tenant=ACME,
            name=name,
            partitions=len(records),
            settings=TopicSettings(min_insync_replicas=min_insync, durability=durability),
        )
        self.put(model.tenant_key(ACME), model.TenantRecord(tenant=ACME).encode())
        self.put(model.name_key(ACME, name), topic_id.hex().encode())
        self.put(model.topic_key(topic_id), topic.encode())
        blocks: dict[str, dict[int, PartitionRecord]] = {}
        for partition in records:
            key = model.block_key(topic_id, partition.partition)
            blocks.setdefault(key, {})[partition.partition] = partition
        for key, held in blocks.items():
            self.put(key, model.encode_block(held))


def every_block(image: ClusterImage) -> list[BlockId]:
    """In order."""
    return [
        (topic_id, number) for topic_id in sorted(image.blocks) for number in sorted(image.blocks[topic_id])
    ]
