"""A round whose driver is killed in silver or in gold publishes nothing by halves; the next resumes: difference 0.

The killed rounds go on from a whole one: what counts of a data set is then its old run or its new one. In which of
the two stages the driver is killed is drawn; `FULL=1` kills it in both, one after the other.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_usage import datasets
from tests.control_plane.hostile import some_of
from tests.spark_usage.conftest import Pipeline
from tests.spark_usage.records import DAY, HOUR, Stored, Writer, in_order, reading
from tests.spark_usage.service import PROJECT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.drawn(shares=3, family="histories of usage"),
]
_KILLED_WITHIN_S = 300.0
SILVER, GOLD = datasets.USAGE_HOUR.name, datasets.USAGE_MINUTE.name
HOURS = 30


def killed_while_it_writes(stage: str, folder: Path, stored: Sequence[Stored]) -> None:
    """Kill the driver of a round, Python and Java, once it has begun to write the stage's data set."""
    scratch = folder.parent / f"killed-in-{stage}"
    scratch.mkdir()
    job = {
        "folder": str(folder),
        "ends": {"0": len(stored)},
        "records": [
            [one.partition, one.offset, base64.b64encode(one.value or b"").decode()] for one in stored
        ],
    }
    jobs = scratch / "jobs.json"
    jobs.write_text(json.dumps([job]), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.control_plane.billing.fold_records", str(scratch / "spark")],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(f"{jobs}\n")
    process.stdin.flush()
    deadline = time.monotonic() + _KILLED_WITHIN_S
    try:
        while not any((folder / stage).glob(".pending-*")):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, f"{stage} was not begun"
            time.sleep(0.001)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_round_killed_in_silver_or_in_gold_is_resumed_to_the_unit(pipeline: Pipeline) -> None:
    writer = Writer()
    values = [
        writer.record(
            reading(at * 7, DAY + at * HOUR, at * 7, at * 700, [(9, 7, 700)]), made_ms=DAY + at * HOUR
        )
        for at in range(1, HOURS + 1)
    ]
    stored = in_order(*values)
    old = pipeline.fold(stored[: HOURS // 2], again=False).runs
    published: dict[str, str] = {}
    for stage, before in some_of(((SILVER, {"rejected"}), (GOLD, {"rejected", SILVER})), 1):
        killed_while_it_writes(stage, pipeline.folder, stored)
        for dataset in datasets.ALL:
            manifest = pipeline.catalog.current(dataset.name)
            assert manifest is not None
            assert pipeline.table(dataset.name).num_rows == manifest["rows"]
            if manifest["run_id"] != old[dataset.name].run_id:
                published[dataset.name] = manifest["digest"]
        assert stage not in published
        assert before <= set(published) < {dataset.name for dataset in datasets.ALL}

    done = pipeline.fold(stored, again=False)
    assert done.recomputed and done.rejected == 0 and done.missing == ""
    assert {name: done.runs[name].digest for name in published} == published
    sums: dict[str, int] = {}
    for meter, quantity in pipeline.rows(SILVER, "meter", "quantity"):
        sums[meter] = sums.get(meter, 0) + int(quantity)
    assert sums == {"messages_in": HOURS * 7, "bytes_in": HOURS * 700}
    assert len(pipeline.rows(GOLD, "minute")) == 2 * HOURS, "two meters"
    assert not list(pipeline.folder.glob("*/.pending-*"))
