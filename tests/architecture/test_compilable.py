"""What mypyc would compile into something else than is written, without an error. The decision record has the rest."""

import ast
from collections.abc import Iterator

import pytest

from . import house

_COMPILED = (*house.PURE, *house.CORES, *house.PORTS, "data_plane.node", "penstock.client")


def mixed_handlers(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each `except ... as name` after one of another type under that name, in one function."""
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        caught: dict[str, str] = {}
        for node in sorted(_within(function), key=lambda node: node.lineno):
            if node.name is not None and node.type is not None:
                kind = ast.unparse(node.type)
                if caught.setdefault(node.name, kind) != kind:
                    yield node.lineno, node.name


def _within(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.ExceptHandler]:
    """The handlers of the function itself, not of functions inside it."""
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.ExceptHandler):
            yield node
        left.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize("package", house.existing(_COMPILED))
def test_a_function_gives_errors_of_two_types_two_names(package: str) -> None:
    """mypyc gives both one variable of the first type, and the second one raises `TypeError`."""
    found = [
        f"{path.relative_to(house.ROOT)}:{line}: {name}"
        for path in house.modules(package)
        for line, name in mixed_handlers(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_the_check_finds_what_it_looks_for() -> None:
    source = (
        "def f():\n try:\n  a()\n except A as error:\n  b()\n except B as error:\n  c()\n"
        "def g():\n try:\n  a()\n except A as error:\n  b()\n except A as error:\n  c()\n"
    )
    assert list(mixed_handlers(ast.parse(source))) == [(6, "error")]
