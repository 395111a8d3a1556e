"""Messages between brokers are found in the bytes that arrive, wherever in the buffer they end."""

import struct

from data_plane.broker import peer_wire as wire
from penstock.contract import limits

HEAD = struct.Struct(">BI")


def test_frames_that_end_anywhere_in_the_buffer_are_read() -> None:
    """Space for a frame's rest is made in front, behind, or by a longer buffer, and is never of no bytes."""
    whole = 64 * limits.KIB
    for first in (0, 1, 30_000, whole - HEAD.size - 1, whole - HEAD.size):
        for beyond in (-HEAD.size - 1, -1, 0, 1, 2, 100_000):
            frames = [bytes([1]) * first, bytes([2]) * max(0, whole - first - 2 * HEAD.size + beyond), b"3"]
            left = memoryview(b"".join(map(wire.frame, frames)))
            incoming = wire.Incoming()
            found: list[tuple[int, bytes]] = []
            while len(left):
                space = incoming.free()
                assert len(space), (first, beyond)
                # As it comes where the first frame's end and a part of the next one arrive together.
                some = left[: min(len(space), first + 2 * HEAD.size if not found else 40_000)]
                space[: len(some)] = some
                incoming.filled(len(some))
                left = left[len(some) :]
                while (message := incoming.take()) is not None:
                    found.append(message)
            assert found == [(wire.Kind.FRAME, frame) for frame in frames], (first, beyond)


def test_a_length_that_is_said_takes_memory_as_its_bytes_arrive() -> None:
    incoming = wire.Incoming()
    payload = bytes(range(256)) * (16 * limits.MIB // 256)
    left = memoryview(wire.frame(payload))
    arrived, found = 0, None
    while found is None:
        space = incoming.free()
        assert 0 < len(space) <= max(256 * limits.KIB, arrived)
        some = left[: min(len(space), 50_000)]
        space[: len(some)] = some
        incoming.filled(len(some))
        left, arrived = left[len(some) :], arrived + len(some)
        found = incoming.take()
    assert found == (wire.Kind.FRAME, payload) and not left
