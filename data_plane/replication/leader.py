"""The leader's view of one partition: what followers hold, what is committed, who may be in sync.

A `LeaderState` lives for exactly one leader epoch: made when this broker becomes leader, dropped when it
sees a record with another leader or epoch, so nothing a follower said in an earlier epoch is left (RL38).
Inside it a follower is

    unknown --follower_opened--> following --follower_gone--> away --follower_opened--> following

and the change of its in-sync set is in one of the states of `data_plane/replication/in_sync_change.py`. Who is in
sync, or may be by a proposal, is the *maximal* set (RL15, RL36). All times are monotonic milliseconds of one clock.
Ends are exclusive offsets.
"""

from collections.abc import Callable
from dataclasses import dataclass

from data_plane.metadata.model import PartitionRecord
from data_plane.replication import in_sync
from data_plane.replication.eligibility import in_order, with_in_sync
from data_plane.replication.in_sync_change import (
    Deposed,
    InSyncChange,
    Outstanding,
    Proposal,
    Settled,
    Unresolved,
    proposed,
)
from data_plane.replication.log_start import AgreedStart, may_be_told, with_log_start
from data_plane.replication.progress import UNKNOWN_END, FollowerProgress
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import BrokerId
from penstock.contract.invariant import invariant

NO_EPOCH = -1
"""Last epoch of an empty log."""

EpochLookup = Callable[[int], tuple[int, int]]
"""Epoch asked for -> (largest own epoch not above it, that epoch's end offset), as RL28 defines it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a replica's log stands. `last_epoch` is that of its last batch, NO_EPOCH for an empty log."""

    log_end_offset: int
    durable_end_offset: int
    last_epoch: int
    log_start_offset: int = 0


@dataclass(frozen=True, slots=True)
class Accepted:
    """Push from `offset` on."""

    offset: int


@dataclass(frozen=True, slots=True)
class Diverging:
    """The follower's log leaves the leader's: truncate by (epoch, end offset) and open again (RL25, RL26)."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class StartOver:
    """The follower ends before the first segment that the leader holds: wipe and open again at `offset`, where that
    begins (RL32).
    """

    offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The open is not taken up. Nothing of it is remembered."""

    code: ErrorCode
    message: str


OpenAnswer = Accepted | Diverging | StartOver | Refused


@dataclass(frozen=True, slots=True)
class BrokerView:
    """What the image says of a broker. `epoch` 0 = fenced; `active` = unfenced and not shutting down."""

    epoch: int
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerLag:
    """One follower as metrics show it. `lag` is in offsets, -1 while its position is unknown."""

    broker: BrokerId
    in_sync: bool
    following: bool
    end_offset: int
    lag: int
    caught_up_ms_ago: int


# -- decisions ------------------------------------------------------------------------------------------


def divergence(position: Position, *, epoch_lookup: EpochLookup, log_end: int) -> Diverging | None:
    """Where the follower's log leaves the leader's, by the leader-epoch file alone (RL25)."""
    if position.last_epoch == NO_EPOCH:
        return Diverging(NO_EPOCH, log_end) if position.log_end_offset > log_end else None
    epoch, end = epoch_lookup(position.last_epoch)
    if epoch < position.last_epoch or end < position.log_end_offset:
        return Diverging(epoch, end)
    return None


