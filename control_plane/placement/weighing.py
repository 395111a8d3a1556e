"""The cluster as planners weigh it: partitions with their bytes and rates, brokers with what they carry, and cells."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from control_plane.brokers import view
from control_plane.brokers.view import BrokerLoadSeen
from control_plane.placement import choice, queries
from data_plane.placement.moves import PlacedPartition
from data_plane.placement.planner import BrokerView

Cells = Mapping[str, tuple[int, ...] | None]
"""Brokers by the public id of a tenant that has a cell; None = it may be anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """One moment of the cluster."""

    seen: view.ClusterView
    partitions: list[PlacedPartition]
    brokers: list[BrokerView]

    def only(self, topic_id: str) -> list[PlacedPartition]:
        """Partitions of one topic."""
        return [partition for partition in self.partitions if partition.topic_id == topic_id]

    def tenants(self) -> dict[str, str]:
        """By topic id."""
        return {partition.topic_id: partition.tenant for partition in self.seen.partitions}


def weighed(seen: view.ClusterView, *, instead: Cells | None = None) -> Weighed:
    """With what brokers reported last. `instead` are cells of tenants as they are to be."""
    reports = queries.loads()
    cells: Cells = {**queries.cells_of_tenants(seen.brokers), **(instead or {})}
    sizes = _Sizes(reports.values())
    return Weighed(
        seen=seen,
        partitions=[
            PlacedPartition(
                topic_id=p.topic_id,
                topic=p.topic,
                partition=p.partition,
                replicas=p.target or p.replicas,
                log_bytes=sizes.log_bytes(p),
                bytes_per_s=sizes.bytes_per_s(p),
                within=cells.get(p.tenant),
            )
            for p in seen.partitions
        ],
        brokers=choice.broker_views(seen.brokers, reports),
    )


class _Sizes:
    """Bytes of partitions: of those that a report names as it says, of the others the mean of what is left."""

    def __init__(self, reports: Iterable[BrokerLoadSeen]) -> None:
        self._named: dict[tuple[str, int], tuple[int, int]] = {}
        self._rest: dict[int, int] = {}
        for report in reports:
            left, unnamed = report.led_log_bytes, report.leaders
            for p in report.partitions:
                rate = p.bytes_in_per_s + p.bytes_out_per_s
                size, before = self._named.get((p.topic_id, p.partition), (0, 0))
                if p.leads:
                    size, left, unnamed = p.log_bytes, left - p.log_bytes, unnamed - 1
                self._named[p.topic_id, p.partition] = (size or p.log_bytes, before + rate)
            self._rest[report.broker] = max(0, left) // unnamed if unnamed > 0 else 0

    def log_bytes(self, partition: view.PartitionSeen) -> int:
        named = self._named.get((partition.topic_id, partition.partition))
        return self._rest.get(partition.leader, 0) if named is None else named[0]

    def bytes_per_s(self, partition: view.PartitionSeen) -> int:
        named = self._named.get((partition.topic_id, partition.partition))
        return 0 if named is None else named[1]


def not_at_rest(seen: view.ClusterView) -> str:
    """Why the balancer should move nothing now: a broker is away, a copy is missing, something moves. Empty: it may."""
    for broker in seen.brokers:
        if broker.state != "active":
            return f"broker {broker.id} is {broker.state}"
        if broker.cordoned:
            return f"broker {broker.id} is being drained"
    for p in seen.partitions:
        if p.target:
            return f"{p.topic}-{p.partition} is moving"
        if p.leader < 0:
            return f"{p.topic}-{p.partition} has no leader"
        if len(p.in_sync) < len(p.replicas):
            return f"{p.topic}-{p.partition} has {len(p.in_sync)} of {len(p.replicas)} copies in sync"
    return ""


def reports_skew(reports: Sequence[BrokerLoadSeen]) -> dict[str, float]:
    """Percent by what is weighed, from sums alone: cheap, so that it is looked at again and again."""
    weighed_by = {
        "replicas": [report.replicas for report in reports],
        "log_bytes": [report.log_bytes for report in reports],
        "leaders": [report.leaders for report in reports],
        "bytes_per_s": [report.bytes_in_per_s + report.bytes_out_per_s for report in reports],
    }
    return {
        name: round(_skew(values, counted=name in ("replicas", "leaders")), 1)
        for name, values in weighed_by.items()
    }


def _skew(values: Sequence[int], *, counted: bool) -> float:
    mean = sum(values) / len(values) if values else 0.0
    if not mean:
        return 0.0
    return max(
        0.0 if counted and abs(value - mean) < 1 else abs(value - mean) * 100 / mean for value in values
    )
