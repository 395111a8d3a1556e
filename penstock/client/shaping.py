"""From what an application sends to bytes and headers, and from stored messages back: serializers and message ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.client.filling import Headers
from penstock.client.messages import Message
from penstock.contract.errors import ConfigurationError, SerializationFailed
from penstock.serializers import CONTENT_TYPE, MESSAGE_ID, Serializer, header, media_type

_SHOWN = 200
"""Characters of a serializer's own complaint that an error repeats."""


class Outbound:
    """What a producer does to each message before it goes into a batch."""

    __slots__ = ("_content_type", "_key", "_new_id", "_value")

    def __init__(
        self, value: Serializer | None, key: Serializer | None, new_id: Callable[[], str] | None
    ) -> None:
        self._value, self._key, self._new_id = value, key, new_id
        self._content_type = None if value is None else (CONTENT_TYPE, value.content_type.encode())

    def shape(
        self, topic: str, value: Any, key: Any, headers: Headers | None
    ) -> tuple[bytes | None, bytes | None, Headers | None]:
        """(value, key, headers) as they are stored. A header that the application set itself stays as it is.

        Raises `SerializationFailed`.
        """
        more = self._headers(value, headers or ())
        if self._value is not None and value is not None:
            value = _performed(
                self._value.serialize, value, f"{topic}: a value of type {type(value).__name__}"
            )
        if self._key is not None and key is not None:
            key = _performed(self._key.serialize, key, f"{topic}: a key of type {type(key).__name__}")
        return value, key, [*(headers or ()), *more] if more else headers

    def _headers(self, value: Any, given: Headers) -> list[tuple[str, bytes]]:
        names = [name for name, _ in given]
        more: list[tuple[str, bytes]] = []
        if self._content_type is not None and value is not None and CONTENT_TYPE not in names:
            more.append(self._content_type)
        if self._new_id is not None and MESSAGE_ID not in names:
            more.append((MESSAGE_ID, self._new_id().encode()))
        return more


class Inbound:
    """What a consumer does to each stored message before it is handed out."""

    __slots__ = ("_by_type", "_key", "_only")

    def __init__(self, values: Sequence[Serializer], key: Serializer | None) -> None:
        self._only = values[0] if len(values) == 1 else None
        self._by_type = {media_type(each.content_type): each for each in values}
        self._key = key

    def shape(self, message: Message) -> Message:
        """The message with its value and key decoded. Raises `SerializationFailed`."""
        value, key = message.value, message.key
        if value is not None and self._by_type:
            value = _performed(self._chosen(message).deserialize, value, "the value")
        if key is not None and self._key is not None:
            key = _performed(self._key.deserialize, key, "the key")
        return message._replace(value=value, key=key)

    def _chosen(self, message: Message) -> Serializer:
        """By the message's content type; a message that names none is taken for what is expected, if that is one."""
        named = header(message.headers, CONTENT_TYPE)
        found = self._only if named is None else self._by_type.get(media_type(named))
        if found is None:
            expected = " or ".join(self._by_type)
            raise SerializationFailed(
                f"the value is {named or 'of no named content type'}, expected {expected}"
            )
        return found


def outbound(value: object, key: object, new_id: Callable[[], str] | None) -> Outbound | None:
    """`new_id` makes message ids, if they are wanted. None = messages go as they are. Raises `ConfigurationError`."""
    if value is None and key is None and new_id is None:
        return None
    return Outbound(_serializer("value_serializer", value), _serializer("key_serializer", key), new_id)


def inbound(values: object, key: object) -> Inbound | None:
    """None = messages come as they are. Raises `ConfigurationError`."""
    if values is None and key is None:
        return None
    several = values if isinstance(values, list | tuple) else [] if values is None else [values]
    checked = [_serializer("value_deserializer", each) for each in several]
    return Inbound([each for each in checked if each is not None], _serializer("key_deserializer", key))


def _serializer(argument: str, given: object) -> Serializer | None:
    if given is not None and (isinstance(given, type) or not isinstance(given, Serializer)):
        raise ConfigurationError(
            f"{argument}: {given!r} is no serializer; use one of penstock.serializers, as JSON or Avro(schema)"
        )
    return given


def _performed(act: Callable[[Any], Any], on: Any, what: str) -> Any:
    try:
        return act(on)
    except Exception as error:
        complaint = f"{type(error).__name__}: {error}"
        raise SerializationFailed(f"{what} does not pass its serializer: {complaint[:_SHOWN]}") from error
