"""What one module can have wrong: each kind of mutation, where it applies, and what is left alone."""

import ast
from pathlib import Path

import pytest

from tests.mutants import mutations as mutations_module
from tests.mutants.mutations import Mutant, mutants_of, signatures


def found(source: str) -> list[Mutant]:
    return mutants_of("made_up.py", source, signatures([ast.parse(source)]))


def mutations(source: str) -> set[str]:
    return {one.mutation for one in found(source)}


@pytest.mark.parametrize(
    ("source", "mutation"),
    [
        ("a = b < c", "compare: b < c -> b <= c"),
        ("a = b in c", "compare: b in c -> b not in c"),
        ("a = b or c", "and/or: b or c -> (b and c)"),
        ("a = not b", "not removed: not b -> (b)"),
        ("a = b + c", "arithmetic: b + c -> b - c"),
        ("a = 3", "off by one: 3 -> 4"),
        ("a = True", "constant flipped: True -> False"),
        ("a = min(b)", "call swapped: min -> max"),
        ("def f(retry: bool = True) -> None: ...", "constant flipped: True -> False"),
        ("def f(): a.discard(b)", "statement removed: a.discard(b) -> pass"),
        ("def f(): a.b += c", "statement removed: a.b += c -> pass"),
        ("def f(): a[b] = c", "statement removed: a[b] = c -> pass"),
        ("def f(): del a[b]", "statement removed: del a[b] -> pass"),
        ("async def f(): await a()", "statement removed: await a() -> pass"),
        ("def f() -> bool: return a", "constant returned: a -> False"),
        ("def f() -> list[int]: return a", "constant returned: a -> []"),
        ("def f() -> int | None: return a", "constant returned: a -> None"),
        ("def f():\n  if a: b()", "branch dropped: a -> False"),
        ("def f():\n  if a: b()", "condition negated: a -> not (a)"),
        ("def f(a: int, b: int): ...\nf(x, y)", "arguments swapped: f(x, y) -> f(y, x)"),
        ("class F:\n  a: int\n  b: int\nF(a=x, b=y)", "arguments swapped: F(a=x, b=y) -> F(a=y, b=x)"),
    ],
)
def test_each_kind_of_bug_is_made(source: str, mutation: str) -> None:
    assert mutation in mutations(source)


@pytest.mark.parametrize(
    "source",
    [
        "'a docstring'",
        "a: Literal[1]",
        "assert b < c",
        "def f(): raise E(b + c)",
        "def f(): _log.info(b + c)",
        "def f(): invariant(b < c, d)",
        "def f(): return f'{b + c}'",
        "def __repr__(self): return b + c",
        "LIMIT = 1_000",
        "class P(Protocol):\n  def f(self, a: int = 1): ...",
        "def f(a: int, b: str): ...\nf(x, y)",
    ],
)
def test_messages_assertions_types_and_figures_are_left_alone(source: str) -> None:
    assert mutations(source) <= {"statement removed: f(x, y) -> pass"}


def test_a_branch_that_waits_is_not_dropped() -> None:
    kinds = {one.kind for one in found("async def f():\n  if a: await b()")}
    assert kinds == {"condition negated", "statement removed"}


def test_a_mutant_tells_its_function_as_the_interpreter_does() -> None:
    source = "class A:\n  def f(self):\n    def g():\n      return 1 + x\n    return g"
    compiled: dict[str, object] = {}
    exec(source, compiled)
    inner = compiled["A"].f(None)  # type: ignore[attr-defined]
    assert {one.function for one in found(source)} == {inner.__qualname__}


def test_the_text_around_a_mutant_stays_as_it_was() -> None:
    source = 'name = "größer"; a = b < c  # why\n'
    (mutant,) = found(source)
    assert mutant.applied(source) == 'name = "größer"; a = b <= c  # why\n'
    assert mutant.diff(source) == ["-" + source.strip(), "+" + mutant.applied(source).strip()]


def test_every_mutant_is_still_python() -> None:
    source = Path(mutations_module.__file__).read_text(encoding="utf-8")
    mutants = found(source)
    assert len(mutants) > 100
    for mutant in mutants:
        ast.parse(mutant.applied(source))
