"""Readings decoded from their bytes all at once are what protobuf makes of them one by one, damaged or not."""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.contract import usage_pb2 as pb
from penstock.records.usage import minute_of
from spark_usage import canonical_readings, decode
from spark_usage.decoded_readings import Fields, fields_of
from tests.spark_usage.test_decode import AT_MS, LONG_MAX, delivered, elapsed, kept, reading, record, requests

NUMBERS = (
    0,
    1,
    5,
    127,
    128,
    2**14,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**48,
    2**56 - 1,
    2**56,
    LONG_MAX,
    2**64 - 1,
)
OTHERS: list[dict[str, Any]] = [
    {}, {}, {}, {"accepted_ms": -1, "totals": (0,) * 6}, {"tenant": ""}, {"tenant": "tn_é"}, {"topic": "x" * 300},
    {"topic_id": b"short"}, {"totals": (1, 2)}, {"totals": (LONG_MAX + 1,) * 6}, {"totals": ()}, {"end_offset": -4},
    {"log_generation": 2**64 - 1}, {"kind": 99}, {"kind": -1}, {"kind": pb.CUT, "cut_id": "cut_1", "last": True},
    {"kind": pb.CUT}, {"last": True}, {"partition": 2**32 - 1}, {"cut_end_ms": -5}, {"leader_epoch": -1},
    kept(), kept(until=8), kept(size=8), kept(copies=LONG_MAX + 1), {"retained_until": 2**32 - 1},
]  # fmt: skip


STRETCHED = [
    *((b"\x20\x02", b"\x20\x82" + b"\x80" * size + b"\x00") for size in range(12)),
    *((b"\x0a\x04", b"\x0a\x84" + b"\x80" * size + b"\x00") for size in range(6)),
    (b"\x20\x02", b"\x20\x82\x80\x80\x80\x10"),
    (b"\x80\x01\x01", b"\x80\x01\x02"),
    (b"\x68\x04", b"\x68\x84\x80\x80\x80\x10"),
    (b"\x10\x03", b"\x10\x83\x80\x80\x80\x10"),
]
"""What a reading has, and the same in more bytes, or a number beyond what its type holds."""


def rows(random: Random) -> list[pb.PrincipalRow]:
    minute = minute_of(AT_MS)
    return [
        pb.PrincipalRow(
            minute=random.choice((minute, minute, minute - 1)),
            principal=random.choice((0, 3, 4, 2**32 - 1)),
            messages=random.choice(NUMBERS[:10] if random.random() < 0.95 else NUMBERS),
            bytes=random.randrange(300),
        )
        for _ in range(random.randrange(5))
    ]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def entry(body: bytes) -> bytes:
    return b"\x2a" + varint(len(body)) + body


def value_of(random: Random) -> bytes:
    """A record as a broker writes it, one that protobuf takes too, or a damaged one."""
    tenants = ("tn_a", "tn_b" * 40)
    told = [
        reading(**{"tenant": random.choice(tenants), "minute_rows": rows(random), **random.choice(OTHERS)})
        for _ in range(random.randrange(5))
    ]
    parts: dict[str, Any] = {
        "delivered": [delivered()],
        "requests": [requests()],
        "elapsed": [elapsed()],
        "boot_ends": True,
    }
    some = {name: part for name, part in parts.items() if random.random() < 0.3}
    head = record(sequence=random.choice((1, 7, LONG_MAX))).SerializeToString()
    bodies = [one.SerializeToString() for one in told]
    tail = pb.UsageRecord(**some).SerializeToString()
    match random.randrange(10):
        case 0 if bodies:  # a field twice, an unknown one, one before its place
            bodies[-1] += random.choice((b"\x20\x07", b"\xf8\x01\x05", b"\x6a\x00", b"\x4a\x01\x01", b"\x0b"))
        case 1 if bodies:
            bodies[0] = bodies[0].replace(*random.choice(STRETCHED))
        case 2:
            body = reading().SerializeToString()
            longer = varint(len(body) | 1 << 7 * random.randrange(2, 7))[:-1] + b"\x00"
            tail = random.choice((tail + entry(body), b"\x2a" + longer + body))
        case 3 if bodies:
            tail = random.choice(
                (b"\x2a", b"\x2a\xff\xff\xff\xff\x7f", b"\x2a\x83\x80\x80\x80\x80\x00abc", b"\x07")
            )
        case 4:
            head = b""
    value = bytearray(head + b"".join(map(entry, bodies)) + tail)
    match random.randrange(4):
        case 0 if value:
            value[random.randrange(len(value))] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
        case 1 if random.random() < 0.2:
            del value[random.randrange(len(value) + 1) :]
        case 2 if random.random() < 0.2 and value:
            del value[random.randrange(len(value))]
    return bytes(value)


def facts(stored: list[tuple[int, int, bytes | None]]) -> list[dict[str, Any]]:
    return [row for batch in decode.facts_of(stored) for row in batch.to_pylist()]


def by_place(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: (row["src_offset"], row["row"]))


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=True))
def test_bytes_of_any_kind_become_what_protobuf_makes_of_them(random: Any) -> None:
    seeded = Random(random.getrandbits(64))
    stored: list[tuple[int, int, bytes | None]] = [(0, at, value_of(seeded)) for at in range(40)]
    found = facts(stored)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical_readings, "split", lambda value: None)
        by_protobuf = facts(stored)
    assert by_place(found) == by_place(by_protobuf)
    # As they came, of whichever sort their records are.
    order = [row["src_offset"] for row in found if row["kind"] == "reading"]
    assert order == sorted(order)


