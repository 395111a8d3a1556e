"""A tenant's limits: each with what it bounds, its highest value, and how people read it."""

from dataclasses import replace

from penstock.contract.limits import (
    BROKER_PROCESSOR_MS_PER_S_MAX,
    CONNECTION_ATTEMPTS_PER_S_MAX,
    CONSUME_BYTES_PER_S_MAX,
    MESSAGE_BYTES_MAX_LIMIT,
    PRODUCE_BYTES_PER_S_MAX,
    RATE_BURST_MS_MAX,
    RATE_FLOOR_PERCENT_MAX,
    REQUESTS_PER_S_MAX,
)
from penstock.contract.resources.description import Field, Given, Kind, Method, Resource, Unit, Verb

_COUNT_MAX = 2**31 - 1
_EXACT_MAX = 2**53
"""Every reader of JSON has such numbers exactly."""
_BIN_DAYS_MAX = 365
"""Longer than any undo, and it is billed."""
_PROCESSOR_MS_PER_S_MAX = 1_000_000
"""A thousand processors."""
_NONE = "no limit"
_OF_BROKERS = "the brokers' own"


def _limit(
    name: str,
    label: str,
    help: str,
    high: int,
    *,
    unit: Unit = Unit.THING,
    zero: str = _NONE,
) -> Field:
    return Field(
        name=name,
        kind=Kind.WHOLE,
        label=label,
        help=help,
        unit=unit,
        zero=zero,
        low=0,
        high=high,
        default=0,
    )


LIMITS = (
    _limit(
        "produce_bytes_per_s",
        "Produce rate",
        "Bytes per second of batches as sent, over all brokers.",
        PRODUCE_BYTES_PER_S_MAX,
        unit=Unit.BYTE,
    ),
    _limit("partitions_max", "Partitions", "Partitions of all topics.", _COUNT_MAX),
    _limit("topics_max", "Topics", "Topics of the tenant.", _COUNT_MAX),
    _limit(
        "retention_ms_max",
        "Retention",
        "The longest `retention_ms` of a topic; one without an end is above every limit.",
        _EXACT_MAX,
        unit=Unit.MILLISECOND,
    ),
    _limit(
        "message_bytes_max",
        "Message size",
        "The largest `max_message_bytes` of a topic.",
        MESSAGE_BYTES_MAX_LIMIT,
        unit=Unit.BYTE,
    ),
    _limit("service_accounts_max", "Service accounts", "Service accounts of the tenant.", _COUNT_MAX),
    _limit(
        "bin_days",
        "Recycle bin",
        "Days that a deleted topic stays in the recycle bin.",
        _BIN_DAYS_MAX,
        unit=Unit.DAY,
        zero="no recycle bin",
    ),
    _limit(
        "keys_max",
        "Keys",
        "Valid keys of people and service accounts; those of the console are not counted.",
        _COUNT_MAX,
    ),
    _limit(
        "consume_bytes_per_s",
        "Consume rate",
        "Bytes per second of batches as pushed to consumers, over all brokers.",
        CONSUME_BYTES_PER_S_MAX,
        unit=Unit.BYTE,
    ),
    _limit(
        "rest_calls_per_s",
        "REST calls",
        "Calls of REST per second, of all callers.",
        1_000_000,
    ),
    _limit(
        "rest_processor_ms_per_s",
        "Time of REST calls",
        "Milliseconds of processor time that calls of REST take per second, of all callers.",
        _PROCESSOR_MS_PER_S_MAX,
        unit=Unit.MILLISECOND,
    ),
    _limit("connections_max", "Connections", "Connections with open calls at one broker.", _COUNT_MAX),
    _limit("groups_max", "Consumer groups", "Consumer groups, over all brokers.", _COUNT_MAX),
    _limit(
        "requests_per_s",
        "Requests",
        "Requests of clients per second, over all brokers: calls, and frames that bring batches or open partitions.",
        REQUESTS_PER_S_MAX,
    ),
    _limit(
        "connection_attempts_per_s",
        "New connections",
        "Connections that begin per second at one broker.",
        CONNECTION_ATTEMPTS_PER_S_MAX,
    ),
    _limit(
        "rate_burst_ms",
        "Burst",
        "For how long what was not used of a rate may be made up.",
        RATE_BURST_MS_MAX,
        unit=Unit.MILLISECOND,
        zero=_OF_BROKERS,
    ),
    _limit(
        "rate_floor_percent",
        "Floor",
        "The part of each rate that brokers may use without a lease.",
        RATE_FLOOR_PERCENT_MAX,
        unit=Unit.PERCENT,
        zero=_OF_BROKERS,
    ),
    _limit(
        "storage_bytes_max",
        "Storage",
        "Bytes that all topics keep, of one copy, with those in the recycle bin.",
        _EXACT_MAX,
        unit=Unit.BYTE,
    ),
    _limit(
        "partition_changes_per_hour",
        "Changes an hour",
        "Partitions created or deleted, and changes of a topic's settings, in an hour that begins with the first.",
        100_000_000,
    ),
    _limit(
        "broker_processor_ms_per_s",
        "Time of brokers",
        "Milliseconds of processor time that the work of clients takes of one broker per second.",
        BROKER_PROCESSOR_MS_PER_S_MAX,
        unit=Unit.MILLISECOND,
    ),
)

QUOTAS = Resource(
    name="quota",
    path="/quotas",
    fields=(
        Field(name="tenant", kind=Kind.TEXT, given=Given.NEVER),
        Field(
            name="plan",
            kind=Kind.TEXT,
            help="The plan that the tenant is on. Another one ends every limit of the tenant's own that is not given"
            " with it. One below what the tenant uses is refused.",
            length_max=100,
            made=True,
        ),
        Field(
            name="plan_version",
            kind=Kind.WHOLE,
            help="Version of the plan; its newest if only another plan is given.",
            made=True,
        ),
        # In force: the tenant's own, or else the plan's.
        *(replace(limit, made=True) for limit in LIMITS),
    ),
    verbs=(
        Verb(
            method=Method.READ,
            operation="quotas_get",
            about="The tenant's limits.",
            permission="quotas.read",
            refuses=(403, 404),
        ),
        Verb(
            method=Method.CHANGE,
            operation="quotas_set",
            about="Operators: set the given limits, or another plan; the others stay as they are.\n\nA limit that"
            " becomes lower than it was, and is below what the tenant uses, is refused.",
            permission="quotas.write",
            refuses=(403, 404, 409, 412),
            conditional=True,
            dry_run=True,
        ),
    ),
    delivered=True,
)
