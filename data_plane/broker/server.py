"""The two gRPC listeners: the client's (API keys) and the internal one (cluster secret)."""

import asyncio
import hmac
import logging
import secrets
import string
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import grpc

from data_plane.authz.access import Principal
from data_plane.broker.connection import GRPC_ERRORS, GrpcConnection
from data_plane.broker.grpc_options import CALLS_AT_ONCE_MAX, REQUEST_BYTES_MAX, server_options
from data_plane.contract.methods import CLUSTER_SECRET
from data_plane.node.ports import Caller, CallFailed, ConnectionLost, Service
from penstock.contract import limits
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.frames import FrameError
from penstock.contract.methods import AUTHORIZATION, ERROR_CODE, REQUEST_ID

_log = logging.getLogger("penstock.server")

_MESSAGE_LENGTH_MAX = 1_000
"""Status details travel as a header, which peers bound."""
_REQUEST_ID_LENGTH_MAX = 100
_ADDRESSES_LOGGED_MAX = 100
_REQUEST_ID_SIGNS = frozenset(string.ascii_letters + string.digits + "-_.:/")
_EXPECTED = (ConnectionLost, CallFailed, FrameError, PenstockError)

_STATUS = {
    ErrorCode.INTERNAL: grpc.StatusCode.INTERNAL,
    ErrorCode.INVALID_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    ErrorCode.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    ErrorCode.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    ErrorCode.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    ErrorCode.ALREADY_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    ErrorCode.LIMIT_EXCEEDED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.THROTTLED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.DISK_FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.OFFSET_OUT_OF_RANGE: grpc.StatusCode.OUT_OF_RANGE,
    ErrorCode.CORRUPT_LOG: grpc.StatusCode.DATA_LOSS,
    ErrorCode.OUTCOME_UNKNOWN: grpc.StatusCode.UNKNOWN,
}


