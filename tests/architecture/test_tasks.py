"""Tasks of a broker: none is forgotten (RL140), and nothing depends on one being allowed to clean up (RL136)."""

import ast
from collections.abc import Iterator

import pytest

from . import house

_MAKERS = ("create_task", "ensure_future")
_SWALLOWED = ("Exception", "BaseException")


def faults(module: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Each place with what is wrong with it."""
    groups = {
        item.optional_vars.id
        for node in ast.walk(module)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name)
    } | {
        target.id if isinstance(target, ast.Name) else target.attr
        for node in ast.walk(module)
        if isinstance(node, ast.AnnAssign) and "TaskGroup" in ast.unparse(node.annotation)
        for target in [node.target]
        if isinstance(target, ast.Name | ast.Attribute)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Expr) and _makes_task(node.value, groups):
            yield node, "a task whose end nobody sees: keep it, or let a TaskGroup do"
        if isinstance(node, ast.Try):
            for inner in (inner for line in node.finalbody for inner in ast.walk(line)):
                if isinstance(inner, ast.Await):
                    yield inner, "an await in a finally: a killed task never gets there"
        if isinstance(node, ast.ExceptHandler) and _swallows(node):
            yield node, "an unexpected error is swallowed: it must end the process"


def _makes_task(value: ast.expr, groups: set[str]) -> bool:
    """Whether a statement makes a task and drops it."""
    call = value.func if isinstance(value, ast.Call) else None
    if isinstance(call, ast.Attribute):
        owner = call.value
        name = (
            owner.id
            if isinstance(owner, ast.Name)
            else owner.attr
            if isinstance(owner, ast.Attribute)
            else ""
        )
        owned = name in groups
        return call.attr in _MAKERS and not owned
    return isinstance(call, ast.Name) and call.id in _MAKERS


def _swallows(handler: ast.ExceptHandler) -> bool:
    """Whatever went wrong, the handler goes on: nothing raised, nothing told to anybody."""
    kind = handler.type
    broad = kind is None or (isinstance(kind, ast.Name) and kind.id in _SWALLOWED)
    used = handler.name is not None and any(
        isinstance(node, ast.Name) and node.id == handler.name
        for line in handler.body
        for node in ast.walk(line)
    )
    raises = any(isinstance(node, ast.Raise) for line in handler.body for node in ast.walk(line))
    return broad and not used and not raises


COMMANDS = ("data_plane/broker/metadata.py",)
"""Run by a person and ended by themselves: no task of a broker."""
LOGGED_BEFORE = ("data_plane/broker/server.py",)
"""What a handler of calls raised was told to the process where it was raised; here it is only answered."""


@pytest.mark.parametrize("package", ["data_plane.node", "data_plane.broker"])
def test_tasks_are_kept_and_errors_are_fatal(package: str) -> None:
    found = [
        f"{house.site(path, node)}: {fault}"
        for path in house.modules(package)
        if str(path.relative_to(house.ROOT)) not in COMMANDS
        for node, fault in faults(house.tree(path))
        if not (isinstance(node, ast.ExceptHandler) and str(path.relative_to(house.ROOT)) in LOGGED_BEFORE)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "asyncio.create_task(work())",
        "create_task(work())",
        "loop.create_task(work())",
        "asyncio.ensure_future(work())",
        "async def f():\n    try:\n        pass\n    finally:\n        await close()",
        "try:\n    f()\nexcept Exception:\n    pass",
        "try:\n    f()\nexcept:\n    pass",
        "try:\n    f()\nexcept BaseException as error:\n    pass",
    ],
)
def test_the_lint_sees(source: str) -> None:
    assert list(faults(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "task = asyncio.create_task(work())",
        "tasks.append(asyncio.create_task(work()))",
        "async def f():\n    async with asyncio.TaskGroup() as group:\n        group.create_task(work())",
        "try:\n    f()\nfinally:\n    connection.close()",
        "try:\n    f()\nexcept Exception as error:\n    tell(error)",
        "try:\n    f()\nexcept BaseException:\n    give_back()\n    raise",
        "try:\n    f()\nexcept OSError:\n    pass",
    ],
)
def test_the_lint_lets_pass(source: str) -> None:
    assert not list(faults(ast.parse(source)))
