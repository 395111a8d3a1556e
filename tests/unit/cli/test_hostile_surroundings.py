"""The command line with closed streams, readers that left and hostile arguments: documented exit codes."""

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


@pytest.mark.parametrize("command", ["--version", "completion bash", "--json completion zsh", "--help"])
def test_output_on_a_full_disk_is_told_with_its_own_exit_code(command: str, tmp_path: Path) -> None:
    code, told = ran(f"{COMMAND} {command} > /dev/full", tmp_path)
    assert code == ExitCode.OUTPUT_LOST
    assert "No space left on device" in told and "OUTPUT_LOST" in told
    assert "bug" not in told and "Traceback" not in told and "Exception ignored" not in told


def test_errors_on_a_full_disk_leave_the_exit_code(tmp_path: Path) -> None:
    assert ran(f"{COMMAND} nosuch 2> /dev/full", tmp_path) == (ExitCode.USAGE, "")
    assert ran(f"{COMMAND} --version > /dev/full 2> /dev/full", tmp_path) == (ExitCode.OUTPUT_LOST, "")


def test_a_closed_input_has_no_messages(tmp_path: Path) -> None:
    code, told = ran(f"{COMMAND} produce orders <&-", tmp_path)
    assert code != ExitCode.INTERNAL and "bug" not in told and "Traceback" not in told


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
