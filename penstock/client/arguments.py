"""The arguments of `Client.producer` and `Client.consumer`, as both surfaces take them, made into settings."""

from collections.abc import Sequence
from typing import Any

from penstock.client.seeking import no_group
from penstock.client.settings import ConsumerSettings, OffsetReset, ProducerSettings, acks_number
from penstock.contract.errors import ConfigurationError


def producer_settings(*, acks: int | str, **rest: Any) -> ProducerSettings:
    """Raises `ConfigurationError`."""
    return ProducerSettings(acks=acks_number(acks), **rest)


def consumer_settings(
    *,
    topics: str | Sequence[Any],
    group: str | None,
    auto_offset_reset: OffsetReset,
    auto_commit: bool,
    fetch_bytes: int,
    partition_fetch_bytes: int,
) -> tuple[tuple[str, ...], ConsumerSettings]:
    """(topic names, settings). Raises `ConfigurationError`."""
    if group is not None:
        raise no_group(f"group={group!r}")
    if auto_commit:
        raise no_group("auto_commit")
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"topics: {topics!r} is not a topic name, nor a sequence of such")
    return tuple(dict.fromkeys(names)), ConsumerSettings(
        auto_offset_reset=auto_offset_reset,
        fetch_bytes=fetch_bytes,
        partition_fetch_bytes=partition_fetch_bytes,
    )
