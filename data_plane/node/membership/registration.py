"""This broker's registration: one session, one live key, one broker epoch at a time (RL2, RL3, RL10)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from data_plane.controller.batches import all_compares, batched
from data_plane.controller.changed_blocks import ChangedBlocks
from data_plane.controller.elections import departures
from data_plane.controller.registration import (
    AlreadyRegistered,
    FenceFirst,
    draining_changes,
    registration,
)
from data_plane.metadata import broker_records
from data_plane.metadata.features import HOSTS
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import (
    Compare,
    KeyValue,
    MetaStore,
    OutcomeUnknown,
    Put,
    Session,
    SessionLost,
    StoreUnavailable,
)
from data_plane.node.config import NodeConfig
from data_plane.node.membership.cluster_id import check_level
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Clock, Rng
from penstock.contract.ids import TopicId, TopicPartition

_DEPARTED_A_TURN = 500
"""Partitions looked at in one turn of the event loop."""
_TROUBLE = (StoreUnavailable, OutcomeUnknown, SessionLost)


class Registration:
    """Registers, keeps alive, notices the loss, and registers again without a restart (RL3).

    `epoch` is 0 while there is no registration. Before each one the broker leaves everything it led or was in sync
    with, so whatever it does under an epoch was given to it under that epoch. `data_lost(topic)` says which of its
    replicas may miss what they acknowledged; it holds until the first registration. `gained`, `lost` do not await.
    """

    def __init__(
        self,
        config: NodeConfig,
        directory_id: str,
        view: MetadataView,
        store: MetaStore,
        clock: Clock,
        rng: Rng,
        *,
        data_lost: Callable[[TopicId], bool],
        damaged: Callable[[TopicPartition], bool],
        gained: Callable[[], None],
        lost: Callable[[str], None],
    ) -> None:
        self.epoch = 0
        self.incarnation = ""
        self.session: Session | None = None
        self._config = config
        self._directory_id = directory_id
        self._view = view
        self._store = store
        self._clock = clock
        self._rng = rng
        self._data_lost = data_lost
        self._damaged = damaged
        self._registered_before = False
        self._gained = gained
        self._lost = lost
        self._ended = asyncio.Event()
        self._leaving = False
        self._confirmed_ms = 0.0
        self._doubted = False
        """Set by another thread while the loop stands still, cleared by the session's next confirmation."""

    @property
    def session_id(self) -> int:
        return 0 if self.session is None else self.session.session_id

    def fence(self) -> Compare:
        """Compare that holds only while this registration does (RL9)."""
        return Compare(broker_records.live_key(self._config.broker_id), self.epoch or -1)

    def in_force(self) -> bool:
        """Registered, and the image is at least as new as the registration: records may be acted on."""
        return self.epoch != 0 and self._view.image.revision >= self.epoch

    def confident(self) -> bool:
        """Whether the session was confirmed within two thirds of its time (RL10). Only stale reads depend on it."""
        if self._doubted or self.epoch == 0:
            return False
        return self.silence_ms() < self._config.timings.session_ttl_ms * 2 / 3

    def doubt(self) -> None:
        """The event loop stood still: nothing is served until the session is heard of again (RL137). Called from any
        thread."""
        self._doubted = True

    def silence_ms(self) -> float:
        """Time since the metadata store last confirmed the session."""
        return self._clock.monotonic_ms() - self._confirmed_ms

    def observe(self, image: ClusterImage) -> None:
        """Notice from the image that this broker was fenced. An image older than our registration says nothing."""
        if self.in_force() and image.epoch_of(self._config.broker_id) != self.epoch:
            self._drop("the registration was fenced")

    async def run(self) -> None:
        """Be registered until `end`."""
        while not self._leaving:
            await self._register()
            await self._keep()

    # -- registering -------------------------------------------------------------------------------------

    async def _register(self) -> None:
        wait_ms = self._config.timings.reconnect_ms
        self.incarnation = self._rng.random_bytes(16).hex()
        self.session = None
        while not self._leaving:
            try:
                if self.session is None:
                    self.session = await self._store.session(self._config.timings.session_ttl_ms)
                self._confirmed_ms = self._clock.monotonic_ms()
                epoch = await self._attempt(self.session)
                if epoch:
                    self._begin(epoch)
                    return
            except SessionLost:
                self.session = None
                self.incarnation = self._rng.random_bytes(16).hex()
            except (StoreUnavailable, OutcomeUnknown):
                pass
            await asyncio.sleep(self._rng.uniform(wait_ms / 2, wait_ms) / 1000)
            wait_ms = min(wait_ms * 2, self._config.timings.reconnect_ms_max)

    async def _attempt(self, session: Session) -> int:
        """One step towards a registration; its epoch, or 0 when another step is needed."""
        live, known, revision = await self._read()
        step = registration(
            live,
            known,
            broker_records.BrokerRecord(
                broker_id=self._config.broker_id,
                directory_id=self._directory_id,
                client_address=self._config.client_address,
                internal_address=self._config.internal_address,
                peer_address=self._config.peer_address,
                zone=self._config.zone,
                host=self._host,
            ),
            broker_records.LiveRecord(incarnation=self.incarnation, directory_id=self._directory_id),
            session.session_id,
            self._config.supported,
            self._view.image.features_revision,
        )
        if isinstance(step, AlreadyRegistered):
            return step.broker_epoch
        if isinstance(step, FenceFirst):
            await self._store.txn(step.compares, step.changes)
            return 0
        emptied = (
            known is not None
            and broker_records.BrokerRecord.decode(known.value).directory_id != self._directory_id
        )
        if not await self._depart(revision, emptied):
            return 0
        check_level(self._config, self._view.image)
        result = await self._store.txn(step.compares, step.changes)
        return result.revision if result.succeeded else 0

    async def _depart(self, revision: int, emptied: bool) -> bool:
        """Leave everything (RL42); an emptied log directory holds nothing of what the old one did (RL54)."""
        if not await self._view.reached(revision, self._config.timings.call_ms):
            return False

        def lost(topic_id: TopicId) -> bool:
            return emptied or (not self._registered_before and self._data_lost(topic_id))

        changed = ChangedBlocks()
        fenced = (Compare(broker_records.live_key(self._config.broker_id), 0),)
        while blocks := changed.take(self._view.image, _DEPARTED_A_TURN):
            writes = departures(
                self._view.image,
                self._config.broker_id,
                blocks,
                data_lost=lost,
                damaged=self._damaged,
                emptied=emptied,
            )
            for batch in batched(writes, fenced):
                result = await self._store.txn(
                    all_compares(batch, fenced), [Put(write.key, write.value) for write in batch]
                )
                if not result.succeeded:
                    return False
                revision = result.revision
            if not await self._view.reached(revision, self._config.timings.call_ms):
                return False
            await asyncio.sleep(0)
        return True

    async def _read(self) -> tuple[KeyValue | None, KeyValue | None, int]:
        live_key, broker_key = (
            broker_records.live_key(self._config.broker_id),
            broker_records.broker_key(self._config.broker_id),
        )
        live, known = await self._store.range(live_key), await self._store.range(broker_key)
        return _named(live.items, live_key), _named(known.items, broker_key), known.revision

    def _begin(self, epoch: int) -> None:
        self._ended = asyncio.Event()
        self.epoch = epoch
        self._registered_before = True
        self._confirmed_ms = self._clock.monotonic_ms()
        self._doubted = False
        self._gained()

    # -- keeping -----------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Extend the session every third of its time until it is lost."""
        period = self._config.timings.session_ttl_ms / 3000
        while self.epoch and self.session is not None:
            try:
                async with asyncio.timeout(self._rng.uniform(0.8, 1.0) * period):
                    await self._ended.wait()
            except TimeoutError:
                try:
                    await self._confirm(self.session)
                except SessionLost:
                    self._drop("the session expired")
                except StoreUnavailable:
                    continue

    async def _confirm(self, session: Session) -> None:
        """A session may outlive the registration: the controller that fences this broker deletes its key, and the watch
        event of that may be late.
        """
        asked_ms = self._clock.monotonic_ms()
        await session.keep_alive()
        key = broker_records.live_key(self._config.broker_id)
        live = _named((await self._store.range(key)).items, key)
        if live is None or live.mod_revision != self.epoch:
            self._drop("the registration was fenced")
            return
        self._confirmed_ms = asked_ms
        self._doubted = False
        await self._name_host()

    @property
    def _host(self) -> str:
        """As brokers at the feature level in force can read it."""
        return self._config.host if self._view.image.level >= HOSTS else ""

    async def _name_host(self) -> None:
        """Write into this broker's record what it left out under a lower feature level."""
        known = self._view.image.brokers.get(self._config.broker_id)
        if known is None or known.epoch != self.epoch or known.record.host == self._host:
            return
        key = broker_records.broker_key(self._config.broker_id)
        record = replace(known.record, host=self._host)
        try:
            await self._store.txn(
                (self.fence(), Compare(key, known.record_revision)), (Put(key, record.encode()),)
            )
        except (StoreUnavailable, OutcomeUnknown):
            return  # the next confirmation looks again

    def _drop(self, reason: str) -> None:
        if self.epoch:
            self.epoch = 0
            self._ended.set()
            self._lost(reason)

    # -- leaving -----------------------------------------------------------------------------------------

    async def announce_draining(self) -> None:
        """Say in the metadata that this broker shuts down (RL50)."""
        while self.epoch:
            transaction = draining_changes(self._view.image, self._config.broker_id)
            if transaction is None:
                return
            try:
                result = await self._store.txn(*transaction)
                await self._view.reached(result.revision, self._config.timings.call_ms)
            except _TROUBLE:
                await asyncio.sleep(self._config.timings.reconnect_ms / 1000)

    async def end(self) -> None:
        """Leave for good: the session and its keys go at once."""
        self._leaving = True
        session = self.session
        self._drop("the broker stops")
        if session is not None:
            try:
                await session.end()
            except _TROUBLE:
                return


def _named(items: tuple[KeyValue, ...], key: str) -> KeyValue | None:
    return next((item for item in items if item.key == key), None)
