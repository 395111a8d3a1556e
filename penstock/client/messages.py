"""What a consumer returns: light messages, or whole batches in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import astuple

from penstock.records.parse import Columns
from penstock.records.record_block import RecordHeaders
from penstock.serializers import CONTENT_TYPE, MESSAGE_ID, header

if TYPE_CHECKING:
    import pyarrow

HeaderList = Sequence[tuple[str, bytes | None]]
"""(name, content) pairs as they are stored."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message as stored."""

    # Bytes and numbers: nothing that the garbage collector has to look at.

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since 1970 UTC; -1 = none."""
    key: Any
    """Bytes or None, or what the consumer's `key_deserializer` made of it."""
    value: Any
    """Bytes, or what the consumer's `value_deserializer` made of them; None is a tombstone."""
    headers: RecordHeaders
    """(name, content) pairs in their order; names may repeat."""

    def __iter__(self) -> Iterator[Any]:
        """The fields in this order, so that a message can be unpacked."""
        return iter(astuple(self))

    def __len__(self) -> int:
        return len(self.__struct_fields__)

    def __getitem__(self, index: int | slice) -> Any:
        """A field by its index, or several."""
        return astuple(self)[index]

    @property
    def content_type(self) -> str | None:
        """What the message says of the form of its value, if it does."""
        return header(self.headers, CONTENT_TYPE)

    @property
    def id(self) -> str | None:
        """The UUID that a producer with `message_ids` gave it."""
        return header(self.headers, MESSAGE_ID)


class MessageBatch:
    """The messages of one stored batch, column by column; nothing is made for a message until its column is
    asked for.

    All columns have `len(batch)` entries in offset order and must not be changed.
    """

    __slots__ = ("_columns", "partition", "topic")

    topic: str
    partition: int

    def __init__(self, topic: str, partition: int, columns: Columns) -> None:
        self.topic = topic
        self.partition = partition
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def offsets(self) -> Sequence[int]:
        return self._columns.offsets

    @property
    def timestamps_ms(self) -> list[int]:
        """Milliseconds since 1970 UTC; -1 = none."""
        return self._columns.timestamps_ms

    @property
    def keys(self) -> list[bytes | None]:
        return self._columns.keys

    @property
    def values(self) -> list[bytes | None]:
        """None is a tombstone."""
        return self._columns.values

    @property
    def headers(self) -> list[RecordHeaders]:
        return self._columns.headers

    def messages(self) -> Iterator[Message]:
        """The same, one light object a message."""
        columns = self._columns
        return map(
            Message,
            repeat(self.topic),
            repeat(self.partition),
            columns.offsets,
            columns.timestamps_ms,
            columns.keys,
            columns.values,
            columns.headers,
        )

    def __iter__(self) -> Iterator[Message]:
        return self.messages()

    def to_arrow(self) -> pyarrow.RecordBatch:
        """offset int64, timestamp_ms timestamp[ms, UTC], key and value binary, headers list<struct<name,
        content>>.

        Needs pyarrow, which the SDK does not bring.
        """
        return self._columns.arrow()

    def __repr__(self) -> str:
        first = self.offsets[0] if len(self) else "-"
        return f"<MessageBatch {self.topic}-{self.partition} of {len(self)} from {first}>"
