"""The small bugs that one module can have: each mutation is one piece of its text replaced by another."""

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from itertools import pairwise
from typing import TypeVar

_Expression = TypeVar("_Expression", bound=ast.expr)

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_CONSTANTS = {"bool": ("True", "False"), "int": ("0",), "str": ("''",), "bytes": ("b''",)}
_EMPTY = {"list": "[]", "dict": "{}", "tuple": "()", "set": "set()", "frozenset": "frozenset()"}
_EXACT_MAX = 9
"""A larger number outside of functions is a figure of tuning, and so is one over a hundred anywhere: one more is as
good."""
_EXACT_INSIDE_MAX = 100
_FOR_PEOPLE = ("__repr__", "__str__")
"""Functions whose answer only people read."""

Signatures = Mapping[str, Mapping[str | int, str]]
"""Name of a function or class -> its parameters, by name and by place -> the text of the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One bug in one place: `before`, the bytes from `start` to `end` of the file, become `after`."""

    file: str
    function: str
    """Its qualified name as the interpreter tells it; empty at a module's or class's own level."""
    line: int
    text: str
    """The line it begins in, without blanks around it."""
    kind: str
    before: str
    after: str
    start: int
    end: int

    @property
    def mutation(self) -> str:
        """What is changed, on one line."""
        return f"{self.kind}: {' '.join(self.before.split())} -> {' '.join(self.after.split())}"

    def applied(self, source: str) -> str:
        """The module with the bug in it."""
        raw = source.encode()
        return (raw[: self.start] + self.after.encode() + raw[self.end :]).decode()

    def diff(self, source: str) -> list[str]:
        """The lines that go and the lines that come."""
        changes = unified_diff(source.splitlines(), self.applied(source).splitlines(), n=0, lineterm="")
        return [line for line in changes if not line.startswith(("---", "+++", "@@"))]


def signatures(trees: list[ast.Module]) -> Signatures:
    """What is called by a name that only one function or class has."""
    found: dict[str, list[dict[str | int, str]]] = {}
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            named = [
                one for one in (*node.args.posonlyargs, *node.args.args) if one.arg not in ("self", "cls")
            ]
            types: dict[str | int, str] = {
                place: ast.unparse(one.annotation) for place, one in enumerate(named) if one.annotation
            }
            both = (*named, *node.args.kwonlyargs)
            types |= {one.arg: ast.unparse(one.annotation) for one in both if one.annotation}
            found.setdefault(node.name, []).append(types)
        elif isinstance(node, ast.ClassDef):
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            of_fields: dict[str | int, str] = {
                ast.unparse(one.target): ast.unparse(one.annotation) for one in fields
            }
            found.setdefault(node.name, []).append(of_fields)
    return {name: types[0] for name, types in found.items() if len(types) == 1}


def mutants_of(file: str, source: str, known: Signatures) -> list[Mutant]:
    """Every mutant of a module, in the order of its text."""
    finder = _Finder(file, source, known)
    finder.visit(ast.parse(source, filename=file))
    return sorted(finder.found, key=lambda one: (one.start, one.end, one.kind, one.after))


