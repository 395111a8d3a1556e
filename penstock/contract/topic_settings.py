"""Settings of a topic: names, defaults, bounds, one place for both planes, the SDK and the CLI."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Final, Self

from penstock.contract import limits
from penstock.contract.errors import InvalidRequest


class Durability(IntEnum):
    """What an acknowledgement with `acks=all` means. A send may ask for less, not below the topic's floor."""

    FSYNC = 0
    """On stable storage of every in-sync replica."""
    REPLICATED = 1
    """In memory of every in-sync replica; flushed every `flush_ms`."""


class TimestampType(IntEnum):
    """Whose clock stamps a message: the sender's, or the leader's as it appends the batch."""

    CREATE = 0
    APPEND = 1


class RetentionBasis(IntEnum):
    """Which time retention goes by."""

    ACCEPTANCE = 0
    EVENT = 1


UNLIMITED = -1
FIXED: Final = ("durability",)
"""Settings that a topic keeps from its creation on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Validated settings of one topic. Sizes in bytes, times in ms, -1 = unlimited.

    Raises `InvalidRequest` naming the setting when a value is out of its bounds.
    """

    replication: int = limits.REPLICATION_DEFAULT
    """Copies of each message, on as many brokers."""
    min_insync_replicas: int = limits.MIN_INSYNC_DEFAULT
    """Copies that an acknowledged message has at least; with fewer in sync, `acks=all` is refused for now."""
    durability: Durability = Durability.FSYNC
    flush_ms: int = 1_000
    """Within this time what a `replicated` topic holds in memory is on disk."""
    retention_ms: int = limits.RETENTION_MS_DEFAULT
    """Messages are kept at least this long."""
    retention_bytes: int = UNLIMITED
    """Per partition."""
    retention_basis: RetentionBasis = RetentionBasis.ACCEPTANCE
    segment_bytes: int = limits.SEGMENT_BYTES_DEFAULT
    """Size of one file of the log; retention deletes whole files. Not above `retention_bytes`; unless named, it follows
    that."""
    segment_ms: int = 24 * 3600 * 1000
    """Age at which a file is closed though it is not full. Not above `retention_ms`; unless named, it follows that."""
    index_interval_bytes: int = limits.INDEX_INTERVAL_BYTES_DEFAULT
    """Distance of the entries by which offsets and times are found in a file."""
    max_message_bytes: int = limits.MESSAGE_BYTES_MAX_DEFAULT
    """Largest message, key, value and headers together."""
    max_batch_bytes: int = limits.BATCH_BYTES_MAX_DEFAULT
    """Largest batch as it is stored. At least `max_message_bytes` and 1 KiB; unless named, it follows that."""
    timestamp_type: TimestampType = TimestampType.CREATE

    def __post_init__(self) -> None:
        _bounded("replication", self.replication, 1, limits.REPLICATION_FACTOR_MAX)
        _bounded("min_insync_replicas", self.min_insync_replicas, 1, self.replication)
        _bounded("flush_ms", self.flush_ms, 1, 60_000)
        if self.retention_ms != UNLIMITED:
            _bounded("retention_ms", self.retention_ms, limits.RETENTION_MS_MIN, 2**53)
        if self.retention_bytes != UNLIMITED:
            _bounded("retention_bytes", self.retention_bytes, 1, 2**53)
        _bounded("segment_bytes", self.segment_bytes, limits.SEGMENT_BYTES_MIN, limits.SEGMENT_BYTES_LIMIT)
        _bounded("segment_ms", self.segment_ms, 1_000, 2**53)
        _bounded("index_interval_bytes", self.index_interval_bytes, 64, limits.MIB)
        _bounded("max_message_bytes", self.max_message_bytes, 1, limits.MESSAGE_BYTES_MAX_LIMIT)
        _bounded("max_batch_bytes", self.max_batch_bytes, 1, limits.BATCH_BYTES_MAX_LIMIT)
        if self.replication == 1 and self.durability is not Durability.FSYNC:
            raise InvalidRequest(
                "durability: a topic with one replica always syncs; use fsync or replication 2 or more"
            )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Read a plain mapping (JSON); unknown names and wrong types are refused by name."""
        known = {field.name for field in fields(cls)}
        for name in sorted(values):
            if name not in known:
                raise InvalidRequest(f"{name}: no such topic setting; known: {', '.join(sorted(known))}")
            if isinstance(values[name], bool) or not isinstance(values[name], (int, str)):
                raise InvalidRequest(f"{name}: {values[name]!r} is not a number or a name")
        enums = {"durability": Durability, "timestamp_type": TimestampType, "retention_basis": RetentionBasis}
        read: dict[str, Any] = {}
        for name, value in values.items():
            if name in enums:
                read[name] = _named(name, enums[name], value)
            elif isinstance(value, str):
                raise InvalidRequest(f"{name}: {value!r} is not a whole number")
            else:
                read[name] = value
        return cls(**read)

    @classmethod
    def chosen(cls, named: Mapping[str, Any], before: Mapping[str, Any]) -> Self:
        """The settings `before`, by name, with those `named` now; what hangs on one that is named follows it. One that
        is named as None goes back to its default, and what followed it goes with it.

        Raises `InvalidRequest` too when two contradict each other and one of them is named. Stored settings are read
        with `from_dict`: topics from before this rule keep theirs.
        """
        explicit = {name: value for name, value in named.items() if value is not None}
        whole = cls.from_dict({**before, **cls._defaults_of(named, before), **explicit})
        batch_bytes = whole.max_message_bytes + limits.BATCH_OVERHEAD_BYTES
        if "max_batch_bytes" in named or "max_message_bytes" in named:
            if "max_batch_bytes" not in explicit:
                whole = replace(whole, max_batch_bytes=max(whole.max_batch_bytes, batch_bytes))
            elif whole.max_batch_bytes < batch_bytes:
                raise InvalidRequest(
                    f"max_batch_bytes: {whole.max_batch_bytes} has no space for a message of {whole.max_message_bytes} "
                    f"(max_message_bytes); at least {batch_bytes} required"
                )
        file_bytes = max(whole.retention_bytes, limits.SEGMENT_BYTES_MIN)
        if whole.retention_bytes != UNLIMITED and ("segment_bytes" in named or "retention_bytes" in named):
            if "segment_bytes" not in explicit:
                whole = replace(whole, segment_bytes=min(whole.segment_bytes, file_bytes))
            elif whole.segment_bytes > file_bytes:
                raise InvalidRequest(
                    f"segment_bytes: a file of {whole.segment_bytes} is kept whole, above retention_bytes "
                    f"{whole.retention_bytes}; at most {file_bytes} possible"
                )
        if whole.retention_ms != UNLIMITED and ("segment_ms" in named or "retention_ms" in named):
            if "segment_ms" not in explicit:
                whole = replace(whole, segment_ms=min(whole.segment_ms, whole.retention_ms))
            elif whole.segment_ms > whole.retention_ms:
                raise InvalidRequest(
                    f"segment_ms: a file open for {whole.segment_ms} is kept whole, beyond retention_ms "
                    f"{whole.retention_ms}; at most {whole.retention_ms} possible"
                )
        return whole

    @classmethod
    def _defaults_of(cls, named: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        """Defaults of the settings that are named as None, and of those that followed them."""
        usual = cls().to_dict()
        back = [name for name, value in named.items() if value is None]
        followed: dict[str, int | None] = {}
        if "max_message_bytes" in back and "max_message_bytes" in before:
            followed["max_batch_bytes"] = before["max_message_bytes"] + limits.BATCH_OVERHEAD_BYTES
        if "retention_bytes" in back and "retention_bytes" in before:
            followed["segment_bytes"] = max(before["retention_bytes"], limits.SEGMENT_BYTES_MIN)
        if "retention_ms" in back:
            followed["segment_ms"] = before.get("retention_ms")
        back += [name for name, value in followed.items() if name not in named and before.get(name) == value]
        return {name: usual.get(name) for name in back}

    def to_dict(self) -> dict[str, Any]:
        """Plain mapping, enums by lower-case name; `from_dict` reads it back."""
        return {
            field.name: value.name.lower()
            if isinstance(value := getattr(self, field.name), IntEnum)
            else value
            for field in fields(self)
        }


def _bounded(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidRequest(f"{name}: {value} is not within {low} to {high}")


def _named(name: str, enum: type[IntEnum], value: int | str) -> IntEnum:
    try:
        return enum[value.upper()] if isinstance(value, str) else enum(value)
    except (KeyError, ValueError):
        choices = ", ".join(member.name.lower() for member in enum)
        raise InvalidRequest(f"{name}: {value!r} is not one of {choices}") from None
