"""Files of CSV are written by one module, which makes texts safe for spreadsheets."""

import ast

from . import house

WRITER = "penstock/rules/csv_lines.py"
_WRITERS = frozenset({"writer", "DictWriter"})


def writers(module: ast.Module) -> list[str]:
    """What of `csv` that writes the module names: `csv.writer`, or `writer` imported from it."""
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "csv" and node.attr in _WRITERS:
                found.append(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module == "csv":
            found += [one.name for one in node.names if one.name in _WRITERS | {"*"}]
        elif isinstance(node, ast.Import):
            # Under another name it would not be seen.
            found += [f"csv as {one.asname}" for one in node.names if one.name == "csv" and one.asname]
    return found


def test_one_module_alone_writes_csv() -> None:
    found = {
        str(path.relative_to(house.ROOT)): names
        for path in house.modules(*house.existing(house.TOP))
        if (names := writers(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found.pop(WRITER), "the check finds nothing any more"
    assert found == {}, f"write lines by {WRITER}: csv_line makes what a spreadsheet would compute safe"


def test_each_way_to_a_writer_is_seen() -> None:
    for text in (
        "import csv\ncsv.DictWriter(f, [])",
        "from csv import writer",
        "from csv import *",
        "import csv as c",
    ):
        assert writers(ast.parse(text)), text
    assert not writers(ast.parse("import csv\ncsv.reader(f)"))
