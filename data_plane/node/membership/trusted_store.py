"""Whether the metadata store may be acted on: what this broker has seen of it, kept in its log directory (RL55).

    booting --the store is behind what was seen--> waiting --an operator confirms--> booting
    serving --the store went back--> read-only, until the broker is started again

Read-only: the image, the roles and the epochs stay as they were. What was committed is read, nothing is written to the
store, no batch is taken from producers and nothing is deleted.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from data_plane.disk.port import Disk, DiskFull
from data_plane.log.small_file import Protocol, SmallFileKind, pack_small_file, read_cache, write_small_file
from data_plane.metadata import broker_records
from data_plane.metadata.lineage import (
    LINEAGE_KEY,
    LineageRecord,
    Witness,
    digest_of,
    refusal,
    rewritten,
)
from data_plane.metadata.port import (
    Change,
    Compacted,
    Compare,
    KeyValue,
    MetaStore,
    RangeResult,
    Session,
    SessionLost,
    StoreUnavailable,
    StoreWentBack,
    TxnResult,
    WatchBatch,
)
from penstock.contract.errors import BrokerUnavailable
from penstock.contract.ids import BrokerId

WITNESS_FILE = "metadata.seen"
FORMAT = 1
EVERYTHING = "/"
LOOK_BACK_S = 5.0
ASK_MS = 1_000
"""Between two looks at a store that may not be acted on, or not be reached."""
WRITE_MS = 1_000
"""The greatest revision seen is written at most this often; a broker's registration is remembered by the store too."""
_REMEDY = (
    "; restore a newer backup and start this broker again, or say that it may be acted on:"
    " python -m data_plane.broker.metadata confirm"
)


class StoreWitness:
    """One broker's memory of the store. `refused` says why the store may not be acted on, empty while it may;
    `unreachable` why nothing is known of it at boot.
    """

    def __init__(self, disk: Disk, on_refused: Callable[[str], None]) -> None:
        """`on_refused` is called with the reason when a check finds that the store may not be acted on."""
        self.refused = self.unreachable = ""
        self._disk = disk
        self._on_refused = on_refused
        self._witness = self._written = Witness()
        self._last_seen = WatchBatch(0, ())
        self._one_writes = asyncio.Lock()
        """A broker that drains writes while the write by the clock may be under way: both would rename one file."""

    # -- at boot -----------------------------------------------------------------------------------------

    def remember(self) -> None:
        """Read what was seen before. A file that is missing or damaged remembers nothing: it takes a second fault, a
        store that went back, to do harm.
        """
        body = read_cache(self._disk, WITNESS_FILE, SmallFileKind.WITNESS, FORMAT)
        if body is not None:
            self._witness = self._written = Witness.decode(body)

    async def wait_until_trusted(self, store: MetaStore, broker: BrokerId) -> None:
        """Return once the store may be acted on; `on_refused` is called with the reason while it may not."""
        self.remember()
        said = ""
        while True:
            try:
                await self.look(store, broker)
            except StoreUnavailable as error:
                self.unreachable = f"the metadata store cannot be asked: {error}"
                await asyncio.sleep(ASK_MS / 1000)
                continue
            self.unreachable = ""
            if not self.refused:
                self._note_at_boot()
                return
            if self.refused != said:
                said = self.refused
                self._on_refused(said)
            await asyncio.sleep(ASK_MS / 1000)

    async def look(self, store: MetaStore, broker: BrokerId) -> None:
        """Compare the store with what was seen; sets `refused`. Raises `StoreUnavailable`."""
        lineage, own = await store.range(LINEAGE_KEY), await store.range(broker_records.broker_key(broker))
        record = _value(lineage, LINEAGE_KEY)
        line = LineageRecord() if record is None else LineageRecord.decode(record.value)
        known = _value(own, broker_records.broker_key(broker))
        reason = refusal(
            self._witness,
            line,
            revision=lineage.revision,
            registration_known=0 if known is None else known.mod_revision,
        )
        if not reason and line.lineage_id == self._witness.lineage_id and self._witness.told:
            reason = await self._look_back(store)
        self.refused = f"the metadata store may not be acted on: {reason}{_REMEDY}" if reason else ""
        if not reason and line.lineage_id != self._witness.lineage_id:
            self._witness = Witness(lineage_id=line.lineage_id, revision=lineage.revision)

    async def _look_back(self, store: MetaStore) -> str:
        """Whether the last events of the watch are still what they were; a compacted past says nothing."""
        first: WatchBatch | None = None
        try:
            async with asyncio.timeout(LOOK_BACK_S):
                first = await anext(aiter(store.watch(EVERYTHING, self._witness.told - 1)))
        except Compacted:
            return ""
        except TimeoutError:
            pass  # nothing is there where something was; asked again as long as it is refused
        return rewritten(self._witness, first)

    # -- while serving -----------------------------------------------------------------------------------

    def saw(self, revision: int, registered: int = 0) -> None:
        """The image is at `revision`; `registered`: this broker's registration, when it has one."""
        seen = self._witness
        if revision > seen.revision or registered > seen.registered:
            self._witness = replace(
                seen, revision=max(revision, seen.revision), registered=max(registered, seen.registered)
            )

    def saw_events(self, batch: WatchBatch) -> None:
        """The watch of everything delivered these events."""
        if batch.revision > self._last_seen.revision:
            self._last_seen = batch

    def went_back(self, reason: str) -> None:
        """Turn read-only, for good: only a new start can accept the store again."""
        if not self.refused:
            self.refused = f"the metadata store went back: {reason}{_REMEDY}"
            self._on_refused(self.refused)

    def writing(self, confident: Callable[[], bool]) -> Callable[[], bool]:
        """`confident`, but it raises `BrokerUnavailable` while the store may not be acted on."""

        def may_write() -> bool:
            if self.refused:
                raise BrokerUnavailable(self.refused)
            return confident()

        return may_write

    def reading(self, confident: Callable[[], bool]) -> Callable[[], bool]:
        """`confident`, or the store went back: what was committed stays readable in the roles that there were."""
        return lambda: bool(self.refused) or confident()

    async def run(self) -> None:
        """Write down what was seen. Runs without an end."""
        while True:
            await self.write()
            await asyncio.sleep(WRITE_MS / 1000)

    async def write(self) -> None:
        """Make durable what was seen, if there is news."""
        async with self._one_writes:
            await self._write()

    async def _write(self) -> None:
        if self._last_seen.revision > self._witness.told:
            self._witness = replace(
                self._witness, told=self._last_seen.revision, told_digest=digest_of(self._last_seen)
            )
        witness = self._witness
        if witness == self._written or self.refused:
            return
        try:
            for steps in self._writing(witness):
                await self._disk.sync(steps)
        except DiskFull:
            return  # tried again; until then less is remembered
        self._written = witness

    def write_now(self) -> None:
        """As `write`, blocking: only while the broker does not serve. Raises `DiskFull`."""
        for steps in self._writing(self._witness):
            self._disk.sync_now(steps)
        self._written = self._witness

    def _note_at_boot(self) -> None:
        """Another line than before is noted before it is acted on."""
        if self._witness != self._written:
            try:
                self.write_now()
            except DiskFull:
                return  # recovery needs no space for it

    def _writing(self, witness: Witness) -> Protocol:
        content = pack_small_file(SmallFileKind.WITNESS, FORMAT, witness.encode())
        return write_small_file(self._disk, WITNESS_FILE, content)

    @property
    def seen(self) -> Witness:
        """What is remembered."""
        return self._witness


