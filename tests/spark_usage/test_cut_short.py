"""A round heals published runs of which files were cut short: it publishes what a fold of everything would."""

from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.data_set_store import MANIFEST
from tests.spark_usage.conftest import Pipeline
from tests.spark_usage.records import DAY, HOUR, Writer, in_order, reading

pytestmark = [pytest.mark.slow]


def cut_to(file: Path, parts: int) -> None:
    """Leave nothing (0), or one half (2)."""
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // parts] if parts else b"")


@pytest.mark.parametrize("parts", [0, 2])
def test_a_round_publishes_again_what_was_cut_short(
    make_pipeline: Callable[[str], Pipeline], parts: int
) -> None:
    writer = Writer()
    stored = in_order(
        *(
            writer.record(
                reading(at * 7, DAY + at * HOUR, at * 7, at * 700, [(9, 7, 700)]), made_ms=DAY + at * HOUR
            )
            for at in range(1, 5)
        )
    )
    damaged, sound = make_pipeline(f"damaged-{parts}"), make_pipeline("sound")
    damaged.fold(stored[:3], again=False)
    for dataset, pattern in (
        ("usage_day", "run=*/*.parquet"),
        ("reading", "run=*/*.parquet"),
        ("usage_hour", f"run=*/{MANIFEST}"),
        ("boot", f"run=*/{MANIFEST}"),
        ("principal_day", "current*.json"),
    ):
        files = sorted((damaged.folder / dataset).glob(pattern))
        assert files, dataset
        for file in files:
            cut_to(file, parts)
    digests = {name: run.digest for name, run in damaged.fold(stored[:3], again=False).runs.items()}
    assert digests == {name: run.digest for name, run in sound.fold(stored[:3]).runs.items()}
    damaged.catalog.take_over()
    went_on = damaged.fold(stored, again=False).runs
    assert {name: run.digest for name, run in went_on.items()} == {
        name: run.digest for name, run in sound.fold(stored).runs.items()
    }
