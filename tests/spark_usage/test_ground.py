"""Which ground a fold begins from, what expires next, and by which clock: without Spark."""

import json
import time
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from daemon.data_set_store import FolderStore
from penstock.contract.errors import ConfigurationError
from spark_usage import bronze, compaction, configuration, datasets, expiry, pipeline, sink_log
from spark_usage.compaction import compact, rewrite
from spark_usage.configuration import BrokersConfiguration, Configuration
from spark_usage.expiry import Expired, due, expire
from spark_usage.manifest import EXPIRED, Catalog
from spark_usage.pipeline import Pipeline
from spark_usage.rounds import Round, forget_old_runs
from spark_usage.sink_log import Changed, read_log
from spark_usage.states import Unrepeatable, find_ground
from tests.spark_usage.sink import DAY_MS, day_of
from tests.spark_usage.test_compaction import Stream, rows_in


def grounded(catalog: Catalog, offsets: dict[str, int], run: str) -> dict[str, str]:
    """Runs of no rows that cover so much of `__usage`."""
    for dataset in datasets.EVERY:
        pending = catalog.folder / dataset.name / ".pending-0-x"
        pending.mkdir(parents=True)
        schema = [{"name": name, "type": kind} for name, kind in dataset.columns]
        told = {"run_id": run, "files": [], "schema": schema, "inputs": {"offsets": offsets}}
        published = catalog.store.publish(dataset.name, run, pending, json.dumps(told).encode())
        catalog.published(dataset.name, run, published.folder)
    return {dataset.name: run for dataset in datasets.EVERY}


def pinned(folder: Path, offsets: dict[str, int], expired: int) -> Catalog:
    catalog = Catalog(folder)
    catalog.pin(grounded(catalog, offsets, "r") | {EXPIRED: str(expired)})
    return catalog


