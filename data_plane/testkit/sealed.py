"""Seals a process for the time of a simulation: real clocks, real randomness and logging are out of reach."""

import logging
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from data_plane.testkit.loop import EscapedSimulation

_FORBIDDEN: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (time, ("time", "time_ns", "monotonic", "monotonic_ns", "sleep")),
    (os, ("urandom",)),
    (random, ("random", "randrange", "randint", "choice", "choices", "shuffle", "uniform", "getrandbits")),
    (uuid, ("uuid1", "uuid4")),
)


@contextmanager
def sealed() -> Iterator[None]:
    """Whoever asks for one of these meanwhile gets `EscapedSimulation`; nothing is logged."""
    originals = [(module, name, getattr(module, name)) for module, names in _FORBIDDEN for name in names]
    logged = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        for module, name, _ in originals:
            setattr(module, name, _escape(f"{module.__name__}.{name}"))
        yield
    finally:
        for module, name, original in originals:
            setattr(module, name, original)
        logging.disable(logged)


def _escape(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: object, **options: object) -> NoReturn:
        raise EscapedSimulation(
            f"{name}: one seed must fix everything; it comes from a port or from the loop"
        )

    return refuse
