"""Keys go where other clients of the format put them; messages without a key take turns."""

import random

import pytest
from aiokafka.partitioner import murmur2 as their_murmur2

from penstock.rules.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_the_one_of_kafkas_own_tests(key: bytes, wanted: int) -> None:
    assert murmur2(key) == wanted
    assert partition_of(key, 1_000) == (wanted & 0x7FFFFFFF) % 1_000


def test_the_hash_agrees_with_another_client_for_keys_of_every_length() -> None:
    rng = random.Random(11)
    for length in [*range(200), 1_000, 4_097]:
        key = rng.randbytes(length)
        assert murmur2(key) & 0xFFFFFFFF == their_murmur2(key)
        for count in (1, 7, 100):
            wanted = (their_murmur2(key) & 0x7FFFFFFF) % count
            # Twice, as the second may come from what is remembered.
            assert [partition_of(key, count) for _ in range(2)] == [wanted] * 2


def test_keys_of_other_buffers_hash_like_their_bytes() -> None:
    for key in (b"short", b"long" * 100):
        assert partition_of(bytearray(key), 50) == partition_of(memoryview(key), 50) == partition_of(key, 50)
