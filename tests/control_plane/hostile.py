"""How many of many values a test meets in one run: hostile texts, credentials that do not hold, callers."""

import random
from collections.abc import Sequence
from typing import TypeVar

from tests.conftest import FULL

Value = TypeVar("Value")


def some_of(values: Sequence[Value], count: int) -> Sequence[Value]:
    """All of them in the long form. Else `count`, drawn anew for each test of each run: `--randomly-seed` repeats them.

    What judges a value is the same code for many tests, which meet all values together in every run.
    """
    return values if FULL else random.sample(values, count)
