"""Parts get what they need in their constructor: a wire that is forgotten is a type error, and arguments have names."""

import ast
from collections.abc import Iterator

import pytest

from . import house

_POSITIONAL_MAX = 8


def faults(module: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Each place with what is wrong with it."""
    for owner in ast.walk(module):
        if not isinstance(owner, ast.ClassDef):
            continue
        for node in _of_class(owner):
            if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Lambda):
                targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
                if any(_is_attribute(target, owner, node) for target in targets):
                    yield node, "a callable with a default that somebody sets later: make it an argument"
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                count = len(node.args.posonlyargs) + len(node.args.args) - 1
                if count > _POSITIONAL_MAX:
                    yield node, f"{count} positional arguments: keyword-only after {_POSITIONAL_MAX}"


def _of_class(owner: ast.ClassDef) -> Iterator[ast.AST]:
    """What belongs to the class, without what belongs to a class inside it."""
    left: list[ast.AST] = list(owner.body)
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, ast.ClassDef):
            left.extend(ast.iter_child_nodes(node))


def _is_attribute(target: ast.expr, owner: ast.ClassDef, node: ast.stmt) -> bool:
    """Of the class or of its instances; a variable of a method is none."""
    own = (
        isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    )
    return own or (isinstance(target, ast.Name) and node in owner.body)


@pytest.mark.parametrize("package", ["data_plane"])
def test_no_wire_is_laid_after_construction(package: str) -> None:
    found = [
        f"{house.site(path, node)}: {fault}"
        for path in house.modules(package)
        for node, fault in faults(house.tree(path))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def __init__(self) -> None:\n        self.told: Callable[[], None] = lambda: None",
        "class A:\n    def __init__(self) -> None:\n        self.told = lambda: None",
        "class A:\n    told: Callable[[], None] = lambda: None",
        "class A:\n    def __init__(self, a, b, c, d, e, f, g, h, i) -> None:\n        pass",
    ],
)
def test_the_lint_sees(source: str) -> None:
    assert list(faults(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def __init__(self, told: Callable[[], None]) -> None:\n        self.told = told",
        "class A:\n    def go(self) -> None:\n        by_name = lambda one: one.name",
        "class A:\n    def __init__(self, a, b, c, d, e, f, g, h, *, i) -> None:\n        pass",
    ],
)
def test_the_lint_lets_pass(source: str) -> None:
    assert not list(faults(ast.parse(source)))
