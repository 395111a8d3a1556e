"""Rows of an invoice that do not fit: each contradiction is named by its own kind, whatever else is wrong then."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from penstock.verification.findings import Kind
from tests.unit.verification.honest import Service, rate_again, world
from tests.unit.verification.stored_log import BEGIN_MS, BOOK, DAY_MS, StoredLog
from tests.unit.verification.test_history import kinds
from tests.unit.verification.test_proving import two_days

Rows = list[dict[str, Any]]


def billed_rows(change: Callable[[Rows], object], *, log_is_gone: bool = False) -> set[Kind]:
    """What the proof says of two days' rows, 0 to 13 and 13 to 25, once they are changed."""
    service = Service(two_days())
    service.cut()
    document = service.documents["inv_1"]
    change(document["partitions"][0]["days"])
    rate_again(document, BOOK)
    service.rechain()
    service.show_again()
    if log_is_gone:
        service.logs.clear()
    return kinds(service.verify())


@pytest.mark.parametrize("index", [0, 1])
def test_a_row_of_another_day_than_its_last_batch_is_named(index: int) -> None:
    days = ("1999-01-01", "2999-01-01")
    assert billed_rows(lambda rows: rows[index].update(day=days[index])) == {Kind.DAY_DIFFERS}


def test_a_row_of_another_day_is_named_where_only_the_cut_tells_of_its_last_batch() -> None:
    def other_day(rows: Rows) -> None:
        rows[1]["day"] = "2999-01-01"

    log = StoredLog()
    log.write(3, BEGIN_MS + DAY_MS)
    service = Service(log)
    service.cut()
    service.logs.clear()
    assert service.verify().proven
    service.documents["inv_1"]["partitions"][0]["days"][0]["day"] = "2999-01-01"
    service.rechain()
    assert kinds(service.verify()) == {Kind.DAY_DIFFERS}


@pytest.mark.parametrize("log_is_gone", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[1].update(first_offset=12),
        lambda rows: rows[1].update(first_offset=14),
        lambda rows: rows[0].update(first_offset=1),
        lambda rows: rows[1].update(end_offset=24),
        lambda rows: rows[1].update(end_offset=26),
        lambda rows: rows.insert(1, {**rows[0], "first_offset": 13, "messages": 0, "bytes": 0}),
    ],
    ids=["overlap", "gap", "begins late", "ends early", "ends late", "an empty one"],
)
def test_rows_that_leave_out_an_offset_or_name_it_twice_are_named(change: Any, log_is_gone: bool) -> None:
    assert Kind.OFFSETS_NOT_CONTIGUOUS in billed_rows(change, log_is_gone=log_is_gone)


def test_days_that_go_back_are_named_when_the_log_is_gone() -> None:
    def turned(rows: Rows) -> None:
        rows[0]["day"], rows[1]["day"] = rows[1]["day"], rows[0]["day"]

    assert Kind.DAY_DIFFERS in billed_rows(turned, log_is_gone=True)


@pytest.mark.parametrize(
    ("change", "due"),
    [
        ({"start_offset": 9}, Kind.OFFSETS_NOT_CONTIGUOUS),
        ({"start_offset": 11}, Kind.OFFSETS_NOT_CONTIGUOUS),
        ({"start_offset": 9, "counts_from": 9}, Kind.OFFSETS_NOT_CONTIGUOUS),
        ({"counts_from": 9}, Kind.OFFSETS_NOT_CONTIGUOUS),
        ({"counts_from": 11}, Kind.OFFSETS_NOT_CONTIGUOUS),
        ({"end_offset": 12}, Kind.CUT_DIFFERS),
        ({"end_offset": 14}, Kind.CUT_DIFFERS),
        ({"log_generation": 1}, Kind.CUT_DIFFERS),
    ],
    ids=str,
)
def test_a_partition_that_does_not_go_from_cut_to_cut_is_named_before_its_log_is_read(
    change: dict[str, int], due: Kind
) -> None:
    service = world()
    service.logs.clear()
    part = next(p for p in service.documents["inv_2"]["partitions"] if p["topic"] == "orders")
    assert (part["counts_from"], part["end_offset"]) == (10, 13)
    part.update(change)
    part["days"][0]["first_offset"] = part["counts_from"]
    service.rechain()
    service.show_again()
    named = {problem.kind for problem in service.verify("inv_2").problems if problem.where == "orders-0"}
    assert due in named


def test_a_partition_that_stands_on_an_invoice_twice_is_named() -> None:
    service = world()
    document = service.documents["inv_2"]
    part = next(p for p in document["partitions"] if p["topic"] == "orders")
    document["partitions"].insert(document["partitions"].index(part), copy.deepcopy(part))
    rate_again(document, BOOK)
    service.rechain()
    service.show_again()
    named = [p.kind for p in service.verify("inv_2").problems if "twice" in p.message]
    assert named == [Kind.CUT_DIFFERS]


def test_each_partition_of_the_cut_that_the_invoice_leaves_out_is_named() -> None:
    service = world()
    document = service.documents["inv_2"]
    document["partitions"] = [part for part in document["partitions"] if part["topic"] == "brief"]
    rate_again(document, BOOK)
    service.rechain()
    service.show_again()
    omitted = [p for p in service.verify("inv_2").problems if p.kind is Kind.PARTITION_OMITTED]
    assert len(omitted) == 3, "all but the deleted topic"
