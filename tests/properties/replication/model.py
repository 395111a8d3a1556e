"""One partition, its leader's state and everything around it that may be late, lost or repeated.

Three replicas (1 leads epoch 5; 2 and 3 follow), a store with compare-and-set, and the truth: what each log
really holds. Streams deliver in order but late; transactions are answered, refused, or lost and then applied
late or never; brokers crash, are fenced, come back with what was durable or with an emptied disk.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from data_plane.controller.elections import strip_unclean, without_broker
from data_plane.metadata.model import PartitionRecord
from data_plane.replication.in_sync import BrokerView
from data_plane.replication.in_sync_change import Proposal
from data_plane.replication.leader import LeaderState
from data_plane.replication.opening import Accepted, Position
from penstock.contract.ids import BrokerId

EPOCH = 5
START = 10
"""The leader's log end when it became leader; an earlier leader may have committed all of it."""
ME = BrokerId(1)


@dataclass
class Replica:
    """What a follower's log really holds, its registration, and its stream to the leader."""

    written: int
    durable: int
    broker_epoch: int
    streaming: bool = False
    last_epoch: int = 3
    handle: int = 0
    """Handle of the newest open, counted up over all streams."""
    known: int = 1
    """The partition epoch that it knows."""
    to_leader: deque[Callable[[], object]] = field(default_factory=deque)

    @property
    def position(self) -> Position:
        return Position(
            log_end_offset=self.written, durable_end_offset=self.durable, last_epoch=self.last_epoch
        )


@dataclass(frozen=True)
class Attempt:
    """A transaction that was sent: it compares what it was made from."""

    proposal: Proposal
    block_revision: int


@dataclass
class OwnLog:
    """The leader's own log, as the model moves it."""

    log_end_offset: int
    durable_end_offset: int
    high_watermark: int
    log_start_offset: int = 0


class Violation(AssertionError):
    """A promise of replication was broken."""


