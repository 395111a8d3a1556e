"""The fake cluster behind real gRPC listeners, in one thread: for what real brokers cannot be told to do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Self, TypeVar

import grpc

from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2
from penstock.transport.grpc_terms import CHANNEL_OPTIONS
from tests.unit.client.fake_cluster import ConsumeSession, FakeCluster, Refused
from tests.waiting import PATIENCE_S

_T = TypeVar("_T")


class FakeBrokers:
    """`count` brokers; a context manager. `act` runs a function of the cluster in the brokers' thread.

    `api_key`: what a caller must send, None = anything.
    """

    def __init__(
        self,
        count: int = 3,
        api_key: str | None = None,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self.cluster = FakeCluster({})
        self.api_key = api_key
        self._credentials = credentials
        self._count = count
        self._servers: dict[int, grpc.aio.Server] = {}
        self._wakes: list[asyncio.Event] = []
        self.request_ids: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-brokers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    @property
    def bootstrap(self) -> list[str]:
        return [self.cluster.brokers[broker] for broker in sorted(self.cluster.brokers)]

    def act(self, work: Callable[[FakeCluster], _T]) -> _T:
        """Run `work(cluster)` where the brokers run, and return what it returns."""

        async def run() -> _T:
            return work(self.cluster)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_S)

    def kill(self, broker: int) -> None:
        """End one broker's listener with everything on it; the others elect leaders."""

        async def run() -> None:
            await self._servers.pop(broker).stop(0)
            self.cluster.unregister(broker)

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_S)

    async def _start(self) -> None:
        self.cluster.listeners.append(self._changed)
        for broker in range(self._count):
            server = grpc.aio.server(options=CHANNEL_OPTIONS)
            server.add_generic_rpc_handlers((_Listener(self, broker),))
            if self._credentials is None:
                port = server.add_insecure_port("127.0.0.1:0")
            else:
                port = server.add_secure_port("127.0.0.1:0", self._credentials)
            self.cluster.brokers[broker] = self.cluster.registered[broker] = f"127.0.0.1:{port}"
            await server.start()
            self._servers[broker] = server

    async def _stop(self) -> None:
        for server in self._servers.values():
            await server.stop(0)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _changed(self) -> None:
        for wake in self._wakes:
            wake.set()

    async def changes(self) -> AsyncIterator[None]:
        """Once now and after each change of the cluster."""
        wake = asyncio.Event()
        self._wakes.append(wake)
        try:
            while True:
                yield
                await wake.wait()
                wake.clear()
        finally:
            self._wakes.remove(wake)


class _Listener(grpc.GenericRpcHandler):
    def __init__(self, brokers: FakeBrokers, broker: int) -> None:
        self._brokers = brokers
        self._cluster = brokers.cluster
        self._broker = broker

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = handler_call_details.method
        if method == methods.PRODUCE:
            return grpc.stream_stream_rpc_method_handler(self._produce)
        if method == methods.CONSUME:
            return grpc.stream_stream_rpc_method_handler(self._consume)
        if method == methods.WATCH_METADATA:
            return grpc.unary_stream_rpc_method_handler(self._watch)

        async def call(request: bytes, context: Any) -> bytes:
            await self._admit(context)
            await self._speak()
            try:
                return self._cluster.call(self._broker, method, request)
            except Refused as refused:
                await context.abort(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    refused.message,
                    ((methods.ERROR_CODE, str(int(refused.code))),),
                )
                raise

        return grpc.unary_unary_rpc_method_handler(call)

    async def _admit(self, context: Any) -> None:
        sent = dict(context.invocation_metadata() or ())
        self._brokers.request_ids.append(sent.get(methods.REQUEST_ID, ""))
        if self._brokers.api_key is not None and sent.get(methods.AUTHORIZATION) != (
            f"Bearer {self._brokers.api_key}"
        ):
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "the API key is not valid",
                ((methods.ERROR_CODE, str(int(ErrorCode.UNAUTHENTICATED))),),
            )

    async def _speak(self) -> None:
        """A silent broker never comes back from here."""
        if self._broker in self._cluster.silent:
            await asyncio.Event().wait()

    async def _produce(self, requests: Any, context: Any) -> None:
        await self._admit(context)
        await self._speak()
        await context.write(self._cluster.opening())
        async for frame in requests:
            await self._speak()
            await context.write(self._cluster.produce(self._broker, frame))

    async def _consume(self, requests: Any, context: Any) -> None:
        await self._admit(context)
        await self._speak()
        session = ConsumeSession(self._cluster, self._broker)
        taking = asyncio.create_task(self._take(requests, session))
        async for _ in self._brokers.changes():
            await self._speak()
            for push in session.pushes():
                await context.write(push)
            if taking.done():
                return

    async def _take(self, requests: Any, session: ConsumeSession) -> None:
        async for frame in requests:
            session.take(frame)
            self._cluster.tell_consumers()
        self._cluster.tell_consumers()

    async def _watch(self, request: bytes, context: Any) -> None:
        await self._admit(context)
        await self._speak()
        wanted = log_pb2.WatchMetadataRequest.FromString(request)
        told = -1
        async for _ in self._brokers.changes():
            await self._speak()
            if self._cluster.revision != told:
                told = self._cluster.revision
                await context.write(self._cluster.metadata(list(wanted.topics)))
