"""What the usage pipeline costs by rows: the first fold of a month, an hour's increment, and the same sums by DuckDB.

`python -m benchmarks.usage_scale --rows 100000000 --folder DIR` measures other sizes; a row is a reading.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import Benchmark, Measured
from benchmarks.usage_load import DAY_MS, tell_files
from benchmarks.usage_rounds import processor_s
from data_plane.contract import usage_pb2 as pb
from spark_usage import bronze
from spark_usage.configuration import SparkConfiguration
from spark_usage.datasets import READING
from spark_usage.decode import facts_of
from spark_usage.rounds import Round, fold
from spark_usage.runs import Chunk
from spark_usage.session import start_session

ROWS, TENANTS, DAYS = 1_000_000, 1_000, 31
_READINGS_A_RECORD = 500
_RECORDS_A_FILE = 400
_TURNS = 400
_START_MS = 20_000 * DAY_MS
_HOUR_MS = DAY_MS // 24
_FIELD_OF_READINGS = pb.UsageRecord.DESCRIPTOR.fields_by_name["readings"].number


class Month:
    """`__usage` of one broker whose tenants have a topic each, read in turn and at equal distances."""

    def __init__(self, datasets: Path, rows: int, tenants: int, days: int) -> None:
        self._data = bronze.BronzeFolders(datasets).data
        (self._data / "_spark_metadata").mkdir(parents=True)
        self._files: list[Path] = []
        self._tenants = tenants
        self._step_ms = max(1, days * DAY_MS * tenants // rows)
        self._turn = 0
        self._offset = 0
        self._logs = [self._log(number) for number in range(tenants)]

    @property
    def offsets(self) -> dict[str, int]:
        return {"0": self._offset}

    def _log(self, number: int) -> bytes:
        name = f"tn_{number:05}"
        log = pb.Reading(
            tenant=name, topic_id=name.encode().ljust(16, b"-"), topic="orders", log_generation=1, kind="PERIODIC"
        )  # fmt: skip
        return log.SerializeToString()

    def grow(self, rows: int) -> None:
        """So many readings more, in files of bronze."""
        turns = rows // self._tenants
        records: list[bytes] = []
        for record in self.records(turns):
            records.append(record)
            if len(records) == _RECORDS_A_FILE:
                self._write(records)
                records = []
        if records:
            self._write(records)
        tell_files(self._data, self._files)

    def records(self, turns: int) -> Iterator[bytes]:
        """Of so many readings of each tenant more."""
        tag = bytes([_FIELD_OF_READINGS << 3 | 2])
        for _ in range(turns):
            self._turn += 1
            at = _START_MS + self._turn * self._step_ms
            messages, size = self._turn * 50, self._turn * 50_000
            # What all readings of a turn say stands behind what each says of its log, as protobuf orders fields.
            reading = pb.Reading(end_offset=messages, accepted_ms=at, totals=(messages, size, 0, 0, 0, 0))
            shared = reading.SerializeToString()
            for begin in range(0, self._tenants, _READINGS_A_RECORD):
                logs = self._logs[begin : begin + _READINGS_A_RECORD]
                readings = [tag + _varint(len(log) + len(shared)) + log for log in logs]
                self._offset += 1
                head = pb.UsageRecord(broker_id=1, boot_id="boot-1", sequence=self._offset, made_ms=at)
                yield head.SerializeToString() + shared.join(readings) + shared

    def _write(self, records: list[bytes]) -> None:
        count, first = len(records), self._offset - len(records)
        made = pa.array([_START_MS] * count, pa.int64())
        read_on = (_START_MS + self._turn * self._step_ms) // DAY_MS
        table = pa.table(
            {
                "src_partition": pa.array([0] * count, pa.int32()),
                "src_offset": pa.array(range(first, first + count), pa.int64()),
                "ingest_date": pa.array([read_on] * count, pa.int32()).cast(pa.date32()),
                "broker_id": pa.array([1] * count, pa.int32()),
                "boot_id": pa.array(["boot-1"] * count),
                "sequence": pa.array(range(first + 1, first + count + 1), pa.int64()),
                "made_ms": made,
                "record": pa.array(records, pa.binary()),
            },
            schema=bronze.SCHEMA,
        )
        file = self._data / f"part-{len(self._files):06}.parquet"
        pq.write_table(table, file, compression="zstd")
        self._files.append(file)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


_BY_DUCKDB = """
SELECT sum(messages), count(*) FROM (
    SELECT topic_id, partition, accepted_ms // 3600000 AS hour, sum(gained) AS messages FROM (
        SELECT topic_id, partition, accepted_ms,
            totals[1] - coalesce(lag(totals[1]) OVER log, 0) AS gained
        FROM read_parquet($files) WINDOW log AS (PARTITION BY topic_id, partition ORDER BY end_offset))
    GROUP BY ALL)
