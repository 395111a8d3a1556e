"""Invariant I16: what clients saw of a MetaStore is linearizable, and watches are ordered and gap-free or
Compacted.

A store says itself in which order it did things: its revisions. They are taken as the witness, so the check
is linear: every answer must be true of the state at the revision it names, every revision must have been
asked for, and an operation that began after another had ended must not stand before it.
"""

import bisect
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from data_plane.metadata.port import (
    Change,
    Compacted,
    Compare,
    MetaStore,
    Put,
    RangeResult,
    Session,
    SessionLost,
    StoreUnavailable,
    TxnResult,
    WatchBatch,
)

_NEVER = float("inf")


@dataclass(slots=True, eq=False)
class TxnRecord:
    """`ended` is infinite while there is no answer; `result` None = unknown, unless `refused`."""

    client: str
    began: float
    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]
    ended: float = _NEVER
    result: TxnResult | None = None
    refused: bool = False
    """The store said that nothing was applied."""


@dataclass(slots=True, eq=False)
class RangeRecord:
    client: str
    began: float
    prefix: str
    ended: float = _NEVER
    result: RangeResult | None = None


@dataclass(slots=True, eq=False)
class WatchRecord:
    client: str
    prefix: str
    after_revision: int
    batches: list[WatchBatch] = field(default_factory=list)
    compacted: bool = False


@dataclass(slots=True)
class StoreHistory:
    """What clients asked and were answered, with times by `now` (any clock that never goes back)."""

    now: Callable[[], float]
    txns: list[TxnRecord] = field(default_factory=list)
    ranges: list[RangeRecord] = field(default_factory=list)
    watches: list[WatchRecord] = field(default_factory=list)

    def recording(self, store: MetaStore, client: str) -> "RecordingStore":
        """The same store, with everything written down here."""
        return RecordingStore(store, client, self)

    def violations(self, witness: Sequence[WatchBatch]) -> list[str]:
        """Sentences about what cannot have been; `witness` is every revision since the store was empty."""
        return _Check(self, witness).run()


class RecordingStore:
    """A MetaStore that writes a `StoreHistory`."""

    def __init__(self, store: MetaStore, client: str, history: StoreHistory) -> None:
        self._store = store
        self._client = client
        self._history = history

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        record = TxnRecord(self._client, self._history.now(), tuple(compares), tuple(changes))
        self._history.txns.append(record)
        try:
            record.result = await self._store.txn(compares, changes)
        except (StoreUnavailable, SessionLost):
            record.refused = True
            raise
        finally:
            if record.result is not None or record.refused:
                record.ended = self._history.now()
        return record.result

    async def range(self, prefix: str) -> RangeResult:
        record = RangeRecord(self._client, self._history.now(), prefix)
        self._history.ranges.append(record)
        record.result = await self._store.range(prefix)
        record.ended = self._history.now()
        return record.result

    async def watch(self, prefix: str, after_revision: int) -> AsyncIterator[WatchBatch]:
        record = WatchRecord(self._client, prefix, after_revision)
        self._history.watches.append(record)
        try:
            async for batch in self._store.watch(prefix, after_revision):
                record.batches.append(batch)
                yield batch
        except Compacted:
            record.compacted = True
            raise

    async def session(self, ttl_ms: int) -> Session:
        return await self._store.session(ttl_ms)

    async def close(self) -> None:
        await self._store.close()