def test_totals_that_are_five_are_not_six_with_the_bytes_behind_them() -> None:
    hidden = "\x01r\x65" + "a" * 101
    given_ = reading(kind=pb.PERIODIC, totals=(1,) * 5, cut_id=hidden)
    (found,) = [
        row for row in facts([(0, 0, record(readings=[given_]).SerializeToString())]) if row["row"] == 0
    ]
    assert found["reason"] == "5 totals instead of 6"


def test_what_brokers_write_is_read_without_protobuf(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [reading(minute_rows=rows(Random(3))), reading(kind=pb.CUT, cut_id="cut_1", **kept())] * 3
    parts: dict[str, Any] = {"delivered": [delivered()], "elapsed": [elapsed()], "boot_ends": True}
    monkeypatch.setattr(decode, "fields_of", None)
    found = facts([(0, 0, record(readings=told, **parts).SerializeToString())])
    assert [row["row"] for row in found if row["kind"] == "reading"] == list(range(6))
    assert {row["kind"] for row in found} == {"record", "reading", "delivered", "elapsed"}


@pytest.mark.parametrize("length", [1, 127, 128, 300, 2**14, 2**15 + 3])
def test_lengths_of_any_number_of_bytes_are_read_without_protobuf(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "fields_of", None)
    told = [reading(topic="t" * length), reading(), reading(topic="t" * length)]
    value = record(boot_id="b" * length, readings=told, boot_ends=True).SerializeToString()
    topics = [row["topic"] for row in facts([(0, 0, value)]) if row["kind"] == "reading"]
    assert topics == ["t" * length, "orders", "t" * length]


@pytest.mark.parametrize(
    "changes",
    [
        {"totals": ()},
        {"totals": (1, 2)},
        {"tenant": "tn_é"},
        {"topic": "é"},
        {"kind": pb.CUT, "cut_id": "é"},
        {"end_offset": LONG_MAX},
        {"minute_rows": [pb.PrincipalRow(minute=1, principal=1, messages=2**48 + 1)]},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_what_is_not_canonical_leaves_only_its_own_record_to_protobuf(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_protobuf: list[int] = []

    def noting(readings: Iterable[pb.Reading]) -> Fields:
        asked = list(readings)
        by_protobuf.extend(one.partition for one in asked)
        return fields_of(asked)

    monkeypatch.setattr(decode, "fields_of", noting)
    told = [
        [reading(partition=1)],
        [reading(partition=2), reading(partition=3, **changes)],
        [reading(partition=4)],
    ]
    facts([(0, at, record(readings=some).SerializeToString()) for at, some in enumerate(told)])
    assert by_protobuf == [2, 3]


@pytest.mark.parametrize(
    ("each", "count"), [({"messages": 2**55}, 300), ({"bytes": 2**55}, 300), ({"messages": 2**48}, 2**15)]
)
def test_rows_whose_sum_is_beyond_64_bits_are_damage(each: dict[str, int], count: int) -> None:
    many = [pb.PrincipalRow(minute=minute_of(AT_MS), principal=1, **each)] * count
    found = facts([(0, 0, record(readings=[reading(minute_rows=many)]).SerializeToString())])
    assert [row["reason"] for row in found if row["kind"] == "rejected"] == [
        f"rows {count * sum(each.values())} is too large"
    ]


def instead(old: bytes, new: bytes, **of: Any) -> bytes:
    value = record(readings=[reading(**of)]).SerializeToString()
    assert value.count(old) == 1 and len(old) == len(new)
    return value.replace(old, new)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (instead(b"tn_text", b"tn_te\xff\xfe", tenant="tn_text"), "not a usage record"),
        (instead(b"a topic", b"a \xed\xa0\x80ic", topic="a topic"), "not a usage record"),
        (instead(b"cut_text", b"cut_te\xc3(", kind=pb.CUT, cut_id="cut_text"), "not a usage record"),
        (
            instead(b"\xff" * 4 + b"\x07", b"\x80" * 4 + b"\x08", kind=2**31 - 1),
            f"an unknown kind of reading: {-(2**31)}",
        ),
    ],
    ids=["tenant", "topic", "cut_id", "kind"],
)
def test_texts_that_are_none_and_numbers_beyond_their_type_are_as_protobuf_has_them(
    value: bytes, reason: str
) -> None:
    assert canonical_readings.split(value) is not None
    whole = record(readings=[reading()]).SerializeToString()
    found = by_place(facts([(0, 0, whole), (0, 1, value), (0, 2, whole)]))
    assert [row["reason"] for row in found if row["kind"] == "rejected"] == [reason]
    assert [row["src_offset"] for row in found if row["kind"] == "reading"] == [0, 2]


def test_a_record_that_ends_too_early_does_not_go_on_in_the_next_one() -> None:
    whole = record(readings=[reading(kind=pb.CUT, cut_id="cut_1")]).SerializeToString()
    found = facts([(0, 0, whole[:-2]), (0, 1, whole)])
    assert [(row["kind"], row["src_offset"]) for row in by_place(found)] == [
        ("rejected", 0), ("record", 1), ("reading", 1),
    ]  # fmt: skip
