"""Tests of which a run takes a part by chance.

Where a test has the mark `drawn(shares=3)`, a third of its cases runs, and all of them under FULL=1. Files of one
`family` are dealt out whole: what is long and shows much of the same in several ways runs in one of `shares` ways. The
seed is pytest-randomly's, which each run prints at its top: `--randomly-seed=N` draws the same again. A case that is
named (`file::test[case]`) always runs, and so does the only file of a family.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pytest


def taken(items: list[pytest.Item], seed: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The items that run, and those that this run leaves out; each in their order."""
    dealt = _dealt(items, seed)
    running: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (running if _runs(item, seed, dealt) else left_out).append(item)
    return running, left_out


def _dealt(items: Iterable[pytest.Item], seed: int) -> Mapping[str, Sequence[str]]:
    """The files that run, for each family."""
    families: dict[str, set[str]] = defaultdict(set)
    shares: dict[str, int] = {}
    for item in items:
        marker = item.get_closest_marker("drawn")
        if marker is not None and "family" in marker.kwargs:
            family = marker.kwargs["family"]
            families[family].add(_file_of(item))
            shares[family] = marker.kwargs["shares"]
    dealt = {}
    for family, files in families.items():
        ways = min(shares[family], len(files))
        begin = random.Random(f"{seed} {family}").randrange(ways)
        dealt[family] = sorted(files)[begin::ways]
    return dealt


def _runs(item: pytest.Item, seed: int, dealt: Mapping[str, Sequence[str]]) -> bool:
    marker = item.get_closest_marker("drawn")
    if marker is None:
        return True
    if "family" in marker.kwargs:
        return _file_of(item) in dealt[marker.kwargs["family"]]
    return random.Random(f"{seed} {item.nodeid}").randrange(marker.kwargs["shares"]) == 0


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def seed_of(config: pytest.Config) -> int | None:
    """The seed that draws; None where everything runs."""
    named = any("::" in argument for argument in config.args)
    seed: int | None = config.getoption("randomly_seed", None)
    return None if named else seed
