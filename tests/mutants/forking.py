"""A process that has the libraries loaded, none of our code, and forks itself for each run of pytest.

It runs in a copy of the project and takes one line of JSON a run on standard input; one line of JSON comes back. What a
child loads of ours it loads from that copy, as it is by then.
"""

import importlib
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import TypedDict

import pytest

LIBRARIES = (
    "hypothesis.strategies",
    "grpc.aio",
    "google.protobuf.message",
    "msgspec",
    "cramjam",
    "zstandard",
    "xdist.remote",
)
"""What most tests load and what bears being forked."""
MEMORY_BYTES_MAX = 4 << 30
"""A bug may ask for memory without end."""
ARGUMENTS = [
    "--quiet",
    "--exitfirst",
    # pytest would have rewritten the assertions of plugins that are loaded by now.
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
    "-p",
    "no:randomly",
    "-p",
    "no:cacheprovider",
    "--hypothesis-seed=0",
]


class Order(TypedDict):
    """What is to be run."""

    tests: list[str]
    marks: str
    """Which of them, by pytest's expression of marks."""
    limit_s: float
    test_limit_s: float
    """How long one of them may take before it fails."""
    reach: list[str]
    """The files of which entered functions are noted; empty: none are."""


class Outcome(TypedDict):
    """What became of a run."""

    code: int
    """pytest's exit code; -1: it took longer than the limit."""
    failed: str
    """The first test that failed."""
    seconds: float
    output: str
    """The last lines, for people."""


class _FirstFailure:
    """A plugin that remembers the test that failed first."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid


def _child(order: Order, folder: Path) -> None:
    """Runs pytest and leaves what it found in the folder. Never returns."""
    from tests.mutants.reach import Reach

    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for standard in (1, 2):
        os.dup2(output, standard)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.dont_write_bytecode = True
    first, reach = _FirstFailure(), Reach(Path.cwd(), order["reach"])
    code = 3
    try:
        limits = ["--timeout", str(order["test_limit_s"])]
        arguments = [*ARGUMENTS, *limits, "-m", order["marks"], *order["tests"]]
        code = int(pytest.main(arguments, [first, *([reach] if order["reach"] else [])]))
        (folder / "failed").write_text(first.name, encoding="utf-8")
        (folder / "reach").write_text(json.dumps(reach.tests), encoding="utf-8")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(order: Order, folder: Path) -> Outcome:
    """One run in a child; the child and its session are gone when this returns."""
    began = time.monotonic()
    (folder / "failed").write_text("", encoding="utf-8")
    child = os.fork()
    if child == 0:
        _child(order, folder)
    ended = os.pidfd_open(child)
    try:
        in_time = bool(select.select([ended], [], [], order["limit_s"])[0])
    finally:
        os.close(ended)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it left nothing behind
    code = os.waitstatus_to_exitcode(status)
    return Outcome(
        code=code if in_time else -1,
        failed=(folder / "failed").read_text(encoding="utf-8"),
        seconds=time.monotonic() - began,
        output=(folder / "output").read_text(encoding="utf-8", errors="replace")[-4_000:],
    )


def main(folder: Path) -> None:
    """Serve until standard input ends."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line), folder)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
