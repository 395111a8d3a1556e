"""No modules import each other in a circle, imports for types and inside functions included."""

import ast
from collections.abc import Mapping

from . import house


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports_of(name: str, tree: ast.Module, known: Mapping[str, object], *, package: bool) -> list[str]:
    """The modules of `known` that this one imports, wherever in its text, in order."""
    found: dict[str, None] = {}
    home = name.split(".") if package else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = home[: len(home) - node.level + 1] if node.level else []
            source = ".".join([*parents, *([node.module] if node.module else [])])
            wanted = [f"{source}.{alias.name}" for alias in node.names]
            wanted = [one if one in known else source for one in wanted]
        else:
            continue
        for one in wanted:
            if one in known and one != name:
                found[one] = None
    return sorted(found)


def circles(graph: Mapping[str, list[str]]) -> list[set[str]]:
    """Groups of two and more modules of which each reaches each other one (Tarjan 1972)."""
    found: list[set[str]] = []
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(name: str) -> None:
        order = low[name] = len(low)
        path.append(name)
        for other in graph[name]:
            if other not in low:
                visit(other)
            low[name] = min(low[name], low[other])
        if low[name] == order:
            group = set(path[path.index(name) :])
            del path[path.index(name) :]
            low.update(dict.fromkeys(group, len(graph)))
            if len(group) > 1:
                found.append(group)

    for name in graph:
        if name not in low:
            visit(name)
    return found


def graph_of_the_house() -> dict[str, list[str]]:
    paths = {
        module_name(str(path.relative_to(house.ROOT))): path
        for path in house.modules(*house.existing(house.TOP))
    }
    return {
        name: imports_of(name, house.tree(path), paths, package=path.name == "__init__.py")
        for name, path in paths.items()
    }


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = graph_of_the_house()
    assert len(graph["data_plane.node.broker_node"]) > 10
    assert not [sorted(group) for group in circles(graph)]


def test_a_circle_is_found_and_a_chain_is_none() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}) == [{"a", "b", "c"}]
    assert circles({"a": ["b", "c"], "b": ["c"], "c": [], "d": ["d", "a"]}) == []


def test_imports_for_types_inside_functions_and_of_neighbours_are_seen() -> None:
    text = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from p.a import A\n"
        "def f():\n    import p.b\n"
        "from . import c\nfrom .d import D\nfrom ..q import e\n"
    )
    known = dict.fromkeys(["p.a", "p.b", "p.r.c", "p.r.d", "p.q.e", "p.q", "p.r.m"])
    assert imports_of("p.r.m", ast.parse(text), known, package=False) == [
        "p.a",
        "p.b",
        "p.q.e",
        "p.r.c",
        "p.r.d",
    ]
    assert imports_of("p.r", ast.parse("from . import c"), known, package=True) == ["p.r.c"]
