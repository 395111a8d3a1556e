"""Deleting records on a tenant's word: metered first, then the log's start moves on every in-sync replica (RL108)."""

import asyncio
from collections.abc import Callable

from data_plane.authz.access import Operation, Principal
from data_plane.node.admission.gate import Gate
from data_plane.node.metering.metering import Metering
from data_plane.node.ports import Caller, Clock
from data_plane.node.replicas.replica import Replica
from data_plane.node.requests import parsed, require_few
from data_plane.node.tasks import Turn
from penstock.contract import errors
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.v1 import log_pb2 as pb

_ALL = -1
_ANSWER_MS = 2_000
"""Longest wait within one call. A caller whose deletion is not done yet asks again."""
_LOOK_MS = 20


class RecordDeletion:
    """Handler of the client listener's DeleteRecords call, on the partitions' leader. Repeating it changes nothing."""

    def __init__(
        self,
        gate: Gate,
        find: Callable[[TopicPartition], Replica | None],
        trim: Callable[[Replica, int], None],
        metering: Metering,
        clock: Clock,
        confident: Callable[[], bool],
        begin_turn: Callable[[], Turn],
    ) -> None:
        """`trim` lets the own log begin at an offset, soon."""
        self._begin_turn = begin_turn
        self._gate = gate
        self._find = find
        self._trim = trim
        self._metering = metering
        self._clock = clock
        self._confident = confident

    async def delete_records(self, caller: Caller, request: bytes) -> bytes:
        principal = self._gate.admit(caller)
        partitions = parsed(pb.DeleteRecordsRequest, request).partitions
        require_few(len(partitions), "partitions")
        response = pb.DeleteRecordsResponse()
        deadline_ms = self._clock.monotonic_ms() + _ANSWER_MS
        begun: list[tuple[pb.DeletedRecords, Replica | None, int]] = []
        turn = self._begin_turn()
        async for wanted in turn.through(partitions):
            deleted = response.partitions.add(log_start_offset=-1)
            try:
                begun.append((deleted, *self._begin(principal, wanted)))
            except PenstockError as refusal:
                deleted.error, deleted.message = refusal.code, refusal.message
        async for deleted, replica, offset in turn.through(begun):
            if replica is None:
                continue
            try:
                await self._finish(replica, offset, deadline_ms)
                deleted.log_start_offset = replica.log.log_start_offset
            except PenstockError as refusal:
                deleted.error, deleted.message = refusal.code, refusal.message
        return response.SerializeToString()

    def _begin(self, principal: Principal, wanted: pb.DeleteRecords) -> tuple[Replica, int]:
        """Check who asks and for what; the offset where the log is to begin."""
        replica = self._find(TopicPartition(TopicId(wanted.topic_id), wanted.partition))
        if replica is None:
            self._gate.refuse_unknown(principal, Operation.DELETE, wanted.topic_id, wanted.partition)
        self._gate.authorize(principal, Operation.DELETE, replica.topic)
        leading = replica.leadership(wanted.leader_epoch)
        if not leading.ready or not self._confident():
            raise errors.LeaderNotReady(f"{replica.name}: the leader has not confirmed its log yet")
        offset = leading.high_watermark if wanted.before_offset == _ALL else wanted.before_offset
        if not 0 <= offset <= leading.high_watermark:
            raise errors.OffsetOutOfRange(
                f"{replica.name}: records before offset {offset} cannot be deleted, at most those before"
                f" {leading.high_watermark} are committed"
            )
        if offset > replica.log.log_start_offset:
            self._metering.hurry(replica.where)
        return replica, offset

    def advance(self, replica: Replica, offset: int) -> bool:
        """Do what can be done now for the log of a replica that leads to begin at `offset`; whether it does."""
        if _begins(replica, offset):
            return True
        if replica.log_start_target < offset:
            if self._metering.is_read(replica.where, offset):
                replica.want_log_start(offset)
        elif not replica.busy and (due := replica.log_start_due) is not None:
            self._trim(replica, due)
        return False

    async def _finish(self, replica: Replica, offset: int, deadline_ms: float) -> None:
        """Wait for what comes first, and do it. Raises `LeaderNotReady`: it goes on, ask again."""
        leading = replica.leading
        while not _begins(replica, offset):
            if leading is None or replica.leading is not leading:
                raise errors.NotLeader(f"{replica.name}: leadership moved")
            self.advance(replica, offset)
            if self._clock.monotonic_ms() >= deadline_ms:
                missing = (
                    "all who may lead next have moved"
                    if replica.log_start_target >= offset
                    else "it is metered"
                )
                raise errors.LeaderNotReady(f"{replica.name}: records go as soon as {missing}; ask again")
            await asyncio.sleep(_LOOK_MS / 1000)


def _begins(replica: Replica, offset: int) -> bool:
    return replica.log.log_start_offset >= offset and replica.log_start_known
