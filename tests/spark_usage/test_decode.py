"""What records and their parts become, and which damage of them is rejected, without Spark."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from data_plane.contract import usage_pb2 as pb
from penstock.records.seal import pack_seal
from penstock.records.usage import minute_of
from spark_usage import decode
from spark_usage.decode import Damaged, facts_of, parse_record
from spark_usage.decoded_readings import MINUTE_MAX, RETAINED_MINUTES_MAX, TIME_MS_MAX
from tests.unit.verification.stored_log import BEGIN_MS, StoredLog

AT_MS = 1_700_000_000_000
LONG_MAX = 2**63 - 1


def record(**fields: Any) -> pb.UsageRecord:
    return pb.UsageRecord(**{"broker_id": 3, "boot_id": "boot", "sequence": 7, "made_ms": AT_MS, **fields})


def reading(**fields: Any) -> pb.Reading:
    values = {
        "tenant": "tn_a",
        "topic_id": b"t" * 16,
        "topic": "orders",
        "partition": 2,
        "log_generation": 1,
        "end_offset": 10,
        "accepted_ms": AT_MS,
        "totals": (4, 400, 3, 30, 3, 9),
        "kind": pb.PERIODIC,
    }
    return pb.Reading(**{**values, **fields})


def delivered(**fields: Any) -> pb.Delivered:
    values = {
        "tenant": "tn_a",
        "topic_id": b"t" * 16,
        "topic": "orders",
        "partition": 2,
        "group": "readers",
        "principal": 5,
        "minute": 9,
        "messages": 6,
        "bytes": 600,
    }
    return pb.Delivered(**{**values, **fields})


def elapsed(**fields: Any) -> pb.Elapsed:
    values: dict[str, Any] = {
        "tenant": "tn_a", "topic_id": b"t" * 16, "topic": "orders", "principal": 5, "minute": 9, "connection_ms": 70,
        "throttled_ms": 8,
    }  # fmt: skip
    return pb.Elapsed(**{**values, **fields})


def requests(**fields: Any) -> pb.Requests:
    values: dict[str, Any] = {"tenant": "tn_a", "operation": "fetch", "minute": 9, "valid": 5, "bad": 5}
    return pb.Requests(**{**values, **fields})


def sealed_at(time_ms: int) -> pb.SealedSegment:
    log = StoredLog()
    log.write(5, BEGIN_MS)
    log.write(5, BEGIN_MS, rolls=True)
    (seal,) = log.seals
    changed = replace(seal, first_accepted_ms=time_ms, last_accepted_ms=time_ms)
    return pb.SealedSegment(tenant="tn_a", seal=pack_seal(changed))


def kept(since: int = 9, until: int = 9, size: int = 5, copies: int = 7) -> dict[str, int]:
    return {
        "retained_since": since,
        "retained_until": until,
        "retained_byte_minutes": size,
        "replicated_byte_minutes": copies,
    }


def test_what_a_leadership_kept_is_a_part_of_its_reading_unless_it_does_not_count_that() -> None:
    _, counted, older = facts(readings=[reading(leader_epoch=3, **kept(until=12)), reading()])
    names = ("leader_epoch", "retained_since", "retained_until", "byte_minutes", "replicated_byte_minutes")
    assert [counted[name] for name in names] == [3, 9, 12, 5, 7]
    assert not set(names) & older.keys()


def facts(**parts: Any) -> list[dict[str, Any]]:
    return rows_of([(1, 22, record(**parts).SerializeToString())])


def rows_of(stored: list[tuple[int, int, bytes | None]]) -> list[dict[str, Any]]:
    """Facts in the order of their places, without what they have not."""
    rows = [row for batch in facts_of(stored) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["src_partition"], row["src_offset"], row["row"]))
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def test_a_record_becomes_one_fact_and_one_for_each_part_in_their_order() -> None:
    log = StoredLog()
    log.write(5, BEGIN_MS)
    log.write(5, BEGIN_MS, rolls=True)
    (seal,) = log.seals
    sealed = pb.SealedSegment(tenant="tn_a", seal=pack_seal(seal))
    found = facts(
        readings=[reading(), reading(end_offset=11)],
        delivered=[delivered()],
        requests=[
            requests(
                bad=2,
                succeeded_seconds=3,
                failed_seconds=1 << 59,
                latency_buckets=[7, 9],
                latency_counts=[1, 2],
            )
        ],
        seals=[sealed],
        elapsed=[elapsed(), elapsed(topic="", topic_id=b"")],
        boot_ends=True,
    )
    assert [(fact["kind"], fact["row"]) for fact in found] == [
        ("record", -1), ("reading", 0), ("reading", 1), ("delivered", 2), ("requests", 3), ("seal", 4),
        ("elapsed", 5), ("elapsed", 6),
    ]  # fmt: skip
    for fact in found:
        assert (fact["src_partition"], fact["src_offset"]) == (1, 22)
        assert (fact["broker_id"], fact["boot_id"], fact["sequence"], fact["made_ms"]) == (
            3,
            "boot",
            7,
            AT_MS,
        )
    assert found[0]["boot_ends"] is True and len(found[0]["digest"]) == 64
    assert found[1] | {
        "tenant": "tn_a", "topic_id": (b"t" * 16).hex(), "topic": "orders", "partition": 2, "log_generation": 1,
        "end_offset": 10, "accepted_ms": AT_MS, "totals": [4, 400, 3, 30, 3, 9], "principal_rows": [],
        "reading_kind": pb.PERIODIC, "cut_id": "", "cut_end_ms": 0, "last": False,
    } == found[1]  # fmt: skip
    assert (
        found[3] | {"group": "readers", "principal": 5, "minute": 9, "messages": 6, "bytes": 600} == found[3]
    )
    assert found[4] | {
        "operation": "fetch", "minute": 9, "valid": 5, "bad": 2, "succeeded_seconds": 3, "failed_seconds": 1 << 59,
        "latencies": [{"bucket": 7, "requests": 1}, {"bucket": 9, "requests": 2}],
    } == found[4]  # fmt: skip
    assert found[5] | {
        "tenant": "tn_a", "topic_id": seal.where.topic_id.hex(), "partition": seal.where.partition,
        "log_generation": seal.log_generation, "base_offset": 0, "end_offset": 5, "seal": sealed.seal,
    } == found[5]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"\xff\xff", "not a usage record"),
        (record(boot_id="").SerializeToString(), "no boot id"),
        (record(sequence=0).SerializeToString(), "no sequence"),
        (record(sequence=LONG_MAX + 1).SerializeToString(), "no sequence"),
    ],
)
def test_a_record_that_cannot_be_used_is_kept_as_one_rejection(value: bytes | None, reason: str) -> None:
    (fact,) = rows_of([(1, 22, value)])
    assert (fact["kind"], fact["row"], fact["record"]) == ("rejected", -1, value or b"")
    assert reason in fact["reason"]
    with pytest.raises(Damaged, match=reason):
        parse_record(value)


@pytest.mark.parametrize("sequence", [1, LONG_MAX])
def test_the_first_and_the_last_sequence_are_good(sequence: int) -> None:
    assert parse_record(record(sequence=sequence).SerializeToString()).sequence == sequence


def test_each_fact_has_the_place_of_its_own_record_however_they_fall_into_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decode, "_READINGS_A_BATCH", 3)
    good, bad = reading(), reading(topic="")
    given = [
        ("a", [bad, good, bad]), ("b", []), ("c", [good, good, good]), ("d", [bad]), ("e", [good]),
    ]  # fmt: skip
    stored: list[tuple[int, int, bytes | None]] = [
        (at % 2, 10 + at, record(boot_id=boot, sequence=at + 1, readings=some).SerializeToString())
        for at, (boot, some) in enumerate(given)
    ]
    stored.insert(2, (7, 3, None))
    facts_found = rows_of(stored)
    found = {
        (row["src_partition"], row["src_offset"], row["row"]): (
            row["kind"],
            row.get("boot_id"),
            row.get("sequence"),
        )
        for row in facts_found
    }
    wanted: dict[tuple[int, int, int], tuple[str, str | None, int | None]] = {
        (7, 3, -1): ("rejected", None, None)
    }
    for at, (boot, some) in enumerate(given):
        wanted[at % 2, 10 + at, -1] = ("record", boot, at + 1)
        for row, one in enumerate(some):
            wanted[at % 2, 10 + at, row] = ("rejected" if one is bad else "reading", boot, at + 1)
    assert found == wanted and len(facts_found) == len(wanted)


@pytest.mark.parametrize("a_batch", [1, 4, 100])
def test_readings_have_their_numbers_in_their_own_record_whatever_the_records_before_have(
    a_batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "_READINGS_A_BATCH", a_batch)
    counts = [1, 3, 0, 2]
    stored: list[tuple[int, int, bytes | None]] = [
        (1, offset, record(readings=[reading(end_offset=10 + at) for at in range(count)]).SerializeToString())
        for offset, count in enumerate(counts)
    ]
    found = [
        (row["src_offset"], row["row"], row["end_offset"])
        for row in rows_of(stored)
        if row["kind"] == "reading"
    ]
    assert found == [(offset, at, 10 + at) for offset, count in enumerate(counts) for at in range(count)]


_NOTHING: dict[str, Any] = {"totals": (0,) * 6, "accepted_ms": -1}


@pytest.mark.parametrize(
    "changes",
    [
        {"end_offset": 0, **_NOTHING},
        {"accepted_ms": 0},
        {"totals": (10, 1, 0, 0, 0, 0)},
        {"totals": (0, LONG_MAX, 0, LONG_MAX, 0, LONG_MAX)},
        {"partition": 2**31 - 1},
        {"log_generation": LONG_MAX},
        {"kind": pb.CUT, "cut_id": "cut_1", "last": True},
        {"kind": pb.FINAL, "last": True},
        {"kind": pb.GENERATION_START},
        kept(until=9, size=LONG_MAX, copies=LONG_MAX),
        kept(until=9 + RETAINED_MINUTES_MAX),
        kept(since=MINUTE_MAX, until=MINUTE_MAX),
        {"accepted_ms": TIME_MS_MAX},
    ],
)
def test_a_reading_at_the_bounds_of_what_can_be_is_taken(changes: dict[str, Any]) -> None:
    assert [fact["kind"] for fact in facts(readings=[reading(**changes)])] == ["record", "reading"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tenant": ""}, "no tenant"),
        ({"topic": ""}, "no topic"),
        ({"topic_id": b"t" * 15}, "a topic id of 15 bytes"),
        ({"topic_id": b"t" * 17}, "a topic id of 17 bytes"),
        (kept(until=8), "what was kept in -1 minutes"),
        (kept(until=10 + RETAINED_MINUTES_MAX), "what was kept in"),
        (kept(size=8), "less kept by all replicas than by one"),
        (kept(copies=LONG_MAX + 1), "byte-minutes 9223372036854775808 is too large"),
        ({"totals": (0,) * 5}, "5 totals instead of 6"),
        ({"totals": (0,) * 7}, "7 totals instead of 6"),
        ({"totals": (0, LONG_MAX + 1, 0, 0, 0, 0)}, "totals 9223372036854775808 is too large"),
        ({"end_offset": -1, **_NOTHING}, "a negative offset or time"),
        ({"accepted_ms": -2, "totals": (0,) * 6}, "a negative offset or time"),
        ({"accepted_ms": TIME_MS_MAX + 1}, "accepted_ms 253370764800001 is too large"),
        ({"accepted_ms": LONG_MAX}, "accepted_ms 9223372036854775807 is too large"),
        (kept(since=MINUTE_MAX, until=MINUTE_MAX + 1), "retained_until 4222846081 is too large"),
        ({"totals": (11, 0, 0, 0, 0, 0)}, "totals exceed the offsets below"),
        ({"totals": (0, 0, 11, 0, 0, 0)}, "totals exceed the offsets below"),
        ({"totals": (0, 0, 0, 0, 11, 0)}, "totals exceed the offsets below"),
        ({"totals": (4, 0, 4, 0, 3, 0)}, "totals exceed the offsets below"),
        ({"totals": (0, 0, 0, 0, 0, 1), "accepted_ms": -1}, "usage without a time"),
        ({"kind": 99}, "an unknown kind of reading: 99"),
        ({"kind": pb.CUT}, "a cut reading without its cut"),
        ({"last": True}, "a last reading of another kind"),
        ({"partition": 2**31}, "partition 2147483648 is too large"),
        ({"log_generation": LONG_MAX + 1}, "log_generation"),
    ],
)
def test_a_damaged_reading_is_rejected_by_its_number_and_the_others_are_not(
    changes: dict[str, Any], reason: str
) -> None:
    found = facts(readings=[reading(), reading(**changes), reading()])
    assert [(fact["kind"], fact["row"]) for fact in found] == [
        ("record", -1),
        ("reading", 0),
        ("rejected", 1),
        ("reading", 2),
    ]
    assert reason in found[2]["reason"]
    assert (
        found[2]["record"] == record(readings=[reading(), reading(**changes), reading()]).SerializeToString()
    )


def test_rows_of_a_readings_own_minute_are_added_up_by_principal() -> None:
    minute = minute_of(AT_MS)
    rows = [
        pb.PrincipalRow(minute=at, principal=principal, messages=messages, bytes=size)
        for at, principal, messages, size in (
            (minute, 9, 1, 10),
            (minute, 5, 2, 20),
            (minute, 9, 3, 30),
            (minute - 1, 5, 7, 70),
            (minute + 1, 4, 7, 70),
        )
    ]
    (_, fact) = facts(readings=[reading(minute_rows=rows)])
    assert fact["principal_rows"] == [
        {"principal": 5, "messages": 2, "bytes": 20},
        {"principal": 9, "messages": 4, "bytes": 40},
    ]
    for principals in ((9, 9), (9, 10)):
        huge = [
            pb.PrincipalRow(minute=minute, principal=one, messages=LONG_MAX, bytes=1) for one in principals
        ]
        found = facts(readings=[reading(minute_rows=huge)])[1]
        assert found["reason"] == f"rows {2 * LONG_MAX} is too large"
    most = [
        pb.PrincipalRow(minute=minute, principal=one, messages=count, bytes=1)
        for one, count in ((9, LONG_MAX - 1), (10, 1))
    ]
    assert facts(readings=[reading(minute_rows=most)])[1]["kind"] == "reading"


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (lambda: {"delivered": [delivered(tenant="")]}, "no tenant"),
        (lambda: {"delivered": [delivered(topic="")]}, "no topic"),
        (lambda: {"delivered": [delivered(messages=LONG_MAX + 1)]}, "messages "),
        (lambda: {"delivered": [delivered(bytes=LONG_MAX + 1)]}, "bytes "),
        (lambda: {"delivered": [delivered(other_zone_messages=7)]}, "more left the zone"),
        (lambda: {"delivered": [delivered(other_zone_bytes=601)]}, "more left the zone"),
        (lambda: {"delivered": [delivered(minute=MINUTE_MAX + 1)]}, "minute 4222846081 is too large"),
        (lambda: {"elapsed": [elapsed(minute=MINUTE_MAX + 1)]}, "minute "),
        (lambda: {"requests": [requests(minute=MINUTE_MAX + 1)]}, "minute "),
        (lambda: {"seals": [sealed_at(TIME_MS_MAX + 1)]}, "last_accepted_ms 253370764800001 is too large"),
        (lambda: {"seals": [sealed_at(-1)]}, "a negative time"),
        (lambda: {"elapsed": [elapsed(tenant="")]}, "no tenant"),
        (lambda: {"elapsed": [elapsed(topic="")]}, "half of a topic"),
        (lambda: {"elapsed": [elapsed(topic_id=b"")]}, "half of a topic"),
        (lambda: {"elapsed": [elapsed(topic_id=b"short")]}, "half of a topic"),
        (lambda: {"elapsed": [elapsed(connection_ms=LONG_MAX + 1)]}, "connection_ms "),
        (lambda: {"elapsed": [elapsed(throttled_ms=LONG_MAX + 1)]}, "throttled_ms "),
        (lambda: {"elapsed": [elapsed(leaderless_ms=LONG_MAX + 1)]}, "leaderless_ms "),
        (lambda: {"elapsed": [elapsed(partition=2**31)]}, "partition "),
        (lambda: {"elapsed": [elapsed(topic="", topic_id=b"", leaderless_ms=1)]}, "a partition of no topic"),
        (lambda: {"requests": [requests(tenant="")]}, "no tenant"),
        (lambda: {"requests": [requests(operation="other")]}, "an unknown operation: 'other'"),
        (lambda: {"requests": [requests(bad=6)]}, "more failed requests than requests"),
        (lambda: {"requests": [requests(failed_seconds=1 << 60)]}, "seconds "),
        (lambda: {"requests": [requests(latency_buckets=[1])]}, "buckets of latencies without counts"),
        (
            lambda: {"requests": [requests(latency_buckets=[1], latency_counts=[1])]},
            "more latencies than good",
        ),
        (
            lambda: {"requests": [requests(bad=0, latency_buckets=[1_001], latency_counts=[1])]},
            "bucket 1001 is too large",
        ),
        (lambda: {"requests": [requests(valid=decode.REQUESTS_MAX + 1)]}, "valid "),
        (lambda: {"seals": [pb.SealedSegment(tenant="tn_a", seal=b"none")]}, "a damaged seal"),
    ],
)
def test_other_damaged_parts_are_rejected_with_their_reason(
    part: Callable[[], dict[str, Any]], reason: str
) -> None:
    found = facts(**part())
    assert [(fact["kind"], fact["row"]) for fact in found] == [("record", -1), ("rejected", 0)]
    assert found[1]["reason"].startswith(reason)


@pytest.mark.parametrize(
    "parts",
    [
        {"delivered": [delivered(minute=MINUTE_MAX, messages=LONG_MAX, bytes=LONG_MAX)]},
        {"delivered": [delivered(other_zone_messages=6, other_zone_bytes=600)]},
        {"delivered": [delivered(partition=2**31 - 1, minute=0, messages=0, bytes=0)]},
        {"elapsed": [elapsed(minute=MINUTE_MAX, connection_ms=LONG_MAX, throttled_ms=LONG_MAX)]},
        {"elapsed": [elapsed(partition=2**31 - 1, leaderless_ms=LONG_MAX)]},
        {"elapsed": [elapsed(topic="", topic_id=b"", connection_ms=0, throttled_ms=0)]},
        {"requests": [requests(minute=MINUTE_MAX, valid=decode.REQUESTS_MAX)]},
        {"requests": [requests(succeeded_seconds=(1 << 60) - 1, failed_seconds=(1 << 60) - 1)]},
        {"requests": [requests(bad=4, latency_buckets=[1_000], latency_counts=[1])]},
        {"seals": [sealed_at(0)]},
        {"seals": [sealed_at(TIME_MS_MAX)]},
    ],
    ids=lambda parts: "-".join(parts),
)
def test_other_parts_at_the_bounds_of_what_can_be_are_taken(parts: dict[str, Any]) -> None:
    assert [fact["row"] for fact in facts(**parts) if fact["kind"] not in ("record", "rejected")] == [0]


def test_bytes_after_a_seal_are_damage() -> None:
    log = StoredLog()
    log.write(5, BEGIN_MS)
    log.write(5, BEGIN_MS, rolls=True)
    sealed = pb.SealedSegment(tenant="tn_a", seal=pack_seal(log.seals[0]) + b"!")
    assert facts(seals=[sealed])[1]["reason"] == "bytes after a seal"
