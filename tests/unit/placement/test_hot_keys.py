"""What a broker believes of the keys that producers report."""

import re

import pytest

from data_plane.placement import hot_keys
from data_plane.placement.hot_keys import EXPIRES_MS, KEYS_MAX, HotKeyTable, KeyCount, KeyReport
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TenantId, TopicId, TopicPartition

A, B = TenantId("tn_a"), TenantId("tn_b")
OVER_MS = 20_000
HUGE = 2**64 - 1


def where(number: int = 0, topic: bytes = b"t" * 16) -> TopicPartition:
    return TopicPartition(TopicId(topic), number)


def report(messages: int, over_ms: int = OVER_MS, **keys: int) -> KeyReport:
    counts = tuple(KeyCount(key=key.encode(), size=len(key), messages=count) for key, count in keys.items())
    return KeyReport(messages=messages, over_ms=over_ms, keys=counts)


def begun(table: HotKeyTable, number: int = 0, tenant: TenantId = A) -> None:
    table.take(where(number), tenant, report(0), 0, 0.0)


def shares(table: HotKeyTable, now_ms: float, number: int = 0) -> dict[bytes, int]:
    found = table.keys_of(where(number), now_ms)
    assert found is not None
    return {one.key: round(one.messages * 100 / max(1, found.messages)) for one in found.keys}


def test_keys_have_their_share_of_what_the_broker_took() -> None:
    table = HotKeyTable()
    begun(table)
    table.take(where(), A, report(1_000, hot=600, warm=100), 1_000, OVER_MS)
    assert shares(table, OVER_MS) == {b"hot": 60, b"warm": 10}
    found = table.keys_of(where(), OVER_MS)
    assert found is not None and found.top_percent == 60


def test_what_is_not_reported_counts_too() -> None:
    table = HotKeyTable()
    begun(table)
    table.take(where(), A, report(1_000, hot=1_000), 4_000, OVER_MS)
    assert shares(table, OVER_MS) == {b"hot": 25}


def test_reports_of_several_producers_weigh_as_many_messages_as_they_sent() -> None:
    table = HotKeyTable()
    begun(table)
    table.take(where(), A, report(900, hot=900), 1_000, OVER_MS)
    table.take(where(), A, report(100, other=100), 1_000, OVER_MS + 1)
    assert shares(table, OVER_MS + 1) == {b"hot": 90, b"other": 10}


