"""Runs are published whole or not at all, and name what they are made of."""

import hashlib
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from daemon.data_set_store import FolderStore
from spark_usage import datasets
from spark_usage.canonical import canonical_lines, repeated_key, text_bytes
from spark_usage.manifest import Catalog, Check, CheckFailed, code_version, run_id_of
from tests.spark_usage.conftest import FoldedHours, Pipeline

pytestmark = [pytest.mark.slow]

INPUTS = {"offsets": {"0": 3}, "records": 3, "holes": [], "runs": {}}
HOLDS = Check(name="it holds", numbers={"one": 1}, holds=True)
FAILS = Check(name="sums are equal", numbers={"wanted": 3, "found": 4}, holds=False)


def write(spark: SparkSession, catalog: Catalog, valid: int, check: Check = HOLDS) -> str:
    moment = datetime(2026, 11, 20, 23, 5, tzinfo=UTC)
    rows = spark.createDataFrame(
        [("tn_b", "fetch", moment, 1, 0), ("tn_a", "fetch", moment, valid, 0)], datasets.SLA_5M.struct
    )
    return catalog.write(datasets.SLA_5M, rows, INPUTS).publish([check]).digest


def test_manifest_tells_the_run_its_files_and_a_digest_that_others_can_compute(
    spark: SparkSession, tmp_path: Path
) -> None:
    catalog = Catalog(tmp_path)
    digest = write(spark, catalog, 5)
    manifest = catalog.current("sla_5m")
    assert manifest is not None
    folder = FolderStore(tmp_path).run_folder("sla_5m", manifest["run_id"])
    canonical = json.dumps([code_version(), "sla_5m", INPUTS], sort_keys=True, separators=(",", ":"))
    assert manifest["run_id"] == hashlib.sha256(canonical.encode()).hexdigest()[:32]
    assert manifest["rows"] == 2 and manifest["format"] == 2 and manifest["inputs"] == INPUTS
    assert [column["type"] for column in manifest["schema"]] == [
        "string",
        "string",
        "timestamp",
        "bigint",
        "bigint",
    ]
    for file in manifest["files"]:
        content = (folder / file["name"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
    lines = (
        b'{"tenant":"tn_a","operation":"fetch","window":"2026-11-20T23:05:00Z","valid":"5","bad":"0"}\n'
        b'{"tenant":"tn_b","operation":"fetch","window":"2026-11-20T23:05:00Z","valid":"1","bad":"0"}\n'
    )
    of_window = hashlib.sha256(lines).hexdigest()
    assert manifest["windows"] == [{"window": "2026-11-20", "rows": 2, "digest": of_window}]
    of_all = hashlib.sha256(f"2026-11-20 2 {of_window}\n".encode()).hexdigest()
    assert manifest["digest"] == digest == of_all


def test_a_check_that_does_not_hold_publishes_nothing_and_tells_its_numbers(
    spark: SparkSession, tmp_path: Path
) -> None:
    catalog = Catalog(tmp_path)
    with pytest.raises(CheckFailed, match="sla_5m: sums are equal does not hold: wanted 3, found 4"):
        write(spark, catalog, 5, FAILS)
    assert catalog.current("sla_5m") is None
    assert not list((tmp_path / "sla_5m").iterdir())


def test_other_rows_from_the_same_inputs_are_a_fault(spark: SparkSession, tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    first = write(spark, catalog, 5)
    assert write(spark, catalog, 5) == first
    with pytest.raises(CheckFailed, match="the same inputs gave other rows"):
        write(spark, catalog, 6)
    manifest = catalog.current("sla_5m")
    assert manifest is not None and manifest["digest"] == first


def test_two_rows_of_one_key_are_a_fault(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, 5, "a"), (1, 5, "b")], datasets.CHAIN.struct)
    with pytest.raises(CheckFailed, match=r"chain: two rows have the key \[1, 5\]"):
        Catalog(tmp_path).write(datasets.CHAIN, rows, INPUTS)


def lines(dataset: datasets.DataSet, *rows: tuple[Any, ...]) -> bytes:
    schema = to_arrow_schema(dataset.struct, timezone="UTC")
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return bytes(text_bytes(canonical_lines(dataset, pa.RecordBatch.from_arrays(columns, schema=schema))))


@pytest.mark.usefixtures("spark")
def test_canonical_rows_are_json_of_whatever_the_values_are() -> None:
    """Line by line as Python's own JSON writes them."""
    names = ("tn", 'a"b\\c', "\n\t\x1f\x7f\u2028", "Zürich 😀", "", "tn")
    quantities = (0, -1, 10**37, -(10**37), 5, 5)
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    rows = [
        (name, "aa", "t", 3, None if name == "" else -(2**63), noon, 0, "", "bytes_in", Decimal(quantity))
        for name, quantity in zip(names, quantities, strict=True)
    ]
    wanted = [
        {
            "tenant": name, "topic_id": "aa", "topic": "t", "partition": 3,
            "log_generation": None if generation is None else str(generation), "hour": "2026-11-20T12:00:00Z",
            "principal": "0", "group": "", "meter": "bytes_in", "quantity": str(quantity),
        }
        for name, _, _, _, generation, *_, quantity in rows
    ]  # fmt: skip
    compact = [json.dumps(one, separators=(",", ":"), ensure_ascii=False) + "\n" for one in wanted]
    assert lines(datasets.USAGE_HOUR, *rows) == "".join(compact).encode()
    assert lines(datasets.WAIVED, (1, "b", None, 2, True)) == (
        b'{"broker_id":1,"boot_id":"b","first_missing":null,"missing":"2","open":true}\n'
    )
    assert lines(datasets.REJECTED, (1, 2, -1, "x", b"\x00\xff")).endswith(
        b'"row":-1,"reason":"x","record":"AP8="}\n'
    )


@pytest.mark.usefixtures("spark")
def test_a_key_is_repeated_only_where_all_of_it_is() -> None:
    schema = to_arrow_schema(datasets.CHAIN.struct, timezone="UTC")
    keys = [(1, 5), (1, 6), (2, 6), (2, 7)]
    for twice in (None, 0, 3):
        some = keys if twice is None else sorted([*keys, keys[twice]])
        rows = [{"src_partition": a, "src_offset": b, "sha256": str(at)} for at, (a, b) in enumerate(some)]
        found = repeated_key(datasets.CHAIN, pa.RecordBatch.from_pylist(rows, schema))
        assert found == (None if twice is None else [*keys[twice]])


@pytest.mark.usefixtures("spark")
def test_canonical_rows_hold_each_type_as_promised() -> None:
    row = ("cut_1", "tn", "aa", "t", 3, 2**40, date(2026, 11, 20), "bytes_in", Decimal(10) ** 37, -1, 0)
    assert lines(datasets.CUT_USAGE, row) == (
        b'{"cut_id":"cut_1","tenant":"tn","topic_id":"aa","topic":"t","partition":3,'
        b'"log_generation":"1099511627776","day":"2026-11-20","meter":"bytes_in",'
        b'"quantity":"10000000000000000000000000000000000000","first_offset":"-1","end_offset":"0"}\n'
    )


def test_old_runs_go_and_the_current_one_stays(spark: SparkSession, tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    rows = spark.createDataFrame([(1, 5, "a")], datasets.CHAIN.struct)
    runs = [
        catalog.write(datasets.CHAIN, rows, {**INPUTS, "records": number}).publish([]).run_id
        for number in range(4)
    ]
    (tmp_path / "chain" / ".pending-of-a-killed-round").mkdir()
    catalog.make_current("chain", runs[0])
    catalog.forget_old_runs("chain", kept=2)
    left = {entry.name for entry in (tmp_path / "chain").iterdir()}
    assert left == {"current.json", *(f"run={run}" for run in (runs[0], runs[2], runs[3]))}


def test_a_run_is_known_by_code_name_and_inputs() -> None:
    assert run_id_of("chain", INPUTS) == run_id_of("chain", dict(reversed(INPUTS.items())))
    assert (
        len(
            {
                run_id_of("chain", INPUTS),
                run_id_of("seal", INPUTS),
                run_id_of("chain", {**INPUTS, "records": 4}),
            }
        )
        == 3
    )


def test_nothing_read_yet_gives_empty_data_sets(pipeline: Pipeline) -> None:
    done = pipeline.fold([])
    assert {name: run.rows for name, run in done.runs.items()} == dict.fromkeys(done.runs, 0)


def test_days_name_the_run_they_read(folded_hours: FoldedHours) -> None:
    runs = folded_hours.done.runs
    for name in ("usage_day", "principal_day"):
        manifest = folded_hours.pipeline.catalog.current(name)
        assert manifest is not None
        assert manifest["inputs"]["runs"] == {"usage_hour": runs["usage_hour"].run_id}
