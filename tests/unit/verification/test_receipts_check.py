"""A bill against receipts: each kind of finding, and what is told without being wrong."""

from dataclasses import replace
from datetime import date, timedelta

import pytest

from penstock.contract.ids import TopicId, TopicPartition
from penstock.receipts import AcknowledgedRange, Receipts, ReceiptsSource
from penstock.rules.timestamps import day_start_ms
from penstock.verification.receipts_check import (
    BilledPart,
    ReceiptsComparison,
    ReceiptsKind,
    check_receipts,
    offsets_to_count,
)

HERE = TopicPartition(TopicId(bytes(16)), 0)
DAY = date(2026, 7, 10)
PERIOD = (day_start_ms(date(2026, 7, 1)), day_start_ms(date(2026, 8, 1)))


def acknowledged(
    first: int,
    end: int,
    size: int | None = None,
    *,
    day: date = DAY,
    epoch: int = 3,
    acks: int = -1,
    source: str = "one",
) -> AcknowledgedRange:
    return AcknowledgedRange(
        first_offset=first,
        end_offset=end,
        bytes=100 * (end - first) if size is None else size,
        day=day,
        leader_epoch=epoch,
        acks=acks,
        source=source,
    )


def receipts(*ranges: AcknowledgedRange, where: TopicPartition = HERE, torn: int = 0) -> Receipts:
    return Receipts.merged(
        Receipts(
            sources=(ReceiptsSource(path="one", file_id=b"1" * 16, torn_bytes=torn),),
            topics={where.topic_id: "orders"},
            ranges={where: ranges} if ranges else {},
        )
    )


def billed(
    start: int, end: int, size: int | None = None, lost: tuple[tuple[int, int], ...] = ()
) -> BilledPart:
    return BilledPart(
        topic="orders",
        where=HERE,
        start_offset=start,
        end_offset=end,
        messages=end - start,
        bytes=100 * (end - start) if size is None else size,
        lost=lost,
    )


def compared(given: Receipts, *parts: BilledPart, complete: bool = False) -> ReceiptsComparison:
    return check_receipts(given, parts, period_start_ms=PERIOD[0], period_end_ms=PERIOD[1], complete=complete)


def found(comparison: ReceiptsComparison) -> list[tuple[ReceiptsKind, int | None, bool]]:
    return [(finding.kind, finding.offset, finding.wrong) for finding in comparison.findings]


def test_receipts_of_all_that_is_billed_agree_and_nothing_is_said() -> None:
    given = receipts(
        acknowledged(10, 40), acknowledged(40, 50, day=DAY + timedelta(1)), acknowledged(50, 60, epoch=4)
    )
    comparison = compared(given, billed(10, 60), complete=True)
    assert found(comparison) == []
    assert (comparison.messages_billed, comparison.messages_covered) == (50, 50)


def test_a_bill_with_fewer_messages_or_bytes_than_were_acknowledged_is_wrong() -> None:
    given = receipts(acknowledged(0, 10))
    for part in (replace(billed(0, 20), messages=9), billed(0, 20, size=999)):
        comparison = compared(given, part)
        assert (ReceiptsKind.NOT_BILLED, 0, True) in found(comparison)
        assert not comparison.agrees


def test_more_than_was_acknowledged_is_wrong_where_the_receipts_cover_everything() -> None:
    comparison = compared(receipts(acknowledged(0, 10)), billed(0, 10, size=1_001))
    assert found(comparison) == [(ReceiptsKind.DIFFERS, 0, True)]
    assert "1000 bytes; the bill has 10 messages, 1001 bytes" in comparison.findings[0].message
    assert compared(receipts(acknowledged(0, 9)), billed(0, 10, size=1_001)).agrees


def test_offsets_of_others_are_told_and_wrong_only_when_the_receipts_are_complete() -> None:
    given = receipts(acknowledged(2, 4), acknowledged(6, 8))
    for complete in (False, True):
        comparison = compared(given, billed(0, 10), complete=complete)
        assert found(comparison) == [(ReceiptsKind.NOT_ACKNOWLEDGED, 0, complete)]
        assert comparison.findings[0].message.startswith(
            "6 of 10 billed offsets are in none of the receipts: offsets 0 to 2, 4"
        )
        assert comparison.agrees is not complete
        assert comparison.messages_covered == 4


def test_a_log_that_shrank_under_its_receipts_is_wrong() -> None:
    comparison = compared(receipts(acknowledged(0, 30)), billed(0, 20))
    assert (ReceiptsKind.NOT_BILLED, 20, True) in found(comparison)
    assert "10 messages acknowledged within the period are not on the invoice: offsets 20 to 30" in str(
        comparison.findings[-1]
    )


def test_receipts_of_other_periods_are_none_of_this_bills_business() -> None:
    before, after = date(2026, 6, 30), date(2026, 8, 1)
    given = receipts(acknowledged(0, 10, day=before), acknowledged(10, 20), acknowledged(20, 30, day=after))
    assert found(compared(given, billed(10, 20), complete=True)) == []
    other = TopicPartition(TopicId(bytes(15) + b"x"), 0)
    assert found(compared(receipts(acknowledged(0, 5, day=before), where=other), complete=True)) == []