def test_no_report_is_believed_for_more_than_the_broker_took() -> None:
    table = HotKeyTable()
    begun(table)
    table.take(where(), A, report(HUGE, lie=HUGE), 100, OVER_MS)
    for _ in range(50):
        table.take(where(), A, report(HUGE, lie=HUGE // 2, other=HUGE // 2), 100, OVER_MS)
    assert sum(shares(table, OVER_MS).values()) <= 100
    table.take(where(), A, report(900, honest=900), 1_000, OVER_MS)
    assert shares(table, OVER_MS)[b"honest"] == 90


def test_of_messages_that_were_sent_before_it_is_followed_nothing_is_believed() -> None:
    table = HotKeyTable()
    table.take(where(), A, report(1_000, first=1_000), 5_000, 0.0)
    assert shares(table, 0.0) == {}
    table.take(where(), A, report(1_000, hot=1_000), 5_500, OVER_MS / 2)
    assert shares(table, OVER_MS / 2) == {b"hot": 100}
    assert table.keys_of(where(), OVER_MS / 2).messages == 500  # type: ignore[union-attr]


def test_what_was_long_ago_counts_less() -> None:
    table = HotKeyTable()
    begun(table)
    table.take(where(), A, report(1_000, old=1_000), 1_000, 20_000)
    table.take(where(), A, report(1_000, new=1_000), 2_000, 80_000)
    assert shares(table, 80_000) == {b"new": 73, b"old": 27}


def test_a_partition_is_forgotten_two_minutes_after_its_last_report() -> None:
    table = HotKeyTable()
    begun(table)
    table.take(where(), A, report(10, hot=10), 10, 1_000)
    assert table.keys_of(where(), 1_000 + EXPIRES_MS - 1) is not None
    assert table.keys_of(where(), 1_000 + EXPIRES_MS) is None
    table.take(where(1), A, report(0), 0, 1_000 + EXPIRES_MS)
    assert table.partitions_of(where().topic_id) == [where(1)]


def test_a_log_that_is_shorter_than_it_was_is_followed_from_its_new_end() -> None:
    table = HotKeyTable()
    begun(table)
    table.take(where(), A, report(100, hot=100), 100, 1_000)
    table.take(where(), A, report(100, hot=100), 50, 2_000)
    assert shares(table, 2_000) == {}
    table.take(where(), A, report(10, over_ms=1, hot=10), 60, 3_000)
    assert shares(table, 3_000) == {b"hot": 100}


def test_of_many_keys_those_with_most_messages_are_kept() -> None:
    table = HotKeyTable()
    begun(table)
    end = 0
    for number in range(1_000):
        end += 10
        table.take(where(), A, report(10, over_ms=1, **{f"key-{number}": 1}), end, 1_000)
    end += 10_000
    table.take(where(), A, report(5_000, over_ms=1, hot=5_000), end, 1_000)
    found = table.keys_of(where(), 1_000)
    assert found is not None and len(found.keys) == KEYS_MAX and found.keys[0].key == b"hot"


def test_a_tenant_with_many_partitions_pushes_out_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    table = HotKeyTable()
    begun(table, tenant=B)
    for number in range(1, 2 * hot_keys.PARTITIONS_OF_TENANT_MAX + 1):
        begun(table, number, A)
    assert len(table) == 1 + hot_keys.PARTITIONS_OF_TENANT_MAX
    assert table.keys_of(where(0), 0.0) is not None, "the other tenant's stays"
    assert table.keys_of(where(1), 0.0) is None
    assert table.keys_of(where(2 * hot_keys.PARTITIONS_OF_TENANT_MAX), 0.0) is not None


def filled(tenants: int) -> HotKeyTable:
    """All that a table holds, evenly of so many tenants."""
    table = HotKeyTable()
    for number in range(hot_keys.PARTITIONS_MAX):
        begun(table, number, TenantId(f"tn_{number % tenants}"))
    assert len(table) == hot_keys.PARTITIONS_MAX
    return table


def test_of_a_full_table_the_tenant_with_most_gives_up_what_was_reported_longest_ago() -> None:
    few = hot_keys.PARTITIONS_MAX // hot_keys.PARTITIONS_OF_TENANT_MAX
    table = filled(few)
    for number in range(few):
        assert table.take(where(-1 - number), B, report(0), 0, 0.0), "another was given up for it"
    assert len(table) == hot_keys.PARTITIONS_MAX
    assert all(table.keys_of(where(-1 - number), 0.0) is not None for number in range(few))
    assert all(table.keys_of(where(number), 0.0) is None for number in range(few)), "one of each"
    assert table.keys_of(where(few), 0.0) is not None


def test_a_tenant_with_as_many_as_any_other_gives_up_its_own_in_a_full_table() -> None:
    table = filled(hot_keys.PARTITIONS_MAX)
    begun(table, -1, TenantId("tn_7"))
    assert table.keys_of(where(-1), 0.0) is not None and table.keys_of(where(7), 0.0) is None
    assert table.keys_of(where(0), 0.0) is not None and len(table) == hot_keys.PARTITIONS_MAX


def test_a_full_table_goes_on_with_what_is_followed_and_empties_as_it_expires() -> None:
    table = filled(hot_keys.PARTITIONS_MAX)
    table.take(where(0), TenantId("tn_0"), report(0), 0, 2.0)
    assert len(table) == hot_keys.PARTITIONS_MAX
    table.take(where(-1), B, report(0), 0, EXPIRES_MS)
    assert len(table) == 2


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (lambda: report(10, a=6, b=6), "the keys of a partition have 12 messages, of 10 in all"),
        (lambda: report(-1), "-1 messages reported"),
        (lambda: report(10, a=-1), "a reported key has -1 messages"),
        (lambda: KeyCount(key=bytes(257), size=257, messages=1), "257 bytes, at most 256 allowed"),
        (lambda: KeyCount(key=b"abc", size=2, messages=1), "3 bytes, and its size is 2"),
        (
            lambda: report(1_000, **{f"k{n}": 1 for n in range(1_000)}),
            "1000 keys of one partition, at most 10",
        ),
        (
            lambda: KeyReport(messages=9, over_ms=1, keys=(KeyCount(key=b"a", size=1, messages=1),) * 2),
            "a key is reported twice",
        ),
    ],
)
def test_a_report_that_cannot_be_is_refused(lie: object, why: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(why)):
        lie()  # type: ignore[operator]
