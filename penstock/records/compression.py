"""Compression of a record block as Kafka frames it, and inflation that is bounded before it begins.

| codec  | frame                                    | bound                                                |
|--------|------------------------------------------|------------------------------------------------------|
| gzip   | one gzip member                          | zlib stops one byte past the limit                   |
| snappy | xerial blocks (read also: one raw block) | each block's declared length, before inflating it    |
| lz4    | one frame, independent blocks (KIP-57)   | sum of the blocks' largest sizes, else a fixed size   |
| zstd   | one frame, its content size declared     | that size; a fixed size for a frame that hides it     |

A hostile block of some KB may declare or hide gigabytes: nothing is allocated for what lies above the limit.
"""

import struct
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import cramjam
import zstandard

from penstock.contract import limits
from penstock.contract.errors import CorruptBatch
from penstock.records.batch import Buffer, Compression

ZSTD_LEVEL = 1
LZ4_LEVEL = 1
GZIP_LEVEL = 4
"""Low, as the sender waits for them: on JSON zstd 1 gives 1.3 GB/s, lz4 1 1 GB/s, gzip 4 0.3 GB/s."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * limits.KIB
"""Java's reader takes blocks up to the size its own writer uses."""
_XERIAL_LENGTH = struct.Struct(">i")

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_BYTES = {4: 64 * limits.KIB, 5: 256 * limits.KIB, 6: limits.MIB, 7: 4 * limits.MIB}
_LZ4_RATIO_MAX = 255
"""What one byte of an lz4 block can stand for at most."""
_LZ4_SIZE = struct.Struct("<I")
_LZ4_CONTENT_SIZE = struct.Struct("<Q")

_ZSTD_FIRST_GUESS_BYTES = limits.MIB
_ZSTD_OUT_OF_MEMORY = "not enough memory"
"""How zstd says that it got no memory for a frame's window; it has no error type for it."""
_POOL_MAX = 16
"""Idle zstd contexts kept: making one costs ten times a small batch. Threads may share a deque's ends."""

_Context = TypeVar("_Context")
_compressors: deque[zstandard.ZstdCompressor] = deque(maxlen=_POOL_MAX)
_decompressors: deque[zstandard.ZstdDecompressor] = deque(maxlen=_POOL_MAX)


def compress(codec: Compression, block: Buffer) -> Buffer:
    """The record block as `codec` packs it; `NONE` gives it back."""
    match codec:
        case Compression.NONE:
            return block
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(bytes(block), level=GZIP_LEVEL))
        case Compression.SNAPPY:
            return _snappy_compress(block)
        case Compression.LZ4:
            # Java's reader refuses linked blocks.
            packer = cramjam.lz4.Compressor(level=LZ4_LEVEL, content_checksum=False, block_linked=False)
            packer.compress(bytes(block))
            return bytes(packer.finish())
        case Compression.ZSTD:
            return _pooled(_compressors, _new_compressor, lambda context: context.compress(block))


def decompress(
    codec: Compression, packed: Buffer, bytes_max: int = limits.DECOMPRESSED_BATCH_BYTES_MAX
) -> Buffer:
    """The record block that `packed` holds, at most `bytes_max` bytes.

    Raises `CorruptBatch` when it is no frame of the codec, is incomplete, or would be larger, and `MemoryError`
    when this process has too little memory, which says nothing of the block.
    """
    try:
        match codec:
            case Compression.NONE:
                return packed
            case Compression.GZIP:
                return _gzip_decompress(packed, bytes_max)
            case Compression.SNAPPY:
                return _snappy_decompress(packed, bytes_max)
            case Compression.LZ4:
                return _lz4_decompress(bytes(packed), bytes_max)
            case Compression.ZSTD:
                return _zstd_decompress(packed, bytes_max)
    except (zlib.error, cramjam.DecompressionError, zstandard.ZstdError, struct.error) as error:
        if _ZSTD_OUT_OF_MEMORY in str(error).lower():
            raise MemoryError(f"batch: its {codec.name.lower()} block is not inflated: {error}") from error
        raise CorruptBatch(f"batch: its {codec.name.lower()} block cannot be inflated: {error}") from error


def _too_large(codec: str, size: object, bytes_max: int) -> CorruptBatch:
    return CorruptBatch(f"batch: its {codec} block inflates to {size} bytes, at most {bytes_max} allowed")


def _pooled(pool: deque[_Context], make: Callable[[], _Context], work: Callable[[_Context], bytes]) -> bytes:
    """Work with a context of its own meanwhile: contexts are not safe to share between threads."""
    try:
        context = pool.pop()
    except IndexError:
        context = make()
    done = work(context)
    pool.append(context)  # not after an error: the context may be in any state
    return done


def _new_compressor() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_content_size=True)


def _gzip_decompress(packed: Buffer, bytes_max: int) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    block = inflater.decompress(packed, bytes_max + 1)
    if len(block) > bytes_max:
        raise _too_large("gzip", f"over {bytes_max}", bytes_max)
    if not inflater.eof:
        raise CorruptBatch("batch: its gzip block is incomplete")
    if inflater.unused_data:
        raise CorruptBatch(f"batch: {len(inflater.unused_data)} bytes behind its gzip block, none allowed")
    return block


