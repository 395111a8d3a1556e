"""Members of a group as the client's core lives them, in virtual time, against the real coordinator's state machine."""

from __future__ import annotations

from collections.abc import Callable

from data_plane.groups.coordinator import Coordinator
from data_plane.groups.records import CommittedOffset, KnownTopic, Record
from data_plane.groups.requests import Commit, Heartbeat
from penstock.client.consuming.fetch_collector import FetchCollector
from penstock.client.groups.assignment import RebalanceKind
from penstock.client.messages import Message
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.v1 import groups_pb2 as pb
from tests.unit.client.runner import Runner

TENANT, GROUP = "tn_a", "readers"


def _places(partitions: object) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(TopicId(p.topic_id), p.partition) for p in partitions)  # type: ignore[attr-defined]


class Service:
    """A fake cluster whose broker `coordinator` coordinates every group; `told` lists what it was asked, in order."""

    def __init__(self, partitions: int = 4) -> None:
        self.runner = Runner()
        self.runner.cluster.create("orders", partitions)
        self.coordinator = 0
        self.core = Coordinator()
        self.log: list[Record] = []
        self.calls: list[str] = []
        self.epochs: dict[int, int] = {}
        """By partition: the leader epoch that was committed with its newest offset."""
        self.fetched = 0
        """How often committed offsets were asked for."""
        self.refuses: dict[str, ErrorCode] = {}
        """What calls of a name are answered with instead, nothing being done."""
        self.forget_answers = 0
        """So many of the next answers are lost, after what they tell was committed."""
        self._call = self.runner.cluster.call
        self.runner.cluster.call = self.call  # type: ignore[method-assign]

    # keeps data_plane.groups.requests.Topics
    def find(self, tenant: str, name: str) -> KnownTopic | None:
        topic = self.runner.cluster.topics.get(name)
        if topic is None:
            return None
        return KnownTopic(topic_id=TopicId(topic.topic_id), name=name, partitions=len(topic.partitions))

    def deleted(self, topic_id: TopicId) -> bool:
        return False

    def binned(self, topic_id: TopicId) -> bool:
        return False

    def call(self, broker: int, method: str, request: bytes) -> bytes:
        name = method.rsplit("/", 1)[1]
        if "Groups" not in method:
            return self._call(broker, method, request)
        if name == "FindCoordinator":
            if name in self.refuses:
                return pb.FindCoordinatorResponse(error=self.refuses[name], message="no").SerializeToString()
            address = self.runner.cluster.brokers[self.coordinator]
            return pb.FindCoordinatorResponse(broker_id=self.coordinator, address=address).SerializeToString()
        answers: dict[str, Callable[[bytes], object]] = {
            "Heartbeat": self._heartbeat,
            "CommitOffsets": self._commit,
            "FetchCommitted": self._fetch,
        }
        kinds = {
            "Heartbeat": pb.GroupHeartbeatResponse,
            "CommitOffsets": pb.CommitOffsetsResponse,
            "FetchCommitted": pb.FetchCommittedResponse,
        }
        try:
            if broker != self.coordinator:
                raise _refused(ErrorCode.NOT_COORDINATOR)
            if name in self.refuses:
                raise _refused(self.refuses[name])
            answer = answers[name](request)
            if self.forget_answers:
                self.forget_answers -= 1
                raise _refused(ErrorCode.OUTCOME_UNKNOWN)
        except PenstockError as refusal:
            answer = kinds[name](error=refusal.code, message=refusal.message)
        return answer.SerializeToString()  # type: ignore[attr-defined, no-any-return]

    def _heartbeat(self, request: bytes) -> pb.GroupHeartbeatResponse:
        asked = pb.GroupHeartbeatRequest.FromString(request)
        owned = ",".join(str(p.partition) for p in asked.owned) or "-"
        self.calls.append(f"beat {asked.member_epoch} owns {owned}")
        beat = Heartbeat(
            tenant=TENANT,
            group=asked.group,
            member_id=asked.member_id,
            epoch=asked.member_epoch,
            instance_id=asked.instance_id,
            topics=tuple(asked.topics),
            assignor=asked.assignor,
            session_timeout_ms=asked.session_timeout_ms,
            rebalance_timeout_ms=asked.rebalance_timeout_ms,
            owned=_places(asked.owned),
        )
        decision = self.core.heartbeat(beat, self, self.runner.now)
        self._apply(decision.records)
        response = pb.GroupHeartbeatResponse(
            member_epoch=decision.answer.epoch, heartbeat_ms=decision.answer.heartbeat_ms
        )
        for place in decision.answer.assigned:
            response.assigned.add(topic_id=place.topic_id, partition=place.partition)
        for topic in decision.answer.topics:
            response.topics.add(topic_id=topic.topic_id, name=topic.name)
        return response

    def _commit(self, request: bytes) -> pb.CommitOffsetsResponse:
        asked = pb.CommitOffsetsRequest.FromString(request)
        offsets = {
            TopicPartition(TopicId(o.topic_id), o.partition): CommittedOffset(
                offset=o.offset, leader_epoch=o.leader_epoch
            )
            for o in asked.offsets
        }
        self.epochs |= {p.partition: kept.leader_epoch for p, kept in offsets.items()}
        self.calls.append("commit " + ",".join(f"{p.partition}@{o.offset}" for p, o in offsets.items()))
        commit = Commit(
            tenant=TENANT,
            group=asked.group,
            member_id=asked.member_id,
            epoch=asked.member_epoch,
            offsets=offsets,
        )
        decision = self.core.commit(commit)
        self._apply(decision.records)
        response = pb.CommitOffsetsResponse()
        for place in offsets:
            error = decision.answer.refused.get(place)
            response.results.add(error=0 if error is None else error.code)
        return response

    def _fetch(self, request: bytes) -> pb.FetchCommittedResponse:
        asked = pb.FetchCommittedRequest.FromString(request)
        self.fetched += 1
        known = self.core.offsets(TENANT, asked.group)
        response = pb.FetchCommittedResponse()
        for place in _places(asked.partitions):
            kept = known.get(place, CommittedOffset(offset=-1))
            response.offsets.add(
                topic_id=place.topic_id,
                partition=place.partition,
                offset=kept.offset,
                leader_epoch=kept.leader_epoch,
            )
        response.topics_read.extend({place.topic_id for place in known})
        return response

    def _apply(self, records: tuple[Record, ...]) -> None:
        for record in records:
            self.log.append(record)
            self.core.apply(record, self.runner.now)

    def fail_over(self, to: int) -> None:
        """The coordinator's broker is gone, another one knows its log."""
        self.runner.down[self.coordinator] = None
        self.runner.lose_streams(self.coordinator)
        self.coordinator = to
        self.core = Coordinator()
        for record in self.log:
            self.core.apply(Record(record.key, record.value), self.runner.now)
        self.core.loaded(self.runner.now)

    def remove(self, member: Member) -> None:
        """Its session ended."""
        beat = Heartbeat(tenant=TENANT, group=GROUP, member_id=member.core.member_id, epoch=-1)
        self._apply(self.core.heartbeat(beat, self, self.runner.now).records)

    def committed(self) -> dict[int, int]:
        return {p.partition: kept.offset for p, kept in self.core.offsets(TENANT, GROUP).items()}

    def run(self, ms: float) -> None:
        """Time passes; the coordinator looks at its timers every 100 ms."""
        end = self.runner.now + ms
        while self.runner.now < end:
            self.runner.run(min(100.0, end - self.runner.now))
            for records in self.core.tick(self, self.runner.now):
                self._apply(records)


