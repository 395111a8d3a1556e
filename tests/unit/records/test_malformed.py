"""Which batches are malformed: intact, and not what their headers say."""

from collections.abc import Callable

import pytest
import zstandard

from penstock.contract.errors import CorruptBatch, MalformedBatch, UnsupportedCompression
from penstock.contract.limits import DECOMPRESSED_BATCH_BYTES_MAX, MIB
from penstock.records import compression
from penstock.records.batch import Compression, check_batch, placed
from penstock.records.compression import compress
from penstock.records.malformed import what_is_malformed
from penstock.records.parse import EXTENSION_BLOCK_BYTES_MAX, columns_of

from .forging import encode_record, forged, plain_block

CODECS = pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())


def packed(block: bytes, count: int, codec: Compression, **fields: int) -> bytes:
    return forged(bytes(compress(codec, block)), count, codec=codec, **fields)


def at_offsets(*deltas: int) -> bytes:
    return b"".join(encode_record(delta, 0, None, b"v", []) for delta in deltas)


@CODECS
def test_a_sound_batch_is_not_malformed(codec: Compression) -> None:
    batch = packed(plain_block(1_000), 1_000, codec)
    assert what_is_malformed(batch) == ""
    assert what_is_malformed(memoryview(batch)) == ""
    assert what_is_malformed(b"".join(placed(batch, 10**12, 7))) == ""


@CODECS
@pytest.mark.parametrize(("said", "held"), [(1, 1_000), (999, 1_000), (1_001, 1_000), (1_000_000, 1_000)])
def test_a_batch_with_another_count_than_its_header_says_is_malformed(
    codec: Compression, said: int, held: int
) -> None:
    batch = packed(plain_block(held), said, codec)
    check_batch(batch)  # what a broker looks at: it takes this
    assert what_is_malformed(batch).startswith("batch: ")
    with pytest.raises(MalformedBatch):
        columns_of(batch)


@CODECS
def test_a_batch_above_the_size_that_aiokafkas_parser_reads_is_judged_alike(codec: Compression) -> None:
    block = plain_block(70, bytes(64 * 1024))
    assert len(block) > EXTENSION_BLOCK_BYTES_MAX
    assert what_is_malformed(packed(block, 70, codec)) == ""
    assert what_is_malformed(packed(block, 69, codec))
    assert what_is_malformed(packed(block, 71, codec))


def test_a_batch_whose_span_is_not_its_count_is_malformed() -> None:
    batch = forged(at_offsets(0, 4), 2, last_offset_delta=4)
    assert what_is_malformed(batch) == "batch: 2 records over 5 offsets, one an offset required"
    with pytest.raises(CorruptBatch, match="one record an offset required"):
        check_batch(batch)  # and no broker takes it


@pytest.mark.parametrize("deltas", [(1, 1), (0, 2), (0, 0), (1, 0), (-1, 1)])
def test_a_batch_whose_records_claim_other_offsets_is_malformed(deltas: tuple[int, int]) -> None:
    assert "0 and 1 required" in what_is_malformed(forged(at_offsets(*deltas), 2))


@pytest.mark.parametrize("codec", list(Compression)[1:], ids=lambda codec: codec.name.lower())
def test_a_batch_that_does_not_inflate_is_malformed(codec: Compression) -> None:
    sound = bytes(compress(codec, plain_block(500)))
    for block in (b"", b"junk", sound[:-1], sound[: len(sound) // 2], sound + b"x"):
        assert what_is_malformed(forged(block, 500, codec=codec)).startswith("batch: "), block


@pytest.mark.parametrize("codec", list(Compression)[1:], ids=lambda codec: codec.name.lower())
def test_a_batch_that_inflates_beyond_the_bound_is_malformed(codec: Compression) -> None:
    bomb = forged(bytes(compress(codec, bytes(DECOMPRESSED_BATCH_BYTES_MAX + MIB))), 1, codec=codec)
    assert f"{DECOMPRESSED_BATCH_BYTES_MAX}" in what_is_malformed(bomb)


UNREADABLE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "random": lambda: bytes(range(256)),
    "zeros": lambda: bytes(100),
    "a length of no memory": lambda: b"\xfe" + b"\xff" * 8 + b"\x01",
    "a value of no memory": lambda: b"\x20\x00\x00\x00\x01" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\x00" * 2,
    "a header's name that is no text": lambda: b"\x14\x00\x00\x00\x01\x01\x02\x02\xff\x01\x00",
    "bytes behind": lambda: plain_block(3) + b"\x00",
    "cut": lambda: plain_block(3)[:-1],
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_batch_whose_records_cannot_be_read_is_malformed(case: str) -> None:
    assert what_is_malformed(forged(UNREADABLE[case](), 3)).startswith("batch: ")


def test_a_damaged_batch_is_not_called_malformed() -> None:
    sound = forged(plain_block(3), 3)
    for damaged in (
        sound[:-1] + bytes([sound[-1] ^ 1]),
        sound[:40],
        sound + b"x",
        forged(plain_block(3), 1, crc=0),
        forged(plain_block(3), 3, last_offset_delta=1),
    ):
        with pytest.raises(CorruptBatch) as told:
            what_is_malformed(damaged)
        assert type(told.value) is CorruptBatch
    with pytest.raises(UnsupportedCompression):
        what_is_malformed(forged(plain_block(3), 3, codec=5))


@pytest.mark.pure  # it replaces a function of a compiled module
def test_a_machine_without_memory_says_nothing_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a consumer short of memory would skip sound messages."""

    def refuse(*_: object) -> bytes:
        raise zstandard.ZstdError("decompression error: Allocation error : not enough memory")

    batch = packed(plain_block(3), 3, Compression.ZSTD)
    monkeypatch.setattr(compression, "_zstd_decompress", refuse)
    with pytest.raises(MemoryError):
        what_is_malformed(batch)
