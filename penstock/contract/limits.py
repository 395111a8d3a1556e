"""Bounds of the service. Each has its reason beside it; tests try each at the limit and one above."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
DAY_MS: Final = 24 * 3600 * 1000

TOPIC_NAME_LENGTH_MAX: Final = 249
"""The length other clients of this field accept; leaves space for a file name's suffix."""
PARTITIONS_PER_TOPIC_MAX: Final = 10_000
"""Partitions of one topic: the metadata hold up to 100 of them in one value, and a client asks for all at once."""
TOPICS_PER_CALL_MAX: Final = 1_000
"""Topics that one request may make, with `PARTITIONS_PER_TOPIC_MAX` partitions together: one transaction of the control
plane, some thirty of the metadata store.
"""
REPLICATION_FACTOR_MAX: Final = 5
"""Copies of each message."""
REPLICATION_DEFAULT: Final = 3
"""Copies of each message where the topic sets no other number; a service with fewer brokers has one on each."""
MIN_INSYNC_DEFAULT: Final = 2
"""Copies in sync that an acknowledged message has where the topic sets no other number; never more than its copies."""

MESSAGE_BYTES_MAX_DEFAULT: Final = 1 * MIB
"""The largest message of a topic that says nothing else: key, value and headers. Checked before it is buffered."""
MESSAGE_BYTES_MAX_LIMIT: Final = 10 * MIB
"""The most that a topic may allow for one message."""
BATCH_BYTES_MAX_DEFAULT: Final = 2 * MIB
"""The largest stored batch of a topic that says nothing else; space for one largest message beside others."""
BATCH_BYTES_MAX_LIMIT: Final = 12 * MIB
"""The most that a topic may allow for one batch: one largest message and its frame."""
BATCH_OVERHEAD_BYTES: Final = KIB
"""Bytes that a batch needs beside its largest message: its header, and the frame of one record."""
RECORDS_PER_BATCH_MAX: Final = 1_000_000
"""A batch's record count and offset span are bounded so that one batch cannot exhaust the offset space."""
RECORDS_AND_HEADERS_PER_BATCH_MAX: Final = 1_000_000
"""Records of a batch and headers of all its records, counted together. Each of them takes a reader up to 250 bytes of
memory beside its content, and may take two bytes of a batch.
"""
HEADER_NAME_BYTES_PER_BATCH_MAX: Final = BATCH_BYTES_MAX_LIMIT
"""Names of all headers of a batch. They are text, of which a reader's memory may take four times as much."""
DECOMPRESSED_BATCH_BYTES_MAX: Final = 64 * MIB
"""Bytes that a reader inflates for one batch at most; a frame that declares more is refused before inflating."""

FRAME_HEAD_BYTES_MAX: Final = 4 * MIB
"""The head of one frame, which is parsed at once: names and numbers, no messages."""
FRAME_ENTRIES_MAX: Final = 10_000
"""Batches, partitions or topics that one frame or request of a client may name: they are parsed in one turn of a
broker's event loop, and worked on in many.
"""
CALLS_PER_TENANT_MAX: Final = 5_000
"""Streams and calls that one tenant may have open at a broker, a quarter of what the broker takes: a client has three
streams at each broker.
"""
CONNECTIONS_PER_TENANT_MAX: Final = 2_000
"""Connections on which one tenant has streams or calls open at a broker: a client has one."""
CONNECTIONS_PER_ADDRESS_MAX: Final = 4_000
"""The same from one address, of all tenants, looked at before the key: many clients may stand behind one address.
Connections without a call are bounded together: half of the broker's file descriptors, and five minutes each.
"""
STREAMS_PER_CONNECTION_MAX: Final = 100
"""Streams and calls open on one connection; further ones wait in the client. The SDK opens another one before,
and at most 16 to one broker."""
CALL_WAIT_MS_MAX: Final = 800
"""A call waits so long at a broker for its tenant's requests and processor time, both together. Then it is refused as
`THROTTLED`: a client that gives it a second, as polls of the SDK do, hears why it got no answer."""
FIRST_REQUEST_MS_MAX: Final = 10_000
"""Time that a call may take to send its request, once it is admitted; then it ends."""
REFUSED_BATCHES_PER_S_MAX: Final = 1_000
"""Batches of one tenant that a broker refuses in a second for what no retry repairs; a stream that sends more of them
is read so much more slowly. A frame counts as 20.
"""
UNREAD_ANSWERS_MAX: Final = 100_000
"""Answers a broker keeps for one stream whose client does not read them; then the stream ends."""
FRAME_BYTES_MAX: Final = 32 * MIB
"""One frame of a stream: two largest batches and a head. grpc's message limit is set to it."""
STREAM_CREDIT_BYTES: Final = 32 * MIB
"""Produce bytes a stream may have unanswered; one frame of the largest size always fits."""
FETCH_CREDIT_BYTES_MAX: Final = 64 * MIB
"""Pushed bytes a consumer connection may have unconsumed."""
PARTITIONS_PER_STREAM_MAX: Final = 100_000
"""Partitions that one consumer's stream may have open."""

