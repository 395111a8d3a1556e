"""Tests of which a run takes a part by chance.

Where a test has the mark `drawn(shares=3)`, a third of its cases runs, and all of them under FULL=1. The seed is
pytest-randomly's, which each run prints at its top: `--randomly-seed=N` draws the same cases again. A case that is
named (`file::test[case]`) always runs.
"""

import random

import pytest


def taken(items: list[pytest.Item], seed: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The items that run, and those that this run leaves out; each in their order."""
    running: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (running if _runs(item, seed) else left_out).append(item)
    return running, left_out


def _runs(item: pytest.Item, seed: int) -> bool:
    marker = item.get_closest_marker("drawn")
    return marker is None or random.Random(f"{seed} {item.nodeid}").randrange(marker.kwargs["shares"]) == 0


def seed_of(config: pytest.Config) -> int | None:
    """The seed that draws; None where everything runs."""
    named = any("::" in argument for argument in config.args)
    seed: int | None = config.getoption("randomly_seed", None)
    return None if named else seed
