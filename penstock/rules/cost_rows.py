"""Rows of a cost report as CSV, from what REST answers. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.rules.csv_lines import csv_line

AMOUNTS = ("usage_micro", "charges_micro", "cost_micro", "provisional_micro")


def dimensions(by: Sequence[str]) -> list[tuple[str, str]]:
    """(heading, member of a row) of each dimension of a report by these."""
    tags = iter(("tag", "second_tag"))
    return [(name, next(tags) if name.startswith("tag:") else name) for name in by]


def as_csv(by: Sequence[str], currency: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The header and a line for each row: its dimensions, a column for each meter that any row has, and amounts in
    micro-units of the currency. A text that a spreadsheet would take as a formula begins with an apostrophe.
    """
    shown = dimensions(by)
    meters = sorted({meter for row in rows for meter in row["meters"]})
    compared = any("before" in row for row in rows)
    header = [*(name for name, _ in shown), *meters, *AMOUNTS]
    yield csv_line([*header, *(("before_cost_micro", "difference_micro") if compared else ()), "currency"])
    for row in rows:
        cells: list[object] = ["" if row[member] is None else row[member] for _, member in shown]
        cells += [row["meters"].get(meter, 0) for meter in meters]
        cells += [row[name] for name in AMOUNTS]
        if compared:
            cells += [row["before"]["cost_micro"], row["difference_micro"]]
        yield csv_line([*cells, currency])
