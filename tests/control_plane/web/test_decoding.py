"""Bytes as people read them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.decoding import PREVIEW_MAX, SHOWN_MAX, decode, lay_out_json, visible

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(JSON) | st.dictionaries(st.text(), JSON), st.sampled_from([None, 1]))
def test_laid_out_json_means_the_same(value: object, indent: int | None) -> None:
    laid_out = lay_out_json(json.dumps(value, indent=indent))
    assert laid_out is not None
    assert json.loads(laid_out) == value


def test_laying_out_keeps_digits_and_repeated_names() -> None:
    laid_out = lay_out_json('{"a":1.10,"a":12345678901234567890.50,"b":[],"c":{}}')
    assert laid_out == '{\n  "a": 1.10,\n  "a": 12345678901234567890.50,\n  "b": [],\n  "c": {}\n}'


@pytest.mark.parametrize("text", ["{", "[1,]", '"text"', "12", "", "[" * 5_000 + "]" * 5_000, "{'a': 1}"])
def test_what_is_no_json_object_stays_text(text: str) -> None:
    assert lay_out_json(text) is None
    assert decode(text.encode()).kind == "text"


def test_a_missing_content_is_none_and_an_empty_one_is_text() -> None:
    assert decode(None).kind == "none"
    assert decode(b"").kind == "text"


def test_binary_is_shown_in_hex_with_its_letters() -> None:
    shown = decode(b"\x00\x01binary\xff")
    assert shown.kind == "hex"
    assert "00 01 62 69 6e 61 72 79 ff" in shown.whole
    assert "··binary·" in shown.whole


@given(st.binary(max_size=300))
def test_nothing_that_turns_or_hides_text_is_left_in_what_is_shown(content: bytes) -> None:
    shown = decode(content)
    for text in (shown.whole, shown.preview):
        assert not any(0x202A <= ord(sign) <= 0x202E or 0x2066 <= ord(sign) <= 0x2069 for sign in text)
        assert not any(ord(sign) < 0x20 and sign not in "\n\t" for sign in text)
    assert "\n" not in shown.preview


def test_direction_marks_and_control_signs_are_shown_as_such() -> None:
    assert visible("a\u202eb\u200b\x00\x7f") == "a\\u202eb\\u200b\u2400\u2421"


def test_a_large_content_is_cut_between_characters() -> None:
    shown = decode(b"x" + "ü".encode() * SHOWN_MAX)
    assert shown.shortened
    assert shown.kind == "text"
    assert shown.size == 2 * SHOWN_MAX + 1
    assert len(shown.whole.encode()) <= SHOWN_MAX
    assert len(shown.preview) <= PREVIEW_MAX


def test_a_line_separator_is_shown_as_its_escape() -> None:
    assert decode("one\u2028two\u2029".encode()).preview == "one\\u2028two\\u2029"
