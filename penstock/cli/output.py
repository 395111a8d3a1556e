"""What commands print: tables on terminals, plain rows in pipes, JSON for programs, one progress bar on long work."""

import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Self, TextIO

import click
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from penstock.cli.display import line
from penstock.cli.streams import has_every_letter

_COLUMN_GAP = 3
"""Letters between two columns of a table."""
_WORD_MAX = 40
"""A name may have 249 letters; a column that is wider than this folds it."""


def print_json(value: Any) -> None:
    """One JSON document on one line. Letters that the stream does not have are JSON's own escapes."""
    print(json.dumps(value, ensure_ascii=not has_every_letter()))


def _console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=False)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "", *, empty: str = ""
) -> None:
    """On a terminal a table; whole numbers stand right. Where that is too narrow for the numbers and ids, each row is
    a block with a line for each column. Elsewhere the bare rows, as `print_row` prints them.

    Where there would be no row, `empty` says why and what to do next.
    """
    if not rows and empty:
        say(empty)
        return
    if not sys.stdout.isatty():
        for row in rows:
            print_row(row)
        return
    console = _console()
    shown = [[line(str(value)) for value in row] for row in rows]
    widths = [_Width.of([column, *(row[index] for row in shown)]) for index, column in enumerate(columns)]
    if sum(width.least + _COLUMN_GAP for width in widths) > console.width:
        _print_records(columns, shown, title)
        return
    table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for index, (column, width) in enumerate(zip(columns, widths, strict=True)):
        numeric = bool(rows) and all(isinstance(row[index], int) for row in rows)
        justify: Literal["left", "right"] = "right" if numeric else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=width.least == width.whole)
    for cells in shown:
        table.add_row(*map(Text, cells))
    console.print(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Width:
    """Letters that a column takes."""

    whole: int
    least: int
    """Without a number, an id or another word in two parts; a very long word is folded all the same."""

    @classmethod
    def of(cls, cells: Sequence[str]) -> Self:
        whole = max((cell_len(cell) for cell in cells), default=0)
        longest = max((cell_len(word) for cell in cells for word in cell.split()), default=0)
        return cls(whole=whole, least=min(longest, _WORD_MAX))


def _print_records(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    """The rows one below the other, a line for each cell: for terminals that are narrower than the table."""
    label = max(map(cell_len, columns), default=0)
    if title:
        print(title)
    for row in rows:
        print()
        for column, cell in zip(columns, row, strict=True):
            print(f"{column:<{label}}  {cell}".rstrip())


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


def _goes_into_a_pipe(stream: TextIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except OSError:
        return False


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
    """A bar on the standard error stream while the block runs; without `total` it only shows that work goes on.

    None is shown where the output goes into a pipe: what reads it writes to the same terminal.
    """
    console = _console(stderr=True)
    if not sys.stderr.isatty() or _goes_into_a_pipe(sys.stdout):
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
