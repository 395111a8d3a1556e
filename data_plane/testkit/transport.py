"""The Transport port over the simulated network, for brokers and for clients, and the serving side of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any

from daemon.identity import Identity
from data_plane.authz.peers import PeerRules
from data_plane.node.ports import (
    Caller,
    CallFailed,
    ConnectionLost,
    Peer,
    Service,
    StreamHandler,
    WatchHandler,
)
from data_plane.testkit.connection import Ending, Endpoint, Opening, StreamRefused, caller_of
from data_plane.testkit.loop import Process
from data_plane.testkit.network import Listener, Network
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.frames import FrameError
from penstock.contract.ids import BrokerId

_CANCEL_WITHIN_S = 0.02


class SimTransport:
    """Outgoing connections of one process."""

    def __init__(
        self, network: Network, process: Process, host: str, *, identity: Identity | None = None,
        authorization: str = "",
    ) -> None:  # fmt: skip
        self._network = network
        self._process = process
        self._host = host
        self._identity = identity
        self._authorization = authorization

    async def connect(
        self, address: str, method: str, timeout_ms: int, meant: BrokerId | None = None
    ) -> Endpoint:
        """Open a bidirectional stream. Raises `ConnectionLost`."""
        network = self._network
        accepted: asyncio.Future[None] = network.loop.create_future()
        endpoint = self._open(address, method, accepted, meant)
        if network.rng.random() < network.settings.eager_connect_chance:
            return endpoint
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await accepted
        except TimeoutError:
            endpoint.close()
            raise ConnectionLost(f"{address}: no answer within {timeout_ms} ms") from None
        except asyncio.CancelledError:
            endpoint.close()
            raise
        if endpoint.lost:
            raise ConnectionLost(f"{address}: refused")
        return endpoint

    async def call(
        self, address: str, method: str, request: bytes, timeout_ms: int, meant: BrokerId | None = None
    ) -> bytes:
        """One unary call. Raises `CallFailed`, `ConnectionLost` (outcome unknown)."""
        endpoint = self._open(address, method, None, meant)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await endpoint.send(request)
                return await endpoint.receive()
        except TimeoutError:
            raise ConnectionLost(f"{address}: no answer within {timeout_ms} ms") from None
        except StreamRefused as refusal:
            raise CallFailed(refusal.code, refusal.message) from None
        finally:
            endpoint.close()

    async def watch(self, address: str, method: str, request: bytes) -> AsyncIterator[bytes]:
        """Answers pushed by the server for as long as it serves. Raises `CallFailed`, `ConnectionLost`."""
        endpoint = self._open(address, method, None)
        try:
            await endpoint.send(request)
            while True:
                yield await endpoint.receive()
        except StreamRefused as refusal:
            raise CallFailed(refusal.code, refusal.message) from None
        finally:
            endpoint.close()

    def _open(
        self,
        address: str,
        method: str,
        accepted: asyncio.Future[None] | None,
        meant: BrokerId | None = None,
    ) -> Endpoint:
        network = self._network
        endpoint = Endpoint(
            network,
            self._process,
            self._host,
            peer=address,
            peer_host=network.host_of(address),
            accept=lambda endpoint, opening: _arrived(network, endpoint, opening, accepted),
        )
        if accepted is not None:
            endpoint.on_gone = lambda: _resolve(accepted)
        endpoint.transmit(
            Opening(
                address=address,
                method=method,
                authorization=self._authorization,
                identity=self._identity,
                meant=meant,
            )
        )
        return endpoint


class SimPeers:
    """The Transport port: outgoing connections of one broker to others."""

    def __init__(self, network: Network, process: Process, host: str, identity: Identity) -> None:
        self._transport = SimTransport(network, process, host, identity=identity)

    async def connect(self, peer: Peer, method: str, timeout_ms: int) -> Endpoint:
        """Open a bidirectional stream. Raises `ConnectionLost`."""
        return await self._transport.connect(peer.address, method, timeout_ms, peer.broker)

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        """One unary call. Raises `CallFailed`, `ConnectionLost` (outcome unknown)."""
        return await self._transport.call(peer.address, method, request, timeout_ms, peer.broker)


def _arrived(
    network: Network, client: Endpoint, opening: Opening, accepted: asyncio.Future[None] | None
) -> None:
    """An opening reached its host: the kernel accepts it, or says that no process listens, or there is no
    kernel.
    """
    listener = network.listener(opening.address)
    if listener is None:
        if not network.ask_dark(client.peer_host, client):
            client.lose_later("no process listens there")
        return
    if opening.meant is not None and (
        listener.identity is None or listener.identity.broker_id != opening.meant
    ):
        client.lose_later(f"what listens there is {listener.identity}, broker {opening.meant} was meant")
        return
    name = network.new_peer_name(client.host)
    server = Endpoint(network, listener.process, listener.host, peer=name, peer_host=client.host)
    server.peer_end, client.peer_end = client, server
    caller = caller_of(opening, name, within=listener.rules is not None)
    network.loop.call_soon(
        _accept, network, listener, opening.method, caller, server, accepted, context=listener.process.context
    )


def _accept(
    network: Network, listener: Listener, method: str, caller: Caller, server: Endpoint,
    accepted: asyncio.Future[None] | None,
) -> None:  # fmt: skip
    """Runs in the serving process: a paused one accepts when it is resumed."""
    if accepted is not None:
        link = network.link(server.host, server.peer_host)
        network.once_open(link, lambda: network.after(network.delay_s(link, 64), _resolve, accepted))
    service = listener.service
    if listener.rules is not None and (refused := _refused(listener.rules, caller, method)) is not None:
        server.finish(Ending(refused))
        return
    work: Callable[[], Coroutine[Any, Any, None]]
    if method in service.streams:
        work = partial(_serve_stream, service.streams[method], caller, server)
    elif method in service.calls:
        work = partial(_serve_call, service, method, caller, server)
    elif method in service.watches:
        work = partial(_serve_watch, service.watches[method], caller, server)
    else:
        server.finish(Ending(CallFailed(ErrorCode.INVALID_REQUEST, f"{method}: no such method")))
        return
    task = network.loop.spawn(
        listener.process, _answering(network, listener, server, work), name=method.rpartition("/")[2]
    )
    if network.rng.random() < network.settings.cancel_chance:
        within_s = network.rng.random() * _CANCEL_WITHIN_S
        server.on_gone = lambda: network.after(within_s, _cancel, network, listener.process, task)


def _refused(rules: PeerRules, caller: Caller, method: str) -> CallFailed | None:
    """As the listeners of a broker do: by what the certificate says, before anything of the caller is read."""
    if caller.identity is None:
        return CallFailed(ErrorCode.UNAUTHENTICATED, "no certificate was shown")
    refusal = rules.refusal(caller.identity, method)
    return None if refusal is None else CallFailed(ErrorCode.UNAUTHENTICATED, refusal.message)


async def _answering(
    network: Network, listener: Listener, server: Endpoint, work: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Run a handler and end its connection with what it raised."""
    ending = Ending()
    try:
        await work()
    except CallFailed as refusal:
        ending = Ending(refusal)
    except FrameError as error:
        ending = Ending(CallFailed(ErrorCode.INVALID_REQUEST, str(error)))
    except PenstockError as refusal:
        ending = Ending(CallFailed(refusal.code, refusal.message))
    except ConnectionLost:
        pass
    except Exception as error:
        ending = Ending(CallFailed(ErrorCode.INTERNAL, f"{type(error).__name__}: {error}"))
        if listener.failed is not None:
            listener.failed(error)
        else:
            network.loop.call_exception_handler(
                {"message": "a handler failed", "exception": error, "task": asyncio.current_task()}
            )
    finally:
        server.finish(ending)


async def _serve_stream(handler: StreamHandler, caller: Caller, server: Endpoint) -> None:
    await handler(caller, server)


async def _serve_call(service: Service, method: str, caller: Caller, server: Endpoint) -> None:
    request = await server.receive()
    await service.turn(method, caller, request)
    await server.send(await service.calls[method](caller, request))


async def _serve_watch(handler: WatchHandler, caller: Caller, server: Endpoint) -> None:
    await handler(caller, await server.receive(), server.send)


def _cancel(network: Network, process: Process, task: asyncio.Task[None]) -> None:
    if process.alive and not task.done():
        network.loop.call_soon(task.cancel, context=process.context)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
