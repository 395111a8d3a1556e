"""Frames of the streams: a fixed header, a small protobuf head, then batches as they rest on disk.

Header, big-endian, 12 bytes: magic H (0x5053) | version B (1) | kind B | head_length I | payload_length I.
The head is the protobuf message that the kind names; it says the sizes by which the payload is sliced.
A frame that breaks these rules raises `FrameError`; the stream that carried it is then closed.
"""

import struct
from collections.abc import Iterable
from enum import IntEnum

from penstock.contract import limits
from penstock.contract.errors import LimitExceeded

_HEADER = struct.Struct(">HBBII")
HEADER_BYTES = _HEADER.size
MAGIC = 0x5053
VERSION = 1


class FrameKind(IntEnum):
    """Client streams below 32, internal streams from 32 on."""

    PRODUCE = 1
    PRODUCE_ANSWER = 2
    CONSUME_OPEN = 3
    CONSUME_CREDIT = 4
    CONSUME_CLOSE = 5
    CONSUME_PUSH = 6

    REPLICA_OPEN = 32
    REPLICA_HELD = 33
    REPLICA_CLOSE = 34
    REPLICA_PUSH = 35
    REPLICA_ANSWER = 36
    BEAT = 40
    LEASE_REQUEST = 44
    LEASE_GRANT = 45
    STORAGE_REPORT = 48
    STORAGE_ANSWER = 49
    BUDGET_REQUEST = 52
    BUDGET_ANSWER = 53


class FrameError(Exception):
    """Bytes that are no frame, or a frame over its limits."""


def check_few(count: int, what: str, within: str = "request") -> None:
    """Raises `LimitExceeded` for what would hold up the event loop (RL137)."""
    if count > limits.FRAME_ENTRIES_MAX:
        raise LimitExceeded(
            f"{count} {what} in one {within}, at most {limits.FRAME_ENTRIES_MAX} allowed; send several",
            limit="FRAME_ENTRIES_MAX",
        )


def pack_frame(kind: FrameKind, head: bytes, payload: Iterable[bytes | bytearray | memoryview] = ()) -> bytes:
    """One frame as bytes. The payload's parts are joined once."""
    parts = list(payload)
    header = _HEADER.pack(MAGIC, VERSION, kind, len(head), sum(map(len, parts)))
    return b"".join([header, head, *parts])


def unpack_frame(frame: bytes) -> tuple[FrameKind, memoryview, memoryview]:
    """(kind, head, payload) of one whole frame; the views keep `frame` alive."""
    if len(frame) < HEADER_BYTES:
        raise FrameError(f"frame of {len(frame)} bytes, {HEADER_BYTES} required")
    if len(frame) > limits.FRAME_BYTES_MAX:
        raise FrameError(f"frame of {len(frame)} bytes, at most {limits.FRAME_BYTES_MAX} allowed")
    magic, version, kind, head_length, payload_length = _HEADER.unpack_from(frame)
    if magic != MAGIC or version != VERSION:
        raise FrameError(f"magic {magic:#06x} version {version}; {MAGIC:#06x} version {VERSION} required")
    if head_length > limits.FRAME_HEAD_BYTES_MAX or HEADER_BYTES + head_length + payload_length != len(frame):
        raise FrameError(
            f"head {head_length} and payload {payload_length} do not fill a frame of {len(frame)} bytes"
        )
    try:
        known = FrameKind(kind)
    except ValueError:
        raise FrameError(f"frame kind {kind} is unknown") from None
    view = memoryview(frame)
    return known, view[HEADER_BYTES : HEADER_BYTES + head_length], view[HEADER_BYTES + head_length :]
