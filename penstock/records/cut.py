"""A cut: where every partition of a tenant stood at the end of a period, and the hash by which brokers keep it.

The hash is SHA-256 over "penstock cut 1\\n", the lengths and bytes of tenant and cut id, the period's end, and for each
partition in order one fixed entry, big-endian:

    topic_id 16s | partition I | log_generation Q | end_offset q | accepted_ms q | messages q | bytes q | last B
"""

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.contract.ids import TOPIC_ID_BYTES, TopicPartition
from penstock.contract.invariant import invariant

_CONTEXT = b"penstock cut 1\n"
_LENGTH = struct.Struct(">I")
_END = struct.Struct(">qI")
_ENTRY = struct.Struct(">16sIQqqqqB")


@dataclass(frozen=True, slots=True, kw_only=True)
class CutEnd:
    """One partition at a cut. `messages` and `bytes` are the committed totals of the log's whole prefix."""

    where: TopicPartition
    log_generation: int
    end_offset: int
    accepted_ms: int
    """Acceptance of the last batch below `end_offset`, -1 = none."""
    messages: int
    bytes: int
    last: bool = False
    """The topic was deleted: the partition is in no later cut."""

    def __post_init__(self) -> None:
        invariant(len(self.where.topic_id) == TOPIC_ID_BYTES, "a topic id has 16 bytes")
        invariant(
            self.end_offset >= 0 and self.accepted_ms >= -1 and self.messages >= 0 and self.bytes >= 0,
            "a cut's numbers are whole, from 0 on",
        )


def cut_sha256(tenant: str, cut_id: str, period_end_ms: int, ends: Iterable[CutEnd]) -> str:
    """64 hex digits, whatever the order of `ends`. A partition stands in a cut once."""
    ordered = sorted(ends, key=lambda end: (end.where.topic_id, end.where.partition))
    invariant(len({end.where for end in ordered}) == len(ordered), "a cut names each partition once")
    digest = hashlib.sha256(_CONTEXT)
    for text in (tenant.encode(), cut_id.encode()):
        digest.update(_LENGTH.pack(len(text)) + text)
    digest.update(_END.pack(period_end_ms, len(ordered)))
    for end in ordered:
        digest.update(
            _ENTRY.pack(
                end.where.topic_id, end.where.partition, end.log_generation, end.end_offset, end.accepted_ms,
                end.messages, end.bytes, end.last,
            )
        )  # fmt: skip
    return digest.hexdigest()
