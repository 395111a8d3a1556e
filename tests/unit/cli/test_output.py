"""A terminal gets tables; a pipe gets plain rows: one line each, tabs between, nothing folded or padded."""

import os
import pty
import subprocess
import sys

import pytest

from penstock.cli import consume, display, doctor, doctor_checks
from penstock.cli.output import print_fact, print_part, print_table

LONG = "orders." + "x" * 242
"""The longest name of a topic."""
PROGRAM = f"from penstock.cli.output import print_table; print_table(['topic', 'n'], [['{LONG}', 7]])"


def test_a_pipe_gets_one_line_a_row_without_heading_or_padding(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["topic", "partitions"], [[LONG, 3], ["clicks", 12]], title="Topics")
    assert capsys.readouterr().out == f"{LONG}\t3\nclicks\t12\n"


def test_parts_are_told_apart_in_a_pipe_by_their_first_column(capsys: pytest.CaptureFixture[str]) -> None:
    print_fact("topic", [LONG, "id"], "for a terminal")
    print_part("setting", ["setting", "value"], [["a", 1], ["b", "x\ty"]])
    print_part("condition", ["reason"], [])
    assert capsys.readouterr().out == f"topic\t{LONG}\tid\nsetting\ta\t1\nsetting\tb\tx\\ty\n"


def test_what_stands_in_a_cell_never_makes_another_row_or_column(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name", "n"], [["a\tb\nc", 1], ["", 2]])
    assert capsys.readouterr().out == "a\\tb\\nc\t1\n\t2\n"


def test_a_terminal_gets_a_table() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=theirs) as program:
        os.close(theirs)
        seen = b""
        try:
            while more := os.read(ours, 4096):
                seen += more
        except OSError:
            pass  # the end of a terminal
    os.close(ours)
    assert program.returncode == 0
    assert b"topic" in seen and b"\t" not in seen


def test_a_piped_finding_of_the_doctor_is_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    doctor._show(doctor_checks.doubtful("profile", "others may read it", "chmod 600 file"))
    assert capsys.readouterr().out == "doubtful\tprofile\tothers may read it\tchmod 600 file\n"


def test_a_piped_message_is_one_line_of_columns() -> None:
    from penstock import Message

    message = Message(
        topic="orders",
        partition=2,
        offset=17,
        timestamp_ms=0,
        key=b"a\tb",
        value=b"one\ntwo " + b"x" * 500,
        headers=[("shop", b"north")],
    )
    row = consume._as_row(message, display.text)
    assert row == [
        2,
        17,
        "1970-01-01T00:00:00.000Z",
        "a\\tb",
        "one\\ntwo " + "x" * 500,
        "shop=north",
    ]
