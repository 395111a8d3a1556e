"""Where compiled cores are, and whether they are of the sources as these are now. `packaging/compile.py` makes them.

A tree holds the packages `data_plane` and `penstock` again: a link to each file, and beside each module that is
compiled its extension module, which Python imports first. A process that has the folder of a tree first on its path
runs compiled cores; every other one runs pure Python.
"""

import hashlib
import importlib.metadata
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_PATH = "PYTHONPATH"
_SAFE_PATH = "PYTHONSAFEPATH"
"""Set: the folder that a process is started in does not go before the tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Packages of a checkout, with what is compiled of them. They import each other and no other package of it."""

    name: str
    """Of its folder; by it `packaging/compile.py` knows what to make."""
    packages: tuple[str, ...]
    optimisation: int
    """gcc's level."""
    work_name: str = "compiling"
    """Of the folder of C files, objects and types that mypy has read. Trees of the same packages share it."""
    root: Path = _ROOT

    @property
    def folder(self) -> Path:
        return self.root / "build" / self.name

    @property
    def work(self) -> Path:
        return self.root / "build" / self.work_name

    @property
    def compiler(self) -> Path:
        return self.root / "packaging" / "compile.py"

    @property
    def stamp(self) -> Path:
        """Holds what the tree was made of; missing while it is being made."""
        return self.folder / "compiled-from"

    @property
    def variables(self) -> dict[str, str]:
        """What the environment of a process has that runs the tree's cores."""
        return {_PATH: str(self.folder), _SAFE_PATH: "1"}

    def sources(self) -> Iterator[Path]:
        """Everything whose types the compiled modules may see."""
        for package in self.packages:
            yield from sorted(
                path for path in (self.root / package).rglob("*.py*") if path.suffix in (".py", ".pyi")
            )

    def source_digest(self) -> str:
        """A digest of everything that decides what the C files are."""
        digest = hashlib.sha256(f"{sys.version} {_version_of_mypy()}".encode())
        makers = [self.compiler, self.compiler.with_name("loader.c"), self.compiler.with_name("mypyc.ini")]
        for path in (*makers, *self.sources()):
            digest.update(f"{path.relative_to(self.root)}\0".encode() + path.read_bytes())
        return digest.hexdigest()

    def stamp_of(self, source_digest: str) -> str:
        """What the stamp holds once the tree is made of these sources."""
        return f"{source_digest} -O{self.optimisation}\n"

    def is_fresh(self) -> bool:
        """Whether its modules are those of the sources as these are now: nothing else may be run."""
        try:
            return self.stamp.read_text() == self.stamp_of(self.source_digest())
        except FileNotFoundError:
            return False

    def runs_in(self, environment: Mapping[str, str]) -> bool:
        """Whether a process with this environment runs the tree's cores."""
        return environment.get(_PATH, "").partition(os.pathsep)[0] == str(self.folder)


EVERYTHING = Tree(name="compiled", packages=("data_plane", "penstock"), optimisation=2)
# What tests run is to be right, and is compiled for few runs: without optimisation in a third of the time.
TESTED = Tree(name="compiled-for-tests", packages=("data_plane", "penstock"), optimisation=0)
SDK = Tree(name="compiled-sdk", packages=("penstock",), optimisation=2, work_name="compiling-sdk")
TREES = (EVERYTHING, TESTED, SDK)


def with_tree(environment: Mapping[str, str], tree: Tree) -> dict[str, str]:
    """An environment whose process runs the tree's cores, and finds everything else where it did before."""
    before = environment.get(_PATH)
    path = {_PATH: os.pathsep.join([str(tree.folder), before])} if before else {}
    return {**environment, **tree.variables, **path}


def stale(environment: Mapping[str, str], trees: Iterable[Tree] = TREES) -> Tree | None:
    """The tree of other sources whose cores a process with this environment would run."""
    return next((tree for tree in trees if tree.runs_in(environment) and not tree.is_fresh()), None)


def checked(environment: Mapping[str, str], trees: Iterable[Tree] = TREES) -> dict[str, str]:
    """An environment for a process that starts now: instead of a stale tree it runs pure Python."""
    variables = dict(environment)
    if stale(environment, trees) is not None:
        del variables[_PATH]
        variables.pop(_SAFE_PATH, None)
        if rest := environment[_PATH].partition(os.pathsep)[2]:
            variables[_PATH] = rest
    return variables


def _version_of_mypy() -> str:
    try:
        return importlib.metadata.version("mypy")
    except importlib.metadata.PackageNotFoundError:
        return "none"
