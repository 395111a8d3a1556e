"""An access report as a document: its digest, and rows in which a spreadsheet finds no formula."""

import csv
import io
import json
from typing import Any

from penstock.rules.access_report import COLUMNS, as_csv, canonical, digest

FIELDS = ("changes", "unused", "refusals", "activity", "people", "service_accounts", "keys", "groups")
REPORT: dict[str, Any] = {
    "tenant": {"id": "tn_1", "name": "acme"},
    "month": "2026-10",
    "made_at": "2026-11-01T00:06:00+00:00",
    "default": "allow",
    "left_out": {"keys": 3},
    **{name: [] for name in (*FIELDS, "entries", "invitations", "presets")},
}


def test_the_digest_is_of_what_the_report_says_however_it_was_written() -> None:
    again = json.loads(json.dumps(REPORT | {"name": "é\u2028"}, indent=3, ensure_ascii=False))
    turned = dict(reversed(list(again.items())))
    assert canonical(again) == canonical(turned) and canonical(again).isascii()
    assert digest(again) == digest(turned) != digest(REPORT)


def test_every_row_has_every_column_and_quotes_and_lines_within_cells_stay_there() -> None:
    hostile = 'a","=1+1\r\n=2+2'
    unused = {"kind": "key", "id": "key_1", "name": hostile, "reason": "=3"}
    text = "".join(as_csv(REPORT | {"unused": [unused]}))
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == list(COLUMNS) and {len(row) for row in rows} == {len(COLUMNS)}
    (found,) = [row for row in rows if row[0] == "looks unused"]
    assert found[2] == hostile.replace("\n=", "\n'=") and found[-1] == "'=3"
    assert [cell for cell in rows[-1] if cell] == ["left out", "keys", "3"]
