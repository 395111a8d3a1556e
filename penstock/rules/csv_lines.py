"""Lines of CSV for spreadsheets, in which no text is a formula. Pure.

A name is what a tenant chose: `=HYPERLINK(…)` in a file that someone else opens is an attack on them. So each export of
the project writes its lines here. A spreadsheet may take another separator than the file has (a semicolon where the
comma is the decimal point, a tab), and then knows no quotes within what it takes for a cell: so a text is made safe at
each place where some spreadsheet may begin a cell.
"""

import csv
import io
import re
from collections.abc import Collection, Iterable

_SIGNS = "=+\\-@|\uff1d\uff0b\uff0d\uff20"
"""What a cell may begin with that some spreadsheet computes; the last four are the same in full width."""
_SEPARATORS = ";\t\r\n\v\f"
"""Where some spreadsheet begins another cell, whatever stands around it."""
_SKIPPED = '(?:[^\\S\\t\\r\\n\\v\\f]|["\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff])*'
"""What spreadsheets may strip off the front of a cell."""
_FORMULA = re.compile(f"^(?={_SKIPPED}[{_SIGNS}]|[\\t\\r\\n])|(?<=[{_SEPARATORS}])(?={_SKIPPED}[{_SIGNS}])")
"""Where a spreadsheet may see the beginning of a cell that it computes."""
_QUOTED = re.compile(f'[,"|{_SEPARATORS}]')
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def safe_cell(text: str) -> str:
    """The text, with an apostrophe at each place where a spreadsheet would begin to compute."""
    return _FORMULA.sub("'", text)


def exact_line(cells: Iterable[object]) -> str:
    """A line with its end for a program alone, which takes each cell as it is: never for a file that people open."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(list(cells))
    return out.getvalue()


def csv_line(cells: Iterable[object], *, numbers: Collection[int] = (), quoted: bool = False) -> str:
    r"""A line with its end, \n, or \r\n where all is `quoted` (RFC 4180). Each cell that is a text is made safe, but
    for decimals at the positions in `numbers`, which may begin with a minus. A cell with what some spreadsheet takes
    for a separator stands in quotes.
    """
    shown = [_cell(cell, position in numbers) for position, cell in enumerate(cells)]
    ends = "\r\n" if quoted else "\n"
    return ",".join(_in_quotes(text) if quoted or _QUOTED.search(text) else text for text in shown) + ends


def _cell(cell: object, is_number: bool) -> str:
    if not isinstance(cell, str):
        return "" if cell is None else str(cell)
    return cell if is_number and _NUMBER.fullmatch(cell) else safe_cell(cell)


def _in_quotes(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
