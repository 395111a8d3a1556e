"""Bronze's stream goes on after any of its files was cut short: records that the log names are those below its offsets.

Without Spark: the files are as Spark writes them. `test_bronze` has the same with Spark on a full disk.
"""

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_usage import bronze
from spark_usage.sink_log import FOLDER, entries_of, read_log
from spark_usage.stream_repair import SET_ASIDE, Irreparable, Repaired, repair
from tests.spark_usage.sink import Sink

BATCHES, ROWS = 12, 4
ENDS = {"0": BATCHES * ROWS}


def rows_of(batch: int) -> pa.Table:
    rows = [
        dict.fromkeys(bronze.SCHEMA.names)
        | {"src_partition": 0, "src_offset": batch * ROWS + at, "record": b"r"}
        for at in range(ROWS)
    ]
    return pa.Table.from_pylist(rows, schema=bronze.SCHEMA)


def with_checksum(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    sums = (zlib.crc32(content[at : at + 512]).to_bytes(4, "big") for at in range(0, len(content), 512))
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"".join(sums))


def as_spark_left_it(datasets: Path, committed: int = BATCHES, begun: int = BATCHES) -> None:
    """So many batches in the log, and a checkpoint that has begun and committed so many."""
    folders = bronze.BronzeFolders(datasets)
    sink = Sink(folders.data)
    for batch in range(BATCHES):
        sink.write(rows_of(batch), 20_000)
    for entry in folders.data.joinpath(FOLDER).iterdir():
        with_checksum(entry, entry.read_bytes())
    with_checksum(folders.checkpoint / "metadata", b'{"id":"0d8a9a2e-b0a5-4d4a-a6ae-3ff1a25ad7b9"}')
    for batch in range(begun - 3, begun):
        ends = json.dumps({"0": (batch + 1) * ROWS}).encode()
        head = b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n'
        with_checksum(folders.checkpoint / "offsets" / str(batch), head + ends)
    for batch in range(committed - 3, committed):
        with_checksum(folders.checkpoint / "commits" / str(batch), b'v1\n{"nextBatchWatermarkMs":0}')


def records_named(datasets: Path) -> list[int]:
    entries = read_log(bronze.BronzeFolders(datasets).data).entries
    return [
        at
        for entry in entries
        for at in pq.read_table(entry.path, columns=["src_offset"], partitioning=None)[
            "src_offset"
        ].to_pylist()
    ]


def goes_on_to_all_records(datasets: Path, what: str) -> None:
    """Whether Spark's stream reads each record once that is not in bronze: it repeats the batch that it has begun last,
    and the sink skips that when its log has it.
    """
    folders = bronze.BronzeFolders(datasets)
    last = max((number for number in entries_of(folders.data)), default=-1)
    begun = max((int(file.name) for file in folders.checkpoint.glob("offsets/[0-9]*")), default=-1)
    assert begun in (last, last + 1), what
    begins = 0
    if last >= 0:
        lines = (folders.checkpoint / "offsets" / str(last)).read_text().splitlines()
        begins = json.loads(lines[2])["0"]
    assert records_named(datasets) == list(range(begins)), what


def cut_to_nothing(file: Path) -> None:
    file.write_bytes(b"")


def cut_to_half(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def cut_after_a_line(file: Path) -> None:
    """What is left looks whole, but for the checksum beside it."""
    content = file.read_bytes()
    file.write_bytes(content.rpartition(b"\n")[0] or content[:-1])


@pytest.mark.parametrize("damage", [cut_to_nothing, cut_to_half, cut_after_a_line, Path.unlink])
def test_each_file_cut_short_is_mended_and_no_record_is_lost_or_doubled(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    datasets, whole = tmp_path / "datasets", tmp_path / "whole"
    as_spark_left_it(datasets)
    shutil.copytree(datasets, whole)
    for file in sorted(file.relative_to(whole) for file in whole.rglob("*") if file.is_file()):
        shutil.rmtree(datasets)
        shutil.copytree(whole, datasets)
        damage(datasets / file)
        repair(datasets, ENDS)
        goes_on_to_all_records(datasets, str(file))
        assert repair(datasets, ENDS) == Repaired(), f"{file}: mended twice"


@pytest.mark.parametrize(("committed", "begun"), [(12, 12), (11, 12), (12, 13)])
def test_a_whole_checkpoint_of_a_killed_driver_is_left_as_it_is(
    tmp_path: Path, committed: int, begun: int
) -> None:
    as_spark_left_it(tmp_path, committed=committed, begun=begun)
    assert repair(tmp_path, ENDS) == Repaired()
    assert not (tmp_path / SET_ASIDE).exists()


def test_a_first_batch_that_found_no_room_begins_from_nothing(tmp_path: Path) -> None:
    checkpoint = bronze.BronzeFolders(tmp_path).checkpoint
    for name in ("metadata", "offsets/0", "commits/0", "sources/0/0"):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_bytes(b"")
    assert bronze.committed_offsets(tmp_path) == {}
    assert repair(tmp_path, ENDS).checkpoint
    assert not checkpoint.exists() and (tmp_path / SET_ASIDE).is_dir()


def test_a_checkpoint_that_is_gone_is_written_again_instead_of_skipping_new_records(tmp_path: Path) -> None:
    as_spark_left_it(tmp_path)
    shutil.rmtree(bronze.BronzeFolders(tmp_path).checkpoint)
    repair(tmp_path, ENDS)
    assert bronze.committed_offsets(tmp_path) == ENDS


def test_an_empty_entry_of_the_log_is_no_bronze_at_rest(tmp_path: Path) -> None:
    as_spark_left_it(tmp_path)
    assert bronze.is_whole(tmp_path, BATCHES * ROWS)
    cut_to_nothing(bronze.BronzeFolders(tmp_path).data / FOLDER / "11")
    assert not bronze.is_whole(tmp_path, BATCHES * ROWS)


def test_records_that_the_topic_has_no_longer_are_not_given_up(tmp_path: Path) -> None:
    as_spark_left_it(tmp_path)
    entry = bronze.BronzeFolders(tmp_path).data / FOLDER / "11"
    cut_to_nothing(entry)
    with pytest.raises(Irreparable, match="__usage ends before"):
        repair(tmp_path, {"0": 3})
    assert entry.exists() and not (tmp_path / SET_ASIDE).exists()


def test_expired_records_are_not_read_again(tmp_path: Path) -> None:
    as_spark_left_it(tmp_path)
    (tmp_path / "ground.json").write_text("{}")
    cut_to_nothing(bronze.BronzeFolders(tmp_path).data / FOLDER / "9.compact")
    with pytest.raises(Irreparable, match="restore the data sets from a backup"):
        repair(tmp_path, ENDS)
