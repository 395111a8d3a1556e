"""A run draws a share of the cases that are marked for it, by its seed, and all shares together are all cases."""

from typing import Any

import pytest

from tests import drawing


class Case:
    """What drawing asks of a test."""

    def __init__(self, nodeid: str, shares: int | None) -> None:
        self.nodeid = nodeid
        self._shares = shares

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        assert name == "drawn"
        return None if self._shares is None else pytest.mark.drawn(shares=self._shares).mark


CASES: list[Any] = [Case(f"tests/test_a.py::test_it[{number}]", 3) for number in range(300)]
OTHERS: list[Any] = [Case(f"tests/test_b.py::test_it[{number}]", None) for number in range(20)]


def test_a_share_of_the_marked_cases_runs_and_all_others() -> None:
    running, left_out = drawing.taken([*CASES, *OTHERS], seed=7)
    assert set(OTHERS) <= set(running)
    assert 60 < len(running) - len(OTHERS) < 140
    assert len(running) + len(left_out) == len(CASES) + len(OTHERS)


def test_a_seed_draws_the_same_cases_again_and_every_case_comes_in_time() -> None:
    drawn = [set(drawing.taken(CASES, seed)[0]) for seed in range(40)]
    assert drawn[7] == set(drawing.taken(CASES[::-1], 7)[0])
    assert set.union(*drawn) == set(CASES)


def test_what_is_named_is_not_drawn(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytestconfig.option, "randomly_seed", 7, raising=False)
    monkeypatch.setattr(pytestconfig, "args", ["tests"])
    assert drawing.seed_of(pytestconfig) == 7
    monkeypatch.setattr(pytestconfig, "args", ["tests/test_a.py::test_it[1]"])
    assert drawing.seed_of(pytestconfig) is None
