"""The least that a flood of REST calls can cost: a server that knows no one and refuses every call after a second.

    python -m benchmarks.refusing

It prints its port. The same clients as those of the load `rest` flood it, so what they and the network cost a
neighbour is seen without the service's own part.
"""

import asyncio

DELAY_S = 1.0
"""As long as the web application delays a refusal at most."""
_ANSWER = (
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Type: application/problem+json\r\n"
    b"Content-Length: 2\r\n\r\n{}"
)


class _Refusing(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """One call of `benchmarks.hostile` comes at once, and the next after the answer."""
        asyncio.get_running_loop().call_later(DELAY_S, self._refuse)

    def _refuse(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_ANSWER)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Refusing, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
