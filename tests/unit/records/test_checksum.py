"""The checksum behind stored bytes: any other byte, seed or range does not pass."""

import pytest

from penstock.records.checksum import CHECKSUM_BYTES, checksum_holds, stored_checksum, with_checksum

BODY = b"123456789"


def test_the_checksum_is_crc32c_in_big_endian() -> None:
    data = with_checksum(BODY)
    assert data == BODY + bytes.fromhex("e3069283"), "the check value of CRC-32C"
    assert stored_checksum(data, len(BODY)) == 0xE3069283


@pytest.mark.parametrize("seed", [0, 1, 0xFFFFFFFF])
def test_a_range_passes_with_its_seed_alone(seed: int) -> None:
    data = b"before" + with_checksum(BODY, seed) + b"behind"
    end = len(data) - len(b"behind") - CHECKSUM_BYTES
    assert checksum_holds(data, 6, end, seed)
    assert checksum_holds(memoryview(data), 6, end, seed)
    assert not checksum_holds(data, 6, end, seed ^ 2)
    assert not checksum_holds(data, 5, end, seed)


@pytest.mark.parametrize("at", range(len(BODY) + CHECKSUM_BYTES))
def test_every_byte_counts(at: int) -> None:
    data = bytearray(with_checksum(BODY, 7))
    data[at] ^= 1
    assert not checksum_holds(data, 0, len(BODY), 7)
