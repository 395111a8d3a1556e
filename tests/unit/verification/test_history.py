"""What a stranger found: forgeries under a loss, prices and credits that come late, races; each would be accepted, or a
right bill refused, without the check that it names.
"""

import copy
from dataclasses import replace
from typing import Any

import pytest

from penstock.rules.rating import PriceBook
from penstock.verification.commitments import ChainPoint, Notes
from penstock.verification.findings import Kind, Report, Verdict
from tests.unit.verification.honest import PERIOD_MS, Service, rate_again, world
from tests.unit.verification.stored_log import BEGIN_MS, BOOK, DAY_MS, StoredLog
from tests.unit.verification.test_losses import LOST, PERIOD_END_MS, credited, size_from
from tests.unit.verification.test_proving import two_days


def kinds(report: Report) -> set[Kind]:
    return {problem.kind for problem in report.problems}


def lossy() -> Service:
    """One invoice over 25 offsets, of which 13 to 25 were lost afterwards."""
    log = two_days()
    service = Service(log)
    service.cut()
    service.lose_from(log, LOST[0])
    log.write(2, PERIOD_END_MS + 5)
    return service


def agree(service: Service, invoice: str) -> None:
    rate_again(service.documents[invoice], BOOK)
    service.rechain()
    service.show_again()


# -- losses -----------------------------------------------------------------------------------------------------


def test_a_credit_of_nothing_is_no_credit() -> None:
    service = credited(lossy())
    note = service.chain_items[-1]["document"]
    note["ranges"][0].update(messages=0, bytes=0)
    note.update(lines=[], total_micro=0)
    service.rechain()
    service.show_again()
    assert Kind.CREDIT_DIFFERS in kinds(service.verify())


@pytest.mark.parametrize("with_credit", [False, True])
def test_usage_that_is_invented_under_a_loss_is_found(with_credit: bool) -> None:
    service = lossy()
    day = service.documents["inv_1"]["partitions"][0]["days"][1]
    day["messages"] += 1_000
    agree(service, "inv_1")
    if with_credit:
        service.credit("inv_1", service.logs[0], LOST[0], 1_012, size_from(two_days(), LOST[0]))
    assert Kind.QUANTITY_DIFFERS in kinds(service.verify())


def test_a_credit_that_never_came_is_wrong_on_both_invoices_once_the_next_one_is_there() -> None:
    service = lossy()
    assert service.verify("inv_1").verdict is Verdict.PARTLY
    service.cut()
    for invoice in ("inv_1", "inv_2"):
        assert Kind.CREDIT_DIFFERS in kinds(service.verify(invoice))
    late = lossy()
    late.cut()
    credited(late)
    assert Kind.CREDIT_DIFFERS in kinds(late.verify("inv_2")), "behind the invoice that counts it again"


def test_credits_of_what_no_invoice_counts_and_of_no_range_are_found() -> None:
    for change in ({"topic_id": "e" * 32}, None):
        service = credited(lossy())
        ranges = service.chain_items[-1]["document"]["ranges"]
        if change is None:
            ranges.clear()
        else:
            ranges.append({**ranges[0], **change})
        service.rechain()
        service.show_again()
        assert Kind.CREDIT_DIFFERS in kinds(service.verify())


def test_two_losses_between_two_cuts_are_credited_together() -> None:
    service = lossy()
    log = service.logs[0]
    service.lose_from(log, 10)
    log.write(1, PERIOD_END_MS + 9)
    before = two_days()
    service.cut(credits=[("inv_1", log, 10, 15, size_from(before, 10))])
    for invoice in ("inv_1", "inv_2"):
        assert service.verify(invoice).problems == ()
    assert service.documents["inv_2"]["partitions"][0]["counts_from"] == 10


# -- prices -----------------------------------------------------------------------------------------------------


def dearer(version: int, price: str) -> PriceBook:
    document = copy.deepcopy(BOOK.document()) | {"version": version}
    document["meters"][0]["tiers"][0]["unit_price"] = price
    return PriceBook.read(document)


def test_prices_that_brokers_noted_long_after_the_period_began_are_not_shown() -> None:
    service = world()
    for late_ms, verdict in ((3_600_000, Verdict.PROVEN), (3_600_001, Verdict.PARTLY)):
        cut = service.cuts[1]
        service.cuts[1] = replace(cut, kept_ms=cut.end_ms + late_ms)
        assert service.verify("inv_3").verdict is verdict
    service.cuts[0] = replace(service.cuts[0], kept_ms=service.cuts[0].end_ms + 10 * DAY_MS)
    assert service.verify("inv_2").proven, "its prices were noted before"


def test_of_two_assignments_of_one_moment_the_later_holds_and_one_that_comes_later_never() -> None:
    service = Service(two_days())
    moment = service.period_begins_ms + PERIOD_MS
    service.assign(dearer(2, "0.500000000000"), moment)
    service.assign(dearer(3, "0.600000000000"), moment)
    service.cut()
    service.cut()
    assert service.documents["inv_2"]["price_book_sha256"] == dearer(3, "0.600000000000").sha256
    assert service.verify("inv_2").proven
    # An entry behind the invoice, effective before its period, changes nothing of it.
    service.assign(dearer(4, "0.700000000000"), moment)
    assert service.verify("inv_2").proven


