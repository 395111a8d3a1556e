"""Credits are exactly what was lost: each offset once, and messages and bytes each to the unit."""

import copy
from typing import Any

import pytest

from penstock.rules.rating import credit, credit_line_id
from penstock.verification.findings import Kind, Report
from tests.unit.verification.honest import Service
from tests.unit.verification.stored_log import BEGIN_MS, BOOK, DAY_MS, StoredLog
from tests.unit.verification.test_history import kinds, lossy
from tests.unit.verification.test_losses import LOST, PERIOD_END_MS, credited, size_from
from tests.unit.verification.test_proving import two_days


def credits_problems(report: Report) -> list[str]:
    return [problem.message for problem in report.problems if problem.kind is Kind.CREDIT_DIFFERS]


def sizes(first: int, end: int) -> int:
    """Bytes of the offsets [first, end) before anything was lost."""
    return size_from(two_days(), first) - size_from(two_days(), end)


def in_two_notes() -> tuple[Service, dict[str, Any], dict[str, Any]]:
    """A loss of 13 to 25, credited from 20 on by one note and from 13 to 20 by the next; with both notes' ranges."""
    service = lossy()
    log = service.logs[0]
    service.credit("inv_1", log, 20, 5, sizes(20, 25))
    service.credit("inv_1", log, LOST[0], 7, sizes(LOST[0], 20))
    first, second = (item["document"]["ranges"][0] for item in service.chain_items[-2:])
    return service, first, second


def in_one_note() -> tuple[Service, dict[str, Any], dict[str, Any]]:
    """The same loss, credited by one note with two ranges."""
    service = credited(lossy())
    ranges = service.chain_items[-1]["document"]["ranges"]
    ranges.append(copy.deepcopy(ranges[0]))
    ranges[0].update(first_offset=20, messages=5, bytes=sizes(20, 25))
    ranges[1].update(end_offset=20, messages=7, bytes=sizes(LOST[0], 20))
    return service, ranges[0], ranges[1]


@pytest.mark.parametrize("made", [in_one_note, in_two_notes])
def test_a_loss_credited_in_two_ranges_is_credited(made: Any) -> None:
    service, _, _ = made()
    service.rechain()
    service.show_again()
    assert service.verify().problems == ()


@pytest.mark.parametrize("made", [in_one_note, in_two_notes])
@pytest.mark.parametrize(
    ("which", "change"),
    [
        ("later", {"first_offset": 13}),
        ("later", {"first_offset": 19}),
        ("later", {"first_offset": 21}),
        ("lower", {"end_offset": 21}),
        ("lower", {"end_offset": 19}),
        ("lower", {"end_offset": 25}),
        ("lower", {"first_offset": 12}),
    ],
    ids=str,
)
def test_ranges_that_credit_an_offset_twice_or_not_at_all_are_named_though_their_sum_is_right(
    made: Any, which: str, change: dict[str, int]
) -> None:
    service, later, lower = made()
    (later if which == "later" else lower).update(change)
    service.rechain()
    service.show_again()
    assert kinds(service.verify()) == {Kind.CREDIT_DIFFERS}


def test_a_loss_credited_twice_is_named_though_the_topic_is_deleted() -> None:
    service = lossy()
    log = service.logs[0]
    for _ in range(2):
        service.credit("inv_1", log, LOST[0], 12, sizes(*LOST))
    service.chain_items[-1]["document"]["ranges"][0]["end_offset"] = LOST[1]
    service.delete_topic(log)
    service.rechain()
    service.show_again()
    assert Kind.CREDIT_DIFFERS in kinds(service.verify())


@pytest.mark.parametrize(("messages", "size"), [(1, 0), (0, 1), (-1, 0), (0, -1)])
def test_a_credit_is_the_loss_in_messages_and_in_bytes_to_the_unit(messages: int, size: int) -> None:
    service = lossy()
    service.credit("inv_1", service.logs[0], LOST[0], 12 + messages, sizes(*LOST) + size)
    (told,) = credits_problems(service.verify())
    assert told.startswith(f"12 messages and {sizes(*LOST)} bytes are lost")


@pytest.mark.parametrize("meter", ["messages", "bytes"])
def test_no_more_is_credited_than_was_billed_of_each_meter(meter: str) -> None:
    service = credited(lossy())
    whole = two_days()
    billed = {"messages": whole.end_offset, "bytes": size_from(whole, 0)}
    service.chain_items[-1]["document"]["ranges"][0][meter] = billed[meter] + 1
    service.rechain()
    service.show_again()
    assert "credits more than the invoice billed" in credits_problems(service.verify())


