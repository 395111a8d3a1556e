"""The transport of the asyncio runtime: production gives it grpc.aio, a simulation its own network."""

from collections.abc import AsyncIterator
from typing import Protocol


class ConnectionLost(Exception):
    """The broker is gone, was never there, or ended the stream; with its reason as an `ErrorCode` if it
    gave one.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class CallFailed(Exception):
    """A unary call or a watch was answered with an error: `code` is an `ErrorCode`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Connection(Protocol):
    """Two ordered directions of whole frames."""

    async def send(self, frame: bytes) -> None:
        """Wait for flow control, then hand over. Raises `ConnectionLost`. One sender at a time."""

    async def receive(self) -> bytes:
        """The next frame. Raises `ConnectionLost` at the end. One receiver at a time."""

    async def end(self) -> None:
        """End the sending direction in order; the broker then ends the other."""

    def close(self) -> None:
        """End both at once."""


class Transport(Protocol):
    """Outgoing connections to brokers' client listeners; carries the API key by itself."""

    async def connect(self, address: str, method: str, timeout_ms: int) -> Connection:
        """Open a bidirectional stream. Raises `ConnectionLost`."""

    async def call(self, address: str, method: str, request: bytes, timeout_ms: int) -> bytes:
        """One unary call. Raises `CallFailed`, `ConnectionLost` (outcome unknown)."""

    def watch(self, address: str, method: str, request: bytes) -> AsyncIterator[bytes]:
        """Answers to one request for as long as they come. Raises `CallFailed`, `ConnectionLost`."""

    async def close(self) -> None:
        """End every connection."""
