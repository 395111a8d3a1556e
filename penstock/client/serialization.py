"""From what an application sends to bytes and headers, and from stored messages back: serializers and message ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Any

from msgspec.structs import replace

from penstock.client.messages import HeaderList, Message
from penstock.contract.errors import ConfigurationError, InvalidRequest, SerializationFailed
from penstock.records.batch import Buffer
from penstock.serializers import CONTENT_TYPE, MESSAGE_ID, Serializer, header, media_type

Headers = Mapping[str, Buffer | None] | Iterable[tuple[str, Buffer | None]]
"""What an application may give; a name that is to come twice needs pairs."""
_PLAIN = {bytes, type(None)}
_TIME_MS_MAX = 2**63 - 1
_SHOWN = 200
"""Characters of a serializer's own complaint that an error repeats."""


class MessageSerializer:
    """What a producer does to each message before it goes into a batch. The least is to see that it is bytes."""

    __slots__ = ("_content_type", "_key", "_new_id", "_value", "adds")

    def __init__(
        self, value: Serializer[Any] | None, key: Serializer[Any] | None, new_id: Callable[[], str] | None
    ) -> None:
        self._value = value
        self._key = key
        self._new_id = new_id
        self.adds = value is not None or key is not None or new_id is not None
        """Whether a message that is bytes already is changed too."""
        self._content_type = None if value is None else (CONTENT_TYPE, value.content_type.encode())

    def serialize(
        self, topic: str, value: Any, key: Any, headers: Headers | None
    ) -> tuple[bytes | None, bytes | None, HeaderList | None]:
        """(value, key, headers) as they are stored. A header that the application set itself stays as it is.

        Raises `SerializationFailed`, and `TypeError` for what is not bytes and has no serializer.
        """
        given = header_list(topic, headers)
        more = self._headers(value, given or ())
        if self._value is not None and value is not None:
            value = _run_serializer(
                self._value.serialize, value, f"{topic}: a value of type {type(value).__name__}"
            )
        if self._key is not None and key is not None:
            key = _run_serializer(self._key.serialize, key, f"{topic}: a key of type {type(key).__name__}")
        if value is not None:
            value = _as_stored(value, topic, "value", self._value)
        if key is not None:
            key = _as_stored(key, topic, "key", self._key)
        return value, key, [*(given or ()), *more] if more else given

    def _headers(self, value: Any, given: HeaderList) -> list[tuple[str, bytes]]:
        names = [name for name, _ in given]
        more: list[tuple[str, bytes]] = []
        if self._content_type is not None and value is not None and CONTENT_TYPE not in names:
            more.append(self._content_type)
        if self._new_id is not None and MESSAGE_ID not in names:
            more.append((MESSAGE_ID, self._new_id().encode()))
        return more


def all_plain(values: Iterable[object], keys: Iterable[object] | None) -> bool:
    """Whether these are stored as they are; found out in a few nanoseconds for each."""
    return set(map(type, values)) <= _PLAIN and (keys is None or set(map(type, keys)) <= _PLAIN)


def header_list(topic: str, given: Any) -> HeaderList | None:
    """`Headers` as pairs in their order. Raises `TypeError` for what is none."""
    if given is None:
        return None
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(
            f"{topic}: the headers are {_a(given)}; a mapping, or pairs of name and content required"
        )
    pairs: list[Any] = list(given.items() if isinstance(given, Mapping) else given)
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"{topic}: header {number} is {pair!r:.{_SHOWN}}; a pair of name and content required"
            )
        name, content = pair
        if not isinstance(name, str):
            raise TypeError(f"{topic}: the name of header {number} is {_a(name)}, a str required")
        if type(pair) is list:
            pairs[number] = name, content
        if content is not None and type(content) is not bytes:
            pairs[number] = name, _buffered(content, f"{topic}: header {name!r}", _as_bytes(content))
    return pairs


