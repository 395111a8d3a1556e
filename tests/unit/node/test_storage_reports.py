"""Reports of what partitions keep are read as they were written, and what is none of them is refused."""

import pytest

from data_plane.node.storage_limits.messages import (
    KEPT_MAX,
    answer_frame,
    read_answer,
    read_report,
    report_frame,
)
from data_plane.storage_limits.reports import Full, Kept, Report
from penstock.contract.frames import FrameError
from penstock.contract.ids import BrokerId, TenantId
from tests.unit.log.miniature import where

KEPT = [Kept(where(0), 5, 1_000), Kept(where(3), 6, 2**40)]


def report(kept: list[Kept] = KEPT, *, whole: bool = True, sequence: int = 11) -> Report:
    return Report(
        broker=BrokerId(2),
        registration=7,
        epoch=9,
        sequence=sequence,
        kept=kept,
        whole=whole,
        full=[TenantId("acme")],
    )


@pytest.mark.parametrize("whole", [True, False])
def test_a_report_is_read_as_it_was_written(whole: bool) -> None:
    written = report(whole=whole)
    assert read_report(report_frame(written)) == written


def test_a_report_of_too_many_partitions_is_refused() -> None:
    most = report([KEPT[0]] * KEPT_MAX)
    assert len(read_report(report_frame(most)).kept) == KEPT_MAX
    with pytest.raises(FrameError, match="2001 partitions in one storage report, at most 2000 allowed"):
        read_report(report_frame(report([KEPT[0]] * (KEPT_MAX + 1))))


def test_an_answer_counts_for_its_own_report_alone() -> None:
    full = [Full(TenantId("acme"), 10), Full(TenantId("globex"), 2**40)]
    mine, other = report(sequence=4), report(sequence=5)
    assert read_answer(answer_frame(mine, full), mine) == full
    assert read_answer(answer_frame(mine, []), mine) == []
    assert read_answer(answer_frame(mine, full), other) is None
    assert read_answer(answer_frame(mine, None), mine) is None, "it was refused"


def test_a_frame_of_another_kind_is_refused() -> None:
    with pytest.raises(FrameError, match="STORAGE_ANSWER has no place on a stream of storage reports"):
        read_report(answer_frame(report(), []))
    with pytest.raises(FrameError, match="STORAGE_REPORT is no answer to a storage report"):
        read_answer(report_frame(report()), report())