class Cluster:
    """Each method is one step; `check` after each tells whether a promise was broken."""

    def __init__(self, in_sync: tuple[int, ...], high_watermark: int, min_insync: int) -> None:
        self.min_insync = min_insync
        self.now_ms = 0.0
        self.revision = 100
        self.live = {ME: 50, BrokerId(2): 51, BrokerId(3): 52}
        self.seen_live = dict(self.live)
        eligible = tuple(b for b in (2, 3) if b not in in_sync) if len(in_sync) < min_insync else ()
        self.record = PartitionRecord(
            partition=0,
            replicas=(ME, BrokerId(2), BrokerId(3)),
            replica_generations=(1, 1, 1),
            leader=ME,
            leader_epoch=EPOCH,
            in_sync=tuple(BrokerId(b) for b in in_sync),
            eligible=tuple(BrokerId(b) for b in eligible),
            partition_epoch=1,
        )
        self.block_revision = 90
        complete = self.record.in_sync + self.record.eligible
        self.replicas = {
            b: Replica(*((START, START) if b in complete else (4, 4)), self.live[b])
            for b in (BrokerId(2), BrokerId(3))
        }
        self.late: list[Attempt] = []
        self.waiting: Attempt | None = None
        self.log = OwnLog(START, START, high_watermark)
        self.leader = LeaderState(ME, self.record, self.log, min_insync=min_insync, strict=True, now_ms=0)
        self.carry_out()
        self.committed = START
        """Nothing below it may be lost: what an earlier leader may have committed, and every watermark seen."""
        self.steps_reached: dict[str, int] = {}

    # -- logs and streams ---------------------------------------------------------------------------------

    def append(self, count: int) -> None:
        self.log.log_end_offset += count
        self.leader.appended(count, self.now_ms)
        self.carry_out()

    def sync_leader(self) -> None:
        self.log.durable_end_offset = self.log.log_end_offset
        self.leader.became_durable(self.now_ms)
        self.carry_out()

    def carry_out(self) -> None:
        """The leader notes what is committed, and whom it does not follow any more hears of it. After each event, and
        before anything else happens."""
        effects = self.leader.take_effects()
        self.log.high_watermark = effects.high_watermark
        if effects.outdated:
            self._reached("outdated")
            for broker, replica in self.replicas.items():
                replica.streaming &= self.leader.is_followed_by(broker)

    def open(self, broker: BrokerId, *, late: bool = False) -> None:
        """The open arrives at once, before all that is on the way from earlier streams, or after it, when the follower
        may have opened again. What it says of its registration may be ahead of the leader's image."""
        replica = self.replicas[broker]
        if replica.streaming or replica.broker_epoch == 0:
            return
        replica.handle += 1
        arrives = partial(
            self._opened, broker, replica.broker_epoch, replica.handle, replica.known, replica.position
        )
        if late:
            replica.to_leader.append(arrives)
        else:
            arrives()

    def _opened(
        self, broker: BrokerId, broker_epoch: int, handle: int, partition_epoch: int, position: Position
    ) -> None:
        replica = self.replicas[broker]
        answer = self.leader.follower_opened(
            broker,
            broker_epoch,
            1,
            position,
            self.now_ms,
            handle=handle,
            leader_epoch=EPOCH,
            partition_epoch=partition_epoch,
            registered_epoch=self.seen_live[broker],
            epoch_lookup=lambda epoch: (3, START) if epoch < EPOCH else (EPOCH, self.leader.log_end),
            stored_from=0,
        )
        if isinstance(answer, Accepted) and (broker_epoch, handle) == (replica.broker_epoch, replica.handle):
            replica.streaming = True
            self._reached("opened")
        self.carry_out()

    def push(self, broker: BrokerId) -> None:
        replica = self.replicas[broker]
        if replica.streaming:
            replica.written = self.leader.log_end
            replica.last_epoch = EPOCH if replica.written > START else 3

    def sync(self, broker: BrokerId) -> None:
        self.replicas[broker].durable = self.replicas[broker].written

    def hold(self, broker: BrokerId) -> None:
        """The follower says what it holds; the leader hears it later."""
        replica = self.replicas[broker]
        if replica.streaming:
            replica.to_leader.append(
                partial(
                    self._acked,
                    broker,
                    replica.broker_epoch,
                    replica.handle,
                    replica.written,
                    replica.durable,
                )
            )

    def _acked(self, broker: BrokerId, broker_epoch: int, handle: int, written: int, durable: int) -> None:
        self.leader.follower_acked(
            broker, broker_epoch, written, durable, self.now_ms, handle=handle, leader_epoch=EPOCH
        )
        self.carry_out()

    def deliver(self, broker: BrokerId) -> None:
        if self.replicas[broker].to_leader:
            self.replicas[broker].to_leader.popleft()()

    def drop_stream(self, broker: BrokerId, *, noticed: bool) -> None:
        """The stream ends; the leader may hear of it late (a new open ends it too)."""
        replica = self.replicas[broker]
        if replica.streaming:
            replica.streaming = False
            if noticed:
                ended = partial(self.leader.follower_gone, broker, replica.broker_epoch, replica.handle)
                replica.to_leader.append(ended)

    # -- brokers ------------------------------------------------------------------------------------------

    def crash(self, broker: BrokerId) -> None:
        """What was not durable is gone. Nobody has noticed yet."""
        replica = self.replicas[broker]
        self.drop_stream(broker, noticed=False)
        replica.written = replica.durable
        replica.last_epoch = EPOCH if replica.written > START else 3
        replica.broker_epoch = 0
        self._reached("crashed")

    def fence(self, broker: BrokerId) -> None:
        """The registration is deleted, rightly or not."""
        if self.live[broker]:
            self.revision += 1
            self.live[broker] = 0

    def controller_acts(self, broker: BrokerId) -> None:
        if not self.live[broker]:
            self._write(without_broker(self.record, broker, min_insync=self.min_insync))

    def come_back(self, broker: BrokerId, *, emptied: bool) -> None:
        """Be fenced, leave everything, then register (RL42, RL44, RL3)."""
        self.crash(broker)
        self.fence(broker)
        leave = strip_unclean if emptied else without_broker
        self._write(leave(self.record, broker, min_insync=self.min_insync))
        replica = self.replicas[broker]
        if emptied:
            replica.written = replica.durable = 0
            replica.last_epoch = -1
        self.revision += 1
        self.live[broker] = replica.broker_epoch = self.revision
        self._reached("emptied" if emptied else "came back")

    def find_damage(self, broker: BrokerId) -> None:
        """Leave the stream, give up what others count on, also where that is nothing, and truncate (RL122). What the
        leader has heard of it and will hear from its stream was true until then."""
        replica = self.replicas[broker]
        if self.live[broker] == 0 or self.live[broker] != replica.broker_epoch:
            return
        self.drop_stream(broker, noticed=True)
        self._write(strip_unclean(self.record, broker, min_insync=self.min_insync) or self.record.changed())
        replica.written = replica.durable = min(replica.durable, 4)
        replica.last_epoch = 3 if replica.written else -1
        self._reached("gave up")

    # -- metadata -----------------------------------------------------------------------------------------

    def follower_watches(self, broker: BrokerId) -> None:
        """The follower sees the record as it is now."""
        self.replicas[broker].known = self.record.partition_epoch

    def watch(self) -> None:
        """The leader sees the store as it is now."""
        self.seen_live = dict(self.live)
        self.leader.record_seen(self.record)
        self.carry_out()

    def propose(self) -> None:
        if self.waiting is not None:
            return
        proposal = self.leader.propose(
            self.now_ms, lambda b: BrokerView(self.seen_live[b], self.seen_live[b] != 0)
        )
        if proposal is None:
            return
        if self.record.partition_epoch != proposal.base_partition_epoch:  # read before it is sent
            self.leader.proposal_refused(self.record)
            self.carry_out()
            return
        self.waiting = Attempt(proposal, self.block_revision)
        self._reached("proposed")

    def answer(self) -> None:
        """The store decides and the leader hears it."""
        if self.waiting is None:
            return
        attempt, self.waiting = self.waiting, None
        if self._decide(attempt):
            self.leader.proposal_applied(self.record)
            self._reached("applied")
        else:
            self.leader.proposal_refused(self.record)
            self._reached("refused")
        self.carry_out()

    def lose_answer(self) -> None:
        """The leader hears nothing; the transaction may still be applied at any time."""
        if self.waiting is not None:
            self.late.append(self.waiting)
            self.waiting = None
            self.leader.proposal_unknown()
            self._reached("unknown")

    def decide_late(self) -> None:
        if self.late and self._decide(self.late.pop(0)):
            self._reached("applied late")

    def other_partition_changes(self) -> None:
        """The block moves on though this partition's record does not."""
        self.revision += 1
        self.block_revision = self.revision

    def pass_time(self, ms: float) -> None:
        self.now_ms += ms

    def _decide(self, attempt: Attempt) -> bool:
        members = attempt.proposal.members
        if attempt.block_revision != self.block_revision or any(self.live[b] != e for b, e in members):
            return False
        self._write(attempt.proposal.record)
        return True

    def _write(self, record: PartitionRecord | None) -> None:
        if record is not None:
            self.revision += 1
            self.block_revision = self.revision
            self.record = record

    # -- promises -----------------------------------------------------------------------------------------

    def check(self) -> None:
        watermark = self.leader.high_watermark
        if watermark > START:
            self._reached("committed")
        if watermark > self.leader.log_end:
            raise Violation("the watermark is beyond the log")
        if watermark < self.committed and self.committed > START:
            raise Violation(f"the watermark went back from {self.committed} to {watermark}")
        self.committed = max(self.committed, watermark)
        self._check_kept()
        for broker in self.record.in_sync + self.record.eligible:
            held = self.log.durable_end_offset if broker == ME else self.replicas[broker].durable
            if held < self.committed:
                raise Violation(
                    f"broker {broker} may be elected with {held} durable, {self.committed} is committed"
                )

    def _check_kept(self) -> None:
        """What the leader keeps is what follows from the ends and starts as they are."""
        leader = self.leader
        ends = [leader.counted_end_of(broker) for broker in leader.maximal]
        due = leader.high_watermark
        if leader.enough_in_sync:
            due = max(due, min(ends))
        if leader.high_watermark != due:
            raise Violation(f"the watermark stays at {leader.high_watermark}, all in sync hold {due}")

    def _reached(self, what: str) -> None:
        self.steps_reached[what] = self.steps_reached.get(what, 0) + 1


