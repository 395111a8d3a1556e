"""Markdown as all pages of the reference use it, and what source files say beside their names."""

import ast
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


def page(title: str, source: str, *parts: str) -> str:
    """A whole page: a title, where it comes from, and its parts."""
    note = f"Made from {source} by `python -m docs.reference`; a test holds it to the code."
    return "\n\n".join([f"# {title}", note, *(part.strip("\n") for part in parts if part)]) + "\n"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as a table; each cell is one line."""
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join(one_line(value) for value in row)} |" for row in rows]
    return "\n".join(lines)


def one_line(value: object) -> str:
    """Text that stays within one cell of a table."""
    return " ".join(str(value).split()).replace("|", "\\|")


def code(value: object) -> str:
    return f"`{value}`"


def said_of(source: ModuleType | Path, inside: str | None = None) -> dict[str, str]:
    """The docstring below each assignment of a module, or of the class `inside` in it; empty where there is "
    "none."""
    path = source if isinstance(source, Path) else Path(str(source.__file__))
    tree: ast.Module | ast.ClassDef = ast.parse(path.read_text(encoding="utf-8"))
    if inside is not None:
        (tree,) = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == inside]
    found: dict[str, str] = {}
    for statement, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        target: ast.expr | None = statement.target if isinstance(statement, ast.AnnAssign) else None
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
        if isinstance(target, ast.Name):
            constant = following.value if isinstance(following, ast.Expr) else None
            text = constant.value if isinstance(constant, ast.Constant) else ""
            found[target.id] = " ".join(text.split()) if isinstance(text, str) else ""
    return found
