"""A terminal gets tables; a pipe gets plain rows: one line each, tabs between, nothing folded or padded."""

import os
import pty
import subprocess
import sys
from pathlib import Path

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


def on_a_terminal(program: str, *, columns: int = 80, output: int | None = None) -> str:
    """Text that the program writes to a terminal of so many columns; `output`: where its standard output goes."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=theirs if output is None else output,
        stderr=theirs,
        env={**os.environ, "COLUMNS": str(columns)},
    ) as running:
        os.close(theirs)
        shown = b""
        try:
            while more := os.read(ours, 4096):
                shown += more
        except OSError:
            pass  # the end of a terminal
    os.close(ours)
    assert running.returncode == 0, shown
    return shown.decode().replace("\r\n", "\n")


def test_a_terminal_gets_a_table() -> None:
    shown = on_a_terminal(PROGRAM)
    assert "topic" in shown and "\t" not in shown


NUMBERS = "'created'], [['usr_8O24SGMcG3zxg9WSuxjdCh', 1234567, 7654321, '2026-12-01T02:52:29Z']])"
WIDE = f"from penstock.cli.output import print_table; print_table(['id', 'partitions', 'messages', {NUMBERS}"


def test_a_narrow_terminal_gets_a_line_for_each_column_and_folds_no_number() -> None:
    assert on_a_terminal(WIDE, columns=40) == (
        "\nid          usr_8O24SGMcG3zxg9WSuxjdCh\npartitions  1234567\nmessages    7654321\n"
        "created     2026-12-01T02:52:29Z\n"
    )
    row = "usr_8O24SGMcG3zxg9WSuxjdCh      1234567    7654321   2026-12-01T02:52:29Z"
    assert row in on_a_terminal(WIDE, columns=90)


def test_a_long_text_gives_way_to_ids_and_numbers_beside_it() -> None:
    program = "from penstock.cli.output import print_table; " + (
        f"print_table(['id', 'n', 'text'], [['usr_8O24SGMcG3zxg9WSuxjdCh', 1234567, '{'a word ' * 20}']])"
    )
    assert "usr_8O24SGMcG3zxg9WSuxjdCh   1234567   a word" in on_a_terminal(program, columns=60)


BAR = "from penstock.cli.output import progress\nwith progress('Reading', 1.0) as bar: bar.to(1.0)"


def test_a_bar_is_not_drawn_beside_a_pipe_that_writes_to_the_same_terminal(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    assert on_a_terminal(BAR, output=writing) == ""
    os.close(writing)
    os.close(reading)
    with (tmp_path / "file").open("wb") as output:
        assert "Reading" in on_a_terminal(BAR, output=output.fileno())


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