IN_FLIGHT_BATCHES_PER_PRODUCER: Final = 5
"""The duplicate table remembers this many batches of a producer (RL58, RL61)."""
PRODUCERS_PER_PARTITION_MAX: Final = 10_000
"""Producers that a partition remembers to know their duplicates; the longest idle one is forgotten first."""
PRODUCER_ID_BLOCK: Final = 1_000
"""Producer ids that a broker takes from the metadata at a time."""
PRODUCER_IDLE_MS_MIN: Final = 24 * 3600 * 1000
"""A producer that sent nothing for less than this is not forgotten."""

SEGMENT_BYTES_DEFAULT: Final = 1 * GIB
"""A segment is closed at this size; retention deletes whole segments."""
SEGMENT_BYTES_MIN: Final = 4 * KIB
"""Smaller segments would be more files than messages."""
SEGMENT_BYTES_LIMIT: Final = 2 * GIB
"""Positions in a segment are 32-bit numbers."""
INDEX_INTERVAL_BYTES_DEFAULT: Final = 4 * KIB
"""A batch is found by its stamp; this far apart stand the entries of the index by time."""
RETENTION_MS_DEFAULT: Final = 7 * 24 * 3600 * 1000
"""How long messages are kept by default."""
RETENTION_MS_MIN: Final = 3600 * 1000
"""Shorter retention would delete before slow consumers have read."""
TIMESTAMP_AHEAD_MS_MAX: Final = 3600 * 1000
"""A message may be stamped at most this far in the future (RL107)."""

KEY_NAME_LENGTH_MAX: Final = 100
"""The name that people give a key."""
KEY_BINDINGS_MAX: Final = 100
"""Topic prefixes that one key is limited to. Each is checked in every request of the key."""
BUDGETS_PER_TENANT_MAX: Final = 10
"""Budgets of a tenant: each message may count against all of them."""
PRINCIPAL_LIMITS_PER_TENANT_MAX: Final = 1_000
"""Service accounts of a tenant that have limits of their own: all of them are one value in the brokers' metadata."""
ACLS_PER_TENANT_MAX: Final = 1_000
"""Entries of a tenant's access list: one value of the metadata holds them all, which each broker reads in one turn."""
ACL_ADDRESSES_MAX: Final = 16
"""Ranges of addresses of one entry."""
ACL_ADDRESSES_PER_TENANT_MAX: Final = 2_000
"""Ranges of all entries together: a broker reads them in one turn."""
PRINCIPAL_GROUPS_PER_TENANT_MAX: Final = 100
"""Groups of people and service accounts. They stand beside the entries."""
PRINCIPAL_GROUP_MEMBERS_PER_TENANT_MAX: Final = 2_000
"""Direct members of all of them."""
ACCESS_LIST_BYTES_MAX: Final = 512 * KIB
"""The access list as brokers store it. A value of the metadata store may be 1.5 MB."""
SERVICE_ACCOUNTS_PER_TENANT_MAX: Final = 1_000
"""Service accounts. Lists and explanations go through all of them."""
WEBHOOKS_PER_TENANT_MAX: Final = 10
"""Webhooks of one tenant."""
WEBHOOK_URL_LENGTH_MAX: Final = 1_000
"""Characters of a webhook's address."""
WEBHOOK_EVENTS_MAX: Final = 50
"""Patterns of event types that one webhook takes."""
WEBHOOK_PAYLOAD_BYTES_MAX: Final = 256 * KIB
"""The body of one event. A larger one comes without `before` and `after`, and with `truncated`."""
WEBHOOK_ATTEMPTS_KEPT: Final = 100
"""Attempts to deliver that are kept for each webhook."""
PRODUCE_BYTES_PER_S_MAX: Final = 2**50
"""The highest produce rate that can be set for a tenant."""
CONSUME_BYTES_PER_S_MAX: Final = 2**50
"""The highest consume rate that can be set for a tenant."""
REQUESTS_PER_S_MAX: Final = 1_000_000
"""The highest rate of requests that can be set for a tenant."""
CONNECTION_ATTEMPTS_PER_S_MAX: Final = 10_000
"""The highest rate of connections that begin at one broker that can be set for a tenant: more than a broker greets."""
BROKER_PROCESSOR_MS_PER_S_MAX: Final = 10_000
"""The highest limit of processor time at one broker that can be set for a tenant: ten processors, more than a broker's
event loop has.
"""
RATE_BURST_MS_MAX: Final = 60_000
"""The longest burst that can be set for a tenant: longer ones would be a second rate."""
RATE_FLOOR_PERCENT_MAX: Final = 10
"""The highest floor that can be set for a tenant: all brokers without a lease and one that has all of a rate are
together at most so much above it.
"""
FAILED_AUTH_PER_MINUTE_MAX: Final = 60
"""Failed authentications per key id and per address before the broker answers `throttled`."""

