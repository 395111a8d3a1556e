"""A round over bronze that stands still at the data set `chain` until a file is there: what happens meanwhile happens
in the middle of the round.

    python -m tests.spark_usage.gated_round <configuration> <folder to publish in> <folder of the gate>

The rows of bronze wait where this round has published nine of twelve data sets; who waits puts its process id into
the gate's folder. The file `open` there opens it.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from spark_usage import bronze, cluster, configuration
from spark_usage.datasets import SEAL
from spark_usage.pipeline import Pipeline
from spark_usage.rounds import Round, fold
from spark_usage.windowed import Progress

_LOOK_S = 0.05
_REACHED = "reached"
Batches = Iterator[pa.RecordBatch]


def waiting(gate: str) -> Callable[[Batches], Batches]:
    def passed(batches: Batches) -> Batches:
        if (Path(gate) / _REACHED).exists():
            (Path(gate) / f"waits-{os.getpid()}").touch()
            while not (Path(gate) / "open").exists():
                time.sleep(_LOOK_S)
        yield from batches

    return passed


class GatedPipeline(Pipeline):
    """Reads `__usage` until bronze has something and not again, and publishes into a folder of its own."""

    def __init__(self, chosen: configuration.Configuration, out: Path, gate: Path) -> None:
        super().__init__(chosen)
        self._chosen = chosen
        self._out = out
        self._gate = gate

    def round(self, *, again: bool = False, progress: Progress = lambda line: None) -> Round:
        def watched(line: str) -> None:
            progress(line)
            if line.startswith(f"{SEAL.name} "):
                (self._gate / _REACHED).touch()

        spark = self.start()
        with cluster.with_executors(spark, self._chosen.spark.executor_wait_s):
            if not bronze.committed_offsets(self.datasets):
                bronze.ingest(spark, self.datasets, self._source_options())
            rows = bronze.read(spark, self.datasets).mapInArrow(
                waiting(str(self._gate)), from_arrow_schema(bronze.SCHEMA)
            )
            ends = bronze.committed_offsets(self.datasets)
            return fold(spark, self._out, again=again, progress=watched, rows=rows, offsets=ends)


def main(config: str, out: str, gate: str) -> None:
    pipeline = GatedPipeline(configuration.read(Path(config)), Path(out), Path(gate))
    try:
        pipeline.round_or_again(progress=lambda line: print(line, flush=True))
    finally:
        pipeline.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
