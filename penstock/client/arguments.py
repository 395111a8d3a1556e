"""The arguments of `Client.producer` and `Client.consumer`, as both surfaces take them, made into settings."""

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.client.call_arguments import topic_name
from penstock.client.settings import (
    ConsumerSettings,
    GroupSettings,
    MalformedPolicy,
    OffsetReset,
    ProducerSettings,
    acks_number,
    no_group,
)
from penstock.contract.errors import ConfigurationError


def producer_settings(*, acks: int | str, receipts: object = None, **rest: Any) -> ProducerSettings:
    """`receipts` is a path, or None. Raises `ConfigurationError`."""
    _check_function("partitioner", rest.get("partitioner"))
    if receipts is not None and not (isinstance(receipts, str) or hasattr(receipts, "__fspath__")):
        raise ConfigurationError(f"receipts: {receipts!r} is no path of a file")
    path = None if receipts is None else str(receipts)
    return ProducerSettings(acks=acks_number(acks), receipts=path, **rest)


def consumer_settings(
    *,
    topics: str | Sequence[Any],
    group: str | None,
    auto_offset_reset: OffsetReset,
    auto_commit: bool | None,
    fetch_bytes: int,
    partition_fetch_bytes: int,
    malformed: MalformedPolicy = "skip",
    on_malformed: object = None,
    on_assigned: object = None,
    on_revoked: object = None,
    on_undecodable: object = "stop",
    zone: str | None = None,
    **member: Any,
) -> tuple[tuple[str, ...], ConsumerSettings]:
    """(topic names, settings). `member` are the further arguments of a group's member. Raises `ConfigurationError`."""
    if group is None and auto_commit:
        raise no_group("auto_commit")
    if group is None and member.get("instance_id") is not None:
        raise no_group("instance_id")
    if on_malformed is not None and malformed == "stop":
        raise ConfigurationError("on_malformed: reports skipped batches, and malformed='stop' skips none")
    for name, hook in (
        ("on_assigned", on_assigned),
        ("on_revoked", on_revoked),
        ("on_malformed", on_malformed),
    ):
        _check_function(name, hook)
    if on_undecodable not in ("stop", "skip") and not callable(on_undecodable):
        raise ConfigurationError(
            f"on_undecodable: {on_undecodable!r} is not 'stop', 'skip' or a function of a message and its error"
        )
    if not isinstance(topics, Iterable):
        raise ConfigurationError(f"topics: {topics!r} is not a topic name, nor a sequence of such")
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"topics: {topics!r} is not a topic name, nor a sequence of such")
    for name in names:
        topic_name(name)
    if group is not None and not names:
        raise ConfigurationError("topics: a member of a group names at least one")
    return tuple(dict.fromkeys(names)), ConsumerSettings(
        auto_offset_reset=auto_offset_reset,
        fetch_bytes=fetch_bytes,
        partition_fetch_bytes=partition_fetch_bytes,
        malformed=malformed,
        undecodable="stop" if on_undecodable == "stop" else "skip",
        zone=zone or "",
        group=None
        if group is None
        else GroupSettings(group=group, auto_commit=auto_commit is not False, **member),
    )


def _check_function(name: str, function: object) -> None:
    if function is not None and not callable(function):
        raise ConfigurationError(f"{name}: {function!r} is no function")
