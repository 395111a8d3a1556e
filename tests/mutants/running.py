"""Plants mutants into a copy of the project, one after the other, and lets the closest tests look."""

import compileall
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from py_compile import PycInvalidationMode
from tempfile import TemporaryDirectory

from .forking import Order, Outcome
from .mutations import Mutant
from .reach import Reached

BASELINE_LIMIT_S = 1_800.0
ANY_S = 30.0
LEFT_OUT = (".git", ".venv", "__pycache__", "build", "dist", "var", ".*_cache", ".hypothesis")


class Fate(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    UNREACHED = "unreached"
    """No test of the set enters its function: it survived without a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The fate of one mutant, with the test that killed it and how long that took."""

    mutant: Mutant
    fate: Fate
    test: str
    seconds: float


class BaselineFailed(Exception):
    """The tests fail without any mutant, so they could tell nothing."""


def limit_s(expected_s: float) -> float:
    """How long one test or several may take that took `expected_s` while their calls were noted."""
    return 20 + 4 * expected_s


class Copy:
    """A copy of the project with a process that runs pytest in it."""

    def __init__(self, root: Path, folder: Path, server: "subprocess.Popen[str]") -> None:
        self.root = root
        self._folder = folder
        self._server = server
        self._reach: dict[str, Reached] = {}
        self._marks = ""

    def _ask(self, order: Order) -> Outcome:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        outcome: Outcome = json.loads(self._server.stdout.readline())
        return outcome

    def measure(self, tests: Sequence[str], files: Sequence[str], *, slow: bool = False) -> None:
        """Run the tests as they are and learn which functions of the files each of them enters."""
        self._marks = "not processes" if slow else "not slow and not processes"
        outcome = self._ask(
            Order(
                tests=[*tests],
                marks=self._marks,
                limit_s=BASELINE_LIMIT_S,
                test_limit_s=BASELINE_LIMIT_S,
                reach=[*files],
            )
        )
        if outcome["code"] != 0:
            raise BaselineFailed(f"exit code {outcome['code']} {outcome['failed']}\n{outcome['output']}")
        self._reach = json.loads((self._folder / "reach").read_text(encoding="utf-8"))

    def closest(self, mutant: Mutant) -> list[str]:
        """The tests that may see the mutant, the quickest first.

        What stands outside of functions is seen by whoever enters a function of the module. A module of values has none
        that anyone enters: the quickest of all tests look, as many as take `ANY_S`.
        """
        if mutant.function:
            wanted = f"{mutant.file}:{mutant.function}"
            found = [test for test, reached in self._reach.items() if wanted in reached["functions"]]
        else:
            found = [
                test
                for test, reached in self._reach.items()
                if any(function.startswith(f"{mutant.file}:") for function in reached["functions"])
            ]
            if not found:
                found = self._quickest()
        return sorted(found, key=lambda test: self._reach[test]["seconds"])

    def _quickest(self) -> list[str]:
        by_time = sorted(self._reach, key=lambda test: self._reach[test]["seconds"])
        together_s = accumulate(self._reach[test]["seconds"] for test in by_time)
        return [test for test, seconds in zip(by_time, together_s, strict=True) if seconds <= ANY_S]

    def judge(self, mutant: Mutant) -> Verdict:
        """Plant it, look, and put the right text back."""
        tests = self.closest(mutant)
        if not tests:
            return Verdict(mutant=mutant, fate=Fate.UNREACHED, test="", seconds=0.0)
        times_s = [self._reach[test]["seconds"] for test in tests]
        path = self.root / mutant.file
        right = path.read_text(encoding="utf-8")
        path.write_text(mutant.applied(right), encoding="utf-8")
        try:
            outcome = self._ask(
                Order(
                    tests=tests,
                    marks=self._marks,
                    limit_s=limit_s(sum(times_s)),
                    test_limit_s=limit_s(max(times_s)),
                    reach=[],
                )
            )
        finally:
            path.write_text(right, encoding="utf-8")
        fate = {0: Fate.SURVIVED, -1: Fate.TIMED_OUT}.get(outcome["code"], Fate.KILLED)
        return Verdict(mutant=mutant, fate=fate, test=outcome["failed"], seconds=outcome["seconds"])


@contextmanager
def copied(source: Path) -> Iterator[Copy]:
    """A copy of the project in a temporary folder, gone afterwards with all that ran in it."""
    with TemporaryDirectory(prefix="penstock-mutants-") as name:
        root, folder = Path(name) / "project", Path(name) / "outcome"
        shutil.copytree(source, root, ignore=shutil.ignore_patterns(*LEFT_OUT))
        folder.mkdir()
        # Two mutants of one second may have one size: bytecode goes by the text's hash.
        compileall.compile_dir(root, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.forking", str(folder)],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield Copy(root, folder, server)
        finally:
            server.kill()
            server.communicate()
