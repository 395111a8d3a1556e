"""Records of `__groups`: frozen bytes that must be written and read like this for ever."""

import pytest

from data_plane.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupRecord,
    KnownTopic,
    Member,
    MemberKey,
    OffsetKey,
    Record,
    RecordUnreadable,
    group_record,
    member_record,
    offset_record,
    read_group,
    read_key,
    read_member,
    read_offset,
)
from penstock.contract.ids import TopicId, TopicPartition

pytestmark = pytest.mark.both_cores

TOPIC = TopicId(bytes(range(16)))
HEX = "000102030405060708090a0b0c0d0e0f"

GROUP = GroupRecord(
    epoch=3, assignor="sticky", topics={TOPIC: KnownTopic(topic_id=TOPIC, name="orders", partitions=4)}
)
MEMBER = Member(
    member_id="m-1",
    instance_id="one",
    client_id="shop",
    client_host="127.0.0.1",
    topics=("orders",),
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    epoch=2,
    previous_epoch=1,
    assigned={TopicPartition(TOPIC, 0): 1, TopicPartition(TOPIC, 2): 2},
    revoking={TopicPartition(TOPIC, 3): 1},
    target=(TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 2)),
    replaced=("m-0",),
)
FROZEN = [
    (
        group_record("tn_a", "readers", GROUP),
        b'["group","tn_a","readers"]',
        f'{{"assignor":"sticky","epoch":3,"topics":{{"{HEX}":["orders",4]}},"v":1}}'.encode(),
    ),
    (
        member_record("tn_a", "readers", "m-1", MEMBER),
        b'["member","tn_a","readers","m-1"]',
        (
            f'{{"assigned":{{"{HEX}":[[0,1],[2,2]]}},"client":"shop","epoch":2,"host":"127.0.0.1","instance":"one",'
            f'"previous":1,"rebalance_ms":60000,"replaced":["m-0"],"revoking":{{"{HEX}":[[3,1]]}},'
            f'"session_ms":10000,"target":{{"{HEX}":[0,2]}},"topics":["orders"],"v":1}}'
        ).encode(),
    ),
    (
        offset_record(
            "tn_a",
            "lés",
            TopicPartition(TOPIC, 3),
            CommittedOffset(offset=17, leader_epoch=5, metadata="m"),
        ),
        f'["offset","tn_a","lés","{HEX}",3]'.encode(),
        b'{"epoch":5,"metadata":"m","offset":17,"v":1}',
    ),
    (
        offset_record("tn_a", "readers", TopicPartition(TOPIC, 3), None),
        f'["offset","tn_a","readers","{HEX}",3]'.encode(),
        None,
    ),
]


@pytest.mark.parametrize(("made", "key", "value"), FROZEN)
def test_records_are_written_as_ever(made: Record, key: bytes, value: bytes | None) -> None:
    assert (made.key, made.value) == (key, value)


def test_records_are_read_as_ever() -> None:
    (_, group_key, group), (_, member_key, member), (_, offset_key, offset), _ = FROZEN
    assert read_key(group_key) == GroupKey("tn_a", "readers")
    assert read_key(member_key) == MemberKey("tn_a", "readers", "m-1")
    assert read_key(offset_key) == OffsetKey("tn_a", "lés", TopicPartition(TOPIC, 3))
    assert group and read_group(group) == GROUP
    assert member and read_member("m-1", member) == MEMBER
    assert offset and read_offset(offset) == CommittedOffset(offset=17, leader_epoch=5, metadata="m")


def test_what_a_later_version_adds_is_ignored_and_its_kinds_are_skipped() -> None:
    assert read_offset(b'{"epoch":5,"offset":17,"v":2,"expires":9}').offset == 17
    assert read_key(b'["share","tn_a","readers"]') is None


@pytest.mark.parametrize(
    "key",
    [
        b"",
        None,
        b"\xff",
        b"{}",
        b"[]",
        b'["group","tn_a"]',
        b'["offset","t","g","xyz",1]',
        b'["member","t","g",1]',
    ],
)
def test_a_key_that_nobody_can_have_written_is_refused(key: bytes | None) -> None:
    with pytest.raises(RecordUnreadable, match=r"^key "):
        read_key(key)


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{}", b'{"epoch":"x","assignor":"sticky","topics":{}}', b"\xff"]
)
def test_a_value_that_nobody_can_have_written_is_refused(value: bytes) -> None:
    with pytest.raises(RecordUnreadable):
        read_group(value)
    with pytest.raises(RecordUnreadable):
        read_member("m", value)
    with pytest.raises(RecordUnreadable):
        read_offset(value)
