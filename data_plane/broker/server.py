"""The two gRPC listeners: the client's (API keys) and the internal one (cluster secret)."""

import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from data_plane.broker.connection import ServedConnection
from data_plane.broker.grpc_options import CHANNEL_OPTIONS
from data_plane.contract.methods import CLUSTER_SECRET
from data_plane.node.ports import Caller, CallFailed, ConnectionLost, Service
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.frames import FrameError
from penstock.contract.methods import AUTHORIZATION, ERROR_CODE, REQUEST_ID

_log = logging.getLogger("penstock.server")

_STATUS = {
    ErrorCode.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    ErrorCode.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    ErrorCode.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    ErrorCode.INVALID_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    ErrorCode.THROTTLED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.INTERNAL: grpc.StatusCode.INTERNAL,
}


class Listener(grpc.GenericRpcHandler):
    """One service on one listener. `ours` says whether a fault inside a handler is this process's end
    (RL140)."""

    def __init__(
        self, service: Service, *, cluster_secret: str = "", fault: Callable[[BaseException], None]
    ) -> None:
        self._service, self._secret, self._fault = service, cluster_secret, fault

    @property
    def internal(self) -> bool:
        return bool(self._secret)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """The handler of a method, None (UNIMPLEMENTED) for every other one."""
        method = handler_call_details.method
        if method in self._service.streams:
            return grpc.stream_stream_rpc_method_handler(self._stream(method))
        if method in self._service.calls:
            return grpc.unary_unary_rpc_method_handler(self._call(method))
        if method in self._service.watches:
            return grpc.unary_stream_rpc_method_handler(self._watch(method))
        return None

    def _caller(self, context: Any) -> Caller:
        sent = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        return Caller(
            peer=_host(context.peer()),
            authorization=sent.get(AUTHORIZATION, ""),
            cluster_secret=sent.get(CLUSTER_SECRET, ""),
            internal=self.internal,
            request_id=sent.get(REQUEST_ID, "")[:100],
        )

    def _stream(self, method: str) -> Callable[[Any, Any], Awaitable[None]]:
        async def handle(requests: Any, context: Any) -> None:
            async def act(caller: Caller) -> None:
                await context.send_initial_metadata(())
                connection = ServedConnection(context, caller.peer)
                await self._service.streams[method](caller, connection)

            await self._guarded(method, context, act)

        return handle

    def _call(self, method: str) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def handle(request: bytes, context: Any) -> bytes:
            async def act(caller: Caller) -> bytes:
                return await self._service.calls[method](caller, request)

            answer: bytes = await self._guarded(method, context, act)
            return answer

        return handle

    def _watch(self, method: str) -> Callable[[bytes, Any], Awaitable[None]]:
        async def handle(request: bytes, context: Any) -> None:
            async def push(message: bytes) -> None:
                try:
                    await context.write(message)
                except (grpc.RpcError, grpc.aio.BaseError) as error:
                    raise ConnectionLost(str(error)) from None

            async def act(caller: Caller) -> None:
                await self._service.watches[method](caller, request, push)

            await self._guarded(method, context, act)

        return handle

    async def _guarded(self, method: str, context: Any, act: Callable[[Caller], Awaitable[Any]]) -> Any:
        """Refusals become a status with our code; a lost peer is no error; anything else is our own bug."""
        caller = self._caller(context)
        try:
            if self.internal and not hmac.compare_digest(
                caller.cluster_secret.encode(), self._secret.encode()
            ):
                raise CallFailed(
                    ErrorCode.UNAUTHENTICATED, "the internal listener demands the cluster secret"
                )
            return await act(caller)
        except ConnectionLost:
            return b""
        except CallFailed as refusal:
            code, message = refusal.code, refusal.message
        except FrameError as wrong:
            code, message = ErrorCode.INVALID_REQUEST, str(wrong)
        except PenstockError as refusal:
            code, message = refusal.code, refusal.message
        except Exception as bug:
            _log.exception("handler failed", extra={"method": method, "request_id": caller.request_id})
            self._fault(bug)
            code, message = ErrorCode.INTERNAL, "the broker failed"
        status = _STATUS.get(ErrorCode(code), grpc.StatusCode.FAILED_PRECONDITION)
        await context.abort(status, message, ((ERROR_CODE, str(int(code))),))


def _host(peer: str) -> str:
    """`ipv4:127.0.0.1:5000` -> `127.0.0.1`: the address without its port."""
    return peer.partition(":")[2].rpartition(":")[0] or peer


def bind(address: str, credentials: grpc.ServerCredentials | None) -> tuple[grpc.aio.Server, int]:
    """A server that is bound but does not serve yet, and its port. Raises `OSError` when the address is taken.

    Who connects meanwhile waits: nobody is refused while the broker boots.
    """
    server = grpc.aio.server(options=CHANNEL_OPTIONS)
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise OSError(f"{address}: cannot be bound: {error}") from None
    if port == 0:
        raise OSError(f"{address}: cannot be bound")
    return server, port
