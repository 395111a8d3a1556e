"""What a producer reports of its frequent keys, with a frame that leaves anyway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.client.producing.accumulator import Route
from penstock.client.producing.key_sampler import FrequentKey, KeySampler

REPORT_MS = 30_000.0
"""Between two reports on one stream."""
FIRST_REPORT_MS = 5_000.0
"""After the stream was opened."""
REPORT_PARTITIONS_MAX = 8
REPORT_KEYS_MAX = 10
SAMPLED_MIN = 16
"""Fewer messages say nothing of how frequent a key is."""


class KeyReport(NamedTuple):
    """Of one partition."""

    topic_id: bytes
    partition: int
    sampled: int
    keys: list[FrequentKey]


def key_reports(sampler: KeySampler, routes: Mapping[str, Route], broker: int, now: float) -> list[KeyReport]:
    """Of the partitions that the broker leads, those that most messages were sampled of."""
    found: list[KeyReport] = []
    for (topic, partition), sketch in sampler.sketches():
        route = routes.get(topic)
        if route is None or route.queues[partition].leader != broker:
            continue
        keys = sketch.top(REPORT_KEYS_MAX, now)
        if keys and sketch.sampled >= SAMPLED_MIN:
            found.append(KeyReport(route.topic_id, partition, sketch.sampled, keys))
    found.sort(key=_order)
    return found[:REPORT_PARTITIONS_MAX]


def _order(report: KeyReport) -> tuple[int, bytes, int]:
    return -report.sampled, report.topic_id, report.partition
