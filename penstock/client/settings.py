"""Settings of a client, a producer and a consumer, checked where they are given."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from penstock.contract import limits
from penstock.contract.errors import ConfigurationError
from penstock.rules.names import is_printable_name

FullPolicy = Literal["block", "fail", "drop"]
OffsetReset = Literal["earliest", "latest", "error"]
MalformedPolicy = Literal["skip", "stop"]
Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""(topic, key, value, partition count) to a partition number."""

ASSIGNORS = ("range", "sticky")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS: dict[object, int] = {"all": -1, -1: -1, 0: 0, 1: 1, "0": 0, "1": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Where the brokers are, and the key to reach them with. `ca_file` None = plaintext,
    which only loopback addresses may have.
    """

    bootstrap: tuple[str, ...]
    """Empty: only the control plane is talked to."""
    api_key: str | None = field(default=None, repr=False)
    api_url: str | None = None
    ca_file: str | None = None
    zone: str | None = None
    """Where this client runs: a host or a zone of the brokers'. None = consumers read from leaders."""

    def __post_init__(self) -> None:
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise ConfigurationError("api_key: it has characters other than printable ASCII")
        if self.zone is not None:
            _named("zone", self.zone, limits.DOMAIN_NAME_LENGTH_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How messages are gathered, sent and retried. Sizes in bytes, `_ms` in milliseconds.

    Raises `ConfigurationError` naming the argument when a value is out of its bounds.
    """

    acks: int
    """0 no answer, 1 the leader holds it, -1 every in-sync replica holds it."""
    compression: str
    linger_ms: float
    batch_bytes: int
    batch_messages: int
    idempotent: bool
    delivery_timeout_ms: float
    buffer_bytes: int
    on_full: FullPolicy
    max_block_ms: float
    max_attempts: int | None
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    partitioner: Partitioner | None
    receipts: str | None = None
    """File of what was acknowledged; None = none is kept."""
    sample_keys: bool = True
    """Whether it looks at some keys to know the frequent ones, at one of about 256 where many are sent."""
    report_hot_keys: bool = True
    """Whether the leaders hear of keys that are a large part of what it sends to a partition, every 20 s or so."""

    def __post_init__(self) -> None:
        if self.compression not in COMPRESSIONS:
            raise ConfigurationError(
                f"compression: {self.compression!r} is not one of {', '.join(COMPRESSIONS)}"
            )
        if not isinstance(self.idempotent, bool):
            raise ConfigurationError(f"idempotent: {self.idempotent!r} is not True or False")
        _bounded("linger_ms", self.linger_ms, 0, 60_000)
        _whole("batch_bytes", self.batch_bytes, 1, limits.BATCH_BYTES_MAX_LIMIT)
        _whole("batch_messages", self.batch_messages, 1, limits.RECORDS_PER_BATCH_MAX)
        _bounded("delivery_timeout_ms", self.delivery_timeout_ms, 1, 24 * 3600 * 1000)
        _whole("buffer_bytes", self.buffer_bytes, 1, 2**40)
        _bounded("max_block_ms", self.max_block_ms, 0, 24 * 3600 * 1000)
        if self.max_attempts is not None:
            _whole("max_attempts", self.max_attempts, 1, 1_000_000)
        _bounded("retry_backoff_ms", self.retry_backoff_ms, 1, 60_000)
        _bounded("retry_backoff_max_ms", self.retry_backoff_max_ms, self.retry_backoff_ms, 600_000)
        if self.on_full not in ("block", "fail", "drop"):
            raise ConfigurationError(f"on_full: {self.on_full!r} is not one of block, fail, drop")
        if self.on_full == "drop" and self.acks != 0:
            raise ConfigurationError("on_full: 'drop' loses messages silently and needs acks=0")
        if not isinstance(self.sample_keys, bool):
            raise ConfigurationError(f"sample_keys: {self.sample_keys!r} is not True or False")
        if not isinstance(self.report_hot_keys, bool):
            raise ConfigurationError(f"report_hot_keys: {self.report_hot_keys!r} is not True or False")
        if self.receipts is not None and self.acks == 0:
            raise ConfigurationError(
                "receipts: with acks=0 no broker acknowledges anything; acks 'all' or 1 required"
            )

    @property
    def numbered(self) -> bool:
        """Batches carry producer id, epoch and sequence. Without answers (acks=0) there is nothing to
        retry.
        """
        return self.idempotent and self.acks != 0

    @property
    def in_flight_max(self) -> int:
        """Batches of one partition that may be unanswered. Without sequence numbers only one keeps the
        order (RL58).
        """
        if self.acks == 0:
            return 1_000_000
        return limits.IN_FLIGHT_BATCHES_PER_PRODUCER if self.numbered else 1


def acks_number(acks: int | str) -> int:
    """`"all"`, 1 or 0 as the number on the wire; raises `ConfigurationError`."""
    try:
        return _ACKS[acks]
    except (KeyError, TypeError):
        raise ConfigurationError(f"acks: {acks!r} is not one of 'all', 1, 0") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How a member of a consumer group lives. Times in milliseconds.

    Raises `ConfigurationError` naming the argument when a value is out of its bounds.
    """

    group: str
    instance_id: str | None = None
    """Given: a static member, whose partitions wait for it while it restarts."""
    assignor: str = "sticky"
    auto_commit: bool = True
    auto_commit_interval_ms: float = 5_000
    session_timeout_ms: float = 10_000
    rebalance_timeout_ms: float = 60_000
    max_poll_interval_ms: float = 300_000
    client_id: str = ""

    def __post_init__(self) -> None:
        _named("group", self.group, limits.GROUP_NAME_LENGTH_MAX)
        if self.instance_id is not None:
            _named("instance_id", self.instance_id, limits.MEMBER_ID_LENGTH_MAX)
        if self.assignor not in ASSIGNORS:
            raise ConfigurationError(f"assignor: {self.assignor!r} is not one of {', '.join(ASSIGNORS)}")
        _bounded("auto_commit_interval_ms", self.auto_commit_interval_ms, 10, 3600 * 1000)
        low, high = limits.SESSION_TIMEOUT_MS_MIN, limits.SESSION_TIMEOUT_MS_MAX
        _bounded("session_timeout_ms", self.session_timeout_ms, low, high)
        _bounded("rebalance_timeout_ms", self.rebalance_timeout_ms, low, limits.REBALANCE_TIMEOUT_MS_MAX)
        _bounded("max_poll_interval_ms", self.max_poll_interval_ms, 100, 24 * 3600 * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """What is read and how much of it may wait here. Sizes in bytes.

    Raises `ConfigurationError` naming the argument when a value is out of its bounds.
    """

    auto_offset_reset: OffsetReset
    fetch_bytes: int
    """Pushed bytes that may wait here, over all partitions of one broker."""
    partition_fetch_bytes: int
    """The same for one partition; one batch may exceed it."""
    group: GroupSettings | None = None
    malformed: MalformedPolicy = "skip"
    """Of a batch whose records are not what its header says: go on behind it, or stop before it."""
    undecodable: MalformedPolicy = "stop"
    """A message that the application's deserializer does not take is skipped, or its partition stops before it."""
    zone: str = ""
    """A host or a zone: of the replicas in sync one there is read. Empty = the leader is."""

    def __post_init__(self) -> None:
        if self.zone != "":
            _named("zone", self.zone, limits.DOMAIN_NAME_LENGTH_MAX)
        if self.malformed not in ("skip", "stop"):
            raise ConfigurationError(f"malformed: {self.malformed!r} is not one of skip, stop")
        if self.auto_offset_reset not in ("earliest", "latest", "error"):
            raise ConfigurationError(
                f"auto_offset_reset: {self.auto_offset_reset!r} is not one of earliest, latest, error"
            )
        _whole("fetch_bytes", self.fetch_bytes, 1, limits.FETCH_CREDIT_BYTES_MAX)
        _whole("partition_fetch_bytes", self.partition_fetch_bytes, 1, limits.FETCH_CREDIT_BYTES_MAX)


def _named(name: str, value: object, most: int) -> None:
    if not isinstance(value, str) or not is_printable_name(value, most):
        raise ConfigurationError(f"{name}: {value!r} is no text of 1 to {most} printable characters")


def _whole(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int):
        raise ConfigurationError(f"{name}: {value!r} is not a whole number")
    _bounded(name, value, low, high)


def _bounded(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ConfigurationError(f"{name}: {value!r} is not within {low} to {high}")


def no_group(what: str) -> ConfigurationError:
    """What everything raises that needs a consumer group."""
    return ConfigurationError(
        f"{what}: needs a consumer group; pass group=, or keep positions with position() and seek()"
    )