def test_prices_entered_right_behind_what_brokers_noted_are_too_late() -> None:
    service = Service(two_days())
    service.cut()
    service.assign(dearer(2, "0.500000000000"), service.period_begins_ms)
    service.chain_items[-1]["at_ms"] = service.chain_items[-2]["at_ms"]
    service.rechain()
    service.logs[0].write(40, service.period_begins_ms + 5)
    service.cut()
    assert Kind.PRICE_DIFFERS in kinds(service.verify("inv_2"))


# -- the chain --------------------------------------------------------------------------------------------------


def test_the_number_is_the_place_in_the_chain() -> None:
    service = Service(two_days())
    service.cut()
    service.documents["inv_1"]["number"] = 76
    service.rechain()
    service.show_again()
    assert Kind.HISTORY_ALTERED in kinds(service.verify())


def test_another_invoice_of_a_number_that_was_proven_here_is_found() -> None:
    service = Service(two_days())
    service.cut()
    noted = Notes(invoices={1: "0" * 64})
    assert kinds(service.verify(notes=noted)) == {Kind.DOCUMENT_ALTERED}


def test_cuts_of_the_brokers_that_do_not_follow_one_another_are_named() -> None:
    service = world()
    service.cuts[1] = replace(service.cuts[1], start_ms=service.cuts[1].start_ms + 1)
    assert Kind.HISTORY_ALTERED in kinds(service.verify("inv_1"))


def test_what_is_older_than_the_brokers_cuts_is_named_and_a_predecessor_left_out_is_wrong() -> None:
    service = world()
    service.cuts = [replace(cut, start_ms=cut.start_ms or 1) for cut in service.cuts]
    document = service.documents["inv_2"]
    document["previous"] = None
    service.chain_items = [item for item in service.chain_items if item["object_id"] != "inv_1"]
    for number, item in enumerate(service.chain_items, 1):
        item["sequence"] = number
    service.rechain()
    service.cuts = [replace(cut, billing=None) for cut in service.cuts]
    assert service.verify("inv_2").verdict is Verdict.WRONG


# -- while one verifies -----------------------------------------------------------------------------------------


def test_a_period_that_ends_while_one_verifies_makes_nothing_wrong() -> None:
    service = Service(two_days())
    service.cut()
    honest_chain = service.chain
    calls: list[int] = []

    def chain() -> Any:
        seen = honest_chain()
        calls.append(len(seen))
        if len(calls) == 1:
            service.cut()
            return seen[:1]  # as it was a moment ago, when the brokers know more
        return seen

    service.chain = chain  # type: ignore[method-assign]
    with pytest.raises(Exception, match="not in the tenant's billing chain"):
        service.verify()
    assert service.verify().proven


def test_a_credit_note_that_comes_while_one_verifies_makes_nothing_wrong() -> None:
    service = lossy()
    honest_invoice = service.invoice
    calls: list[str] = []

    def invoice(invoice_id: str) -> Any:
        if not calls:
            credited(service)
        calls.append(invoice_id)
        return honest_invoice(invoice_id)

    service.invoice = invoice  # type: ignore[method-assign]
    assert service.verify().problems == ()


def test_retention_of_a_period_whose_last_message_is_not_of_its_last_day_leaves_it_proven() -> None:
    log = StoredLog()
    service = Service(log)
    log.write(3, BEGIN_MS + 1)
    service.cut()
    log.write(3, BEGIN_MS + PERIOD_MS + 5)
    log.write(1, BEGIN_MS + PERIOD_MS + 6, rolls=True)
    service.cut()
    log.delete_below(6)
    assert service.verify("inv_1").problems == ()
    assert service.verify("inv_2").problems == ()


def test_a_noted_chain_that_goes_on_is_the_same_chain() -> None:
    service = world()
    for item in service.chain_items:
        noted = Notes(billing=ChainPoint(sequence=item["sequence"], hash=item["hash"]))
        assert service.verify("inv_3", noted).proven


@pytest.mark.parametrize("behind", ["a second entry of prices", "an invoice"])
def test_an_entry_that_is_older_than_the_one_before_it_is_named(behind: str) -> None:
    service = world()
    if behind == "a second entry of prices":
        service.assign(dearer(3, "0.500000000000"), service.period_begins_ms + PERIOD_MS)
    at_ms = service.chain_items[-1]["at_ms"]
    # The same moment is no order: a credit note and its invoice may be of one.
    service.assign(dearer(4, "0.600000000000"), service.period_begins_ms + PERIOD_MS)
    for changed_ms, due in ((at_ms, set()), (at_ms - 1, {Kind.HISTORY_ALTERED})):
        service.chain_items[-1]["at_ms"] = changed_ms
        service.rechain()
        assert kinds(service.verify("inv_3")) == due
