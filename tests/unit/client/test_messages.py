"""A message is a light value: its fields by name and by place, equality, a copy by pickle, and nothing to collect."""

import copy
import gc
import pickle
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.client.messages import Message, MessageBatch
from penstock.records.batch import Compression, placed
from penstock.records.build import BatchBuilder
from penstock.records.parse import columns_of

NOW_MS = 1_700_000_000_000
FIELDS: tuple[Any, ...] = ("orders", 2, 7, NOW_MS, b"anna", b"one book", [("shop", b"north")])


def test_a_message_has_its_fields_by_name_and_by_place() -> None:
    message = Message(*FIELDS)
    topic, partition, offset, timestamp_ms, key, value, headers = message
    assert (topic, partition, offset, timestamp_ms, key, value, headers) == FIELDS
    assert (message.topic, message.partition, message.offset, message.timestamp_ms) == FIELDS[:4]
    assert (message.key, message.value, message.headers) == FIELDS[4:]
    assert (message[0], message[-1], message[1:3], len(message)) == ("orders", FIELDS[-1], (2, 7), 7)


def test_messages_with_the_same_fields_are_equal_and_a_copy_is_one() -> None:
    message = Message(*FIELDS)
    assert message == Message(*FIELDS) == pickle.loads(pickle.dumps(message)) == copy.deepcopy(message)
    assert message != replace(message, headers=[])
    assert repr(message) == (
        "Message(topic='orders', partition=2, offset=7, timestamp_ms=1700000000000, key=b'anna',"
        " value=b'one book', headers=[('shop', b'north')])"
    )


def test_a_message_is_not_changed() -> None:
    with pytest.raises(AttributeError):
        Message(*FIELDS).offset = 8  # type: ignore[misc]


def test_the_garbage_collector_does_not_look_at_messages() -> None:
    assert not gc.is_tracked(Message(*FIELDS))


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_a_batch_gives_its_messages_with_lists_of_headers_of_their_own(codec: Compression) -> None:
    builder = BatchBuilder(codec)
    for headers in ([], [("a", b"1"), ("a", None)], []):
        builder.append(NOW_MS, None, b"", headers)
    batch = MessageBatch("orders", 2, columns_of(b"".join(placed(builder.build(), 40, 1))))
    messages = list(batch)
    assert [message.offset for message in messages] == list(batch.offsets) == [40, 41, 42]
    assert [message.headers for message in messages] == [[], [("a", b"1"), ("a", None)], []]
    assert {(message.topic, message.partition, message.value) for message in messages} == {("orders", 2, b"")}
    messages[0].headers.append(("mine", None))
    assert messages[2].headers == []
    without = MessageBatch("orders", 2, columns_of(b"".join(placed(_plain(), 0, 1))))
    first, second = without
    first.headers.append(("mine", None))
    assert second.headers == []


def test_the_columns_of_a_batch_are_the_fields_of_its_messages() -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v", [("a", b"1")])
    builder.append(NOW_MS + 5, None, None, [])
    batch = MessageBatch("orders", 2, columns_of(b"".join(placed(builder.build(), 40, 1))))
    assert len(batch) == 2
    assert batch.timestamps_ms == [NOW_MS, NOW_MS + 5]
    assert (batch.keys, batch.values) == ([b"k", None], [b"v", None])
    assert batch.headers == [[("a", b"1")], []]
    assert [tuple(message) for message in batch] == [
        ("orders", 2, 40, NOW_MS, b"k", b"v", [("a", b"1")]),
        ("orders", 2, 41, NOW_MS + 5, None, None, []),
    ]
    table = batch.to_arrow()
    assert table.column("offset").to_pylist() == [40, 41]
    assert table.column("value").to_pylist() == [b"v", None]


def _plain() -> bytes:
    builder = BatchBuilder()
    builder.append_many(NOW_MS, [b"a", b"b"])
    return builder.build()
