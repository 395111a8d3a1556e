"""The last hour from usage records: repeated, late and old records, out by sequence, tenants apart, bounds, charts."""

import random

import pytest

from data_plane.contract import usage_pb2 as pb
from web import flows, recent
from web.recent import MINUTES, RecentUsage

NOW = 30_000_000
"""A minute."""
NOW_MS = NOW * 60_000 + 10_000
TOPIC = bytes(15) + b"\1"


def reading(
    minute: int, messages: int, *, partition: int = 0, tenant: str = "tn_a", topic: bytes = TOPIC
) -> pb.UsageRecord:
    rows = [
        pb.PrincipalRow(minute=minute, principal=1, messages=messages - messages // 2, bytes=10 * messages),
        pb.PrincipalRow(minute=minute, principal=2, messages=messages // 2, bytes=0),
    ]
    one = pb.Reading(tenant=tenant, topic_id=topic, partition=partition, minute_rows=rows)
    return pb.UsageRecord(broker_id=1, boot_id="b", readings=[one])


def out(sequence: int, messages: int, boot: str = "b") -> pb.UsageRecord:
    one = pb.Delivered(
        tenant="tn_a", topic_id=TOPIC, partition=0, minute=NOW - 1, messages=messages, bytes=9 * messages
    )
    return pb.UsageRecord(broker_id=1, boot_id=boot, sequence=sequence, delivered=[one])


def test_readings_of_a_minute_say_more_and_more_and_repeating_them_changes_nothing() -> None:
    records = [
        reading(NOW - 1, 5),
        reading(NOW - 1, 12),
        reading(NOW - 1, 4, partition=1),
        reading(NOW, 3),
        reading(NOW - 59, 7),
    ]
    for seed in range(20):
        shuffled = records * 2
        random.Random(seed).shuffle(shuffled)
        usage = RecentUsage()
        for record in shuffled:
            usage.apply(record)
        hour = usage.hour("tn_a", NOW_MS)
        assert len(hour.minutes) == MINUTES
        assert (hour.last.messages_in, hour.last.bytes_in) == (16, 160)
        assert hour.present.messages_in == 3
        assert hour.minutes[1].messages_in == 7
        assert hour.total.messages_in == 26


def test_what_went_out_counts_once_by_broker_boot_and_sequence() -> None:
    usage = RecentUsage()
    for record in (out(1, 5), out(2, 6), out(2, 6), out(1, 5), out(1, 100, boot="after a restart")):
        usage.apply(record)
    assert usage.hour("tn_a", NOW_MS).last.messages_out == 111


def test_a_tenant_and_a_topic_see_their_own_alone() -> None:
    usage = RecentUsage()
    usage.apply(reading(NOW - 1, 5))
    usage.apply(reading(NOW - 1, 6, topic=bytes(16)))
    usage.apply(reading(NOW - 1, 1_000, tenant="tn_b"))
    assert usage.hour("tn_a", NOW_MS).last.messages_in == 11
    assert usage.hour("tn_a", NOW_MS, TOPIC.hex()).last.messages_in == 5
    assert usage.hour("tn_b", NOW_MS, bytes(16).hex()).total.messages_in == 0
    assert usage.hour("tn_c", NOW_MS).total == recent.Flow()


def test_minutes_that_are_over_an_hour_old_are_forgotten_with_their_topics() -> None:
    usage = RecentUsage()
    usage.apply(reading(NOW - 200, 5, tenant="tn_old"))
    usage.apply(reading(NOW, 1))
    usage.apply(reading(NOW - 100, 5))
    assert usage._entries == 1 and list(usage._topics) == ["tn_a"]


def test_however_much_there_is_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = RecentUsage()
    monkeypatch.setattr(recent, "_ENTRIES_MAX", 100)
    for minute in range(NOW - 50, NOW + 1):
        for partition in range(9):
            usage.apply(reading(minute, 1, partition=partition))
    assert usage._entries <= 110
    assert usage.hour("tn_a", NOW_MS).last.messages_in == 9
    assert usage.hour("tn_a", NOW_MS).minutes[0].messages_in == 0


def test_charts_count_by_the_minute_until_that_is_much() -> None:
    usage = RecentUsage()
    usage.apply(reading(NOW - 1, 12))
    few = flows.drawn(usage.hour("tn_a", NOW_MS))
    assert [one.unit for one in few.charts] == ["messages a minute", "bytes a minute"]
    usage.apply(reading(NOW - 1, 6_000))
    many = flows.drawn(usage.hour("tn_a", NOW_MS))
    assert [one.unit for one in many.charts] == ["messages a second", "bytes a second"]
    assert many.bytes_in_per_s == 1_000
    chart = many.charts[0].lines[0]
    assert chart.grid[-1].text == "100" and chart.curves[0].last_y == 10.0
    assert flows.drawn(RecentUsage().hour("tn_a", NOW_MS)).charts == ()
