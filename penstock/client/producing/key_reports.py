"""What a producer tells the leaders of its frequent keys, rarely, and never in the way of sending.

    waiting --REPORT_MS passed and keys were sampled--> one call to each leader concerned --> waiting

A partition is reported while one key is at least SHARE_PERCENT of what the producer sends to it. A report that fails is
dropped and counted; the messages that it spoke of are not reported again. A broker of before does not know the call: it
is left alone for a while. Times are the client's milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from penstock.client.cluster_view import NO_LEADER
from penstock.client.ports import BrokerRequest, Network
from penstock.client.producing.accumulator import RecordAccumulator
from penstock.client.producing.key_sampler import LOOKS_MIN, KeySketch
from penstock.client.producing.partition_queue import PartitionQueue
from penstock.client.timing import NEVER
from penstock.contract import methods
from penstock.contract.errors import ErrorKind, PenstockError
from penstock.contract.v1 import log_pb2

REPORT_MS = 20_000.0
"""Between two rounds, and up to a quarter more at random, so that producers do not report together."""
ANSWER_MS = 5_000.0
SHARE_PERCENT = 10
KEYS_MAX = 10
PARTITIONS_MAX = 100
"""In one call; of more, those with most messages."""
SAMPLED_MIN = 20
"""Of fewer looks a share says little."""
SPARED_MS = 600_000.0
"""A broker that refused for good is not asked so long."""


class KeyReporter:
    """Of one producer; of one that samples no keys, or is not to report them, it does nothing."""

    def __init__(
        self, network: Network, accumulator: RecordAccumulator, random: Random, *, wanted: bool
    ) -> None:
        self._network = network
        self._accumulator = accumulator
        self._random = random
        self._sampler = accumulator.sampler if wanted else None
        self.sent = self.failed = 0
        """Calls that were begun, and those of them without a good answer."""
        self._due = 0.0
        self._reported_at: float | None = None
        self._looks = 0
        self._spared_until: dict[int, float] = {}
        self._under_way: dict[int, BrokerRequest] = {}

    def step(self, now: float) -> None:
        """Report if it is time to."""
        sampler = self._sampler
        if sampler is None or sampler.looks == self._looks or now < self._due:
            return
        before, self._reported_at = self._reported_at, now
        self._due = now + REPORT_MS * (1 + self._random.random() / 4)
        if before is None or now - before > 2 * REPORT_MS:
            return  # the first keys, or the first after a rest: a round speaks of the time since now
        self._looks = sampler.looks
        for broker, reports in self._by_leader(now, now - before).items():
            if broker not in self._under_way and self._spared_until.get(broker, 0.0) <= now:
                self._send(broker, reports, now)

    def next_step_at(self) -> float:
        """When `step` is due by the clock alone."""
        sampler = self._sampler
        return NEVER if sampler is None or sampler.looks == self._looks else self._due

    def close(self) -> None:
        """No answer is waited for."""
        for request in self._under_way.values():
            self._network.cancel_request(request)
        self._under_way.clear()

    def _by_leader(self, now: float, over_ms: float) -> Mapping[int, list[log_pb2.KeyReport]]:
        sampler = self._sampler
        assert sampler is not None
        found: list[tuple[int, int, log_pb2.KeyReport]] = []
        for (topic, partition), sketch in sampler.sketches():
            messages = sketch.messages_since()
            route = self._accumulator.routes.get(topic)
            if not messages or route is None or partition >= len(route.queues):
                continue
            queue = route.queues[partition]
            report = _report(queue, sketch, messages, now, over_ms)
            if report is not None and queue.leader != NO_LEADER:
                found.append((messages, queue.leader, report))
        found.sort(key=_most_first)
        by_leader: dict[int, list[log_pb2.KeyReport]] = {}
        for _, leader, report in found:
            reports = by_leader.setdefault(leader, [])
            if len(reports) < PARTITIONS_MAX:
                reports.append(report)
        return by_leader

    def _send(self, broker: int, reports: list[log_pb2.KeyReport], now: float) -> None:
        def answered(response: bytes, at: float) -> None:
            refused = any(one.error for one in log_pb2.ReportKeysResponse.FromString(response).partitions)
            self._under_way.pop(broker, None)
            self.failed += refused

        def failed(error: PenstockError, at: float) -> None:
            self._under_way.pop(broker, None)
            self.failed += 1
            if error.kind is ErrorKind.FATAL:
                self._spared_until[broker] = at + SPARED_MS

        self.sent += 1
        self._under_way[broker] = self._network.send_request(
            methods.REPORT_KEYS,
            log_pb2.ReportKeysRequest(partitions=reports).SerializeToString(),
            deadline=now + ANSWER_MS,
            on_answer=answered,
            on_failure=failed,
            broker=broker,
            once=True,
        )


def _most_first(one: tuple[int, int, log_pb2.KeyReport]) -> tuple[int, bytes, int]:
    return -one[0], one[2].topic_id, one[2].partition


def _report(
    queue: PartitionQueue, sketch: KeySketch, messages: int, now: float, over_ms: float
) -> log_pb2.KeyReport | None:
    """What is to be said of one partition; None while no key stands out."""
    top = sketch.top(KEYS_MAX, now, LOOKS_MIN)
    sampled = sketch.sampled
    if sketch.looks < SAMPLED_MIN or not top:
        return None
    if max([one.count - one.error for one in top]) * 100 < SHARE_PERCENT * sampled:
        return None
    report = log_pb2.KeyReport(
        topic_id=queue.topic_id, partition=queue.partition, messages=messages, over_ms=round(over_ms)
    )
    for one in top:
        share = messages * (one.count - one.error) // sampled
        if share:
            report.keys.add(key=one.key, size=one.size, messages=share)
    return report
