"""Judges what metered brokers put into `__usage`, against everything that the watcher saw committed."""

from collections.abc import Iterator
from itertools import pairwise

from data_plane.contract import usage_pb2 as pb
from data_plane.testkit.cluster import SimCluster
from data_plane.testkit.invariants import Invariant, InvariantViolated
from data_plane.testkit.stored_log import StoredLog
from data_plane.testkit.swarm import USAGE_PLAN
from data_plane.testkit.watcher import Ledger, Watcher
from penstock.contract.ids import SYSTEM_TENANT, TopicId, TopicPartition
from penstock.contract.topic_settings import Durability
from penstock.records.parse import records_of
from penstock.records.seal import unpack_seal
from penstock.records.stamp import stamp_seed, unpack_stamp
from penstock.records.usage import Totals
from penstock.rules.odometer import Odometer


def all_metered(cluster: SimCluster, watcher: Watcher) -> bool:
    """Each leader knows that everything committed is in `__usage`."""
    for where, record in watcher.records.items():
        topic = watcher.topics.get(where.topic_id)
        if topic is None or topic.tenant == SYSTEM_TENANT:
            continue
        node = cluster.broker(record.leader).node if record.leader >= 0 else None
        replica = None if node is None else node.replicas.by_partition.get(where)
        if replica is None or replica.metered_offset < watcher.ledger(where).end:
            return False
    return True


def check_usage(cluster: SimCluster, watcher: Watcher) -> int:
    """I21: every reading and seal tells what was committed, and what a leadership kept only grows; sequences of a boot
    have no gap. How many readings.
    """
    sequences: dict[tuple[int, str], dict[int, bytes]] = {}
    readings: dict[TopicPartition, list[pb.Reading]] = {}
    kept: dict[tuple[TopicPartition, int, str, int, int], dict[int, tuple[int, int]]] = {}
    committed = _Committed(watcher)
    for record in _records(cluster, watcher):
        boot = sequences.setdefault((record.broker_id, record.boot_id), {})
        packed = record.SerializeToString(deterministic=True)
        if boot.setdefault(record.sequence, packed) != packed:
            _violated(f"broker {record.broker_id} gave sequence {record.sequence} to two records")
        for reading in record.readings:
            where = TopicPartition(TopicId(reading.topic_id), reading.partition)
            readings.setdefault(where, []).append(reading)
            leadership = (
                where,
                record.broker_id,
                record.boot_id,
                reading.leader_epoch,
                reading.retained_since,
            )
            totals = (reading.retained_byte_minutes, reading.replicated_byte_minutes)
            if kept.setdefault(leadership, {}).setdefault(reading.retained_until, totals) != totals:
                _violated(f"{where}: two totals of what was kept up to minute {reading.retained_until}")
        for sealed in record.seals:
            _check_seal(committed, sealed)
    for (broker, boot_id), boot in sequences.items():
        # The last record of a broker that was killed may have been given up with it, but none before it.
        if sorted(boot) != list(range(1, len(boot) + 1)):
            _violated(f"broker {broker}, boot {boot_id}: sequences {sorted(boot)[:20]} have gaps")
    for whose, by_minute in kept.items():
        seen = [totals for _, totals in sorted(by_minute.items())]
        if any(now[at] < then[at] for then, now in pairwise(seen) for at in range(2)):
            _violated(f"{whose}: what was kept falls: {seen[:20]}")
    for where, found in readings.items():
        _check_readings(committed, where, found)
    return sum(len(found) for found in readings.values())


def _records(cluster: SimCluster, watcher: Watcher) -> Iterator[pb.UsageRecord]:
    for where, partition in sorted(watcher.records.items()):
        topic = watcher.topics.get(where.topic_id)
        if topic is None or (topic.tenant, topic.name) != (SYSTEM_TENANT, USAGE_PLAN.name):
            continue
        medium = cluster.broker(partition.replicas[0]).medium
        for stored in StoredLog(medium, where).batches(0, watcher.ledger(where).end):
            for record in records_of(stored.batch):
                yield pb.UsageRecord.FromString(record.value or b"")


class _Committed:
    """Totals at the end of each committed batch, of partitions as they are asked for."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._known: dict[TopicPartition, dict[int, Totals]] = {}

    def totals(self, where: TopicPartition) -> dict[int, Totals] | None:
        """None of a topic of which what was acknowledged may be lost."""
        topic = self._watcher.topic_of(where)
        if topic is None or topic.settings.durability is not Durability.FSYNC:
            return None
        if where not in self._known:
            self._known[where] = _totals(self._watcher.ledger(where), where)
        return self._known[where]

    def is_unseen(self, where: TopicPartition, offset: int) -> bool:
        """Whether only a leader that a fault had struck knew that so much was committed when its topic was deleted."""
        ledger = self._watcher.ledger(where)
        return where.topic_id in self._watcher.deleted and ledger.end < offset <= ledger.claimed_end


def _check_readings(committed: _Committed, where: TopicPartition, found: list[pb.Reading]) -> None:
    totals = committed.totals(where)
    if totals is None:
        return
    for reading in found:
        reported = Totals.from_tuple(tuple(reading.totals))
        if committed.is_unseen(where, reading.end_offset):
            continue
        if totals.get(reading.end_offset) != reported:
            _violated(
                f"{where}: a {pb.ReadingKind.Name(reading.kind)} reading at {reading.end_offset} says {reported},"
                f" committed is {totals.get(reading.end_offset)}"
            )


def _totals(ledger: Ledger, where: TopicPartition) -> dict[int, Totals]:
    odometer, seed = Odometer(), stamp_seed(where)
    totals = {0: odometer.totals}
    for entry in ledger.entries:
        odometer.apply(unpack_stamp(entry.stamp, seed))
        totals[entry.end_offset] = odometer.totals
    return totals


def _check_seal(committed: _Committed, sealed: pb.SealedSegment) -> None:
    seal, _ = unpack_seal(sealed.seal)
    totals = committed.totals(seal.where)
    if totals is not None and (
        totals.get(seal.base_offset) != seal.before or totals.get(seal.end_offset) != seal.totals
    ):
        _violated(f"{seal.where}: the seal of {seal.base_offset} to {seal.end_offset} tells other totals")


def _violated(explanation: str) -> None:
    raise InvariantViolated(Invariant.I21, explanation)
