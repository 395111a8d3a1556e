"""Bounds of the service. Each has its reason beside it; tests try each at the limit and one above."""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

TOPIC_NAME_LENGTH_MAX = 249
"""The length other clients of this field accept; leaves room for a file name's suffix."""
PARTITIONS_PER_TOPIC_MAX = 10_000
REPLICATION_FACTOR_MAX = 5

MESSAGE_BYTES_MAX_DEFAULT = 1 * MIB
MESSAGE_BYTES_MAX_LIMIT = 10 * MIB
BATCH_BYTES_MAX_DEFAULT = 2 * MIB
BATCH_BYTES_MAX_LIMIT = 12 * MIB
RECORDS_PER_BATCH_MAX = 1_000_000
"""A batch's record count and offset span are bounded so that one batch cannot exhaust the offset space."""
DECOMPRESSED_BATCH_BYTES_MAX = 64 * MIB
"""What a reader inflates for one batch; a frame that declares more is refused before inflating."""

FRAME_HEAD_BYTES_MAX = 4 * MIB
FRAME_ENTRIES_MAX = 10_000
"""Batches, partitions or topics that one frame or request of a client may name: the work of one turn of a broker's
event loop.
"""
UNREAD_ANSWERS_MAX = 100_000
"""Answers a broker keeps for one stream whose client does not read them; then the stream ends."""
FRAME_BYTES_MAX = 32 * MIB
"""One frame of a stream: two largest batches and a head. grpc's message limit is set to it."""
STREAM_CREDIT_BYTES = 32 * MIB
"""Produce bytes a stream may have unanswered; one frame of the largest size always fits."""
FETCH_CREDIT_BYTES_MAX = 64 * MIB
"""Pushed bytes a consumer connection may have unconsumed."""
PARTITIONS_PER_STREAM_MAX = 100_000

IN_FLIGHT_BATCHES_PER_PRODUCER = 5
"""The duplicate table remembers this many batches of a producer (RL58, RL61)."""
PRODUCERS_PER_PARTITION_MAX = 10_000
PRODUCERS_PER_TENANT_MAX = 100_000
PRODUCER_ID_BLOCK = 1_000
PRODUCER_IDLE_MS_MIN = 24 * 3600 * 1000

SEGMENT_BYTES_DEFAULT = 1 * GIB
SEGMENT_BYTES_MIN = 4 * KIB
SEGMENT_BYTES_LIMIT = 2 * GIB
INDEX_INTERVAL_BYTES_DEFAULT = 4 * KIB
RETENTION_MS_DEFAULT = 7 * 24 * 3600 * 1000
RETENTION_MS_MIN = 3600 * 1000
TIMESTAMP_AHEAD_MS_MAX = 3600 * 1000
"""A message may be stamped at most this far in the future (RL107)."""

FAILED_AUTH_PER_MINUTE_MAX = 60
"""Failed authentications per key id and per address before the broker answers `throttled`."""

GROUP_NAME_LENGTH_MAX = 249
GROUP_MEMBERS_MAX = 500
"""An assignment is decided in one turn of the event loop."""
MEMBER_ID_LENGTH_MAX = 100
"""Of a member's id, its instance id and its client id."""
GROUPS_PER_TENANT_MAX = 1_000
"""Per partition of `__groups`: what a coordinator keeps in memory for one tenant."""
SESSION_TIMEOUT_MS_MIN = 1_000
SESSION_TIMEOUT_MS_MAX = 3600 * 1000
REBALANCE_TIMEOUT_MS_MAX = 24 * 3600 * 1000
COMMIT_METADATA_LENGTH_MAX = 4 * KIB
