"""Hot keys: producers report them to the leader, and the control plane asks for them."""

from data_plane.authz.access import Operation, Principal
from data_plane.contract import admin_pb2 as admin_pb
from data_plane.node.admission.gate import Gate
from data_plane.node.environment import Environment
from data_plane.node.ports import Caller
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.requests import parsed, require_few
from data_plane.placement.hot_keys import HotKeyTable, KeyCount, KeyReport
from penstock.contract import errors
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.v1 import log_pb2 as pb

REPORTED_PARTITIONS_MAX = 100
"""In one call."""


class KeyReports:
    """What producers say is kept in memory alone, bounded, and forgotten two minutes after the last report."""

    def __init__(
        self, environment: Environment, gate: Gate, replicas: ReplicaSet, table: HotKeyTable
    ) -> None:
        self._clock = environment.clock
        self._stats = environment.stats
        self._begin_turn = environment.begin_turn
        self._gate = gate
        self._replicas = replicas
        self._table = table

    async def report_keys(self, caller: Caller, request: bytes) -> bytes:
        """Who may produce to a topic may report its keys; a partition that is refused leaves the others."""
        principal = self._gate.admit(caller)
        reports = parsed(pb.ReportKeysRequest, request).partitions
        require_few(len(reports), "partitions")
        response = pb.ReportKeysResponse()
        async for report in self._begin_turn().through(reports):
            taken = response.partitions.add()
            try:
                if len(response.partitions) > REPORTED_PARTITIONS_MAX:
                    raise errors.InvalidRequest(
                        f"{len(reports)} partitions in one report, at most {REPORTED_PARTITIONS_MAX} allowed"
                    )
                self._take(principal, report)
            except PenstockError as refusal:
                self._stats.key_reports_refused += 1
                taken.error, taken.message = refusal.code, refusal.message
        return response.SerializeToString()

    async def describe_hot_keys(self, caller: Caller, request: bytes) -> bytes:
        """For the control plane, which asks who may read the topic's messages."""
        topic_id = TopicId(parsed(admin_pb.DescribeHotKeysRequest, request).topic_id)
        response = admin_pb.DescribeHotKeysResponse()
        now_ms = self._clock.monotonic_ms()
        for where in self._table.partitions_of(topic_id):
            found = self._table.keys_of(where, now_ms) if self._is_led(where) else None
            if found is not None:
                described = response.partitions.add(partition=where.partition, messages=found.messages)
                for one in found.keys:
                    described.keys.add(key=one.key, size=one.size, messages=one.messages)
        return response.SerializeToString()

    def _is_led(self, where: TopicPartition) -> bool:
        replica = self._replicas.find(where)
        return replica is not None and replica.leading is not None

    def _take(self, principal: Principal, report: pb.KeyReport) -> None:
        where = TopicPartition(TopicId(report.topic_id), report.partition)
        replica = self._replicas.find(where)
        if replica is None:
            self._gate.refuse_unknown(principal, Operation.PRODUCE, report.topic_id, report.partition)
        self._gate.authorize(principal, Operation.PRODUCE, replica.topic)
        replica.leadership(-1)
        read = KeyReport(
            messages=report.messages,
            over_ms=report.over_ms,
            keys=tuple([KeyCount(key=one.key, size=one.size, messages=one.messages) for one in report.keys]),
        )
        now_ms = self._clock.monotonic_ms()
        self._stats.key_reports += 1
        if self._table.take(where, replica.topic.tenant, read, replica.log.log_end_offset, now_ms):
            self._stats.key_reports_dropped += 1
