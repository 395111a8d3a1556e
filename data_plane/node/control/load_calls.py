"""The Admin call that says what this broker takes, gives and stores: sums, and the partitions that weigh most."""

import asyncio
import heapq
from collections.abc import Callable

from data_plane.contract import admin_pb2 as pb
from data_plane.node.environment import Environment
from data_plane.node.ports import Caller
from data_plane.node.replicas.loads import FOLD_MS, PartitionLoad
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.requests import parsed
from data_plane.placement.hot_keys import HotKeyTable
from penstock.contract.ids import TopicPartition

NAMED_MAX = 1_000
"""Partitions in one answer, far below what a message may hold."""
_AT_REST = PartitionLoad()


class LoadCalls:
    """`run` folds the rates as long as the broker lives."""

    def __init__(
        self,
        environment: Environment,
        *,
        replicas: ReplicaSet,
        connections: Callable[[], int],
        hot_keys: HotKeyTable,
    ) -> None:
        self._config = environment.config
        self._clock = environment.clock
        self._disk = environment.disk
        self._begin_turn = environment.begin_turn
        self._replicas = replicas
        self._connections = connections
        self._hot_keys = hot_keys

    async def run(self) -> None:
        """Without end."""
        while True:
            self._replicas.loads.fold(self._clock.monotonic_ms())
            await asyncio.sleep(FOLD_MS / 1_000)

    async def describe_load(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.DescribeLoadRequest, request)
        loads, now_ms = self._replicas.loads.busy(), self._clock.monotonic_ms()
        response = pb.DescribeLoadResponse(
            broker=self._config.broker_id,
            connections=self._connections(),
            bytes_in_per_s=round(sum(load.bytes_in_per_s for load in loads.values())),
            bytes_out_per_s=round(sum(load.bytes_out_per_s for load in loads.values())),
        )
        usage = self._disk.usage()
        response.disk_total_bytes = usage.total_bytes
        response.disk_used_bytes = max(0, usage.total_bytes - usage.free_bytes)
        sizes: list[tuple[int, TopicPartition]] = []
        turn = self._begin_turn()
        for replica in self._replicas.all():
            if turn.is_over:
                await turn.give_way()
            size = replica.log.size_bytes
            response.replicas += 1
            response.log_bytes += size
            if replica.leading is not None:
                response.leaders += 1
                response.led_log_bytes += size
                sizes.append((size, replica.where))
        limit = min(wanted.partitions_max, NAMED_MAX)
        busiest = heapq.nlargest(limit, loads, key=lambda where: (_bytes_per_s(loads[where]), where))
        largest = (where for _, where in heapq.nlargest(limit, sizes))
        for where in list(dict.fromkeys([*busiest[: (limit + 1) // 2], *largest, *busiest]))[:limit]:
            replica_here = self._replicas.find(where)
            if replica_here is None:
                continue  # it has just left
            load = loads.get(where, _AT_REST)
            leads = replica_here.leading is not None
            keys = self._hot_keys.keys_of(where, now_ms) if leads else None
            response.partitions.add(
                topic_id=where.topic_id,
                partition=where.partition,
                leads=leads,
                log_bytes=replica_here.log.size_bytes,
                bytes_in_per_s=round(load.bytes_in_per_s),
                bytes_out_per_s=round(load.bytes_out_per_s),
                batches_per_1000_s=round(load.batches_per_s * 1_000),
                slow_downs_per_1000_s=round(load.slow_downs_per_s * 1_000),
                hot_key_percent=0 if keys is None else keys.top_percent,
            )
        return response.SerializeToString()


def _bytes_per_s(load: PartitionLoad) -> float:
    return load.bytes_in_per_s + load.bytes_out_per_s
