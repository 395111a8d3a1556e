"""gRPC settings that both ends of every connection share."""

from penstock.contract import limits

_SLACK = limits.MIB
"""A frame a little over its limit is still read, so that it can be refused with a clear error."""

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", limits.FRAME_BYTES_MAX + _SLACK),
    ("grpc.max_send_message_length", limits.FRAME_BYTES_MAX + _SLACK),
    ("grpc.http2.max_frame_size", limits.MIB),
    ("grpc.so_reuseport", 0),
)
"""Frames go whole into few HTTP/2 frames; two brokers never share a port by accident."""
