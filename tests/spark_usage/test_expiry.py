"""After bronze has expired everything that counts is as it was, also when it is folded again or by another version."""

from collections.abc import Callable
from random import Random

import pyarrow as pa
import pytest

from daemon.data_set_store import FolderStore
from penstock.rules.timestamps import DAY_MS
from spark_usage import bronze, expiry
from spark_usage.compaction import compact
from spark_usage.expiry import Expired, expire
from spark_usage.rounds import Round, fold
from spark_usage.sink_log import Mark, read_log
from spark_usage.states import Unrepeatable
from tests.spark_usage.conftest import Pipeline
from tests.spark_usage.random_logs import arrivals, random_log
from tests.spark_usage.records import DAY, Stored, Writer, reading
from tests.spark_usage.sink import Sink, age_unnamed, day_of
from tests.spark_usage.test_increments import digests

pytestmark = [pytest.mark.slow, pytest.mark.drawn(shares=3, family="histories of usage")]

LOGS = 4
DAYS = 8
"""That bronze was read on."""


class Aged:
    """A service whose bronze grows, is compacted and expires."""

    def __init__(self, pipeline: Pipeline, stored: list[Stored]) -> None:
        self.pipeline = pipeline
        self.stored = stored
        self.data = bronze.BronzeFolders(pipeline.folder).data
        self._sink = Sink(self.data)
        self._sizes = {one.partition: 0 for one in stored}
        for one in stored:
            self._sizes[one.partition] += 1
        self._written: dict[str, int] = dict.fromkeys(map(str, sorted(self._sizes)), 0)

    def grow(self, first: int, end: int) -> None:
        """Twelve files of each of these days. Of a broker whose clock is behind, some records are of the day before."""
        for day in range(first, end):
            of_day = [one for one in self.stored if one.offset * DAYS // self._sizes[one.partition] == day]
            for at in range(12):
                some = [one for one in of_day if one.offset % 12 == at]
                rows = [
                    {
                        "src_partition": one.partition, "src_offset": one.offset, "record": one.value,
                        "ingest_date": day_of(max(0, day - (one.offset % 7 == 0))), "broker_id": 0, "boot_id": "",
                        "sequence": 0, "made_ms": 0,
                    }
                    for one in some
                ]  # fmt: skip
                self._sink.write(pa.Table.from_pylist(rows, schema=bronze.SCHEMA), day)
            for one in of_day:
                name = str(one.partition)
                self._written[name] = max(self._written[name], one.offset + 1)

    def fold(self, *, again: bool = False) -> Round:
        return fold(self.pipeline.spark, self.pipeline.folder, again=again, offsets=self._written)

    def compact(self) -> None:
        boot = self.pipeline.catalog.current("boot")
        assert boot is not None
        while compact(self.data, Mark(**boot["inputs"]["bronze"]), day_of(DAYS)).merged:
            pass
        age_unnamed(self.data)
        compact(self.data, Mark(**boot["inputs"]["bronze"]), day_of(DAYS))

    def expire(self, first_kept: int) -> Expired:
        store = FolderStore(self.pipeline.folder)
        return expire(self.pipeline.spark, self.pipeline.folder, store, 0, day_of(first_kept))


class Killed(Exception):
    pass


def history(random: Random) -> list[Stored]:
    """Readings of some tenants, late, twice, lost, in any order over all days; damage; a seal twice, once otherwise."""
    stored, _ = arrivals(random, [random_log(random, f"tn_{at}", 0, losses=0.05) for at in range(LOGS)])
    ends = {at: max(one.offset for one in stored if one.partition == at) + 1 for at in range(3)}
    writer = Writer(4, "boot-4")
    for at in range(24):
        value = writer.record(reading(at + 1, DAY + at * DAY_MS // 9, at + 1, 10 * at + 10, tenant="tn_long"))
        stored.append(Stored(partition=0, offset=ends[0] + at, value=value if at % 9 else b"\xff damaged"))
    return stored


def test_what_is_folded_after_an_expiry_has_the_digests_of_all_of_it(
    make_pipeline: Callable[[str], Pipeline],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stored = history(Random(20261128))
    aged = Aged(make_pipeline("aged"), stored)
    catalog = aged.pipeline.catalog
    aged.grow(0, 5)
    aged.fold()
    aged.compact()
    with monkeypatch.context() as patch:
        # Killed after the ground is pinned: the files are still there, and are passed over.
        patch.setattr(expiry, "rewrite", _killed)
        with pytest.raises(Killed):
            aged.expire(2)
    assert read_log(aged.data).expired == 0 and catalog.pinned()
    before = digests(aged.pipeline)
    aged.fold(again=True)
    assert digests(aged.pipeline) == before
    done = aged.expire(3)
    log = read_log(aged.data)
    assert done.files == log.expired > 0 and done.through == day_of(2).isoformat() and not done.waiting
    assert all(entry.day >= day_of(3) for entry in log.entries[1:])
    assert digests(aged.pipeline) == before, "readers see nothing of it"
    assert aged.expire(3) == Expired()

    aged.grow(5, DAYS)
    aged.fold()
    whole = make_pipeline("whole")
    whole.fold(stored)
    assert digests(aged.pipeline) == digests(whole), "late readings of expired days are corrected exactly"

    aged.compact()
    aged.expire(5)
    assert aged.expire(5) == Expired()
    with monkeypatch.context() as patch:
        for module in ("manifest", "states"):
            patch.setattr(f"spark_usage.{module}.code_version", lambda: "another")
        done_by_another = aged.fold()
        assert done_by_another.recomputed
        assert digests(aged.pipeline) == digests(whole), "another version folds on top of the ground"
        for dataset in ("usage_day", "reading"):
            assert catalog.manifest(dataset, catalog.pinned()[dataset]) is not None, "the ground is kept"

    pins = catalog.pinned()
    catalog.pin(pins | {"seal": "0" * 32})
    with pytest.raises(Unrepeatable, match=r"seal: the pinned run 0+ is not there whole"):
        aged.fold(again=True)
    (aged.pipeline.folder / "ground.json").unlink()
    with pytest.raises(Unrepeatable, match=r"files of bronze have expired and .*ground.json is not there"):
        aged.fold(again=True)
    assert digests(aged.pipeline) == digests(whole), "nothing was published"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def _killed(*given: object, **named: object) -> None:
    raise Killed
