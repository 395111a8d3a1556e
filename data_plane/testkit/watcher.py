"""White-box checkers, evaluated after every simulated step: what is committed, who leads, what the metadata says.

The ledger of a partition is the truth about what is committed: each batch that lay below a watermark anywhere, as it
was stored there the first time. I3, I10, I11 and I13 compare everything else with it.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from data_plane.metadata import broker_records, model
from data_plane.metadata.model import PartitionRecord, TopicRecord
from data_plane.node.replicas.replica import Replica
from data_plane.testkit.cluster import BrokerState, SimBroker, SimCluster
from data_plane.testkit.invariants import Invariant, InvariantViolated
from data_plane.testkit.loop import Process
from data_plane.testkit.stored_log import StoredBatch, StoredLog
from penstock.contract.ids import NO_BROKER, TopicId, TopicPartition
from penstock.contract.topic_settings import Durability
from penstock.records.stamp import StampCorrupt, stamp_seed, unpack_stamp


@dataclass(frozen=True, slots=True)
class Committed:
    """One committed batch: its stamp and a checksum of its bytes."""

    base_offset: int
    end_offset: int
    stamp: bytes
    checksum: int
    seen_on: str

    def same_as(self, stored: StoredBatch) -> bool:
        return self.stamp == stored.stamp and self.checksum == zlib.crc32(stored.batch)


@dataclass(slots=True)
class Ledger:
    """Everything ever committed to one partition, in order."""

    entries: list[Committed] = field(default_factory=list)
    by_base: dict[int, int] = field(default_factory=dict)
    """Base offset -> index in `entries`."""
    claimed_end: int = 0
    """The highest watermark of a replica that a fault has struck. It is no evidence, and yet a leader may have
    committed so much: of a topic that is deleted then no other replica shows it any more."""

    @property
    def end(self) -> int:
        return self.entries[-1].end_offset if self.entries else 0


@dataclass(slots=True)
class _Seen:
    """A replica in one life of its broker, as it was after the last step that changed it."""

    high_watermark: int
    log_start: int
    leading_epoch: int = -1
    checked_to: int = 0
    log_end: int = 0
    repairs: int = 0


class Watcher:
    """Attach to a cluster; it stops the loop with the first `InvariantViolated`."""

    def __init__(self, cluster: SimCluster, damaged: Callable[[SimBroker, TopicPartition], bool]) -> None:
        """`damaged`: whether a fault has spoilt the replica's files; it is then no evidence of what is committed."""
        self._cluster = cluster
        self.damaged = damaged
        self.ledgers: dict[TopicPartition, Ledger] = {}
        self.records: dict[TopicPartition, PartitionRecord] = {}
        """The truth in the store, whatever brokers believe."""
        self._epochs: dict[TopicPartition, int] = {}
        """The last leader epoch in the store, of partitions of deleted topics as well."""
        self.topics: dict[TopicId, TopicRecord] = {}
        self.deleted: dict[TopicId, TopicRecord] = {}
        self.elections = self.in_sync_changes = self.advances = self.moves = 0
        self._seen: dict[Replica, _Seen] = {}
        self._led: dict[tuple[TopicPartition, int], str] = {}
        self._revisions_seen = 0
        self._by_process: dict[Process, SimBroker] = {}

    def attach(self) -> None:
        self._cluster.loop.on_step = self._after_step

    def _after_step(self, process: Process) -> None:
        try:
            history = self._cluster.store.history
            if len(history) != self._revisions_seen:
                self._metadata_moved()
            broker = self._by_process.get(process)
            if broker is None:
                broker = next((broker for broker in self._cluster.brokers if broker.process is process), None)
                if broker is None:
                    return
                self._by_process[process] = broker
            if broker.node is not None and broker.process is process:
                for replica in broker.node.replicas.by_partition.values():
                    self._look_at(broker, replica)
        except InvariantViolated as violation:
            self._cluster.timeline.note("checker", violation.name, violation.explanation)
            self._cluster.loop.stop_with(violation)

    # -- what moved -----------------------------------------------------------------------------------

    def _look_at(self, broker: SimBroker, replica: Replica) -> None:
        log, seen = replica.log, self._seen.get(replica)
        mark = log.high_watermark
        if seen is None:
            seen = self._seen[replica] = _Seen(0, log.log_start_offset, checked_to=log.log_start_offset)
        if mark != seen.high_watermark:
            self._watermark_moved(broker, replica, seen, mark)
        leading = replica.leading
        epoch = -1 if leading is None else leading.leader_epoch
        if epoch != seen.leading_epoch:
            seen.leading_epoch = epoch
            if leading is not None:
                self._elected(broker, replica, epoch)
        if not replica.busy:
            before, seen.log_end = seen.log_end, log.log_end_offset
            if seen.log_end < before:
                what = f"{self._name(replica)} from {before} to {seen.log_end}"
                self._cluster.timeline.note(broker.host, "cut", what)
                self._check_candidates(replica.where)

    def _watermark_moved(self, broker: SimBroker, replica: Replica, seen: _Seen, mark: int) -> None:
        if mark < seen.high_watermark and replica.repairs != seen.repairs:
            seen.repairs, seen.high_watermark = replica.repairs, mark
        if self.damaged(broker, replica.where):
            before, seen.high_watermark = seen.high_watermark, mark
            ledger = self.ledger(replica.where)
            ledger.claimed_end = max(ledger.claimed_end, mark)
            if not replica.stopped:
                self._compare_sound(broker, replica, max(before, replica.log.log_start_offset), mark)
            return
        if mark < seen.high_watermark:
            raise InvariantViolated(
                Invariant.I13,
                f"{self._name(replica)} on {broker.host}: high watermark {mark} after {seen.high_watermark}",
            )
        log = replica.log
        if mark > log.log_end_offset:
            raise InvariantViolated(
                Invariant.I10,
                f"{self._name(replica)} on {broker.host}: high watermark {mark}, its log ends at {log.log_end_offset}",
            )
        seen.high_watermark = mark
        self.advances += 1
        if replica.leading is not None and mark > self.ledger(replica.where).end:
            self._check_quorum(broker, replica, mark)
        ledger = self.ledger(replica.where)
        before = ledger.end
        start = max(seen.checked_to, log.log_start_offset)
        self._compare(broker, replica, start, mark)
        seen.checked_to = max(seen.checked_to, mark)
        if ledger.end > before:
            self._cluster.timeline.note(
                broker.host, "committed", f"{self._name(replica)} {before} to {ledger.end}"
            )
            self._check_candidates(replica.where)

    def _compare(self, broker: SimBroker, replica: Replica, start: int, end: int) -> None:
        """Everything from `start` to `end` is committed: as the ledger knows it, or new to it (I3, I11)."""
        ledger = self.ledger(replica.where)
        reached = start
        for stored in StoredLog(broker.medium, replica.where).batches(start, end):
            if stored.base_offset > reached and stored.base_offset > replica.log.log_start_offset:
                break
            reached = stored.end_offset
            index = ledger.by_base.get(stored.base_offset)
            if index is not None:
                known = ledger.entries[index]
                if not known.same_as(stored):
                    raise InvariantViolated(
                        Invariant.I11,
                        f"{self._name(replica)} at {stored.base_offset}: {broker.host} committed"
                        f" {self._describe(replica.where, stored.stamp)}, {known.seen_on} had committed"
                        f" {self._describe(replica.where, known.stamp)}",
                    )
            elif stored.base_offset >= ledger.end:
                ledger.by_base[stored.base_offset] = len(ledger.entries)
                ledger.entries.append(
                    Committed(
                        stored.base_offset,
                        stored.end_offset,
                        stored.stamp,
                        zlib.crc32(stored.batch),
                        broker.host,
                    )
                )
            else:
                raise InvariantViolated(
                    Invariant.I11,
                    f"{self._name(replica)}: {broker.host} has a batch at {stored.base_offset} below its watermark"
                    f" {end}, where no committed batch begins",
                )
        if reached < end:
            raise InvariantViolated(
                Invariant.I10,
                f"{self._name(replica)} on {broker.host}: high watermark {end}, its files hold offsets to {reached}",
            )

    def _compare_sound(self, broker: SimBroker, replica: Replica, start: int, end: int) -> None:
        """A replica that a fault has struck may lack what is committed, and tells nothing new. What it holds and does
        not call damaged is what was committed there, but for the very bytes that the fault spoilt (I11)."""
        ledger, damage = self.ledger(replica.where), replica.log.damage
        for stored in StoredLog(broker.medium, replica.where).batches(start, min(end, ledger.end)):
            named = any(
                one.first_offset < stored.end_offset and stored.base_offset < one.end_offset for one in damage
            )
            if stored.harmed or named or stored.base_offset >= ledger.end:
                continue
            index = ledger.by_base.get(stored.base_offset)
            if index is None or not ledger.entries[index].same_as(stored):
                raise InvariantViolated(
                    Invariant.I11,
                    f"{self._name(replica)} at {stored.base_offset}: {broker.host} holds"
                    f" {self._describe(replica.where, stored.stamp)} below its watermark {end}, no fault made it so and"
                    " it is not what was committed",
                )

    def _elected(self, broker: SimBroker, replica: Replica, epoch: int) -> None:
        """I10, leader completeness; and one leader an epoch."""
        self.elections += 1
        name, where = self._name(replica), replica.where
        self._cluster.timeline.note(
            broker.host, "leads", f"{name} epoch {epoch} from offset {replica.log.log_end_offset}"
        )
        life = f"{broker.host}.{broker.lives}"
        other = self._led.setdefault((where, epoch), broker.host)
        if other != broker.host:
            raise InvariantViolated(Invariant.I10, f"{name}: both {other} and {life} led epoch {epoch}")
        if self._epochs.get(where, epoch) > epoch:
            return  # it hears late of an election that is over; whatever it would commit is judged by itself
        ledger = self.ledger(where)
        if replica.log.log_end_offset < ledger.end:
            raise InvariantViolated(
                Invariant.I10,
                f"{name}: {broker.host} was elected in epoch {epoch} with a log that ends at"
                f" {replica.log.log_end_offset}, {ledger.end} is committed",
            )
        if not self.damaged(broker, where):
            self._compare(broker, replica, replica.log.log_start_offset, ledger.end)

    def _check_quorum(self, broker: SimBroker, replica: Replica, mark: int) -> None:
        """I12: a leader calls committed only what as many replicas have as the topic requires, for a later election."""
        leading = replica.leading
        assert leading is not None
        holders = 0
        for (
            broker_id
        ) in leading.record.replicas:  # the set may have shrunk since: a replica that left it still has it
            other = self._cluster.broker(broker_id)
            theirs = None if other.node is None else other.node.replicas.by_partition.get(replica.where)
            if theirs is None or theirs.stopped or theirs.busy or self.damaged(other, replica.where):
                holders += 1  # not to be seen now: I10 judges it when it is
            else:
                log = theirs.log
                holders += (log.durable_end_offset if leading.strict else log.log_end_offset) >= mark
        if holders < leading.min_insync:
            raise InvariantViolated(
                Invariant.I12,
                f"{self._name(replica)}: {broker.host} calls {mark} committed with {list(leading.record.in_sync)} in"
                f" sync; {holders} replicas hold it, {leading.min_insync} required",
            )

    def _check_candidates(self, where: TopicPartition) -> None:
        """I10, candidate completeness: a broker that may be elected now, and runs, has what is committed."""
        record, topic = self.records.get(where), self.topics.get(where.topic_id)
        if record is None or topic is None:
            return
        strict = topic.settings.durability is Durability.FSYNC
        end = self.ledger(where).end
        for broker_id in (*record.in_sync, *record.eligible):
            broker = self._cluster.broker(broker_id)
            node = broker.node
            if node is None or broker.state is BrokerState.DOWN or not node.ready:
                continue
            replica = node.replicas.by_partition.get(where)
            if replica is None or replica.stopped or replica.busy:
                continue
            own_end = replica.log.durable_end_offset if strict else replica.log.log_end_offset
            if own_end < end:
                kind = "in sync" if broker_id in record.in_sync else "eligible"
                raise InvariantViolated(
                    Invariant.I10,
                    f"{self._name(replica)}: {end} is committed, {broker.host} is {kind} and has only {own_end}"
                    f" ({'durably' if strict else 'written'}; leader {record.leader} epoch {record.leader_epoch},"
                    f" in sync {list(record.in_sync)}, eligible {list(record.eligible)})",
                )

    # -- the metadata ---------------------------------------------------------------------------------

    def _metadata_moved(self) -> None:
        history = self._cluster.store.history
        for batch in history[self._revisions_seen :]:
            for event in batch.events:
                if event.value is None:
                    self._note_gone(event.key)
                elif event.key.startswith("/partitions/"):
                    self._block_moved(event.key, event.value)
                elif event.key.startswith("/topics/"):
                    topic = TopicRecord.decode(event.value)
                    self.topics[topic.topic_id] = topic
                elif event.key == broker_records.CONTROLLER_KEY or event.key.startswith("/live/"):
                    self._cluster.timeline.note("store", "set", f"{event.key} at {event.mod_revision}")
        self._revisions_seen = len(history)

    def _note_gone(self, key: str) -> None:
        if key == broker_records.CONTROLLER_KEY or key.startswith("/live/"):
            self._cluster.timeline.note("store", "deleted", key)
        elif key.startswith("/topics/"):
            topic_id = TopicId(bytes.fromhex(key.rpartition("/")[2]))
            self.deleted[topic_id] = self.topics.pop(topic_id)
            self._cluster.timeline.note("store", "deleted", f"topic {self.deleted[topic_id].name}")
            for where in [where for where in self.records if where.topic_id == topic_id]:
                del self.records[where]

    def _block_moved(self, key: str, value: bytes) -> None:
        topic_id = TopicId(bytes.fromhex(key.split("/")[2]))
        for number, record in model.decode_block(value).items():
            where = TopicPartition(topic_id, number)
            before = self.records.get(where)
            if before == record:
                continue
            self.records[where] = record
            self._epochs[where] = record.leader_epoch
            self.in_sync_changes += 1
            topic = self.topics.get(topic_id)
            name = f"{topic.name if topic else topic_id.hex()}-{number}"
            self._cluster.timeline.note(
                "store",
                "partition",
                f"{name} leader {record.leader} epoch {record.leader_epoch} in sync {list(record.in_sync)}"
                f" eligible {list(record.eligible)} last known {list(record.last_known)}",
            )
            if before is not None:
                self._check_epochs(name, before, record)
                self.moves += bool(before.target and not record.target and before.replicas != record.replicas)
            self._check_candidates(where)

    def _check_epochs(self, name: str, before: PartitionRecord, after: PartitionRecord) -> None:
        for what in ("leader_epoch", "partition_epoch", "log_generation"):
            if getattr(after, what) < getattr(before, what):
                raise InvariantViolated(
                    Invariant.I13, f"{name}: {what} {getattr(after, what)} after {getattr(before, what)}"
                )
        led_anew = after.leader not in (before.leader, NO_BROKER)
        if led_anew and after.leader_epoch == before.leader_epoch and before.leader != NO_BROKER:
            raise InvariantViolated(
                Invariant.I13,
                f"{name}: leader {after.leader} after {before.leader} in one epoch {after.leader_epoch}",
            )

    # -- reading the evidence -------------------------------------------------------------------------

    def ledger(self, where: TopicPartition) -> Ledger:
        return self.ledgers.setdefault(where, Ledger())

    def intact(self, broker: SimBroker, where: TopicPartition) -> bool:
        """Whether the replica's files hold everything committed from their start on, unchanged."""
        ledger = self.ledger(where)
        reached = None
        for stored in StoredLog(broker.medium, where).batches(0, ledger.end):
            index = ledger.by_base.get(stored.base_offset)
            if index is None or not ledger.entries[index].same_as(stored):
                return False
            if reached is not None and stored.base_offset != reached:
                return False
            reached = stored.end_offset
        return ledger.end == 0 or reached == ledger.end

    def check_at_rest(self) -> None:
        """I11 at rest: replicas of a partition are byte for byte equal, segments, stamps and batches.

        One with bytes that a fault spoilt and no broker has met yet is compared with the ledger, but for those bytes.
        """
        for where in sorted(self.records):
            if where.topic_id not in self.topics:
                continue
            record = self.records[where]
            stored = {
                broker_id: list(
                    StoredLog(self._cluster.broker(broker_id).medium, where).batches(
                        0, self.ledger(where).end
                    )
                )
                for broker_id in record.in_sync
            }
            for broker_id in [
                one for one, batches in stored.items() if any(batch.harmed for batch in batches)
            ]:
                del stored[broker_id]
                broker = self._cluster.broker(broker_id)
                assert broker.node is not None
                replica = broker.node.replicas.by_partition[where]
                self._compare_sound(broker, replica, replica.log.log_start_offset, self.ledger(where).end)
            if not stored:
                continue
            starts = [batches[0].base_offset for batches in stored.values() if batches]
            start = max(starts, default=0)
            first, *others = stored
            expected = [batch for batch in stored[first] if batch.base_offset >= start]
            for other in others:
                found = [batch for batch in stored[other] if batch.base_offset >= start]
                if found != expected:
                    part = next(
                        (
                            i
                            for i, pair in enumerate(zip(expected, found, strict=False))
                            if pair[0] != pair[1]
                        ),
                        min(len(expected), len(found)),
                    )
                    raise InvariantViolated(
                        Invariant.I11,
                        f"{self.name_of(where)} at rest: b{first} has {len(expected)} batches from {start},"
                        f" b{other} {len(found)}; they part at batch {part}",
                    )

    def topic_of(self, where: TopicPartition) -> TopicRecord | None:
        """Also of a topic that was deleted."""
        return self.topics.get(where.topic_id) or self.deleted.get(where.topic_id)

    def name_of(self, where: TopicPartition) -> str:
        topic = self.topic_of(where)
        return str(where) if topic is None else f"{topic.name}-{where.partition}"

    def _name(self, replica: Replica) -> str:
        return f"{replica.topic.name}-{replica.where.partition}"

    def _describe(self, where: TopicPartition, packed: bytes) -> str:
        try:
            stamp = unpack_stamp(packed, stamp_seed(where))
        except StampCorrupt:
            return "a batch whose stamp is corrupt"
        return (
            f"offsets {stamp.base_offset} to {stamp.end_offset} of epoch {stamp.leader_epoch}"
            f" by producer {stamp.producer_id}/{stamp.producer_epoch} sequence {stamp.base_sequence}"
        )