Step = Callable[[Cluster], None]


def steps() -> dict[str, Step]:
    """Every step by name."""
    named: dict[str, Step] = {
        "append 1": lambda c: c.append(1),
        "append 7": lambda c: c.append(7),
        "sync leader": Cluster.sync_leader,
        "watch": Cluster.watch,
        "propose": Cluster.propose,
        "answer": Cluster.answer,
        "lose answer": Cluster.lose_answer,
        "decide late": Cluster.decide_late,
        "other partition": Cluster.other_partition_changes,
        "pass 1 s": lambda c: c.pass_time(1_000),
        "pass 11 s": lambda c: c.pass_time(11_000),
    }
    for number in (2, 3):
        named |= _about(BrokerId(number))
    return named


def _about(broker: BrokerId) -> dict[str, Step]:
    return {
        f"open {broker}": lambda c: c.open(broker),
        f"late open {broker}": lambda c: c.open(broker, late=True),
        f"follower watches {broker}": lambda c: c.follower_watches(broker),
        f"damage {broker}": lambda c: c.find_damage(broker),
        f"push {broker}": lambda c: c.push(broker),
        f"sync {broker}": lambda c: c.sync(broker),
        f"hold {broker}": lambda c: c.hold(broker),
        f"deliver {broker}": lambda c: c.deliver(broker),
        f"stream ends {broker}": lambda c: c.drop_stream(broker, noticed=True),
        f"stream dies {broker}": lambda c: c.drop_stream(broker, noticed=False),
        f"crash {broker}": lambda c: c.crash(broker),
        f"fence {broker}": lambda c: c.fence(broker),
        f"controller {broker}": lambda c: c.controller_acts(broker),
        f"come back {broker}": lambda c: c.come_back(broker, emptied=False),
        f"come back emptied {broker}": lambda c: c.come_back(broker, emptied=True),
    }
