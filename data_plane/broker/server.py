"""The two gRPC listeners: the client's (API keys) and the internal one of Admin calls (certificates)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import grpc

from daemon.handshakes import NO_IDENTITY, RefusedHandshakes
from daemon.identity import Identity, NoIdentity, identity_of_grpc
from daemon.tls import Credentials, OwnIdentity
from data_plane.authz.peers import PeerRules
from data_plane.broker.connection import GRPC_ERRORS, GrpcConnection
from data_plane.broker.grpc_options import CALLS_AT_ONCE_MAX, server_options
from data_plane.broker.handling import Handlers, TurnedAway, check_request, refusal_of, request_id_of
from data_plane.broker.internal_handshakes import InternalHandshakes
from data_plane.broker.strangers import Strangers
from data_plane.contract.methods import LOOKS
from data_plane.node.ports import Caller, CallFailed, ConnectionLost, Service
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.contract.methods import AUTHORIZATION, ERROR_CODE, REQUEST_ID

_MESSAGE_LENGTH_MAX = 1_000
"""Status details travel as a header, which peers bound."""

_LOOKS_DIGITS_MAX = 6

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
    """One service on one listener, which offers nothing else. With `rules` it is the internal one, for processes of the
    cluster: their certificates say who they are. `handshakes` are those of `credentials_within`, None where they are
    not used. `strangers` hear of each connection from which a call is admitted.

    `fault` gets each exception of a handler that is neither a refusal nor a lost peer: our own bug
    (RL140). A stream's or call's handler is not cancelled when its client goes: it learns so from its
    connection, or finishes what it has begun (RL19). A call that still waits for its turn has not begun, and ends. A
    watch's handler only tells, so it ends with its client.

    Calls and watches are served as streams, which is the same on the wire: grpc waits for the request of a unary
    call before it calls our code, so a client that sends none would keep a stream to which it was not admitted.
    """

    def __init__(
        self,
        service: Service,
        *,
        rules: PeerRules | None = None,
        handshakes: InternalHandshakes | None,
        refused_handshakes: RefusedHandshakes,
        strangers: Strangers,
        fault: Callable[[BaseException], None],
    ) -> None:
        self._strangers = strangers
        self._service = service
        self._rules = rules
        self._refused_handshakes = refused_handshakes
        self._internal_handshakes = handshakes
        self._handlers = Handlers(fault)
        self._turned_away = TurnedAway()

    @property
    def name(self) -> str:
        return "client" if self._rules is None else "internal"

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
                connection = GrpcConnection(caller.peer, read=context.read, write=context.write)
                try:
                    await asyncio.shield(
                        self._handlers.start(
                            method, caller, self._service.streams[method](caller, connection)
                        )
                    )
                except asyncio.CancelledError:
                    connection.lose("the peer is gone")
                    raise
                finally:
                    connection.stop_reading()

            await self._guarded(method, context, act)

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

                handling = self._handlers.start(method, caller, work())
                try:
                    answer = await asyncio.shield(handling)
                except asyncio.CancelledError:
                    if not begun:
                        handling.cancel()
                    raise
                await _write(context, answer)

            await self._guarded(method, context, act)

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
                    self._handlers.judge(method, caller, error)
                    raise

            await self._guarded(method, context, act)

        return handle

    async def _guarded(self, method: str, context: Any, act: Callable[[Caller], Awaitable[None]]) -> None:
        """Admit the call, then `act`. Refusals become a status with our code; a lost peer is no error."""
        caller = self._caller(context)
        try:
            with self._admitted(method, caller, context) as admitted:
                await act(admitted)
            return
        except Exception as error:
            refusal = refusal_of(error, caller.request_id)
        if refusal is not None:
            await _refuse(context, *refusal, caller.request_id)

    @contextmanager
    def _admitted(self, method: str, caller: Caller, context: Any) -> Iterator[Caller]:
        """The caller as it was admitted. Raises `CallFailed` before the block for one that may not enter, and counts
        it."""
        with ExitStack() as entered:
            try:
                known = replace(caller, identity=self.identify(method, caller, context))
                principal = entered.enter_context(self._service.enter(known))
            except CallFailed as refused:
                self._turned_away.count(caller.peer, refused.message)
                raise
            self._strangers.admitted(caller.connection)
            yield replace(known, principal=principal)

    def turned_away(self) -> dict[str, int]:
        """How many calls were not admitted since this was asked last, by address."""
        return self._turned_away.take()

    @property
    def last_reason(self) -> str:
        """Why the last of them was not."""
        return self._turned_away.reason

    def identify(self, method: str, caller: Caller, context: Any) -> Identity | None:
        """Who calls the internal listener, by its certificate alone; None on the clients'. Raises `CallFailed`."""
        if self._rules is None:
            return None
        if self._internal_handshakes is not None:
            self._internal_handshakes.called(caller.connection)
        try:
            identity = identity_of_grpc(context.auth_context())
        except NoIdentity as wrong:
            self._refused_handshakes.count(self.name, NO_IDENTITY)
            raise CallFailed(ErrorCode.UNAUTHENTICATED, str(wrong)) from None
        refusal = self._rules.refusal(identity, method)
        if refusal is not None:
            self._refused_handshakes.count(self.name, refusal.reason)
            raise CallFailed(ErrorCode.UNAUTHENTICATED, refusal.message)
        if caller.authorization:
            raise CallFailed(ErrorCode.FORBIDDEN, "the internal listener takes no API keys")
        if self._internal_handshakes is not None:
            self._internal_handshakes.looked(_looks(context))
        return identity

    def _caller(self, context: Any) -> Caller:
        sent = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        return Caller(
            peer=_host(context.peer()),
            connection=context.peer(),
            authorization=sent.get(AUTHORIZATION, ""),
            identity=None,
            request_id=request_id_of(sent.get(REQUEST_ID, "")),
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
    check_request(request)
    return request


async def _write(context: Any, message: bytes) -> None:
    try:
        await context.write(message)
    except GRPC_ERRORS as error:
        raise ConnectionLost(str(error)) from None


async def _refuse(context: Any, code: int, message: str, request_id: str) -> NoReturn:
    try:
        status = _STATUS.get(ErrorCode(code), grpc.StatusCode.FAILED_PRECONDITION)
    except ValueError:
        status = grpc.StatusCode.UNKNOWN
    trailing = ((ERROR_CODE, str(code)), (REQUEST_ID, request_id))
    await context.abort(status, message[:_MESSAGE_LENGTH_MAX], trailing)
    raise AssertionError("abort raises")


def credentials_within(identity: OwnIdentity, handshakes: InternalHandshakes) -> grpc.ServerCredentials:
    """Of the internal listener: they demand a certificate, and each handshake is made with the newest files."""
    given = identity.current

    def newest() -> Any:
        nonlocal given
        handshakes.began()
        if identity.current is given:
            return None
        given = identity.current
        return _certificates(given)

    return grpc.dynamic_ssl_server_credentials(
        _certificates(given), newest, require_client_authentication=True
    )


def _certificates(credentials: Credentials) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(credentials.key, credentials.certificate)], root_certificates=credentials.ca
    )


def _looks(context: Any) -> int:
    said = str(dict(context.invocation_metadata() or ()).get(LOOKS, ""))
    return int(said) if said.isascii() and said.isdigit() and len(said) <= _LOOKS_DIGITS_MAX else 0


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