"""
_MESSAGES = """
SELECT sum(quantity) FROM read_parquet($files, hive_partitioning = false) WHERE meter = 'messages_in'
"""


def scale(folder: Path, rows: int = ROWS, tenants: int = TENANTS, days: int = DAYS) -> list[Measured]:
    """Seconds of the first fold of so many rows, and of the round after an hour more. DuckDB makes the same sums of
    readings that are decoded already, which favours it in the ratio.
    """
    datasets = folder / "datasets"
    began = time.monotonic()
    month = Month(datasets, rows, tenants, days)
    month.grow(rows)
    print(f"  made in {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    spark = start_session(SparkConfiguration(), folder / "spark")
    try:
        busy = processor_s()
        first = fold(spark, datasets, offsets=month.offsets, progress=_tell)
        busy = processor_s() - busy
        duck_s = _by_duckdb(datasets, first)
        month.grow(max(tenants, rows * _HOUR_MS // (days * DAY_MS)))
        hour_busy = processor_s()
        hour = fold(spark, datasets, offsets=month.offsets, progress=_tell)
        hour_busy = processor_s() - hour_busy
    finally:
        spark.stop()
    beside = {"processor_s": busy, "rows": rows, "duckdb_s": duck_s, "ratio": first.seconds / duck_s}
    return [
        Measured(name=f"spark_{rows // 1_000_000}m_rows_s", value=first.seconds, unit="s", beside=beside),
        Measured(
            name=f"spark_hour_of_{rows // 1_000_000}m_rows_s",
            value=hour.seconds,
            unit="s",
            beside={"processor_s": hour_busy},
        ),
    ]


def _by_duckdb(datasets: Path, done: Round) -> float:
    """Raises `AssertionError` when its sum is another."""
    files = [str(file) for file in (datasets / "reading").glob("run=*/*.parquet")]
    began = time.monotonic()
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        row = connection.execute(_BY_DUCKDB, {"files": files}).fetchone()
    took = time.monotonic() - began
    hours = datasets / "usage_hour" / f"run={done.runs['usage_hour'].run_id}"
    (found,) = duckdb.execute(_MESSAGES, {"files": f"{hours}/*.parquet"}).fetchall()[0]
    if row is None or int(row[0]) != int(found):
        raise AssertionError(f"Spark found {found} messages, DuckDB {row}")
    return took


def workers(folder: Path) -> list[Measured]:
    """Microseconds of processor time that a worker needs for a reading of a month of a hundred million, without Spark:
    from records to runs and staged files. The least of three.
    """
    month = Month(folder / "datasets", 100_000_000, TENANTS, DAYS)
    records = [(0, offset, record) for offset, record in enumerate(month.records(_TURNS))]
    readings = _TURNS * TENANTS
    decoding, folding = [], []
    for number in range(3):
        began = time.process_time()
        batches = [
            facts.select(READING.names)
            for facts in facts_of(records)
            if facts.num_rows and facts.column("kind")[0].as_py() == "reading"
        ]
        decoded = time.process_time()
        chunk = Chunk(folder / f"staged-{number}")
        chunk.add(batches)
        kinds = {facts.column("kind")[0].as_py() for facts in chunk.facts()}
        if "reading" in kinds or "run_hour" not in kinds:
            raise AssertionError(f"all readings in runs required, found {sorted(kinds)}")
        decoding.append((decoded - began) * 1e6 / readings)
        folding.append((time.process_time() - decoded) * 1e6 / readings)
    beside = {"decoding_us": min(decoding), "folding_us": min(folding), "readings": readings}
    value = min(map(sum, zip(decoding, folding, strict=True)))
    return [Measured(name="usage_worker_reading_us", value=value, unit="us", beside=beside)]


def _tell(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def _measured(folder: Path) -> list[Measured]:
    return scale(folder)


SCALE = Benchmark(
    figures=("spark_1m_rows_s", "spark_hour_of_1m_rows_s"), run=_measured, seconds=900, quick=False
)


WORKERS = Benchmark(figures=("usage_worker_reading_us",), run=workers, seconds=30, quick=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.usage_scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--tenants", type=int, default=TENANTS)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--folder", type=Path, default=Path("var"))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="bench-") as folder:
        for one in scale(Path(folder), chosen.rows, chosen.tenants, chosen.days):
            print(one.line())


if __name__ == "__main__":
    main()