class TrustedStore:
    """The store as the node uses it: linearizable answers that go back are noticed, and nothing is asked after that."""

    def __init__(self, store: MetaStore, store_witness: StoreWitness) -> None:
        self._store = store
        self._store_witness = store_witness
        self._highest = 0
        """The greatest revision of a linearizable answer or a watch."""

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        floor = self._floor()
        try:
            result = await self._store.txn(compares, changes)
        except StoreWentBack as error:
            raise self._gone_back(str(error)) from None
        self._check(floor, result.revision)
        return result

    async def range(self, prefix: str) -> RangeResult:
        floor = self._floor()
        try:
            result = await self._store.range(prefix)
        except StoreWentBack as error:
            raise self._gone_back(str(error)) from None
        self._check(floor, result.revision)
        return result

    async def watch(self, prefix: str, after_revision: int) -> AsyncIterator[WatchBatch]:
        self._floor()
        try:
            async for batch in self._store.watch(prefix, after_revision):
                self._highest = max(self._highest, batch.revision)
                if prefix == EVERYTHING:
                    self._store_witness.saw_events(batch)
                yield batch
        except StoreWentBack as error:
            raise self._gone_back(str(error)) from None

    async def session(self, ttl_ms: int) -> Session:
        self._floor()
        return _TrustedSession(self, await self._store.session(ttl_ms))

    async def close(self) -> None:
        await self._store.close()

    def _floor(self) -> int:
        if self._store_witness.refused:
            raise StoreUnavailable(self._store_witness.refused)
        return self._highest

    def _check(self, floor: int, revision: int) -> None:
        """`floor` was known before the operation began, so that a linearizable store answers at least that."""
        if revision < floor:
            raise self._gone_back(f"it answers at revision {revision} after {floor}")
        self._highest = max(self._highest, revision)

    def _gone_back(self, reason: str) -> StoreUnavailable:
        self._store_witness.went_back(reason)
        return StoreUnavailable(self._store_witness.refused)


class _TrustedSession:
    """A session whose loss is believed only of a store that has not gone back."""

    def __init__(self, store: TrustedStore, session: Session) -> None:
        self._store = store
        self._session = session

    @property
    def session_id(self) -> int:
        return self._session.session_id

    async def keep_alive(self) -> None:
        self._store._floor()
        try:
            await self._session.keep_alive()
        except SessionLost:
            await self._store.range(LINEAGE_KEY)
            raise

    async def end(self) -> None:
        self._store._floor()
        await self._session.end()


def _value(found: RangeResult, key: str) -> KeyValue | None:
    return next((item for item in found.items if item.key == key), None)
