"""A Connection between two brokers over one TCP socket, the same on the serving and on the calling side.

greeting --hello or welcome--> open --the peer ends it, or is gone--> lost: what has arrived can still be received
                                    --we end it--> closed: what arrives is thrown away until the peer ends it too

No task reads or writes. The loop hands over what has arrived; a frame is written to the socket within `send`.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import cast

from data_plane.broker import peer_wire as wire
from data_plane.broker.handling import READ_AHEAD_BYTES, READ_AHEAD_FRAMES
from data_plane.node.ports import ConnectionLost
from penstock.contract import limits

WRITE_BUFFER_BYTES = 256 * limits.KIB
"""A send waits while that much has not gone out; one frame of any size is added to it."""
_TURN_BYTES = limits.MIB
"""After as much a send lets others have their turn of the event loop, whether or not the socket takes more (RL137)."""
_LINGER_S = 2.0
"""For a peer to read the end and hang up. Who does not is hung up on."""
_KEEPALIVE_IDLE_S, _KEEPALIVE_EVERY_S, _KEEPALIVE_PROBES = 10, 5, 2
_UNANSWERED_MS = 15_000
"""The node's own beats suspect a peer within 1.2 s; this only clears connections away that a dead network left."""
_FRAME = int(wire.Kind.FRAME)


class PeerConnection(asyncio.BufferedProtocol):
    """One connection, made before its socket is: `connection_made` gives it that."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._incoming = wire.Incoming()
        self._frames: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._sent_bytes = 0
        """Since a send has let others have their turn."""
        self._greeted = False
        self._lost = ""
        self._ended_with = 0, ""
        self._closed = self._gone = False
        self._deaf = False
        """Nothing more of what arrives means anything."""
        self._reading_paused = self._writing_paused = False
        self._receiver: asyncio.Future[None] | None = None
        self._sender: asyncio.Future[None] | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._wake_when_gone: Callable[[], None] | None = None
        self._transport: asyncio.Transport

    # -- the port --------------------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, frame: bytes) -> None:
        """A cancelled send has sent nothing: it still waited for its turn, and the connection stays whole."""
        self._check_open()
        if self._sent_bytes >= _TURN_BYTES:
            self._sent_bytes = 0
            await asyncio.sleep(0)
            self._check_open()
        while self._writing_paused:
            self._sender = self._loop.create_future()
            await self._sender
            self._check_open()
        if self._transport.is_closing():
            self.lose("the connection was lost")
            self._check_open()
        try:
            message = wire.frame(frame)
        except wire.WireError as wrong:
            self.abort(str(wrong))
            raise ConnectionLost(f"{self._peer}: {wrong}") from None
        self._sent_bytes += len(message)
        self._transport.write(message)

    async def receive(self) -> bytes:
        while not self._frames or self._closed:
            self._check_open()
            self._receiver = self._loop.create_future()
            await self._receiver
        frame = self._frames.popleft()
        self._buffered_bytes -= len(frame)
        if self._reading_paused and not self._enough_waits:
            self._read_on()
        return frame

    def close(self) -> None:
        """Every send and receive fails from now on; what was sent still goes out."""
        self.finish(0, "")

    @property
    def is_gone(self) -> bool:
        return bool(self._lost)

    def when_gone(self, wake: Callable[[], None] | None) -> None:
        self._wake_when_gone = wake

    # -- for listener and transport ----------------------------------------------------------------------------

    def finish(self, code: int, reason: str) -> None:
        """End the connection from this side, with an error code or 0."""
        if self._closed:
            return
        self._closed = True
        self.lose("closed by this side")
        self._frames.clear()
        if self._gone or self._transport.is_closing():
            return
        self._transport.write(wire.end(code, reason))
        # A socket that is closed while bytes wait in it is reset, and the end might be lost with that.
        self._read_on()
        self._linger = self._loop.call_later(_LINGER_S, self._transport.abort)

    def refuse(self, code: int, reason: str) -> None:
        """`finish`, and look at nothing that still arrives: the peer was not let in."""
        self._deaf = True
        self._incoming = wire.Incoming()
        self.finish(code, reason)

    def abort(self, reason: str) -> None:
        """Hang up at once, without a word."""
        self.lose(reason)
        self._deaf = True
        if not self._gone:
            self._transport.abort()

    def lose(self, reason: str) -> None:
        """Every send fails from now on, and every receive once all that has arrived is received. The first reason
        counts."""
        self._lost = self._lost or reason
        self._wake(self._receiver)
        self._wake(self._sender)
        if self._wake_when_gone is not None:
            self._wake_when_gone()

    @property
    def ended_with(self) -> tuple[int, str]:
        """The error code and the reason with which the peer has ended the connection; 0 for none."""
        return self._ended_with

    @staticmethod
    def _wake(waiting: asyncio.Future[None] | None) -> None:
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _check_open(self) -> None:
        if self._lost:
            raise ConnectionLost(f"{self._peer}: {self._lost}")

    @property
    def _enough_waits(self) -> bool:
        return self._buffered_bytes >= READ_AHEAD_BYTES or len(self._frames) >= READ_AHEAD_FRAMES

    def _read_on(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    # -- for the loop ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        wired = self._transport.get_extra_info("socket")
        for option, value in (
            (socket.TCP_NODELAY, 1),
            (socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S),
            (socket.TCP_KEEPINTVL, _KEEPALIVE_EVERY_S),
            (socket.TCP_KEEPCNT, _KEEPALIVE_PROBES),
            (socket.TCP_USER_TIMEOUT, _UNANSWERED_MS),
        ):
            wired.setsockopt(socket.IPPROTO_TCP, option, value)
        wired.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._incoming.free()

    def buffer_updated(self, nbytes: int) -> None:
        if self._deaf:
            return  # written over by what comes next
        self._incoming.filled(nbytes)
        try:
            if not self._greeted:
                self._greeted = self._greet()
            if self._greeted:
                self._take_messages()
        except wire.WireError as wrong:
            self._deaf = True
            self._incoming = wire.Incoming()
            self._broken(wrong)

    def eof_received(self) -> None:
        self.abort("the peer is gone")

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        if self._linger is not None:
            self._linger.cancel()
        self.lose(f"the connection was lost: {exc}" if exc else "the peer is gone")

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._wake(self._sender)

    # -- what the two sides do differently -----------------------------------------------------------------------

    def _greet(self) -> bool:
        """Take the peer's greeting from what has arrived; False while more has to come. Raises `WireError`."""
        raise NotImplementedError

    def _broken(self, wrong: wire.WireError) -> None:
        """The peer has sent what is not of this wire; nothing more is read."""
        raise NotImplementedError

    def _take_messages(self) -> None:
        while not self._deaf and (message := self._incoming.take()) is not None:
            self._arrived(*message)

    def _arrived(self, kind: int, payload: bytes) -> None:
        if kind == _FRAME:
            if self._closed:
                return
            self._frames.append(payload)
            self._buffered_bytes += len(payload)
            if self._enough_waits and not self._reading_paused:
                self._reading_paused = True
                self._transport.pause_reading()
            self._wake(self._receiver)
        elif kind == wire.Kind.END:
            self._ended_with = wire.read_end(payload)
            self.abort(wire.named(*self._ended_with))
        else:
            raise wire.WireError(f"a message of kind {kind} has no place here")
