"""How values become bytes and back: text, JSON, Avro, Protobuf, named to readers by the `content-type` header.

    from penstock.serializers import JSON

    with penstock.Client() as client, client.producer(value_serializer=JSON) as producer:
        producer.send("orders", {"book": "Emma", "count": 2})

`None` is a tombstone and goes past every serializer.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from penstock.contract.errors import ConfigurationError

if TYPE_CHECKING:
    from google.protobuf.message import Message as ProtobufMessage

CONTENT_TYPE = "content-type"
"""The header that names the form of a message's value."""
MESSAGE_ID = "message-id"
"""The header that carries a message's UUID, as text."""
_AVRO_MARKER = b"\xc3\x01"
_AVRO_FINGERPRINT_BYTES = 8

Headers = Iterable[tuple[str, bytes | None]]


_Value = TypeVar("_Value")


@runtime_checkable
class Serializer(Protocol[_Value]):
    """What `value_serializer` and `value_deserializer` take. Both methods may raise anything; the SDK says of which
    message (`SerializationFailed`).
    """

    @property
    def content_type(self) -> str:
        """What the `content-type` header says of such a value."""

    def serialize(self, value: _Value) -> bytes: ...

    def deserialize(self, data: bytes) -> _Value: ...


_Message = TypeVar("_Message", bound="ProtobufMessage")


class _Text:
    """`str` as UTF-8."""

    content_type = "text/plain; charset=utf-8"

    def serialize(self, value: str) -> bytes:
        return value.encode()

    def deserialize(self, data: bytes) -> str:
        return str(data, "utf-8")


class _Json:
    """Whatever `json` takes, without blanks, as UTF-8. Numbers that JSON does not have (NaN, infinity) are refused."""

    content_type = "application/json"

    def serialize(self, value: Any) -> bytes:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    def deserialize(self, data: bytes) -> Any:
        return json.loads(data)


TEXT: Serializer[str] = _Text()
JSON: Serializer[Any] = _Json()


class Avro:
    """Records of one Avro schema, each with the fingerprint of the schema it was written by (Avro's single-object
    encoding). Needs the package `fastavro`.
    """

    content_type = "application/avro"

    def __init__(
        self, schema: Mapping[str, Any] | str, *, written_by: Sequence[Mapping[str, Any] | str] = ()
    ) -> None:
        """`schema` as JSON text or what it says. `written_by`: further schemas that values may be written by; they
        are read as `schema` by Avro's rules of resolution. Raises `ConfigurationError`.
        """
        try:
            import fastavro
        except ImportError:
            raise ConfigurationError("Avro: fastavro is not installed; pip install fastavro") from None
        self._fastavro = fastavro
        self._schema = self._parsed(schema)
        self._known = {
            self._fingerprint(each): each for each in (self._schema, *map(self._parsed, written_by))
        }

    def _parsed(self, schema: Mapping[str, Any] | str) -> Any:
        try:
            return self._fastavro.parse_schema(
                json.loads(schema) if isinstance(schema, str) else dict(schema)
            )
        except Exception as error:
            raise ConfigurationError(f"Avro: not a schema: {error}") from error

    def _fingerprint(self, schema: Any) -> bytes:
        canonical = self._fastavro.schema.to_parsing_canonical_form(schema)
        return bytes.fromhex(self._fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))

    @cached_property
    def _front(self) -> bytes:
        return _AVRO_MARKER + next(iter(self._known))

    def serialize(self, value: Any) -> bytes:
        out = BytesIO()
        out.write(self._front)
        self._fastavro.schemaless_writer(out, self._schema, value, strict=True)
        return out.getvalue()

    def deserialize(self, data: bytes) -> Any:
        at = len(_AVRO_MARKER) + _AVRO_FINGERPRINT_BYTES
        if bytes(data[: len(_AVRO_MARKER)]) != _AVRO_MARKER or len(data) < at:
            raise ValueError("no Avro value: the marker of the single-object encoding is missing")
        fingerprint = bytes(data[len(_AVRO_MARKER) : at])
        written_by = self._known.get(fingerprint)
        if written_by is None:
            raise ValueError(f"written by a schema that is not known here, fingerprint {fingerprint.hex()}")
        return self._fastavro.schemaless_reader(BytesIO(data[at:]), written_by, self._schema)


class Protobuf(Generic[_Message]):
    """Messages of one generated Protobuf class."""

    def __init__(self, message: type[_Message]) -> None:
        self._message = message
        self.content_type = f"application/protobuf; message={message.DESCRIPTOR.full_name}"

    def serialize(self, value: _Message) -> bytes:
        if not isinstance(value, self._message):
            raise TypeError(f"{type(value).__name__} is not a {self._message.DESCRIPTOR.full_name}")
        return value.SerializeToString()

    def deserialize(self, data: bytes) -> _Message:
        return self._message.FromString(bytes(data))


def new_message_id() -> str:
    """A random UUID, as text."""
    return str(uuid.uuid4())


def media_type(content_type: str) -> str:
    """Without its parameters, in lower case: what two forms are compared by."""
    return content_type.partition(";")[0].strip().lower()


def header(headers: Headers, name: str) -> str | None:
    """The first header of this name as text, or None."""
    for each, content in headers:
        if each == name and content is not None:
            return bytes(content).decode("utf-8", "replace")
    return None
