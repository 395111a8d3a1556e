"""One partition on three brokers through many leader epochs: logs, elections, registrations and truncation together.

Only decisions of the product act here; the model supplies what they decide about: three logs that lose on a crash what
was not durable, one store, an image for each broker that lags as it likes, streams that are late or cut, and
transactions whose outcome is unknown. There is no controller key: any broker may act as controller at any time from
whatever it last saw, so it is the comparisons alone that keep the peace.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from data_plane.controller.changed_blocks import ChangedBlocks
from data_plane.controller.elections import departures, fence_changes, plan
from data_plane.controller.registration import AlreadyRegistered, FenceFirst, registration
from data_plane.metadata import broker_records, model
from data_plane.metadata.broker_records import BrokerRecord, LiveRecord
from data_plane.metadata.features import Supported
from data_plane.metadata.image import BlockId, ClusterImage
from data_plane.metadata.model import PartitionRecord, TopicRecord
from data_plane.metadata.port import Change, Compare, Event, KeyValue, Put, WatchBatch
from data_plane.replication import log_start as log_starts
from data_plane.replication.follower import BelowWatermark, FollowerState, Phase, follower_watermark
from data_plane.replication.in_sync import BrokerView
from data_plane.replication.in_sync_change import Proposal
from data_plane.replication.leader import LeaderState
from data_plane.replication.opening import NO_EPOCH, Accepted, Diverging, Position, Refused, StartOver
from penstock.contract.ids import NO_BROKER, BrokerId, TenantId, TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings

from .model import Violation

TOPIC = TopicId(b"t" * 16)
WHERE = TopicPartition(TOPIC, 0)
BLOCK = model.block_key(TOPIC, 0)
Value = tuple[int, int]
"""(leader epoch, unique number): one batch of one message."""


class Store:
    """Keys, revisions, and every revision's batch for whoever watches."""

    def __init__(self) -> None:
        self.items: dict[str, KeyValue] = {}
        self.batches: list[WatchBatch] = []

    @property
    def revision(self) -> int:
        return len(self.batches)

    def txn(self, compares: Iterable[Compare], changes: Iterable[Change]) -> bool:
        for compare in compares:
            held = self.items.get(compare.key)
            if (0 if held is None else held.mod_revision) != compare.mod_revision:
                return False
        revision = self.revision + 1
        events = []
        for change in changes:
            if isinstance(change, Put):
                self.items[change.key] = KeyValue(change.key, change.value, revision)
                events.append(Event(change.key, change.value, revision))
            elif self.items.pop(change.key, None) is not None:
                events.append(Event(change.key, None, revision))
        self.batches.append(WatchBatch(revision, tuple(events)))
        return True

    def record(self) -> PartitionRecord:
        return model.decode_block(self.items[BLOCK].value)[0]


@dataclass
class Stream:
    """From a follower to the state that accepted it. What the follower says arrives late, in order."""

    leader: "Broker"
    state: LeaderState
    handle: int
    to_leader: deque[tuple[int, int, int]] = field(default_factory=deque)
    cut: bool = False
    pushed_start: int = 0


