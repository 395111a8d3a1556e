"""A pytest plugin that notes which functions each test enters, and how long it takes."""

import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import TypedDict

import pytest


class Reached(TypedDict):
    """What one test needed: seconds, and the functions it entered as `file:qualified name`."""

    seconds: float
    functions: list[str]


class Reach:
    """Notes calls of functions that are defined in some files below `root`.

    What a fixture of a whole module or session enters counts for the first test that needs it.
    """

    def __init__(self, root: Path, files: list[str]) -> None:
        self.tests: dict[str, Reached] = {}
        self._names = {str(root / file): file for file in files}
        self._entered: set[tuple[str, str]] = set()

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename in self._names:
            self._entered.add((code.co_filename, code.co_qualname))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._entered = set()
        began = time.monotonic()
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            functions = sorted(f"{self._names[file]}:{name}" for file, name in self._entered)
            self.tests[item.nodeid] = Reached(seconds=time.monotonic() - began, functions=functions)
