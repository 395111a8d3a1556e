"""One simulated connection: two endpoints, in order in each direction, with a bounded window.

States of an endpoint and what moves between them:

    OPEN --close--> CLOSED            the peer reads what was sent, then the end (or is reset at once)
    OPEN --reset, give up--> LOST     what was not read yet may be gone
    OPEN --end from the peer--> OPEN, and `receive` raises once everything was read
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from daemon.identity import Identity
from data_plane.node.ports import Caller, CallFailed, ConnectionLost
from data_plane.testkit.loop import Process
from data_plane.testkit.network import Network
from penstock.contract.ids import BrokerId
from penstock.contract.invariant import invariant


class StreamRefused(ConnectionLost):
    """The peer's handler ended the stream with an error: `code` is an ErrorCode."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """First on every connection: what is called and by whom."""

    address: str
    method: str
    authorization: str
    identity: Identity | None
    """What its certificate says, where it shows one."""
    meant: BrokerId | None
    """The broker that the caller means to reach, where it knows that."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Last in a direction: nothing follows, and why. `half`: the other direction goes on."""

    refusal: CallFailed | None = None
    half: bool = False


Item = bytes | Opening | Ending
Accept = Callable[["Endpoint", Opening], None]


class Endpoint:
    """One end of a connection: the Connection port of the process that holds it."""

    __slots__ = (
        "_accept",
        "_credit_owed",
        "_ending",
        "_inbox",
        "_last_arrival_s",
        "_lost_reason",
        "_network",
        "_on_wire",
        "_receiver",
        "_sender",
        "_stuck",
        "_unread",
        "_wake_when_gone",
        "closed",
        "host",
        "on_gone",
        "peer",
        "peer_end",
        "peer_host",
        "process",
    )

    def __init__(
        self, network: Network, process: Process, host: str, *, peer: str, peer_host: str,
        accept: Accept | None = None,
    ) -> None:  # fmt: skip
        self._network = network
        self._accept = accept
        self.process = process
        self.host = host
        self.peer = peer
        self.peer_host = peer_host
        self.peer_end: Endpoint | None = None
        """The other end; None while the opening has not arrived."""
        self.on_gone: Callable[[], None] | None = None
        """Called once when the peer closed or the connection was lost."""
        self._wake_when_gone: Callable[[], None] | None = None
        self.closed = False
        self._lost_reason = ""
        self._inbox: deque[bytes] = deque()
        self._ending: Ending | None = None
        self._on_wire: deque[Item] = deque()
        self._last_arrival_s = 0.0
        self._unread = 0
        """Bytes sent that the peer has not taken yet."""
        self._stuck = 0
        """Counts periods in which the wire made no progress."""
        self._receiver: asyncio.Future[None] | None = None
        self._sender: asyncio.Future[None] | None = None
        network.register(self)

    @property
    def lost(self) -> bool:
        return bool(self._lost_reason)

    # -- the port -------------------------------------------------------------------------------------

    async def send(self, frame: bytes) -> None:
        self._check_open()
        invariant(self._sender is None, f"one sender at a time on {self}")
        while self._unread >= self._network.settings.window_bytes:
            self._sender = asyncio.get_running_loop().create_future()
            try:
                await self._sender
            finally:
                self._sender = None
            self._check_open()
        self._unread += len(frame)
        self.transmit(frame)

    async def receive(self) -> bytes:
        invariant(self._receiver is None, f"one receiver at a time on {self}")
        while self.closed or not self._inbox:
            self._check_open()
            if self._ending is not None:
                refusal = self._ending.refusal
                if refusal is not None:
                    raise StreamRefused(refusal.code, refusal.message)
                raise ConnectionLost(f"{self.peer}: ended the stream")
            self._receiver = asyncio.get_running_loop().create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None
        frame = self._inbox.popleft()
        self._return_credit(len(frame))
        return frame

    def close(self) -> None:
        """Never again used on this side. The peer reads what was sent and then the end, or is reset at
        once.
        """
        if self._network.rng.random() < 0.5:
            self.finish(Ending())
        elif self._end():
            self._on_wire.clear()
            if self.peer_end is not None:
                self.peer_end.lose_later("reset: closed by the peer")

    @property
    def is_gone(self) -> bool:
        return self.closed or self.lost or (self._ending is not None and not self._ending.half)

    def when_gone(self, wake: Callable[[], None] | None) -> None:
        self._wake_when_gone = wake

    def __repr__(self) -> str:
        return f"<{self.host} to {self.peer}>"

    # -- for the network ------------------------------------------------------------------------------

    def finish(self, ending: Ending) -> None:
        """Close in order: the peer reads what was sent, then `ending`."""
        if self._end():
            self.transmit(ending)

    def half_close(self) -> None:
        """Nothing more is sent from here; what the peer sends is still read."""
        if not self.closed and not self._lost_reason:
            self.transmit(Ending(half=True))

    def transmit(self, item: Item) -> None:
        """Put an item on the wire."""
        if self.process.alive:
            self._on_wire.append(item)
            self._send_next(len(item) if isinstance(item, bytes) else 64)

    def lose(self, reason: str) -> None:
        """The connection is gone as seen from here; half of the time with what was not read yet."""
        if self._lost_reason or self.closed:
            return
        self._lost_reason = f"{self.peer}: {reason}"
        self._network.resets += 1
        self._network.forget(self)
        self._on_wire.clear()
        if self._network.rng.random() < 0.5:
            self._inbox.clear()
        self._wake()
        self._tell_gone()

    def lose_later(self, reason: str) -> None:
        """The peer's kernel resets: known here when that has travelled."""
        network = self._network
        link = network.link(self.peer_host, self.host)
        network.once_open(link, lambda: network.after(network.delay_s(link, 64), self.lose, reason))

    def _send_next(self, size: int) -> None:
        network = self._network
        link = network.link(self.host, self.peer_host)
        if link.cut:
            self._hold(size)
            return
        now = network.loop.time()
        self._last_arrival_s = max(self._last_arrival_s, now + network.delay_s(link, size))
        network.after(self._last_arrival_s - now, self._arrive, size)

    def _hold(self, size: int) -> None:
        """The link is down: try again at the heal, and give the connection up when that takes too long."""
        network = self._network
        network.link(self.host, self.peer_host).waiting.append(lambda: self._send_next(size))
        network.after(network.settings.give_up_ms / 1000, self._give_up, self._stuck)

    def _give_up(self, stuck: int) -> None:
        if stuck == self._stuck and self._on_wire:
            self.lose("timed out")
            if self.peer_end is not None:
                self.peer_end.lose_later("reset: given up by the peer")

    def _arrive(self, size: int) -> None:
        """The oldest item on the wire is there, or is held by a cut."""
        network = self._network
        if network.link(self.host, self.peer_host).cut:
            self._hold(size)
            return
        if not self._on_wire:
            return
        self._stuck += 1
        item = self._on_wire.popleft()
        if isinstance(item, Opening):
            if self._accept is not None:
                self._accept(self, item)
        elif self.peer_end is not None:
            self.peer_end.take(item)

    def take(self, item: Item) -> None:
        """An item from the peer has arrived."""
        if self.closed or self._lost_reason:
            return
        if isinstance(item, Ending):
            self._ending = item
            if not item.half:
                self._tell_gone()
        elif isinstance(item, bytes):
            self._inbox.append(item)
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    def _return_credit(self, size: int) -> None:
        sender = self.peer_end
        if sender is not None:
            link = self._network.link(self.host, self.peer_host)
            self._network.once_open(link, lambda: sender.credit(size))

    def credit(self, size: int) -> None:
        """The peer has taken that many bytes."""
        self._unread -= size
        if self._sender is not None and not self._sender.done():
            self._sender.set_result(None)

    def _check_open(self) -> None:
        if self.closed:
            raise ConnectionLost(f"{self.peer}: closed on this side")
        if self._lost_reason:
            raise ConnectionLost(self._lost_reason)

    def _end(self) -> bool:
        """Close this side; False when it was closed already or no peer is there to notice."""
        if self.closed:
            return False
        was_lost, self.closed = bool(self._lost_reason), True
        self._network.forget(self)
        self._wake()
        self._tell_waiting()
        return not was_lost and self.process.alive

    def _wake(self) -> None:
        for waiter in (self._receiver, self._sender):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _tell_waiting(self) -> None:
        if self._wake_when_gone is not None:
            self._wake_when_gone()

    def _tell_gone(self) -> None:
        self._tell_waiting()
        on_gone, self.on_gone = self.on_gone, None
        if on_gone is not None:
            on_gone()


def caller_of(opening: Opening, peer: str, *, within: bool) -> Caller:
    """What the shell tells the node of who calls."""
    return Caller(
        peer=peer,
        authorization=opening.authorization,
        identity=opening.identity if within else None,
    )
