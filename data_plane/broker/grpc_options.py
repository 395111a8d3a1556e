"""gRPC settings of a broker's servers."""

from penstock.contract import limits

_SLACK = limits.MIB
"""A frame a little over its limit is still read, so that it can be refused with a clear error."""

_SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", limits.FRAME_BYTES_MAX + _SLACK),
    ("grpc.max_send_message_length", limits.FRAME_BYTES_MAX + _SLACK),
    # Frames go whole into few HTTP/2 frames.
    ("grpc.http2.max_frame_size", limits.MIB),
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


INTERNAL_CALLS_MAX = 1_000
"""At once, on a connection to the internal listener."""
CALLS_AT_ONCE_MAX = 20_000
"""Streams and calls of one listener; above it the answer is RESOURCE_EXHAUSTED."""