class Broker:
    """One broker: what rests on its disk, what it believes, what it does."""

    def __init__(self, number: int, cluster: "Cluster") -> None:
        self.id = BrokerId(number)
        self.cluster = cluster
        self.log: list[Value] = []
        self.durable = 0
        self.log_start = 0
        """Durable as soon as it moves. What lies below stays in `log`, and nobody looks at it."""
        self.epochs: list[tuple[int, int]] = []
        self.checkpointed_watermark = self.high_watermark = 0
        self.emptied = False
        self.lives = 0
        self.up = False
        self.broker_epoch = 0
        self.image = ClusterImage()
        self.leading: LeaderState | None = None
        self.following: FollowerState | None = None
        self.stream: Stream | None = None
        self.handle = 0
        self.sent: tuple[Proposal, Callable[[], bool]] | None = None

    # -- disk -----------------------------------------------------------------------------------------------

    def lookup(self, epoch: int) -> tuple[int, int]:
        """The leader-epoch file (RL28)."""
        if not self.epochs:
            return NO_EPOCH, 0
        if epoch < self.epochs[0][0]:
            return epoch, self.epochs[0][1]
        at = max(index for index, (known, _) in enumerate(self.epochs) if known <= epoch)
        end = self.epochs[at + 1][1] if at + 1 < len(self.epochs) else len(self.log)
        return self.epochs[at][0], end

    def begin_epoch(self, epoch: int, start: int) -> None:
        if self.epochs and self.epochs[-1][0] == epoch:
            return
        while self.epochs and self.epochs[-1][1] >= start:
            self.epochs.pop()
        self.epochs.append((epoch, start))

    def add(self, values: Sequence[Value]) -> None:
        for value in values:
            self.begin_epoch(value[0], len(self.log))
            self.log.append(value)

    def truncate(self, offset: int) -> None:
        """Durable at once, as truncation is (RL30)."""
        del self.log[offset:]
        self.durable = len(self.log)
        while self.epochs and self.epochs[-1][1] >= offset:
            self.epochs.pop()

    def start_over(self, offset: int, leader: "Broker") -> None:
        self.truncate(0)
        self.add(leader.log[:offset])
        self.durable = self.log_start = self.high_watermark = offset

    def position(self) -> Position:
        return Position(
            log_end_offset=len(self.log),
            durable_end_offset=self.durable,
            last_epoch=self.log[-1][0] if self.log else NO_EPOCH,
            log_start_offset=self.log_start,
        )

    @property
    def log_end_offset(self) -> int:
        return len(self.log)

    @property
    def durable_end_offset(self) -> int:
        return self.durable

    @property
    def log_start_offset(self) -> int:
        return self.log_start

    # -- life -----------------------------------------------------------------------------------------------

    def crash(self) -> None:
        if not self.up:
            return
        self.drop_roles()
        self.up = False
        self.broker_epoch = 0
        self.high_watermark = self.checkpointed_watermark
        del self.log[self.durable :]
        kept, self.epochs, self.log = self.log, [], []
        self.add(kept)
        self.cluster.reached("crash")

    def lose_disk(self) -> None:
        """Beyond the promise if it happens to two replicas; the cluster allows it once a run."""
        if self.up or self.cluster.disks_lost:
            return
        self.cluster.disks_lost += 1
        self.log = []
        self.epochs = []
        self.durable = 0
        self.log_start = 0
        self.checkpointed_watermark = self.high_watermark = 0
        self.emptied = True
        self.cluster.reached("disk lost")

    def start(self) -> None:
        if not self.up:
            self.up, self.lives = True, self.lives + 1

    def drop_roles(self) -> None:
        self.high_watermark = min(self.high_watermark, self.durable)
        if self.leading is not None:
            self.leading.end()
        self.leading = self.following = self.sent = None
        self.cut_stream()

    def cut_stream(self) -> None:
        if self.stream is not None:
            self.stream.cut = True
            self.stream = None

    def register(self) -> None:
        """One step towards a registration (RL2, RL3, RL42)."""
        if not self.up or self.broker_epoch:
            return
        store = self.cluster.store
        step = registration(
            store.items.get(broker_records.live_key(self.id)),
            store.items.get(broker_records.broker_key(self.id)),
            broker_record(self.id),
            LiveRecord(incarnation=f"{self.id}-{self.lives}", directory_id="d"),
            0,
            Supported(),
            0,
        )
        if isinstance(step, AlreadyRegistered):
            self.broker_epoch = step.broker_epoch
            return
        if isinstance(step, FenceFirst):
            store.txn(step.compares, step.changes)
            return
        self.catch_up()
        emptied = self.emptied
        writes = departures(self.image, self.id, self.blocks(), data_lost=lambda _: emptied)
        for write in writes:
            store.txn(write.compares, (Put(write.key, write.value),))
        if not writes and store.txn(step.compares, step.changes):
            if self.cluster.chance(0.7):
                self.broker_epoch = store.revision
                self.cluster.reached("registered")
            else:
                self.cluster.reached("registration unknown")
            self.emptied = False

    # -- metadata -------------------------------------------------------------------------------------------

    def catch_up(self, batches: int = 10**9) -> None:
        """Apply some revisions and act on what they say."""
        for batch in self.cluster.store.batches[self.image.revision : self.image.revision + batches]:
            self.image.apply(batch)
        if self.broker_epoch and self.image.revision >= self.broker_epoch:
            if self.image.epoch_of(self.id) != self.broker_epoch:
                self.drop_roles()
                self.broker_epoch, self.lives = 0, self.lives + 1
                self.cluster.reached("noticed a fence")
            else:
                self.take_role()

    def take_role(self) -> None:
        record = self.image.partition(WHERE)
        assert record is not None
        if self.leading is not None and self.leading.record_seen(record):
            self.carry_out()
            return
        if self.following is not None and (self.following.leader, self.following.leader_epoch) == (
            record.leader,
            record.leader_epoch,
        ):
            return
        self.drop_roles()
        if record.leader == self.id:
            if log_starts.beginning(record, self.log_start) > self.log_start:
                self.cluster.reached("elected before its log begins where the record says")
            self.leading = LeaderState(
                self.id,
                record,
                self,
                min_insync=self.cluster.min_insync,
                strict=True,
                now_ms=self.cluster.now_ms,
            )
            self.carry_out()
            self.cluster.reached("elected")
        elif record.leader != NO_BROKER:
            self.following = FollowerState(
                record.leader,
                leader_epoch=record.leader_epoch,
                replica_generation=1,
                strict=True,
            )

    def carry_out(self) -> None:
        """What the leader's state has made due, after each event; the rest of a replica is not modelled."""
        if self.leading is None:
            return
        effects = self.leading.take_effects()
        if effects.begin_epoch != NO_EPOCH:
            self.begin_epoch(effects.begin_epoch, len(self.log))
        self.high_watermark = effects.high_watermark
        if effects.outdated:
            self.cluster.reached("outdated")
            for broker in self.cluster.brokers:
                here = broker.stream is not None and broker.stream.state is self.leading
                if here and not self.leading.is_followed_by(broker.id):
                    broker.stream_dies(noticed=False)

    def view_of(self, broker: BrokerId) -> BrokerView:
        known = self.image.brokers.get(broker)
        return BrokerView(0, False) if known is None else BrokerView(known.epoch, known.active)

    def blocks(self) -> list[BlockId]:
        return ChangedBlocks().take(self.image, 10)

    def act_as_controller(self) -> None:
        """From whatever it last saw."""
        if self.broker_epoch:
            for write in plan(self.image, self.blocks()):
                if self.cluster.store.txn(write.compares, (Put(write.key, write.value),)):
                    self.cluster.reached("plan applied")

    def suspect(self, other: BrokerId) -> None:
        changes = fence_changes(self.image, other)
        if self.broker_epoch and changes is not None and self.cluster.store.txn(*changes):
            self.cluster.reached("fenced")

    # -- leading --------------------------------------------------------------------------------------------

    def produce(self) -> None:
        if self.leading is not None and self.leading.enough_in_sync:
            self.add([(self.leading.leader_epoch, self.cluster.unique())])
            self.leading.appended(1, self.cluster.now_ms)
            self.carry_out()

    def delete(self) -> None:
        """Everything committed may go."""
        if self.leading is not None:
            self.leading.want_log_start(self.leading.high_watermark, self.cluster.now_ms)

    def trim(self) -> None:
        """Move the own log's start: a leader's to where it is agreed, a follower's to where it was told last."""
        state = self.leading
        if self.stream is not None:
            self.log_start = max(self.log_start, min(self.stream.pushed_start, self.high_watermark))
        if state is not None and self.log_start < state.start.agreed:
            self.log_start = min(state.start.agreed, state.high_watermark)
            self.cluster.reached("log start moved")

    def sync(self) -> None:
        if not self.up:
            return
        self.durable = len(self.log)
        if self.cluster.chance(0.2):
            self.checkpointed_watermark = min(self.high_watermark, self.durable)
        if self.leading is not None:
            self.leading.became_durable(self.cluster.now_ms)
            self.carry_out()

    def propose(self) -> None:
        if self.leading is None or self.sent is not None:
            return
        proposal = self.leading.propose(self.cluster.now_ms, self.view_of)
        if proposal is None:
            return
        store = self.cluster.store
        held = store.items[BLOCK]
        if model.decode_block(held.value)[0].partition_epoch != proposal.base_partition_epoch:
            self.leading.proposal_refused(model.decode_block(held.value)[0])
            self.carry_out()
            return
        compares = [Compare(BLOCK, held.mod_revision)]
        compares += [Compare(broker_records.live_key(b), epoch) for b, epoch in proposal.members]
        put = (Put(BLOCK, model.encode_block({0: proposal.record})),)
        self.sent = proposal, lambda: store.txn(compares, put)

    def hear_answer(self) -> None:
        if self.sent is None or self.leading is None:
            return
        (proposal, send), self.sent = self.sent, None
        if send():
            self.leading.proposal_applied(proposal.record)
            self.cluster.reached("proposal applied")
        else:
            self.leading.proposal_refused(self.cluster.store.record())
            self.cluster.reached("proposal refused")
        self.carry_out()

    def lose_answer(self) -> None:
        if self.sent is not None and self.leading is not None:
            self.cluster.late.append(self.sent[1])
            self.sent = None
            self.leading.proposal_unknown()
            self.cluster.reached("proposal unknown")

    # -- following ------------------------------------------------------------------------------------------

    @property
    def known_partition_epoch(self) -> int:
        record = self.image.partition(WHERE)
        return 0 if record is None else record.partition_epoch

    def open(self) -> None:
        state = self.following
        if state is None or state.phase is Phase.FOLLOWING or not self.broker_epoch:
            return
        leader = self.cluster.broker(state.leader)
        if leader.leading is None:
            return
        self.cut_stream()
        self.handle += 1
        sent = state.open(self.handle, self.position())
        answer = leader.leading.follower_opened(
            self.id,
            self.broker_epoch,
            sent.replica_generation,
            sent.position,
            self.cluster.now_ms,
            handle=sent.handle,
            partition_epoch=self.known_partition_epoch,
            leader_epoch=sent.leader_epoch,
            registered_epoch=leader.image.epoch_of(self.id),
            epoch_lookup=leader.lookup,
            stored_from=leader.log_start,
        )
        leader.carry_out()
        try:
            self.take_answer(state, leader, answer)
        except BelowWatermark as broken:
            raise Violation(f"broker {self.id}: {broken}") from None

    def take_answer(
        self, state: FollowerState, leader: "Broker", answer: Accepted | Diverging | StartOver | Refused
    ) -> None:
        match answer:
            case Accepted():
                assert leader.leading is not None
                state.accepted()
                self.stream = Stream(leader, leader.leading, self.handle)
            case Diverging(epoch, end_offset):
                self.cluster.reached("diverged")
                self.truncate(
                    state.diverging(
                        epoch=epoch,
                        end_offset=end_offset,
                        epoch_lookup=self.lookup,
                        log_end=len(self.log),
                        high_watermark=self.high_watermark,
                    )
                )
            case StartOver(offset):
                self.start_over(state.start_over(offset, high_watermark=self.high_watermark), leader)
            case Refused():
                state.refused()

    def pull(self) -> None:
        """A push arrives, if the leader still is what it was when this stream began."""
        state, stream = self.following, self.stream
        if state is None or stream is None or stream.leader.leading is not stream.state:
            return
        fresh = stream.leader.log[len(self.log) :]
        if fresh:
            self.add(fresh)
        self.high_watermark = follower_watermark(
            own=self.high_watermark, leaders=stream.state.high_watermark, log_end=len(self.log)
        )
        stream.pushed_start = stream.state.start.wanted

    def hold(self) -> None:
        if self.stream is not None:
            self.stream.to_leader.append((len(self.log), self.durable, self.log_start))
            self.cluster.streams.append((self.id, self.broker_epoch, self.stream))

    def stream_dies(self, *, noticed: bool) -> None:
        if self.stream is not None:
            if noticed:
                self.stream.state.follower_gone(self.id, self.broker_epoch, self.stream.handle)
            self.cut_stream()
        if self.following is not None:
            self.following.stream_lost()


