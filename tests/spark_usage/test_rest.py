"""A round that has nothing to do is found without Spark, and only then."""

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from daemon.data_set_store import FolderStore
from spark_usage import bronze, datasets
from spark_usage.inputs import inputs_of
from spark_usage.manifest import Catalog, run_id_of
from spark_usage.rest import at_rest
from spark_usage.rounds import Round

ENDS = {"0": 4, "1": 0, "2": 3}
HOLES = [[2, 1, 1]]
RECORDS = 6


def commit(folder: Path, number: int, ends: Mapping[str, int]) -> None:
    """As the stream's checkpoint says it."""
    checkpoint = bronze.BronzeFolders(folder).checkpoint
    for name, text in (("offsets", "v1\n{}\n" + json.dumps(ends)), ("commits", "v1\n{}")):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
        (checkpoint / name / str(number)).write_text(text)


def store_file(folder: Path, name: str, content: bytes) -> dict[str, Any]:
    file = bronze.BronzeFolders(folder).data / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return {"path": file.as_uri(), "size": len(content), "action": "add"}


def tell(folder: Path, entry: str, *named: dict[str, Any]) -> None:
    """As the sink's log names files."""
    log = bronze.BronzeFolders(folder).data / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    (log / entry).write_text("\n".join(["v1", *(json.dumps(one) for one in named)]))
    (log / f".{entry}.crc").write_bytes(b"crc")


def publish(folder: Path, ends: Mapping[str, int] = ENDS) -> None:
    """Runs of these ends, as a round leaves them."""
    store = FolderStore(folder)
    for name, inputs in inputs_of(ends, RECORDS, HOLES, "2026-11-28").items():
        run_id = run_id_of(name, inputs)
        pending = folder / name / ".pending-0-x"
        pending.mkdir(parents=True)
        manifest = {"run_id": run_id, "inputs": inputs, "rows": 2, "digest": f"digest of {name}"}
        store.publish(name, run_id, pending, json.dumps(manifest).encode())
        Catalog(folder).make_current(name, run_id)


def look(folder: Path, ends: Mapping[str, int] = ENDS) -> Round | None:
    return at_rest(folder, Catalog(folder), ends)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """After a round over `ENDS`."""
    first = store_file(tmp_path, "part-0 of €.parquet", b"rows")
    tell(tmp_path, "0", {**first, "size": 1})  # the entry with all before it says what counts
    tell(tmp_path, "9.compact", first)
    tell(tmp_path, "10", store_file(tmp_path, "part-1.parquet", b"more rows"))
    commit(tmp_path, 9, {"0": 1})
    commit(tmp_path, 10, ENDS)
    publish(tmp_path)
    return tmp_path


def test_a_topic_without_a_record_needs_no_round(tmp_path: Path) -> None:
    none = {"0": 0, "1": 0}
    done = look(tmp_path, none)
    assert done is not None
    assert (done.offsets, done.records, done.runs, done.recomputed) == (none, 0, {}, False)
    assert look(tmp_path, {"0": 0, "1": 1}) is None


def test_what_the_last_round_published_is_found_again(folder: Path) -> None:
    done = look(folder)
    assert done is not None and not done.recomputed
    assert (done.offsets, done.records, done.rejected, done.missing) == (ENDS, RECORDS, 2, "__usage-2@1")
    assert list(done.runs) == [one.name for one in datasets.ALL]
    assert done.runs["seal"].digest == "digest of seal"


def test_news_need_spark(folder: Path) -> None:
    assert look(folder, ENDS | {"1": 1}) is None
    assert look(folder, ENDS | {"3": 0}) is None, "another partition is an input of every run"
    commit(folder, 11, ENDS | {"1": 1})
    assert look(folder, ENDS | {"1": 1}) is None, "bronze has it, and no data set"


def test_an_empty_topic_beside_published_runs_needs_spark(folder: Path) -> None:
    assert look(folder, dict.fromkeys(ENDS, 0)) is None


def test_another_version_of_the_code_needs_spark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_usage.manifest.code_version", lambda: "another")
    assert look(folder) is None


@pytest.mark.parametrize("dataset", [one.name for one in datasets.ALL])
def test_a_data_set_that_is_not_there_needs_spark(folder: Path, dataset: str) -> None:
    (folder / dataset / "current.json").unlink()
    assert look(folder) is None


def test_records_without_a_log_of_bronze_need_spark(folder: Path) -> None:
    shutil.rmtree(bronze.BronzeFolders(folder).data)
    assert look(folder) is None


def test_a_file_of_bronze_that_the_sink_took_back_needs_spark(folder: Path) -> None:
    there = {**store_file(folder, "part-1.parquet", b"more rows"), "action": "delete"}
    tell(folder, "11", there)
    assert look(folder) is None


@pytest.mark.parametrize("name", ["part-0 of €.parquet", "part-1.parquet"])
def test_a_file_of_bronze_that_is_cut_or_gone_needs_spark(folder: Path, name: str) -> None:
    file = bronze.BronzeFolders(folder).data / name
    file.write_bytes(file.read_bytes()[:-1])
    assert look(folder) is None
    file.unlink()
    assert look(folder) is None


def test_a_record_is_of_the_day_of_its_append_and_never_of_a_day_to_come() -> None:
    rows = [
        {"src_partition": 0, "src_offset": at, "timestamp_ms": ms, "key": None, "value": b""}
        for at, ms in enumerate((-5, 3 * 86_400_000, 2**50))
    ]
    (batch,) = bronze._with_heads(iter([pa.RecordBatch.from_pylist(rows)]))
    dates = batch.column("ingest_date").to_pylist()
    assert dates[:2] == [date(1970, 1, 1), date(1970, 1, 4)]
    assert dates[2] <= datetime.now(UTC).date()