def test_a_second_note_is_rated_by_what_the_first_left() -> None:
    service = Service(two_days())
    (log,) = service.logs
    service.cut()
    service.lose_from(log, 4)
    service.credit("inv_1", log, LOST[0], 12, sizes(*LOST))
    service.credit("inv_1", log, 4, 9, sizes(4, LOST[0]))
    assert service.verify().problems == ()
    note = service.chain_items[-1]["document"]
    whole = {"messages_in": 25, "bytes_in": size_from(two_days(), 0)}
    alone = credit(BOOK, whole, {"messages_in": 9, "bytes_in": sizes(4, LOST[0])})
    assert alone.total_micro != note["total_micro"], "the tiers make a difference"
    note["lines"] = [
        {
            "id": credit_line_id(note["id"], line.meter, BOOK.sha256),
            "meter": line.meter,
            "unit": line.unit,
            "unit_size": line.unit_size,
            "quantity": line.quantity,
            "amount_micro": line.amount_micro,
        }
        for line in alone.lines
    ]
    note["total_micro"] = alone.total_micro
    service.rechain()
    service.show_again()
    assert kinds(service.verify()) == {Kind.CREDIT_DIFFERS}


@pytest.mark.parametrize("meter", ["messages", "bytes"])
def test_a_row_that_was_lost_in_part_holds_at_least_what_is_left_of_it(meter: str) -> None:
    log = two_days()
    log.write(5, BEGIN_MS + 2 * DAY_MS)
    whole_size = size_from(log, 20)
    service = Service(log)
    service.cut()
    partly, wholly = service.documents["inv_1"]["partitions"][0]["days"][1:]
    assert (partly["first_offset"], partly["end_offset"], wholly["end_offset"]) == (13, 25, 30)
    left = {"messages": 7, "bytes": len(log.batches[3])}[meter]
    service.lose_from(log, 20)
    log.write(2, PERIOD_END_MS + 5)
    service.credit("inv_1", log, 20, 10, whole_size)
    assert service.verify().problems == ()
    # The sum of both rows stays: cuts and credit agree with it.
    taken = partly[meter] - left + 1
    partly[meter] -= taken
    wholly[meter] += taken
    service.rechain()
    service.show_again()
    assert kinds(service.verify()) == {Kind.QUANTITY_DIFFERS}


# -- a second loss ----------------------------------------------------------------------------------------------


def twice_lossy() -> tuple[Service, dict[str, tuple[str, StoredLog, int, int, int]]]:
    """Invoice 1 over 25 offsets, loss from 13; invoice 2 counts 13 to 18; loss from 10, which takes of both. With the
    credit that is due on each.
    """
    service = lossy()
    log = service.logs[0]
    log.write(3, PERIOD_END_MS + 6)
    size = size_from(log, LOST[0])
    service.cut(credits=[("inv_1", log, LOST[0], 12, sizes(*LOST))])
    assert service.documents["inv_2"]["partitions"][0]["end_offset"] == 18
    service.lose_from(log, 10)
    log.write(1, PERIOD_END_MS + 11 * DAY_MS)
    return service, {
        "inv_1": ("inv_1", log, 10, 3, sizes(10, LOST[0])),
        "inv_2": ("inv_2", log, LOST[0], 5, size),
    }


def test_a_second_loss_that_takes_of_two_invoices_is_credited_on_both() -> None:
    service, due = twice_lossy()
    service.cut(credits=list(due.values()))
    part = service.documents["inv_3"]["partitions"][0]
    assert (part["start_offset"], part["counts_from"], part["log_generation"]) == (18, 10, 2)
    for invoice in ("inv_1", "inv_2", "inv_3"):
        assert service.verify(invoice).problems == (), invoice


@pytest.mark.parametrize("credited_one", ["inv_1", "inv_2"])
def test_a_second_loss_that_is_credited_on_one_of_two_invoices_only_is_named(credited_one: str) -> None:
    service, due = twice_lossy()
    service.cut(credits=[due[credited_one]])
    other = "inv_2" if credited_one == "inv_1" else "inv_1"
    assert service.verify(credited_one).problems == ()
    for invoice in (other, "inv_3"):
        assert kinds(service.verify(invoice)) == {Kind.CREDIT_DIFFERS}, invoice


def two_partitions_lossy() -> Service:
    """One invoice over two partitions, both of which lost something since; the first one's loss is credited."""
    service = Service(two_days(), StoredLog(1))
    one, other = service.logs
    other.write(4, BEGIN_MS + 1)
    other.write(2, BEGIN_MS + 2)
    service.cut()
    service.lose_from(one, LOST[0])
    service.lose_from(other, 4)
    service.credit("inv_1", one, LOST[0], 12, sizes(*LOST))
    return service


def test_losses_of_two_partitions_are_credited_each_by_itself() -> None:
    service = two_partitions_lossy()
    (problem,) = service.verify().problems
    assert (problem.kind, problem.where) == (Kind.CREDIT_DUE, "orders-1")
    both = two_partitions_lossy()
    size = both.documents["inv_1"]["partitions"][1]["days"][0]["bytes"] - len(both.logs[1].batches[0])
    both.cut(credits=[("inv_1", both.logs[1], 4, 2, size)])
    service.cut()
    for invoice in ("inv_1", "inv_2"):
        assert both.verify(invoice).problems == (), invoice
        assert kinds(service.verify(invoice)) == {Kind.CREDIT_DIFFERS}, invoice
