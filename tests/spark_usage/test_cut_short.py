"""A round heals published runs of which files were cut short: it publishes what a fold of everything would."""

from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.data_set_store import MANIFEST
from tests.spark_usage.conftest import FoldedHours, Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.drawn(shares=3, family="histories of usage")]
NOTHING, HALF = 0, 2
CUT = (
    ("usage_day", "run=*/*.parquet", NOTHING),
    ("reading", "run=*/*.parquet", HALF),
    ("usage_hour", f"run=*/{MANIFEST}", HALF),
    ("boot", f"run=*/{MANIFEST}", NOTHING),
    ("principal_day", "current*.json", NOTHING),
    ("cut_usage", "current*.json", HALF),
)
"""Data set, its files, what is left of each."""


def cut_to(file: Path, parts: int) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // parts] if parts else b"")


def test_a_round_publishes_again_what_was_cut_short(
    make_pipeline: Callable[[str], Pipeline], folded_hours: FoldedHours
) -> None:
    damaged = make_pipeline("damaged")
    before = damaged.fold(folded_hours.stored[:3], again=False).runs
    for dataset, pattern, parts in CUT:
        files = sorted((damaged.folder / dataset).glob(pattern))
        assert files, dataset
        for file in files:
            cut_to(file, parts)
    mended = damaged.fold(folded_hours.stored[:3], again=False).runs
    assert {name: run.digest for name, run in mended.items()} == {
        name: run.digest for name, run in before.items()
    }
    damaged.catalog.take_over()
    went_on = damaged.fold(folded_hours.stored, again=False).runs
    assert {name: run.digest for name, run in went_on.items()} == {
        name: run.digest for name, run in folded_hours.done.runs.items()
    }
