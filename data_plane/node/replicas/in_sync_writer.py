"""Changes of in-sync sets: proposals of all partitions led here, one compare-and-set a partition block (RL35, RL36)."""

import asyncio

from data_plane.metadata import model
from data_plane.metadata.port import Compare, MetaStore, OutcomeUnknown, Put, SessionLost, StoreUnavailable
from data_plane.node.config import NodeConfig
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import Clock
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.replication.effects import Look
from data_plane.replication.in_sync_change import Proposal
from data_plane.replication.leader import BrokerView, LeaderState
from penstock.contract.ids import BrokerId

_LOOKED_A_TURN = 100
"""Partitions looked at in one turn of the event loop."""

Proposed = list[tuple[Replica, LeaderState, Proposal]]


class InSyncWriter:
    """Looks at partitions that are not settled, and only at those: an idle one costs nothing."""

    def __init__(
        self,
        config: NodeConfig,
        view: MetadataView,
        registration: Registration,
        store: MetaStore,
        clock: Clock,
        stats: NodeStats,
    ) -> None:
        self._config, self._view, self._registration = config, view, registration
        self._store, self._clock, self._stats = store, clock, stats
        self._unsettled: dict[Replica, None] = {}
        self._soon: dict[Replica, None] = {}
        self._wake = asyncio.Event()

    def look_at(self, replica: Replica, look: Look) -> None:
        """Its in-sync set may have to change: as time passes, or now."""
        self._unsettled[replica] = None
        if look is Look.NOW:
            self._soon[replica] = None
            self._wake.set()

    async def run(self) -> None:
        period_ms = self._config.timings.in_sync_check_ms
        due_ms = self._clock.monotonic_ms() + period_ms
        while True:
            try:
                async with asyncio.timeout(max(0.0, due_ms - self._clock.monotonic_ms()) / 1000):
                    await self._wake.wait()
                looked, self._soon = list(self._soon), {}
            except TimeoutError:
                due_ms = self._clock.monotonic_ms() + period_ms
                looked, self._soon = list(self._unsettled), {}
            self._wake.clear()
            await self._look(looked)

    def view_of(self, broker: BrokerId) -> BrokerView:
        """What the image says of a broker now."""
        known = self._view.image.brokers.get(broker)
        return BrokerView(0, False) if known is None else BrokerView(known.epoch, known.active)

    async def _look(self, replicas: list[Replica]) -> None:
        now = self._clock.monotonic_ms()
        blocks: dict[str, Proposed] = {}
        for number, replica in enumerate(replicas, 1):
            if number % _LOOKED_A_TURN == 0:
                await asyncio.sleep(0)
            leading = replica.leading
            if leading is None or leading.quiet:
                self._unsettled.pop(replica, None)
                continue
            proposal = leading.propose(now, self.view_of)
            if proposal is not None:
                key = model.block_key(replica.where.topic_id, replica.where.partition)
                blocks.setdefault(key, []).append((replica, leading, proposal))
        for key, proposed in blocks.items():
            await self._write(key, proposed)

    async def _write(self, key: str, proposed: Proposed) -> None:
        """All proposals of one block in one transaction."""
        try:
            await self._try(key, proposed)
        except (StoreUnavailable, OutcomeUnknown, SessionLost):
            for _, leading, _ in proposed:
                leading.proposal_unknown()

    async def _try(self, key: str, proposed: Proposed) -> None:
        revision, records = await self._block(key)
        fitting = self._resolved(proposed, records)
        if not fitting:
            return
        members = dict(member for _, _, proposal in fitting for member in proposal.members)
        if members.keys() <= self._view.image.brokers.keys():
            result = await self._store.txn(
                [Compare(key, revision), self._registration.fence(), *self._of_members(members)],
                [Put(key, model.encode_block({**records, **_proposed_records(fitting)}))],
            )
            if result.succeeded:
                for replica, leading, proposal in fitting:
                    self._resolve(replica, leading, proposal, proposal.record)
                return
            revision, records = await self._block(key)
            fitting = self._resolved(fitting, records)
        if any(leading.unresolved for _, leading, _ in fitting):
            records = await self._outdate(key, revision, records, fitting)
        for replica, leading, proposal in fitting:
            self._resolve(replica, leading, proposal, records[replica.where.partition])

    def _of_members(self, members: dict[BrokerId, int]) -> list[Compare]:
        """That each is registered as it was when it was proposed."""
        brokers = self._view.image.brokers
        return [
            *(Compare(model.live_key(broker), epoch) for broker, epoch in members.items()),
            *(Compare(model.broker_key(broker), brokers[broker].record_revision) for broker in members),
        ]

    async def _block(self, key: str) -> tuple[int, dict[int, model.PartitionRecord]]:
        item = next((item for item in (await self._store.range(key)).items if item.key == key), None)
        return (0, {}) if item is None else (item.mod_revision, model.decode_block(item.value))

    def _resolved(self, proposed: Proposed, records: dict[int, model.PartitionRecord]) -> Proposed:
        """Settle those whose record has moved on; the others are returned."""
        waiting: Proposed = []
        for replica, leading, proposal in proposed:
            record = records.get(replica.where.partition)
            if record is not None and record.partition_epoch == proposal.base_partition_epoch:
                waiting.append((replica, leading, proposal))
            elif record is not None:
                self._resolve(replica, leading, proposal, record)
        return waiting

    async def _outdate(
        self, key: str, revision: int, records: dict[int, model.PartitionRecord], proposed: Proposed
    ) -> dict[int, model.PartitionRecord]:
        """Move the records on unchanged: an earlier try with an unknown outcome can then never be applied (RL17)."""
        moved = {
            replica.where.partition: records[replica.where.partition].changed() for replica, _, _ in proposed
        }
        result = await self._store.txn(
            [Compare(key, revision), self._registration.fence()],
            [Put(key, model.encode_block({**records, **moved}))],
        )
        if not result.succeeded:
            raise OutcomeUnknown(f"{key}: changed by others meanwhile")
        return {**records, **moved}

    def _resolve(
        self, replica: Replica, leading: LeaderState, proposal: Proposal, record: model.PartitionRecord
    ) -> None:
        """The store has said what holds."""
        if record.in_sync == proposal.in_sync:
            if len(record.in_sync) > len(leading.record.in_sync):
                self._stats.in_sync_expansions += 1
            else:
                self._stats.in_sync_shrinks += 1
            leading.proposal_applied(record)
        else:
            leading.proposal_refused(record)
        replica.carry_out()


def _proposed_records(proposed: Proposed) -> dict[int, model.PartitionRecord]:
    return {replica.where.partition: proposal.record for replica, _, proposal in proposed}
