"""gRPC settings of every channel and server of a broker."""

from penstock.contract import limits

_SLACK = limits.MIB
"""A frame a little over its limit is still read, so that it can be refused with a clear error."""

_SHARED: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", limits.FRAME_BYTES_MAX + _SLACK),
    ("grpc.max_send_message_length", limits.FRAME_BYTES_MAX + _SLACK),
    ("grpc.http2.max_frame_size", limits.MIB),
)
"""Frames go whole into few HTTP/2 frames."""

_RECONNECT_MS = 100
_RECONNECT_MS_MAX = 500
_CONNECT_MS = 1_000
"""What one attempt to connect may take; grpc calls it by another name."""

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    *_SHARED,
    # A broker that comes back is reached within half a second, not after grpc's two minutes of back-off.
    ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MS),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),
    ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS_MAX),
    # What to do again is the node's decision.
    ("grpc.enable_retries", 0),
    # Two nodes in one process (tests) do not share a connection.
    ("grpc.use_local_subchannel_pool", 1),
    # The node's own beats suspect a peer within 1.2 s; this only clears connections away that a dead network
    # left.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)

_SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    *_SHARED,
    # Two brokers never share a port by accident: the second one's start fails.
    ("grpc.so_reuseport", 0),
    ("grpc.max_metadata_size", 16 * limits.KIB),
    ("grpc.server_handshake_timeout_ms", 10_000),
    # A connection without a call belongs to a client that left without a word, or to no client at all.
    ("grpc.max_connection_idle_ms", 300_000),
    # Clients may ask for signs of life this often, and silent ones are asked.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)


def server_options(connections_max: int, streams_max: int) -> tuple[tuple[str, int], ...]:
    """Of a listener that takes so many connections, with so many streams and calls on each."""
    return (
        *_SERVER_OPTIONS,
        ("grpc.max_allowed_incoming_connections", connections_max),
        ("grpc.max_concurrent_streams", streams_max),
    )


BROKER_STREAMS_MAX = 1_000
"""On a connection of another broker or the control plane."""
CALLS_AT_ONCE_MAX = 20_000
"""Streams and calls of one listener; above it the answer is RESOURCE_EXHAUSTED."""
REQUEST_BYTES_MAX = limits.FRAME_HEAD_BYTES_MAX
"""Of one unary request."""
