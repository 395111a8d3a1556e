"""The fold of readings once more, in plain Python: what Spark and DuckDB are compared with."""

from collections import defaultdict
from collections.abc import Iterable

from data_plane.contract import usage_pb2 as pb

Usage = dict[tuple[bytes, int, int, int, int], tuple[int, int]]
"""(topic id, partition, generation, minute, principal) -> (messages, bytes)."""


def fold(readings: Iterable[pb.Reading]) -> Usage:
    logs: dict[tuple[bytes, int], dict[tuple[int, int], pb.Reading]] = defaultdict(dict)
    begins: dict[tuple[bytes, int], dict[int, int]] = defaultdict(dict)
    for one in readings:
        where = (one.topic_id, one.partition)
        logs[where][one.log_generation, one.end_offset] = one
        if one.kind == pb.GENERATION_START:
            begins[where][one.log_generation] = one.end_offset
    for where, starts in begins.items():
        for generation, offset in starts.items():
            first = min(min(known for known, _ in logs[where]), generation - 1)
            owner = max(
                (old for old, at in starts.items() if old < generation and at <= offset), default=first
            )
            logs[where].setdefault((owner, offset), logs[where][generation, offset])
    usage: Usage = defaultdict(lambda: (0, 0))
    for where, points in logs.items():
        old_minute, old_messages, old_bytes = -1, 0, 0
        old_rows: dict[int, tuple[int, int]] = {}
        for (generation, offset), one in sorted(points.items()):
            if any(later > generation and offset > start for later, start in begins[where].items()):
                continue
            minute, rows = (
                one.accepted_ms // 60_000,
                {r.principal: (r.messages, r.bytes) for r in one.minute_rows},
            )
            left_messages, left_bytes = one.totals[0] - old_messages, one.totals[1] - old_bytes
            for principal, (messages, size) in rows.items():
                known = old_rows.get(principal, (0, 0)) if minute == old_minute else (0, 0)
                _add(usage, (*where, generation, minute, principal), messages - known[0], size - known[1])
                left_messages, left_bytes = left_messages - messages + known[0], left_bytes - size + known[1]
            _add(usage, (*where, generation, minute, 0), left_messages, left_bytes)
            old_minute, old_rows, old_messages, old_bytes = minute, rows, one.totals[0], one.totals[1]
    return {key: value for key, value in usage.items() if value != (0, 0)}


def _add(usage: Usage, key: tuple[bytes, int, int, int, int], messages: int, size: int) -> None:
    usage[key] = (usage[key][0] + messages, usage[key][1] + size)
