"""Failures are told by message, remedy and code, as text and as JSON; the exit code says what to do."""

import json
from typing import NoReturn

import click
import pytest

from penstock.cli import failures
from penstock.cli.exit_codes import ExitCode, ServerPartMissing, exit_code
from penstock.contract import errors


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.NotFound("x"), ExitCode.NOT_FOUND),
        (errors.Unauthenticated("x"), ExitCode.DENIED),
        (errors.Forbidden("x"), ExitCode.DENIED),
        (errors.InvalidRequest("x"), ExitCode.REFUSED),
        (errors.AlreadyExists("x"), ExitCode.REFUSED),
        (errors.ConfigurationError("x"), ExitCode.REFUSED),
        (errors.BrokerUnavailable("x"), ExitCode.UNAVAILABLE),
        (errors.NotEnoughReplicas("x"), ExitCode.UNAVAILABLE),
        (errors.DeliveryTimeout("x"), ExitCode.UNKNOWN),
        (errors.OutcomeUnknown("x"), ExitCode.UNKNOWN),
        (ServerPartMissing("x"), ExitCode.SERVER_PART_MISSING),
    ],
)
def test_the_exit_code_says_what_a_script_should_do(error: errors.PenstockError, expected: ExitCode) -> None:
    assert exit_code(error) is expected


@pytest.mark.parametrize("row", errors.error_table(), ids=lambda row: row.code.name)
def test_every_row_of_the_error_table_has_an_exit_code_that_is_no_success(row: errors.ErrorRow) -> None:
    code = exit_code(errors.error_class(row.code)("x"))
    assert code not in (ExitCode.OK, ExitCode.INTERNAL, ExitCode.USAGE)
    assert (code is ExitCode.UNKNOWN) == (row.belief is errors.Belief.UNKNOWN)


def test_a_refusal_is_told_with_code_and_remedy_and_without_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert failures.tell(errors.NotFound("orders: no such topic"), as_json=False) is ExitCode.NOT_FOUND
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "Error: orders: no such topic [NOT_FOUND]\n"
        "  Check the name, and what the access list shows you; create the object first.\n"
    )


def test_a_refusal_in_json_carries_everything(capsys: pytest.CaptureFixture[str]) -> None:
    failures.tell(errors.DeliveryTimeout("orders-1: no answer in 5 s"), as_json=True)
    told = json.loads(capsys.readouterr().err)["error"]
    assert told == {
        "code": "DELIVERY_TIMEOUT",
        "number": 61,
        "message": "orders-1: no answer in 5 s",
        "remedy": errors.DeliveryTimeout.remedy,
        "retriable": False,
        "belief": "unknown",
        "exit_code": 7,
    }


def raised(error: Exception) -> Exception:
    def fail() -> NoReturn:
        raise error

    try:
        fail()
    except Exception as caught:
        return caught


def test_a_bug_is_told_in_one_line_and_shows_where_only_when_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(failures.DEBUG, raising=False)
    assert failures.tell(raised(KeyError("segment")), as_json=False) is ExitCode.INTERNAL
    assert "Traceback" not in capsys.readouterr().err
    monkeypatch.setenv(failures.DEBUG, "1")
    failures.tell(raised(KeyError("segment")), as_json=False)
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_says_what_it_leaves_behind(capsys: pytest.CaptureFixture[str]) -> None:
    stopped = KeyboardInterrupt()
    assert failures.tell(stopped, as_json=False) is ExitCode.INTERRUPTED
    assert capsys.readouterr().err == ""
    stopped.add_note("The period has ended.")
    aborted = click.Abort()
    aborted.__cause__ = stopped
    for interrupt in (stopped, aborted):
        assert failures.tell(interrupt, as_json=False) is ExitCode.INTERRUPTED
        assert capsys.readouterr().err == "Interrupted. The period has ended.\n"
    failures.tell(stopped, as_json=True)
    error = json.loads(capsys.readouterr().err)["error"]
    assert error == {"code": "INTERRUPTED", "message": "The period has ended.", "exit_code": 130}


def test_wrong_usage_and_an_interrupt_have_their_own_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.tell(click.UsageError("no such option: --foo"), as_json=True) is ExitCode.USAGE
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "USAGE"
    assert failures.tell(KeyboardInterrupt(), as_json=False) is ExitCode.INTERRUPTED
