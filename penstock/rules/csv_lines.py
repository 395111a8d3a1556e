"""Lines of CSV for spreadsheets, in which no text is a formula. Pure.

A name is what a tenant chose: `=HYPERLINK(…)` in a file that someone else opens is an attack on them. So each export of
the project writes its lines here.
"""

import csv
import io
from collections.abc import Collection, Iterable

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a cell may begin with that some spreadsheet computes; the last four are the same in full width."""
_BLANK = " \u00a0\u3000\ufeff\u200b\u2060"
"""What spreadsheets may strip off the front of a cell."""


def safe_cell(text: str) -> str:
    """The text, with an apostrophe before it where a spreadsheet would compute it."""
    return f"'{text}" if text.lstrip(_BLANK).startswith(_FORMULA) else text


def exact_line(cells: Iterable[object]) -> str:
    """A line with its end for a program alone, which takes each cell as it is: never for a file that people open."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(list(cells))
    return out.getvalue()


def csv_line(cells: Iterable[object], *, numbers: Collection[int] = (), quoted: bool = False) -> str:
    r"""A line with its end, \n, or \r\n where all is `quoted` (RFC 4180). Each cell that is a text is made safe, but
    for those at the positions in `numbers`: these are decimals, which may begin with a minus.
    """
    out = io.StringIO()
    writer = (
        csv.writer(out, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
        if quoted
        else csv.writer(out, lineterminator="\n")
    )
    writer.writerow(
        safe_cell(cell) if isinstance(cell, str) and position not in numbers else cell
        for position, cell in enumerate(cells)
    )
    return out.getvalue()
