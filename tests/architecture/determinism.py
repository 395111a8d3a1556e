"""Finds what makes two runs of one seed differ: clocks, randomness, files, threads, sets' order (RL139)."""

import ast
from collections.abc import Iterator

FORBIDDEN_MODULES = frozenset({"random", "secrets", "socket", "subprocess", "threading", "time", "uuid"})
"""Modules whose mere import gives a clock, randomness or the world."""
FORBIDDEN_CALLS = frozenset(
    {
        "asyncio.to_thread",
        "datetime.date.today",
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.datetime.utcnow",
        "io.open",
        "open",
        "os.getpid",
        "os.open",
        "os.urandom",
    }
)
ORDER_FREE = frozenset({"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"})
"""Calls whose result does not depend on the order of what they are given."""
ORDER_TAKING = frozenset(
    {"dict.fromkeys", "enumerate", "filter", "iter", "list", "map", "next", "tuple", "zip"}
)
SET_TYPES = frozenset({"AbstractSet", "FrozenSet", "MutableSet", "Set", "frozenset", "set"})
SET_METHODS = frozenset({"difference", "intersection", "symmetric_difference", "union"})


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` of a plain name or attribute chain."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return None if head is None else f"{head}.{node.attr}"
    return None


def faults(module: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Each place with what is wrong with it."""
    yield from _forbidden_imports(module)
    yield from _forbidden_calls(module)
    yield from _set_iterations(module)


def _forbidden_imports(module: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(module):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            if name.split(".")[0] in FORBIDDEN_MODULES:
                yield node, f"import of {name}: time, randomness and identity are arguments"


def _aliases(module: ast.Module) -> dict[str, str]:
    """What each imported name stands for, in full."""
    meanings: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    meanings[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                meanings[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return meanings


def _forbidden_calls(module: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    meanings = _aliases(module)
    for node in ast.walk(module):
        if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        name = dotted(node)
        if name is None:
            continue
        head, *rest = name.split(".")
        full = ".".join([meanings.get(head, head), *rest])
        if full in FORBIDDEN_CALLS:
            yield node, f"use of {full}: reach the world through a port"


class _Sets:
    """Which names and attributes of one module hold sets, as far as assignments and annotations say."""

    def __init__(self, module: ast.Module) -> None:
        self._names: set[str] = set()
        self._other: set[str] = set()
        for node in ast.walk(module):
            if isinstance(node, ast.AnnAssign):
                self._note(node.target, self._is_set_type(node.annotation))
            elif isinstance(node, ast.arg) and node.annotation is not None:
                self._remember(node.arg, self._is_set_type(node.annotation))
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    self._note(target, self._is_literal_set(node.value))
        # A name that also holds something else in another place is not judged.
        self._names -= self._other

    def _note(self, target: ast.expr, is_set: bool) -> None:
        name = dotted(target)
        if name is not None:
            self._remember(name, is_set)
            if is_set and "." not in name:
                self._names.add(f"self.{name}")  # a field of a dataclass

    def _remember(self, name: str, is_set: bool) -> None:
        (self._names if is_set else self._other).add(name)

    @staticmethod
    def _is_set_type(annotation: ast.expr) -> bool:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        if isinstance(annotation, ast.Subscript):
            annotation = annotation.value
        name = dotted(annotation)
        return name is not None and name.split(".")[-1] in SET_TYPES

    @staticmethod
    def _is_literal_set(node: ast.expr) -> bool:
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        return isinstance(node, ast.Call) and dotted(node.func) in {"set", "frozenset"}

    def holds(self, node: ast.expr) -> bool:
        """True if the expression is surely a set."""
        if self._is_literal_set(node) or dotted(node) in self._names:
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
            return self.holds(node.left) or self.holds(node.right)
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in SET_METHODS
            and self.holds(node.func.value)
        )


def _set_iterations(module: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    sets = _Sets(module)
    message = "iteration over a set: its order differs from run to run; use sorted(...) or a dict"
    free: set[ast.AST] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and dotted(node.func) in ORDER_FREE:
            free.update(argument for argument in node.args if isinstance(argument, ast.GeneratorExp))
        elif isinstance(node, ast.SetComp):
            free.add(node)
    for node in ast.walk(module):
        over: list[ast.expr] = []
        if isinstance(node, ast.For | ast.AsyncFor):
            over = [node.iter]
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp) and node not in free:
            over = [generator.iter for generator in node.generators]
        elif isinstance(node, ast.Starred):
            over = [node.value]
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            method = node.func.attr if isinstance(node.func, ast.Attribute) else None
            if name in ORDER_TAKING or method in {"extend", "join"}:
                over = [*node.args]
            elif isinstance(node.func, ast.Attribute) and method == "pop" and not node.args:
                over = [node.func.value]
        for expression in over:
            if sets.holds(expression):
                yield node, message
