"""Seals a thread for the time of a simulation: real clocks, real randomness and logging are out of reach."""

import logging
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from data_plane.testkit.loop import EscapedSimulation

_FORBIDDEN: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (time, ("time", "time_ns", "monotonic", "monotonic_ns", "sleep")),
    (os, ("urandom",)),
    (random, ("random", "randrange", "randint", "choice", "choices", "shuffle", "uniform", "getrandbits")),
    (uuid, ("uuid1", "uuid4")),
    (threading.Thread, ("start",)),
)


@contextmanager
def sealed() -> Iterator[None]:
    """Code that asks for one of these in this thread meanwhile gets `EscapedSimulation`; nothing is logged.

    Threads that a process has besides, such as those of a library that another test used, are no part of it.
    """
    originals = [(module, name, getattr(module, name)) for module, names in _FORBIDDEN for name in names]
    logged = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        for module, name, original in originals:
            setattr(module, name, _escape(f"{module.__name__}.{name}", original))
        yield
    finally:
        for module, name, original in originals:
            setattr(module, name, original)
        logging.disable(logged)


def _escape(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    simulated = threading.get_ident()

    def refuse(*args: Any, **options: Any) -> Any:
        if threading.get_ident() != simulated:
            return original(*args, **options)
        raise EscapedSimulation(
            f"{name}: one seed must fix everything; it comes from a port or from the loop"
        )

    return refuse
