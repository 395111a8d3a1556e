"""Reads that prove an invoice: batches with their stamps, as stored, and seals, to the tenant whose they are. A key
that only verifies gets the headers of the batches instead: no record stands in them.

They are not metered. Each tenant has a budget of bytes for them on each broker, so that proving delays no other work.
"""

import struct
from collections.abc import Callable

from data_plane.authz.access import Operation, Principal
from data_plane.disk.port import Disk
from data_plane.log.reading import ColdRead
from data_plane.node.admission.gate import Gate
from data_plane.node.ports import Caller, CallFailed, Clock
from data_plane.node.replicas.cold_reads import read_cold
from data_plane.node.replicas.replica import Replica
from data_plane.node.requests import parsed
from data_plane.throttling.buckets import TokenBuckets
from penstock.contract import errors, limits
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.v1 import proof_pb2 as pb
from penstock.records.batch import BATCH_HEADER_BYTES
from penstock.records.stamp import STAMP_BYTES

KIB_PER_MINUTE = 600 * 1024
"""Of one tenant from one broker: 10 MB/s."""
KIB_AT_ONCE = 32 * 1024
_KIB = 1_024
_CALL_KIB = 4
"""What a call costs whatever it reads: 2,500 calls a second at most."""
_PLACES = struct.Struct(">q8xi44x")
"""Base offset and size of a packed stamp (penstock/records/stamp.py)."""
READ_BYTES_MAX = limits.MIB
"""Answered at once, unless one batch is larger."""


class ProofReads:
    """Handler of the client listener's calls ReadStamped and ReadSeals."""

    def __init__(
        self,
        gate: Gate,
        find: Callable[[TopicPartition], Replica | None],
        disk: Disk,
        clock: Clock,
        confident: Callable[[], bool],
    ) -> None:
        self._gate = gate
        self._find = find
        self._disk = disk
        self._clock = clock
        self._confident = confident
        self._budget = TokenBuckets(per_minute=KIB_PER_MINUTE, burst=KIB_AT_ONCE)

    async def read_stamped(self, caller: Caller, request: bytes) -> bytes:
        """Committed batches from the one that holds the offset asked for, on the partition's leader."""
        principal = self._admit(caller)
        wanted = parsed(pb.ReadStampedRequest, request)
        response = pb.ReadStampedResponse()
        operation = Operation.VERIFY if wanted.headers_only else Operation.CONSUME
        size = 0
        try:
            replica = self._leader(principal, operation, wanted.topic_id, wanted.partition)
            size = await self._read(replica, wanted, response)
        except PenstockError as refusal:
            response.error, response.message = refusal.code, refusal.message
        self._charge(principal, size)
        return response.SerializeToString()

    async def read_seals(self, caller: Caller, request: bytes) -> bytes:
        """Seals of the segments that end above an offset, on the partition's leader. Seals are made of committed
        batches only."""
        principal = self._admit(caller)
        wanted = parsed(pb.ReadSealsRequest, request)
        response = pb.ReadSealsResponse()
        size = 0
        try:
            replica = self._leader(principal, Operation.VERIFY, wanted.topic_id, wanted.partition)
            response.log_generation = replica.log.usage.log_generation
            size = replica.log.usage.seals_size
            response.seals, response.more = replica.log.usage.packed_seals_above(
                wanted.above_offset, READ_BYTES_MAX
            )
        except PenstockError as refusal:
            response.error, response.message = refusal.code, refusal.message
        self._charge(principal, size)
        return response.SerializeToString()

    def _admit(self, caller: Caller) -> Principal:
        principal = self._gate.admit(caller)
        wait_ms = self._budget.wait_ms(principal.tenant, self._clock.monotonic_ms(), _CALL_KIB)
        if wait_ms:
            raise CallFailed(errors.Throttled.code, f"proving reads: wait for {wait_ms} ms")
        return principal

    def _charge(self, principal: Principal, size: int) -> None:
        read_kib = _CALL_KIB + size // _KIB
        self._budget.drain(principal.tenant, self._clock.monotonic_ms(), min(read_kib, KIB_AT_ONCE))

    def _leader(self, principal: Principal, operation: Operation, topic_id: bytes, partition: int) -> Replica:
        """The replica, if it leads and the key may do that to it. Raises the refusal."""
        replica = self._find(TopicPartition(TopicId(topic_id), partition))
        if replica is None:
            self._gate.refuse_unknown(principal, operation, topic_id, partition)
        self._gate.authorize(principal, operation, replica.topic)
        if not replica.leadership(-1).ready or not self._confident():
            raise errors.LeaderNotReady(f"{replica.name}: the leader has not confirmed its log yet")
        return replica

    async def _read(
        self, replica: Replica, wanted: pb.ReadStampedRequest, response: pb.ReadStampedResponse
    ) -> int:
        """Fill in the response. Returns how many bytes of batches were read for it."""
        log = replica.log
        replica.require_log_start()
        response.log_start_offset = log.log_start_offset
        response.high_watermark = log.high_watermark
        response.log_generation = log.usage.log_generation
        if not log.log_start_offset <= wanted.offset <= log.high_watermark:
            raise errors.OffsetOutOfRange(
                f"{replica.name}: offset {wanted.offset}, {log.log_start_offset} to {log.high_watermark}"
                " can be read"
            )
        bytes_max = min(wanted.bytes_max or READ_BYTES_MAX, READ_BYTES_MAX)
        try:
            found = log.read(wanted.offset, log.high_watermark, bytes_max)
            if isinstance(found, ColdRead):
                found = await read_cold(self._disk, log, found)
        except errors.CorruptLog as damage:
            replica.found_damage(damage.message)
            raise
        begins: list[int] = []
        size = 0
        for base_offset, batch_size in _PLACES.iter_unpack(found.stamps):
            if wanted.end_offset and base_offset >= wanted.end_offset:
                break
            begins.append(size)
            size += batch_size
        response.stamps = found.stamps[: len(begins) * STAMP_BYTES]
        batches = b"".join(found.batches)[:size]
        if wanted.headers_only:
            batches = b"".join(batches[at : at + BATCH_HEADER_BYTES] for at in begins)
            response.headers_only = True
        response.batches = batches
        return size
