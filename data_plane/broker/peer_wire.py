"""The wire between brokers: a hello, then messages of a kind and a length, in both directions of one connection.

    hello    magic 4s | version B | form B | length of method and request id, H each | these two
    message  kind B | length I | as many bytes

All numbers are big-endian. Who connects is known by the certificate of its TLS connection, which carries one stream or
one call. Who connects says hello and may go on at once; the other side answers with WELCOME or END. FRAME carries one
whole frame, or the request or the answer of a call. END is the last message of a direction: an error code, 0 for none,
and a text. The first five bytes of a hello and the form of END stay as they are in every version, so that two versions
can tell each other what is wrong.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

from penstock.contract import limits
from penstock.contract.errors import ErrorCode

MAGIC = b"PSTP"
VERSION = 2
_SLACK = limits.MIB
"""A frame a little over its limit is still read, so that it can be refused with a clear error."""
FRAME_LENGTH_MAX = limits.FRAME_BYTES_MAX + _SLACK
HELLO_BYTES_MAX = 16 * limits.KIB
"""Of who is not admitted yet no more is kept."""
_OTHER_LENGTH_MAX = 8 * limits.KIB
"""Of every message but a frame."""
_REASON_LENGTH_MAX = 1_000
_SMALL_BYTES = 64 * limits.KIB
_KEPT_BYTES = 4 * limits.MIB
"""A buffer that grew beyond this for one frame is given back after it. The largest push fits: fresh memory for each of
them would cost more than the rest of its way."""
_AHEAD_BYTES = 256 * limits.KIB
"""A length that is said takes no more memory than this before as much has arrived: many connections may say one."""
_HELLO = struct.Struct(">4sBBHH")
_MESSAGE = struct.Struct(">BI")
_WELCOME = struct.Struct(">4sB")
_CODE = struct.Struct(">I")


class WireError(Exception):
    """Bytes that are not this wire's. The connection is of no use any more."""


class NoBroker(WireError):
    """Not even the magic is there: who speaks here knows nothing of this wire."""


class Form(IntEnum):
    """What a connection carries."""

    STREAM = 1
    CALL = 2


class Kind(IntEnum):
    """What a message is."""

    FRAME = 1
    WELCOME = 2
    END = 3


_FRAME = int(Kind.FRAME)
_KINDS = frozenset(Kind)
_FORMS = frozenset(Form)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a connection is for."""

    form: Form
    method: str
    request_id: str

    def encode(self) -> bytes:
        """Raises `WireError` when it is longer than a peer reads."""
        parts = [text.encode() for text in (self.method, self.request_id)]
        if _HELLO.size + sum(map(len, parts)) > HELLO_BYTES_MAX:
            raise WireError(f"method and request id are at most {HELLO_BYTES_MAX} bytes together")
        return b"".join([_HELLO.pack(MAGIC, VERSION, self.form, *map(len, parts)), *parts])


def frame(payload: bytes) -> bytes:
    """Raises `WireError` for one that is longer than a peer reads."""
    if len(payload) > FRAME_LENGTH_MAX:
        raise WireError(f"a frame of {len(payload)} bytes, at most {FRAME_LENGTH_MAX} allowed")
    return _MESSAGE.pack(_FRAME, len(payload)) + payload


def welcome(version: int = VERSION) -> bytes:
    return _MESSAGE.pack(Kind.WELCOME, _WELCOME.size) + _WELCOME.pack(MAGIC, version)


def read_welcome(payload: bytes, version: int = VERSION) -> None:
    """Raises `WireError` unless it is this version's."""
    if payload != _WELCOME.pack(MAGIC, version):
        raise WireError("its welcome is none of this version")


def end(code: int, reason: str) -> bytes:
    """A reason that is too long is truncated."""
    text = reason[:_REASON_LENGTH_MAX].encode(errors="replace")
    return _MESSAGE.pack(Kind.END, _CODE.size + len(text)) + _CODE.pack(code) + text


