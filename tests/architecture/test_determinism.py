"""Cores and the node are functions of their inputs: one seed fixes everything (RL139)."""

import ast
from pathlib import Path

import pytest

from . import house
from .determinism import faults

DETERMINISTIC = (*house.existing(house.CORES), *house.existing(house.PORTS), *house.PURE, "data_plane.node")


@pytest.mark.parametrize("package", DETERMINISTIC)
def test_nothing_in_the_package_differs_from_run_to_run(package: str) -> None:
    found = [
        f"{house.site(path, node)}: {fault}"
        for path in house.modules(package)
        for node, fault in faults(house.tree(path))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import monotonic",
        "import random as r",
        "from uuid import uuid4",
        "import threading",
        "open('x')",
        "import asyncio\nasync def f(): await asyncio.to_thread(print)",
        "from asyncio import to_thread\nasync def f(): await to_thread(print)",
        "import os\nos.urandom(4)",
        "import datetime\ndatetime.datetime.now()",
        "for x in {1, 2}: pass",
        "for x in set(y): pass",
        "[x for x in frozenset(y)]",
        "list({1, 2})",
        "','.join({x for x in y})",
        "print(*{1, 2})",
        "def f(a: set[int]) -> None:\n    for x in a: pass",
        "class A:\n    def __init__(self) -> None:\n        self.a: set[int] = set()\n"
        "    def f(self) -> None:\n        for x in self.a: pass",
        "class A:\n    a: frozenset[int]\n    def f(self) -> list[int]:\n        return [x for x in self.a]",
        "a = {1}\nfor x in a - b: pass",
        "a = {1}\nfor x in a.union(b): pass",
        "a = {1}\na.pop()",
        "(f(x) for x in {1, 2})",
    ],
)
def test_the_lint_sees(source: str) -> None:
    assert list(faults(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "for x in sorted({1, 2}): pass",
        "max(x for x in {1, 2})",
        "{x + 1 for x in {1, 2}}",
        "all(x for x in set(y))",
        "1 in {1, 2}",
        "for x in {1: 2}: pass",
        "disk.open('x')",
        "clock.time()",
        "def f(a: list[int]) -> None:\n    for x in a: pass",
        "len({1, 2})",
        "from .random import f",
    ],
)
def test_the_lint_lets_pass(source: str) -> None:
    assert not list(faults(ast.parse(source)))


WITHOUT_A_FILE = {"control_plane/shared_moments.py"}
"""Maps anonymous memory, which forked processes share."""


def test_no_module_maps_files_into_memory() -> None:
    """RL131: a truncation or a bad sector under a mapping kills the process. Memory without a file is not meant."""
    found = [
        house.site(path, node)
        for path in house.modules(*house.existing(house.TOP))
        if path.relative_to(house.ROOT).as_posix() not in WITHOUT_A_FILE
        for node in ast.walk(house.tree(path))
        if (isinstance(node, ast.Import) and any(alias.name == "mmap" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "mmap")
    ]
    assert not found, "\n".join(found)


def test_places_name_file_and_line() -> None:
    path: Path = house.ROOT / "penstock/contract/__init__.py"
    assert house.site(path, house.tree(path).body[0]) == "penstock/contract/__init__.py:1"