def test_a_ground_with_other_columns_is_refused_by_name(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    assert find_ground(catalog, 0) is None
    pending = tmp_path / "rejected" / ".pending-0-x"
    pending.mkdir(parents=True)
    manifest = b'{"files": [], "schema": [{"name": "old", "type": "string"}], "run_id": "r"}'
    catalog.store.publish("rejected", "r", pending, manifest)
    catalog.pin({"rejected": "r"})
    with pytest.raises(
        Unrepeatable, match="rejected: the pinned run has other columns than this version writes"
    ):
        find_ground(catalog, 3)


def test_a_ground_of_less_than_what_has_expired_is_refused(tmp_path: Path) -> None:
    """It is of a backup, or of a runner that was paused: records would be neither in it nor in bronze."""
    catalog = pinned(tmp_path, {"0": 7}, expired=5)
    for fewer in (0, 5):  # killed between the ground and the log
        found = find_ground(catalog, fewer, {"0": 7, "1": 1})
        assert found is not None and found.lowest and found.offsets == {"0": 7}
    with pytest.raises(Unrepeatable, match=r"ground.json stands for 5 files of bronze, and 6 have expired"):
        find_ground(catalog, 6, {"0": 7})


def test_a_ground_of_another_usage_topic_is_refused(tmp_path: Path) -> None:
    catalog = pinned(tmp_path, {"0": 7, "1": 2}, expired=5)
    with pytest.raises(Unrepeatable, match=r"covers __usage up to \{'0': 7\}, which ends before that now"):
        find_ground(catalog, 5, {"0": 6, "1": 2})


def test_old_runs_stay_while_nothing_says_which_of_them_are_the_ground(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = pinned(tmp_path, {"0": 7}, expired=5)
    for number in range(5):
        grounded(catalog, {"0": 8 + number}, f"later-{number}")
    ground = (tmp_path / "ground.json").read_bytes()
    (tmp_path / "ground.json").unlink()
    forget_old_runs(catalog, 5)
    assert catalog.manifest("usage_day", "r") is not None
    assert [record.getMessage()[:25] for record in caplog.records] == ["no old run is removed: gr"]
    (tmp_path / "ground.json").write_bytes(ground)
    forget_old_runs(catalog, 5)
    assert catalog.manifest("usage_day", "r") is not None, "it is pinned"
    (tmp_path / "ground.json").unlink()
    forget_old_runs(catalog, 0)
    assert catalog.manifest("usage_day", "r") is None


# -- what expires ---------------------------------------------------------------------------------------------


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """Compacted, three partitions, three days of ten batches of three; the first record of a batch is a day older."""
    made = Stream(tmp_path / bronze.NAME)
    for day in (1, 2, 3):
        for _ in range(10):
            made.batch(day, older=1)
    while compact(made.data, read_log(made.data).end, day_of(10)).merged:
        pass
    return made


class Folds:
    """Stands for a fold: publishes empty runs, and keeps what it was to fold."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ends: dict[str, int] = {}
        self.read: list[str] = []
        monkeypatch.setattr(expiry, "fold", self._fold)
        monkeypatch.setattr(bronze, "read_files", self._files)
        monkeypatch.setattr(expiry, "below", lambda ends: ends)

    def _files(self, spark: object, some: Any) -> Any:
        self.read = [entry.name for entry in some]
        return self

    def where(self, ends: object) -> object:
        return self

    def _fold(
        self, spark: object, folder: Path, *, catalog: Any, offsets: dict[str, int], **_: object
    ) -> Round:
        self.ends = offsets
        grounded(catalog, offsets, f"r{catalog.pinned().get(EXPIRED, 0)}")
        return Round(
            offsets=offsets,
            records=sum(offsets.values()),
            runs={},
            recomputed=True,
            seconds=0,
            rejected=0,
            missing="",
        )


def expired(stream: Stream, first_kept: date, **bounds: Any) -> Expired:
    folder = stream.data.parent
    return expire(None, folder, FolderStore(folder), 0, first_kept, **bounds)  # type: ignore[arg-type]


def test_days_before_the_kept_ones_expire_with_what_stands_below_them(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    folds = Folds(monkeypatch)
    days = {entry.name: entry.day for entry in read_log(stream.data).settled}
    assert sorted(set(days.values())) == [day_of(0), day_of(1), day_of(2), day_of(3)]
    assert {entry.day for entry in due(read_log(stream.data), day_of(2))} == {day_of(0), day_of(1)}
    one = expired(stream, day_of(2), bytes_max=1)
    assert (one.files, one.through, one.waiting) == (3, day_of(0).isoformat(), True), (
        "whole days, one at least"
    )
    # The last record of day 0 is the first of the last batch of day 1.
    assert folds.ends == dict.fromkeys("012", 28)
    assert {days[name] for name in folds.read} == {day_of(0), day_of(1)}, "kept records stand below it"
    two = expired(stream, day_of(2))
    assert (two.files, two.through, two.waiting) == (3, day_of(1).isoformat(), False)
    assert folds.ends == dict.fromkeys("012", 58)
    log = read_log(stream.data)
    assert log.expired == 6 and Catalog(stream.data.parent).pinned()[EXPIRED] == "6"
    assert {day for _, _, day in rows_in(log)} == {2, 3}
    assert expired(stream, day_of(2)) == Expired()


def test_a_large_file_expires_by_the_day_on_which_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name says no offsets: they are looked up, and it is read for each day that expires before it."""
    monkeypatch.setattr(compaction, "LARGE", 1)
    folds = Folds(monkeypatch)
    stream = Stream(tmp_path / bronze.NAME, partitions=2)
    for day in (1, 2) * 5:
        stream.batch(day, older=1)
    compact(stream.data, read_log(stream.data).end, day_of(9))
    assert len(read_log(stream.data).settled) == 10
    done = expired(stream, day_of(2))
    assert done.files == 5 and folds.ends == {"0": 27, "1": 27}
    assert len(folds.read) == 10, "any of those that stay may have records below"
    assert {entry.day for entry in read_log(stream.data).settled} == {day_of(2)}


def test_a_ground_goes_up_to_the_last_record_though_its_day_is_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker whose clock is behind appended after one whose clock is right."""
    folds = Folds(monkeypatch)
    stream = Stream(tmp_path / bronze.NAME, partitions=1)
    for day, older in (*((1, 0),) * 5, *((2, 2),) * 5):
        stream.batch(day, older=older)
    compact(stream.data, read_log(stream.data).end, day_of(10))
    assert expired(stream, day_of(2)).through == day_of(1).isoformat()
    assert folds.ends == {"0": 28}


# -- two runners ----------------------------------------------------------------------------------------------


def work_of_another_runner(stream: Stream) -> None:
    """The stream goes on until it has written another entry with all before it."""
    for _ in range(10):
        stream.batch(9)


def test_a_runner_that_was_paused_replaces_nothing_that_another_one_has_written(stream: Stream) -> None:
    before = read_log(stream.data)
    work_of_another_runner(stream)
    with pytest.raises(Changed, match="another runner has changed it"):
        rewrite(stream.data, before, before.settled[:-1], gone=before.settled[-1:], more=0, expired=1)
    assert rows_in(read_log(stream.data)) == sorted(stream.rows)


def test_a_runner_that_is_paused_right_before_it_replaces_the_log_loses_nothing_of_another_one(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_log(stream.data)
    monkeypatch.setattr(sink_log, "check_same", lambda data, log: work_of_another_runner(stream))
    rewrite(stream.data, before, before.settled[:-1], gone=before.settled[-1:], more=0, expired=1)
    assert rows_in(read_log(stream.data)) == sorted(stream.rows)


def test_a_runner_that_was_paused_pins_no_older_ground(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    Folds(monkeypatch)

    def paused() -> bool:
        assert expired(stream, day_of(2)).files == 6
        return True

    with pytest.raises(Changed):
        expired(stream, day_of(1), allowed=paused)
    assert Catalog(stream.data.parent).pinned()[EXPIRED] == "6"


# -- clocks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("today", "read_until", "days", "wanted"),
    [
        (day_of(500), day_of(500), 400, day_of(100)),
        (day_of(900), day_of(500), 400, day_of(100)),
        (day_of(500), day_of(900), 400, day_of(100)),
        (day_of(500), day_of(500), 62, day_of(438)),
        (day_of(500), day_of(500), None, None),
    ],
)
def test_one_clock_that_is_ahead_expires_nothing(
    stream: Stream,
    monkeypatch: pytest.MonkeyPatch,
    today: date,
    read_until: date,
    days: int | None,
    wanted: date | None,
) -> None:
    folder = stream.data.parent
    settings = Configuration(
        file=folder / "config.json",
        brokers=BrokersConfiguration(bootstrap=("127.0.0.1:9",)),
        usage_key_file=folder / "key",
        datasets=folder,
        bronze_days=days,
    )
    mark = read_log(stream.data).end
    inputs = {"bronze": {"files": mark.files, "sha256": mark.sha256}, "read_until": read_until.isoformat()}
    pending = folder / "boot" / ".pending-0-x"
    pending.mkdir(parents=True)
    Catalog(folder).store.publish("boot", "r", pending, json.dumps({"inputs": inputs, "files": []}).encode())
    Catalog(folder).make_current("boot", "r")
    asked: list[date] = []

    def expire_before(
        spark: object, folder: Path, store: object, number: int, first_kept: date, **_: object
    ) -> Expired:
        asked.append(first_kept)
        return Expired()

    monkeypatch.setattr(pipeline, "expire", expire_before)
    monkeypatch.setattr(compaction, "today", lambda: today)
    worker = Pipeline(settings)
    assert worker.tidy(lambda: True) is not None and not asked, "without Spark nothing expires"
    monkeypatch.setattr(worker, "_spark", object())
    assert worker.tidy(lambda: True) is not None
    assert asked == ([] if wanted is None else [wanted])


def test_a_record_of_the_future_is_of_the_day_on_which_it_is_read() -> None:
    """Else it would be the oldest that bronze keeps, and compaction would wait for its day."""
    now_ms = time.time_ns() // 1_000_000
    stamps = {-1: day_of(0), 5 * DAY_MS: day_of(5), now_ms + 900 * DAY_MS: None}
    given = [
        {"src_partition": 0, "src_offset": at, "timestamp_ms": stamp, "value": b""}
        for at, stamp in enumerate(stamps)
    ]
    (found,) = bronze._with_heads(iter([pa.RecordBatch.from_pylist(given)]))
    days = found.column("ingest_date").to_pylist()
    today = [day_of(now_ms // DAY_MS + more) for more in (0, 1)]
    assert [day for day, wanted in zip(days, stamps.values(), strict=True) if day != (wanted or day)] == []
    assert days[2] in today


@pytest.mark.parametrize(
    ("days", "taken"), [(61, False), (0, False), (62, True), (None, True), (100_000, True), (100_001, False)]
)
def test_an_open_month_cannot_be_let_expire(tmp_path: Path, days: int | None, taken: bool) -> None:
    file = tmp_path / "config.json"
    given = {
        "brokers": {"bootstrap": ["127.0.0.1:9"]},
        "usage_key_file": "key",
        "datasets": str(tmp_path),
        "bronze_days": days,
    }
    file.write_text(json.dumps(given))
    if taken:
        assert configuration.read(file).bronze_days == days
    else:
        with pytest.raises(ConfigurationError, match="bronze_days"):
            configuration.read(file)
