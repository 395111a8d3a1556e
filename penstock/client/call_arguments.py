"""Checks of what an application gives to the calls of its client. A wrong type must not get into the client's core,
where it would end the whole client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import Any

from penstock.client.timing import NEVER
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import NamedPartition

_NUMBER_MAX = 2**63 - 1
_WAIT_S_MAX = 4_000_000
"""Some 46 days: clocks and locks of the platform take no more."""


def wait_ms(timeout: Any, default_s: float = NEVER) -> float:
    """A `timeout` in seconds as ms, 46 days at most; None = `default_s`. Raises `TypeError` for what is no number."""
    if timeout is None:
        return default_s * 1000
    if not isinstance(timeout, int | float) or timeout != timeout:
        raise TypeError(f"timeout: {timeout!r} is not a number of seconds")
    return max(min(timeout, _WAIT_S_MAX), -1) * 1000


def message_count(name: str, count: Any) -> int:
    """How many messages or batches a call may return; `name` is the argument's. Raises `TypeError` for what is no whole
    number, and `InvalidRequest` below 0.
    """
    number = _whole(name, count)
    if number < 0:
        raise InvalidRequest(f"{name}: {number}; 0 or more required")
    return min(number, _NUMBER_MAX)


def require_function(name: str, function: object) -> None:
    """Raises `TypeError` for what cannot be called."""
    if not callable(function):
        raise TypeError(f"{name}: {function!r} is no function")


def require_values(values: Any, keys: Any) -> None:
    """For `send_many`. Raises `TypeError` for what is no sequence, and `ValueError` unless there are as many keys, if
    there are some.
    """
    for name, sequence in (("values", values), ("keys", keys)):
        if name == "keys" and sequence is None:
            continue
        single = isinstance(sequence, bytes | bytearray | memoryview | str | Mapping)
        if single or not hasattr(sequence, "__len__") or not hasattr(sequence, "__getitem__"):
            raise TypeError(
                f"send_many: {name} is one {type(sequence).__name__}, a sequence of {name} required"
            )
    if keys is not None and len(keys) != len(values):
        raise ValueError(f"send_many: {len(keys)} keys for {len(values)} values; as many required")


def topic_name(topic: object) -> str:
    """Raises `TypeError` for what is none. Asked where a topic is met for the first time."""
    if not isinstance(topic, str):
        raise TypeError(f"topic: {topic!r} is not a name")
    _require_text("topic", topic)
    return topic


def group_name(group: object) -> str:
    """Raises `TypeError` for what is none."""
    if not isinstance(group, str):
        raise TypeError(f"group: {group!r} is not a name")
    _require_text("group", group)
    return group


def named_partition(topic: object, partition: object) -> NamedPartition:
    """Raises `TypeError` for what is no topic's name and number of a partition."""
    return topic_name(topic), _whole("partition", partition)


def named_partitions(call: str, partitions: Any) -> list[NamedPartition]:
    """(topic, partition) pairs. Raises `TypeError` for what is none."""
    pairs = None if isinstance(partitions, str) or not isinstance(partitions, Iterable) else list(partitions)
    if pairs is None or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise TypeError(f"{call}: {partitions!r} is no sequence of (topic, partition) pairs")
    return [named_partition(topic, partition) for topic, partition in pairs]


def partition_offsets(call: str, offsets: Any) -> dict[NamedPartition, int]:
    """(topic, partition) -> offset. Raises `TypeError` for what is none."""
    if not isinstance(offsets, Mapping):
        raise TypeError(
            f"{call}: {offsets!r} is no mapping of (topic, partition) to an offset; behind one message it is"
            " {(message.topic, message.partition): message.offset + 1}"
        )
    partitions = named_partitions(call, offsets)
    return {
        partition: _whole(f"{call}: offset of {partition[0]}-{partition[1]}", offset)
        for partition, offset in zip(partitions, offsets.values(), strict=True)
    }


def log_offset(name: str, number: Any) -> int:
    """An offset, or a time in ms. Raises `TypeError` for what is no whole number, and `InvalidRequest` for what no log
    can have.
    """
    offset = _whole(name, number)
    if not 0 <= offset <= _NUMBER_MAX:
        raise InvalidRequest(
            f"{name} {offset}; {'0 or more' if offset < 0 else f'at most {_NUMBER_MAX}'} required"
        )
    return offset


def _require_text(what: str, name: str) -> None:
    """Raises `InvalidRequest` for undecodable bytes, as of a command line or a file name: they cannot be sent."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"{what}: {name!r} holds what is no letter") from None


def _whole(name: str, number: Any) -> int:
    try:
        return index(number)
    except TypeError:
        raise TypeError(f"{name}: {number!r} is not a whole number") from None
