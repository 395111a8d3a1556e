"""Compaction of bronze loses and doubles no record wherever it is killed; the next round knows its place after it."""

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_usage import bronze, compaction
from spark_usage.bronze import SCHEMA
from spark_usage.compaction import Compacted, compact
from spark_usage.configuration import BrokersConfiguration, Configuration
from spark_usage.manifest import Catalog, CheckFailed
from spark_usage.pipeline import Pipeline
from spark_usage.sink_log import FOLDER, Changed, Mark, SinkLog, read_log, replace
from tests.spark_usage.sink import DAY_MS, Sink, age_unnamed, day_of

TODAY = day_of(10)
Row = tuple[int, int, int]
"""Partition, offset, day."""


class Stream(Sink):
    """Made-up records of some partitions in it."""

    def __init__(self, data: Path, partitions: int = 3) -> None:
        super().__init__(data, checksums=True)
        self.rows: list[Row] = []
        self._offsets = [0] * partitions

    def batch(self, day: int, rows: int = 3, older: int = 0) -> None:
        """A file of this day, with so many rows of each partition; the first are of days before."""
        new = [
            (partition, at, day - (older if at == first else 0))
            for partition, first in enumerate(self._offsets)
            for at in range(first, first + rows)
        ]
        self._offsets = [first + rows for first in self._offsets]
        self.rows += new
        self.write(table_of(new), day)

    def grow(self, days: int, batches: int = 10, first: int = 0) -> None:
        for day in range(first, first + days):
            for _ in range(batches):
                self.batch(day)


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "src_partition": partition, "src_offset": offset, "ingest_date": day_of(day),
                "broker_id": partition, "boot_id": f"boot-{partition}", "sequence": offset, "made_ms": day * DAY_MS,
                "record": f"record {partition} {offset}".encode(),
            }
            for partition, offset, day in rows
        ],
        schema=SCHEMA,
    )  # fmt: skip


def rows_in(log: SinkLog) -> list[Row]:
    """What readers of the log find, in order."""
    found = []
    for entry in log.entries:
        for row in pq.read_table(entry.path, partitioning=None).to_pylist():
            assert row["record"] == f"record {row['src_partition']} {row['src_offset']}".encode()
            found.append((row["src_partition"], row["src_offset"], (row["ingest_date"] - day_of(0)).days))
    return sorted(found)


def turns(stream: Stream, read: Mark, **bounds: Any) -> list[Compacted]:
    """Until nothing is left to do."""
    done: list[Compacted] = []
    while not done or done[-1].merged:
        done.append(compact(stream.data, read, TODAY, **bounds))
        assert len(done) < 100
        assert rows_in(read_log(stream.data)) == sorted(stream.rows)
    return done


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path / bronze.NAME)


def test_files_of_a_finished_day_become_one_a_partition_in_the_order_of_offsets(stream: Stream) -> None:
    stream.grow(3)
    read = read_log(stream.data).end
    done = turns(stream, read, files_max=7)
    assert len(done) > 4, "a turn is bounded"
    assert all(one.merged <= 7 + 9 for one in done)
    log = read_log(stream.data)
    names = sorted((entry.part.day.day, entry.part.partition) for entry in log.settled if entry.part)
    assert names == [(day, partition) for day in (1, 2, 3) for partition in (0, 1, 2)]
    assert not log.fresh
    for entry in log.settled:
        part, offsets = entry.part, pq.read_table(entry.path)["src_offset"].to_pylist()
        assert part is not None
        assert offsets == list(range(part.first, part.end)) and len(offsets) == 30
    assert log.end == read, "what a round has read keeps its mark"


def test_a_round_finds_what_came_after_it_whatever_was_compacted(stream: Stream) -> None:
    stream.grow(2)
    read = read_log(stream.data).end
    stream.batch(2)
    stream.batch(3)
    turns(stream, read)
    since = read_log(stream.data).since(read)
    assert since is not None and [entry.day.day for entry in since] == [3, 4]
    assert read_log(stream.data).since(Mark(files=read.files, sha256="0" * 64)) is None, "another bronze"
    assert read_log(stream.data).since(Mark(files=5)) is None, "not to be told apart any more"


