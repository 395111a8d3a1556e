"""An honest invoice is proven, and every single alteration is found and named."""

import base64
import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TopicId
from penstock.records.seal import pack_seal, unpack_seal
from penstock.verification.evidence import read_evidence
from penstock.verification.findings import Kind, Report
from penstock.verification.proving import prove
from tests.unit.verification.stored_log import BEGIN_MS, DAY_MS, Leaders, StoredLog, invoice_of


def two_days() -> StoredLog:
    """Three segments over two days: offsets 0-9 and 10-19 sealed, 20-24 not."""
    log = StoredLog()
    log.write(4, BEGIN_MS + 1)
    log.write(6, BEGIN_MS + 2)
    log.write(3, BEGIN_MS + 3, rolls=True)
    log.write(7, BEGIN_MS + DAY_MS + 1)
    log.write(5, BEGIN_MS + DAY_MS + 60_001, rolls=True)
    return log


def verify(document: dict[str, Any], *logs: StoredLog, previous: dict[str, Any] | None = None) -> Report:
    before = None if previous is None else read_evidence(previous)
    return prove(read_evidence(document), before, Leaders(*logs))


def kinds(report: Report) -> set[Kind]:
    return {problem.kind for problem in report.problems}


def test_an_honest_invoice_is_proven_from_log_and_seals() -> None:
    log = two_days()
    report = verify(invoice_of(log), log)
    assert report.problems == ()
    assert report.proven
    (finding,) = report.partitions
    assert (finding.messages, finding.batches, finding.segments_sealed) == (25, 5, 2)
    assert finding.bytes == sum(len(batch) for batch in log.batches)
    assert [(day.first_offset, day.end_offset, day.messages) for day in finding.days] == [
        (0, 13, 13),
        (13, 25, 12),
    ]
    assert report.counted_total_micro == report.billed_total_micro > 0
    assert report.to_dict()["proven"] is True


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3 * DAY_MS // 4), st.booleans()), max_size=12),
    st.data(),
)
def test_any_log_cut_anywhere_is_proven_period_by_period(
    writes: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    log, at_ms = StoredLog(), BEGIN_MS
    bounds, times = [0], [BEGIN_MS]
    for count, later, rolls in writes:
        at_ms += later
        log.write(count, at_ms, rolls=rolls)
        bounds.append(log.end_offset)
        times.append(at_ms + 1)
    cut = data.draw(st.sampled_from(range(len(bounds))))
    while cut + 1 < len(bounds) and times[cut + 1] == times[cut]:
        cut += 1  # a period cannot end between two batches of one ms
    first = invoice_of(log, ends={0: bounds[cut]}, end_ms=times[cut])
    assert verify(first, log).problems == ()
    second = invoice_of(
        log, starts={0: bounds[cut]}, begin_ms=times[cut], end_ms=at_ms + 1, previous="inv_1", invoice="inv_2"
    )
    assert verify(second, log, previous=first).problems == ()


@pytest.mark.parametrize("index", range(5))
def test_one_altered_byte_of_a_batch_is_found_at_its_offset(index: int) -> None:
    log = two_days()
    document = invoice_of(log)
    log.flip(index)
    report = verify(document, log)
    assert Kind.BATCH_ALTERED in kinds(report)
    assert report.problems[0].offset == log.stamp(index).base_offset
    assert f"offset {log.stamp(index).base_offset}" in report.problems[0].message
    assert report.problems[0].where == "orders-0"


@pytest.mark.parametrize(
    "changes", [{"accepted_ms": BEGIN_MS + 2}, {"principal": 8}, {"position": 9}], ids=lambda c: next(iter(c))
)
def test_a_stamp_altered_with_a_good_checksum_breaks_the_seal_of_its_segment(changes: dict[str, int]) -> None:
    log = two_days()
    document = invoice_of(log)
    log.restamp(2, **changes)
    report = verify(document, log)
    assert kinds(report) == {Kind.SEAL_MISMATCH}
    assert "segment 10 to 20" in report.problems[0].message


@pytest.mark.parametrize("changes", [{"record_count": 4}, {"leader_epoch": 4}, {"producer_id": 5}])
def test_a_stamp_that_says_something_else_than_its_batch_is_found_without_a_seal(
    changes: dict[str, int],
) -> None:
    log = two_days()
    document = invoice_of(log)
    log.restamp(4, **changes)
    assert Kind.STAMP_ALTERED in kinds(verify(document, log))


def test_a_damaged_stamp_is_named() -> None:
    log = two_days()
    document = invoice_of(log)
    log.stamps[3][20] ^= 1
    report = verify(document, log)
    assert Kind.STAMP_ALTERED in kinds(report)
    assert report.problems[0].offset == 13


def test_a_batch_that_is_missing_in_the_middle_is_named() -> None:
    log = two_days()
    document = invoice_of(log)
    del log.batches[1], log.stamps[1]
    report = verify(document, log)
    assert Kind.OFFSETS_NOT_CONTIGUOUS in kinds(report)
    assert "4" in report.problems[0].message


def test_a_log_that_ends_too_early_is_named() -> None:
    log, longer = two_days(), two_days()
    longer.write(9, BEGIN_MS + 2 * DAY_MS)
    report = verify(invoice_of(longer), log)
    assert Kind.OFFSETS_NOT_CONTIGUOUS in kinds(report)


Alter = Callable[[dict[str, Any]], None]


def _quantity(document: dict[str, Any]) -> None:
    document["partitions"][0]["days"][0]["quantities"]["messages_in"] += 1


def _line_quantity(document: dict[str, Any]) -> None:
    document["invoice"]["lines"][0]["quantity"] += 1


def _line_amount(document: dict[str, Any]) -> None:
    document["invoice"]["lines"][1]["amount_micro"] += 10_000


def _total(document: dict[str, Any]) -> None:
    document["invoice"]["total_micro"] += 10_000


def _price(document: dict[str, Any]) -> None:
    document["price_book"]["meters"][0]["tiers"][0]["unit_price"] = "0.020000000001"


def _range(document: dict[str, Any]) -> None:
    document["partitions"][0]["days"][1]["first_offset"] += 1


def _end(document: dict[str, Any]) -> None:
    document["cut"]["readings"][0]["end_offset"] = 20


def _start(document: dict[str, Any]) -> None:
    document["partitions"][0]["start_offset"] = 4


def _day(document: dict[str, Any]) -> None:
    document["partitions"][0]["days"][0]["day"] = document["partitions"][0]["days"][1]["day"]


def _extra_line(document: dict[str, Any]) -> None:
    document["invoice"]["lines"].append(
        {**document["invoice"]["lines"][0], "meter": "gifts", "amount_micro": 0}
    )


def _no_line(document: dict[str, Any]) -> None:
    del document["invoice"]["lines"][1]


def _line_id(document: dict[str, Any]) -> None:
    document["invoice"]["lines"][0]["id"] = "il_0"


def _partition_gone(document: dict[str, Any]) -> None:
    document["partitions"], document["cut"]["readings"] = [], []


def _partition_uncounted(document: dict[str, Any]) -> None:
    document["partitions"] = []


def _draft(document: dict[str, Any]) -> None:
    document["invoice"].update(status="draft", gaps=["orders-0: gap"])


@pytest.mark.parametrize(
    ("alter", "kind"),
    [
        (_quantity, Kind.QUANTITY_DIFFERS),
        (_line_quantity, Kind.LINE_DIFFERS),
        (_line_amount, Kind.AMOUNT_DIFFERS),
        (_total, Kind.TOTAL_DIFFERS),
        (_price, Kind.PRICE_DIFFERS),
        (_range, Kind.OFFSETS_NOT_CONTIGUOUS),
        (_end, Kind.CUT_DIFFERS),
        (_start, Kind.OFFSETS_NOT_CONTIGUOUS),
        (_day, Kind.DAY_DIFFERS),
        (_extra_line, Kind.LINE_DIFFERS),
        (_no_line, Kind.LINE_DIFFERS),
        (_line_id, Kind.LINE_DIFFERS),
        (_partition_gone, Kind.PARTITION_OMITTED),
        (_partition_uncounted, Kind.PARTITION_OMITTED),
        (_draft, Kind.NOT_ISSUED),
    ],
)
def test_each_number_of_the_invoice_that_is_altered_is_named(alter: Alter, kind: Kind) -> None:
    log = two_days()
    document = invoice_of(log)
    assert verify(document, log).proven
    alter(document)
    assert kind in kinds(verify(document, log))


def test_prices_altered_together_with_their_hash_and_amounts_differ_from_the_promised_hash() -> None:
    log = two_days()
    evidence = read_evidence(invoice_of(log))
    report = prove(evidence, None, Leaders(log), price_book_sha256="0" * 64)
    assert kinds(report) == {Kind.PRICE_DIFFERS}
    assert prove(evidence, None, Leaders(log), price_book_sha256=evidence.price_book.sha256).proven


def test_a_cut_before_the_periods_last_message_is_named() -> None:
    log = two_days()
    assert Kind.CUT_DIFFERS in kinds(verify(invoice_of(log, ends={0: 20}), log))


def test_a_cut_beyond_the_periods_end_is_named() -> None:
    log = two_days()
    document = invoice_of(log, end_ms=BEGIN_MS + DAY_MS)
    assert Kind.CUT_DIFFERS in kinds(verify(document, log))


def test_a_second_period_that_leaves_offsets_out_is_named() -> None:
    log = two_days()
    first = invoice_of(log, ends={0: 10}, end_ms=BEGIN_MS + 3)
    second = invoice_of(log, starts={0: 13}, begin_ms=BEGIN_MS + 3, previous="inv_1", invoice="inv_2")
    assert Kind.OFFSETS_NOT_CONTIGUOUS in kinds(verify(second, log, previous=first))


def test_a_period_that_does_not_begin_where_the_last_one_ended_is_named() -> None:
    log = two_days()
    first = invoice_of(log, ends={0: 10}, end_ms=BEGIN_MS + 3)
    second = invoice_of(log, starts={0: 10}, begin_ms=BEGIN_MS + 4, previous="inv_1", invoice="inv_2")
    assert Kind.CUT_DIFFERS in kinds(verify(second, log, previous=first))


def test_segments_that_retention_deleted_are_told_by_their_seals() -> None:
    log = two_days()
    document = invoice_of(log)
    log.delete_below(20)
    report = verify(document, log)
    assert report.problems == ()
    assert report.partitions[0].by_seals_alone == (0, 20)
    assert report.partitions[0].messages == 25
    assert report.partitions[0].verdict == "proven, partly by seals alone"


def test_a_log_start_within_a_segment_leaves_that_segment_to_its_seal() -> None:
    log = two_days()
    document = invoice_of(log)
    log.delete_below(4)
    report = verify(document, log)
    assert report.problems == ()
    assert report.partitions[0].by_seals_alone == (0, 10)
    assert report.partitions[0].segments_sealed == 1


def test_deleted_segments_without_a_seal_are_unproven() -> None:
    log = two_days()
    document = invoice_of(log)
    del document["seals"][0]
    log.delete_below(20)
    report = verify(document, log)
    assert Kind.UNPROVEN in kinds(report)
    assert "offsets 0 to 20" in report.problems[0].message


def test_a_deleted_topic_is_told_by_its_seals_as_far_as_they_reach() -> None:
    log = two_days()
    assert Kind.UNPROVEN in kinds(verify(invoice_of(log)))
    assert verify(invoice_of(log, ends={0: 20})).proven


def test_a_seal_that_was_altered_with_a_good_checksum_is_found() -> None:
    log = two_days()
    document = invoice_of(log)
    seal, _ = unpack_seal(base64.b64decode(document["seals"][0]["seal"]))
    forged = pack_seal(
        type(seal)(**{n: getattr(seal, n) for n in seal.__slots__} | {"last_accepted_ms": BEGIN_MS + 9})
    )
    document["seals"][0]["seal"] = base64.b64encode(forged).decode()
    report = verify(document, log)
    assert kinds(report) == {Kind.SEAL_MISMATCH}
    assert "last_accepted_ms" in report.problems[0].message


def test_a_seal_with_a_damaged_byte_is_named() -> None:
    log = two_days()
    document = invoice_of(log)
    raw = bytearray(base64.b64decode(document["seals"][0]["seal"]))
    raw[60] ^= 1
    document["seals"][0]["seal"] = base64.b64encode(raw).decode()
    assert Kind.SEAL_DAMAGED in kinds(verify(document, log))


def test_coarser_days_are_proven_when_a_boundary_reading_was_lost() -> None:
    log = two_days()
    document = invoice_of(log)
    first, last = document["partitions"][0]["days"]
    joined = {
        "day": last["day"],
        "first_offset": first["first_offset"],
        "end_offset": last["end_offset"],
        "quantities": {m: first["quantities"][m] + last["quantities"][m] for m in first["quantities"]},
    }
    document["partitions"][0]["days"] = [joined]
    assert verify(document, log).proven


def test_every_partition_of_every_topic_counts() -> None:
    logs = [two_days(), StoredLog(1), StoredLog(2), StoredLog(0, TopicId(bytes(16)), "returns")]
    logs[1].write(3, BEGIN_MS + 5)
    logs[3].write(8, BEGIN_MS + 6)
    report = verify(invoice_of(*logs), *logs)
    assert report.proven
    assert [(f.topic, f.partition, f.messages) for f in report.partitions] == [
        ("orders", 0, 25), ("orders", 1, 3), ("orders", 2, 0), ("returns", 0, 8),
    ]  # fmt: skip


def test_an_empty_partition_that_holds_messages_of_the_period_is_named() -> None:
    log = StoredLog()
    log.write(3, BEGIN_MS + 5)
    assert Kind.CUT_DIFFERS in kinds(verify(invoice_of(log, ends={0: 0}), log))


def test_reading_a_partition_that_fails_for_good_leaves_the_others_proven() -> None:
    broken, whole = two_days(), StoredLog(1)
    whole.write(3, BEGIN_MS + 5)
    document = invoice_of(broken, whole)
    broken.stamps, broken.batches = [], []
    report = verify(document, broken, whole)
    assert [finding.verdict == "proven" for finding in report.partitions] == [False, True]


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("cut"),
        lambda d: d["invoice"].pop("lines"),
        lambda d: d["partitions"][0].update(topic_id="zz"),
        lambda d: d["partitions"][0].update(topic_id="00"),
        lambda d: d["partitions"][0].update(start_offset=99),
        lambda d: d["partitions"][0]["days"][0].update(day="yesterday"),
        lambda d: d.update(price_book={}),
        lambda d: d["invoice"].update(period_end="soon"),
    ],
)
def test_evidence_that_cannot_be_read_is_refused(damage: Callable[[Any], Any]) -> None:
    document = copy.deepcopy(invoice_of(two_days()))
    damage(document)
    with pytest.raises(InvalidRequest):
        read_evidence(document)
