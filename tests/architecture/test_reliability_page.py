"""The list of rules in force names only files, functions and tests that exist."""

import ast
import re

import pytest

from .house import ROOT

PAGE = ROOT / "docs" / "reliability.md"
CITED = re.compile(r"`([\w./-]+\.py)(?:(::?)(\w+))?`")


def names_in(path: str) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


def test_everything_cited_exists() -> None:
    cited = [(m[1], m[3]) for m in CITED.finditer(PAGE.read_text(encoding="utf-8"))]
    assert len(cited) > 150
    missing = [path for path, _ in cited if not (ROOT / path).is_file()]
    assert missing == []
    assert [f"{path}:{name}" for path, name in cited if name and name not in names_in(path)] == []


def test_each_rule_stands_once_and_in_order() -> None:
    for prefix in ("RL", "S"):
        numbers = [
            int(n) for n in re.findall(rf"^\| {prefix}(\d+) \|", PAGE.read_text(encoding="utf-8"), re.M)
        ]
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