def _refused(code: ErrorCode) -> PenstockError:
    from penstock.contract.errors import error_class

    return error_class(code)(code.name)


class Member:
    """One consumer of the group, polled as the runtimes poll it."""

    def __init__(self, service: Service, **settings: object) -> None:
        self.service = service
        self.consumer = service.runner.consumer(
            "orders", **{"group": GROUP, "auto_commit": True, "auto_commit_interval_ms": 1_000, **settings}
        )
        assert self.consumer.member is not None
        self.core = self.consumer.member
        self.events: list[tuple[str, list[int]]] = []
        self.on_revoked: Callable[[list[tuple[str, int]]], None] | None = None
        self._collector = FetchCollector(
            self.consumer.next_fetched,
            lambda fetched: self.consumer.finished(fetched, service.runner.now),
            self.consumer.skipping.unreadable,
            self.consumer.skipping.malformed,
            self.consumer.skipping.undecodable,
        )

    @property
    def owned(self) -> list[int]:
        return [partition for _, partition in self.core.owned()]

    def poll(self, count: int = 1_000, ms: float = 50.0) -> list[Message]:
        service, runner = self.service, self.service.runner
        self.core.poll_begins(runner.now)
        end = runner.now + ms
        try:
            while True:
                self.consumer.prepare()
                while (event := self.core.next_event()) is not None:
                    self.events.append((event.kind.value, [partition for _, partition in event.partitions]))
                    kept = False
                    try:
                        if self.on_revoked is not None and event.kind is not RebalanceKind.ASSIGNED:
                            self.on_revoked(list(event.partitions))
                        kept = True
                    finally:
                        self.core.finish(event, runner.now, kept=kept)
                found = self._collector.messages(count)
                malformed = self._collector.found_malformed
                if malformed is not None and not found:
                    self.consumer.skip(malformed, runner.now)
                    continue
                if found or runner.now >= end:
                    return found
                service.run(10)
        finally:
            self.core.poll_ends(runner.now)

    def poll_until(self, holds: Callable[[], bool], *others: Member) -> None:
        for _ in range(200):
            if holds():
                return
            for member in (self, *others):
                member.poll(ms=20)
        raise AssertionError(f"never held: {self.events} {[other.events for other in others]}")

    def close(self, *, finished: bool = True, kept: bool = True) -> None:
        self.core.begin_close(self.service.runner.now, finished=finished, kept=kept)
        for _ in range(100):
            if self.core.gone:
                break
            self.service.run(100)
        self.service.runner.core.remove(self.consumer, self.service.runner.now)
        self.service.runner.run(10)
