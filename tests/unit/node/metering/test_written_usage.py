"""What metering writes into `__usage`: cuts in as many records as it takes, the first reading after a loss, the end."""

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from data_plane.contract import usage_pb2
from data_plane.metadata.kept_ends import KeptEnd
from data_plane.metering.increments import FETCH
from data_plane.metering.readings import DueReading, ReadingKind
from data_plane.node.metering import metering
from data_plane.node.metering.metering import Metering
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.stats import NodeStats
from penstock.contract.errors import BrokerUnavailable, Throttled
from penstock.contract.ids import TenantId, TopicId
from penstock.records.usage import OdometerMark
from tests.unit.log.batches import NOW_MS
from tests.unit.node.storage import CONFIG, image_of, opened, where

NOBODY: Any = None
TENANT = TenantId("tn_a")


class Usage:
    """`__usage` as metering sees it: commits each record at once, or has no room for one."""

    def __init__(self) -> None:
        self.topic_id: TopicId | None = TopicId(b"u" * 16)
        self.full = False
        self.takes_records = True
        self.records: list[usage_pb2.UsageRecord] = []

    def require_space(self) -> None:
        if self.full:
            raise Throttled("records wait to be written")

    def write(self, record: usage_pb2.UsageRecord) -> "asyncio.Future[None]":
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.takes_records:
            self.records.append(record)
            written.set_result(None)
        return written


class Still:
    """A clock that stands."""

    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> float:
        return 0.0


def metered(usage: Any) -> Metering:
    return Metering(CONFIG, usage, Still(), NodeStats(), ReplicaSet(), dict, NOBODY)