class _Finder(ast.NodeVisitor):
    """Walks what can be wrong: no types, decorators, messages, assertions or logging."""

    def __init__(self, file: str, source: str, known: Signatures) -> None:
        self.found: list[Mutant] = []
        self._file = file
        self._known = known
        self._raw = source.encode()
        self._lines = self._raw.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._scopes: list[tuple[str, bool]] = []
        """The names of the classes and functions around, and whether each is a function."""
        self._returns: list[ast.expr | None] = [None]

    # -- where it is --

    def _function(self) -> str:
        if not self._scopes or not self._scopes[-1][1]:
            return ""
        parts = []
        for (name, is_function), following in zip(self._scopes, [*self._scopes[1:], None], strict=True):
            parts += [name, "<locals>"] if is_function and following else [name]
        return ".".join(parts)

    def _replace(self, node: ast.expr | ast.stmt, after: str, kind: str) -> None:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        before = self._raw[start:end].decode()
        if before == after:
            return
        self.found.append(
            Mutant(
                file=self._file,
                function=self._function(),
                line=node.lineno,
                text=self._lines[node.lineno - 1].decode().strip(),
                kind=kind,
                before=before,
                after=after,
                start=start,
                end=end,
            )
        )

    def _changed(self, node: _Expression, kind: str, change: Callable[[_Expression], None]) -> None:
        other = copy.deepcopy(node)
        change(other)
        self._replace(node, f"({ast.unparse(other)})" if kind == "and/or" else ast.unparse(other), kind)

    # -- what is not mutated --

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """A text for people; positions inside it are not to be trusted either."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """A weaker assertion is no bug."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """What it says is for people; that it is raised, its condition tells."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._remove_assignment(node, [node.target])
        if node.value is not None:
            self.visit(node.value)

    def visit_arguments(self, node: ast.arguments) -> None:
        for default in (*node.defaults, *node.kw_defaults):
            if default is not None:
                self.visit(default)

    # -- scopes --

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any(ast.unparse(one).startswith("Protocol") for one in node.bases):
            return
        self._scopes.append((node.name, False))
        for statement in node.body:
            self.visit(statement)
        self._scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in _FOR_PEOPLE or any("overload" in ast.unparse(one) for one in node.decorator_list):
            return
        self._scopes.append((node.name, True))
        self._returns.append(node.returns)
        self.visit(node.args)
        for statement in node.body:
            self.visit(statement)
        self._returns.pop()
        self._scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # the name is ast's

    # -- statements --

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or _only_tells(node.value):
            return
        if isinstance(node.value, ast.Call | ast.Await):
            self._replace(node, "pass", "statement removed")
        self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._remove_assignment(node, node.targets)
        self.generic_visit(node)

    def _remove_assignment(self, node: ast.Assign | ast.AnnAssign, targets: list[ast.expr]) -> None:
        first = bool(self._scopes) and self._scopes[-1][0] in ("__init__", "__post_init__")
        if (
            not first
            and node.value
            and all(isinstance(one, ast.Attribute | ast.Subscript) for one in targets)
        ):
            self._replace(node, "pass", "statement removed")

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace(node, "pass", "statement removed")
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._replace(node, "pass", "statement removed")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "pass", "statement removed")

    def visit_Break(self, node: ast.Break) -> None:
        self._replace(node, "pass", "statement removed")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._replace(node, "pass", "statement removed")
            return
        for constant in _constants(self._returns[-1]):
            if not isinstance(node.value, ast.Constant):
                self._replace(node.value, constant, "constant returned")
        self.visit(node.value)

    def visit_If(self, node: ast.If | ast.While) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            self._negate(node.test)
        if isinstance(node, ast.If) and not any(isinstance(one, ast.Await) for one in _walk(node.body)):
            self._replace(node.test, "False", "branch dropped")
        self.generic_visit(node)

    visit_While = visit_If

    # -- expressions --

    def _negate(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Constant):
            self._replace(test, f"not ({ast.unparse(test)})", "condition negated")

    def visit_IfExp(self, node: ast.IfExp) -> None:
        if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            self._negate(node.test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, operator in enumerate(node.ops):

            def change(other: ast.Compare, at: int = place, old: ast.cmpop = operator) -> None:
                other.ops[at] = _COMPARISONS[type(old)]()

            self._changed(node, "compare", change)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        def change(other: ast.BoolOp) -> None:
            other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()

        self._changed(node, "and/or", change)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace(node, f"({ast.unparse(node.operand)})", "not removed")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        swapped = _ARITHMETIC.get(type(node.op))
        texts = (node.left, node.right)
        if swapped and not any(isinstance(one, ast.JoinedStr) or _is_text(one) for one in texts):

            def change(other: ast.BinOp) -> None:
                other.op = swapped()

            self._changed(node, "arithmetic", change)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value), "constant flipped")
        elif isinstance(node.value, int) and node.value <= (
            _EXACT_INSIDE_MAX if self._function() else _EXACT_MAX
        ):
            self._replace(node, str(node.value + 1), "off by one")

    def visit_Call(self, node: ast.Call) -> None:
        if _only_tells(node):
            return
        if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            self._replace(node.func, _CALLS[node.func.id], "call swapped")
        self._swap_arguments(node)
        self.generic_visit(node)

    def _swap_arguments(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        types = self._known.get(called, {})
        for place, (one, two) in enumerate(zip(node.args, node.args[1:], strict=False)):
            if place in types and types[place] == types.get(place + 1) and _differ(one, two):

                def positional(other: ast.Call, at: int = place) -> None:
                    other.args[at], other.args[at + 1] = other.args[at + 1], other.args[at]

                self._changed(node, "arguments swapped", positional)
        named = [(at, one.arg) for at, one in enumerate(node.keywords) if one.arg]
        for (at, name), (following, other_name) in pairwise(named):
            first, second = node.keywords[at].value, node.keywords[following].value
            if name in types and types[name] == types.get(other_name) and _differ(first, second):

                def by_name(other: ast.Call, at: int = at, following: int = following) -> None:
                    left, right = other.keywords[at], other.keywords[following]
                    left.value, right.value = right.value, left.value

                self._changed(node, "arguments swapped", by_name)


def _walk(statements: list[ast.stmt]) -> Iterator[ast.AST]:
    for statement in statements:
        yield from ast.walk(statement)


def _differ(one: ast.expr, two: ast.expr) -> bool:
    return ast.dump(one) != ast.dump(two)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _only_tells(node: ast.expr) -> bool:
    """Logging, and invariants, which are assertions that stay on."""
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func)
    return called in ("invariant", "assert_never") or called.startswith(("_log.", "self._log.", "logging."))


def _constants(returns: ast.expr | None) -> tuple[str, ...]:
    """What a function of this type may give without having looked at anything."""
    if returns is None:
        return ()
    text = ast.unparse(returns)
    if "None" in (one.strip() for one in text.split("|")):
        return ("None",)
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    empty = _EMPTY.get(text.partition("[")[0])
    if empty and ("..." in text or not text.startswith("tuple")):
        return (empty,)
    return ()