def test_a_cut_through_a_day_leaves_bytes_of_the_range_across_it_uncompared() -> None:
    given = receipts(acknowledged(0, 30))
    end = day_start_ms(DAY) + 1_000
    comparison = check_receipts(
        given, [billed(0, 20)], period_start_ms=PERIOD[0], period_end_ms=end, complete=True
    )
    assert found(comparison) == [(ReceiptsKind.NOT_COMPARED, 0, False)]
    fewer = replace(billed(0, 20), messages=19)
    comparison = check_receipts(given, [fewer], period_start_ms=PERIOD[0], period_end_ms=end, complete=True)
    assert (ReceiptsKind.NOT_BILLED, 0, True) in found(comparison)


def test_a_topic_that_the_invoice_leaves_out_is_wrong_for_whole_days_of_the_period() -> None:
    given = receipts(acknowledged(5, 7))
    assert found(compared(given)) == [(ReceiptsKind.TOPIC_NOT_BILLED, 5, True)]
    halved = check_receipts(
        given, [], period_start_ms=day_start_ms(DAY) + 1, period_end_ms=PERIOD[1], complete=False
    )
    assert found(halved) == [(ReceiptsKind.TOPIC_NOT_BILLED, 5, False)]
    assert compared(given).findings[0].where == "orders-0"


@pytest.mark.parametrize("epoch", [3, -1])
def test_an_offset_that_two_producers_were_given_is_wrong(epoch: int) -> None:
    given = receipts(acknowledged(0, 10), acknowledged(8, 12, epoch=epoch, source="two"))
    comparison = compared(given, billed(0, 12))
    assert (ReceiptsKind.ACKNOWLEDGED_TWICE, 8, True) in found(comparison)
    assert not comparison.agrees


def test_a_later_leader_may_give_again_what_a_fallen_one_alone_had_acknowledged() -> None:
    weak, strong = acknowledged(8, 12, epoch=3, acks=1), acknowledged(8, 10, epoch=4)
    assert compared(receipts(acknowledged(0, 8), weak, strong), billed(0, 12)).agrees
    weak_later, strong_before = replace(weak, leader_epoch=5), strong
    assert not compared(receipts(acknowledged(0, 8), weak_later, strong_before), billed(0, 12)).agrees


def test_what_a_declared_loss_took_is_told_and_not_wrong() -> None:
    given = receipts(acknowledged(0, 15), acknowledged(15, 20), acknowledged(15, 18, 999, epoch=5))
    comparison = compared(given, billed(0, 15, lost=((15, 20),)))
    assert found(comparison) == []
    again = replace(billed(15, 18, size=999, lost=((15, 20),)))
    comparison = compared(given, billed(0, 15, lost=((15, 20),)), again)
    assert found(comparison) == [(ReceiptsKind.LOST, 15, False)]


def counted(part: BilledPart, batches: list[tuple[int, int]], read_from: int | None = 0) -> BilledPart:
    """With totals by (end offset, bytes so far) of the log's batches."""
    totals = {0: (0, 0), **{end: (end, size) for end, size in batches}}
    return replace(part, totals_at=totals.get, read_from=read_from)


def test_each_range_is_held_against_the_verifiers_own_count() -> None:
    log = [(5, 500), (10, 1_000), (15, 1_500), (20, 2_000)]
    given = receipts(acknowledged(5, 10), acknowledged(15, 20))
    assert compared(given, counted(billed(0, 20), log)).agrees
    swapped = [(5, 499), (10, 1_000), (15, 1_500), (20, 2_000)]
    comparison = compared(given, counted(billed(0, 20), swapped))
    assert found(comparison)[0] == (ReceiptsKind.DIFFERS, 5, True)
    assert "500 bytes; the log holds 5 messages, 501 bytes there" in comparison.findings[0].message
    rebatched = [(6, 600), (10, 1_000), (15, 1_500), (20, 2_000)]
    comparison = compared(given, counted(billed(0, 20), rebatched))
    assert found(comparison)[0] == (ReceiptsKind.DIFFERS, 5, True)
    assert "no stored batch ends at offset 5" in comparison.findings[0].message
    assert compared(given, counted(billed(0, 20), rebatched, read_from=10)).agrees
    weak = receipts(acknowledged(5, 10, acks=1))
    assert found(compared(weak, counted(billed(0, 20), swapped)))[0] == (ReceiptsKind.DIFFERS, 5, False)


def test_the_offsets_to_count_are_the_bounds_of_the_ranges_within_the_part() -> None:
    given = receipts(acknowledged(0, 5), acknowledged(7, 12), acknowledged(12, 30, epoch=4))
    assert offsets_to_count(given, HERE, 3, 20) == [3, 5, 7, 12, 20]
    assert offsets_to_count(receipts(), HERE, 3, 20) == [3, 20]


def test_a_torn_file_is_told() -> None:
    (finding,) = compared(receipts(acknowledged(0, 1), torn=7), billed(0, 1)).findings
    assert str(finding) == (
        "receipts-torn: one: 7 bytes at its end are no whole record: an incomplete write, or damage"
    )
    assert not finding.wrong


def test_findings_of_one_kind_and_partition_have_a_bound() -> None:
    given = receipts(*[acknowledged(at, at + 2) for at in range(200)])
    comparison = compared(given, billed(0, 300))
    assert len(comparison.findings) <= 40
