"""One led partition of `__groups`: replays it, then decides, appends and answers what is committed (RL79, RL88)."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from data_plane.disk.port import Disk, DiskFault
from data_plane.groups.coordinator import Coordinator
from data_plane.groups.records import Key, Record, RecordUnreadable
from data_plane.groups.requests import Decision, Topics
from data_plane.log.reading import ColdRead
from data_plane.node.ports import Clock
from data_plane.node.replicas.cold_reads import read_cold
from data_plane.node.replicas.produce_answers import ProduceOutcome
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn
from data_plane.replication.leader import LeaderState
from penstock.contract import errors
from penstock.contract.errors import PenstockError
from penstock.contract.ids import INTERNAL_PRINCIPAL
from penstock.contract.invariant import InvariantBroken, invariant
from penstock.records.batch import check_batch, split_batches
from penstock.records.build import BatchBuilder
from penstock.records.parse import records_of

_READ_BYTES = 256 * 1024
"""Replay gives way to others after so much."""
_SHORT = 10_000
"""Records: a log of fewer is replayed in a fraction of a second and left as it is."""
_STALE = 4
"""Times as many records as are kept: then most of the log is out of date."""
_REWRITTEN_A_TICK = 500
_LOOK_MS = 5_000
"""Between counts of what is kept."""
_COMMIT_WAIT_S = 10.0
"""A call whose records are not committed by then is answered: unknown."""

T = TypeVar("T")


@dataclass(slots=True)
class _Rewrite:
    """What is kept is being written once more."""

    begin: int
    """Offset of the first record written for it: all below is out of date once `keys` are written."""
    keys: Iterator[Key]
    """Still to be written, behind `part`."""
    part: list[Key] = field(default_factory=list)
    end: int = 0
    """Behind the last record written for it."""


class GroupPartition:
    """Lives as long as one leadership. It is dropped, with all it knows, when another leader state is found."""

    def __init__(
        self,
        replica: Replica,
        leading: LeaderState,
        disk: Disk,
        clock: Clock,
        stats: NodeStats,
        confident: Callable[[], bool],
        retention_ms: int,
        advance: Callable[[Replica, int], bool],
    ) -> None:
        """`advance` lets the log begin at an offset, step by step, and says whether it does."""
        self.replica = replica
        self.leading = leading
        self.core = Coordinator(retention_ms)
        self.serving = False
        self.failure = ""
        """Why the log could not be replayed."""
        self._disk = disk
        self._clock = clock
        self._stats = stats
        self._confident = confident
        self._end = 0
        """Behind our last record: an answer waits until that record is committed."""
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._advance = advance
        self._rewrite: _Rewrite | None = None
        self._looked_ms = float("-inf")

    @property
    def current(self) -> bool:
        """The replica is still led in the epoch this began in."""
        return self.replica.leading is self.leading

    # -- replay ------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Apply the whole log, once all of it is committed. Ends early when leadership is lost."""
        log = self.replica.log
        end = self.leading.leader_epoch_start_offset
        await self._until_confirmed()
        offset = log.log_start_offset
        try:
            while self.current and offset < end:
                offset = await self._replay(offset, end)
        except (PenstockError, RecordUnreadable) as damage:
            self.failure = f"{self.replica.name}: its log cannot be read: {damage}"
            return
        if self.current:
            self.core.loaded(self._clock.monotonic_ms())
            self._end = end
            self.replica.on_commit[self] = self._committed
            self.replica.on_role[self] = self._role_changed
            self.serving = True

    async def _until_confirmed(self) -> None:
        """Until the in-sync set holds all that there was when leadership began, or leadership is lost."""
        moved = asyncio.Event()
        owner = object()
        for listeners in (self.replica.on_commit, self.replica.on_role):
            listeners[owner] = lambda _: moved.set()
        try:
            while self.current and not self.leading.ready:
                await moved.wait()
                moved.clear()
        finally:
            for listeners in (self.replica.on_commit, self.replica.on_role):
                listeners.pop(owner, None)

    async def _replay(self, offset: int, end: int) -> int:
        """Apply some; the offset to go on at."""
        log = self.replica.log
        found = log.read(offset, end, _READ_BYTES)
        if isinstance(found, ColdRead):
            found = await read_cold(self._disk, log, found)
        now, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        for batch in split_batches(b"".join(found.batches)):
            for record in records_of(batch):
                if record.key is not None:
                    age_ms = max(0, wall_ms - record.timestamp_ms)
                    self.core.apply(Record(record.key, record.value), now - age_ms)
        await asyncio.sleep(0)
        return found.next_offset

    # -- serving -----------------------------------------------------------------------------------------

    def require_ready(self) -> None:
        """Raises `NotCoordinator`, `CoordinatorNotReady`."""
        if not self.current:
            raise errors.NotCoordinator(f"{self.replica.name}: leadership moved to another broker")
        if not self.serving:
            raise errors.CoordinatorNotReady(self.failure or f"{self.replica.name}: the log is being read")
        if not self._confident():
            raise errors.CoordinatorNotReady(f"{self.replica.name}: this broker lost the metadata store")

    async def carry_out(self, decide: Callable[[Coordinator, float], Decision[T]]) -> T:
        """Decide, append, and answer once everything it rests on is committed. Raises what `decide` refuses,
        `NotCoordinator`, `CoordinatorNotReady`, `NotEnoughReplicas`: not applied; `OutcomeUnknown`.
        """
        return (await self.carry_out_in_turns([decide]))[0]

    async def carry_out_in_turns(
        self, decides: Sequence[Callable[[Coordinator, float], Decision[T]]]
    ) -> list[T]:
        """The same of one request's parts, each in a turn of the event loop of its own, answered together. What is
        refused once an earlier part was appended is `OutcomeUnknown`: that part stands.
        """
        answers: list[T] = []
        appended = False
        for number, decide in enumerate(decides):
            if number:
                await asyncio.sleep(0)
            try:
                self.require_ready()
                decision = decide(self.core, self._clock.monotonic_ms())
                if decision.records:
                    self._append(decision.records)
                    appended = True
            except PenstockError as refusal:
                if not appended:
                    raise
                raise errors.OutcomeUnknown(f"applied in part: {refusal.message}") from refusal
            answers.append(decision.answer)
        try:
            async with asyncio.timeout(_COMMIT_WAIT_S):
                await self._until_committed(self._end)
        except TimeoutError:
            raise self._not_committed(appended, f"not committed within {_COMMIT_WAIT_S:g} s") from None
        except errors.NotCoordinator as moved:
            raise self._not_committed(appended, moved.message) from None
        if not self._confident():
            raise self._not_committed(appended, "this broker lost the metadata store")
        return answers

    def _not_committed(self, appended: bool, reason: str) -> PenstockError:
        if appended:
            return errors.OutcomeUnknown(f"{self.replica.name}: {reason}")
        return errors.NotCoordinator(f"{self.replica.name}: {reason}")

    def _coordinates(self) -> bool:
        return self.serving and self.current

    async def tick(self, topics: Topics, turn: Turn) -> None:
        """What time demands, as far as it can be appended now. Others have their turns between groups."""
        if not self._coordinates():
            return
        decided = self.core.tick(topics, self._clock.monotonic_ms())
        while (records := next(decided, None)) is not None:
            try:
                if records:
                    self._append(records)
            except PenstockError:
                return  # the next tick decides the same
            if turn.is_over:
                await turn.give_way()
                if not self._coordinates():
                    return
        self._keep_short()

    # -- keeping the log short -----------------------------------------------------------------------------

    def _keep_short(self) -> None:
        """The next coordinator replays the whole log. When most of it is out of date, what is kept is written once
        more, a part with each tick. Once all of that is committed, the log begins there.
        """
        log, now_ms = self.replica.log, self._clock.monotonic_ms()
        if self._rewrite is None:
            if now_ms - self._looked_ms < _LOOK_MS or log.log_end_offset - log.log_start_offset < _SHORT:
                return
            self._looked_ms = now_ms
            if log.log_end_offset - log.log_start_offset >= _STALE * max(self.core.size, _SHORT // _STALE):
                self._rewrite = _Rewrite(begin=log.log_end_offset, keys=self.core.keys())
            return
        rewrite = self._rewrite
        rewrite.part = rewrite.part or list(islice(rewrite.keys, _REWRITTEN_A_TICK))
        if rewrite.part:
            kept = [found for key in rewrite.part if (found := self.core.kept(key)) is not None]
            try:
                self._write([(record, max(0.0, now_ms - used_ms)) for record, used_ms in kept])
            except PenstockError:
                return  # the next tick writes the same
            rewrite.part = []
            rewrite.end = self._end
        elif self.leading.high_watermark >= rewrite.end and self._advance(self.replica, rewrite.begin):
            self._stats.group_logs_shortened += 1
            self._rewrite = None

    # -- appending -----------------------------------------------------------------------------------------

    def _append(self, records: Sequence[Record]) -> None:
        """Append, then apply. Raises a refusal before anything is written."""
        self._write([(record, 0.0) for record in records])
        core, stats = self.core, self._stats
        commits, back = core.commits, core.commits_back
        for record in records:
            core.apply(record, self._clock.monotonic_ms())
        stats.group_offsets_committed += core.commits - commits
        stats.group_offsets_committed_back += core.commits_back - back

    def _write(self, records: Sequence[tuple[Record, float]]) -> None:
        """Append records, each stamped so many ms ago. Raises a refusal before anything is written."""
        now_ms, replica = self._clock.now_ms(), self.replica
        bytes_max = replica.topic.settings.max_batch_bytes
        if not records:
            return
        batches: list[bytes] = []
        builder = BatchBuilder(bytes_max=bytes_max)
        for record, age_ms in records:
            at_ms = max(0, now_ms - int(age_ms))
            if not builder.append(at_ms, record.key, record.value):
                batches.append(builder.build())
                builder = BatchBuilder(bytes_max=bytes_max)
                invariant(builder.append(at_ms, record.key, record.value) > 0, "a batch takes one record")
        batches.append(builder.build())
        try:
            for batch in batches:
                replica.produce(
                    memoryview(batch),
                    check_batch(batch),
                    acks=-1,
                    claimed_epoch=self.leading.leader_epoch,
                    principal=INTERNAL_PRINCIPAL,
                    answer=_heard_by_the_watermark,
                )
        except (InvariantBroken, DiskFault) as broken:
            replica.stop(str(broken))
            raise errors.OutcomeUnknown(f"{replica.name}: {broken}") from broken
        self._end = replica.log.log_end_offset

    async def _until_committed(self, end: int) -> None:
        if not self.current:
            raise errors.NotCoordinator("leadership moved to another broker")
        if self.leading.high_watermark >= end:
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((end, waiting))
        await waiting

    def _committed(self, replica: Replica) -> None:
        mark = self.leading.high_watermark
        ready = [future for end, future in self._waiting if end <= mark]
        if ready:
            self._waiting = [(end, future) for end, future in self._waiting if end > mark]
            for future in ready:
                if not future.done():
                    future.set_result(None)

    def _role_changed(self, replica: Replica) -> None:
        if not self.current:
            self.drop()

    def drop(self) -> None:
        """Leadership is lost: those that wait get that error, and nothing is known any more."""
        self.serving = False
        self.replica.on_commit.pop(self, None)
        self.replica.on_role.pop(self, None)
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(errors.NotCoordinator("leadership moved to another broker"))


def _heard_by_the_watermark(outcome: ProduceOutcome) -> None:
    """Calls wait for the watermark themselves, several for one batch and one for several."""
