"""Codecs: each gives back what it took, in Kafka's framing, and inflates nothing beyond its bound."""

import os
import resource
import struct

import cramjam
import pytest
import zstandard

from penstock.contract.errors import CorruptBatch
from penstock.contract.limits import DECOMPRESSED_BATCH_BYTES_MAX, MIB
from penstock.records.batch import Compression
from penstock.records.compression import XERIAL_MAGIC, compress, decompress

PACKING = [codec for codec in Compression if codec is not Compression.NONE]
SAMPLES = [b"", b"a", b"hello, world; " * 20_000, bytes(range(256)) * 700]


def zstd_without_size(data: bytes) -> bytes:
    stream = zstandard.ZstdCompressor(level=3).compressobj()
    return stream.compress(data) + stream.flush()


@pytest.mark.parametrize("codec", list(Compression))
def test_a_codec_gives_back_what_it_took(codec: Compression) -> None:
    for sample in SAMPLES:
        packed = compress(codec, memoryview(sample))
        assert bytes(decompress(codec, packed)) == sample
        assert bytes(decompress(codec, memoryview(bytearray(packed)))) == sample


@pytest.mark.parametrize("codec", PACKING)
def test_the_bound_holds_to_the_byte(codec: Compression) -> None:
    sample = b"hello, world; " * 20_000
    packed = compress(codec, sample)
    assert bytes(decompress(codec, packed, len(sample))) == sample
    with pytest.raises(CorruptBatch, match=codec.name.lower()):
        decompress(codec, packed, len(sample) - 1)


@pytest.mark.parametrize("codec", PACKING)
def test_a_block_cut_anywhere_is_refused(codec: Compression) -> None:
    sample = b"hello, world; " * 50
    packed = bytes(compress(codec, sample))
    for length in range(len(packed)):
        try:
            block = bytes(decompress(codec, packed[:length]))
        except CorruptBatch:
            continue
        # A snappy stream may end after its header: it then holds nothing, which no record block does.
        assert codec is Compression.SNAPPY
        assert block == b""


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_bytes_behind_the_frame_are_refused(codec: Compression) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, bytes(compress(codec, b"hello")) + b"more")


@pytest.mark.parametrize("codec", PACKING)
def test_bytes_that_are_no_frame_are_refused(codec: Compression) -> None:
    for junk in (b"\xff" * 40, b"plain text, surely no frame of any codec"):
        with pytest.raises(CorruptBatch):
            decompress(codec, junk)


def test_lz4_frames_have_independent_blocks_as_java_demands() -> None:
    flags = bytes(compress(Compression.LZ4, b"x" * 100))[4]
    assert flags & 0x20


def test_snappy_is_framed_as_xerial_does_with_blocks_that_java_can_hold() -> None:
    data = os.urandom(100_000)
    packed = bytes(compress(Compression.SNAPPY, data))
    assert packed.startswith(XERIAL_MAGIC + struct.pack(">ii", 1, 1))
    at, sizes = 16, []
    while at < len(packed):
        (length,) = struct.unpack_from(">i", packed, at)
        sizes.append(cramjam.snappy.decompress_raw_len(packed[at + 4 : at + 4 + length]))
        at += 4 + length
    assert sizes == [32_768, 32_768, 32_768, 1_696]


def test_snappy_without_the_framing_is_read_too() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"from librdkafka" * 10))
    assert decompress(Compression.SNAPPY, raw) == b"from librdkafka" * 10


def test_zstd_frames_declare_their_size() -> None:
    assert zstandard.frame_content_size(compress(Compression.ZSTD, b"x" * 5_000)) == 5_000


@pytest.mark.parametrize("size", [10, 3 * MIB])
def test_a_zstd_frame_that_hides_its_size_is_read(size: int) -> None:
    assert decompress(Compression.ZSTD, zstd_without_size(b"x" * size)) == b"x" * size


def test_an_lz4_frame_of_many_small_blocks_is_read() -> None:
    packer = cramjam.lz4.Compressor(level=1, content_checksum=True, block_linked=True)
    frame = b""
    for _ in range(40):
        packer.compress(b"z" * 1_000)
        frame += bytes(packer.flush())
    frame += bytes(packer.finish())
    # Each block could hold 255 times its size, so only inflating tells that 40,000 bytes suffice.
    assert bytes(decompress(Compression.LZ4, frame, 40_000)) == b"z" * 40_000
    with pytest.raises(CorruptBatch):
        decompress(Compression.LZ4, frame, 39_999)


def bombs() -> list[tuple[Compression, bytes]]:
    """Some KB each that hold, or say they hold, 256 MiB and more."""
    megabyte = bytes(MIB)
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    sized = zstandard.ZstdCompressor(level=1).compressobj(size=256 * MIB)
    hidden = b"".join(stream.compress(megabyte) for _ in range(256)) + stream.flush()
    packer = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
    gzip = cramjam.gzip.Compressor(level=9)
    for _ in range(256):
        packer.compress(megabyte)
        gzip.compress(megabyte)
    return [
        (Compression.ZSTD, b"".join(sized.compress(megabyte) for _ in range(256)) + sized.flush()),
        (Compression.ZSTD, hidden),
        (Compression.LZ4, bytes(packer.finish())),
        (Compression.GZIP, bytes(gzip.finish())),
        (Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"a" * 1_000),
        (
            Compression.SNAPPY,
            XERIAL_MAGIC + struct.pack(">iii", 1, 1, 9) + b"\xff\xff\xff\xff\x0f" + b"a" * 4,
        ),
    ]


def test_a_bomb_is_refused_and_memory_stays_within_the_bound() -> None:
    made = bombs()
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for codec, bomb in made:
        with pytest.raises(CorruptBatch):
            decompress(codec, bomb)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    assert grown_kib * 1024 <= 2.5 * DECOMPRESSED_BATCH_BYTES_MAX
