"""Bytes from an enemy on the wire between brokers: they are a message or refused, however they are cut."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data_plane.broker import peer_wire as wire

HELLO = wire.Hello(form=wire.Form.STREAM, method="/s/m", request_id="r")
NUMBERS = st.sampled_from([0, 1, 255, 65_535, wire.FRAME_LENGTH_MAX, wire.FRAME_LENGTH_MAX + 1, 2**32 - 1])
PIECES = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([wire.welcome(), wire.end(7, "why"), wire.end(0, ""), HELLO.encode(), wire.MAGIC]),
    st.binary(max_size=50).map(wire.frame),
    st.builds(lambda kind, length: bytes([kind]) + length.to_bytes(4), st.integers(0, 255), NUMBERS),
)
STREAMS = st.lists(PIECES, max_size=6).map(b"".join)
BUFFER_BYTES_MAX = wire.FRAME_LENGTH_MAX + 100


def fed(incoming: wire.Incoming, parts: list[bytes]) -> list[tuple[int, bytes]]:
    """The messages that come out when these parts arrive one after the other. Raises `WireError`."""
    found = []
    for part in parts:
        while part:
            free = incoming.free()
            assert len(free) > 0
            count = min(len(free), len(part))
            free[:count] = part[:count]
            incoming.filled(count)
            part = part[count:]
            while (message := incoming.take()) is not None:
                found.append(message)
    assert len(incoming._buffer) <= BUFFER_BYTES_MAX
    return found


@given(STREAMS)
@example(b"\x01\xff\xff\xff\xff")
@example(bytes(5))
def test_any_bytes_are_messages_or_refused(junk: bytes) -> None:
    incoming = wire.Incoming()
    try:
        for kind, payload in fed(incoming, [junk]):
            if kind == wire.Kind.END:
                wire.read_end(payload)
            elif kind == wire.Kind.WELCOME:
                wire.read_welcome(payload)
    except wire.WireError:
        pass


@given(st.one_of(STREAMS, STREAMS.map(lambda more: HELLO.encode() + more)))
@example(wire.MAGIC + bytes(12))
@example(wire.MAGIC + bytes([wire.VERSION]) + b"\x01" + b"\xff" * 4)
def test_any_bytes_are_a_hello_or_refused_or_too_few(junk: bytes) -> None:
    incoming = wire.Incoming()
    incoming.free()[: len(junk)] = junk
    incoming.filled(len(junk))
    try:
        hello = incoming.take_hello()
    except wire.WireError:
        return
    if hello is None:
        assert len(junk) < wire.HELLO_BYTES_MAX
        assert wire.MAGIC.startswith(junk[:4])
        assert incoming.free()


@given(
    st.lists(st.one_of(st.binary(max_size=300), st.integers(1, 200_000).map(bytes)), max_size=8),
    st.lists(st.integers(1, 70_000), max_size=20),
)
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames: list[bytes], cuts: list[int]) -> None:
    sent = b"".join(map(wire.frame, frames))
    parts, at = [], 0
    for cut in cuts:
        parts.append(sent[at : at + cut])
        at += cut
    parts.append(sent[at:])
    assert fed(wire.Incoming(), parts) == [(wire.Kind.FRAME, frame) for frame in frames]


@given(
    st.text(max_size=200),
    st.text(min_size=1, max_size=100),
    st.sampled_from(wire.Form),
)
def test_a_hello_is_read_as_it_was_said(method: str, request_id: str, form: wire.Form) -> None:
    said = wire.Hello(form=form, method=method, request_id=request_id)
    incoming = wire.Incoming()
    for byte in said.encode():
        assert incoming.take_hello() is None
        incoming.free()[:1] = bytes([byte])
        incoming.filled(1)
    assert incoming.take_hello() == said


def test_a_large_frame_leaves_no_large_buffer() -> None:
    incoming = wire.Incoming()
    fed(incoming, [wire.frame(bytes(8 << 20)), wire.frame(b"small")])
    assert len(incoming._buffer) < 1 << 20


def test_a_hello_that_no_peer_would_read_is_not_said() -> None:
    long = wire.Hello(form=wire.Form.CALL, method="/" + "m" * wire.HELLO_BYTES_MAX, request_id="r")
    with pytest.raises(wire.WireError, match="at most"):
        long.encode()


@given(st.integers(0, 2**32 - 1), st.text(max_size=2_000))
def test_an_end_says_why_within_its_bound(code: int, reason: str) -> None:
    ((kind, payload),) = fed(wire.Incoming(), [wire.end(code, reason)])
    assert kind == wire.Kind.END
    assert wire.read_end(payload) == (code, reason[:1_000])