def read_end(payload: bytes) -> tuple[int, str]:
    """(code, reason). Raises `WireError`."""
    if len(payload) < _CODE.size:
        raise WireError(f"an end of {len(payload)} bytes, {_CODE.size} required")
    return _CODE.unpack_from(payload)[0], payload[_CODE.size :].decode(errors="replace")


def named(code: int, reason: str) -> str:
    """What an end says, for a log line or an error."""
    if not code:
        return reason or "the peer closed the stream"
    try:
        return f"{ErrorCode(code).name}: {reason}"
    except ValueError:
        return f"code {code}: {reason}"


class Incoming:
    """The bytes that have arrived and are not taken yet. It grows with them to one frame at most, and for a whole hello
    never."""

    __slots__ = ("_buffer", "_end", "_start", "_view")

    def __init__(self) -> None:
        self._start = self._end = 0
        self._buffer = bytearray(_SMALL_BYTES)
        self._view = memoryview(self._buffer)

    def free(self) -> memoryview:
        """Where the next bytes go; never empty after a `take` that gave None."""
        return self._view[self._end :]

    def filled(self, count: int) -> None:
        """So many bytes of `free` were written."""
        self._end += count

    def take_hello(self) -> Hello | None:
        """The hello once it is whole. Raises `WireError` as soon as it is known to be none."""
        arrived = bytes(self._view[self._start : min(self._start + 5, self._end)])
        if not MAGIC.startswith(arrived[:4]):
            raise NoBroker("this is the listener for other brokers, and the caller is none")
        if len(arrived) == 5 and arrived[4] != VERSION:
            raise WireError(f"the caller is a broker of another version: {arrived[4]}, {VERSION} required")
        if self._end - self._start < _HELLO.size:
            return None
        _, _, form, *lengths = _HELLO.unpack_from(self._buffer, self._start)
        if form not in _FORMS:
            raise WireError(f"form {form} is neither a stream nor a call")
        whole = _HELLO.size + sum(lengths)
        if whole > HELLO_BYTES_MAX:
            raise WireError(f"a hello of {whole} bytes, at most {HELLO_BYTES_MAX} allowed")
        if self._end - self._start < whole:
            return None
        texts = []
        at = self._start + _HELLO.size
        for length in lengths:
            texts.append(bytes(self._view[at : at + length]).decode(errors="replace"))
            at += length
        self._start = at
        return Hello(form=Form(form), method=texts[0], request_id=texts[1])

    def take(self) -> tuple[int, bytes] | None:
        """The next whole message as kind and payload. Raises `WireError` before it takes memory for one too long."""
        start = self._start
        arrived = self._end - start
        if arrived < _MESSAGE.size:
            self._make_space(_MESSAGE.size)
            return None
        kind, length = _MESSAGE.unpack_from(self._buffer, start)
        if length > (FRAME_LENGTH_MAX if kind == _FRAME else _OTHER_LENGTH_MAX) or kind not in _KINDS:
            raise WireError(f"a message of kind {kind} and {length} bytes")
        whole = _MESSAGE.size + length
        if arrived < whole:
            self._make_space(whole)
            return None
        self._start = start + whole
        return kind, bytes(self._view[start + _MESSAGE.size : self._start])

    def _make_space(self, wanted: int) -> None:
        """For a message of so many bytes that begins at `_start`, or for as much again as has arrived of it."""
        start, arrived = self._start, self._end - self._start
        size = len(self._buffer)
        wanted = min(wanted, max(_AHEAD_BYTES, 2 * arrived))
        if wanted > size or (size > _KEPT_BYTES and max(wanted, arrived) <= _SMALL_BYTES):
            other = bytearray(max(wanted, _SMALL_BYTES))
            other[:arrived] = self._view[start : self._end]
            self._buffer = other
            self._view = memoryview(other)
        elif arrived and start + wanted <= size:
            return
        elif arrived:
            self._view[:arrived] = bytes(self._view[start : self._end])
        self._start = 0
        self._end = arrived
