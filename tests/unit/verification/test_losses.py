"""An invoice of which a part was lost afterwards is proven for the rest, when exactly the lost part is credited."""

import copy
from typing import Any

import pytest

from penstock.rules.rating import credit, rate
from penstock.verification.evidence import read_evidence
from penstock.verification.findings import Kind, Report
from penstock.verification.proving import prove
from tests.unit.verification.stored_log import BEGIN_MS, BOOK, DAY_MS, Leaders, StoredLog, invoice_of

PERIOD_END_MS = BEGIN_MS + 10 * DAY_MS
LOST = (13, 25)
"""Offsets."""


def written() -> StoredLog:
    """Offsets 0-9 and 10-19 sealed, 20-24 not; batches end at 4, 10, 13, 20, 25."""
    log = StoredLog()
    log.write(4, BEGIN_MS + 1)
    log.write(6, BEGIN_MS + 2)
    log.write(3, BEGIN_MS + 3, rolls=True)
    log.write(7, BEGIN_MS + DAY_MS + 1)
    log.write(5, BEGIN_MS + DAY_MS + 60_001, rolls=True)
    return log


def quantities(document: dict[str, Any]) -> dict[str, int]:
    return {line["meter"]: line["quantity"] for line in document["invoice"]["lines"]}


def credited(document: dict[str, Any], first: int, messages: int, size: int) -> dict[str, Any]:
    """The document as it is once a loss from `first` on was credited; its partition's end was the log's."""
    (part,) = document["partitions"]
    lost = {"messages_in": messages, "bytes_in": size}
    note = {
        "id": "cn_1",
        "number": 1,
        "lines": [
            {"meter": line.meter, "quantity": line.quantity, "amount_micro": line.amount_micro}
            for line in credit(BOOK, quantities(document), lost).lines
        ],
        "ranges": [
            {
                "topic_id": part["topic_id"],
                "partition": part["partition"],
                "log_generation": 0,
                "first_offset": first,
                "end_offset": part["end_offset"],
                "quantities": lost,
            }
        ],
    }
    return {**copy.deepcopy(document), "credits": [note]}


def verify(document: dict[str, Any], log: StoredLog, previous: dict[str, Any] | None = None) -> Report:
    before = None if previous is None else read_evidence(previous)
    return prove(read_evidence(document), before, Leaders(log))


@pytest.fixture
def loss() -> tuple[StoredLog, dict[str, Any], dict[str, Any]]:
    """The log after it lost offsets 13 to 25 and got others, its old invoice, and the same with its credit note."""
    log = written()
    size = sum(len(batch) for batch in log.batches[3:])
    document = invoice_of(log)
    log.lose_from(LOST[0])
    log.write(2, PERIOD_END_MS + 5)
    return log, document, credited(document, LOST[0], 12, size)


def test_what_was_lost_and_credited_is_explained_and_the_rest_is_proven(
    loss: tuple[StoredLog, dict[str, Any], dict[str, Any]],
) -> None:
    log, _, document = loss
    report = verify(document, log)
    assert report.problems == ()
    (finding,) = report.partitions
    assert (finding.messages, finding.lost_messages, finding.lost) == (13, 12, LOST)
    assert finding.verdict == "proven, what was lost is credited"
    assert finding.segments_sealed == 1
    by_meter = {line.meter: line for line in report.lines}
    assert by_meter["messages_in"].credited_quantity == 12
    left = {line.meter: line.counted_quantity - line.credited_quantity for line in report.lines}
    assert report.billed_total_micro - report.credited_total_micro == rate(BOOK, left).total_micro


def test_a_loss_without_a_credit_is_no_proof(loss: tuple[StoredLog, dict[str, Any], dict[str, Any]]) -> None:
    log, document, _ = loss
    assert not verify(document, log).proven


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (lambda note: note["ranges"][0]["quantities"].update(messages_in=11), {Kind.QUANTITY_DIFFERS}),
        (lambda note: note["ranges"][0].update(first_offset=20), {Kind.OFFSETS_NOT_CONTIGUOUS}),
        (lambda note: note["ranges"][0].update(end_offset=24), {Kind.CREDIT_DIFFERS}),
        (lambda note: note["lines"][0].update(amount_micro=10_000), {Kind.CREDIT_DIFFERS}),
        (lambda note: note["lines"].pop(), {Kind.CREDIT_DIFFERS}),
    ],
    ids=["fewer messages", "a later offset", "an earlier end", "another amount", "a line missing"],
)
def test_a_credit_that_is_not_what_was_lost_is_named(
    loss: tuple[StoredLog, dict[str, Any], dict[str, Any]], change: Any, kinds: set[Kind]
) -> None:
    log, _, document = loss
    change(document["credits"][0])
    found = {problem.kind for problem in verify(document, log).problems}
    assert kinds <= found, found


def test_the_next_invoice_counts_from_where_the_loss_began_and_old_seals_do_not_mislead(
    loss: tuple[StoredLog, dict[str, Any], dict[str, Any]],
) -> None:
    log, first, _ = loss
    log.write(9, PERIOD_END_MS + 6, rolls=True)
    log.write(1, PERIOD_END_MS + 7)
    assert {seal.base_offset for seal in log.seals if seal.log_generation == 0} == {0, 10}
    later = invoice_of(
        log,
        starts={0: LOST[0]},
        begin_ms=PERIOD_END_MS,
        end_ms=PERIOD_END_MS + DAY_MS,
        previous="inv_1",
        invoice="inv_2",
    )
    (part,) = later["partitions"]
    part.update(start_offset=LOST[1], counts_from=LOST[0], log_generation=1)
    part["generations"] = [{"log_generation": 1, "begins_at": LOST[0]}]
    later["cut"]["readings"][0]["log_generation"] = 1
    report = verify(later, log, previous=first)
    assert report.problems == ()
    (finding,) = report.partitions
    assert (finding.start_offset, finding.messages, finding.segments_sealed) == (13, 12, 1)


def test_an_invoice_that_ended_below_a_later_loss_is_proven_by_the_seals_of_the_log_as_it_is() -> None:
    log = written()
    early = invoice_of(log, ends={0: 13}, end_ms=BEGIN_MS + DAY_MS)
    log.lose_from(LOST[0])
    log.write(4, PERIOD_END_MS + 5)
    log.write(1, PERIOD_END_MS + 6, rolls=True)
    document = invoice_of(log, ends={0: 13}, end_ms=BEGIN_MS + DAY_MS)
    document["partitions"][0]["generations"] = [{"log_generation": 1, "begins_at": LOST[0]}]
    assert document["invoice"] == early["invoice"]
    report = verify(document, log)
    assert report.problems == ()
    assert report.partitions[0].segments_sealed == 2