def _snappy_compress(block: Buffer) -> bytes:
    view = memoryview(block)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        packed = bytes(cramjam.snappy.compress_raw(bytes(view[at : at + _XERIAL_BLOCK_BYTES])))
        parts += (_XERIAL_LENGTH.pack(len(packed)), packed)
    return b"".join(parts)


def _snappy_decompress(packed: Buffer, bytes_max: int) -> bytes:
    view = memoryview(packed)
    if view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _snappy_block(view, bytes_max, bytes_max)
    if len(view) < len(_XERIAL_HEADER):
        raise CorruptBatch("batch: its snappy stream is incomplete")
    blocks: list[bytes] = []
    left = bytes_max
    at = len(_XERIAL_HEADER)
    while at < len(view):
        (length,) = _XERIAL_LENGTH.unpack_from(view, at)
        at += _XERIAL_LENGTH.size
        if not 0 < length <= len(view) - at:
            raise CorruptBatch(f"batch: a snappy block of {length} bytes, 1 to {len(view) - at} possible")
        block = _snappy_block(view[at : at + length], left, bytes_max)
        blocks.append(block)
        left -= len(block)
        at += length
    return b"".join(blocks)


def _snappy_block(view: memoryview, left: int, bytes_max: int) -> bytes:
    packed = bytes(view)
    size = cramjam.snappy.decompress_raw_len(packed)
    if size > left:
        raise _too_large("snappy", f"{bytes_max - left + size} or more", bytes_max)
    return bytes(cramjam.snappy.decompress_raw(packed))


def _lz4_decompress(packed: bytes, bytes_max: int) -> Buffer:
    if _lz4_size_bound(packed, bytes_max) <= bytes_max:
        return bytes(cramjam.lz4.decompress(packed))
    # Many blocks that could be full but need not be: only inflating tells, into a buffer that cannot grow.
    space = bytearray(bytes_max)
    try:
        size = cramjam.lz4.decompress_into(packed, space)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(
            f"batch: its lz4 block does not inflate into {bytes_max} bytes: {error}"
        ) from error
    return bytes(memoryview(space)[:size])


def _lz4_size_bound(frame: bytes, bytes_max: int) -> int:
    """Upper bound of what a frame inflates to, from its blocks' headers; counting stops above `bytes_max`."""
    if frame[:4] != _LZ4_MAGIC:
        raise CorruptBatch("batch: its lz4 block does not begin with a frame")
    if len(frame) < 7:
        raise CorruptBatch("batch: its lz4 frame is incomplete")
    flags = frame[4]
    block_bytes = _LZ4_BLOCK_BYTES.get(frame[5] >> 4 & 7)
    if flags >> 6 != 1 or block_bytes is None:
        raise CorruptBatch("batch: its lz4 frame has an unknown version or block size")
    at = 7
    if flags & 0x08:
        (declared,) = _LZ4_CONTENT_SIZE.unpack_from(frame, 6)
        if declared > bytes_max:
            raise _too_large("lz4", declared, bytes_max)
        at += 8
    if flags & 0x01:
        at += 4
    behind_block = 4 if flags & 0x10 else 0
    bound = 0
    while bound <= bytes_max:
        (word,) = _LZ4_SIZE.unpack_from(frame, at)
        at += 4
        if word == 0:
            at += 4 if flags & 0x04 else 0
            if at != len(frame):
                raise CorruptBatch(
                    f"batch: its lz4 frame ends at byte {at} of {len(frame)}, at the last required"
                )
            break
        size = word & 0x7FFFFFFF
        if size > block_bytes:
            raise CorruptBatch(f"batch: an lz4 block of {size} bytes, at most {block_bytes} allowed")
        bound += size if word >> 31 else min(block_bytes, size * _LZ4_RATIO_MAX)
        at += size + behind_block
    return bound


def _zstd_decompress(packed: Buffer, bytes_max: int) -> bytes:
    size = zstandard.get_frame_parameters(packed).content_size
    if size != zstandard.CONTENTSIZE_UNKNOWN:
        if size > bytes_max:
            raise _too_large("zstd", size, bytes_max)
        return _zstd_into(packed, size)
    guess = min(bytes_max, max(_ZSTD_FIRST_GUESS_BYTES, 8 * len(packed)))
    try:
        return _zstd_into(packed, guess)
    except zstandard.ZstdError:
        if guess == bytes_max:
            raise
    # Pages of the buffer that stay empty are never touched, so its size is no cost.
    return _zstd_into(packed, bytes_max)


def _zstd_into(packed: Buffer, space: int) -> bytes:
    """Inflate one whole frame into at most `space` bytes.

    Its window, up to 128 MiB, is touched only as far as it fills.
    """
    options: dict[str, Any] = {"max_output_size": space, "allow_extra_data": False}
    return _pooled(
        _decompressors, zstandard.ZstdDecompressor, lambda context: context.decompress(packed, **options)
    )