class Cluster:
    """Three brokers, one store, one partition; `check` after each step tells whether a promise was broken."""

    def __init__(self, chance: Callable[[float], bool], min_insync: int = 2) -> None:
        self.chance = chance
        self.min_insync = min_insync
        self.now_ms = 0.0
        self.store = Store()
        self.late: list[Callable[[], bool]] = []
        self.streams: deque[tuple[BrokerId, int, Stream]] = deque()
        self.disks_lost = 0
        self.committed: list[Value] = []
        """Every value below a watermark that any leader ever had."""
        self.reported_start = 0
        """The latest log start that any leader may have told a client."""
        self.reached_steps: dict[str, int] = {}
        self._unique = 0
        self.brokers = [Broker(number, self) for number in (1, 2, 3)]
        settings = TopicSettings(min_insync_replicas=min_insync)
        topic = TopicRecord(
            topic_id=TOPIC, tenant=TenantId("t"), name="orders", partitions=1, settings=settings
        )
        ids = tuple(broker.id for broker in self.brokers)
        first = PartitionRecord(
            partition=0,
            replicas=ids,
            replica_generations=(1, 1, 1),
            leader=ids[0],
            leader_epoch=1,
            in_sync=ids,
        )
        self.store.txn(
            (), (Put(model.topic_key(TOPIC), topic.encode()), Put(BLOCK, model.encode_block({0: first})))
        )
        self.heal()

    def broker(self, number: BrokerId) -> Broker:
        return self.brokers[number - 1]

    def unique(self) -> int:
        self._unique += 1
        return self._unique

    def reached(self, what: str) -> None:
        self.reached_steps[what] = self.reached_steps.get(what, 0) + 1

    def deliver(self) -> None:
        """The oldest word of a follower arrives, if its leader still listens; a cut stream's words may arrive too."""
        if not self.streams:
            return
        follower, broker_epoch, stream = self.streams.popleft()
        if stream.to_leader and stream.leader.leading is stream.state:
            written, durable, log_start = stream.to_leader.popleft()
            stream.state.follower_acked(
                follower,
                broker_epoch,
                written,
                durable,
                self.now_ms,
                handle=stream.handle,
                leader_epoch=stream.state.leader_epoch,
                log_start=log_start,
            )
            stream.leader.carry_out()

    def decide_late(self) -> None:
        if self.late and self.late.pop(0)():
            self.reached("proposal applied late")

    def pass_time(self, ms: float) -> None:
        self.now_ms += ms

    def check(self) -> None:
        """Committed values are for ever, every electable replica has them, and a ready leader shows all of them."""
        record = self.store.record()
        for broker in self.brokers:
            if broker.leading is not None:
                self._commit(broker)
        for broker in self.brokers:
            watermark = broker.high_watermark
            if broker.log[:watermark] != self.committed[:watermark]:
                raise Violation(f"broker {broker.id} calls committed what is not, below {watermark}")
            if broker.id in record.in_sync + record.eligible and not broker.emptied:
                kept = broker.log[: broker.durable]
                if kept[: len(self.committed)] != self.committed:
                    raise Violation(f"broker {broker.id} may be elected without all that is committed")
            state = broker.leading
            if (
                state is not None
                and state.ready
                and state.leader_epoch == record.leader_epoch
                and state.high_watermark < len(self.committed)
            ):
                raise Violation(f"leader {broker.id} is ready with {state.high_watermark}")
            if state is not None and state.may_report_start(broker.log_start):
                self._tell_start(broker, current=state.leader_epoch == record.leader_epoch)

    def _tell_start(self, broker: Broker, *, current: bool) -> None:
        """A leader that was replaced may still tell what is old, and nothing that its successors do not hold to."""
        if current and broker.log_start < self.reported_start:
            raise Violation(
                f"the log start went back: leader {broker.id} tells {broker.log_start}, not {self.reported_start}"
            )
        if broker.log_start > self.reported_start:
            self.reported_start = broker.log_start
            self.reached("log start told")

    def _commit(self, broker: Broker) -> None:
        assert broker.leading is not None
        seen = broker.log[: broker.leading.high_watermark]
        shared = min(len(seen), len(self.committed))
        if seen[:shared] != self.committed[:shared]:
            raise Violation(f"leader {broker.id} commits another value than was committed before")
        if len(seen) > len(self.committed):
            self.committed.extend(seen[len(self.committed) :])
            self.reached("committed")

    def heal(self, rounds: int = 40) -> None:
        """Everything works again; after so many rounds all is in sync and committed, or `Violation`."""
        for _ in range(rounds):
            for broker in self.brokers:
                broker.start()
                broker.register()
                broker.catch_up()
                broker.act_as_controller()
                broker.catch_up()
            self.late.clear()
            self.pass_time(500)
            for broker in self.brokers:
                if broker.stream is not None and broker.stream.leader.leading is not broker.stream.state:
                    broker.stream_dies(noticed=False)
                broker.open()
                broker.pull()
                broker.sync()
                broker.hold()
            while self.streams:
                self.deliver()
            for broker in self.brokers:
                broker.propose()
                broker.hear_answer()
                broker.trim()
            self.check()
        record = self.store.record()
        leader = None if record.leader == NO_BROKER else self.broker(record.leader)
        if leader is None or leader.leading is None:
            raise Violation(f"no leader after everything healed: {record}")
        if len(record.in_sync) != 3 or leader.leading.high_watermark != len(leader.log):
            raise Violation(f"not whole after everything healed: {record}, {leader.leading.high_watermark}")
        if not leader.leading.may_report_start(leader.log_start) or leader.log_start < self.reported_start:
            raise Violation(f"no log start is told after everything healed: {record}, {leader.log_start}")


