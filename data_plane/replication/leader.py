"""The leader's view of one partition: what followers have, what is committed, which replicas may be in sync.

A `LeaderState` lives for exactly one leader epoch: made when this broker becomes leader, dropped when it
sees a record with another leader or epoch, so nothing a follower said in an earlier epoch is left (RL38).
Inside it a follower is

    unknown --follower_opened--> following --follower_gone--> away --follower_opened--> following

The change of its in-sync set is in one of the states of `data_plane/replication/in_sync_change.py`. Replicas in sync,
and those that a proposal may have added, are the *maximal* set (RL15, RL36). All times are monotonic milliseconds of
one clock. Ends are exclusive offsets.

An event changes this state and nothing else. What has to be done about it is handed out as one value, `Effects`.
"""

from collections.abc import Callable

from data_plane.metadata.model import PartitionRecord
from data_plane.replication import in_sync
from data_plane.replication.effects import Effects, Look
from data_plane.replication.eligibility import in_order, with_in_sync
from data_plane.replication.in_sync_change import (
    Deposed,
    InSyncChange,
    Outstanding,
    Proposal,
    Settled,
    Unresolved,
    is_awaited,
    proposed,
)
from data_plane.replication.log_start import AgreedStart, may_be_reported, with_log_start
from data_plane.replication.opening import (
    NO_EPOCH,
    Accepted,
    EpochLookup,
    OpenAnswer,
    Position,
    Refused,
    StartOver,
    checked_epoch,
    divergence,
)
from data_plane.replication.own_log import OwnLog, last_ends
from data_plane.replication.progress import FollowerLag, FollowerProgress, adopted
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import BrokerId
from penstock.contract.invariant import InvariantBroken, invariant