def test_what_no_round_has_read_and_the_present_day_stay_as_they_are(stream: Stream) -> None:
    stream.grow(1)
    read = read_log(stream.data).end
    stream.grow(2, first=1)
    stream.grow(1, first=10)
    turns(stream, read)
    log = read_log(stream.data)
    assert log.mark.files == 10 and len(log.fresh) == 30
    turns(stream, log.end)
    log = read_log(stream.data)
    assert log.mark.files == 30 and {entry.day for entry in log.fresh} == {TODAY}
    assert compact(stream.data, Mark(files=3, sha256="0" * 64), TODAY).merged == 0, "of another bronze"


def test_files_behind_one_of_the_present_day_wait_though_a_clock_was_set_back(stream: Stream) -> None:
    for day in (1, 1, 1, 10, 1, 1, 1, 1, 1, 1):
        stream.batch(day)
    turns(stream, read_log(stream.data).end)
    log = read_log(stream.data)
    assert log.mark.files == 3 and len(log.fresh) == 7


def test_records_go_to_the_file_of_their_own_day_and_large_files_stay(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.grow(1)
    for _ in range(9):
        stream.batch(3, older=2)
    stream.batch(3, rows=500)
    monkeypatch.setattr(compaction, "LARGE", 5_000)
    turns(stream, read_log(stream.data).end, files_max=10)
    log = read_log(stream.data)
    assert [entry.name for entry in log.settled if entry.part is None] == [
        "part-00000-00000019-c000.snappy.parquet"
    ]
    parts = [entry.part for entry in log.settled if entry.part]
    assert {part.day.day for part in parts} == {1, 2, 4}


def test_it_may_be_killed_at_each_of_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step that changes the disk, one after the other; what is read before and after is the same."""
    stream = Stream(tmp_path / bronze.NAME, partitions=2)
    stream.grow(1)
    read = read_log(stream.data).end
    pristine = stream.data.with_name("pristine")
    shutil.copytree(stream.data, pristine)
    killed_at = 0
    while True:
        killed_at += 1
        shutil.rmtree(stream.data)
        shutil.copytree(pristine, stream.data)
        left = [killed_at]
        with monkeypatch.context() as patch:
            for owner, name in ((Path, "replace"), (Path, "unlink"), (os, "fsync"), (os, "utime")):
                patch.setattr(owner, name, dying(getattr(owner, name), left))
            patch.setattr(pq, "write_table", dying(pq.write_table, left))
            try:
                compact(stream.data, read, TODAY)
                ended = True
            except Killed:
                ended = False
        assert rows_in(read_log(stream.data)) == sorted(stream.rows), killed_at
        assert read_log(stream.data).end == read
        age_unnamed(stream.data)
        turns(stream, read)
        assert read_log(stream.data).end == read
        names = {entry.name for entry in read_log(stream.data).entries}
        age_unnamed(stream.data)
        compact(stream.data, read, TODAY)
        assert {file.name for file in stream.data.glob("*.parquet")} == names, "nothing is left behind"
        if ended:
            break
    assert killed_at > 20


class Killed(Exception):
    pass


def dying(real: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def step(*given: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        return real(*given, **named)

    return step


def test_replaced_files_stay_an_hour_for_who_may_still_read_them(stream: Stream) -> None:
    stream.grow(1)
    before = read_log(stream.data)
    compact(stream.data, before.end, TODAY)
    assert rows_in(before) == sorted(stream.rows), "a round under way still reads what it found in the log"
    assert compact(stream.data, before.end, TODAY) == Compacted()
    age_unnamed(stream.data)
    assert compact(stream.data, before.end, TODAY).removed == 10
    assert not list(stream.data.glob(".part*.crc"))
    assert not list((stream.data / FOLDER).glob(".*.compact.crc")), "Spark would refuse the new entry"
    assert rows_in(read_log(stream.data)) == sorted(stream.rows)


def test_a_runner_that_lost_its_turn_changes_nothing(stream: Stream) -> None:
    stream.grow(1)
    before = read_log(stream.data)
    assert compact(stream.data, before.end, TODAY, allowed=lambda: False).merged == 0
    assert read_log(stream.data) == before


def test_a_log_that_another_runner_has_changed_stays_as_it_is(stream: Stream) -> None:
    stream.grow(1)
    before = read_log(stream.data)

    def overtaken() -> bool:
        stream.batch(1)
        return True

    with pytest.raises(Changed, match="another runner"):
        compact(stream.data, before.end, TODAY, allowed=overtaken)
    assert rows_in(read_log(stream.data)) == sorted(stream.rows)


def test_a_log_that_says_that_a_file_is_gone_is_not_compacted(stream: Stream) -> None:
    stream.grow(1)
    before = read_log(stream.data)
    gone = json.dumps(json.loads(before.entries[3].line) | {"action": "delete"}).encode()
    lines = [*(entry.line for entry in before.entries), gone]
    (stream.data / FOLDER / "9.compact").write_bytes(b"\n".join([b"v1", *lines]))
    log = read_log(stream.data)
    assert compact(stream.data, log.end, TODAY) == Compacted() and read_log(stream.data) == log


def test_a_merged_file_that_is_large_and_more_than_half_a_turn_is_not_merged_again(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.grow(1, batches=20)
    compact(stream.data, read_log(stream.data).end, TODAY, files_max=10)
    log = read_log(stream.data)
    assert len(log.settled) == 3 and len(log.fresh) == 10
    rows = compaction._rows_of(log.fresh)
    sizes = [entry.size for entry in log.settled]
    assert len(compaction._to_extend(log, rows, 4 * sum(sizes))) == 3
    assert len(compaction._to_extend(log, rows, 2 * max(sizes))) == 1
    monkeypatch.setattr(compaction, "LARGE", min(sizes))
    assert compaction._to_extend(log, rows, 4 * sum(sizes)) == []


def test_a_mark_tells_files_of_one_name_and_another_size_apart(stream: Stream) -> None:
    stream.grow(1, batches=1)
    (entry,) = read_log(stream.data).entries
    assert Mark().after([entry]) != Mark().after([dataclasses.replace(entry, size=entry.size + 1)])


def test_a_merge_that_would_change_records_is_not_published(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.grow(1)
    before = read_log(stream.data)
    twice = json.loads(before.entries[0].line)
    lines = [*(entry.line for entry in before.entries), json.dumps(twice).encode()]
    (stream.data / FOLDER / "9.compact").write_bytes(b"\n".join([b"v1", *lines]))
    log = read_log(stream.data)
    with pytest.raises(CheckFailed, match="records of the small ones does not hold"):
        compact(stream.data, log.end, TODAY)
    assert read_log(stream.data) == log


def test_there_is_nothing_to_do_before_the_first_entry_with_all_before_it(stream: Stream) -> None:
    stream.grow(1, batches=9)
    assert compact(stream.data, read_log(stream.data).end, TODAY) == Compacted()
    with pytest.raises(ValueError, match="no entry with all before it yet"):
        replace(stream.data, read_log(stream.data), [])


def test_random_streams_and_turns_keep_every_record(tmp_path: Path) -> None:
    random = Random(20261128)
    for number in range(3):
        stream, day, read = Stream(tmp_path / str(number) / bronze.NAME, partitions=2), 0, Mark()
        for _ in range(40):
            day = min(10, day + (random.random() < 0.2))
            stream.batch(day, rows=random.randint(1, 4), older=random.choice((0, 0, 1, 3)))
            if random.random() < 0.3:
                since = read_log(stream.data).since(read)
                assert since is not None
                read = read_log(stream.data).end
            if random.random() < 0.4:
                compact(
                    stream.data,
                    read,
                    TODAY,
                    files_max=random.randint(2, 20),
                    bytes_max=random.choice((1, 1 << 20)),
                )
                assert rows_in(read_log(stream.data)) == sorted(stream.rows)
        assert read_log(stream.data).mark.files > 10


def test_the_pipeline_tidies_up_what_the_last_whole_round_has_read(stream: Stream) -> None:
    """And looks again only when there may be something to do."""
    folder = stream.data.parent
    settings = Configuration(
        file=folder / "config.json",
        brokers=BrokersConfiguration(bootstrap=("127.0.0.1:9",)),
        usage_key_file=folder / "key",
        datasets=folder,
    )
    pipeline = Pipeline(settings)
    assert pipeline.tidy(lambda: True) is None, "nothing was folded yet"
    stream.grow(2)
    mark = read_log(stream.data).end
    inputs = {"bronze": {"files": mark.files, "sha256": mark.sha256}, "read_until": "1970-01-02"}
    pending = folder / "boot" / ".pending-0-x"
    pending.mkdir(parents=True)
    Catalog(folder).store.publish("boot", "r", pending, json.dumps({"inputs": inputs, "files": []}).encode())
    Catalog(folder).make_current("boot", "r")
    refused = pipeline.tidy(lambda: False)
    assert refused is not None and refused.compacted.merged == 0 and refused.files == 20
    stream.grow(1, first=2)
    done = pipeline.tidy(lambda: True)
    assert done is not None
    assert (done.compacted.merged, done.compacted.into, done.compacted.waiting) == (20, 6, 0)
    assert (done.files, done.oldest) == (1 + 6 + 10, "1970-01-01")
    again = pipeline.tidy(lambda: True)
    assert again is not None and again.compacted == Compacted()
    assert pipeline.tidy(lambda: True) is None
    assert rows_in(read_log(stream.data)) == sorted(stream.rows)


@pytest.mark.slow
def test_spark_goes_on_with_a_log_that_was_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """A real stream writes on, makes its own entry with all before it from ours, and reads all of it."""
    source, data, checkpoint = (
        tmp_path / "source",
        tmp_path / "datasets" / bronze.NAME,
        tmp_path / "checkpoint",
    )
    source.mkdir()
    rows: list[Row] = []

    def batch(number: int) -> None:
        table = [(partition, number, 1) for partition in (0, 1)]
        rows.extend(table)
        pq.write_table(table_of(table), source / f"{number}.parquet")
        records = spark.readStream.schema(spark.read.parquet(str(source)).schema).parquet(str(source))
        writing = records.coalesce(1).writeStream.format("parquet").option("path", str(data))
        writing.option("checkpointLocation", str(checkpoint)).trigger(
            availableNow=True
        ).start().awaitTermination()

    def places() -> list[tuple[int, int]]:
        found = bronze.read(spark, data.parent).select("src_partition", "src_offset").collect()
        return sorted((row["src_partition"], row["src_offset"]) for row in found)

    for number in range(11):
        batch(number)
    read = read_log(data).end
    done = compact(data, read, date.max)
    assert (done.merged, done.into, done.waiting) == (10, 2, 0)
    assert places() == sorted((partition, number) for partition, number, _ in rows)
    age_unnamed(data)
    assert compact(data, read, date.max).removed == 10
    for number in range(11, 21):
        batch(number)
    assert places() == sorted((partition, number) for partition, number, _ in rows)
    log = read_log(data)
    assert log.newest == "20" and log.mark.files == 10 and len(log.fresh) == 11
    since = log.since(read)
    assert since is not None and len(since) == 10
    assert bronze.is_whole(data.parent, len(rows))
    compact(data, log.end, date.max)
    assert places() == sorted((partition, number) for partition, number, _ in rows)
    assert len(read_log(data).settled) == 2
