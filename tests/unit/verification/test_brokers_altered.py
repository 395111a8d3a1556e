"""Brokers that keep a cut or seals as a lying biller wants them are contradicted by what is left: the rest of a log,
the cut before, the seals among themselves.
"""

from dataclasses import replace

import pytest

from penstock.records.seal import Seal
from penstock.verification.findings import Kind, Report, Verdict
from tests.unit.verification.honest import Service, rate_again, world
from tests.unit.verification.stored_log import BEGIN_MS, BOOK, DAY_MS, StoredLog
from tests.unit.verification.test_proving import two_days

METERS = ["messages", "bytes"]


def kinds(report: Report) -> set[Kind]:
    return {problem.kind for problem in report.problems}


def even_log(batches: int) -> StoredLog:
    """Batches of three messages, in one open segment."""
    log = StoredLog()
    for number in range(batches):
        log.write(3, BEGIN_MS + number)
    return log


def altered(service: Service, invoice: str, meter: str, more: int) -> None:
    """Bill, cut and brokers say so much more of the first partition."""
    document = service.documents[invoice]
    document["cut"]["readings"][0][meter] += more
    document["partitions"][0]["days"][0][meter] += more
    rate_again(document, BOOK)
    service.keep_again()


@pytest.mark.parametrize("meter", METERS)
def test_what_is_left_of_a_deleted_range_is_no_more_than_what_was_billed_of_either_meter(meter: str) -> None:
    log = even_log(5)
    service = Service(log)
    service.cut()
    log.delete_below(6)
    deleted = {"messages": 6, "bytes": sum(map(len, log.batches[:2]))}[meter]
    altered(service, "inv_1", meter, -deleted)
    assert service.verify().verdict is not Verdict.WRONG, "nothing tells what the deleted offsets held"
    altered(service, "inv_1", meter, -1)
    assert kinds(service.verify()) == {Kind.QUANTITY_DIFFERS}


@pytest.mark.parametrize("meter", METERS)
@pytest.mark.parametrize("more", [1, -1])
def test_a_range_that_is_left_as_a_whole_is_billed_to_the_unit_of_either_meter(meter: str, more: int) -> None:
    log = even_log(4)
    service = Service(log)
    service.cut(BEGIN_MS + 2, {log.where: 6})
    service.cut()
    log.delete_below(3)
    altered(service, "inv_2", meter, more)
    assert kinds(service.verify("inv_2")) == {Kind.QUANTITY_DIFFERS}


@pytest.mark.parametrize("meter", METERS)
@pytest.mark.parametrize("more", [1, -1])
def test_a_cut_of_the_brokers_that_the_whole_log_contradicts_is_named(meter: str, more: int) -> None:
    service = Service(two_days())
    service.cut()
    altered(service, "inv_1", meter, more)
    assert kinds(service.verify()) == {Kind.CUT_DIFFERS, Kind.QUANTITY_DIFFERS}


@pytest.mark.parametrize("meter", METERS)
@pytest.mark.parametrize("more", [1, -1])
def test_a_bill_is_the_difference_of_two_cuts_of_either_meter_when_the_log_is_gone(
    meter: str, more: int
) -> None:
    # Nothing tells how two days divide, so no row is compared.
    service = Service(two_days())
    service.cut()
    service.logs.clear()
    assert kinds(service.verify()) == {Kind.UNPROVEN}
    service.documents["inv_1"]["partitions"][0]["days"][0][meter] += more
    rate_again(service.documents["inv_1"], BOOK)
    service.keep_again()
    assert kinds(service.verify()) == {Kind.QUANTITY_DIFFERS}