DOMAIN_NAME_LENGTH_MAX: Final = 64
"""The name of a zone or a host. Each answer about the cluster has it for every broker."""

GROUP_NAME_LENGTH_MAX: Final = 249
"""The length of a group's name, as that of a topic's."""
GROUP_MEMBERS_MAX: Final = 500
"""An assignment is decided in one turn of the event loop."""
GROUP_SUBSCRIPTIONS_MAX: Final = 20_000
"""Topics of all members of a group, each member's counted: 20 members of 1,000 topics, 500 of 40. As its members."""
MEMBERS_PER_TENANT_MAX: Final = 5_000
"""Members of all groups of a tenant, per partition of `__groups`: each is looked at ten times a second."""
MEMBER_ID_LENGTH_MAX: Final = 100
"""The length of a member's id, its instance id and its client id."""
GROUPS_PER_TENANT_MAX: Final = 1_000
"""Per partition of `__groups`: what a coordinator keeps in memory for one tenant."""
GROUP_TOPICS_MAX: Final = 1_000
"""Topics that one member may subscribe to."""
COMMITTED_BYTES_PER_TENANT_MAX: Final = 64 * MIB
"""Bytes of all offsets that a tenant's groups have committed, per partition of `__groups`: 200 bytes for each and its
note. Some 300,000 without notes.
"""
SESSION_TIMEOUT_MS_MIN: Final = 1_000
"""A shorter session would end with a pause of the collector or the network."""
SESSION_TIMEOUT_MS_MAX: Final = 3600 * 1000
"""A member that is gone holds its partitions for so long."""
REBALANCE_TIMEOUT_MS_MAX: Final = 24 * 3600 * 1000
"""The most time that a member may take to give partitions up."""
COMMIT_METADATA_LENGTH_MAX: Final = 4 * KIB
"""The length of the note that a consumer may store with an offset."""
TENANTS_PER_PERSON_MAX: Final = 10
"""Tenants that one person may own, unless an operator has set another number for them: each has limits of its own."""
ORGANISATIONS_PER_PERSON_MAX: Final = 10
"""Organisations that one person may own."""
TENANTS_PER_ORGANISATION_MAX: Final = 1_000
"""Tenants of one organisation: a change of its members looks through all of them."""
DISPLAY_NAME_LENGTH_MAX: Final = 100
"""The length of what people call an organisation."""
PAGE_ITEMS_MAX: Final = 1_000
"""Items of one page of a list of REST: what one request reads and one answer holds."""
PAGE_ITEMS_DEFAULT: Final = 100
"""The same, where the request has no `limit`."""
AUDIT_EXPORT_ENTRIES_MAX: Final = 10_000
"""Entries of one answer of the audit log's export. The rest is asked for again."""
AUDIT_TALLIES_MAX: Final = 50
"""Entries that refusals and sensitive reads of one minute add to a tenant's audit log. Two more hold the rest: one of
refusals, one of reads."""
