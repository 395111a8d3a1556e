"""Runs pieces of work each in a process of its own, some at a time: nothing of one is left in the next.

The processes are forked from a server that has one thread and nothing but imported modules, never from the caller:
in a copy of a process with threads (grpc's, a test runner's) a thread that is not there may hold a lock without an end.
So work and its items are pickled, and what the caller changed in its own modules does not reach them.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Pipe: TypeAlias = "Connection[Any, Any]"

_IMPORTED_ONCE = ["data_plane.testkit.scenario"]
"""What nearly all work here needs: imported by the server, so that no piece has to."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T, R]):
    """What became of one piece: its result, or (None) how its process ended."""

    item: T
    result: R | None
    ending: str = ""


@dataclass(frozen=True, slots=True)
class _Running(Generic[T]):
    item: T
    process: BaseProcess
    began: float


def run_forked(
    work: Callable[[T], R], items: Sequence[T], *, jobs: int, wall_s_max: float
) -> Iterator[Answer[T, R]]:
    """Answers as they come. A piece that takes longer than `wall_s_max` is killed."""
    waiting = list(items)[::-1]
    running: dict[Pipe, _Running[T]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            reader, started = _start(work, waiting.pop())
            running[reader] = started
        for started in running.values():
            if time.perf_counter() - started.began > wall_s_max:
                started.process.kill()
        ready = wait(list(running), 1.0)
        for reader in [reader for reader in running if reader in ready]:
            yield _received(reader, running.pop(reader))


def _start(work: Callable[[T], R], item: T) -> tuple[Pipe, _Running[T]]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED_ONCE)
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_run_and_send, args=(work, item, writer))
    process.start()
    writer.close()
    return reader, _Running(item, process, time.perf_counter())


def _run_and_send(work: Callable[[T], R], item: T, writer: Pipe) -> None:
    writer.send(work(item))


def _received(reader: Pipe, started: _Running[T]) -> Answer[T, Any]:
    try:
        answer: Answer[T, Any] = Answer(started.item, reader.recv())
    except EOFError:
        started.process.join()
        answer = Answer(started.item, None, f"its process ended with {started.process.exitcode}")
    reader.close()
    started.process.join()
    return answer