# -- deleted topics ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("messages", [0, 40])
def test_a_topic_that_a_cut_has_closed_is_in_no_later_cut_whatever_brokers_keep(messages: int) -> None:
    service = world()
    assert service.verify("inv_3").proven
    before, document = service.documents["inv_2"], service.documents["inv_3"]
    closed = next(part for part in before["partitions"] if part["topic"] == "brief")
    (reading,) = (r for r in before["cut"]["readings"] if r["topic_id"] == closed["topic_id"])
    end_offset = reading["end_offset"] + messages
    again = reading | {
        "end_offset": end_offset,
        "messages": reading["messages"] + messages,
        "bytes": reading["bytes"] + 100 * messages,
        "accepted_ms": document["period_start_ms"] + 5 if messages else reading["accepted_ms"],
    }
    row = closed["days"][0] | {
        "day": document["partitions"][0]["days"][0]["day"],
        "first_offset": reading["end_offset"],
        "end_offset": end_offset,
        "messages": messages,
        "bytes": 100 * messages,
    }
    counted = closed | {
        "start_offset": reading["end_offset"],
        "counts_from": reading["end_offset"],
        "end_offset": end_offset,
        "days": [row] if messages else [],
    }
    document["cut"]["readings"] = sorted(
        [*document["cut"]["readings"], again], key=lambda one: (one["topic_id"], one["partition"])
    )
    document["partitions"] = [counted, *document["partitions"]]
    rate_again(document, service._book_for(document["period_start_ms"]))
    service.keep_again()
    (problem,) = service.verify("inv_3").problems
    assert (problem.kind, problem.where) == (Kind.OFFSETS_NOT_CONTIGUOUS, "brief-0")
    assert "its topic was deleted" in problem.message


# -- seals ------------------------------------------------------------------------------------------------------


def sealed_log() -> StoredLog:
    """Offsets 0-9, 10-19 and 20-29 sealed, 30-34 not."""
    log = StoredLog()
    log.write(10, BEGIN_MS + 1)
    for number in range(1, 3):
        log.write(10, BEGIN_MS + number * DAY_MS, rolls=True)
    log.write(5, BEGIN_MS + 3 * DAY_MS, rolls=True)
    return log


def begins_later(seal: Seal, meter: str) -> Seal:
    """One more is said to stand before it, and one less in it: its end is right, and it agrees with itself."""
    name = f"committed_{meter}"
    before = replace(seal.before, **{name: getattr(seal.before, name) + 1})
    first, *others = seal.rows
    return replace(seal, before=before, rows=(replace(first, **{meter: getattr(first, meter) - 1}), *others))


@pytest.mark.parametrize("meter", METERS)
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("gone", ["segments", "topic"])
def test_seals_that_contradict_each_other_are_named_where_they_meet(
    meter: str, number: int, gone: str
) -> None:
    log = sealed_log()
    service = Service(log)
    service.cut()
    log.delete_below(30 if gone == "segments" else log.end_offset)
    assert service.verify().problems == ()
    log.seals[number] = begins_later(log.seals[number], meter)
    (problem,) = service.verify().problems
    assert (problem.kind, problem.offset) == (Kind.SEAL_MISMATCH, 10 * number)
    assert "contradict each other" in problem.message


@pytest.mark.parametrize("meter", METERS)
@pytest.mark.parametrize("gone", ["segments", "topic"])
def test_a_first_seal_that_does_not_begin_at_zero_is_named(meter: str, gone: str) -> None:
    log = sealed_log()
    service = Service(log)
    service.cut()
    log.delete_below(30 if gone == "segments" else log.end_offset)
    log.seals[0] = begins_later(log.seals[0], meter)
    (problem,) = service.verify().problems
    assert (problem.kind, problem.offset) == (Kind.SEAL_MISMATCH, 0)
    assert problem.message == "the first seal does not begin at zero"


def test_seals_of_a_later_period_begin_where_they_stand_and_not_at_zero() -> None:
    log = sealed_log()
    service = Service(log)
    service.cut(BEGIN_MS + DAY_MS, {log.where: 10})
    service.cut()
    log.delete_below(30)
    assert service.verify("inv_2").problems == ()
