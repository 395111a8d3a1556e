"""Which partition a message goes to: by its key as other clients of the format decide it, or by turns without one.

The hash is Kafka's murmur2 (`org.apache.kafka.common.utils.Utils.murmur2`), so that a key lands where a Java
producer would put it.
"""

import struct
from functools import lru_cache

from penstock.records.batch import Buffer

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_WORDS = tuple(struct.Struct(f"<{words}I") for words in range(17))
"""Layouts of keys up to 64 bytes, the usual ones."""

_CACHED_KEY_BYTES_MAX = 128
_CACHED_KEYS = 65_536
"""With the largest cached keys about 20 MB."""


def murmur2(key: Buffer) -> int:
    """Kafka's murmur2 of the key as a signed 32-bit number."""
    data = bytes(key)
    length = len(data)
    words = length >> 2
    layout = _WORDS[words] if words < 17 else struct.Struct(f"<{words}I")
    hashed = _SEED ^ length
    for word in layout.unpack_from(data):
        word = word * _M & _MASK
        hashed = hashed * _M & _MASK ^ (word ^ word >> 24) * _M & _MASK
    tail = length & 3
    if tail:
        hashed = (hashed ^ int.from_bytes(data[-tail:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    hashed ^= hashed >> 15
    return hashed - (hashed >> 31 << 32)


@lru_cache(maxsize=_CACHED_KEYS)
def _positive_hash(key: bytes) -> int:
    return murmur2(key) & _POSITIVE


def partition_of(key: Buffer, partition_count: int) -> int:
    """`toPositive(murmur2(key)) % partition_count`. Hashes of the short keys used last are remembered."""
    if len(key) <= _CACHED_KEY_BYTES_MAX:
        return _positive_hash(bytes(key)) % partition_count
    return (murmur2(key) & _POSITIVE) % partition_count
