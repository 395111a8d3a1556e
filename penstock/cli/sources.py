"""Where `penstock produce` takes its messages from: the command line, or the lines of a stream."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from penstock.contract import limits
from penstock.contract.errors import InvalidRequest, MessageTooLarge

_LINE_BYTES_MAX = 2 * limits.MESSAGE_BYTES_MAX_LIMIT
"""Key and value of the largest size; what is longer cannot be sent and must not fill the memory."""


@dataclass(frozen=True, slots=True)
class Item:
    """One message to send, and how many bytes of the source it and all before it took."""

    key: bytes | None
    value: bytes
    consumed: int


def from_arguments(values: tuple[bytes, ...], separator: bytes | None) -> Iterator[Item]:
    """One message an argument, as the bytes that the shell gave."""
    consumed = 0
    for number, raw in enumerate(values, 1):
        consumed += len(raw)
        yield _item(raw, separator, f"argument {number}", consumed)


def from_lines(stream: BinaryIO, separator: bytes | None) -> Iterator[Item]:
    """One message a line, without its line feed; an empty line is an empty message.

    Raises `InvalidRequest` or `MessageTooLarge` with the number of the line, when it is reached.
    """
    consumed = 0
    number = 0
    while line := stream.readline(_LINE_BYTES_MAX + 1):
        number += 1
        consumed += len(line)
        if len(line) > _LINE_BYTES_MAX:
            raise MessageTooLarge(f"line {number}: over {_LINE_BYTES_MAX} bytes")
        yield _item(line.removesuffix(b"\n"), separator, f"line {number}", consumed)


def size_of(stream: BinaryIO) -> int | None:
    """Bytes of a regular file; None of a pipe or terminal, whose end is not known."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:
        return None
    return status.st_size or None


def _item(raw: bytes, separator: bytes | None, where: str, consumed: int) -> Item:
    if separator is None:
        return Item(None, raw, consumed)
    key, found, value = raw.partition(separator)
    if not found:
        raise InvalidRequest(
            f"{where}: no key separator {separator.decode(errors='backslashreplace')!r} in it"
        )
    return Item(key, value, consumed)
