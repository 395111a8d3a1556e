"""An honest invoice is proven from log, seals and the brokers' cuts, whatever was deleted; what the log contradicts is
found and named.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.documents import InvoiceDocument, read_document
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.batch import BATCH_HEADER_BYTES
from penstock.records.cut import cut_sha256
from penstock.records.stamp import STAMP_BYTES, stamp_seed, unpack_stamp
from penstock.verification.claims import cut_ends
from penstock.verification.findings import Kind, Report, Verdict
from penstock.verification.stamped_reads import StampedBatches
from tests.unit.verification.honest import PERIOD_MS, TENANT, Service, rate_again
from tests.unit.verification.stored_log import BEGIN_MS, DAY_MS, StoredLog


def two_days() -> StoredLog:
    """Three segments over two days: offsets 0-9 and 10-19 sealed, 20-24 not; batches end at 4, 10, 13, 20, 25."""
    log = StoredLog()
    log.write(4, BEGIN_MS + 1)
    log.write(6, BEGIN_MS + 2)
    log.write(3, BEGIN_MS + 3, rolls=True)
    log.write(7, BEGIN_MS + DAY_MS + 1)
    log.write(5, BEGIN_MS + DAY_MS + 60_001, rolls=True)
    return log


def billed(*logs: StoredLog) -> Service:
    """A service that has issued one invoice over these logs."""
    service = Service(*logs)
    service.cut()
    return service


def kinds(report: Report) -> set[Kind]:
    return {problem.kind for problem in report.problems}


def test_an_honest_invoice_is_proven_from_log_and_seals() -> None:
    log = two_days()
    report = billed(log).verify()
    assert report.problems == ()
    assert report.verdict is Verdict.PROVEN
    (finding,) = report.partitions
    assert (finding.messages, finding.batches, finding.segments_sealed) == (25, 5, 2)
    assert finding.bytes == sum(len(batch) for batch in log.batches)
    assert [(day.first_offset, day.end_offset, day.messages) for day in finding.days] == [
        (0, 13, 13),
        (13, 25, 12),
    ]
    assert report.due_total_micro == report.billed_total_micro > 0
    assert [line.counted_quantity for line in report.lines] == [25, finding.bytes]
    assert report.to_dict()["proven"] is True


class Counted(Service):
    """A service whose brokers give this key headers and stamps, and no record."""

    def read(self, where: TopicPartition, offset: int, end_offset: int, bytes_max: int = 0) -> StampedBatches:
        answer = super().read(where, offset, end_offset, bytes_max)
        headers, at = b"", 0
        for place in range(0, len(answer.stamps), STAMP_BYTES):
            headers += answer.batches[at : at + BATCH_HEADER_BYTES]
            at += unpack_stamp(answer.stamps, stamp_seed(where), place).size
        return replace(answer, batches=headers, headers_only=True)


def test_a_key_that_reads_no_record_proves_the_same_from_headers_stamps_and_seals() -> None:
    log = two_days()
    service = Counted(log)
    service.cut()
    report = service.verify()
    assert (report.problems, report.verdict) == ((), Verdict.PROVEN)
    (finding,) = report.partitions
    assert (finding.messages, finding.batches, finding.by_headers, finding.segments_sealed) == (25, 5, 5, 2)
    assert report.lines == billed(two_days()).verify().lines


def test_a_header_that_was_altered_is_named_without_a_record() -> None:
    # The count of records, the leader's epoch, the checksum of the records.
    for at, kind in ((60, Kind.BATCH_ALTERED), (15, Kind.STAMP_ALTERED), (20, Kind.SEAL_MISMATCH)):
        log = two_days()
        service = Counted(log)
        service.cut()
        altered = bytearray(log.batches[0])
        altered[at] ^= 1
        log.batches[0] = altered
        report = service.verify()
        assert report.verdict is Verdict.WRONG and kind in kinds(report), (at, report.problems)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3 * DAY_MS // 4), st.booleans()), max_size=12),
    st.data(),
)
def test_any_log_cut_anywhere_is_proven_period_by_period_whatever_is_deleted(
    writes: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    log, at_ms = StoredLog(), BEGIN_MS
    bounds, times = [0], [BEGIN_MS + 1]
    for count, later, rolls in writes:
        at_ms += later
        log.write(count, at_ms, rolls=rolls)
        bounds.append(log.end_offset)
        times.append(at_ms + 1)
    cut = data.draw(st.sampled_from(range(len(bounds))))
    while cut + 1 < len(bounds) and times[cut + 1] == times[cut]:
        cut += 1  # a period cannot end between two batches of one ms
    service = Service(log)
    service.cut(times[cut], {log.where: bounds[cut]})
    service.cut(at_ms + 2)
    assert service.verify("inv_1").problems == ()
    assert service.verify("inv_2").problems == ()
    log.delete_below(data.draw(st.integers(0, log.end_offset)))
    for invoice in ("inv_1", "inv_2"):
        report = service.verify(invoice)
        assert report.verdict is not Verdict.WRONG, report.problems
        # Only how deleted offsets divide into days may stay untold.
        assert all("divide into days" in problem.message for problem in report.problems)
        if len(service.documents[invoice]["partitions"][0]["days"]) <= 1:
            assert report.proven


@pytest.mark.parametrize("index", range(5))
def test_one_altered_byte_of_a_batch_is_found_at_its_offset(index: int) -> None:
    log = two_days()
    service = billed(log)
    log.flip(index)
    report = service.verify()
    assert Kind.BATCH_ALTERED in kinds(report)
    assert report.verdict is Verdict.WRONG
    assert report.problems[0].offset == log.stamp(index).base_offset
    assert f"offset {log.stamp(index).base_offset}" in report.problems[0].message
    assert report.problems[0].where == "orders-0"


@pytest.mark.parametrize(
    "changes", [{"accepted_ms": BEGIN_MS + 2}, {"principal": 8}, {"position": 9}], ids=lambda c: next(iter(c))
)
def test_a_stamp_altered_with_a_good_checksum_breaks_the_seal_of_its_segment(changes: dict[str, int]) -> None:
    log = two_days()
    service = billed(log)
    log.restamp(2, **changes)
    report = service.verify()
    assert kinds(report) == {Kind.SEAL_MISMATCH}
    assert "segment 10 to 20" in report.problems[0].message


@pytest.mark.parametrize("changes", [{"record_count": 4}, {"leader_epoch": 4}, {"producer_id": 5}])
def test_a_stamp_that_says_something_else_than_its_batch_is_found_without_a_seal(
    changes: dict[str, int],
) -> None:
    log = two_days()
    service = billed(log)
    log.restamp(4, **changes)
    assert Kind.STAMP_ALTERED in kinds(service.verify())


def test_a_damaged_stamp_is_named() -> None:
    log = two_days()
    service = billed(log)
    log.stamps[3][20] ^= 1
    report = service.verify()
    assert Kind.STAMP_ALTERED in kinds(report)
    assert report.problems[0].offset == 13


def test_a_batch_that_is_missing_in_the_middle_is_named() -> None:
    log = two_days()
    service = billed(log)
    del log.batches[1], log.stamps[1]
    report = service.verify()
    assert Kind.OFFSETS_NOT_CONTIGUOUS in kinds(report)
    assert "4" in report.problems[0].message


def test_a_log_that_ends_too_early_is_named() -> None:
    log, longer = two_days(), two_days()
    longer.write(9, BEGIN_MS + 2 * DAY_MS)
    service = billed(longer)
    service.logs = [log]
    assert Kind.OFFSETS_NOT_CONTIGUOUS in kinds(service.verify())


def test_a_log_that_holds_other_totals_than_the_brokers_cut_is_named() -> None:
    log, other = two_days(), two_days()
    service = billed(log)
    other.lose_from(20)  # and other batches come in its place
    other.generation = 0
    other.write(4, BEGIN_MS + DAY_MS + 60_001)
    other.write(1, BEGIN_MS + DAY_MS + 60_002)
    service.logs = [other]
    assert service.verify().verdict is Verdict.WRONG


def test_a_cut_before_the_periods_last_message_is_named() -> None:
    log = two_days()
    service = Service(log)
    service.cut(ends={log.where: 20})
    assert Kind.CUT_DIFFERS in kinds(service.verify())


def test_a_cut_beyond_the_periods_end_is_named() -> None:
    service = Service(two_days())
    service.cut(BEGIN_MS + DAY_MS)
    assert Kind.CUT_DIFFERS in kinds(service.verify())


def test_batches_accepted_before_the_period_began_are_named_but_for_a_difference_of_clocks() -> None:
    log = StoredLog()
    log.write(2, BEGIN_MS - 59_000)
    service = billed(log)
    assert service.verify().proven
    early = StoredLog()
    early.write(2, BEGIN_MS - 61_000)
    assert Kind.CUT_DIFFERS in kinds(billed(early).verify())


def test_a_later_period_gives_clocks_no_room() -> None:
    log = StoredLog()
    log.write(2, BEGIN_MS + 1)
    service = billed(log)
    log.write(2, BEGIN_MS + PERIOD_MS - 1)
    service.cut()
    assert Kind.CUT_DIFFERS in kinds(service.verify("inv_2"))


def test_segments_that_retention_deleted_are_told_by_the_seals_that_brokers_keep() -> None:
    log = two_days()
    service = billed(log)
    log.delete_below(20)
    report = service.verify()
    assert report.problems == ()
    assert report.partitions[0].by_seals == (0, 20)
    assert report.partitions[0].messages == 25
    assert report.partitions[0].verdict == "proven, partly by seals alone"


def test_a_log_start_within_a_segment_leaves_that_segment_to_its_seal() -> None:
    log = two_days()
    service = billed(log)
    log.delete_below(4)
    report = service.verify()
    assert report.problems == ()
    assert report.partitions[0].by_seals == (0, 10)
    assert report.partitions[0].segments_sealed == 1


def test_deleted_segments_without_a_seal_are_told_by_the_brokers_cut_but_for_their_days() -> None:
    log = two_days()
    service = billed(log)
    del log.seals[0]
    log.delete_below(20)
    report = service.verify()
    assert report.verdict is Verdict.PARTLY
    (problem,) = report.problems
    assert (problem.kind, problem.offset, problem.end_offset) == (Kind.UNPROVEN, 0, 25)
    assert report.partitions[0].by_cuts == (0, 20)
    assert report.partitions[0].messages == 25


def test_records_deleted_within_the_open_segment_are_told_by_the_brokers_cut() -> None:
    log = StoredLog()
    for number in range(5):
        log.write(3, BEGIN_MS + number)
    service = billed(log)
    log.delete_below(7)  # within a batch, which is read as a whole
    report = service.verify()
    assert report.proven, report.problems
    assert report.partitions[0].by_cuts == (0, 6)
    assert (report.partitions[0].messages, report.partitions[0].batches) == (15, 3)


def test_what_is_left_of_a_deleted_range_must_fit_into_what_was_billed() -> None:
    log = StoredLog()
    for number in range(4):
        log.write(3, BEGIN_MS + number)
    service = Service(log)
    service.cut(BEGIN_MS + 2, {log.where: 6})
    service.cut()
    log.delete_below(3)
    assert service.verify("inv_1").proven
    assert service.verify("inv_2").proven
    padded = service.documents["inv_2"]
    padded["cut"]["readings"][0]["messages"] += 1
    padded["partitions"][0]["days"][0]["messages"] += 1
    cut = service.cuts[1]
    service.rechain()
    rate_again(padded, service.book)
    service.rechain()
    service.show_again()
    readings = read_document(padded, InvoiceDocument, "test").cut.readings
    # Brokers that keep a wrong cut are contradicted by the log that is left.
    sha256 = cut_sha256(TENANT, cut.cut_id, cut.end_ms, cut_ends(readings))
    service.cuts[1] = replace(cut, sha256=sha256)
    assert Kind.QUANTITY_DIFFERS in kinds(service.verify("inv_2"))


def test_a_deleted_topic_is_told_by_the_cut_that_closed_it() -> None:
    log = StoredLog()
    log.write(3, BEGIN_MS + 5)
    service = Service(log)
    service.delete_topic(log)
    service.cut()
    report = service.verify()
    assert report.proven, report.problems
    assert report.partitions[0].by_cuts == (0, 3)
    assert report.partitions[0].verdict == "proven, partly by cuts alone"
    service.cut()
    assert service.verify("inv_2").proven
    assert service.documents["inv_2"]["partitions"] == []


def test_a_topic_deleted_after_its_invoice_leaves_only_the_days_untold() -> None:
    log = two_days()
    service = billed(log)
    service.delete_topic(log)
    service.cut()
    for invoice in ("inv_1", "inv_2"):
        report = service.verify(invoice)
        assert report.verdict is (Verdict.PARTLY if invoice == "inv_1" else Verdict.PROVEN)
        assert kinds(report) <= {Kind.UNPROVEN}
    assert service.verify().partitions[0].messages == 25


def test_a_last_reading_may_be_younger_than_the_period_and_no_other() -> None:
    log = StoredLog()
    log.write(3, BEGIN_MS + PERIOD_MS + 5)
    service = Service(log)
    service.delete_topic(log)
    service.cut()
    assert service.verify().proven
    kept = StoredLog()
    kept.write(3, BEGIN_MS + PERIOD_MS + 5)
    assert Kind.CUT_DIFFERS in kinds(billed(kept).verify())


def test_a_seal_of_the_brokers_that_does_not_fit_the_log_is_found() -> None:
    log = two_days()
    service = billed(log)
    log.seals[0] = replace(log.seals[0], last_accepted_ms=BEGIN_MS + 9)
    report = service.verify()
    assert kinds(report) == {Kind.SEAL_MISMATCH}
    assert "last_accepted_ms" in report.problems[0].message


def test_coarser_days_are_proven_when_a_boundary_reading_was_lost() -> None:
    service = billed(two_days())
    document = service.documents["inv_1"]
    first, last = document["partitions"][0]["days"]
    joined = {
        **last,
        "first_offset": first["first_offset"],
        "messages": first["messages"] + last["messages"],
        "bytes": first["bytes"] + last["bytes"],
    }
    document["partitions"][0]["days"] = [joined]
    service.rechain()
    assert service.verify().proven


def test_every_partition_of_every_topic_counts() -> None:
    logs = [two_days(), StoredLog(1), StoredLog(2), StoredLog(0, TopicId(bytes(16)), "returns")]
    logs[1].write(3, BEGIN_MS + 5)
    logs[3].write(8, BEGIN_MS + 6)
    report = billed(*logs).verify()
    assert report.proven
    assert [(f.topic, f.partition, f.messages) for f in report.partitions] == [
        ("orders", 0, 25), ("orders", 1, 3), ("orders", 2, 0), ("returns", 0, 8),
    ]  # fmt: skip


def test_an_empty_partition_that_holds_messages_of_the_period_is_named() -> None:
    log = StoredLog()
    log.write(3, BEGIN_MS + 5)
    service = Service(log)
    service.cut(ends={log.where: 0})
    assert Kind.CUT_DIFFERS in kinds(service.verify())


def test_a_live_partition_with_messages_of_the_period_that_no_cut_knows_is_named() -> None:
    service = billed(two_days())
    hidden = StoredLog(1)
    hidden.write(3, BEGIN_MS + 5)
    service.logs.append(hidden)
    assert kinds(service.verify()) == {Kind.PARTITION_OMITTED}


def test_reading_a_partition_that_fails_for_good_leaves_the_others_proven() -> None:
    broken, whole = two_days(), StoredLog(1)
    whole.write(3, BEGIN_MS + 5)
    service = billed(broken, whole)
    broken.stamps, broken.batches = [], []
    report = service.verify()
    assert [finding.verdict == "proven" for finding in report.partitions] == [False, True]


def test_an_invoice_that_is_a_draft_is_no_invoice_yet() -> None:
    service = billed(two_days())
    draft = {"status": "draft", "gaps": ["orders-0: gap"], "document": None}
    service.evidence = lambda invoice_id: draft  # type: ignore[method-assign]
    with pytest.raises(InvalidRequest, match=r"is a draft.*orders-0: gap"):
        service.verify()


def test_a_deleted_partition_that_an_operator_gave_up_is_billed_nowhere_and_nothing_is_wrong() -> None:
    log = StoredLog()
    log.write(3, BEGIN_MS + 5)
    service = Service(log)
    service.delete_topic(log)
    service.cut()
    service.documents["inv_1"]["partitions"] = []
    rate_again(service.documents["inv_1"], service.book)
    service.rechain()
    service.show_again()
    assert service.verify().problems == ()
