"""What the core asks its runtime to do: open and close streams and watches, and make unary calls."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStream:
    """Open a bidirectional stream of frames; then pull frames with `next_frame` and report
    `frame_received`.
    """

    token: int
    address: str
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWatch:
    """Open a stream of answers to one request; report each as `frame_received`."""

    token: int
    address: str
    method: str
    request: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseStream:
    """End a stream or watch; nothing about it is to be reported any more.

    `gently`: what was handed over still goes out, then `last`, then the sending side ends; the broker ends
    the other. Else at once, whatever is under way.
    """

    token: int
    gently: bool = False
    last: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCall:
    """Make one unary call; report `call_answered` or `call_failed`."""

    token: int
    address: str
    method: str
    request: bytes
    timeout_ms: int


Action = OpenStream | OpenWatch | CloseStream | StartCall
