"""The cheapest finder of planted bugs: one test of the suite, whose own assertion has to fail."""

import inspect
import linecache
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.finders import Found

_TESTS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A test with its arguments. An assertion that the test itself makes is the find; anything else that the program
    raises is not.
    """

    test: Callable[..., object]
    """Bind arguments that are plain values with `functools.partial`."""
    arguments: Callable[[], dict[str, Any]] = dict
    """Makes arguments that each look needs anew, as a fixture would."""
    kind: str = "unit"
    first: int = 0
    tries: int = 1
    search_tries: int = 1

    @property
    def function(self) -> Callable[..., object]:
        found = self.test
        while isinstance(found, partial):
            found = found.func
        return found

    @property
    def by(self) -> tuple[str, ...]:
        return (self.function.__name__.removeprefix("test_").replace("_", " "),)

    def describe(self) -> str:
        return f"{self.kind}: {Path(inspect.getfile(self.function)).relative_to(_TESTS)}"

    def attempt(self, number: int) -> Found | None:
        """Look once; the number means nothing."""
        try:
            self.test(**self.arguments())
        except (AssertionError, pytest.fail.Exception) as failed:
            at = traceback.extract_tb(failed.__traceback__)
            own = [frame for frame in at if Path(frame.filename).is_relative_to(_TESTS)]
            asserted = (
                Path(at[-1].filename).is_relative_to(_TESTS) or "_pytest" in Path(at[-1].filename).parts
            )
            if not asserted:
                raise
            line = linecache.getline(own[-1].filename, own[-1].lineno or 0).strip()
            return Found(promise=self.by[0], explanation=str(failed).partition("\n")[0] or line)
        return None
