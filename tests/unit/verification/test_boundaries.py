"""What lies exactly at a period's end, or in a partition that the bill leaves out, is on its right side to the ms."""

import pytest

from penstock.contract.ids import TopicId
from penstock.verification.findings import Kind, Report, Verdict
from tests.unit.verification.honest import PERIOD_MS, Service
from tests.unit.verification.stored_log import BEGIN_MS, StoredLog
from tests.unit.verification.test_proving import billed, two_days

END_MS = BEGIN_MS + PERIOD_MS
HIDDEN = TopicId(b"h" * 16)


def kinds(report: Report) -> set[Kind]:
    return {problem.kind for problem in report.problems}


def cut_behind(at_ms: int) -> Service:
    """One invoice, whose last batch was accepted then."""
    log = two_days()
    log.write(2, at_ms)
    return billed(log)


def test_a_batch_accepted_exactly_at_the_periods_end_belongs_to_the_next_one() -> None:
    assert cut_behind(END_MS - 1).verify().proven
    assert kinds(cut_behind(END_MS).verify()) == {Kind.CUT_DIFFERS}


def test_where_only_the_cut_tells_of_the_last_batch_its_end_is_as_exact() -> None:
    for at_ms, due in ((END_MS - 1, set()), (END_MS, {Kind.CUT_DIFFERS})):
        log = StoredLog()
        log.write(2, BEGIN_MS + 1)
        log.write(2, at_ms)
        service = billed(log)
        service.logs = []  # its topic was deleted since
        assert kinds(service.verify()) - {Kind.UNPROVEN} == due, at_ms


def test_a_batch_behind_the_cut_is_as_old_as_the_periods_end_or_younger() -> None:
    for at_ms, due in ((END_MS, set()), (END_MS - 1, {Kind.CUT_DIFFERS})):
        log = two_days()
        end_offset = log.end_offset
        log.write(2, at_ms)
        service = Service(log)
        service.cut(ends={log.where: end_offset})
        assert kinds(service.verify()) == due, at_ms


def test_a_batch_accepted_exactly_when_a_period_begins_is_of_it() -> None:
    for at_ms, due in ((END_MS, set()), (END_MS - 1, {Kind.CUT_DIFFERS})):
        service = billed(two_days())
        service.logs[0].write(2, at_ms)
        service.cut()
        assert kinds(service.verify("inv_2")) == due, at_ms


def hidden(*at_ms: int, partition: int = 0, deleted_below: int = 0) -> Service:
    """An invoice that knows nothing of a topic with batches of two messages, accepted then."""
    service = billed(two_days())
    log = StoredLog(partition, HIDDEN, "hidden")
    for time_ms in at_ms:
        log.write(2, time_ms)
    log.delete_below(deleted_below)
    service.logs.append(log)
    return service


def test_a_partition_that_the_bill_leaves_out_may_hold_what_was_accepted_at_the_periods_end() -> None:
    assert hidden(END_MS).verify().verdict is Verdict.PROVEN
    assert kinds(hidden(END_MS - 1, END_MS).verify()) == {Kind.PARTITION_OMITTED}


@pytest.mark.parametrize("deleted_below", [2, 3])
def test_a_partition_that_the_bill_leaves_out_is_looked_at_where_its_log_begins_now(
    deleted_below: int,
) -> None:
    report = hidden(BEGIN_MS + 1, BEGIN_MS + 2, END_MS, deleted_below=deleted_below).verify()
    (problem,) = report.problems
    assert (problem.kind, problem.offset) == (Kind.PARTITION_OMITTED, 2)
    assert hidden(BEGIN_MS + 1, BEGIN_MS + 2, END_MS, deleted_below=4).verify().proven


def test_every_partition_that_the_bill_leaves_out_is_named() -> None:
    service = hidden(BEGIN_MS + 1, partition=3)
    for log in (StoredLog(2, HIDDEN, "hidden"), StoredLog(1)):
        log.write(1, BEGIN_MS + 5)
        service.logs.append(log)
    named = [problem.where for problem in service.verify().problems]
    assert sorted(named) == ["hidden-2", "hidden-3", "orders-1"]
