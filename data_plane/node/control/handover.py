"""Handing leadership over in good order: stop taking, wait until the other one holds everything, then write (RL50).

A batch that is under way is answered before; one that comes later is refused as not applied, and its client finds the
new leader in the metadata. The same closes a reassignment (RL52), which may leave the leader where it is, in its next
epoch. What cannot be handed over within the time stays where it is and takes batches again.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from data_plane.contract import admin_pb2 as pb
from data_plane.contract.methods import HAND_OVER
from data_plane.controller.elections import alive_in, moved_from
from data_plane.controller.leader_return import LeaderMove, handed_over
from data_plane.controller.reassignment import finished, may_finish
from data_plane.metadata import broker_records, model
from data_plane.metadata.model import PartitionRecord
from data_plane.metadata.port import Compare, MetaStore, OutcomeUnknown, Put, SessionLost, StoreUnavailable
from data_plane.node.config import NodeConfig
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import Caller, CallFailed, Clock, ConnectionLost, Transport, peer_of
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.requests import parsed
from data_plane.node.stats import NodeStats
from data_plane.replication.leader import LeaderState
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import NO_BROKER, BrokerId, TopicId, TopicPartition

_AT_ONCE = 64
"""Partitions that stand still together: more would make the last of them wait for the others."""
_STANDSTILL_LOOK_S = 0.002
_REASSIGN_LOOK_S = 0.1
_TROUBLE = (StoreUnavailable, OutcomeUnknown, SessionLost)

Successor = Callable[[PartitionRecord], PartitionRecord | None]


@dataclass(slots=True, eq=False)
class _Move:
    """One partition led here, on its way to `to`, and what its record becomes."""

    replica: Replica
    leading: LeaderState
    to: BrokerId
    successor: Successor
    reason: str = "it was not all in sync in time"
    """Why it did not move; empty once it has."""


class Handover:
    """Owner of every planned end of a leadership on this broker."""

    def __init__(
        self,
        config: NodeConfig,
        view: MetadataView,
        registration: Registration,
        store: MetaStore,
        transport: Transport,
        clock: Clock,
        stats: NodeStats,
        replicas: ReplicaSet,
    ) -> None:
        """`reassigning` holds the partitions led here whose replicas are being changed."""
        self._config = config
        self._view = view
        self._registration = registration
        self._store = store
        self._transport = transport
        self._clock = clock
        self._stats = stats
        self._replicas = replicas
        self._one_by_one = asyncio.Lock()
        """Of moves asked for from several sides one goes on at a time."""
        self._leaving = False

    # -- who asks ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Close the reassignments of partitions led here, as soon as they may be closed."""
        while True:
            await asyncio.sleep(_REASSIGN_LOOK_S)
            if self._replicas.reassigning:
                moves = [move for where in list(self._replicas.reassigning) if (move := self._finish(where))]
                await self._move_all(moves)

    def _finish(self, where: TopicPartition) -> _Move | None:
        replica = self._replicas.find(where)
        if replica is None or replica.leading is None or replica.busy:
            return None
        min_insync = replica.topic.settings.min_insync_replicas
        if not may_finish(replica.leading.record, min_insync):
            return None
        alive = alive_in(self._view.image)

        def successor(record: PartitionRecord) -> PartitionRecord | None:
            return finished(record, alive=alive, min_insync=min_insync)

        after = successor(replica.leading.record)
        if after is None:
            return None
        return _Move(replica, replica.leading, after.leader, successor)

    async def leave(self) -> None:
        """Hand over every led partition that another broker may lead; for a clean stop, before it is announced."""
        self._leaving = True
        me, alive = self._config.broker_id, alive_in(self._view.image)
        led = [
            replica for replica in self._replicas.all() if replica.leading is not None and not replica.busy
        ]
        members = dict.fromkeys(b for r in led if r.leading is not None for b in r.leading.record.in_sync)
        there = await self._there([broker for broker in members if broker != me and alive(broker)])
        moves: list[_Move] = []
        for replica in led:
            if replica.leading is None:
                continue
            after = moved_from(replica.leading.record, me, alive=lambda broker: broker in there)
            if after is not None:
                moves.append(self._to(replica, replica.leading, after.leader))
        await self._move_all(moves)

    def _to(self, replica: Replica, leading: LeaderState, to: BrokerId) -> _Move:
        def successor(record: PartitionRecord) -> PartitionRecord | None:
            return handed_over(record, to, alive=alive_in(self._view.image))

        return _Move(replica, leading, to, successor)

    async def move(self, wanted: Sequence[LeaderMove]) -> list[str]:
        """Hand over what is led here in the epochs named; for each why it did not move, empty if it did."""
        reasons = [""] * len(wanted)
        moves: list[_Move] = []
        asked: list[tuple[int, _Move]] = []
        for at, one in enumerate(wanted):
            replica = self._replicas.find(one.where)
            leading = None if replica is None else replica.leading
            if replica is None or leading is None or leading.leader_epoch != one.leader_epoch:
                reasons[at] = f"broker {self._config.broker_id} does not lead it in epoch {one.leader_epoch}"
            elif handed_over(leading.record, one.to, alive=alive_in(self._view.image)) is None:
                reasons[at] = f"broker {one.to} is no other in-sync replica that is alive"
            elif replica.busy:
                reasons[at] = "its log is being changed"
            else:
                moves.append(self._to(replica, leading, one.to))
                asked.append((at, moves[-1]))
        await self._move_all(moves)
        for at, move in asked:
            reasons[at] = move.reason
        return reasons

    async def ask(self, leader: BrokerId, wanted: Sequence[LeaderMove]) -> list[str]:
        """The same of whichever broker leads. Raises `ConnectionLost`, `CallFailed`: some may have moved."""
        if leader == self._config.broker_id:
            return await self.move(wanted)
        known = self._view.image.brokers.get(leader)
        if known is None or not known.epoch:
            raise ConnectionLost(f"broker {leader} is not there")
        request = pb.HandOverRequest()
        for one in wanted:
            request.moves.add(
                topic_id=one.where.topic_id,
                partition=one.where.partition,
                leader_epoch=one.leader_epoch,
                to=one.to,
            )
        answer = await self._transport.call(
            peer_of(known.record),
            HAND_OVER,
            request.SerializeToString(),
            self._config.timings.call_ms,
        )
        response = pb.HandOverResponse.FromString(answer)
        await self._view.reached(response.revision, self._config.timings.call_ms)
        return list(response.reasons)

    async def hand_over(self, caller: Caller, request: bytes) -> bytes:
        """The call of another broker; without moves it asks whether this one may be handed something."""
        if self._leaving:
            raise CallFailed(ErrorCode.BROKER_UNAVAILABLE, "this broker stops")
        wanted = [
            LeaderMove(
                where=TopicPartition(TopicId(move.topic_id), move.partition),
                leader=self._config.broker_id,
                leader_epoch=move.leader_epoch,
                to=BrokerId(move.to),
            )
            for move in parsed(pb.HandOverRequest, request).moves
        ]
        reasons = await self.move(wanted)
        return pb.HandOverResponse(reasons=reasons, revision=self._view.image.revision).SerializeToString()

    async def ask_all(self, wanted: Sequence[LeaderMove]) -> None:
        """What the controller plans: asked of every leader, once; what does not move is planned again."""
        by_leader: dict[BrokerId, list[LeaderMove]] = {}
        for one in wanted:
            by_leader.setdefault(one.leader, []).append(one)
        for leader, moves in by_leader.items():
            try:
                await self.ask(leader, moves)
            except (ConnectionLost, CallFailed):
                continue

    # -- how it is done ----------------------------------------------------------------------------------

    async def _move_all(self, moves: Sequence[_Move]) -> None:
        if not moves:
            return
        async with self._one_by_one:
            there = await self._there(dict.fromkeys(move.to for move in moves))
            for move in moves:
                if move.to not in there:
                    move.reason = f"broker {move.to} does not answer"
            able = [move for move in moves if move.to in there]
            for first in range(0, len(able), _AT_ONCE):
                await self._move_some(able[first : first + _AT_ONCE])

    async def _there(self, brokers: Iterable[BrokerId]) -> dict[BrokerId, None]:
        """Those that answer now: the metadata shows only later that a broker stands still."""
        found: dict[BrokerId, None] = {}
        nothing = pb.HandOverRequest().SerializeToString()
        for broker in brokers:
            known = self._view.image.brokers.get(broker)
            if known is None:
                continue
            try:
                if broker != self._config.broker_id:
                    limit_ms = self._config.timings.hand_over_ms
                    await self._transport.call(peer_of(known.record), HAND_OVER, nothing, limit_ms)
                found[broker] = None
            except (ConnectionLost, CallFailed):
                continue
        return found

    async def _move_some(self, moves: Sequence[_Move]) -> None:
        began_ms = self._clock.monotonic_ms()
        for move in moves:
            move.leading.taking = False
        try:
            settled = await self._settled(moves)
            blocks: dict[str, list[_Move]] = {}
            for move in settled:
                where = move.replica.where
                blocks.setdefault(model.block_key(where.topic_id, where.partition), []).append(move)
            revision = 0
            for key, together in blocks.items():
                revision = max(revision, await self._write(key, together))
            if revision:
                await self._view.reached(revision, self._config.timings.call_ms)
        finally:
            for move in moves:
                move.leading.taking = bool(move.reason)
        moved = sum(not move.reason for move in moves)
        if moved:
            self._stats.leaders_handed_over += moved
            self._stats.hand_over_ms.observe(self._clock.monotonic_ms() - began_ms)

    async def _settled(self, moves: Sequence[_Move]) -> list[_Move]:
        """Those that are complete; waits for all of them, as long as may be."""
        deadline_ms = self._clock.monotonic_ms() + self._config.timings.hand_over_ms
        while True:
            ready = [move for move in moves if self._complete(move)]
            if len(ready) == len(moves) or self._clock.monotonic_ms() >= deadline_ms:
                return ready
            await asyncio.sleep(_STANDSTILL_LOOK_S)

    def _complete(self, move: _Move) -> bool:
        return move.replica.leading is move.leading and move.leading.handed_to(move.to)

    async def _write(self, key: str, moves: Iterable[_Move]) -> int:
        """The moves of one block in one transaction; its revision, 0 when nothing was written."""
        try:
            return await self._try(key, moves)
        except _TROUBLE as trouble:
            for move in moves:
                move.reason = f"the metadata store: {trouble}"
            return 0

    async def _try(self, key: str, moves: Iterable[_Move]) -> int:
        item = next((item for item in (await self._store.range(key)).items if item.key == key), None)
        if item is None:
            return 0
        records = model.decode_block(item.value)
        image = self._view.image
        members: dict[BrokerId, int] = {}
        written: list[_Move] = []
        for move in moves:
            before = records.get(move.replica.where.partition)
            if before is None or not self._complete(move) or not self._mine(before, move):
                move.reason = "its record changed meanwhile"
                continue
            after = move.successor(before)
            if after is None or after.leader != move.to:
                move.reason = "its record changed meanwhile"
                continue
            records[move.replica.where.partition] = after
            kept = after.in_sync if before.target else (after.leader,)
            members.update({broker: image.epoch_of(broker) for broker in kept})
            written.append(move)
        if not written:
            return 0
        compares = [Compare(key, item.mod_revision), self._registration.fence()]
        for broker in sorted(members):
            if broker != self._config.broker_id:
                compares.append(Compare(broker_records.live_key(broker), members[broker] or -1))
                about = image.brokers[broker].record_revision
                compares.append(Compare(broker_records.broker_key(broker), about))
        result = await self._store.txn(compares, [Put(key, model.encode_block(records))])
        for move in written:
            move.reason = "" if result.succeeded else "its record changed meanwhile"
        return result.revision if result.succeeded else 0

    def _mine(self, record: PartitionRecord, move: _Move) -> bool:
        return (
            record.leader == self._config.broker_id
            and record.leader_epoch == move.leading.leader_epoch
            and record.leader != NO_BROKER
        )
