"""Log lines: one JSON object each, whatever is logged."""

import json
import logging
import sys

import pytest

from data_plane.broker.logs import JsonFormatter


def line(record: logging.LogRecord) -> dict[str, object]:
    text = JsonFormatter(7).format(record)
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
        "broker": 7,
        "message": "held 3",
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
    assert "value" in JsonFormatter(7).format(record("odd", value=value))
