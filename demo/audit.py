"""The log itself, read batch by batch with its stamps: how much it holds, what is twice in it, what is out of order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from demo.plan import NUMBER_HEADER
from demo.reach import ca_file
from demo.tenants import PARTITIONS, Tenant
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import error_class
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.parse import columns_of
from penstock.records.stamp import STAMP_BYTES, stamp_seed, unpack_stamp
from penstock.verification.stamped_reads import StampedReads

_ALL = 2**62
"""As the end of a read: whatever there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCount:
    """What lies in the logs of all tenants. `bytes` are whole batches as stored."""

    messages: int
    bytes: int
    duplicates: int
    """Messages that are there once more than once."""
    order_violations: int
    """Messages of a key that lie behind a later one of that key."""


def audit(
    bootstrap: Sequence[str], tenants: Sequence[Tenant], total: int, tell: Callable[[int], None]
) -> LogCount:
    """Read everything, each tenant with its own key; `tell` is called with the messages read. Raises what a
    broker refuses with.
    """
    seen = bytearray(total)
    messages = size = duplicates = violations = 0
    for tenant in tenants:
        settings = ConnectionSettings(bootstrap=tuple(bootstrap), api_key=tenant.api_key, ca_file=ca_file())
        last: dict[bytes, int] = {}
        with StampedReads(settings) as reads:
            for partition in range(PARTITIONS):
                where = TopicPartition(TopicId(bytes.fromhex(tenant.topic_id)), partition)
                for batch in _batches(reads, where):
                    size += len(batch)
                    columns = columns_of(batch)
                    for key, headers in zip(columns.keys, columns.headers, strict=True):
                        number = next(
                            int(content or b"-1") for name, content in headers if name == NUMBER_HEADER
                        )
                        messages += 1
                        if seen[number]:
                            duplicates += 1
                            continue
                        seen[number] = 1
                        if key is not None:
                            violations += number < last.get(key, -1)
                            last[key] = max(number, last.get(key, -1))
                tell(messages)
    return LogCount(messages=messages, bytes=size, duplicates=duplicates, order_violations=violations)


def _batches(reads: StampedReads, where: TopicPartition) -> "list[bytes]":
    """All batches of a partition, in order."""
    seed = stamp_seed(where)
    found: list[bytes] = []
    offset = 0
    while True:
        answer = reads.read(where, offset, _ALL)
        if answer.error:
            if offset >= answer.high_watermark:
                return found
            raise error_class(answer.error)(f"{where} at offset {offset}: {answer.message}")
        at = 0
        for index in range(0, len(answer.stamps), STAMP_BYTES):
            stamp = unpack_stamp(answer.stamps, seed, index)
            if stamp.base_offset >= offset:
                found.append(answer.batches[at : at + stamp.size])
                offset = stamp.end_offset
            at += stamp.size
        if not answer.stamps or offset >= answer.high_watermark:
            return found
