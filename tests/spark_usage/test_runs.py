"""Runs change no row of any data set: readings folded where they are decoded come to what one by one comes to."""

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_plane.contract import usage_pb2 as pb
from spark_usage import orderly, runs
from spark_usage.datasets import READING
from spark_usage.decode import facts_of
from tests.conftest import FULL
from tests.spark_usage import oracle
from tests.spark_usage.conftest import Pipeline
from tests.spark_usage.random_logs import Log, random_log
from tests.spark_usage.records import MINUTE, Stored, Writer, in_order, reading, topic_id
from tests.spark_usage.test_increments import digests, first_of_each, increments_and_damage

A_RUN = 4
HISTORIES = 400 if FULL else 40


def facts_by_kind(chunk: runs.Chunk) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for batch in chunk.facts():
        for row in batch.to_pylist():
            found[row["kind"]].append(row)
    return found


def chunk_of(folder: Path, told: list[pb.Reading]) -> runs.Chunk:
    chunk = runs.Chunk(folder, A_RUN)
    for batch in facts_of([(0, 0, Writer().record(*told))]):
        if batch.column("kind")[0].as_py() == "reading":
            chunk.add([batch.select(READING.names)])
    return chunk


@pytest.mark.parametrize("seed", range(5))
def test_sums_of_a_run_are_those_of_its_readings_one_by_one(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    logs = [random_log(random, f"tn_{number}", number, cuts=0, losses=0) for number in range(4)]
    told = [one for log in logs for one in log.readings]
    told = [one for one in told if random.random() < 0.9 for _ in range(random.choice((1, 1, 2)))]
    random.shuffle(logs)
    found = facts_by_kind(chunk_of(tmp_path, told))
    assert len(found["run_first"]) == len(found["run_last"]) == len(logs) and not found["reading"]

    sums: Counter[Any] = Counter()
    for row in found["run_hour"]:
        hour = row["accepted_ms"] // (60 * MINUTE)
        for share in row["principal_rows"]:
            for name in ("messages", "bytes"):
                sums[row["topic_id"], row["partition"], hour, share["principal"], name] += share[name]
        for name in ("messages", "bytes"):
            assert row[name] == sum(share[name] for share in row["principal_rows"])
    wanted: Counter[Any] = Counter()
    minutes: Counter[Any] = Counter()
    firsts = {(row["topic_id"], row["partition"]): row["end_offset"] for row in found["run_first"]}
    after = {(bytes.fromhex(topic), at): end for (topic, at), end in firsts.items()}
    heads = [one for one in told if one.end_offset == after[one.topic_id, one.partition]]
    for sign, of in ((1, oracle.fold(told)), (-1, oracle.fold(heads))):
        for (topic, partition, _, minute, principal), amounts in of.items():
            for name, amount in zip(("messages", "bytes"), amounts, strict=True):
                wanted[topic.hex(), partition, minute // 60, principal, name] += sign * amount
                minutes[topic.hex(), partition, minute, name] += sign * amount
    assert {key: value for key, value in sums.items() if value} == {k: v for k, v in wanted.items() if v}

    stored: dict[str, list[dict[str, Any]]] = {}
    for kind in runs.STAGED:
        files = [row["file"] for row in found["staged"] if row["file"].startswith(f"{kind}/")]
        tables = [pq.read_table(tmp_path / file) for file in files]
        assert sum(table.num_rows for table in tables) == sum(
            row["messages"] for row in found["staged"] if row["file"] in files
        )
        stored[kind] = pa.concat_tables(tables).to_pylist()
    assert len(stored[runs.STAGED_READINGS]) == len(told)
    by_minute: Counter[Any] = Counter()
    for row in stored[runs.STAGED_MINUTES]:
        for name in ("messages", "bytes"):
            by_minute[row["topic_id"], row["partition"], row["minute"], name] += row[name]
    assert {key: value for key, value in by_minute.items() if value} == {
        key: value for key, value in minutes.items() if value
    }


def _log(*ends: int, **values: Any) -> list[pb.Reading]:
    return [reading(end, MINUTE + end, end, end * 10, **values) for end in ends]


@pytest.mark.parametrize(
    "told",
    [
        pytest.param([*_log(1, 2), *_log(5, 4), *_log(6)], id="offsets fall"),
        pytest.param([*_log(1, 2), reading(3, MINUTE + 3, 1, 10), *_log(4, 5)], id="totals fall"),
        pytest.param([*_log(1, 2), reading(3, MINUTE, 3, 30), *_log(4, 5)], id="time falls"),
        pytest.param([*_log(1, 2), *_log(3, generation=1), *_log(4, 5)], id="another generation"),
        pytest.param([*_log(1, 2, 3), reading(3, MINUTE + 3, 3, 31), *_log(4)], id="other totals"),
        pytest.param([*_log(1, 2, 3), reading(3, MINUTE + 3, 3, 30, [(1, 1, 1)]), *_log(4)], id="other rows"),
        pytest.param([*_log(1, 2), *_log(3, kind=pb.GENERATION_START), *_log(4, 5)], id="a start between"),
        pytest.param([*_log(1, 2), *_log(3, cut="cut_1"), *_log(4, 5)], id="a cut between"),
        pytest.param([*_log(7, 7, 7, 7, 7)], id="nothing gained"),
        pytest.param([*_log(1, 2, 3)], id="too few"),
        pytest.param([reading(0, -1, 0, 0) for _ in range(9)], id="no time"),
    ],
)
def test_readings_that_are_no_run_stay_as_they_came(told: list[pb.Reading], tmp_path: Path) -> None:
    found = facts_by_kind(chunk_of(tmp_path, told))
    assert set(found) == {"reading"} and [row["row"] for row in found["reading"]] == list(range(len(told)))
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_cut_ends_a_run_and_another_begins_after_it(tmp_path: Path) -> None:
    told = [*_log(*range(1, 6)), *_log(6, cut="cut_1"), *_log(*range(7, 12))]
    found = facts_by_kind(chunk_of(tmp_path, told))
    ends = [(row["base_offset"], row["end_offset"]) for row in found["run_last"]]
    assert ends == [(1, 5), (7, 11)] and [row["cut_id"] for row in found["reading"]] == ["cut_1"]
    assert [(row["base_offset"], row["end_offset"], row["messages"]) for row in found["run_hour"]] == [
        (1, 5, 4), (7, 11, 4),
    ]  # fmt: skip


def _nearly_in_order(random: Random, logs: list[Log]) -> list[Stored]:
    """Readings of three brokers in the order of time. Of some logs a reading is lost, comes twice, or at the end; a
    record of the third comes twice.
    """
    streams: list[list[tuple[int, int, pb.Reading]]] = [[], [], []]
    for number, log in enumerate(logs):
        stream = streams[number % 3]
        last_of_all = log.readings[-1]
        for at, one in enumerate(log.readings):
            since = log.readings[0].accepted_ms // MINUTE + 1
            one.retained_since, one.retained_until = since, since + at // 3
            one.retained_byte_minutes, one.replicated_byte_minutes = at // 3 * 7, at // 3 * 21
            needed = one.kind in (pb.CUT, pb.GENERATION_START) or one is last_of_all
            change = random.random() if number % 2 else 1.0
            if change < 0.02 and not needed:
                continue
            late = 10_000_000 if change < 0.04 else 0
            stream += [(at + late, number, one)] * (2 if change > 0.98 and number % 2 else 1)
    stored = []
    for partition, stream in enumerate(streams):
        writer = Writer(partition + 1, f"boot-{partition + 1}")
        told = [one for _, _, one in sorted(stream, key=lambda entry: entry[:2])]
        values = [writer.record(*told[at : at + 25]) for at in range(0, len(told), 25)]
        if partition == 2:
            values.insert(random.randrange(len(values)), random.choice(values))
        stored += in_order(*values, partition=partition)
    return stored


@pytest.mark.drawn(shares=3, family="histories of usage")
@pytest.mark.slow
def test_runs_change_no_digest_in_a_first_round_or_a_later_one(
    make_pipeline: Callable[[str], Pipeline],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One tenant a history: every other one is in order, others have readings that are lost, late or there twice."""
    random = Random(20261128)
    logs = [
        random_log(random, f"tn_{number:03}", 0, losses=0.005 if number % 4 == 0 else 0)
        for number in range(HISTORIES)
    ]
    stored = _nearly_in_order(random, logs)
    stored += increments_and_damage(random, stored)
    single, parts = make_pipeline("single"), make_pipeline("parts")
    single.fold(stored)

    held: list[tuple[int, int]] = []
    taken_apart = orderly.taken_apart

    def watched(*given: Any) -> orderly.NewReadings:
        new = taken_apart(*given)
        held.append((new.lasts.count(), 0 if new.broken is None else new.broken.count()))
        return new

    monkeypatch.setattr(orderly, "taken_apart", watched)
    monkeypatch.setattr(runs, "READINGS_A_RUN", A_RUN)
    monkeypatch.setattr(runs, "READINGS_A_CHUNK", 600)
    for number in (1, 2):
        parts.fold(first_of_each(stored, number / 2), again=False)
    assert [holding >= HISTORIES // 4 and broken > 0 for holding, broken in held] == [True, True], held
    assert digests(parts) == digests(single)
    assert "all of bronze" not in caplog.text
    assert topic_id("tn_000orders").hex() in parts.table("reading").column("topic_id").to_pylist()
    assert parts.table("reading").num_rows == single.table("reading").num_rows
    assert not list((parts.folder / "reading").glob(".pending-*"))