class LeaderState:
    """One partition led by `me` in `leader_epoch`. Not thread-safe; its owner is the partition's only writer.

    `record` is the committed record that names `me` leader, and the leader epoch. `log` is its own log, whose high
    watermark may be stale; the epoch begins at its end. `strict` counts durable ends, otherwise written ones.

    After each event the owner carries out `take_effects`, before it awaits anything.
    """

    def __init__(
        self,
        me: BrokerId,
        record: PartitionRecord,
        log: OwnLog,
        *,
        min_insync: int,
        strict: bool,
        now_ms: float,
        lag_ms_max: int = 10_000,
    ) -> None:
        invariant(
            record.leader == me, f"partition {record.partition}: broker {me} leads only what names it leader"
        )
        invariant(me in record.in_sync, f"partition {record.partition}: a leader is in sync with itself")
        invariant(
            log.high_watermark <= log.log_end_offset,
            f"partition {record.partition}: watermark is within the log",
        )
        self.me = me
        self.record = record
        self.leader_epoch = record.leader_epoch
        self.leader_epoch_start_offset = log.log_end_offset
        self.min_insync = min_insync
        self.strict = strict
        self.lag_ms_max = lag_ms_max
        self.taking = True
        """False while leadership is handed over (RL50): nothing more is appended in this leader epoch."""
        self._log: OwnLog = log
        self._latest_ms = now_ms
        self._followers = {broker: FollowerProgress(now_ms) for broker in record.replicas if broker != me}
        self._change: InSyncChange = Settled()
        self._foreign_epoch = record.partition_epoch
        """Partition epoch of the last record that another writer wrote. Who was not in sync after it may have given
        itself up by it: what it said before counts for nothing."""
        self.start = AgreedStart(record, log.log_start_offset, now_ms)
        self._compared_end = self._leader_end
        """The leader's counted end when followers were last compared with it."""
        self._ended = False
        self._begin_epoch = record.leader_epoch
        self._unsynced_bytes = 0
        self._push = False
        self._outdated = False
        """Some follower has to open again."""
        self._look = Look.IN_TIME
        self._ends_moved = True
        """The high watermark has to be decided again."""
        self._look_at_starts()

    # -- what happened ----------------------------------------------------------------------------------

    def appended(self, size: int, now_ms: float) -> None:
        """The own log took a batch of `size` bytes."""
        self._unsynced_bytes += size
        self._push = True
        if self._look is Look.UNNEEDED:
            self._look = Look.IN_TIME
        self._latest_ms = now_ms
        if not self.strict:  # otherwise it counts once it is durable
            self._own_end_moved(now_ms)

    def became_durable(self, now_ms: float) -> None:
        """More of the own log is durable."""
        self._latest_ms = now_ms
        self._own_end_moved(now_ms)

    def follower_opened(
        self,
        broker: BrokerId,
        broker_epoch: int,
        generation: int,
        position: Position,
        now_ms: float,
        *,
        handle: int,
        leader_epoch: int,
        partition_epoch: int,
        registered_epoch: int,
        epoch_lookup: EpochLookup,
        stored_from: int,
        wants_in: bool = True,
    ) -> OpenAnswer:
        """A follower asks for pushes from its position. `registered_epoch` is the image's, 0 = fenced. One that
        does not want in stays out until it opens again (RL128, RL133). `stored_from`: where the leader's first segment
        begins. The log may begin within it: every replica still stores what a tenant deleted there. `handle` is the
        open's, `partition_epoch` that of the record which the follower knows, 0 from a broker of an earlier version.

        One that comes after a newer open of the follower changes nothing. Any other ends what the follower opened
        before, whatever the answer.
        """
        invariant(
            self._begin_epoch == NO_EPOCH,
            f"partition {self.record.partition}: the epoch is noted before a follower is accepted (RL27)",
        )
        refused = checked_epoch("leader epoch", got=leader_epoch, current=self.leader_epoch)
        if refused is not None:
            return refused
        follower = self._followers.get(broker)
        if follower is None:
            return Refused(
                ErrorCode.NOT_FOUND, f"broker {broker} is no follower of partition {self.record.partition}"
            )
        if not follower.opens(broker_epoch, handle):
            return Refused(ErrorCode.FENCED_LEADER_EPOCH, f"broker {broker} has opened again since")
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
        if broker not in self.record.in_sync and 0 < partition_epoch < self._foreign_epoch:
            return Refused(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"partition epoch {partition_epoch} is fenced, {self._foreign_epoch} was written since",
            )
        diverging = divergence(position, epoch_lookup=epoch_lookup, log_end=self.log_end)
        if position.log_end_offset < stored_from:
            return StartOver(stored_from)
        if diverging is not None:
            return StartOver(stored_from) if diverging.epoch == NO_EPOCH else diverging
        self._latest_ms = now_ms
        follower.following, follower.wants_in = True, wants_in
        follower.partition_epoch = partition_epoch
        follower.written_end = position.log_end_offset
        follower.durable_end = min(position.durable_end_offset, position.log_end_offset)
        follower.log_start = position.log_start_offset
        follower.progressed(self._end_of(follower), self._leader_end, now_ms)
        self._look_at_starts()
        self._follower_moved()
        return Accepted(position.log_end_offset)

    def follower_acked(
        self,
        broker: BrokerId,
        broker_epoch: int,
        written_end: int,
        durable_end: int,
        now_ms: float,
        *,
        handle: int,
        leader_epoch: int,
        log_start: int = 0,
    ) -> bool:
        """A replica ack: a follower says what it has, on what it opened so. False = ignored: of another epoch,
        registration or open, or beyond the leader's log.
        """
        follower = self._followers.get(broker)
        if follower is None or not follower.following or leader_epoch != self.leader_epoch:
            return False
        if not self.is_newest_open(broker, broker_epoch, handle):
            return False
        if not durable_end <= written_end <= self.log_end:
            return False
        self._latest_ms = now_ms
        follower.written_end = max(follower.written_end, written_end)
        follower.durable_end = max(follower.durable_end, durable_end)
        follower.log_start = max(follower.log_start, log_start)
        follower.progressed(self._end_of(follower), self._leader_end, now_ms)
        self._look_at_starts()
        self._follower_moved()
        return True

    def follower_gone(self, broker: BrokerId, broker_epoch: int, handle: int) -> None:
        """The open with this handle has ended. What the follower acknowledged still counts while it is in sync. To
        join, it must open again. The end of an open before its newest changes nothing."""
        if self.is_newest_open(broker, broker_epoch, handle):
            self._followers[broker].following = False

    def end(self) -> None:
        """The leader epoch is over for this broker. There are no effects any more, and ends stay as they are now."""
        self._log = last_ends(self._log)
        self._ended = True

    # -- what follows from it ---------------------------------------------------------------------------

    def take_effects(self) -> Effects:
        """What is to be done now. Taken once: the caller carries out all of it."""
        if self._ended:
            raise InvariantBroken(
                f"partition {self.record.partition}: epoch {self.leader_epoch} is over here"
            )
        log = self._log
        mark = before = log.high_watermark
        if self._ends_moved:
            mark = self._committed_offset(before)
        effects = Effects(
            self._begin_epoch,
            self._unsynced_bytes,
            self._push,
            mark,
            log.durable_end_offset,
            mark > before,
            self._outdated,
            self._look,
        )
        self._begin_epoch = NO_EPOCH
        self._unsynced_bytes = 0
        self._push = False
        self._outdated = False
        self._look = Look.UNNEEDED
        self._ends_moved = False
        return effects

    @property
    def high_watermark(self) -> int:
        """Everything before it is committed. Never goes back."""
        return self._log.high_watermark

    @property
    def log_end(self) -> int:
        """Where the own log ends."""
        return self._log.log_end_offset

    @property
    def ready(self) -> bool:
        """May latest offsets be answered (RL21)?"""
        return in_sync.leader_ready(
            high_watermark=self.high_watermark, leader_epoch_start_offset=self.leader_epoch_start_offset
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
        """Replicas that are or may be in sync (RL15)."""
        return in_sync.maximal_in_sync(self.record.in_sync, proposed(self._change))

    @property
    def electable(self) -> tuple[BrokerId, ...]:
        """Replicas that may lead after this epoch: those that are or may be in sync, the eligible ones (RL41), and the
        last known ones (RL47)."""
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

    def is_newest_open(self, broker: BrokerId, broker_epoch: int, handle: int) -> bool:
        """Has the follower opened nothing since?"""
        follower = self._followers.get(broker)
        return follower is not None and (follower.broker_epoch, follower.handle) == (broker_epoch, handle)

    def is_followed_by(self, broker: BrokerId) -> bool:
        """Does what this follower opened last still stand?"""
        follower = self._followers.get(broker)
        return follower is not None and follower.following

    def handed_to(self, broker: BrokerId) -> bool:
        """Does nothing more arrive, is everything committed, and does `broker` have it (RL50, RL51)?"""
        if self.taking or self.high_watermark != self.log_end:
            return False
        return broker in self.maximal and self.counted_end_of(broker) >= self.log_end

    def describe(self, now_ms: float) -> tuple[FollowerLag, ...]:
        """Followers in order of preference, for metrics."""
        return tuple(
            follower.lag(
                broker, self._end_of(follower), self._leader_end, now_ms, broker in self.record.in_sync
            )
            for broker, follower in self._followers.items()
        )

    # -- changing the in-sync set -----------------------------------------------------------------------

    def propose(self, now_ms: float, brokers: Callable[[BrokerId], in_sync.BrokerView]) -> Proposal | None:
        """The change of the in-sync set that is due now, or None.

        It counts from this moment (RL15), before it is sent. There is one at a time. One whose outcome is
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
            # A replica that joins may begin earlier than was reported. As a leader it follows the record (RL108).
            record=with_log_start(with_in_sync(self.record, wanted, self.min_insync), self.start.wanted),
        )
        self._change = Outstanding(proposal)
        return proposal

    def proposal_applied(self, record: PartitionRecord) -> None:
        """The store has answered that it took the proposal. `record` is what it has."""
        self._resolve_change(record, own=True)

    def proposal_refused(self, record: PartitionRecord) -> None:
        """The store answered that a comparison failed. `record` is what it has now; it is authoritative.

        Every comparison is of a revision that never comes back, so no earlier try can be applied any more.
        """
        self._resolve_change(record, own=False)

    def proposal_unknown(self) -> None:
        """No answer came: it may have been applied, now or later. The maximal set stays (RL36)."""
        if isinstance(self._change, Outstanding):
            self._change = Unresolved(self._change.proposal)

    def record_seen(self, record: PartitionRecord) -> bool:
        """The watch showed this record. An older one changes nothing (RL5). True while this still leads."""
        newer = record.partition_epoch > self.record.partition_epoch
        if newer and not is_awaited(self._change, record):
            self._resolve_change(record, own=False)
        return not isinstance(self._change, Deposed)

    def may_report_start(self, begins: int) -> bool:
        """May the leader report that the log begins at `begins`, where its own begins (RL108)?"""
        return may_be_reported(begins, agreed=self.start.agreed, recorded=self.start.recorded)

    def want_log_start(self, offset: int, now_ms: float) -> None:
        """Everything before `offset` is committed and may go. The log begins there once that is agreed."""
        invariant(
            offset <= self.high_watermark,
            f"partition {self.record.partition}: the log begins at most at its watermark",
        )
        self._latest_ms = now_ms
        self.start.want(offset, now_ms)
        self._look_at_starts()
        self._look_in_time()

    def require_in_sync(self, min_insync: int) -> None:
        """The topic requires another number of replicas in sync (RL16).

        A lower number counts from the revision on that also cleared the replicas that the higher one made electable
        (RL43). A higher one counts before any record that was written under it is seen.
        """
        if min_insync != self.min_insync:
            self.min_insync = min_insync
            self._ends_moved = True

    # -- inside -----------------------------------------------------------------------------------------

    @property
    def _leader_end(self) -> int:
        log = self._log
        return in_sync.counted_end(
            strict=self.strict, written_end=log.log_end_offset, durable_end=log.durable_end_offset
        )

    def _end_of(self, follower: FollowerProgress) -> int:
        return in_sync.counted_end(
            strict=self.strict, written_end=follower.written_end, durable_end=follower.durable_end
        )

    def _own_end_moved(self, now_ms: float) -> None:
        before, end = self._compared_end, self._leader_end
        if end == before:
            return
        invariant(before < end, f"partition {self.record.partition}: a leader's end never goes back")
        self._compared_end = end
        for follower in self._followers.values():
            if self._end_of(follower) >= before:  # it had everything until this moment
                follower.last_caught_up_ms = now_ms
                follower.mark_end, follower.mark_ms = end, now_ms
        self._ends_moved = True

    def _follower_moved(self) -> None:
        self._ends_moved = True
        if self.in_sync_count < len(self.record.replicas):
            self._look = Look.NOW

    def _look_in_time(self) -> None:
        if self._look is Look.UNNEEDED:
            self._look = Look.IN_TIME

    def _committed_offset(self, before: int) -> int:
        """The high watermark that follows from all ends as they are."""
        if isinstance(self._change, Deposed):
            return before
        # Before the log start of the record everything was committed (RL108); the own watermark may be stale.
        known = max(before, min(self.record.log_start, self._log.log_end_offset))
        mark = in_sync.committed_offset(
            high_watermark=known,
            in_sync_count=self.in_sync_count,
            min_insync=self.min_insync,
            ends=[self.counted_end_of(broker) for broker in self.maximal],
        )
        invariant(mark >= before, f"partition {self.record.partition}: the watermark never goes back")
        return mark

    def _look_at_starts(self) -> None:
        if self.start.settled:
            return  # the ordinary case, at each answer of a follower
        others = (broker for broker in self.electable if broker != self.me)
        self.start.look(
            recorded=self.record.log_start,
            starts=[self._followers[broker].log_start for broker in others],
            now_ms=self._latest_ms,
        )

    def _resolve_change(self, record: PartitionRecord, *, own: bool) -> None:
        """`own`: this leader's transaction wrote it, and was answered so."""
        if isinstance(self._change, Deposed) or record.partition_epoch < self.record.partition_epoch:
            return
        if record.leader != self.me or record.leader_epoch != self.leader_epoch:
            self._change = Deposed()
            return
        foreign = record.partition_epoch > self.record.partition_epoch and not own
        self._change = Settled()
        self._followers = adopted(self._followers, self.record, record, me=self.me, now_ms=self._latest_ms)
        self.record = record
        if foreign:
            self._foreign_epoch = record.partition_epoch
            self._outdate_followers()
        self._look_at_starts()
        self._ends_moved = True
        if self.in_sync_count < len(record.replicas):
            # One that left may have caught up already, and then reports nothing more.
            self._look_in_time()

    def _outdate_followers(self) -> None:
        """Another writer changed the record. Who is not in sync by it may have given itself up, also where it was not
        before: it opens again, unless it knew this record when it opened."""
        for broker, follower in self._followers.items():
            knew = follower.partition_epoch >= self.record.partition_epoch
            if follower.following and broker not in self.record.in_sync and not knew:
                follower.following = False
                self._outdated = True

    def _wanted_in_sync(
        self, now_ms: float, brokers: Callable[[BrokerId], in_sync.BrokerView]
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
                high_watermark=self.high_watermark,
                leader_epoch_start_offset=self.leader_epoch_start_offset,
                following=follower.following and follower.wants_in,
                seen_epoch=follower.broker_epoch,
                registered_epoch=view.epoch,
                active=view.active,
            )

        return in_order(self.record, stays)
