"""Changes of in-sync sets: proposals of all partitions led here, many partition blocks in one compare-and-set (RL35,
RL36)."""

import asyncio
import itertools
from collections.abc import Iterable, Mapping, Sequence

from data_plane.controller.batches import all_compares, batched
from data_plane.controller.elections import BlockWrite
from data_plane.metadata import broker_records, model
from data_plane.metadata.port import Compare, MetaStore, OutcomeUnknown, Put, SessionLost, StoreUnavailable
from data_plane.node.config import NodeConfig
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import Clock
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.replication.effects import Look
from data_plane.replication.in_sync import BrokerView
from data_plane.replication.in_sync_change import Proposal
from data_plane.replication.leader import LeaderState
from penstock.contract.ids import BrokerId

_LOOKED_A_TURN = 100
"""Partitions looked at in one turn of the event loop."""
_LOOKED_A_PERIOD = 2_000
"""Partitions looked at because time has passed. While a broker is away, all that it replicated wait for it, and are
looked at by turns: each within the time after which a follower lags, up to 40,000 partitions."""
_BLOCKS_AT_ONCE = 100
"""Partition blocks of one transaction, prepared in one turn of the event loop."""
_TROUBLE = (StoreUnavailable, OutcomeUnknown, SessionLost)

Proposed = list[tuple[Replica, LeaderState, Proposal]]
Blocks = dict[str, Proposed]
"""Proposals by the key of their partition block."""


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
        self._config = config
        self._view = view
        self._registration = registration
        self._store = store
        self._clock = clock
        self._stats = stats
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
                looked, self._soon = list(self._soon | self._next_unsettled()), {}
            self._wake.clear()
            await self._look(looked)

    def _next_unsettled(self) -> dict[Replica, None]:
        """Those that were looked at longest ago."""
        looked = dict(itertools.islice(self._unsettled.items(), _LOOKED_A_PERIOD))
        for replica in looked:
            del self._unsettled[replica]
            self._unsettled[replica] = None
        return looked

    def view_of(self, broker: BrokerId) -> BrokerView:
        """What the image says of a broker now."""
        known = self._view.image.brokers.get(broker)
        return BrokerView(0, False) if known is None else BrokerView(known.epoch, known.active)

    async def _look(self, replicas: list[Replica]) -> None:
        now = self._clock.monotonic_ms()
        blocks: Blocks = {}
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
        waiting = iter(blocks.items())
        while some := dict(itertools.islice(waiting, _BLOCKS_AT_ONCE)):
            await self._write(some)

    async def _write(self, blocks: Blocks) -> None:
        """Together what the image shows as its leader knows it; of any other block the store is asked."""
        writes: list[BlockWrite] = []
        unclear: Blocks = {}
        for key, proposed in blocks.items():
            write = self._by_image(key, proposed)
            if write is None:
                unclear[key] = proposed
            else:
                writes.append(write)
        for batch in batched(writes, (self._registration.fence(),)):
            await self._write_together(batch, {write.key: blocks[write.key] for write in batch})
        for key, proposed in unclear.items():
            await self._write_alone(key, proposed)

    def _by_image(self, key: str, proposed: Proposed) -> BlockWrite | None:
        """The block's write; None when an earlier try may still be applied, or the image is at another record or
        registration than was proposed from."""
        image = self._view.image
        block = image.block_of(proposed[0][0].where)
        if block is None:
            return None
        for replica, leading, proposal in proposed:
            record = block.partitions.get(replica.where.partition)
            if (
                leading.unresolved
                or record is None
                or record.partition_epoch != proposal.base_partition_epoch
            ):
                return None
            if any(image.epoch_of(broker) != epoch for broker, epoch in proposal.members):
                return None
        if not self._stand(proposed, block.partitions):
            return None
        return BlockWrite(
            key=key,
            block_revision=block.revision,
            value=model.encode_block({**block.partitions, **_proposed_records(proposed)}),
            compares=(Compare(key, block.revision), *self._of_members(proposed)),
            transitions=(),
        )

    async def _write_together(self, batch: Sequence[BlockWrite], blocks: Blocks) -> None:
        """All blocks in one transaction. When one of them has moved meanwhile, its half is written again as the image
        shows it then, and so on."""
        try:
            result = await self._store.txn(
                [self._registration.fence(), *all_compares(batch, ())],
                [Put(write.key, write.value) for write in batch],
            )
        except _TROUBLE:
            _unknown(itertools.chain.from_iterable(blocks.values()))
            return
        if result.succeeded:
            for replica, leading, proposal in itertools.chain.from_iterable(blocks.values()):
                self._resolve(replica, leading, proposal, proposal.record, own=True)
        elif len(blocks) == 1:
            for key, proposed in blocks.items():
                await self._write_alone(key, proposed)
        else:
            await self._view.reached(result.revision, self._config.timings.call_ms)
            halves = iter(blocks.items())
            await self._write(dict(itertools.islice(halves, len(blocks) // 2)))
            await self._write(dict(halves))

    async def _write_alone(self, key: str, proposed: Proposed) -> None:
        """All proposals of one block in one transaction, as the store knows it."""
        try:
            await self._try(key, proposed)
        except _TROUBLE:
            _unknown(proposed)

    async def _try(self, key: str, proposed: Proposed) -> None:
        revision, records = await self._block(key)
        fitting = self._resolved(proposed, records)
        if not fitting:
            return
        if self._stand(fitting, records):
            result = await self._store.txn(
                [Compare(key, revision), self._registration.fence(), *self._of_members(fitting)],
                [Put(key, model.encode_block({**records, **_proposed_records(fitting)}))],
            )
            if result.succeeded:
                for replica, leading, proposal in fitting:
                    self._resolve(replica, leading, proposal, proposal.record, own=True)
                return
            revision, records = await self._block(key)
            fitting = self._resolved(fitting, records)
        if any(leading.unresolved for _, leading, _ in fitting):
            records = await self._outdate(key, revision, records, fitting)
        for replica, leading, proposal in fitting:
            self._resolve(replica, leading, proposal, records[replica.where.partition], own=False)

    def _stand(self, proposed: Proposed, records: Mapping[int, model.PartitionRecord]) -> bool:
        """Whether all members are known, and none that joins has begun to shut down since it was proposed (RL34)."""
        brokers = self._view.image.brokers
        for replica, _, proposal in proposed:
            before = records[replica.where.partition].in_sync
            for broker, _ in proposal.members:
                known = brokers.get(broker)
                if known is None or (broker not in before and known.record.draining):
                    return False
        return True

    def _of_members(self, proposed: Proposed) -> Iterable[Compare]:
        """That each is registered as when it was proposed. One that was proposed under two registrations fails."""
        brokers = self._view.image.brokers
        compared: dict[Compare, None] = {}
        for _, _, proposal in proposed:
            for broker, epoch in proposal.members:
                compared[Compare(broker_records.live_key(broker), epoch)] = None
                compared[Compare(broker_records.broker_key(broker), brokers[broker].record_revision)] = None
        return compared

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
                self._resolve(replica, leading, proposal, record, own=False)
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
        self,
        replica: Replica,
        leading: LeaderState,
        proposal: Proposal,
        record: model.PartitionRecord,
        *,
        own: bool,
    ) -> None:
        """The store has said what holds. `own`: it took this very transaction. A record that was read may say the same
        and be another broker's, which gave itself up."""
        if record.in_sync == proposal.in_sync:
            if len(record.in_sync) > len(leading.record.in_sync):
                self._stats.in_sync_expansions += 1
            else:
                self._stats.in_sync_shrinks += 1
        if own:
            leading.proposal_applied(record)
        else:
            leading.proposal_refused(record)
        replica.carry_out()


def _unknown(proposed: Iterable[tuple[Replica, LeaderState, Proposal]]) -> None:
    """No answer came."""
    for _, leading, _ in proposed:
        leading.proposal_unknown()


def _proposed_records(proposed: Proposed) -> dict[int, model.PartitionRecord]:
    return {replica.where.partition: proposal.record for replica, _, proposal in proposed}
