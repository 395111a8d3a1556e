"""What the parts of a client use of its core, and the core of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.client.actions import Action
from penstock.client.cluster_view import ClusterView, TopicView
from penstock.contract.errors import PenstockError

OnAnswer = Callable[[bytes, float], None]
OnFailure = Callable[[PenstockError, float], None]


@dataclass(slots=True, eq=False)
class BrokerRequest:
    """One unary request. `broker` None = any broker can answer it."""

    method: str
    payload: bytes
    deadline: float
    on_answer: OnAnswer
    on_failure: OnFailure
    broker: int | None
    once: bool = False
    """The first failure is the answer; the caller decides what comes next."""
    retry_at: float = 0.0
    attempts: int = 0
    try_ms: int = 0
    """Time that its last try had."""
    token: int = -1
    address: str = ""
    errors: dict[str, PenstockError] = field(default_factory=dict)
    """Last failure by address, for the error when all is lost."""


class UnencodedFrame(Protocol):
    """A frame that is encoded outside the client's lock."""

    def encode(self) -> bytes: ...

    def encoded(self, token: int) -> None:
        """It has become a frame of this stream. Called under the lock, before the frame is sent."""


class StreamOwner(Protocol):
    """A producer or a consumer, as the core drives it."""

    def step(self, now: float) -> None:
        """Do what the clock demands."""

    def next_step_at(self) -> float:
        """When `step` is due by the clock alone."""

    def topic_changed(self, view: TopicView, now: float) -> None:
        """The view of a topic that it watches has changed."""

    def frame_received(self, token: int, frame: bytes, now: float) -> None:
        """Raises `FrameError` for a frame that cannot be read."""

    def stream_lost(self, token: int, code: int | None, message: str, now: float) -> None:
        """One of its streams ended. `code` is an `ErrorCode` if the broker gave one."""

    def next_outgoing(self, token: int, now: float) -> tuple[UnencodedFrame | bytes | None, float]:
        """What its stream sends next, or None and when to look again."""

    def close(self, now: float) -> None: ...


class Network(Protocol):
    """What producers, consumers and group members use of the core."""

    view: ClusterView
    changed: bool
    """Set it where a waiting caller must look again."""

    def attend(self) -> None:
        """Let `step` come soon."""

    def attend_at(self, at: float) -> None:
        """Let `step` come by this time."""

    def wake_writer(self, token: int, at: float = 0.0) -> None:
        """Let a stream look for a frame, at this time (0 = now)."""

    def open_stream(self, owner: StreamOwner, address: str, method: str) -> int:
        """Returns the stream's token, under which `owner` hears of it."""

    def close_stream(self, token: int, *, gently: bool = False, last: tuple[bytes, ...] = ()) -> None: ...

    def send_request(
        self,
        method: str,
        payload: bytes,
        *,
        deadline: float,
        on_answer: OnAnswer,
        on_failure: OnFailure,
        broker: int | None = None,
        once: bool = False,
    ) -> BrokerRequest:
        """Ask `broker` (None = any) until answered or `deadline`, or `once`; one of the callbacks comes, later."""

    def cancel_request(self, request: BrokerRequest) -> None:
        """Neither callback comes any more."""

    def watch_topic(self, name: str, owner: StreamOwner) -> TopicView | None:
        """The topic as known now, or None while the core asks for it; `owner` hears of its changes."""

    def forget_topic(self, name: str, owner: StreamOwner) -> None: ...

    def refresh(self, now: float) -> None:
        """Ask for the metadata of all topics in use, soon."""


class Connections(Protocol):
    """What requests and metadata watches use of the core: addresses, and calls and streams to them."""

    view: ClusterView

    @property
    def address_count(self) -> int: ...

    def address_for(self, broker: int | None, avoid: list[str] | None = None) -> str | None: ...

    def address_failed(self, address: str, why: str, now: float) -> None: ...

    def address_works(self, address: str) -> None: ...

    def answered(self) -> None: ...

    def new_token(self) -> int: ...

    def act(self, action: Action) -> None: ...

    def open_watch(self, address: str, method: str, request: bytes) -> int: ...

    def close_stream(self, token: int, *, gently: bool = False, last: tuple[bytes, ...] = ()) -> None: ...

    def refresh(self, now: float) -> None: ...
