"""What both gRPC stacks share: channel options, credentials, call metadata, and a status read as an error
code.
"""

import os
from collections.abc import Sequence
from typing import Any

import grpc

from penstock.contract import limits, methods
from penstock.contract.errors import ConfigurationError, ErrorCode
from penstock.transport.address import SYSTEM_AUTHORITIES

CHANNEL_OPTIONS: list[tuple[str, int]] = [
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


def credentials(ca_file: str | None) -> grpc.ChannelCredentials | None:
    """TLS credentials, or None for plaintext. Raises `ConfigurationError` when the file cannot be read."""
    if ca_file is None:
        return None
    if ca_file == SYSTEM_AUTHORITIES:
        return grpc.ssl_channel_credentials()
    try:
        with open(os.path.expanduser(ca_file), "rb") as file:
            return grpc.ssl_channel_credentials(file.read())
    except OSError as error:
        raise ConfigurationError(f"ca_file: {ca_file}: {error.strerror}") from error


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
    """A failed call in one line."""
    what = details or (status.name.lower().replace("_", " ") if status is not None else "ended")
    return f"{address}: {what} (request {request_id})"
