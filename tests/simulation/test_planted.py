"""Planting works: the quick finders find their bugs, nothing of a bug stays behind. `make planted` runs them all.

A run looks at a third of them without the bug too, by its seed, and at all of them under FULL=1.
"""

import random

import pytest

from data_plane.replication import in_sync
from tests.conftest import FULL
from tests.simulation.bug import PlantedBug, located, planted
from tests.simulation.finders import CrashStates, Finder, Seeds
from tests.simulation.planted import look
from tests.simulation.planted_bugs import BUGS

# A bug is planted in a module, which a compiled one that calls it does not ask.
pytestmark = pytest.mark.pure

_SHARES = 3
_SLOW_MODELS = ("own epoch's end ignored when truncating", "truncate to the watermark", "no divergence seen")
_SIMULATED = (
    "acknowledged before the leader's sync",
    "duplicate table not rebuilt on promotion",
    "no epoch check after an await",
)


def _quick() -> list[tuple[PlantedBug, Finder]]:
    return [
        (bug, finder)
        for bug in BUGS
        for finder in bug.finders
        if (bug.name in _SIMULATED and isinstance(finder, Seeds))
        or (not isinstance(finder, Seeds | CrashStates) and bug.name not in _SLOW_MODELS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "finder"), _quick(), ids=[f"{bug.name}-{type(finder).__name__}" for bug, finder in _quick()]
)
def test_the_finder_finds_the_planted_bug_and_nothing_without_it(bug: PlantedBug, finder: Finder) -> None:
    # pytest-randomly has just set the seed of the run.
    drawn = random.Random(f"{random.random()} {bug.name} {finder.describe()}").randrange(_SHARES)
    verdict = look(bug, finder, search=False, without=FULL or drawn == 0)
    assert not verdict.failure, f"{verdict.failure}; python tests/simulation/planted.py --only '{bug.name}'"


def test_a_planted_bug_is_gone_afterwards_even_after_an_error() -> None:
    right = in_sync.counted_end
    with pytest.raises(KeyError), planted("data_plane.replication.in_sync:counted_end", lambda right: min):
        assert in_sync.counted_end is min
        raise KeyError
    assert in_sync.counted_end is right


def test_every_bug_replaces_something_that_the_product_defines() -> None:
    for bug in BUGS:
        owner, name = located(bug.target)
        assert name in vars(owner), bug.name


def test_a_place_that_does_not_exist_is_refused() -> None:
    with pytest.raises(LookupError, match="no_such_decision"):
        located("data_plane.replication.in_sync:no_such_decision")


def test_names_tell_the_bugs_apart() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS)
