"""What mypyc would compile into something else than is written, without an error. The decision record has the rest."""

import ast
from collections.abc import Collection, Iterator

import pytest

from . import house

_COMPILED = (*house.PURE, *house.CORES, *house.PORTS, "data_plane.node", "penstock.client")
_COMPILER = house.ROOT / "packaging" / "compile.py"
_READ_BY_MSGSPEC = {"Struct", "Strict"}
"""Bases of classes whose annotations and options msgspec reads."""


def mixed_handlers(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each `except ... as name` after one of another type under that name, or after something was made
    under it, in one function.
    """
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        named: dict[str, str] = {}
        for node in sorted(_within(function), key=lambda node: node.lineno):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        named.setdefault(target.id, "made")
            elif node.name is not None and node.type is not None:
                kind = ast.unparse(node.type)
                if named.setdefault(node.name, kind) != kind:
                    yield node.lineno, node.name


def _within(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.ExceptHandler | ast.Assign]:
    """The handlers and assignments of the function itself, not of functions inside it."""
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.ExceptHandler | ast.Assign):
            yield node
        left.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize("package", house.existing(_COMPILED))
def test_a_function_gives_errors_of_two_types_two_names(package: str) -> None:
    """mypyc gives both one variable of the first type, and the second one raises `TypeError`, also where the first one
    is made and not caught.
    """
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
        "def h():\n try:\n  a()\n except A:\n  error = B()\n except C as error:\n  c()\n"
    )
    assert list(mixed_handlers(ast.parse(source))) == [(6, "error"), (20, "error")]


def left_pure() -> Collection[str]:
    """The modules that the compiler leaves out, by their files."""
    for node in ast.parse(_COMPILER.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PURE":
            names: dict[str, str] = ast.literal_eval(node.value)
            return names
    raise LookupError("PURE")


def read_by_msgspec(module: ast.Module) -> list[str]:
    """Names of the classes that msgspec makes."""
    return [
        node.name
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
        and {ast.unparse(base).rpartition(".")[2] for base in node.bases} & _READ_BY_MSGSPEC
    ]


@pytest.mark.parametrize("package", house.existing(_COMPILED))
def test_what_msgspec_reads_stays_pure(package: str) -> None:
    """mypyc keeps plain types alone: a `Literal` becomes `type`, which no document meets, and no pattern, length or
    bound is checked. It loses options of the class: a field that no schema knows would pass.
    """
    pure = left_pure()
    found = [
        f"{path.relative_to(house.ROOT)}: {name}"
        for path in house.modules(package)
        for name in read_by_msgspec(ast.parse(path.read_text(encoding="utf-8")))
        if str(path.relative_to(house.ROOT)) not in pure
    ]
    assert found == []


def test_a_class_that_msgspec_reads_is_known_by_its_base() -> None:
    source = "class A(Strict, frozen=True):\n a: int\nclass B(msgspec.Struct, kw_only=True): pass\nclass C(D): pass\n"
    assert read_by_msgspec(ast.parse(source)) == ["A", "B"]
