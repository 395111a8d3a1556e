"""Steps of a walk: what fails in one names it."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def step(name: object) -> Iterator[None]:
    """What is raised in the block carries the step's name, which pytest shows below the failure."""
    try:
        yield
    except Exception as failure:
        failure.add_note(f"step: {name}")
        raise