def time_of_message(topic: str, given: Any) -> int:
    """The time in ms that an application gives a message. Raises `TypeError` for what is no whole number, and
    `InvalidRequest` for what is below 0 or too large for a batch.
    """
    try:
        time_ms = index(given)
    except TypeError:
        raise TypeError(f"{topic}: timestamp_ms {given!r} is not a whole number") from None
    if not 0 <= time_ms <= _TIME_MS_MAX:
        raise InvalidRequest(f"{topic}: timestamp_ms {time_ms}, 0 to {_TIME_MS_MAX} required")
    return time_ms


def _as_stored(given: Any, topic: str, what: str, serializer: Serializer[Any] | None) -> bytes:
    if type(given) is bytes:
        return given
    if serializer is not None:
        raise SerializationFailed(f"{topic}: the {what}'s serializer gave {_a(given)}, bytes required")
    argument = f"{what}_serializer={_serializer_for(given)}"
    advice = f"give the producer {argument} (penstock.serializers), or {_as_bytes(given)} yourself"
    return _buffered(given, f"{topic}: the {what}", advice)


def _buffered(given: Any, what: str, advice: str) -> bytes:
    """The bytes of anything bytes-like."""
    try:
        return memoryview(given).tobytes()
    except TypeError:
        raise TypeError(f"{what} is {_a(given)}, bytes required; {advice}") from None


def _a(given: object) -> str:
    name = type(given).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _as_bytes(given: object) -> str:
    return "encode it" if isinstance(given, str) else "make bytes of it"


def _serializer_for(given: object) -> str:
    """Which one takes such a thing."""
    if isinstance(given, str):
        return "TEXT"
    if hasattr(given, "SerializeToString"):
        return f"Protobuf({type(given).__name__})"
    return "JSON"


class MessageDeserializer:
    """What a consumer does to each stored message before `poll` returns it."""

    __slots__ = ("_by_type", "_key", "_only")

    def __init__(self, values: Sequence[Serializer[Any]], key: Serializer[Any] | None) -> None:
        self._only = values[0] if len(values) == 1 else None
        self._by_type = {media_type(each.content_type): each for each in values}
        self._key = key

    def deserialize(self, message: Message) -> Message:
        """The message with its value and key decoded. Raises `SerializationFailed`."""
        value, key = message.value, message.key
        if value is not None and self._by_type:
            value = _run_serializer(self._chosen(message).deserialize, value, "the value")
        if key is not None and self._key is not None:
            key = _run_serializer(self._key.deserialize, key, "the key")
        return replace(message, value=value, key=key)

    def _chosen(self, message: Message) -> Serializer[Any]:
        """By the message's content type; a message that names none is taken for what is expected, if that is one."""
        named = header(message.headers, CONTENT_TYPE)
        found = self._only if named is None else self._by_type.get(media_type(named))
        if found is None:
            expected = " or ".join(self._by_type)
            raise SerializationFailed(
                f"the value is {named or 'of no named content type'}, expected {expected}"
            )
        return found


def message_serializer(value: object, key: object, new_id: Callable[[], str] | None) -> MessageSerializer:
    """`new_id` makes message ids, if they are wanted. Raises `ConfigurationError`."""
    return MessageSerializer(
        _serializer("value_serializer", value), _serializer("key_serializer", key), new_id
    )


def message_deserializer(values: object, key: object) -> MessageDeserializer | None:
    """None = messages come as they are. Raises `ConfigurationError`."""
    if values is None and key is None:
        return None
    several = values if isinstance(values, list | tuple) else [] if values is None else [values]
    checked = [_serializer("value_deserializer", each) for each in several]
    return MessageDeserializer(
        [each for each in checked if each is not None], _serializer("key_deserializer", key)
    )


def _serializer(argument: str, given: object) -> Serializer[Any] | None:
    if given is not None and (isinstance(given, type) or not isinstance(given, Serializer)):
        raise ConfigurationError(
            f"{argument}: {given!r} is no serializer; use one of penstock.serializers, as JSON or Avro(schema)"
        )
    return given


def _run_serializer(act: Callable[[Any], Any], on: Any, what: str) -> Any:
    try:
        return act(on)
    except MemoryError:
        raise  # the next try may have the memory: nothing is wrong with the message
    except Exception as error:
        complaint = f"{type(error).__name__}: {error}"
        raise SerializationFailed(f"{what} does not pass its serializer: {complaint[:_SHOWN]}") from error
