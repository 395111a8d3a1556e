"""The hand in which the code is written: names of things, sentences that stand alone, one attribute a line.

Files that were written before this check are excused in `excused_hand.txt`, which may only become shorter: a file that
keeps to every rule must leave it, and no file joins it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from . import house

EXCUSED = Path(__file__).with_name("excused_hand.txt")
PRONOUNS = frozenset(
    {"at", "found", "given", "known", "one", "own", "seen", "these", "those", "wanted", "where"}
)
"""Names that do not say what they hold."""
OPENINGS = re.compile(r"(?:As|By|Of|Those|What|Whether)\b")
"""A text that begins so is understood only beside the name that it is about."""


def breaches(source: str) -> Iterator[tuple[int, str]]:
    """Lines of a module that break a rule, and how."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in PRONOUNS:
                yield node.lineno, f"the name {name!r} does not say what it holds"
            case ast.Assign(targets=[ast.Tuple(elts=elements)]) if _are_attributes(elements):
                yield node.lineno, "several attributes in one assignment hide from a search"
            case ast.Tuple() | ast.List() if (
                sum(isinstance(element, ast.Starred) for element in node.elts) > 1
            ):
                if all(
                    isinstance(element, ast.Starred) and isinstance(element.value, (ast.Tuple, ast.List))
                    for element in node.elts
                ):
                    yield node.lineno, "a list shaped for the formatter"
            case ast.Expr(value=ast.Constant(value=str() as text)) if OPENINGS.match(text.lstrip()):
                yield node.lineno, f"{text.split()[0]!r} begins no sentence that is understood alone"


def _are_attributes(elements: list[ast.expr]) -> bool:
    return len(elements) > 1 and all(
        isinstance(element, ast.Attribute)
        and isinstance(element.value, ast.Name)
        and element.value.id == "self"
        for element in elements
    )


def modules() -> Iterator[Path]:
    yield from house.modules(*house.existing(house.TOP))
    yield from sorted((house.ROOT / "tests").rglob("*.py"))


def excused() -> list[str]:
    return EXCUSED.read_text(encoding="utf-8").splitlines()


def test_files_that_are_not_excused_keep_to_the_rules_and_no_other_file_is_excused() -> None:
    listed, found, clean = set(excused()), [], []
    for path in modules():
        name = str(path.relative_to(house.ROOT))
        broken = [f"{name}:{line}: {how}" for line, how in breaches(path.read_text(encoding="utf-8"))]
        if name not in listed:
            found += broken
        elif not broken:
            clean.append(name)
    assert not found, "\n".join(found)
    assert not clean, "these keep to every rule now; take them out of excused_hand.txt\n" + "\n".join(clean)


def test_the_list_of_excused_files_is_in_order_and_names_files() -> None:
    listed = excused()
    assert listed == sorted(set(listed))
    assert [name for name in listed if not (house.ROOT / name).is_file()] == []


def test_the_check_sees_each_kind_of_breach() -> None:
    for source in (
        "found = 1\n",
        "def f(one): ...\n",
        "for at in []: ...\n",
        "class C:\n    def __init__(self):\n        self.a, self.b = 1, 2\n",
        "x = (*('a', 'b'), *('c',))\n",
        "def f():\n    '''What is left.'''\n",
        "A = 1\n'''Of one key.'''\n",
    ):
        assert len(list(breaches(source))) == 1, source
    for source in (
        "invoice = 1\n",
        "first, second = 1, 2\n",
        "x = (*first, *second)\n",
        "def f():\n    '''Rows of a topic.'''\n",
    ):
        assert not list(breaches(source)), source
