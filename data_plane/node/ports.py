"""Ports of the node besides disk and metadata: clock, randomness and transport."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from daemon.identity import Identity
from data_plane.authz.access import Principal
from data_plane.metadata.broker_records import BrokerRecord
from data_plane.metadata.losses import LossRecord
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import BrokerId, TopicPartition


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock, ms since 1970 UTC. May jump; never decides anything alone (RL8)."""

    def monotonic_ms(self) -> float:
        """Never goes back; only differences mean anything."""


class WorkClock(Clock, Protocol):
    """A clock that tells work from waiting for a processor."""

    def processor_ms(self) -> float:
        """Processor time of this thread; only differences mean anything."""


class Rng(Protocol):
    def random_bytes(self, count: int) -> bytes: ...

    def uniform(self, low: float, high: float) -> float: ...

    def chance(self, name: str) -> bool:
        """Always False in production; now and then True in simulation, to take the rare branch `name`."""


class ConnectionLost(Exception):
    """The peer is gone, was never there, or broke the protocol."""


class CallFailed(Exception):
    """A unary call was answered with an error: `code` is an ErrorCode."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Connection(Protocol):
    """Two ordered directions of whole frames."""

    @property
    def peer(self) -> str: ...

    async def send(self, frame: bytes) -> None:
        """Wait for flow control, then hand over. Raises `ConnectionLost`. One sender at a time."""

    async def receive(self) -> bytes:
        """The next frame. Raises `ConnectionLost` at the end. One receiver at a time."""

    def close(self) -> None: ...

    @property
    def is_gone(self) -> bool:
        """Nothing that is sent reaches the peer any more; what has arrived may still be received. A peer that only
        ends its own direction is still there."""

    def when_gone(self, wake: Callable[[], None] | None) -> None:
        """Call this when that happens, in place of what was to be called before; None: nothing."""


@dataclass(frozen=True, slots=True)
class Caller:
    """What the shell knows of who calls: what the peer itself sent, and what its certificate says."""

    peer: str
    authorization: str
    """Value of the `authorization` metadata, or empty."""
    identity: Identity | None
    """Which process of the cluster it is; None on the listener of clients."""
    request_id: str = ""
    connection: str = ""
    """Which of the peer's connections the call came on; empty where there is nothing to tell them apart."""
    principal: Principal | None = None
    """Whom the listener has admitted this call as."""


StreamHandler = Callable[[Caller, Connection], Awaitable[None]]
CallHandler = Callable[[Caller, bytes], Awaitable[bytes]]
WatchHandler = Callable[[Caller, bytes, Callable[[bytes], Awaitable[None]]], Awaitable[None]]


async def at_once(method: str, caller: Caller, request: bytes) -> None:
    """No turns: the `turn` of a service whose callers need none."""


def anyone(caller: Caller) -> AbstractContextManager[Principal | None]:
    """The `enter` of a service whose listener itself knows its callers by their certificates."""
    return nullcontext()


def require_broker(caller: Caller, broker: int) -> None:
    """Raises `CallFailed` unless the caller is that broker: none speaks for another."""
    if caller.identity is None or caller.identity.broker_id != broker:
        raise CallFailed(
            ErrorCode.FORBIDDEN, f"{caller.identity} speaks for broker {broker}, which it is not"
        )


@dataclass(frozen=True, slots=True)
class Service:
    """What a node offers, by method path. Handlers refuse by `CallFailed`; bad frames raise `FrameError`."""

    streams: dict[str, StreamHandler]
    calls: dict[str, CallHandler]
    watches: dict[str, WatchHandler]
    enter: Callable[[Caller], AbstractContextManager[Principal | None]]
    """Entered for each call and stream before anything that its caller sends is read, and left at its end: who is
    calling. Refuses by `CallFailed`.
    """
    turn: Callable[[str, Caller, bytes], Awaitable[None]]
    """Awaited before a call's handler, which begins in the same step. Who leaves meanwhile is not served."""


class Notices(Protocol):
    """What an operator is to read in the log."""

    def loss_declared(self, where: TopicPartition, loss: LossRecord) -> None:
        """This broker has declared a loss."""

    def store_refused(self, reason: str) -> None:
        """The metadata store may not be acted on."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another broker: who it is, and where its peer listener is."""

    broker: BrokerId
    address: str


def peer_of(record: BrokerRecord) -> Peer:
    """Where the registration says that it is."""
    return Peer(record.broker_id, record.peer_address)


class Transport(Protocol):
    """Outgoing connections to other brokers' peer listeners. Shows this broker's certificate by itself, and goes on
    only with a peer whose certificate says that it is the broker that is meant."""

    async def connect(self, peer: Peer, method: str, timeout_ms: int) -> Connection:
        """Open a bidirectional stream. Raises `ConnectionLost`."""

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        """One unary call. Raises `CallFailed`, `ConnectionLost` (outcome unknown)."""
