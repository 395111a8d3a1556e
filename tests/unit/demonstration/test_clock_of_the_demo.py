"""With a clock of its own the demo starts over when the machine was too busy, and no message misses its month."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from demo.__main__ import LEADS_S, Demo
from demo.load import ClockPassed, wait_for_clock
from demo.stages import Stages
from penstock.profiles import PROFILE_FILE

START = datetime(2026, 1, 31, 23, 59, 40, tzinfo=UTC)


def demo(
    folder: Path, monkeypatch: pytest.MonkeyPatch, passed: int
) -> tuple[Demo, list[float], list[list[str]]]:
    """A demo whose first attempts are too late, the leads of its attempts, and what each of them found."""
    made = Demo(folder, None, 1.0, START)
    leads: list[float] = []
    found: list[list[str]] = []

    def attempt(lead_s: float) -> Any:
        leads.append(lead_s)
        found.append(sorted(file.name for file in folder.iterdir()))
        (folder / "left").touch()
        if len(leads) <= passed:
            raise ClockPassed("too late")
        return "summary", []

    monkeypatch.setenv(PROFILE_FILE, "")
    monkeypatch.setattr(made, "_attempt", attempt)
    made.clear()
    return made, leads, found


def test_who_is_too_late_starts_over_from_nothing_with_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, leads, found = demo(tmp_path / "demo", monkeypatch, 1)
    assert made.run() == ("summary", [])
    assert leads == list(LEADS_S[:2]) and [*LEADS_S] == sorted(LEADS_S)
    assert found[1] == found[0]


def test_who_is_too_late_each_time_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, leads, _ = demo(tmp_path / "demo", monkeypatch, len(LEADS_S))
    with pytest.raises(ClockPassed):
        made.run()
    assert leads == list(LEADS_S)


def test_a_moment_that_is_over_is_not_waited_for_and_one_to_come_is() -> None:
    stages = Stages()
    with pytest.raises(ClockPassed, match="less busy"):
        wait_for_clock(time.time() - 1, stages)
    assert "clock" not in stages.seconds
    begin_at = time.time() + 0.05
    wait_for_clock(begin_at, stages)
    assert time.time() >= begin_at and "clock" in stages.seconds
