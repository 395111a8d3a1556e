"""The image: a broker's own copy of the metadata, changed only by whole revisions of the watch."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from data_plane.metadata import broker_records, model
from data_plane.metadata.access_lists import AccessListRecord
from data_plane.metadata.budget_use import BudgetKey, BudgetUse, BudgetUseRecord
from data_plane.metadata.features import BEFORE_LEVELS, FeaturesRecord, Supported, VersionRecord
from data_plane.metadata.group_seats import GroupSeatsRecord
from data_plane.metadata.losses import LossRecord
from data_plane.metadata.port import Event, KeyValue, WatchBatch
from penstock.contract.ids import NO_BROKER, BrokerId, TenantId, TopicId, TopicPartition
from penstock.rules.budgets import Budget

_OF_TOPICS = frozenset(("topics", "partitions", "tombstones", "finals", "losses"))
"""Kinds of keys whose second part is a topic's id."""
_OF_TENANTS = frozenset(
    (
        "tenants",
        "names",
        "use",
        "cuts",
        "begun_cuts",
        "cut_ends",
        "kept_cuts",
        "access_lists",
        "group_seats",
        "budget_use",
    )
)
"""Kinds of keys whose second part is a tenant."""


BlockId = tuple[TopicId, int]
"""A partition block: the topic and the block's number."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker with its registration. `epoch` 0 = fenced: no live registration."""

    record: broker_records.BrokerRecord
    record_revision: int
    epoch: int
    incarnation: str

    @property
    def active(self) -> bool:
        return self.epoch != 0 and not self.record.draining


@dataclass(frozen=True, slots=True)
class PartitionBlock:
    """Up to PARTITIONS_PER_BLOCK partitions of one topic, as one key holds them."""

    key: str
    revision: int
    partitions: dict[int, model.PartitionRecord]


