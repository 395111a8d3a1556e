"""Log lines: one JSON object each, whatever is logged."""

import json
import logging
import sys
from dataclasses import dataclass, field

import pytest

from daemon.logs import JsonLines, request_id


def line(record: logging.LogRecord) -> dict[str, object]:
    text = JsonLines("broker", broker=7).format(record)
    assert "\n" not in text
    parsed: dict[str, object] = json.loads(text)
    return parsed


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.getLogger("penstock.test").makeRecord(
        "penstock.test", logging.WARNING, "file.py", 1, message, args, None, extra=extra
    )
    made.created, made.msecs = 1_700_000_000.25, 250.0
    return made


def test_a_line_says_when_how_bad_where_and_what() -> None:
    assert line(record("held %d", 3, request_id="r-1", peer="127.0.0.1")) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "penstock.test",
        "message": "held 3",
        "process": "broker",
        "broker": 7,
        "request_id": "r-1",
        "peer": "127.0.0.1",
    }


def test_an_exception_stands_in_its_line() -> None:
    try:
        raise KeyError("ours")
    except KeyError:
        made = record("failed")
        made.exc_info = sys.exc_info()
    assert "KeyError: 'ours'" in str(line(made)["exception"])


@pytest.mark.parametrize("value", [b"\xff", object(), {1: {2}}, float("nan"), "\u2028\n\0"])
def test_anything_can_be_logged(value: object) -> None:
    assert "value" in JsonLines("broker", broker=7).format(record("odd", value=value))


def test_a_line_names_the_request_that_is_being_answered() -> None:
    mark = request_id.set("r-7")
    try:
        assert line(record("asked"))["request_id"] == "r-7"
    finally:
        request_id.reset(mark)
    assert "request_id" not in line(record("asked"))


def test_a_key_is_hidden_wherever_it_stands() -> None:
    key = "penstock_dev_0123456789ab_" + "s" * 43
    text = JsonLines("broker").format(record(f"refused {key}", given=[key], nested={key: 1}))
    assert "s" * 8 not in text
    assert text.count("penstock_dev_0123456789ab_…") == 3


@dataclass
class _Secretive:
    shown: str
    secret: str = field(repr=False)


def test_what_a_value_hides_of_itself_stays_hidden() -> None:
    text = JsonLines("broker").format(record("given", value=_Secretive("open", "closed")))
    assert "open" in text and "closed" not in text


def test_whole_requests_and_tasks_are_left_out() -> None:
    assert line(record("task", data={"a": 1}, request="r")).keys() == line(record("task")).keys()
