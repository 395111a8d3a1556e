"""Readings of cuts go into `__usage` in as many records as it takes, and only while it takes them."""

import asyncio
from typing import Any

import pytest

from data_plane.contract import usage_pb2
from data_plane.metadata.kept_ends import KeptEnd
from data_plane.node import metering
from data_plane.node.metering import Metering
from data_plane.node.stats import NodeStats
from penstock.contract.errors import BrokerUnavailable, Throttled
from penstock.contract.ids import TenantId, TopicId
from tests.unit.node.storage import CONFIG, where

NOBODY: Any = None
TENANT = TenantId("tn_a")


class Usage:
    """`__usage` as metering sees it: commits each record at once, or has no room for one."""

    def __init__(self) -> None:
        self.topic_id: TopicId | None = TopicId(b"u" * 16)
        self.full = False
        self.records: list[usage_pb2.UsageRecord] = []

    def demand_room(self) -> None:
        if self.full:
            raise Throttled("records wait to be written")

    def write(self, record: usage_pb2.UsageRecord) -> "asyncio.Future[None]":
        self.records.append(record)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        written.set_result(None)
        return written


def metered(usage: Any) -> Metering:
    return Metering(CONFIG, usage, NOBODY, NodeStats(), list, lambda where: None, dict, NOBODY)


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