def checked_epoch(what: str, *, got: int, current: int) -> Refused | None:
    """Only an equal epoch is processed; a lower one is fenced, a higher one not known yet (RL7)."""
    if got < current:
        return Refused(ErrorCode.FENCED_LEADER_EPOCH, f"{what} {got} is fenced, {current} is current")
    if got > current:
        return Refused(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{what} {got} is not known yet, {current} is current")
    return None


# -- state ----------------------------------------------------------------------------------------------


class LeaderState:
    """One partition led by `me` in `leader_epoch`. Not thread-safe; its owner is the partition's only writer.

    `record` is the committed record that names `me` leader with this epoch. `leader_epoch_start_offset` is
    the log end at the moment of becoming leader. `strict` counts durable ends, otherwise written ones.
    `high_watermark` is the replica's own, possibly stale, one; `log_start` is where its own log begins.
    """

    def __init__(
        self,
        me: BrokerId,
        record: PartitionRecord,
        *,
        leader_epoch: int,
        leader_epoch_start_offset: int,
        log_end: int,
        durable_end: int,
        high_watermark: int,
        min_insync: int,
        strict: bool,
        now_ms: float,
        lag_ms_max: int = 10_000,
        log_start: int = 0,
    ) -> None:
        invariant(
            record.leader == me, f"partition {record.partition}: broker {me} leads only what names it leader"
        )
        invariant(
            record.leader_epoch == leader_epoch, f"partition {record.partition}: record and epoch agree"
        )
        invariant(me in record.in_sync, f"partition {record.partition}: a leader is in sync with itself")
        invariant(high_watermark <= log_end, f"partition {record.partition}: watermark is within the log")
        self.me = me
        self.record = record
        self.leader_epoch = leader_epoch
        self.leader_epoch_start_offset = leader_epoch_start_offset
        self.log_end = log_end
        self.durable_end = durable_end
        self.min_insync = min_insync
        self.strict = strict
        self.lag_ms_max = lag_ms_max
        self.taking = True
        """False while leadership is handed over (RL50): nothing more is appended in this leader epoch."""
        self._high_watermark = high_watermark
        self._latest_ms = now_ms
        self._followers = {broker: FollowerProgress(now_ms) for broker in record.replicas if broker != me}
        self._change: InSyncChange = Settled()
        self.start = AgreedStart(record, log_start, now_ms)
        self._look_at_starts()
        self._advance()

    # -- what happened ----------------------------------------------------------------------------------

    def local_advanced(self, written_end: int, durable_end: int, now_ms: float) -> None:
        """The leader's own log grew or became more durable. Neither end ever goes back."""
        invariant(
            self.log_end <= written_end, f"partition {self.record.partition}: a leader's log only grows"
        )
        invariant(
            self.durable_end <= durable_end <= written_end,
            f"partition {self.record.partition}: durable <= written",
        )
        self._latest_ms = now_ms
        before = self._leader_end
        self.log_end, self.durable_end = written_end, durable_end
        if self._leader_end > before:
            for follower in self._followers.values():
                if self._end_of(follower) >= before:  # it held everything until this moment
                    follower.last_caught_up_ms = now_ms
                    follower.mark_end, follower.mark_ms = self._leader_end, now_ms
            self._advance()

    def follower_opened(
        self,
        broker: BrokerId,
        broker_epoch: int,
        generation: int,
        position: Position,
        now_ms: float,
        *,
        leader_epoch: int,
        registered_epoch: int,
        epoch_lookup: EpochLookup,
        held_from: int,
        wants_in: bool = True,
    ) -> OpenAnswer:
        """A follower asks for pushes from its position. `registered_epoch` is the image's, 0 = fenced. One that
        does not want in stays out until it opens again (RL128, RL133). `held_from`: where the leader's first segment
        begins. The log may begin within it: what a tenant deleted there is still held, by every replica alike.

        Only an `Accepted` open changes anything.
        """
        refused = checked_epoch("leader epoch", got=leader_epoch, current=self.leader_epoch)
        if refused is not None:
            return refused
        if broker not in self._followers:
            return Refused(
                ErrorCode.NOT_FOUND, f"broker {broker} is no follower of partition {self.record.partition}"
            )
        if not in_sync.same_registration(seen_epoch=broker_epoch, registered_epoch=registered_epoch):
            refused = checked_epoch(f"broker {broker} epoch", got=broker_epoch, current=registered_epoch)
            if refused is not None:
                return refused
        current_generation = self.record.replica_generations[self.record.replicas.index(broker)]
        refused = checked_epoch(
            f"broker {broker} replica generation", got=generation, current=current_generation
        )
        if refused is not None:
            return refused
        diverging = divergence(position, epoch_lookup=epoch_lookup, log_end=self.log_end)
        if position.log_end_offset < held_from:
            return StartOver(held_from)
        if diverging is not None:
            return StartOver(held_from) if diverging.epoch == NO_EPOCH else diverging
        self._latest_ms = now_ms
        follower = self._followers[broker]
        follower.following, follower.wants_in = True, wants_in
        follower.broker_epoch = broker_epoch
        follower.written_end = position.log_end_offset
        follower.durable_end = min(position.durable_end_offset, position.log_end_offset)
        follower.log_start = position.log_start_offset
        follower.progressed(self._end_of(follower), self._leader_end, now_ms)
        self._look_at_starts()
        self._advance()
        return Accepted(position.log_end_offset)

    def follower_held(
        self,
        broker: BrokerId,
        broker_epoch: int,
        written_end: int,
        durable_end: int,
        now_ms: float,
        *,
        leader_epoch: int,
        log_start: int = 0,
    ) -> bool:
        """A follower says what it holds. False = ignored: of another epoch, registration or open, or beyond
        the leader's log.
        """
        follower = self._followers.get(broker)
        if follower is None or not follower.following or leader_epoch != self.leader_epoch:
            return False
        if not in_sync.same_registration(seen_epoch=broker_epoch, registered_epoch=follower.broker_epoch):
            return False
        if not durable_end <= written_end <= self.log_end:
            return False
        self._latest_ms = now_ms
        follower.written_end = max(follower.written_end, written_end)
        follower.durable_end = max(follower.durable_end, durable_end)
        follower.log_start = max(follower.log_start, log_start)
        follower.progressed(self._end_of(follower), self._leader_end, now_ms)
        self._look_at_starts()
        self._advance()
        return True

    def follower_gone(self, broker: BrokerId) -> None:
        """Its stream ended. What it held still counts while it is in sync; to join it must open again."""
        follower = self._followers.get(broker)
        if follower is not None:
            follower.following = False

    # -- what follows from it ---------------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """Everything before it is committed. Never goes back."""
        return self._high_watermark

    @property
    def ready(self) -> bool:
        """May latest offsets be answered (RL21)?"""
        return in_sync.leader_ready(
            high_watermark=self._high_watermark, leader_epoch_start_offset=self.leader_epoch_start_offset
        )

    @property
    def in_sync_count(self) -> int:
        """Size of the committed in-sync set."""
        return len(self.record.in_sync)

    @property
    def enough_in_sync(self) -> bool:
        """May a batch with acks=all be taken (RL16)?"""
        return self.in_sync_count >= self.min_insync

    @property
    def maximal(self) -> tuple[BrokerId, ...]:
        """Everyone who is or may be in sync (RL15)."""
        return in_sync.maximal_in_sync(self.record.in_sync, proposed(self._change))

    @property
    def electable(self) -> tuple[BrokerId, ...]:
        """Everyone who may lead after this epoch: who is or may be in sync, who is eligible (RL41), and who was so
        last (RL47)."""
        maximal = self.maximal
        others = self.record.eligible + self.record.last_known
        return maximal + tuple(broker for broker in others if broker not in maximal)

    @property
    def unresolved(self) -> bool:
        """May an earlier try of the proposal that is under way still be applied (RL36)?"""
        return isinstance(self._change, Unresolved)

    @property
    def quiet(self) -> bool:
        """No timer is needed: all replicas in sync and even, no proposal; only an event can change that."""
        return (
            isinstance(self._change, Settled | Deposed)
            and self.start.settled
            and len(self.record.in_sync) == len(self.record.replicas)
            and all(self._end_of(follower) == self._leader_end for follower in self._followers.values())
        )

    def counted_end_of(self, broker: BrokerId) -> int:
        """The end of a replica that counts towards the watermark; UNKNOWN_END before it opened."""
        return self._leader_end if broker == self.me else self._end_of(self._followers[broker])

    def handed_to(self, broker: BrokerId) -> bool:
        """Does nothing more arrive, is all there is committed, and does `broker` hold it (RL50, RL51)?"""
        if self.taking or self._high_watermark != self.log_end:
            return False
        return broker in self.maximal and self.counted_end_of(broker) >= self.log_end

    def describe(self, now_ms: float) -> tuple[FollowerLag, ...]:
        """Followers in order of preference, for metrics."""
        return tuple(self._lag_of(broker, follower, now_ms) for broker, follower in self._followers.items())

    # -- changing the in-sync set -----------------------------------------------------------------------

    def propose(self, now_ms: float, brokers: Callable[[BrokerId], BrokerView]) -> Proposal | None:
        """The change of the in-sync set that is due now, or None.

        It counts from this moment (RL15), before anybody sends it. One at a time; one whose outcome is
        unknown is returned again, unchanged, until it is resolved (RL36).
        """
        if isinstance(self._change, Unresolved):
            return self._change.proposal
        if not isinstance(self._change, Settled):
            return None
        self._latest_ms = now_ms
        mine = brokers(self.me)
        if mine.epoch == 0:
            return None
        wanted = self._wanted_in_sync(now_ms, brokers)
        unchanged = wanted == in_order(self.record, lambda b: b in self.record.in_sync)
        if unchanged and not self.start.is_due(now_ms):
            return None
        # A fenced member would fail the comparison of its registration; it leaves with whatever else changes.
        wanted = tuple(broker for broker in wanted if brokers(broker).epoch != 0)
        proposal = Proposal(
            in_sync=wanted,
            members=tuple((broker, brokers(broker).epoch) for broker in wanted),
            base_partition_epoch=self.record.partition_epoch,
            # Whoever joins may begin earlier than was told, and follows the record if it comes to lead (RL108).
            record=with_log_start(with_in_sync(self.record, wanted, self.min_insync), self.start.wanted),
        )
        self._change = Outstanding(proposal)
        return proposal

    def proposal_applied(self, record: PartitionRecord) -> None:
        """The store took the proposal; `record` is what it holds."""
        self._settle(record)

    def proposal_refused(self, record: PartitionRecord) -> None:
        """The store answered that a comparison failed; `record` is what it holds now. Authoritative.

        Every comparison is of a revision that never comes back, so no earlier try can be applied any more.
        """
        self._settle(record)

    def proposal_unknown(self) -> None:
        """No answer came: it may have been applied, now or later. The maximal set stays (RL36)."""
        if isinstance(self._change, Outstanding):
            self._change = Unresolved(self._change.proposal)

    def record_seen(self, record: PartitionRecord) -> bool:
        """The watch showed this record. An older one changes nothing (RL5). True while this still leads."""
        if record.partition_epoch > self.record.partition_epoch:
            self._settle(record)
        return not isinstance(self._change, Deposed)

    def tells_start(self, begins: int) -> bool:
        """May it be told that the log begins at `begins`, where the leader's own begins (RL108)?"""
        return may_be_told(begins, agreed=self.start.agreed, recorded=self.start.recorded)

    def want_log_start(self, offset: int, now_ms: float) -> None:
        """Everything before `offset` is committed and may go: the log shall begin there once that is agreed."""
        invariant(
            offset <= self._high_watermark,
            f"partition {self.record.partition}: the log begins at most at its watermark",
        )
        self._latest_ms = now_ms
        self.start.want(offset, now_ms)
        self._look_at_starts()

    def demand_in_sync(self, min_insync: int) -> None:
        """The topic demands another number of replicas in sync (RL16).

        A lower one counts from the revision on that also cleared whoever was electable because of the higher one
        (RL43), a higher one before any record that was written under it is seen.
        """
        if min_insync != self.min_insync:
            self.min_insync = min_insync
            self._advance()

    # -- inside -----------------------------------------------------------------------------------------

    @property
    def _leader_end(self) -> int:
        return in_sync.counted_end(strict=self.strict, written_end=self.log_end, durable_end=self.durable_end)

    def _end_of(self, follower: FollowerProgress) -> int:
        return in_sync.counted_end(
            strict=self.strict, written_end=follower.written_end, durable_end=follower.durable_end
        )

    def _advance(self) -> None:
        if isinstance(self._change, Deposed):
            return
        before = self._high_watermark
        self._high_watermark = in_sync.committed_offset(
            high_watermark=before,
            in_sync_count=self.in_sync_count,
            min_insync=self.min_insync,
            ends=[self.counted_end_of(broker) for broker in self.maximal],
        )
        invariant(
            self._high_watermark >= before,
            f"partition {self.record.partition}: the watermark never goes back",
        )

    def _look_at_starts(self) -> None:
        if self.start.settled:
            return  # the ordinary case, at each answer of a follower
        others = (broker for broker in self.electable if broker != self.me)
        self.start.look(
            recorded=self.record.log_start,
            starts=[self._followers[broker].log_start for broker in others],
            now_ms=self._latest_ms,
        )

    def _settle(self, record: PartitionRecord) -> None:
        if isinstance(self._change, Deposed) or record.partition_epoch < self.record.partition_epoch:
            return
        if record.leader != self.me or record.leader_epoch != self.leader_epoch:
            self._change = Deposed()
            return
        self._change = Settled()
        self._adopt_replicas(record)
        self.record = record
        self._look_at_starts()
        self._advance()

    def _adopt_replicas(self, record: PartitionRecord) -> None:
        """A replica that was added, or has another generation, is new: nothing is known of it (RL39)."""
        before = dict(zip(self.record.replicas, self.record.replica_generations, strict=True))
        after = dict(zip(record.replicas, record.replica_generations, strict=True))
        self._followers = {
            broker: self._followers[broker]
            if before.get(broker) == after[broker]
            else FollowerProgress(self._latest_ms)
            for broker in record.replicas
            if broker != self.me
        }

    def _wanted_in_sync(
        self, now_ms: float, brokers: Callable[[BrokerId], BrokerView]
    ) -> tuple[BrokerId, ...]:
        def stays(broker: BrokerId) -> bool:
            if broker == self.me:
                return True
            follower, view = self._followers[broker], brokers(broker)
            if broker in self.record.in_sync:
                return not in_sync.lags_too_long(
                    end=self._end_of(follower),
                    leader_end=self._leader_end,
                    last_caught_up_ms=follower.last_caught_up_ms,
                    now_ms=now_ms,
                    lag_ms_max=self.lag_ms_max,
                )
            return in_sync.may_join(
                end=self._end_of(follower),
                high_watermark=self._high_watermark,
                leader_epoch_start_offset=self.leader_epoch_start_offset,
                following=follower.following and follower.wants_in,
                seen_epoch=follower.broker_epoch,
                registered_epoch=view.epoch,
                active=view.active,
            )

        return in_order(self.record, stays)

    def _lag_of(self, broker: BrokerId, follower: FollowerProgress, now_ms: float) -> FollowerLag:
        end = self._end_of(follower)
        return FollowerLag(
            broker=broker,
            in_sync=broker in self.record.in_sync,
            following=follower.following,
            end_offset=end,
            lag=-1 if end == UNKNOWN_END else max(0, self._leader_end - end),
            caught_up_ms_ago=0
            if end >= self._leader_end
            else max(0, int(now_ms - follower.last_caught_up_ms)),
        )
