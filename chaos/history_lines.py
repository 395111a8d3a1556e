"""The lines that a history is made of: their names for partitions and values, and how they are read.

Every line is a JSON object with `is`, what it tells, and `at`, seconds since the run began. A partition is named
"topic/n", of a topic that is made again under its old name "topic#incarnation/n", so that each is another one. Values
are recorded without their padding, which each reader has compared.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.contract.ids import TopicId, TopicPartition

FILE = "history.jsonl"
_PADDING_MAX = 400


def value_of(producer: str, number: int) -> bytes:
    """The value of a producer's message: no other producer sends it, and its padding follows from its name."""
    return f"{producer}/{number}|".encode() + b"." * (number * 7919 % _PADDING_MAX)


def name_of(value: bytes) -> str | None:
    """The part of a value that is recorded; None when no producer sent such a value."""
    head, bar, padding = value.partition(b"|")
    name = head.decode("ascii", errors="replace")
    _, _, number = name.rpartition("/")
    if not bar or not number.isdecimal() or padding != b"." * (int(number) * 7919 % _PADDING_MAX):
        return None
    return name


def partition_name(topic: str, partition: int) -> str:
    return f"{topic}/{partition}"


def partition_of(name: str) -> TopicPartition:
    """The partition of that name, in the terms of the checkers."""
    topic, _, partition = name.rpartition("/")
    return TopicPartition(TopicId(hashlib.blake2b(topic.encode(), digest_size=16).digest()), int(partition))


def pieces(found: Iterable[tuple[str, int, bytes]]) -> Iterator[tuple[str, int, list[bytes]]]:
    """Runs of consecutive offsets of one partition."""
    partition, first, values = "", 0, list[bytes]()
    for where, offset, value in found:
        if where != partition or offset != first + len(values):
            if values:
                yield partition, first, values
            partition, first, values = where, offset, []
        values.append(value)
    if values:
        yield partition, first, values


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """What a history tells; a last line that was not written whole is left out. Raises `OSError`, `ValueError`."""
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            if not text.endswith("\n"):
                return
            try:
                line = json.loads(text)
                line["is"], line["at"]
            except (ValueError, TypeError, KeyError):
                raise ValueError(f"{path}: line {number} is no line of a history") from None
            yield line


def history_file(path: Path) -> Path:
    """The history that `path` names: the file itself, or that of a run's folder."""
    return path / FILE if path.is_dir() else path


def names_of(partitions: Sequence[tuple[str, int]]) -> list[str]:
    """(topic, partition) pairs as they are recorded."""
    return [partition_name(topic, partition) for topic, partition in partitions]
