"""What commands print: tables on terminals, plain rows in pipes, JSON for programs, one progress bar on long work."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from penstock.cli.display import line
from penstock.cli.streams import has_every_letter


def print_json(value: Any) -> None:
    """One JSON document on one line. Letters that the stream does not have are JSON's own escapes."""
    print(json.dumps(value, ensure_ascii=not has_every_letter()))


def _console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=False)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "", *, empty: str = ""
) -> None:
    """On a terminal a table; whole numbers stand right. Elsewhere the bare rows, as `print_row` prints them.

    Where there would be no row, `empty` says why and what to do next.
    """
    if not rows and empty:
        say(empty)
        return
    if not sys.stdout.isatty():
        for row in rows:
            print_row(row)
        return
    table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(line(str(value))) for value in row))
    _console().print(table)


def print_fact(kind: str, cells: Sequence[object], text: str) -> None:
    """One part of what a command shows: `text` on a terminal; elsewhere a row that begins with `kind`, which
    distinguishes it from the rows of other parts.
    """
    if sys.stdout.isatty():
        click.echo(text)
    else:
        print_row([kind, *cells])


def print_part(kind: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """As `print_fact`, for a part that is a table."""
    if sys.stdout.isatty():
        print_table(columns, rows)
        return
    for row in rows:
        print_row([kind, *row])


def print_row(cells: Sequence[object]) -> None:
    """One line for `cut`, `awk` and `sort`: the cells with a tab between them, nothing folded or padded.

    A tab or line feed within a cell is an escape, so that a line is always one row.
    """
    print("\t".join(line(str(value)) for value in cells))


def say(text: str) -> None:
    """One line for people; beside JSON it would be noise, so it goes to the standard error stream."""
    click.echo(text, err=True)


class Bar:
    """A progress bar that shows on a terminal only."""

    def __init__(self, progress: Progress | None, task: Any) -> None:
        self._progress = progress
        self._task = task

    def to(self, completed: float, note: str = "") -> None:
        """Move to `completed`, in the unit of the bar's total."""
        if self._progress is not None:
            self._progress.update(self._task, completed=completed, note=note)


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Bar]:
    """A bar on the standard error stream while the block runs; without `total` it only shows that work goes
    on.
    """
    console = _console(stderr=True)
    if not console.is_terminal:
        yield Bar(None, None)
        return
    columns = (
        SpinnerColumn("dots" if console.encoding.startswith("utf") else "line"),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as shown:
        yield Bar(shown, shown.add_task(what, total=total, note=""))