class Listener(grpc.GenericRpcHandler):
    """One service on one listener, which offers nothing else. With a `cluster_secret` it is the internal one.

    `fault` gets each exception of a handler that is neither a refusal nor a lost peer: our own bug
    (RL140). A stream's or call's handler is not cancelled when its client goes: it learns so from its
    connection, or finishes what it has begun (RL19). A call that still waits for its turn has not begun, and ends. A
    watch's handler only tells, so it ends with its client.

    Calls and watches are served as streams, which is the same on the wire: grpc waits for the request of a unary
    call before it calls our code, so a client that sends none would keep a stream to which it was not admitted.
    """

    def __init__(
        self, service: Service, *, cluster_secret: str = "", fault: Callable[[BaseException], None]
    ) -> None:
        self._service, self._secret, self._fault = service, cluster_secret, fault
        self._handling: set[asyncio.Task[Any]] = set()
        """Strong references, never iterated."""
        self._turned_away: dict[str, int] = {}
        """How many calls of each address were not admitted since `turned_away` was asked."""

    @property
    def internal(self) -> bool:
        return bool(self._secret)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """The handler of a method, None (UNIMPLEMENTED) for every other one."""
        method = handler_call_details.method
        if method in self._service.streams:
            return grpc.stream_stream_rpc_method_handler(self._stream(method))
        if method in self._service.calls:
            return grpc.stream_stream_rpc_method_handler(self._call(method))
        if method in self._service.watches:
            return grpc.stream_stream_rpc_method_handler(self._watch(method))
        return None

    def _stream(self, method: str) -> Callable[[Any, Any], Awaitable[None]]:
        async def handle(_requests: Any, context: Any) -> None:
            async def act(caller: Caller) -> None:
                await context.send_initial_metadata(((REQUEST_ID, caller.request_id),))
                # The stream ends when its handler has returned.
                connection = GrpcConnection(
                    caller.peer, read=context.read, write=context.write, hang_up=lambda: None
                )
                try:
                    await asyncio.shield(
                        self._handle(method, caller, self._service.streams[method](caller, connection))
                    )
                except asyncio.CancelledError:
                    connection.lose("the peer is gone")
                    raise
                finally:
                    connection.stop_reading()

            await self._guarded(context, act)

        return handle

    def _call(self, method: str) -> Callable[[Any, Any], Awaitable[None]]:
        async def handle(_requests: Any, context: Any) -> None:
            async def act(caller: Caller) -> None:
                request = await _request(context)
                begun = False

                async def work() -> bytes:
                    nonlocal begun
                    await self._service.turn(method, caller, request)
                    begun = True
                    return await self._service.calls[method](caller, request)

                handling = self._handle(method, caller, work())
                try:
                    answer = await asyncio.shield(handling)
                except asyncio.CancelledError:
                    if not begun:
                        handling.cancel()
                    raise
                await _write(context, answer)

            await self._guarded(context, act)

        return handle

    def _watch(self, method: str) -> Callable[[Any, Any], Awaitable[None]]:
        async def handle(_requests: Any, context: Any) -> None:
            async def push(message: bytes) -> None:
                await _write(context, message)

            async def act(caller: Caller) -> None:
                request = await _request(context)
                await context.send_initial_metadata(((REQUEST_ID, caller.request_id),))
                try:
                    await self._service.watches[method](caller, request, push)
                except Exception as error:
                    self._judge(method, caller, error)
                    raise

            await self._guarded(context, act)

        return handle

    def _handle(self, method: str, caller: Caller, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """A handler in a task of its own: grpc cancels what waits for it."""
        task: asyncio.Task[Any] = asyncio.create_task(_as_coroutine(work))
        self._handling.add(task)

        def ended(done: asyncio.Task[Any]) -> None:
            self._handling.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                self._judge(method, caller, error)

        task.add_done_callback(ended)
        return task

    def _judge(self, method: str, caller: Caller, error: BaseException) -> None:
        if not isinstance(error, _EXPECTED):
            context = {"method": method, "peer": caller.peer, "request_id": caller.request_id}
            _log.error("handler failed", exc_info=error, extra=context)
            self._fault(error)

    async def _guarded(self, context: Any, act: Callable[[Caller], Awaitable[None]]) -> None:
        """Admit the call, then `act`. Refusals become a status with our code; a lost peer is no error."""
        caller = self._caller(context)
        try:
            with self._admitted(caller) as principal:
                await act(replace(caller, principal=principal))
            return
        except ConnectionLost:
            return
        except (CallFailed, PenstockError) as refusal:
            code, message = refusal.code, refusal.message
        except FrameError as wrong:
            code, message = ErrorCode.INVALID_REQUEST, str(wrong)
        except Exception:
            code, message = (
                ErrorCode.INTERNAL,
                f"the broker failed; see its log for request {caller.request_id}",
            )
        await _refuse(context, int(code), message, caller.request_id)

    @contextmanager
    def _admitted(self, caller: Caller) -> Iterator[Principal | None]:
        """Raises `CallFailed` before the block for a caller that may not enter, and counts the caller."""
        with ExitStack() as entered:
            try:
                self._admit(caller)
                principal = entered.enter_context(self._service.enter(caller))
            except CallFailed:
                if caller.peer in self._turned_away or len(self._turned_away) < _ADDRESSES_LOGGED_MAX:
                    self._turned_away[caller.peer] = self._turned_away.get(caller.peer, 0) + 1
                raise
            yield principal

    def turned_away(self) -> dict[str, int]:
        """How many calls were not admitted since this was asked last, by address."""
        found, self._turned_away = self._turned_away, {}
        return found

    def _admit(self, caller: Caller) -> None:
        """The internal listener takes the cluster secret and nothing else; raises `CallFailed`."""
        if not self.internal:
            return
        if not hmac.compare_digest(caller.cluster_secret.encode(), self._secret.encode()):
            raise CallFailed(ErrorCode.UNAUTHENTICATED, "the internal listener demands the cluster secret")
        if caller.authorization:
            raise CallFailed(ErrorCode.FORBIDDEN, "the internal listener takes no API keys")

    def _caller(self, context: Any) -> Caller:
        sent = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        return Caller(
            peer=_host(context.peer()),
            connection=context.peer(),
            authorization=sent.get(AUTHORIZATION, ""),
            cluster_secret=sent.get(CLUSTER_SECRET, "") if self.internal else "",
            internal=self.internal,
            request_id=_request_id(sent.get(REQUEST_ID, "")),
        )


async def _request(context: Any) -> bytes:
    """The one request of a call. Raises `CallFailed`."""
    try:
        async with asyncio.timeout(limits.FIRST_REQUEST_MS_MAX / 1000):
            request = await context.read()
    except TimeoutError:
        raise CallFailed(
            ErrorCode.INVALID_REQUEST, f"no request came within {limits.FIRST_REQUEST_MS_MAX} ms"
        ) from None
    except GRPC_ERRORS as error:
        raise ConnectionLost(str(error)) from None
    if not isinstance(request, bytes):
        raise CallFailed(ErrorCode.INVALID_REQUEST, "the call ended without a request")
    if len(request) > REQUEST_BYTES_MAX:
        raise CallFailed(
            ErrorCode.LIMIT_EXCEEDED,
            f"a request of {len(request)} bytes, at most {REQUEST_BYTES_MAX} allowed",
        )
    return request


async def _write(context: Any, message: bytes) -> None:
    try:
        await context.write(message)
    except GRPC_ERRORS as error:
        raise ConnectionLost(str(error)) from None


async def _as_coroutine(work: Awaitable[Any]) -> Any:
    return await work


async def _refuse(context: Any, code: int, message: str, request_id: str) -> NoReturn:
    try:
        status = _STATUS.get(ErrorCode(code), grpc.StatusCode.FAILED_PRECONDITION)
    except ValueError:
        status = grpc.StatusCode.UNKNOWN
    trailing = ((ERROR_CODE, str(code)), (REQUEST_ID, request_id))
    await context.abort(status, message[:_MESSAGE_LENGTH_MAX], trailing)
    raise AssertionError("abort raises")


def _request_id(sent: str) -> str:
    """The caller's own id when it may stand in a log, else a new one."""
    if 0 < len(sent) <= _REQUEST_ID_LENGTH_MAX and _REQUEST_ID_SIGNS.issuperset(sent):
        return sent
    return secrets.token_hex(8)


def _host(peer: str) -> str:
    """`ipv4:127.0.0.1:5000` -> `127.0.0.1`: the address without its port."""
    return peer.partition(":")[2].rpartition(":")[0] or peer


def bind(
    address: str, credentials: grpc.ServerCredentials | None, connections_max: int, streams_max: int
) -> tuple[grpc.aio.Server, int]:
    """A server that is bound but does not serve yet, and its port. Raises `OSError` when the address is
    taken.

    Clients that connect meanwhile wait; none is refused while the broker boots. Connections beyond `connections_max`
    are closed at once; calls beyond `streams_max` of one connection wait in the client.
    """
    options = server_options(connections_max, streams_max)
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=CALLS_AT_ONCE_MAX)
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
