"""What a round may go on from, and which of its parts it must fold again: each decision by itself."""

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from data_plane.contract.usage_pb2 import PERIODIC
from spark_usage import datasets, evidence, manifest
from spark_usage.datasets import DataSet
from spark_usage.decode import FACTS
from spark_usage.frames import nothing
from spark_usage.manifest import Catalog, code_version, run_id_of
from spark_usage.orderly import NewReadings, without_runs
from spark_usage.records_read import GivenSource
from spark_usage.rounds import _Fold
from spark_usage.states import Base, Irregular, find_base, go_on
from tests.spark_usage.records import DAY, MINUTE, bronze_frame

ROOT = Path(__file__).parents[2]
ENDS = {"0": 7}
MINUTE_ROW = {
    "tenant": "tn_a", "topic_id": "01", "topic": "orders", "minute": 1_440, "meter": "bytes_in", "quantity": 5,
}  # fmt: skip


def frame(spark: SparkSession, of: DataSet, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Rows of a data set; what they leave out is null."""
    whole = [dict.fromkeys(of.names) | dict(row) for row in rows]
    schema = to_arrow_schema(of.struct, timezone="UTC")
    return spark.createDataFrame(pa.Table.from_pylist(whole, schema=schema)).to(of.struct)


# -- the round before -----------------------------------------------------------------------------------------


def round_before(folder: Path, **changes: Any) -> Catalog:
    """A whole round over `ENDS`: each data set has a run with a file of its own and one of an earlier run."""
    runs = {one.name: f"{number:032}" for number, one in enumerate(datasets.EVERY)}
    for name, run in runs.items():
        for of, file in ((run, "a-part.parquet"), ("e" * 32, "b-part.parquet")):
            (folder / name / f"run={of}").mkdir(parents=True)
            (folder / name / f"run={of}" / file).write_bytes(b"rows")
        files = [{"name": "a-part.parquet"}, {"name": "b-part.parquet", "run": "e" * 32}]
        named = {other: of for other, of in runs.items() if other != "boot"} if name == "boot" else {}
        told = {
            "run_id": run, "code_version": code_version(), "files": files,
            "inputs": {"offsets": ENDS, "runs": named}, **changes,
        }  # fmt: skip
        (folder / name / f"run={run}" / "manifest.json").write_text(json.dumps(told))
        (folder / name / "current.json").write_text(json.dumps({"run_id": run}))
    return Catalog(folder)


def test_a_round_goes_on_from_a_whole_one_of_the_same_code_over_a_part_of_the_same_records(
    tmp_path: Path,
) -> None:
    assert find_base(Catalog(tmp_path / "none"), ENDS) is None
    found = find_base(round_before(tmp_path / "whole"), {"0": 9, "1": 1})
    assert (
        found is not None
        and found.offsets == ENDS
        and set(found.manifests) == {one.name for one in datasets.EVERY}
    )
    assert find_base(Catalog(tmp_path / "whole"), {"0": 6}) is None, "records are gone"
    assert find_base(round_before(tmp_path / "older", code_version="another"), ENDS) is None


@pytest.mark.parametrize("gone", ["manifest.json", "a-part.parquet", "b-part.parquet"])
def test_a_round_of_which_anything_is_gone_is_none_to_go_on_from(gone: str, tmp_path: Path) -> None:
    catalog = round_before(tmp_path)
    (file,) = (tmp_path / "reading").glob(f"run=*/{gone}")
    of_all = catalog.current("reading")
    assert of_all is not None and catalog.is_whole("reading", of_all)
    file.unlink()
    assert find_base(catalog, ENDS) is None
    if gone != "manifest.json":
        assert not catalog.is_whole("reading", of_all)


@pytest.mark.slow
def test_a_round_is_known_while_all_of_its_files_are_there(spark: SparkSession, tmp_path: Path) -> None:
    rows = GivenSource(bronze_frame(spark, []))
    work = _Fold(spark, Catalog(tmp_path), rows, {}, lambda line: None, None)
    for of in datasets.ALL:
        run = run_id_of(of.name, work._inputs_of[of.name])
        folder = tmp_path / of.name / f"run={run}"
        folder.mkdir(parents=True)
        (folder / "part.parquet").write_bytes(b"rows")
        told = {"run_id": run, "rows": 0, "digest": "", "files": [{"name": "part.parquet"}]}
        (folder / "manifest.json").write_text(json.dumps(told))
    known = work.known()
    assert known is not None and set(known) == {of.name for of in datasets.ALL}
    next((tmp_path / "chain").glob("run=*/part.parquet")).unlink()
    assert work.known() is None


# -- the code -------------------------------------------------------------------------------------------------


def imported(module: Path) -> set[str]:
    """The project's files that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found |= {f"{name.replace('.', '/')}.py" for name in names}
    return {name for name in found if (ROOT / name).is_file()}


NO_ROW_DEPENDS_ON = {
    "daemon/data_set_store.py",  # where rows rest
    "penstock/contract/errors.py",  # how a refusal is shown
    "penstock/rules/addresses.py",  # how brokers are written
    "penstock/rules/timestamps.py",  # days in ms
    "daemon/settings.py",
    "daemon/server_tls.py",
    "daemon/data_set_stores.py",
}


def test_the_codes_version_covers_every_module_that_decides_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    look = {"spark_usage/rounds.py"}
    while look:
        seen |= look
        look = {
            name
            for file in look
            for name in imported(ROOT / file)
            if name.startswith("spark_usage/") and name not in seen
        }
    elsewhere = {name for file in seen for name in imported(ROOT / file) if "spark_usage/" not in name}
    assert elsewhere - NO_ROW_DEPENDS_ON == set(manifest._DECIDES_TOO)
    # Not the one that is kept: whether another test has asked for it is a matter of their order.
    version = code_version.__wrapped__()
    monkeypatch.setattr(manifest, "_DECIDES_TOO", manifest._DECIDES_TOO[:-1])
    assert code_version.__wrapped__() != version, "they are in it"


# -- parts of a round -----------------------------------------------------------------------------------------


def test_holes_that_touch_are_one_however_rounds_cut_them() -> None:
    assert evidence.joined([(1, 9, 1), (0, 5, 2), (0, 7, 3), (1, 5, 2), (0, 10, 1), (0, 12, 1)]) == [
        (0, 5, 6), (0, 12, 1), (1, 5, 2), (1, 9, 1),
    ]  # fmt: skip
    assert evidence.joined([(0, 0, 5), (1, 5, 2)]) == [(0, 0, 5), (1, 5, 2)], "of another partition"
    assert evidence.joined([]) == []


def log(topic_id: str, **values: Any) -> dict[str, Any]:
    return {
        "topic_id": topic_id, "partition": 0, "log_generation": 0, "end_offset": 0, "tenant": "tn_a",
        "topic": "orders", "accepted_ms": -1, "totals": [0] * 6, "principal_rows": [], "rough": False, **values,
    }  # fmt: skip


@pytest.mark.slow
def test_the_first_usage_of_a_log_is_folded_with_all_of_its_readings(spark: SparkSession) -> None:
    """Its beginning decides whether it belongs to cuts that ended before."""
    used = {"end_offset": 5, "accepted_ms": 2 * DAY, "totals": [5, 500, 0, 0, 0, 0]}
    before = [log("01"), log("02", **used, began_ms=DAY), log("03", **used, began_ms=3 * DAY), log("04")]
    more = {"end_offset": 9, "accepted_ms": 2 * DAY + MINUTE, "totals": [9, 900, 0, 0, 0, 0]}
    places = {"src_partition": 0, "row": 0, "reading_kind": PERIODIC, "cut_id": "", "last": False}
    new = [
        {**log(topic_id, **values), **places, "src_offset": at}
        for at, (topic_id, values) in enumerate(
            (("01", more), ("02", more), ("03", more), ("04", {}), ("05", more))
        )
    ]
    for row in new:
        del row["rough"]
    found = go_on(frame(spark, datasets.READING, new), frame(spark, datasets.LOG, before)).collect()
    assert {row["topic_id"]: (row["known"], row["goes_on"]) for row in found} == {
        "01": (True, False), "02": (True, True), "03": (True, False), "04": (True, True), "05": (False, False),
    }  # fmt: skip


def going_on(spark: SparkSession, folder: Path, of: DataSet, rows: Sequence[Mapping[str, Any]]) -> _Fold:
    """A round after one that left these rows."""
    catalog = Catalog(folder)
    inputs = {"offsets": {}, "records": 0, "holes": [], "read_until": "2100-01-01", "runs": {}}
    catalog.write(of, frame(spark, of, rows), inputs).publish([])
    current = catalog.current(of.name)
    assert current is not None
    base = Base(manifests={of.name: current}, inputs=inputs)
    return _Fold(spark, catalog, GivenSource(bronze_frame(spark, [])), {}, lambda line: None, base)


def no_runs(spark: SparkSession, folder: Path) -> NewReadings:
    return without_runs(nothing(spark, from_arrow_schema(FACTS)), folder)


@pytest.mark.slow
def test_another_seal_of_a_segment_is_noticed_on_whatever_day_it_says_to_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    segment = {"tenant": "tn_a", "topic_id": "01", "partition": 0, "log_generation": 0, "base_offset": 0}
    source = {"end_offset": 9, "src_partition": 0, "src_offset": 0}

    def sealed(day: int, other: int = 0, **values: Any) -> dict[str, Any]:
        seal = bytes(70) + (day * DAY).to_bytes(8, "big") + bytes([other])
        return {**segment, **source, "seal": seal, **values}

    work = going_on(spark, tmp_path, datasets.SEAL, [sealed(1)])
    none = frame(spark, datasets.SEAL, [])
    next_one = sealed(2, base_offset=9)
    kept, _, carried = work._seals(frame(spark, datasets.SEAL, [sealed(1, src_offset=5), next_one]), none)
    assert sorted((row["base_offset"], row["src_offset"]) for row in kept.collect()) == [(0, 0), (9, 0)]
    assert not carried
    for another in (sealed(2), sealed(1, other=1)):
        with pytest.raises(Irregular, match="another seal"):
            work._seals(frame(spark, datasets.SEAL, [another]), none)


@pytest.mark.slow
def test_minutes_that_a_late_log_took_back_whole_are_folded_again_and_the_first_ones_are_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    of = datasets.USAGE_MINUTE
    empty = going_on(spark, tmp_path / "empty", of, [])
    empty._inputs_of = {of.name: {"offsets": {"0": 1}}}
    empty._write_minutes(frame(spark, of, [MINUTE_ROW]), no_runs(spark, tmp_path), late=True)
    assert empty._runs[of.name].rows == 1
    taken_back = frame(spark, of, [{**MINUTE_ROW, "quantity": -5}])
    with pytest.raises(Irregular, match="the newest usage is gone"):
        going_on(spark, tmp_path / "one", of, [MINUTE_ROW])._write_minutes(
            taken_back, no_runs(spark, tmp_path), late=True
        )


@pytest.mark.slow
def test_a_time_that_no_calendar_has_is_in_the_windows_at_its_ends(spark: SparkSession) -> None:
    times = {-DAY * 9: "1969-12-31", 0: "1970-01-01", 253_402_300_799_999: "9999-12-31", 2**62: "9999-12-31"}
    (found,) = spark.range(1).selectExpr(*map(datasets._day_of_ms, map(str, times))).collect()
    assert list(found) == list(times.values())


@pytest.mark.slow
def test_minutes_of_a_broker_whose_clock_is_ahead_do_not_push_out_todays(
    spark: SparkSession, tmp_path: Path
) -> None:
    of = datasets.USAGE_MINUTE
    for read_until, rows in (("1970-01-02", 2), ("1970-01-05", 1)):
        work = going_on(spark, tmp_path / read_until, of, [MINUTE_ROW])
        work._read_until = read_until
        work._inputs_of = {of.name: {"offsets": {"0": 1}}}
        ahead = frame(spark, of, [{**MINUTE_ROW, "minute": 40 * 1_440}])
        work._write_minutes(ahead, no_runs(spark, tmp_path), late=False)
        assert work._runs[of.name].rows == rows, read_until