def ends(count: int) -> list[KeptEnd]:
    return [
        KeptEnd(
            where=where(1, number),
            topic="orders",
            log_generation=0,
            end_offset=number,
            accepted_ms=-1,
            totals=(number, 0, 0, 0, 0, 0),
            last=False,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(("count", "records"), [(0, []), (1, [1]), (3, [3]), (7, [3, 3, 1])])
@pytest.mark.pure
def test_ends_of_a_cut_are_written_each_once_in_records_of_a_bounded_size(
    monkeypatch: pytest.MonkeyPatch, count: int, records: list[int]
) -> None:
    monkeypatch.setattr(metering, "_ROWS_MAX", 3)
    usage = Usage()
    asyncio.run(metered(usage).write_ends(TENANT, ends(count), "cut_1", 9))
    assert [len(record.readings) for record in usage.records] == records
    written = [reading for record in usage.records for reading in record.readings]
    assert [reading.end_offset for reading in written] == list(range(count))
    assert {(reading.cut_id, reading.cut_end_ms) for reading in written} <= {("cut_1", 9)}


@pytest.mark.pure
def test_no_cut_is_written_while_too_many_records_wait_or_the_broker_does_not_meter() -> None:
    usage = Usage()
    metering_here = metered(usage)
    usage.full = True
    for _ in range(2):
        with pytest.raises(Throttled):
            asyncio.run(metering_here.write_ends(TENANT, ends(1), "cut_1", 9))
        with pytest.raises(Throttled):
            asyncio.run(metering_here.write_cut([], "cut_1", 9))
    usage.full, usage.topic_id = False, None
    with pytest.raises(BrokerUnavailable):
        asyncio.run(metering_here.write_ends(TENANT, ends(1), "cut_1", 9))
    with pytest.raises(BrokerUnavailable):
        asyncio.run(metering_here.write_cut([], "cut_1", 9))
    assert not usage.records


@pytest.mark.pure
def test_readings_of_a_cut_fill_a_record_with_their_rows_by_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering, "_ROWS_MAX", 5)
    usage, replica = Usage(), lost_after(1)
    mark = replica.log.usage.mark()
    assert len(mark.minute_rows) == 1, "two rows a reading"
    due = DueReading(ReadingKind.CUT, mark)
    asyncio.run(metered(usage).write_cut([(replica, due)] * 4, "cut_1", 9))
    assert [len(record.readings) for record in usage.records] == [3, 1]
    assert replica.noted == [(replica.log.usage.log_generation, 6)] * 4
    for reading in (reading for record in usage.records for reading in record.readings):
        assert (reading.end_offset, reading.cut_id, reading.cut_end_ms) == (6, "cut_1", 9)
        assert [(row.principal, row.messages) for row in reading.minute_rows] == [(5, 6)]


@pytest.mark.parametrize("takes_records", [True, False])
@pytest.mark.pure
def test_a_clean_stop_writes_the_end_of_the_boot_once_and_nothing_after_it(takes_records: bool) -> None:
    usage = Usage()
    usage.takes_records = takes_records
    metering_here = metered(usage)
    tally = metering_here.tally(TENANT, FETCH)
    tally.count(0)
    for _ in range(2):
        asyncio.run(metering_here.finish())
        assert not metering_here.working
    assert [record.boot_ends for record in usage.records] == ([False, True] if takes_records else [])
    if takes_records:
        (requests,) = usage.records[0].requests
        assert (requests.tenant, requests.operation, requests.valid, requests.bad) == (TENANT, FETCH, 1, 0)
    with pytest.raises(BrokerUnavailable):
        asyncio.run(metering_here.write_ends(TENANT, ends(1), "cut_1", 9))


@pytest.mark.pure
def test_a_broker_that_does_not_meter_ends_without_a_word() -> None:
    usage = Usage()
    usage.topic_id = None
    asyncio.run(metered(usage).finish())
    assert not usage.records


# -- after a declared loss -----------------------------------------------------------------------------------


def lost_after(offset_epoch: int, batches: int = 3) -> Any:
    """A replica that leads in epoch 2 and log generation 2 over `batches` of two records each, of epoch 1."""
    storage = opened(image=image_of(1))
    log = storage.create(1)
    storage.append(1, batches)
    leading = SimpleNamespace(
        record=SimpleNamespace(generation_epoch=offset_epoch + 1), leader_epoch=offset_epoch + 1
    )
    topic = SimpleNamespace(tenant=TENANT, name="orders")
    noted: list[tuple[int, int]] = []
    return SimpleNamespace(
        leading=leading,
        log=log,
        where=where(1),
        topic=topic,
        busy=False,
        broken="",
        noted=noted,
        note_metered=lambda log_generation, end_offset: noted.append((log_generation, end_offset)),
    )


def read_loss(replica: Any) -> tuple[bool, list[tuple[int, ReadingKind]]]:
    draft = metering._Draft()
    read = asyncio.run(metered(Usage())._read_loss(replica, draft))
    return read, [(due.mark.end_offset, due.kind) for _, _, due in draft.read]


@pytest.mark.pure
def test_the_first_reading_of_a_log_generation_is_made_where_the_old_one_ended() -> None:
    assert read_loss(lost_after(1)) == (True, [(6, ReadingKind.GENERATION_START)])


@pytest.mark.pure
def test_no_other_reading_comes_before_it() -> None:
    nobody_leads = lost_after(1)
    nobody_leads.leading = None
    assert read_loss(nobody_leads) == (False, [])
    not_committed = lost_after(1)
    not_committed.log = Below(not_committed.log, high_watermark=5)
    assert read_loss(not_committed) == (False, [])
    deleted_since = lost_after(1)
    deleted_since.log = Below(deleted_since.log, log_start_offset=7)
    assert read_loss(deleted_since) == (True, []), "it was made before anything was deleted"
    led_anew = lost_after(1)
    led_anew.log = Below(led_anew.log, on_look=lambda: setattr(led_anew, "leading", None))
    assert read_loss(led_anew) == (False, [])
    unknown = lost_after(1)
    unknown.log = Below(unknown.log, on_look=None, marks=[])
    assert read_loss(unknown) == (False, [])


class Below:
    """A log of which a test says some things otherwise."""

    def __init__(
        self,
        log: Any,
        *,
        on_look: Callable[[], None] | None = None,
        marks: list[OdometerMark | None] | None = None,
        **values: int,
    ) -> None:
        self._log, self._values, self._on_look, self._marks = log, values, on_look, marks

    def __getattr__(self, name: str) -> Any:
        return self._values[name] if name in self._values else getattr(self._log, name)

    @property
    def usage(self) -> Any:
        return self

    def fold_to(self, offset: int) -> Iterator[OdometerMark | None]:
        yield from self._log.usage.fold_to(offset) if self._marks is None else self._marks
        if self._on_look is not None:
            self._on_look()