class ClusterImage:
    """Everything the store holds, indexed for brokers. `revision` is the last one applied.

    Not thread-safe: one owner applies, all others read between awaits.
    """

    def __init__(self) -> None:
        self.revision = 0
        self.objects_revision = 0
        """Of the last change that was not of what budgets count: those come each second."""
        self.cluster_id = ""
        self.cluster_revision = 0
        self.level = 1
        """The feature level in force."""
        self.features_revision = 0
        self.versions: dict[BrokerId, VersionRecord] = {}
        """As registered; `supported_by` says which of them hold."""
        self.brokers: dict[BrokerId, Broker] = {}
        self.cordons: dict[BrokerId, broker_records.CordonRecord] = {}
        self.cordon_revisions: dict[BrokerId, int] = {}
        self.topics: dict[TopicId, model.TopicRecord] = {}
        self.topic_revisions: dict[TopicId, int] = {}
        self.names: dict[tuple[TenantId, str], TopicId] = {}
        self.blocks: dict[TopicId, dict[int, PartitionBlock]] = {}
        self.leader_counts: Counter[BrokerId] = Counter()
        """Partitions that each broker should lead now; those without a leader are counted under NO_BROKER."""
        self.replica_counts: Counter[BrokerId] = Counter()
        """Partitions that each broker holds."""
        self._partitions_of: Counter[TenantId] = Counter()
        """Partitions of all topics, by tenant."""
        self.names_of: dict[TenantId, dict[str, TopicId]] = {}
        """The same by tenant."""
        self.tombstones: dict[TopicId, int] = {}
        """Revision of each."""
        self.buried: dict[TopicId, model.Tombstone] = {}
        """What the tombstones say."""
        self.deleted_of: dict[TenantId, dict[str, dict[TopicId, None]]] = {}
        """Deleted topics that are metered, by tenant and the cut that counts them last (empty: none yet)."""
        self.finals: dict[TopicPartition, model.FinalRecord] = {}
        self.final_revisions: dict[TopicPartition, int] = {}
        self.begun_cuts: dict[TenantId, model.BegunCut] = {}
        self.begun_cut_revisions: dict[TenantId, int] = {}
        self.cuts: dict[TenantId, model.CutRecord] = {}
        """Each tenant's newest."""
        self.cut_revisions: dict[TenantId, int] = {}
        self.losses: dict[TopicPartition, dict[int, LossRecord]] = {}
        """Declared losses of each partition, by the log generation that began with it."""
        self.tenants: dict[TenantId, model.TenantRecord] = {}
        self.tenant_revisions: dict[TenantId, int] = {}
        self.use_revisions: dict[TenantId, int] = {}
        self.group_seats: dict[TenantId, GroupSeatsRecord] = {}
        self.budget_use: dict[TenantId, BudgetUseRecord] = {}
        self.budget_use_revisions: dict[TenantId, int] = {}
        self.group_seats_revisions: dict[TenantId, int] = {}
        self.access_lists: dict[TenantId, AccessListRecord] = {}
        self.access_list_revisions: dict[TenantId, int] = {}
        self.keys: dict[str, model.KeyRecord] = {}
        self.tenants_in_order: list[str] = []
        """Ids of `tenants`, `topics` (in hex) and `keys`, sorted: a list in pages goes on where its last page ended."""
        self.topics_in_order: list[str] = []
        self.keys_in_order: list[str] = []
        self.key_revisions: dict[str, int] = {}
        self.refused_keys: dict[str, int] = {}
        """Generation at which a key was revoked before it was ever put."""
        self.controller: broker_records.ControllerRecord | None = None
        self.controller_epoch = 0
        self.brokers_changed_at = 0
        """Revision of the last change of a broker's record, registration or cordon."""
        self.loaded_at = 0
        """Revision of the last whole listing."""
        self._live: dict[int, tuple[int, broker_records.LiveRecord]] = {}
        self._changed_at: dict[BlockId, int] = {}
        """Blocks by the revision that changed them or their topic last, newest at the end."""

    def load(self, items: Iterable[KeyValue], revision: int) -> None:
        """Replace everything by a listing at `revision`."""
        self.__init__()  # type: ignore[misc]
        for item in items:
            self._set(item.key, item.value, item.mod_revision)
        self.revision = self.objects_revision = self.loaded_at = revision

    def apply(self, batch: WatchBatch) -> None:
        """Apply one revision; an older one (already applied) changes nothing."""
        if batch.revision <= self.revision:
            return
        for event in batch.events:
            self._apply_event(event, batch.revision)
            if not event.key.startswith("/budget_use/"):
                self.objects_revision = batch.revision
        self.revision = batch.revision

    def _apply_event(self, event: Event, revision: int) -> None:
        if event.value is None:
            self._unset(event.key, revision)
        else:
            self._set(event.key, event.value, event.mod_revision)

    # -- reading -----------------------------------------------------------------------------------

    def partition(self, where: TopicPartition) -> model.PartitionRecord | None:
        block = self.blocks.get(where.topic_id, {}).get(where.partition // model.PARTITIONS_PER_BLOCK)
        return None if block is None else block.partitions.get(where.partition)

    def block_of(self, where: TopicPartition) -> PartitionBlock | None:
        return self.blocks.get(where.topic_id, {}).get(where.partition // model.PARTITIONS_PER_BLOCK)

    def blocks_changed_since(self, revision: int) -> Iterator[BlockId]:
        """Blocks that changed after `revision`, or whose topic did, newest first. All changed in a whole listing."""
        if revision < self.loaded_at:
            yield from self._changed_at
            return
        for block in reversed(self._changed_at):
            if self._changed_at[block] <= revision:
                return
            yield block

    def partitions_of(self, topic_id: TopicId) -> list[model.PartitionRecord]:
        """All partitions of a topic, in order."""
        blocks = self.blocks.get(topic_id, {})
        return [
            blocks[number].partitions[p]
            for number in sorted(blocks)
            for p in sorted(blocks[number].partitions)
        ]

    def concerns(self, key: str, tenant: TenantId) -> bool:
        """May a change of this key change what the tenant's callers see of brokers and topics? Asked after the
        change; True in doubt.
        """
        kind, _, rest = key[1:].partition("/")
        whose = rest.partition("/")[0]
        if kind in _OF_TOPICS:
            # One that is gone has taken its name along, which shows its tenant.
            topic = self.topics.get(TopicId(bytes.fromhex(whose)))
            return topic is not None and topic.tenant == tenant
        if kind == "keys":
            known = self.keys.get(whose)
            return known is None or known.tenant == tenant
        return whose == tenant if kind in _OF_TENANTS else True

    def quotas_of(self, tenant: TenantId) -> model.TenantQuotas:
        """The limits that brokers enforce for it; none of a tenant that is not known."""
        known = self.tenants.get(tenant)
        return model.TenantQuotas() if known is None else known.quotas

    def budgets_of(self, tenant: TenantId) -> tuple[Budget, ...]:
        """The tenant's budgets; none of one that is not known."""
        known = self.tenants.get(tenant)
        return () if known is None else known.budgets

    def budget(self, key: BudgetKey) -> Budget | None:
        for budget in self.budgets_of(key.tenant):
            if budget.budget_id == key.budget_id:
                return budget
        return None

    def budget_use_of(self, key: BudgetKey) -> BudgetUse | None:
        """What was counted of a budget; None: nothing yet."""
        record = self.budget_use.get(key.tenant)
        return None if record is None else record.uses.get(key.budget_id)

    def partitions_used(self, tenant: TenantId) -> int:
        """Partitions of all topics of the tenant."""
        return self._partitions_of[tenant]

    def epoch_of(self, broker: int) -> int:
        """Epoch of the broker's live registration, 0 = fenced or unknown."""
        live = self._live.get(broker)
        return 0 if live is None else live[0]

    def supported_by(self, broker: BrokerId) -> Supported:
        """What the registered broker supports. One of Penstock 0.1 may have registered after one that said so."""
        live, said = self._live.get(broker), self.versions.get(broker)
        if live is None or said is None or said.incarnation != live[1].incarnation:
            return BEFORE_LEVELS
        return said.supported

    def cordoned(self, broker: BrokerId) -> bool:
        """Whether an operator wants it out of use."""
        known = self.cordons.get(broker)
        return known is not None and known.cordoned

    @property
    def controller_id(self) -> BrokerId:
        return NO_BROKER if self.controller is None else self.controller.broker_id

    # -- writing -----------------------------------------------------------------------------------

    def _set(self, key: str, value: bytes, revision: int) -> None:
        kind, _, rest = key[1:].partition("/")
        if kind == "partitions":
            topic_hex, _, number = rest.partition("/")
            topic_id = TopicId(bytes.fromhex(topic_hex))
            blocks = self.blocks.setdefault(topic_id, {})
            self._count(blocks.get(int(number)), -1)
            blocks[int(number)] = PartitionBlock(key, revision, model.decode_block(value))
            self._count(blocks[int(number)], 1)
            self._note_changed((topic_id, int(number)), revision)
        elif kind == "live":
            self._live[int(rest)] = (revision, broker_records.LiveRecord.decode(value))
            self._refresh_broker(int(rest))
            self.brokers_changed_at = revision
        elif kind == "brokers":
            record = broker_records.BrokerRecord.decode(value)
            self.brokers[record.broker_id] = Broker(record, revision, 0, "")
            self._refresh_broker(record.broker_id)
            self.brokers_changed_at = revision
        elif kind == "cordons":
            cordon = broker_records.CordonRecord.decode(value)
            self.cordons[cordon.broker_id] = cordon
            self.cordon_revisions[cordon.broker_id] = self.brokers_changed_at = revision
        elif kind == "topics":
            topic = model.TopicRecord.decode(value)
            _put_in_order(self.topics_in_order, rest)
            self._count_topic(self.topics.get(topic.topic_id), -1)
            self._count_topic(topic, 1)
            self.topics[topic.topic_id] = topic
            self.topic_revisions[topic.topic_id] = revision
            for block in self.blocks.get(topic.topic_id, ()):
                self._note_changed((topic.topic_id, block), revision)
        elif kind == "names":
            tenant, _, name = rest.partition("/")
            topic_id = TopicId(bytes.fromhex(value.decode()))
            self.names[TenantId(tenant), name] = topic_id
            self.names_of.setdefault(TenantId(tenant), {})[name] = topic_id
        elif kind == "keys":
            _put_in_order(self.keys_in_order, rest)
            self.keys[rest] = model.KeyRecord.decode(value)
            self.key_revisions[rest] = revision
        elif kind == "tenants":
            _put_in_order(self.tenants_in_order, rest)
            self.tenants[TenantId(rest)] = model.TenantRecord.decode(value)
            self.tenant_revisions[TenantId(rest)] = revision
        elif kind == "access_lists":
            self.access_lists[TenantId(rest)] = AccessListRecord.decode(value)
            self.access_list_revisions[TenantId(rest)] = revision
        elif kind == "use":
            self.use_revisions[TenantId(rest)] = revision
        elif kind == "group_seats":
            self.group_seats[TenantId(rest)] = GroupSeatsRecord.decode(value)
            self.group_seats_revisions[TenantId(rest)] = revision
        elif kind == "budget_use":
            self.budget_use[TenantId(rest)] = BudgetUseRecord.decode(value)
            self.budget_use_revisions[TenantId(rest)] = revision
        elif kind == "refused_keys":
            self.refused_keys[rest] = int(value)
        elif kind == "tombstones":
            self._unbury(TopicId(bytes.fromhex(rest)))
            self._bury(TopicId(bytes.fromhex(rest)), model.Tombstone.decode(value), revision)
        elif kind == "finals":
            where = _partition_of(rest)
            self.finals[where] = model.FinalRecord.decode(value)
            self.final_revisions[where] = revision
        elif kind == "begun_cuts":
            self.begun_cuts[TenantId(rest)] = model.BegunCut.decode(value)
            self.begun_cut_revisions[TenantId(rest)] = revision
        elif kind == "cuts":
            self.cuts[TenantId(rest)] = model.CutRecord.decode(value)
            self.cut_revisions[TenantId(rest)] = revision
        elif kind == "losses":
            where, generation = _loss_of(rest)
            self.losses.setdefault(where, {})[generation] = LossRecord.decode(value)
        elif kind == "controller":
            self.controller = broker_records.ControllerRecord.decode(value)
            self.controller_epoch = revision
        elif kind == "cluster":
            self.cluster_id = broker_records.ClusterRecord.decode(value).cluster_id
            self.cluster_revision = revision
        elif kind == "features":
            self.level = FeaturesRecord.decode(value).level
            self.features_revision = revision
        elif kind == "versions":
            self.versions[BrokerId(int(rest))] = VersionRecord.decode(value)

    def _unset(self, key: str, revision: int) -> None:
        kind, _, rest = key[1:].partition("/")
        if kind == "partitions":
            topic_hex, _, number = rest.partition("/")
            topic_id = TopicId(bytes.fromhex(topic_hex))
            self._count(self.blocks.get(topic_id, {}).pop(int(number), None), -1)
            self._changed_at.pop((topic_id, int(number)), None)
            if not self.blocks.get(topic_id):
                self.blocks.pop(topic_id, None)
        elif kind == "live":
            self._live.pop(int(rest), None)
            self._refresh_broker(int(rest))
            self.brokers_changed_at = revision
        elif kind == "brokers":
            self.brokers.pop(BrokerId(int(rest)), None)
            self.brokers_changed_at = revision
        elif kind == "cordons":
            self.cordons.pop(BrokerId(int(rest)), None)
            self.cordon_revisions.pop(BrokerId(int(rest)), None)
            self.brokers_changed_at = revision
        elif kind == "topics":
            _take_from_order(self.topics_in_order, rest)
            self._count_topic(self.topics.pop(TopicId(bytes.fromhex(rest)), None), -1)
            self.topic_revisions.pop(TopicId(bytes.fromhex(rest)), None)
        elif kind == "names":
            tenant, _, name = rest.partition("/")
            self.names.pop((TenantId(tenant), name), None)
            self.names_of.get(TenantId(tenant), {}).pop(name, None)
            if not self.names_of.get(TenantId(tenant)):
                self.names_of.pop(TenantId(tenant), None)
        elif kind == "keys":
            _take_from_order(self.keys_in_order, rest)
            self.keys.pop(rest, None)
            self.key_revisions.pop(rest, None)
        elif kind == "tenants":
            _take_from_order(self.tenants_in_order, rest)
            self.tenants.pop(TenantId(rest), None)
            self.tenant_revisions.pop(TenantId(rest), None)
        elif kind == "access_lists":
            self.access_lists.pop(TenantId(rest), None)
            self.access_list_revisions.pop(TenantId(rest), None)
        elif kind == "use":
            self.use_revisions.pop(TenantId(rest), None)
        elif kind == "group_seats":
            self.group_seats.pop(TenantId(rest), None)
            self.group_seats_revisions.pop(TenantId(rest), None)
        elif kind == "budget_use":
            self.budget_use.pop(TenantId(rest), None)
            self.budget_use_revisions.pop(TenantId(rest), None)
        elif kind == "refused_keys":
            self.refused_keys.pop(rest, None)
        elif kind == "tombstones":
            self._unbury(TopicId(bytes.fromhex(rest)))
        elif kind == "finals":
            self.finals.pop(_partition_of(rest), None)
            self.final_revisions.pop(_partition_of(rest), None)
        elif kind == "begun_cuts":
            self.begun_cuts.pop(TenantId(rest), None)
            self.begun_cut_revisions.pop(TenantId(rest), None)
        elif kind == "cuts":
            self.cuts.pop(TenantId(rest), None)
            self.cut_revisions.pop(TenantId(rest), None)
        elif kind == "losses":
            where, generation = _loss_of(rest)
            self.losses.get(where, {}).pop(generation, None)
            if not self.losses.get(where):
                self.losses.pop(where, None)
        elif kind == "controller":
            self.controller = None
            self.controller_epoch = 0
        elif kind == "cluster":
            self.cluster_id = ""
            self.cluster_revision = 0
        elif kind == "features":
            self.level = 1
            self.features_revision = 0
        elif kind == "versions":
            self.versions.pop(BrokerId(int(rest)), None)

    def _note_changed(self, block: BlockId, revision: int) -> None:
        self._changed_at.pop(block, None)
        self._changed_at[block] = revision

    def _count(self, block: PartitionBlock | None, by: int) -> None:
        """Its partitions come (1) or go (-1)."""
        if block is not None:
            for record in block.partitions.values():
                self.leader_counts[record.leader] += by
                for broker in record.replicas:
                    self.replica_counts[broker] += by

    def _count_topic(self, topic: model.TopicRecord | None, by: int) -> None:
        """It comes (1) or goes (-1)."""
        if topic is not None:
            self._partitions_of[TenantId(topic.tenant)] += by * topic.partitions
            if not self._partitions_of[TenantId(topic.tenant)]:
                del self._partitions_of[TenantId(topic.tenant)]

    def _bury(self, topic_id: TopicId, tombstone: model.Tombstone, revision: int) -> None:
        self.tombstones[topic_id] = revision
        self.buried[topic_id] = tombstone
        if tombstone.metered:
            of_tenant = self.deleted_of.setdefault(TenantId(tombstone.tenant), {})
            of_tenant.setdefault(tombstone.closed_by, {})[topic_id] = None

    def _unbury(self, topic_id: TopicId) -> None:
        self.tombstones.pop(topic_id, None)
        tombstone = self.buried.pop(topic_id, None)
        if tombstone is not None and tombstone.metered:
            of_tenant = self.deleted_of[TenantId(tombstone.tenant)]
            del of_tenant[tombstone.closed_by][topic_id]
            if not of_tenant[tombstone.closed_by]:
                del of_tenant[tombstone.closed_by]
            if not of_tenant:
                del self.deleted_of[TenantId(tombstone.tenant)]

    def _refresh_broker(self, number: int) -> None:
        broker = self.brokers.get(BrokerId(number))
        if broker is None:
            return
        live = self._live.get(number)
        epoch, incarnation = (0, "") if live is None else (live[0], live[1].incarnation)
        self.brokers[BrokerId(number)] = Broker(broker.record, broker.record_revision, epoch, incarnation)


def _put_in_order(ids: list[str], one: str) -> None:
    """Unless it is there. A listing of the store comes in order, so that nothing is moved."""
    at = bisect_left(ids, one)
    if at == len(ids) or ids[at] != one:
        ids.insert(at, one)


def _take_from_order(ids: list[str], one: str) -> None:
    at = bisect_left(ids, one)
    if at < len(ids) and ids[at] == one:
        del ids[at]


def _partition_of(rest: str) -> TopicPartition:
    """The partition of a final reading's key."""
    topic_hex, partition = rest.split("/")
    return TopicPartition(TopicId(bytes.fromhex(topic_hex)), int(partition))


def _loss_of(rest: str) -> tuple[TopicPartition, int]:
    """Partition and log generation of a loss's key."""
    topic_hex, partition, generation = rest.split("/")
    return TopicPartition(TopicId(bytes.fromhex(topic_hex)), int(partition)), int(generation)
