"""A coordinator that applies what it decides, topics to subscribe to, and members that beat."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from data_plane.groups.coordinator import Coordinator
from data_plane.groups.records import (
    CommittedOffset,
    GroupKey,
    KnownTopic,
    Member,
    MemberKey,
    OffsetKey,
    Record,
    group_of,
    member_of,
    member_record,
    offset_of,
    read_key,
)
from data_plane.groups.requests import Commit, CommitAnswer, Decision, Heartbeat, HeartbeatAnswer
from penstock.contract.ids import TopicId, TopicPartition

TENANT, GROUP = "tn_a", "readers"
Places = tuple[TopicPartition, ...]


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().ljust(16, b"-"))


def partition(name: str, partition: int) -> TopicPartition:
    return TopicPartition(topic_id(name), partition)


@dataclass
class SomeTopics:
    """Topics by name with their partition counts."""

    counts: dict[str, int] = field(default_factory=dict)
    gone: list[TopicId] = field(default_factory=list)
    in_bin: list[TopicId] = field(default_factory=list)

    def find(self, tenant: str, name: str) -> KnownTopic | None:
        if tenant != TENANT or name not in self.counts:
            return None
        return KnownTopic(topic_id=topic_id(name), name=name, partitions=self.counts[name])

    def deleted(self, topic: TopicId) -> bool:
        return topic in self.gone

    def binned(self, topic: TopicId) -> bool:
        return topic in self.in_bin


def check_the_same_when_read(record: Record) -> None:
    """What a coordinator goes on with is what another one will read."""
    as_read = Record(record.key, record.value)
    match read_key(record.key):
        case _ if record.value is None:
            assert record.meaning is None
        case GroupKey():
            assert record.meaning == group_of(as_read)
        case MemberKey(member_id=member_id):
            assert record.meaning == member_of(as_read, member_id)
        case OffsetKey():
            assert record.meaning == offset_of(as_read)
        case unknown:
            raise AssertionError(unknown)


class Running:
    """A coordinator whose decisions are committed at once."""

    def __init__(self, **counts: int) -> None:
        self.core = Coordinator()
        self.topics = SomeTopics(dict(counts) or {"orders": 6})
        self.now_ms = 1_000.0
        self.log: list[Record] = []
        self.written_ms: list[float] = []
        """When each record of the log was."""
        self.core.loaded(self.now_ms)

    def commit_all(self, records: tuple[Record, ...]) -> None:
        for record in records:
            check_the_same_when_read(record)
            self.log.append(record)
            self.written_ms.append(self.now_ms)
            self.core.apply(record, self.now_ms)

    def beat(
        self,
        member: str,
        epoch: int,
        owned: Places = (),
        *,
        topics: tuple[str, ...] = ("orders",),
        group: str = GROUP,
        lost: bool = False,
        **more: object,
    ) -> HeartbeatAnswer:
        """`lost`: it is decided and committed, and the test forgets the answer by itself."""
        request = Heartbeat(
            tenant=TENANT,
            group=group,
            member_id=member,
            epoch=epoch,
            owned=owned,
            topics=topics if epoch == 0 else (),
            **{"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, **more},  # type: ignore[arg-type]
        )
        decision: Decision[HeartbeatAnswer] = self.core.heartbeat(request, self.topics, self.now_ms)
        self.commit_all(decision.records)
        return decision.answer

    def commit(
        self, member: str, epoch: int, offsets: Mapping[TopicPartition, int], group: str = GROUP
    ) -> CommitAnswer:
        request = Commit(
            tenant=TENANT,
            group=group,
            member_id=member,
            epoch=epoch,
            offsets={where: CommittedOffset(offset=offset) for where, offset in offsets.items()},
        )
        decision = self.core.commit(request)
        self.commit_all(decision.records)
        return decision.answer

    def put_members(self, group: str, count: int, topics: tuple[str, ...] = ()) -> None:
        """They are in the log, whatever a coordinator says to them now."""
        for number in range(count):
            name = f"{group}-{number}"
            member = Member(
                member_id=name, topics=topics, session_timeout_ms=10_000, rebalance_timeout_ms=60_000
            )
            self.commit_all((member_record(TENANT, group, name, member),))

    def offsets(self) -> dict[TopicPartition, int]:
        return {where: kept.offset for where, kept in self.core.offsets(TENANT, GROUP).items()}

    def tick(self, ms: float = 0.0) -> None:
        self.now_ms += ms
        for records in self.core.tick(self.topics, self.now_ms):
            self.commit_all(records)

    def fail_over(self, later_ms: float = 0.0) -> None:
        """Another broker takes over: it knows the log alone."""
        self.now_ms += later_ms
        self.core = Coordinator()
        for at_ms, record in zip(self.written_ms, self.log, strict=True):
            self.core.apply(Record(record.key, record.value), at_ms)
        self.core.loaded(self.now_ms)

    def reconcile(self, *members: str) -> dict[str, Places]:
        """Let members that exist beat until nothing moves; what each owns."""
        owned: dict[str, Places] = {}
        for _ in range(10):
            before = dict(owned)
            for member in members:
                known = {m.member_id: m for m in self.core.group(TENANT, GROUP).members}[member]
                held = owned.get(member, tuple(sorted(known.assigned)))
                owned[member] = self.beat(member, known.epoch, held).assigned
            if owned == before:
                return owned
        raise AssertionError("the group never comes to rest")
