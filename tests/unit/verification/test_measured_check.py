"""Invoices with meters that count no offsets: what is possible passes, and what is not is found and named."""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest

from penstock.contract.documents import NO_TERMS
from penstock.contract.ids import TopicId
from penstock.rules.rating import PriceBook
from penstock.verification.findings import Kind, Verdict
from tests.unit.verification.honest import PERIOD_MS, RETURNS, Service, rate_again
from tests.unit.verification.stored_log import BEGIN_MS, DAY_MS, TOPIC, StoredLog

KEPT, COPIES, MINUTES, ASKED, SLOWED = (
    "retained_byte_minutes",
    "replicated_byte_minutes",
    "partition_minutes",
    "requests",
    "throttled_ms",
)
BOOK = PriceBook.read(
    {
        "format": 2,
        "name": "test",
        "version": 4,
        "currency": "USD",
        "minor_digits": 2,
        "meters": [
            {
                "meter": meter,
                "unit": "unit",
                "unit_size": 100,
                "free": 0,
                "model": "unit",
                "tiers": [{"up_to": None, "unit_price": "0.10"}],
            }
            for meter in ("messages_in", "bytes_in", KEPT, COPIES, MINUTES, ASKED, SLOWED)
        ],
    }
)
FIRST = date(1970, 1, 1) + timedelta(days=BEGIN_MS // DAY_MS)


def row(meter: str, day: int, quantity: int, topic: str = "orders") -> dict[str, Any]:
    topic_id = {"": "", "orders": TOPIC.hex(), "returns": RETURNS.hex()}[topic]
    return {
        "meter": meter,
        "topic": topic,
        "topic_id": topic_id,
        "day": (FIRST + timedelta(days=day)).isoformat(),
        "quantity": quantity,
    }


def world() -> tuple[Service, int]:
    """Two periods of ten days, and the bytes of the log's only batch. Each row is as large as it can be."""
    orders, returns = StoredLog(0), StoredLog(0, RETURNS, "returns")
    orders.write(4, BEGIN_MS + DAY_MS + 1)
    service = Service(orders, returns, book=BOOK, terms=NO_TERMS)
    size = len(orders.batches[0])
    service.cut(measured=[row(MINUTES, 0, 1_440), row(MINUTES, 9, 1_400), row(KEPT, 1, size * 1_440)])
    service.cut(
        measured=[
            row(MINUTES, 9, 40),  # came late
            row(MINUTES, 10, 1_440),
            row(COPIES, 10, size * 4_320),
            row(ASKED, 10, 7, topic=""),
            row(KEPT, 10, size * 1_440),
            row(SLOWED, 10, 10**9),
        ]
    )
    return service, size


def altered(
    service: Service, change: Callable[[list[dict[str, Any]]], object], invoice: str = "inv_2"
) -> None:
    """With everything else written again to agree."""
    document = service.documents[invoice]
    change(document["measured"])
    rate_again(document, BOOK)
    service.charge(document)
    service.rechain()
    service.show_again()


def test_an_honest_invoice_is_proven_but_for_what_no_log_tells_and_each_line_says_its_rule() -> None:
    service, _ = world()
    report = service.verify("inv_2")
    assert report.verdict is Verdict.PARTLY
    assert [(one.kind, one.where, one.message.partition(":")[0]) for one in report.problems] == [
        (Kind.UNPROVEN, f"line {KEPT}", "bounded"),
        (Kind.UNPROVEN, f"line {COPIES}", "bounded"),
        (Kind.UNPROVEN, f"line {MINUTES}", "bounded"),
        (Kind.UNPROVEN, f"line {ASKED}", "stated"),
        (Kind.UNPROVEN, f"line {SLOWED}", "stated"),
    ]
    assert report.due_total_micro == report.billed_total_micro
    line = {one.meter: one for one in report.lines}[MINUTES]
    assert (line.billed_quantity, line.counted_quantity, line.unproven_quantity) == (1_480, 0, 1_480)


FORGERIES: list[tuple[str, Kind, Callable[[list[dict[str, Any]]], object]]] = [
    ("a minute more than the day has", Kind.QUANTITY_DIFFERS, lambda rows: rows[1].update(quantity=1_441)),
    ("a late minute beyond what was left of its day", Kind.QUANTITY_DIFFERS, lambda rows: rows[0].update(quantity=41)),
    ("a byte more than the log ever held", Kind.QUANTITY_DIFFERS,
     lambda rows: rows[4].update(quantity=rows[4]["quantity"] + 1)),
    ("more replicas than there can be", Kind.QUANTITY_DIFFERS,
     lambda rows: rows[2].update(quantity=rows[4]["quantity"] * 32 + 1)),
    ("a topic that never was", Kind.QUANTITY_DIFFERS, lambda rows: rows[1].update(topic="other", topic_id="ab" * 16)),
    ("the same day under another name", Kind.QUANTITY_DIFFERS,
     lambda rows: rows.append(rows[1] | {"topic": "orders.again"})),
    ("the same bytes of a day under another name", Kind.QUANTITY_DIFFERS,
     lambda rows: rows.append(rows[4] | {"topic": "orders.again"})),
    ("the same day of an earlier period under another name", Kind.QUANTITY_DIFFERS,
     lambda rows: rows.append(row(MINUTES, 0, 1_440) | {"topic": "orders.again"})),
    ("requests of a topic without an id", Kind.LINE_DIFFERS,
     lambda rows: rows.append(rows[3] | {"topic": "orders"})),
    ("a day that is not over", Kind.DAY_DIFFERS, lambda rows: rows[1].update(row(MINUTES, 20, 1))),
    ("a day before the tenant's first", Kind.DAY_DIFFERS, lambda rows: rows[0].update(row(MINUTES, -1, 1))),
    ("a meter without a price", Kind.LINE_DIFFERS, lambda rows: rows[3].update(meter="zebras")),
    ("a row twice", Kind.LINE_DIFFERS, lambda rows: rows.insert(0, dict(rows[0]))),
    ("rows in another order", Kind.LINE_DIFFERS, lambda rows: rows.reverse()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "change"), FORGERIES, ids=[name for name, _, _ in FORGERIES])
def test_what_is_not_possible_is_found(
    name: str, kind: Kind, change: Callable[[list[dict[str, Any]]], object]
) -> None:
    service, _ = world()
    altered(service, change)
    if name not in ("a row twice", "rows in another order"):
        altered(service, lambda rows: rows.sort(key=_key))
    found = service.verify("inv_2")
    assert found.verdict is Verdict.WRONG
    assert kind in {one.kind for one in found.problems}


def _key(one: dict[str, Any]) -> tuple[str, ...]:
    return one["meter"], one["topic"], one["topic_id"], one["day"]


def test_a_line_that_is_not_the_sum_of_its_rows_is_found() -> None:
    service, _ = world()
    service.documents["inv_2"]["measured"][1]["quantity"] -= 1
    service.rechain()
    service.show_again()
    assert Kind.LINE_DIFFERS in {one.kind for one in service.verify("inv_2").problems}


def test_an_invoice_without_the_rows_that_its_prices_ask_for_is_wrong() -> None:
    service, _ = world()
    for document in service.documents.values():
        del document["measured"]
        rate_again(document, BOOK)
        service.charge(document)
    service.rechain()
    service.show_again()
    assert Kind.LINE_DIFFERS in {one.kind for one in service.verify("inv_2").problems}


def test_what_comes_late_of_a_deleted_topic_is_bounded_by_the_last_cut_that_had_it() -> None:
    service, size = world()
    orders = service.logs[0]
    service.delete_topic(orders)
    service.cut(measured=[])
    name = service.cut(measured=[row(MINUTES, 25, 1_440), row(KEPT, 25, size * 1_440)])
    assert service.verify(name).verdict is Verdict.PARTLY
    altered(service, lambda rows: rows[1].update(quantity=size * 1_440 + 1), name)
    assert Kind.QUANTITY_DIFFERS in {one.kind for one in service.verify(name).problems}


@pytest.mark.parametrize(("meter", "day"), [(MINUTES, 31), (KEPT, 31), (SLOWED, 31), (MINUTES, 39)])
def test_a_day_after_the_cut_that_has_the_last_of_a_deleted_topic_is_found(meter: str, day: int) -> None:
    """It was deleted in the third period, days 20 to 29; the fourth has days 30 to 39."""
    service, _ = world()
    service.delete_topic(service.logs[0])
    service.cut(measured=[])
    late = service.cut(measured=[row(MINUTES, 29, 1_440)])
    assert service.verify(late).verdict is Verdict.PARTLY
    altered(service, lambda rows: rows.append(row(meter, day, 1)), late)
    altered(service, lambda rows: rows.sort(key=_key), late)
    found = [one for one in service.verify(late).problems if one.is_wrong]
    assert [one.kind for one in found] == [Kind.DAY_DIFFERS]
    assert "the topic was there from 2024-10-04 to 2024-11-03 at most" in found[0].message


@pytest.mark.parametrize("meter", [MINUTES, COPIES, SLOWED])
def test_a_day_before_the_first_cut_that_has_a_topic_is_found(meter: str) -> None:
    service, _ = world()
    young = StoredLog(0, TopicId(b"y" * 16), "young")
    service.logs.append(young)
    named = {"topic": "young", "topic_id": (b"y" * 16).hex()}
    name = service.cut(measured=[row(MINUTES, 20, 1_440) | named])
    assert service.verify(name).verdict is Verdict.PARTLY
    altered(service, lambda rows: rows.append(row(meter, 19, 1) | named), name)
    altered(service, lambda rows: rows.sort(key=_key), name)
    found = [one for one in service.verify(name).problems if one.is_wrong]
    assert Kind.DAY_DIFFERS in {one.kind for one in found}
    assert any("the topic was there from 2024-10-24" in one.message for one in found)


def test_a_topic_that_was_renamed_within_a_day_has_two_rows_of_it_and_is_right() -> None:
    """As a topic that was restored from the bin under another name: each row has the name of its time."""
    service, _ = world()
    altered(service, lambda rows: rows[1].update(quantity=900))
    altered(service, lambda rows: rows.append(rows[1] | {"topic": "orders.old", "quantity": 540}))
    altered(service, lambda rows: rows.sort(key=_key))
    assert service.verify("inv_2").verdict is Verdict.PARTLY


def test_the_first_day_of_the_second_period_may_hold_what_the_first_one_left() -> None:
    """A log that was written before the period is kept in it, also when nothing comes any more."""
    service, size = world()
    altered(service, lambda rows: rows.insert(5, row(KEPT, 19, size * 1_440)))
    assert service.verify("inv_2").verdict is Verdict.PARTLY
    assert service.period_begins_ms == BEGIN_MS + 2 * PERIOD_MS