def broker_record(number: BrokerId) -> BrokerRecord:
    return BrokerRecord(
        broker_id=number, directory_id="d", client_address="c", internal_address="i", zone="z"
    )


Step = Callable[[Cluster], None]


def steps(*, deletes: bool = False) -> dict[str, Step]:
    """Every step by name; with `deletes` also those that move the log's start."""
    named: dict[str, Step] = {
        "deliver": Cluster.deliver,
        "decide late": Cluster.decide_late,
        "pass 1 s": lambda c: c.pass_time(1_000),
        "pass 11 s": lambda c: c.pass_time(11_000),
    }

    def on(number: int, act: Callable[[Broker], None]) -> Step:
        return lambda cluster: act(cluster.broker(BrokerId(number)))

    for number in (1, 2, 3):
        acts: dict[str, Callable[[Broker], None]] = {
            "crash": Broker.crash,
            "lose disk": Broker.lose_disk,
            "start": Broker.start,
            "register": Broker.register,
            "see one": lambda b: b.catch_up(1),
            "see all": Broker.catch_up,
            "control": Broker.act_as_controller,
            "suspect": lambda b: b.suspect(BrokerId(b.id % 3 + 1)),
            "produce": Broker.produce,
            "sync": Broker.sync,
            "propose": Broker.propose,
            "hear answer": Broker.hear_answer,
            "lose answer": Broker.lose_answer,
            "open": Broker.open,
            "pull": Broker.pull,
            "hold": Broker.hold,
            "stream ends": lambda b: b.stream_dies(noticed=True),
            "stream dies": lambda b: b.stream_dies(noticed=False),
        }
        if deletes:
            acts |= {"delete": Broker.delete, "trim": Broker.trim}
        named |= {f"{name} {number}": on(number, act) for name, act in acts.items()}
    return named
