"""Bytes on a terminal: readable, in one line, and unable to steer it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import display, failures
from penstock.cli.output import print_table
from penstock.contract import errors


def test_text_stays_as_it_is() -> None:
    assert display.text("grüße ☂".encode()) == "grüße ☂"


def test_control_characters_and_broken_bytes_become_escapes() -> None:
    assert display.text(b"\x1b[2Jgone\r\n\xff") == "\\x1b[2Jgone\\r\\n\\xff"


@given(st.binary(max_size=200))
def test_no_bytes_print_more_than_one_line_or_a_control_character(value: bytes) -> None:
    shown = display.text(value)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1


@given(st.binary(max_size=200), st.booleans())
def test_json_gives_every_value_back(value: bytes, as_hex: bool) -> None:
    field = json.loads(json.dumps(display.json_field("value", value, as_hex=as_hex)))
    read = field["value"].encode() if "value" in field else bytes.fromhex(field["value_hex"])
    assert read == value


def test_a_missing_value_is_null_and_not_empty() -> None:
    assert display.json_field("key", None, as_hex=True) == {"key": None}
    assert display.json_field("key", b"", as_hex=False) == {"key": ""}


def test_moments_are_utc_with_milliseconds_and_survive_the_end_of_the_calendar() -> None:
    assert display.moment(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert display.moment(-1) == "1969-12-31T23:59:59.999Z"
    assert display.moment(2**62) == str(2**62)


def test_a_name_that_steers_or_turns_the_terminal_is_shown_as_escapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hostile = "\x1b[2J\x9bK\u202egnp.exe\u2066\r\n[bold]"
    print_table(["name"], [[hostile]])
    failures.tell(errors.NotFound(f"{hostile}: no such topic"), as_json=False)
    told = capsys.readouterr()
    assert "\\x1b[2J\\x9bK\\u202egnp.exe\\u2066\\r\\n[bold]" in told.out
    for text in (told.out, told.err):
        assert all(character.isprintable() for character in text.replace("\n", ""))


def test_an_empty_table_says_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["topic"], [], empty="No topics yet.")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "No topics yet.\n")
