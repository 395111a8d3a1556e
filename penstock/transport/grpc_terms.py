"""What both gRPC stacks share: channel options, credentials, call metadata, and a status read as an error
code.
"""

from collections.abc import Sequence
from typing import Any

import grpc

from penstock.contract import limits, methods
from penstock.contract.errors import ErrorCode
from penstock.transport.address import SYSTEM_AUTHORITIES
from penstock.transport.authorities import certificates

NO_PROXY = ("grpc.enable_http_proxy", 0)
"""gRPC would ask the proxy of the environment for every broker, those of this machine too, and give it the key."""
CHANNEL_OPTIONS: list[tuple[str, int]] = [
    NO_PROXY,
    ("grpc.max_receive_message_length", limits.FRAME_BYTES_MAX),
    ("grpc.max_send_message_length", limits.FRAME_BYTES_MAX),
    ("grpc.http2.max_frame_size", 1 << 20),
    # A broker that comes back is found at once; the core itself decides how often to try.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    # Clients of one process share no connections, so that one never waits for the other's flow control.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
]
REQUEST_ID_BYTES = 8

_CODES: dict[grpc.StatusCode, ErrorCode] = {
    grpc.StatusCode.UNAUTHENTICATED: ErrorCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED: ErrorCode.FORBIDDEN,
    grpc.StatusCode.UNIMPLEMENTED: ErrorCode.INVALID_REQUEST,
    grpc.StatusCode.INVALID_ARGUMENT: ErrorCode.INVALID_REQUEST,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ErrorCode.THROTTLED,
}
"""For answers that name no code of ours. Every other status is a lost connection: another attempt may fare
better.
"""

_UNCONNECTED = ("failed to connect", "errors resolving")
_CAUSES = (
    ("Connection refused", "connection refused: nothing listens there"),
    ("errors resolving", "its host name cannot be resolved"),
    (
        "WRONG_VERSION_NUMBER",
        "it does not speak TLS, which ca_file asks for: leave ca_file out, or name its TLS port",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is not trusted: none of the authorities in ca_file signed it, or it has expired",
    ),
    ("Hostname Verification Check failed", "its certificate is for other host names than this one"),
    (
        "Socket closed",
        "it closed the connection before a word was said: if it speaks TLS, set ca_file",
    ),
    ("Failed parsing HTTP/2", "what listens there is no broker: it does not speak HTTP/2"),
)
"""What grpc says of a connection that was not made, and what that means."""


def credentials(ca_file: str | None) -> grpc.ChannelCredentials | None:
    """TLS credentials, or None for plaintext. Raises `ConfigurationError` for a file that holds no certificates."""
    if ca_file is None:
        return None
    if ca_file == SYSTEM_AUTHORITIES:
        return grpc.ssl_channel_credentials()
    return grpc.ssl_channel_credentials(certificates(ca_file))


def call_metadata(api_key: str | None, request_id: str) -> tuple[tuple[str, str], ...]:
    """The key, and an id by which the broker's log tells this request."""
    own = ((methods.REQUEST_ID, request_id),)
    return own if api_key is None else ((methods.AUTHORIZATION, f"Bearer {api_key}"), *own)


def code_of(status: grpc.StatusCode | None, trailing: Sequence[tuple[Any, Any]] | None) -> int | None:
    """The `ErrorCode` that a broker ended a call with; None = the connection broke."""
    for name, value in trailing or ():
        if name == methods.ERROR_CODE:
            try:
                return int(value)
            except ValueError:
                return int(ErrorCode.INTERNAL)
    return None if status is None else _CODES.get(status)


def describe(address: str, status: grpc.StatusCode | None, details: str | None, request_id: str) -> str:
    """A failed call in one line: the cause where no connection was made, else what the broker said of this request."""
    if details is not None and details.startswith(_UNCONNECTED):
        for sign, meaning in _CAUSES:
            if sign in details:
                return f"{address}: {meaning}"
    what = details or (status.name.lower().replace("_", " ") if status is not None else "ended")
    return f"{address}: {what} (request {request_id})"
