"""An invoice of which a part was lost afterwards is proven for the rest, when exactly the lost part is credited."""

from typing import Any

import pytest

from penstock.rules.rating import rate
from penstock.verification.findings import Kind, Report, Verdict
from tests.unit.verification.honest import Service
from tests.unit.verification.stored_log import BEGIN_MS, BOOK, DAY_MS, StoredLog
from tests.unit.verification.test_proving import two_days

PERIOD_END_MS = BEGIN_MS + 10 * DAY_MS
LOST = (13, 25)
"""Offsets."""


def size_from(log: StoredLog, first: int) -> int:
    return sum(len(batch) for index, batch in enumerate(log.batches) if log.stamp(index).base_offset >= first)


@pytest.fixture
def loss() -> Service:
    """One invoice over 25 offsets, of which 13 to 25 were lost afterwards; not credited yet. The log goes on."""
    log = two_days()
    service = Service(log)
    service.cut()
    service.lose_from(log, LOST[0])
    log.write(2, PERIOD_END_MS + 5)
    return service


def credited(service: Service) -> Service:
    before = two_days()
    service.credit("inv_1", service.logs[0], LOST[0], 12, size_from(before, LOST[0]))
    return service


def kinds(report: Report) -> set[Kind]:
    return {problem.kind for problem in report.problems}


def test_what_was_lost_and_credited_is_explained_and_the_rest_is_proven(loss: Service) -> None:
    report = credited(loss).verify()
    assert report.problems == ()
    (finding,) = report.partitions
    assert (finding.messages, finding.lost_messages, finding.lost) == (13, 12, LOST)
    assert finding.verdict == "proven, what was lost is credited"
    assert finding.segments_sealed == 1
    by_meter = {line.meter: line for line in report.lines}
    assert by_meter["messages_in"].credited_quantity == 12
    left = {line.meter: line.counted_quantity - line.credited_quantity for line in report.lines}
    assert report.billed_total_micro - report.credited_total_micro == rate(BOOK, left).total_micro


def test_a_loss_that_is_not_credited_yet_is_named_and_nothing_else_is_wrong(loss: Service) -> None:
    report = loss.verify()
    assert report.verdict is Verdict.PARTLY
    (problem,) = report.problems
    assert (problem.kind, problem.offset, problem.end_offset) == (Kind.CREDIT_DUE, *LOST)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda note: note["ranges"][0].update(messages=11), Kind.CREDIT_DIFFERS),
        (lambda note: note["ranges"][0].update(bytes=1), Kind.CREDIT_DIFFERS),
        (lambda note: note["ranges"][0].update(first_offset=20), Kind.CREDIT_DIFFERS),
        (lambda note: note["ranges"][0].update(end_offset=24), Kind.CREDIT_DIFFERS),
        (lambda note: note["lines"][0].update(amount_micro=10_000), Kind.CREDIT_DIFFERS),
        (lambda note: note["lines"].pop(), Kind.CREDIT_DIFFERS),
        (lambda note: note.update(total_micro=0), Kind.CREDIT_DIFFERS),
        (lambda note: note["invoice"].update(id="inv_other"), Kind.CREDIT_DUE),
    ],
    ids=[
        "fewer messages", "fewer bytes", "a later offset", "an earlier end", "another amount", "a line missing",
        "another total", "another invoice",
    ],
)  # fmt: skip
def test_a_credit_that_is_not_what_was_lost_is_named(loss: Service, change: Any, wanted: Kind) -> None:
    service = credited(loss)
    change(service.chain_items[-1]["document"])
    service.rechain()
    assert wanted in kinds(service.verify())


def test_a_credit_for_what_is_still_in_the_log_is_named() -> None:
    log = two_days()
    service = Service(log)
    service.cut()
    service.credit("inv_1", log, LOST[0], 12, size_from(log, LOST[0]))
    assert Kind.CREDIT_DIFFERS in kinds(service.verify())


def test_the_next_invoice_counts_from_where_the_loss_began(loss: Service) -> None:
    log = loss.logs[0]
    log.write(9, PERIOD_END_MS + 6, rolls=True)
    log.write(1, PERIOD_END_MS + 7)
    credited(loss)
    loss.cut()
    part = loss.documents["inv_2"]["partitions"][0]
    assert (part["start_offset"], part["counts_from"], part["log_generation"]) == (25, 13, 1)
    report = loss.verify("inv_2")
    assert report.problems == ()
    (finding,) = report.partitions
    assert (finding.start_offset, finding.messages, finding.segments_sealed) == (13, 12, 1)
    part["counts_from"] = 10
    loss.rechain()
    assert Kind.OFFSETS_NOT_CONTIGUOUS in kinds(loss.verify("inv_2"))


def test_a_second_loss_below_the_first_is_credited_with_what_the_first_left(loss: Service) -> None:
    log = loss.logs[0]
    credited(loss)
    loss.cut()
    before = two_days()
    loss.lose_from(log, 4)
    log.write(1, PERIOD_END_MS + 11 * DAY_MS)
    assert kinds(loss.verify("inv_1")) == {Kind.CREDIT_DIFFERS}
    loss.credit("inv_1", log, 4, 9, size_from(before, 4) - size_from(before, LOST[0]))
    report = loss.verify("inv_1")
    assert report.problems == ()
    assert (report.partitions[0].messages, report.partitions[0].lost_messages) == (4, 21)


def test_an_invoice_that_ended_below_a_later_loss_is_proven_by_the_log_as_it_is() -> None:
    log = two_days()
    service = Service(log)
    service.cut(BEGIN_MS + DAY_MS, {log.where: 13})
    service.lose_from(log, LOST[0])
    log.write(4, PERIOD_END_MS + 5)
    log.write(1, PERIOD_END_MS + 6, rolls=True)
    report = service.verify()
    assert report.problems == ()
    assert report.partitions[0].segments_sealed == 2
