"""Steps of a walk: what fails in one names it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Step = Callable[[object], AbstractContextManager[None]]
"""Makes a step of a name."""


@contextmanager
def step(name: object) -> Iterator[None]:
    """What is raised in the block carries the step's name, which pytest shows below the failure."""
    try:
        yield
    except Exception as failure:
        failure.add_note(f"step: {name}")
        raise


@contextmanager
def walk() -> Iterator[Step]:
    """Each step of the block is tried, whatever became of those before it; its end raises all that failed together."""
    failures: list[Exception] = []

    @contextmanager
    def tried(name: object) -> Iterator[None]:
        try:
            with step(name):
                yield
        except Exception as failure:
            failures.append(failure)

    yield tried
    if failures:
        raise ExceptionGroup(f"{len(failures)} steps failed", failures)
