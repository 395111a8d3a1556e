"""The scrubber: every closed segment is read back in time, and the replicas compare what they found (RL132).

Each replica reads its own copy back, at a bounded rate and off the loop. The leader asks the others for their findings:
a replica that differs from most gives itself up and fetches its copy again (RL122); between two the leader's counts.
What is the same everywhere is what a tenant sees as the durability of its records.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from data_plane.authz.access import Operation
from data_plane.contract import replication_pb2 as internal_pb
from data_plane.contract.admin_pb2 import DescribedDurability
from data_plane.contract.methods import COMPARE_SEGMENTS
from data_plane.disk.port import Disk
from data_plane.log.outcomes import DamagedRange
from data_plane.log.scrub import Finding
from data_plane.log.segment import Segment
from data_plane.metadata.image import ClusterImage
from data_plane.node.admission.gate import Gate
from data_plane.node.config import NodeConfig
from data_plane.node.ports import Caller, CallFailed, Clock, ConnectionLost, Transport, peer_of
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.requests import parsed, require_few
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn, in_turns, together
from penstock.contract.errors import ErrorCode, NotLeader, PenstockError
from penstock.contract.ids import BrokerId, TopicId, TopicPartition
from penstock.contract.v1 import log_pb2 as pb

_LOOK_MS = 1_000
_LOOKS_PER_DELAY = 60
"""At all closed segments, within the time after which one is read back or compared."""
_LOOKS_AT_ALL = 10
"""One of so many looks for damage is at every replica, and not only at those that have changed."""
_REPLICAS_A_TURN = 200
_SEGMENTS_PER_CALL = 1_000


@dataclass(slots=True)
class _Compared:
    """What the other replicas of a partition led here found, as of the last comparison."""

    leader_epoch: int
    at_ms: float
    others: dict[BrokerId, dict[int, Finding]] = field(default_factory=dict)
    """By base offset; only what is the same as here."""


class Scrubber:
    """Both ends of it on one broker, and the tenants' question how safe their records are."""

    def __init__(
        self,
        config: NodeConfig,
        image: ClusterImage,
        disk: Disk,
        transport: Transport,
        clock: Clock,
        stats: NodeStats,
        gate: Gate,
        replicas: ReplicaSet,
        *,
        begin_turn: Callable[[], Turn],
    ) -> None:
        self._begin_turn = begin_turn
        self._config = config
        self._image = image
        self._disk = disk
        self._transport = transport
        self._clock = clock
        self._stats = stats
        self._gate = gate
        self._replicas = replicas.all
        self._find = replicas.find
        self._changes = replicas.changes()
        self._compared: dict[TopicPartition, _Compared] = {}

    # -- reading back --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs without an end."""
        await together(self._notice_damage(), self._scrub())

    async def _notice_damage(self) -> None:
        """What a log that is in use found by itself is acted upon within a second or so, however much there is to be
        read back; what another one found within ten."""
        looks = 0
        damaged: dict[Replica, None] = {}
        while True:
            looked = {**damaged, **self._changes.take()}
            if looks % _LOOKS_AT_ALL == 0:
                looked = dict.fromkeys(self._replicas())
            damaged = {}
            async for some in in_turns(list(looked), _REPLICAS_A_TURN):
                for replica in some:
                    if not replica.log.has_damage or self._find(replica.where) is not replica:
                        continue
                    damaged[replica] = None
                    if not replica.busy:
                        # It may have been alone when the damage was found. With others by now it gives itself up.
                        replica.notice_damage()
            looks += 1
            await asyncio.sleep(_LOOK_MS / 1000)

    async def _scrub(self) -> None:
        """What is due is read back, then what was found is compared."""
        timings = self._config.timings
        soonest_ms = min(timings.scrub_delay_ms, timings.scrub_compare_ms)
        pause_ms = min(soonest_ms, max(_LOOK_MS, soonest_ms // _LOOKS_PER_DELAY))
        while True:
            due, total_bytes = await self._due()
            rate = max(self._config.scrub_bytes_per_s, 2_000 * total_bytes // timings.scrub_period_ms)
            for replica, segment in due:
                await self._read_back(replica, segment, rate)
            await self._compare_all()
            await asyncio.sleep(pause_ms / 1000)

    async def _due(self) -> tuple[list[tuple[Replica, Segment]], int]:
        """Segments to be read back, those that never were first; the bytes of all closed ones."""
        timings, now_ms, monotonic_ms = self._config.timings, self._clock.now_ms(), self._clock.monotonic_ms()
        due: list[tuple[int, Replica, Segment]] = []
        total = 0
        async for some in in_turns(self._replicas(), _REPLICAS_A_TURN):
            for replica in some:
                if replica.stopped or replica.busy:
                    continue
                for segment in replica.log.scrub.closed(replica.log.high_watermark):
                    total += segment.size
                    if segment.opened_ms is None:
                        segment.opened_ms = monotonic_ms
                    found = replica.log.scrub.finding(segment)
                    if found is not None:
                        if not 0 <= now_ms - found.verified_ms < timings.scrub_period_ms:
                            due.append((found.verified_ms, replica, segment))
                    elif monotonic_ms - segment.opened_ms >= timings.scrub_delay_ms:
                        due.append((-1, replica, segment))
        due.sort(key=lambda one: one[0])
        return [(replica, segment) for _, replica, segment in due], total

    async def _read_back(self, replica: Replica, segment: Segment, bytes_per_s: int) -> None:
        scrub = replica.log.scrub
        if replica.stopped or replica.busy or segment not in scrub.closed(replica.log.high_watermark):
            return
        check = scrub.begin(segment)
        valid = False
        try:
            while not check.done:
                read = await self._disk.examine(check.files, lambda readers: check.step(*readers))
                self._stats.scrubbed_bytes += read
                await asyncio.sleep(read / bytes_per_s)
        finally:
            valid = scrub.end(check)
        if not valid:
            return  # it was truncated or deleted meanwhile
        if check.damage is not None:
            self._give_up(replica, check.damage)
            return
        self._stats.scrubbed_segments += 1
        scrub.found_whole(check, self._clock.now_ms())

    def _give_up(self, replica: Replica, damage: DamagedRange) -> None:
        self._stats.scrub_damage += 1
        replica.log.scrub.found_damage(damage)
        replica.found_damage(f"{replica.name}: {damage}")

    # -- comparing -----------------------------------------------------------------------------------------

    async def _compare_all(self) -> None:
        for where in [where for where in self._compared if self._find(where) is None]:
            del self._compared[where]
        async for some in in_turns(self._replicas(), _REPLICAS_A_TURN):
            for replica in some:
                await self._compare_one(replica)

    async def _compare_one(self, replica: Replica) -> None:
        """If it is led here, something of it was read back, and its turn has come."""
        leading = replica.leading
        if leading is None:
            return
        findings = replica.log.scrub.findings(replica.log.high_watermark)
        if not findings:
            return
        known = self._compared.get(replica.where)
        now_ms = self._clock.monotonic_ms()
        fresh = known is not None and known.leader_epoch == leading.leader_epoch
        if fresh and known is not None and now_ms - known.at_ms < self._config.timings.scrub_compare_ms:
            return
        compared = _Compared(leading.leader_epoch, now_ms)
        self._compared[replica.where] = compared
        await self._compare(replica, findings, compared)

    async def _compare(self, replica: Replica, findings: list[Finding], compared: _Compared) -> None:
        """Ask every other replica, and resolve what differs."""
        mine = {one.base_offset: one for one in findings}
        found: dict[BrokerId, dict[int, Finding]] = {}
        for broker in replica.record.replicas if replica.record is not None else ():
            if broker != self._config.broker_id:
                answered = await self._ask(broker, replica, compared.leader_epoch, findings, agreed=False)
                if answered is not None:
                    found[broker] = answered
        if replica.leading is None or replica.leading.leader_epoch != compared.leader_epoch:
            return
        for broker, theirs in found.items():
            compared.others[broker] = {
                base: one for base, one in theirs.items() if base in mine and _same(one, mine[base])
            }
        for base, one in mine.items():
            digests = [one.digest] + [theirs[base].digest for theirs in found.values() if base in theirs]
            if len(dict.fromkeys(digests)) == 1:
                continue
            if _most(digests) == one.digest:
                for broker, theirs in found.items():
                    if base in theirs and theirs[base].digest != one.digest:
                        await self._ask(broker, replica, compared.leader_epoch, [one], agreed=True)
            else:
                reason = "differs from what most replicas hold"
                self._give_up(replica, DamagedRange(base, one.end_offset, reason))
                return

    async def _ask(
        self, broker: BrokerId, replica: Replica, leader_epoch: int, findings: list[Finding], *, agreed: bool
    ) -> dict[int, Finding] | None:
        """A replica's findings of the same segments; None without an answer."""
        known = self._image.brokers.get(broker)
        if known is None or not known.epoch:
            return None
        answered: dict[int, Finding] = {}
        for first in range(0, len(findings), _SEGMENTS_PER_CALL):
            request = internal_pb.CompareSegmentsRequest(
                topic_id=replica.where.topic_id,
                partition=replica.where.partition,
                leader_epoch=leader_epoch,
                agreed=agreed,
            )
            for one in findings[first : first + _SEGMENTS_PER_CALL]:
                _add(request.segments, one)
            try:
                answer = internal_pb.CompareSegmentsResponse.FromString(
                    await self._transport.call(
                        peer_of(known.record),
                        COMPARE_SEGMENTS,
                        request.SerializeToString(),
                        self._config.timings.call_ms,
                    )
                )
            except (CallFailed, ConnectionLost):
                return None
            if answer.error:
                return None
            answered |= {one.base_offset: _finding(one) for one in answer.segments}
        return answered

    async def compare_segments(self, caller: Caller, request: bytes) -> bytes:
        """The replica's end: describe the own findings; give up what most of the others hold differently."""
        wanted = parsed(internal_pb.CompareSegmentsRequest, request)
        response = internal_pb.CompareSegmentsResponse()
        replica = self._find(TopicPartition(TopicId(wanted.topic_id), wanted.partition))
        following = None if replica is None else replica.following
        if replica is None or following is None or following.leader_epoch != wanted.leader_epoch:
            response.error = ErrorCode.FENCED_LEADER_EPOCH
            response.message = "this replica follows no leader in that epoch"
            return response.SerializeToString()
        mine = {one.base_offset: one for one in replica.log.scrub.findings(replica.log.high_watermark)}
        for asked in wanted.segments:
            own = mine.get(asked.base_offset)
            if own is None:
                continue
            _add(response.segments, own)
            if wanted.agreed and not _same(own, _finding(asked)):
                self._give_up(
                    replica,
                    DamagedRange(own.base_offset, own.end_offset, "differs from what the others hold"),
                )
                break
        return response.SerializeToString()

    # -- what a tenant may know ----------------------------------------------------------------------------

    async def describe_durability(self, caller: Caller, request: bytes) -> bytes:
        """Handler of the client listener's DescribeDurability call, on the partitions' leader."""
        principal = self._gate.admit(caller)
        partitions = parsed(pb.DescribeDurabilityRequest, request).partitions
        require_few(len(partitions), "partitions")
        response = pb.DescribeDurabilityResponse()
        async for wanted in self._begin_turn().through(partitions):
            found = response.partitions.add(verified_ms=-1)
            try:
                replica = self._find(TopicPartition(TopicId(wanted.topic_id), wanted.partition))
                if replica is None:
                    self._gate.refuse_unknown(
                        principal, Operation.DESCRIBE, wanted.topic_id, wanted.partition
                    )
                self._gate.authorize(principal, Operation.DESCRIBE, replica.topic)
                leading = replica.leadership(wanted.leader_epoch)
                replica.require_log_start()
                self._describe(replica, leading.leader_epoch, found)
            except PenstockError as refusal:
                found.error, found.message = refusal.code, refusal.message
        return response.SerializeToString()

    def describe(self, where: TopicPartition, found: DescribedDurability) -> None:
        """The same, where the caller was checked before. Raises `NotLeader`, `LeaderNotReady`."""
        replica = self._find(where)
        if replica is None:
            raise NotLeader(f"{where}: not here")
        leading = replica.leadership(-1)
        replica.require_log_start()
        self._describe(replica, leading.leader_epoch, found)

    def _describe(
        self, replica: Replica, leader_epoch: int, found: pb.PartitionDurability | DescribedDurability
    ) -> None:
        log = replica.log
        found.log_start_offset = found.verified_end_offset = log.log_start_offset
        found.high_watermark = log.high_watermark
        mine = {one.base_offset: one for one in log.scrub.findings(log.high_watermark)}
        compared = self._compared.get(replica.where)
        others = compared.others if compared is not None and compared.leader_epoch == leader_epoch else {}
        verified = [
            run for each in (mine, *others.values()) if (run := _unbroken(each, log.log_start_offset))
        ]
        if not verified or not _unbroken(mine, log.log_start_offset):
            return
        end = min(run[-1].end_offset for run in verified)
        found.verified_end_offset, found.replicas = end, len(verified)
        found.verified_ms = min(one.verified_ms for run in verified for one in run if one.base_offset < end)


def _unbroken(findings: dict[int, Finding], start: int) -> list[Finding]:
    """Those that follow one another from the segment that holds `start` on."""
    run: list[Finding] = []
    for base in sorted(findings):
        one = findings[base]
        if one.end_offset <= start:
            continue
        if (run and base != run[-1].end_offset) or (not run and base > start):
            break
        run.append(one)
    return run


def _most(digests: list[bytes]) -> bytes:
    """What most hold; the first one's, which is the leader's, among equals."""
    counts = Counter(digests)
    return max(counts, key=lambda digest: (counts[digest], digest == digests[0]))


def _same(one: Finding, other: Finding) -> bool:
    return (one.end_offset, one.digest) == (other.end_offset, other.digest)


def _add(segments: Any, one: Finding) -> None:
    segments.add(
        base_offset=one.base_offset, end_offset=one.end_offset, digest=one.digest, verified_ms=one.verified_ms
    )


def _finding(found: internal_pb.ScrubbedSegment) -> Finding:
    return Finding(
        base_offset=found.base_offset,
        end_offset=found.end_offset,
        last_checksum=0,
        verified_ms=found.verified_ms,
        digest=found.digest,
    )