class _Check:
    def __init__(self, history: StoreHistory, witness: Sequence[WatchBatch]) -> None:
        self._history = history
        self._witness = witness
        self._found: list[str] = []
        self._by_revision = {batch.revision: batch for batch in witness}
        self._versions: dict[str, list[tuple[int, bytes | None]]] = {}
        """Of each key, (revision, value) in order."""
        for batch in witness:
            for event in batch.events:
                self._versions.setdefault(event.key, []).append((batch.revision, event.value))

    def run(self) -> list[str]:
        self._check_witness()
        for txn in self._history.txns:
            if txn.result is not None:
                self._check_txn(txn, txn.result)
        self._check_every_change_was_asked_for()
        for read in self._history.ranges:
            if read.result is not None:
                self._check_range(read, read.result)
        self._check_order_in_time()
        for watch in self._history.watches:
            self._check_watch(watch)
        return self._found

    def _say(self, claim: str) -> None:
        self._found.append(f"I16: {claim}")

    # -- the state at a revision ------------------------------------------------------------------------

    def _at(self, key: str, revision: int) -> tuple[int, bytes | None]:
        """(mod_revision, value) of a key after `revision`; (0, None) while it does not exist."""
        versions = self._versions.get(key, [])
        index = bisect.bisect_right(versions, revision, key=lambda version: version[0])
        found = versions[index - 1] if index else (0, None)
        return found if found[1] is not None else (0, None)

    def _holds(self, compares: Sequence[Compare], revision: int) -> bool:
        return all(self._at(c.key, revision)[0] == c.mod_revision for c in compares)

    def _effects(self, changes: Sequence[Change], before: int) -> list[tuple[str, bytes | None]]:
        """What a transaction changes in the state after revision `before`: deleting nothing is no change."""
        effects: list[tuple[str, bytes | None]] = []
        for change in changes:
            if isinstance(change, Put):
                effects.append((change.key, change.value))
            elif self._at(change.key, before)[0]:
                effects.append((change.key, None))
        return effects

    # -- the checks -------------------------------------------------------------------------------------

    def _check_witness(self) -> None:
        last = 0
        for batch in self._witness:
            if batch.revision <= last:
                self._say(f"revision {batch.revision} stands after {last}")
            last = batch.revision
            keys = [event.key for event in batch.events]
            if len(set(keys)) != len(keys):
                self._say(f"revision {batch.revision} changes a key twice")
            if any(event.mod_revision != batch.revision for event in batch.events):
                self._say(f"revision {batch.revision} carries events of another revision")

    def _check_txn(self, txn: TxnRecord, result: TxnResult) -> None:
        revision = result.revision
        if not result.succeeded:
            if self._holds(txn.compares, revision):
                self._say(
                    f"{txn.client}: a transaction failed at {revision} although all compares hold there"
                )
            return
        batch = self._by_revision.get(revision)
        if batch is not None and self._matches(txn, batch):
            return
        if not self._holds(txn.compares, revision):
            self._say(f"{txn.client}: a transaction succeeded at {revision} where its compares do not hold")
        if self._effects(txn.changes, revision):
            self._say(f"{txn.client}: revision {revision} is not what its transaction asked for")

    def _matches(self, txn: TxnRecord, batch: WatchBatch) -> bool:
        """Whether the revision is exactly this transaction's doing."""
        before = batch.revision - 1
        effects = self._effects(txn.changes, before)
        events = [(event.key, event.value) for event in batch.events]
        return bool(effects) and effects == events and self._holds(txn.compares, before)

    def _check_every_change_was_asked_for(self) -> None:
        """Each revision is one transaction's, or the end of a session: keys bound to it go together."""
        answered: dict[int, TxnRecord] = {}
        bound: dict[str, bool] = {}
        for txn in self._history.txns:
            batch = None if txn.result is None else self._by_revision.get(txn.result.revision)
            if txn.result is not None and txn.result.succeeded and batch and self._matches(txn, batch):
                if batch.revision in answered:
                    self._say(f"revision {batch.revision} was given to two transactions")
                answered[batch.revision] = txn
            for change in txn.changes:
                if isinstance(change, Put) and change.session_id:
                    bound[change.key] = True
        open_ended = [txn for txn in self._history.txns if txn.result is None and not txn.refused]
        for batch in self._witness:
            if batch.revision in answered:
                continue
            # Of several that asked for the very same, the first may have done it and the others nothing.
            claimed = sorted(
                (txn for txn in open_ended if self._matches(txn, batch)), key=lambda txn: txn.began
            )
            of_a_session = all(event.value is None and bound.get(event.key, False) for event in batch.events)
            floor = self._revision_known_before(claimed[0].began) if claimed else 0
            if claimed and batch.revision > floor:
                open_ended.remove(claimed[0])
            elif of_a_session:
                pass  # its end did it; a later request for the same did nothing
            elif claimed:
                self._say(
                    f"{claimed[0].client}: an unanswered transaction has revision {batch.revision},"
                    f" yet {floor} was known before it began"
                )
            else:
                self._say(
                    f"revision {batch.revision} changes {batch.events[0].key}, which no client asked for"
                )

    def _check_range(self, read: RangeRecord, result: RangeResult) -> None:
        seen = [(item.key, item.mod_revision, item.value) for item in result.items]
        true = []
        for key in sorted(self._versions):
            if key.startswith(read.prefix):
                mod_revision, value = self._at(key, result.revision)
                if value is not None:
                    true.append((key, mod_revision, value))
        if seen != true:
            self._say(f"{read.client}: a listing of {read.prefix!r} differs from revision {result.revision}")

    def _points(self) -> list[tuple[float, float, int, bool, str]]:
        """(began, ended, revision, whether it made that revision, client) of every answered operation."""
        points = []
        for txn in self._history.txns:
            if txn.result is not None:
                batch = self._by_revision.get(txn.result.revision)
                made = txn.result.succeeded and batch is not None and self._matches(txn, batch)
                points.append((txn.began, txn.ended, txn.result.revision, made, txn.client))
        for read in self._history.ranges:
            if read.result is not None:
                points.append((read.began, read.ended, read.result.revision, False, read.client))
        return points

    def _revision_known_before(self, moment: float) -> int:
        return max((p[2] for p in self._points() if p[1] < moment), default=0)

    def _check_order_in_time(self) -> None:
        """An operation that began after another had ended sees at least its revision."""
        points = self._points()
        ends = sorted((ended, revision) for _, ended, revision, _, _ in points)
        highest: list[int] = []
        for _, revision in ends:
            highest.append(max(revision, highest[-1] if highest else 0))
        for began, _, revision, made, client in points:
            index = bisect.bisect_left(ends, (began, -1))
            known = highest[index - 1] if index else 0
            if revision < known or (made and revision == known):
                self._say(
                    f"{client}: an operation stands at {revision}, yet {known} was known before it began"
                )

    def _check_watch(self, watch: WatchRecord) -> None:
        """What was delivered is exactly the witness from `after_revision` on, as far as it came."""
        expected = []
        for batch in self._witness:
            events = tuple(event for event in batch.events if event.key.startswith(watch.prefix))
            if events and batch.revision > watch.after_revision:
                expected.append(WatchBatch(batch.revision, events))
        for position, batch in enumerate(watch.batches):
            if position >= len(expected) or batch != expected[position]:
                wanted = expected[position].revision if position < len(expected) else "nothing"
                self._say(
                    f"{watch.client}: a watch delivered revision {batch.revision} where {wanted} was due"
                )
                return
