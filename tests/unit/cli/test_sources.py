"""Messages from arguments and lines: exact bytes, keys where asked for, and the place named when something
is wrong.
"""

import io

import pytest

from penstock.cli.sources import Item, from_arguments, from_lines
from penstock.contract.errors import InvalidRequest, MessageTooLarge
from penstock.contract.limits import MESSAGE_BYTES_MAX_LIMIT


def pairs(items: list[Item]) -> list[tuple[bytes | None, bytes]]:
    return [(item.key, item.value) for item in items]


def test_each_line_is_a_message_and_only_its_line_feed_is_left_out() -> None:
    items = list(from_lines(io.BytesIO(b"one\n\n  two \r\nlast"), None))
    assert pairs(items) == [(None, b"one"), (None, b""), (None, b"  two \r"), (None, b"last")]
    assert [item.consumed for item in items] == [4, 5, 13, 17]


def test_bytes_that_are_no_text_pass_as_they_are() -> None:
    assert pairs(list(from_lines(io.BytesIO(b"\xff\x00\n"), None))) == [(None, b"\xff\x00")]


def test_the_first_separator_divides_key_and_value() -> None:
    items = list(from_lines(io.BytesIO(b"a:b:c\n:d\n"), b":"))
    assert pairs(items) == [(b"a", b"b:c"), (b"", b"d")]


def test_a_line_without_the_separator_is_refused_by_its_number_after_those_before_it() -> None:
    lines = from_lines(io.BytesIO(b"a:b\nplain\n"), b":")
    assert next(lines).value == b"b"
    with pytest.raises(InvalidRequest, match="line 2: no key separator ':'"):
        next(lines)


def test_a_line_that_no_message_can_hold_is_refused_without_reading_all_of_it() -> None:
    stream = io.BytesIO(b"x" * (3 * MESSAGE_BYTES_MAX_LIMIT))
    with pytest.raises(MessageTooLarge, match="line 1"):
        next(from_lines(stream, None))
    assert stream.tell() <= 2 * MESSAGE_BYTES_MAX_LIMIT + 1


def test_arguments_are_messages_with_their_bytes() -> None:
    items = list(from_arguments(("k=grüße".encode(), b"k=\xff"), b"="))
    assert pairs(items) == [(b"k", "grüße".encode()), (b"k", b"\xff")]
