"""The list of rules in force names only files, functions and tests that exist."""

import ast
import math
import re
from functools import cache

import pytest

from tests.simulation.planted import table
from tests.simulation.planted_bugs import BUGS

from .house import ROOT, tree

PAGE = ROOT / "docs" / "reliability.md"
CITED = re.compile(r"`([\w./-]+\.py)(?:(::?)(\w+))?`")


def rules() -> str:
    return PAGE.read_text(encoding="utf-8").partition("## Planted bugs")[0]


@cache
def names_in(path: str) -> set[str]:
    return {
        node.name
        for node in ast.walk(tree(ROOT / path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


def test_everything_cited_exists() -> None:
    cited = [(m[1], m[3]) for m in CITED.finditer(PAGE.read_text(encoding="utf-8"))]
    assert len(cited) > 150
    missing = [path for path, _ in cited if not (ROOT / path).is_file()]
    assert missing == []
    assert [f"{path}:{name}" for path, name in cited if name and name not in names_in(path)] == []


def test_each_rule_names_the_tests_that_show_it_and_not_whole_files_of_them() -> None:
    rows = re.findall(r"^\| ((?:RL|S)\d+) \| .* \| (.*) \|$", rules(), re.M)
    assert len(rows) > 100
    assert [(rule, cell) for rule, cell in rows if re.search(r"\.py`", cell)] == []


def test_each_rule_stands_once_and_in_order() -> None:
    for prefix in ("RL", "S"):
        numbers = [int(n) for n in re.findall(rf"^\| {prefix}(\d+) \|", rules(), re.M)]
        assert numbers == sorted(set(numbers))
        assert numbers


@pytest.mark.parametrize("core", ["replication", "controller", "groups"])
def test_each_rule_that_a_core_cites_is_in_the_list(core: str) -> None:
    listed = set(re.findall(r"^\| (RL\d+) \|", PAGE.read_text(encoding="utf-8"), re.M))
    cited = {
        rule
        for path in sorted((ROOT / "data_plane" / core).glob("*.py"))
        for rule in re.findall(r"\bRL\d+\b", path.read_text(encoding="utf-8"))
    }
    assert sorted(cited - listed) == []


def test_the_table_of_planted_bugs_is_the_one_that_is_planted() -> None:
    """Write it anew with `python tests/simulation/planted.py --table`."""
    page = PAGE.read_text(encoding="utf-8")
    assert [
        row for row in page.partition("## Planted bugs")[2].splitlines() if row.startswith("|")
    ] == table()


def test_each_rule_with_a_planted_bug_is_in_the_list() -> None:
    listed = set(re.findall(r"^\| (RL\d+) \|", rules(), re.M))
    assert sorted({bug.rule for bug in BUGS} - listed) == []


def test_the_nines_are_what_their_formula_gives() -> None:
    rows = re.findall(
        r"^\| ([\d.]+) % \| (\d+) h \| (\S+) \| ([\d.]+) \|$", PAGE.read_text(encoding="utf-8"), re.M
    )
    assert len(rows) > 3
    for rate, hours, lost, nines in rows:
        exact = 6 * (float(rate) / 100) ** 3 * (int(hours) / 8766) ** 2
        assert (lost, nines) == (f"{exact:.1e}", f"{-math.log10(exact):.1f}")
