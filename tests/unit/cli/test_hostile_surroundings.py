"""The command line with closed streams, readers that left and hostile arguments: documented exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.exit_codes import ExitCode
from tests.waiting import PATIENCE_S

COMMAND = f"{sys.executable} -m penstock.cli"


def ran(shell: str, home: Path) -> tuple[int, str]:
    """Exit code and standard error of a line of bash."""
    done = subprocess.run(
        ["bash", "-c", shell],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb"},
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stderr.decode(errors="replace")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("--help >&-", ExitCode.OK),
        ("--version >&- 2>&- <&-", ExitCode.OK),
        ("completion bash | true; exit ${PIPESTATUS[0]}", ExitCode.OK),
        ("--version | true; exit ${PIPESTATUS[0]}", ExitCode.OK),
        ("nosuch >&- <&-", ExitCode.USAGE),
    ],
)
def test_streams_that_are_closed_or_whose_reader_has_gone_are_no_bug(
    line: str, code: ExitCode, tmp_path: Path
) -> None:
    assert (ran(f"{COMMAND} {line}", tmp_path)[0], "bug") == (code, "bug")
    assert "bug" not in ran(f"{COMMAND} {line}", tmp_path)[1]


@pytest.mark.parametrize("buffering", ["", "PYTHONUNBUFFERED=1 "])
@pytest.mark.parametrize("command", ["--version", "completion bash", "--json completion zsh", "--help"])
def test_output_on_a_full_disk_is_told_with_its_own_exit_code(
    command: str, buffering: str, tmp_path: Path
) -> None:
    code, told = ran(f"{buffering}{COMMAND} {command} > /dev/full", tmp_path)
    assert code == ExitCode.OUTPUT_LOST
    assert "No space left on device" in told and "OUTPUT_LOST" in told
    assert "bug" not in told and "Traceback" not in told and "Exception ignored" not in told


def test_errors_on_a_full_disk_leave_the_exit_code(tmp_path: Path) -> None:
    assert ran(f"{COMMAND} nosuch 2> /dev/full", tmp_path) == (ExitCode.USAGE, "")
    assert ran(f"{COMMAND} --version > /dev/full 2> /dev/full", tmp_path) == (ExitCode.OUTPUT_LOST, "")


def test_a_closed_input_has_no_messages(tmp_path: Path) -> None:
    code, told = ran(f"{COMMAND} produce orders <&-", tmp_path)
    assert code != ExitCode.INTERNAL and "bug" not in told and "Traceback" not in told


LETTERS = (
    "import click; from penstock.cli import output, streams; streams.prepare(); text = 'gr\\xfc\\xdfe \\u2602';"
    "click.echo(text); output.print_row([text]); output.print_json({'name': text}); output.say(text)"
)


@pytest.mark.parametrize(
    "terminal", ["PYTHONIOENCODING=ascii", "LC_ALL=POSIX PYTHONCOERCECLOCALE=0 PYTHONUTF8=0"]
)
def test_letters_that_a_terminal_does_not_have_are_escaped(terminal: str, tmp_path: Path) -> None:
    code, told = ran(f'PYTHONPATH=. {terminal} {sys.executable} -c "{LETTERS}" >&2', tmp_path)
    *plain, document = sorted(told.splitlines())
    assert code == 0
    assert plain == [r"gr\xfc\xdfe \u2602"] * 3
    assert json.loads(document) == {"name": "grüße ☂"}


@pytest.mark.parametrize(
    "line",
    [
        "topic describe BYTES",
        "consume orders --group BYTES",
        "--profile BYTES topic list",
        "topic create --partitions 1 north BYTES",
        "produce orders one --header BYTES=north",
        "topic create --partitions 1 --file - <<< BYTES",
    ],
)
def test_a_name_that_is_no_text_is_wrong_usage(line: str, tmp_path: Path) -> None:
    code, told = ran(f"{COMMAND} {line}".replace("BYTES", r"$'a\xff'"), tmp_path)
    assert code == ExitCode.USAGE
    assert "is no UTF-8 text" in told and "Traceback" not in told


@pytest.mark.parametrize(
    ("variable", "command"),
    [
        ("PENSTOCK_API_KEY=$'\\xff'", "topic list"),
        ("PENSTOCK_API_KEY=$'\\xff' PENSTOCK_BOOTSTRAP=127.0.0.1:1", "consume orders"),
        ("PENSTOCK_OPERATOR_TOKEN=ü", "cluster brokers"),
        ("PENSTOCK_API_URL=http://127.0.0.1:1/$'\\xff'", "topic list"),
        ("PENSTOCK_PROFILE_FILE=not-text", "topic list"),
    ],
)
def test_a_setting_that_is_no_text_is_refused_as_a_setting(
    variable: str, command: str, tmp_path: Path
) -> None:
    (tmp_path / "not-text").write_bytes(b"\xff")
    address = "PENSTOCK_API_URL=http://127.0.0.1:1"
    code, told = ran(f"cd {tmp_path}; {address} {variable} {COMMAND} {command}", tmp_path)
    assert (code, "CONFIGURATION" in told) == (ExitCode.REFUSED, True), told


@pytest.mark.parametrize("argument", [r"\x1b[2J", r"\xff\xfe", r"\xe2\x80\xae", r"a\r\nb"])
@pytest.mark.parametrize("before", ["", "topic ", "--json topic ", "consume orders --from ", "produce t --x"])
def test_arguments_that_steer_a_terminal_or_are_no_text_are_wrong_usage(
    before: str, argument: str, tmp_path: Path
) -> None:
    code, told = ran(f"{COMMAND} {before}$'{argument}'", tmp_path)
    assert code == ExitCode.USAGE
    assert "Traceback" not in told
    assert not any(sign in told for sign in "\x1b\r\u202e\ufffd"), told


def test_a_huge_argument_is_wrong_usage(tmp_path: Path) -> None:
    code, told = ran(f"{COMMAND} topic \"$(head -c 100000 /dev/zero | tr '\\0' x)\"", tmp_path)
    assert code == ExitCode.USAGE and "Traceback" not in told
