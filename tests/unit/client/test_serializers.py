"""Values become bytes and back: each serializer, the headers that go with it, and what cannot be decoded."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.consuming.fetch_collector import FetchCollector
from penstock.client.messages import Message
from penstock.client.serialization import (
    MessageDeserializer,
    message_deserializer,
    message_serializer,
    time_of_message,
)
from penstock.contract.errors import ConfigurationError, InvalidRequest, SerializationFailed
from penstock.contract.v1.log_pb2 import InitProducerRequest, InitProducerResponse
from penstock.serializers import JSON, MESSAGE_ID, TEXT, Avro, Protobuf, Serializer, new_message_id
from tests.unit.client.runner import Runner

BOOK = {"type": "record", "name": "Book", "fields": [{"name": "title", "type": "string"}]}
BOOK_NOW = {
    "type": "record",
    "name": "Book",
    "fields": [{"name": "title", "type": "string"}, {"name": "pages", "type": "int", "default": 0}],
}


def stored(value: bytes | None, *headers: tuple[str, bytes | None]) -> Message:
    return Message("orders", 0, 7, 0, None, value, list(headers))


def through(serializer: Serializer[Any], value: Any) -> Any:
    out = message_serializer(serializer, None, None)
    data, _, headers = out.serialize("orders", value, None, None)
    back = message_deserializer(serializer, None)
    assert back is not None
    return back.deserialize(stored(data, *(headers or ()))).value


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(alphabet=st.characters(exclude_categories=["Cs"])), json_values, max_size=3))
def test_json_comes_back_as_it_was(value: dict[str, Any]) -> None:
    try:
        str(value).encode()
    except UnicodeEncodeError:
        with pytest.raises(SerializationFailed):
            through(JSON, value)
        return
    assert through(JSON, value) == value


def test_text_avro_and_protobuf_come_back_as_they_were() -> None:
    assert through(TEXT, "zażółć") == "zażółć"
    assert through(Avro(BOOK), {"title": "Emma"}) == {"title": "Emma"}
    request = InitProducerRequest(producer_id=7, producer_epoch=2)
    assert through(Protobuf(InitProducerRequest), request) == request


def test_avro_reads_what_an_older_schema_wrote_where_it_is_named() -> None:
    written = Avro(BOOK).serialize({"title": "Emma"})
    assert Avro(BOOK_NOW, written_by=[BOOK]).deserialize(written) == {"title": "Emma", "pages": 0}
    with pytest.raises(ValueError, match="a schema that is not known here"):
        Avro(BOOK_NOW).deserialize(written)
    with pytest.raises(ValueError, match="no Avro value"):
        Avro(BOOK).deserialize(b"\xc3")
    with pytest.raises(ConfigurationError, match="Avro: not a schema"):
        Avro({"type": "recrd"})


@pytest.mark.parametrize(
    ("serializer", "value", "complaint"),
    [
        (JSON, {"x": float("nan")}, "orders: a value of type dict does not pass its serializer: ValueError"),
        (JSON, object(), "orders: a value of type object"),
        (TEXT, b"bytes", "orders: a value of type bytes"),
        (Avro(BOOK), {"titel": "Emma"}, "orders: a value of type dict"),
        (Protobuf(InitProducerRequest), InitProducerResponse(), "is not a penstock"),
    ],
    ids=["nan", "object", "bytes as text", "another record", "another message"],
)
def test_a_value_that_its_serializer_does_not_take_is_refused_before_it_is_sent(
    serializer: Serializer[Any], value: Any, complaint: str
) -> None:
    runner = Runner()
    runner.cluster.create("orders", 1)
    out = message_serializer(serializer, None, None)
    with pytest.raises(SerializationFailed, match=complaint):
        out.serialize("orders", value, None, None)


def test_the_content_type_names_the_form_and_an_own_header_stays() -> None:
    out = message_serializer(JSON, TEXT, new_message_id)
    value, key, headers = out.serialize("orders", {"a": 1}, "anna", [("trace", b"1")])
    assert (value, key) == (b'{"a":1}', b"anna")
    assert headers is not None
    assert headers[:2] == [("trace", b"1"), ("content-type", b"application/json")]
    name, number = headers[2]
    assert number is not None
    assert name == MESSAGE_ID
    assert uuid.UUID(number.decode()).version == 4
    own = [("content-type", b"application/cloudevents+json"), (MESSAGE_ID, b"mine")]
    assert out.serialize("orders", {}, None, own)[2] == own
    message = stored(b"{}", *own)
    assert (message.id, message.content_type) == ("mine", "application/cloudevents+json")
    assert (stored(b"").id, stored(b"").content_type) == (None, None)


def test_a_tombstone_passes_every_serializer_and_has_no_content_type() -> None:
    out, back = message_serializer(JSON, JSON, None), message_deserializer(JSON, JSON)
    assert back is not None
    assert out.serialize("orders", None, None, None) == (None, None, None)
    assert back.deserialize(stored(None)).value is None


def test_of_several_deserializers_the_content_type_chooses() -> None:
    back = message_deserializer([JSON, TEXT], None)
    assert back is not None
    assert back.deserialize(
        stored(b'{"a":1}', ("content-type", b"Application/JSON; charset=utf-8"))
    ).value == {"a": 1}
    assert back.deserialize(stored(b"plain", ("content-type", b"text/plain"))).value == "plain"
    with pytest.raises(
        SerializationFailed, match="is of no named content type, expected application/json or text/plain"
    ):
        back.deserialize(stored(b"plain"))
    with pytest.raises(SerializationFailed, match="the value is application/avro, expected"):
        back.deserialize(stored(b"", ("content-type", b"application/avro")))


def test_what_is_no_serializer_is_refused_with_the_argument() -> None:
    with pytest.raises(ConfigurationError, match="value_serializer: 'json' is no serializer"):
        message_serializer("json", None, None)
    with pytest.raises(ConfigurationError, match=r"key_deserializer: .* is no serializer"):
        message_deserializer(JSON, Protobuf)
    assert not message_serializer(None, None, None).adds
    assert message_deserializer(None, None) is None


def collector(runner: Runner, consumer: Any, back: MessageDeserializer | None) -> FetchCollector:
    return FetchCollector(
        consumer.next_fetched,
        lambda fetched: consumer.finished(fetched, runner.now),
        consumer.skipping.unreadable,
        consumer.skipping.malformed,
        consumer.skipping.undecodable,
        back,
    )


def test_a_consumer_stops_before_a_message_that_cannot_be_decoded_and_goes_on_behind_it_after_a_seek() -> (
    None
):
    runner = Runner()
    runner.cluster.create("orders", 1)
    producer = runner.producer(batch_messages=10, linger_ms=50)
    for value in (b"1", b"2", b"{", b"4"):
        runner.send(producer, "orders", value, partition=0)
    runner.run(100)
    consumer = runner.consumer("orders")
    hands = collector(runner, consumer, message_deserializer(JSON, None))
    for _ in range(20):
        consumer.prepare()
        runner.run(20)
        if consumer.has_readable():
            break
    assert [message.value for message in hands.messages(10)] == [1, 2]
    with pytest.raises(
        SerializationFailed, match=r"orders-0: at offset 2: the value does not pass its serializer"
    ):
        consumer.raise_halted()
    assert hands.messages(10) == []
    consumer.seek(consumer.position("orders", 0), offset=3)
    for _ in range(20):
        consumer.prepare()
        runner.run(20)
        if consumer.has_readable():
            break
    assert [message.value for message in hands.messages(10)] == [4]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("text", "the value is a str, bytes required; give the producer value_serializer=TEXT"),
        ({"a": 1}, "the value is a dict, bytes required; give the producer value_serializer=JSON"),
        (5, "the value is an int, bytes required; give the producer value_serializer=JSON"),
        (InitProducerRequest(), r"value_serializer=Protobuf\(InitProducerRequest\)"),
    ],
    ids=["text", "dict", "int", "protobuf"],
)
def test_a_value_that_is_not_bytes_is_told_the_serializer_that_takes_it(value: object, said: str) -> None:
    with pytest.raises(TypeError, match=f"orders: .*{said}"):
        message_serializer(None, None, None).serialize("orders", value, None, None)


@pytest.mark.parametrize(("key", "serializer"), [("anna", "TEXT"), (5, "JSON")])
def test_a_key_that_is_not_bytes_is_told_likewise_whatever_the_values_have(
    key: object, serializer: str
) -> None:
    for out in (message_serializer(None, None, None), message_serializer(JSON, None, None)):
        with pytest.raises(TypeError, match=f"orders: the key is an? .* key_serializer={serializer}"):
            out.serialize("orders", {} if out.adds else b"", key, None)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"shop": "north"}, "header 'shop' is a str, bytes required; encode it"),
        ([("shop", 5)], "header 'shop' is an int, bytes required"),
        ([(b"shop", b"north")], "the name of header 0 is a bytes, a str required"),
        ([("a", b"1"), ("shop", b"north", 1)], "header 1 is .* a pair of name and content required"),
        ("shop", "the headers are a str; a mapping, or pairs"),
        (5, "the headers are an int"),
    ],
    ids=["text", "number", "name", "three", "a word", "no headers"],
)
def test_headers_that_cannot_be_stored_are_told_by_name_or_place(headers: Any, said: str) -> None:
    with pytest.raises(TypeError, match=f"orders: {said}"):
        message_serializer(None, None, None).serialize("orders", b"", None, headers)


@pytest.mark.parametrize("time", ["now", 1.5, b"5"])
def test_a_time_that_is_no_whole_number_is_told_with_its_topic(time: object) -> None:
    with pytest.raises(TypeError, match=f"orders: timestamp_ms {time!r} is not a whole number"):
        time_of_message("orders", time)


@pytest.mark.parametrize("time", [-1, 2**63])
def test_a_time_that_no_batch_can_hold_is_refused(time: int) -> None:
    with pytest.raises(InvalidRequest, match=f"orders: timestamp_ms {time}, 0 to {2**63 - 1} required"):
        time_of_message("orders", time)


def test_a_time_may_be_whatever_is_a_whole_number() -> None:
    class Whole:
        def __index__(self) -> int:
            return 5

    assert [time_of_message("orders", time) for time in (Whole(), 0, 2**63 - 1)] == [5, 0, 2**63 - 1]


def test_headers_are_a_mapping_or_any_pairs_and_whatever_is_like_bytes_is_stored() -> None:
    out = message_serializer(None, None, None)
    wanted = [("shop", b"north"), ("trace", None)]
    forms: list[Any] = [dict(wanted), wanted, iter(wanted), [("shop", bytearray(b"north")), ("trace", None)]]
    for form in forms:
        assert out.serialize("orders", b"", None, form)[2] == wanted
    stored = out.serialize("orders", memoryview(b"value"), bytearray(b"key"), None)
    assert stored == (b"value", b"key", None)
    assert [type(each) for each in stored[:2]] == [bytes, bytes]


def test_a_serializer_that_gives_no_bytes_is_named_as_the_culprit() -> None:
    class Wrong:
        content_type = "text/plain"

        def serialize(self, value: object) -> Any:
            return str(value)

        def deserialize(self, data: bytes) -> object:
            return data

    with pytest.raises(
        SerializationFailed, match="orders: the value's serializer gave a str, bytes required"
    ):
        message_serializer(Wrong(), None, None).serialize("orders", 5, None, None)
