"""Forgeries that were thought out, each made to agree with itself as far as it can, and honest bills under hard
circumstances: rows of the table in `alterations.py`.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from penstock.rules.rating import PriceBook
from penstock.verification.commitments import NOTHING_NOTED, ChainPoint, Notes
from tests.unit.verification.honest import PERIOD_MS, Alteration, Service, rate_again, world
from tests.unit.verification.stored_log import BEGIN_MS, BOOK, DAY_MS


def _agree(service: Service, *invoices: str) -> None:
    """Rate altered invoices again, and write everything again to agree."""
    for invoice in invoices:
        rate_again(
            service.documents[invoice], service._book_for(service.documents[invoice]["period_start_ms"])
        )
    service.rechain()
    service.show_again()


def _part(service: Service, invoice: str, topic: str, partition: int = 0) -> dict[str, Any]:
    parts: list[dict[str, Any]] = service.documents[invoice]["partitions"]
    return next(p for p in parts if (p["topic"], p["partition"]) == (topic, partition))


def _reading(service: Service, invoice: str, part: dict[str, Any]) -> dict[str, Any]:
    readings: list[dict[str, Any]] = service.documents[invoice]["cut"]["readings"]
    place = (part["topic_id"], part["partition"])
    return next(r for r in readings if (r["topic_id"], r["partition"]) == place)


def no_predecessor(service: Service) -> None:
    """Invoice 2 begins at offset 0 again, with none before it."""
    document = service.documents["inv_2"]
    document["previous"] = None
    for part in document["partitions"]:
        part["start_offset"] = part["counts_from"] = 0
    orders = _part(service, "inv_2", "orders")
    first = _part(service, "inv_1", "orders")
    orders["days"] = [*copy.deepcopy(first["days"]), *orders["days"]]
    _agree(service, "inv_2")


def another_predecessor(change: Callable[[dict[str, Any]], None], service: Service) -> None:
    change(service.documents["inv_2"]["previous"])
    service.rechain()
    service.show_again()


def predecessor_with_an_empty_cut(service: Service) -> None:
    service.documents["inv_1"]["cut"]["readings"] = []
    service.documents["inv_1"]["partitions"] = []
    _agree(service, "inv_1")


def counts_anew(service: Service) -> None:
    """`counts_from` below the cut before, without a loss."""
    part, before = _part(service, "inv_2", "orders"), _part(service, "inv_1", "orders")
    part["counts_from"] = before["days"][-1]["first_offset"]
    part["days"] = [copy.deepcopy(before["days"][-1]), *part["days"]]
    _agree(service, "inv_2")


def period_begins_later(service: Service) -> None:
    document = service.documents["inv_1"]
    document["period_start_ms"] += 5 * DAY_MS
    service.chain_items[0]["document"]["effective_from_ms"] = document["period_start_ms"]
    _agree(service, "inv_1")


def period_ends_earlier(service: Service) -> None:
    service.documents["inv_2"]["period_end_ms"] -= DAY_MS
    service.documents["inv_3"]["period_start_ms"] -= DAY_MS
    _agree(service, "inv_2", "inv_3")


def second_generation(service: Service) -> None:
    """Every partition once more under an invented log generation."""
    document = service.documents["inv_1"]
    for part in copy.deepcopy(document["partitions"]):
        part["log_generation"] += 1
        document["partitions"].append(part)
    for reading in copy.deepcopy(document["cut"]["readings"]):
        reading["log_generation"] += 1
        document["cut"]["readings"].append(reading)
    _agree(service, "inv_1")


def topic_that_never_was(service: Service) -> None:
    """20,000 messages of a topic that was never made, and is said to be deleted."""
    document = service.documents["inv_2"]
    place = {"topic_id": "f" * 32, "partition": 0, "log_generation": 0}
    accepted_ms = document["period_start_ms"] + 9
    reading = {
        **place, "end_offset": 20_000, "accepted_ms": accepted_ms, "messages": 20_000, "bytes": 10**6, "last": True,
    }  # fmt: skip
    document["cut"]["readings"].append(reading)
    day = copy.deepcopy(_part(service, "inv_2", "orders")["days"][0])
    day.update(first_offset=0, end_offset=20_000, messages=20_000, bytes=10**6)
    document["partitions"].append(
        {**place, "topic": "void", "start_offset": 0, "counts_from": 0, "end_offset": 20_000, "days": [day]}
    )
    document["partitions"].sort(key=lambda part: (part["topic"], part["topic_id"], part["partition"]))
    _agree(service, "inv_2")


def billed_again(service: Service) -> None:
    """A third invoice over the range of the second, with the same predecessor."""
    again = copy.deepcopy(service.documents["inv_2"])
    again.update(id="inv_2b")
    service.documents["inv_2b"] = again
    service.enter("invoice", "inv_2b", again, again["issued_at_ms"] + PERIOD_MS * 2)
    service.chain_items[-1]["at_ms"] = again["issued_at_ms"] = service.chain_items[-2]["at_ms"]
    rate_again(again, BOOK)
    service.rechain()
    again["previous"] = copy.deepcopy(service.documents["inv_2"]["previous"])
    _agree(service)


def billed_again_as_the_next(service: Service) -> None:
    """The same, as invoice 4 behind the third."""
    again = copy.deepcopy(service.documents["inv_2"])
    third = service.documents["inv_3"]
    again.update(id="inv_4", number=4, issued_at_ms=third["issued_at_ms"])
    again["previous"] = {"id": "inv_3", "number": 3, "document_sha256": "0" * 64}
    service.documents["inv_4"] = again
    service.enter("invoice", "inv_4", again, third["issued_at_ms"])
    _agree(service, "inv_4")


def off_the_chain(service: Service) -> None:
    """An invoice that the chain does not know."""
    again = copy.deepcopy(service.documents["inv_2"])
    again.update(id="inv_9")
    service.documents["inv_9"] = again
    rate_again(again, BOOK)
    service.shown["inv_9"] = {**service.shown["inv_2"], "id": "inv_9"}


def predecessors_cut_lowered(service: Service) -> None:
    """The cut of invoice 1 is lowered after it was paid, and invoice 2 counts from there."""
    first, second = _part(service, "inv_1", "orders"), _part(service, "inv_2", "orders")
    tail = first["days"].pop()
    first["end_offset"] = tail["first_offset"]
    reading = _reading(service, "inv_1", first)
    reading.update(
        end_offset=tail["first_offset"],
        messages=reading["messages"] - tail["messages"],
        bytes=reading["bytes"] - tail["bytes"],
        accepted_ms=BEGIN_MS + 1,
    )
    second["start_offset"] = second["counts_from"] = tail["first_offset"]
    second["days"] = [tail, *second["days"]]
    _agree(service, "inv_1", "inv_2")


def dearer(invoice: str, entry: int, service: Service) -> None:
    """Other prices in the chain, and all that follows from them."""
    service.chain_items[entry]["document"]["price_book"]["meters"][0]["tiers"][0]["unit_price"] = (
        "9.000000000000"
    )
    service.book = PriceBook.read(service.chain_items[entry]["document"]["price_book"])
    _agree(service, invoice)


def late_prices(service: Service) -> None:
    """Prices entered after the period had begun, effective before."""
    document = service.documents["inv_3"]
    item = service.chain_items.pop(2)
    for number, one in enumerate(service.chain_items, 1):
        one["sequence"] = number
    item["document"]["price_book"]["meters"][0]["tiers"][0]["unit_price"] = "9.000000000000"
    item.update(sequence=len(service.chain_items), at_ms=service.chain_items[-2]["at_ms"])
    service.chain_items.insert(len(service.chain_items) - 1, item)
    service.chain_items[-1]["sequence"] = len(service.chain_items)
    rate_again(document, PriceBook.read(item["document"]["price_book"]))
    service.rechain()
    service.show_again()


def other_currency(service: Service) -> None:
    service.chain_items[0]["document"]["price_book"]["currency"] = "GBP"
    service.chain_items[3]["document"]["currency"] = "GBP"
    _agree(service, "inv_1")
    service.chain_items[3]["document"]["price_book_sha256"] = service.documents["inv_1"]["price_book_sha256"]
    service.rechain()
    service.show_again()


def other_digits(service: Service) -> None:
    """Amounts read in another unit than the prices give."""
    service.documents["inv_2"]["minor_digits"] = 0
    service.rechain()
    service.show_again()


def other_tenant(service: Service) -> None:
    for document in service.documents.values():
        document["tenant"] = "tn_2"
    for item in service.chain_items:
        if item["document"] is not None:
            item["document"]["tenant"] = "tn_2"
    service.rechain()
    service.show_again()


def another_cut(service: Service) -> None:
    service.documents["inv_2"]["cut"]["id"] = "cut_1"
    service.rechain()
    service.show_again()


def unknown_cut(service: Service) -> None:
    service.documents["inv_2"]["cut"]["id"] = "cut_77"
    service.rechain()
    service.show_again()


def half_a_message(service: Service) -> None:
    service.documents["inv_2"]["lines"][0]["quantity"] += 0.5


def half_a_micro(service: Service) -> None:
    service.documents["inv_2"]["total_micro"] += 0.9


def cut_at_nothing(service: Service) -> None:
    """The cut says 0 of a partition that holds messages: they are billed later, at other prices."""
    part = _part(service, "inv_1", "orders", 1)
    _reading(service, "inv_1", part).update(end_offset=0, accepted_ms=-1, messages=0, bytes=0)
    part.update(end_offset=0, days=[])
    _agree(service, "inv_1")


def shown_dearer(service: Service) -> None:
    service.shown["inv_2"]["total_micro"] = 120_000_000


def one_message_more(service: Service) -> None:
    day = _part(service, "inv_2", "orders")["days"][0]
    day["messages"] += 1
    _reading(service, "inv_2", _part(service, "inv_2", "orders"))["messages"] += 1
    _agree(service, "inv_2")


def one_byte_more_of_a_deleted_topic(service: Service) -> None:
    part = _part(service, "inv_2", "brief")
    part["days"][0]["bytes"] += 1
    _reading(service, "inv_2", part)["bytes"] += 1
    _agree(service, "inv_2")


def deleted_topic_twice(service: Service) -> None:
    """What a deleted topic held is billed in the next period again."""
    part = copy.deepcopy(_part(service, "inv_2", "brief"))
    reading = copy.deepcopy(_reading(service, "inv_2", part))
    document = service.documents["inv_3"]
    document["partitions"].insert(0, part)
    document["cut"]["readings"].append(reading)
    document["cut"]["readings"].sort(key=lambda r: (r["topic_id"], r["partition"]))
    _agree(service, "inv_3")


def not_deleted_after_all(service: Service) -> None:
    """A reading is said to be a last one, so that younger messages may be in it."""
    _reading(service, "inv_2", _part(service, "inv_2", "orders"))["last"] = True
    _agree(service, "inv_2")


def credit_kept_back(service: Service) -> None:
    """The credit note is taken out of the chain."""
    del service.chain_items[3]
    for number, item in enumerate(service.chain_items, 1):
        item["sequence"] = number
    service.rechain()
    service.show_again()


def smaller_credit(service: Service) -> None:
    note = service.chain_items[3]["document"]
    note["lines"][0]["amount_micro"] -= 10_000
    note["total_micro"] -= 10_000
    service.rechain()
    service.show_again()


def credit_of_another(service: Service) -> None:
    service.chain_items[3]["document"]["invoice"]["id"] = "inv_2"
    service.rechain()
    service.show_again()


def invented_loss(service: Service) -> None:
    """The next invoice counts from below the cut, as if a loss had made it."""
    counts_anew(service)
    _part(service, "inv_2", "orders")["log_generation"] = 1
    _reading(service, "inv_2", _part(service, "inv_2", "orders"))["log_generation"] = 1
    _agree(service, "inv_2")


def chain_cut_off(service: Service) -> None:
    """The chain ends before what brokers noted."""
    del service.chain_items[2:]
    for invoice in ("inv_2", "inv_3"):
        del service.documents[invoice]
    service.rechain()


def chain_begins_anew(service: Service) -> None:
    """Another chain from its first entry on."""
    service.chain_items[0]["at_ms"] -= 1
    service.rechain()


def entries_swapped(service: Service) -> None:
    service.chain_items[1], service.chain_items[2] = service.chain_items[2], service.chain_items[1]
    for number, item in enumerate(service.chain_items, 1):
        item["sequence"] = number
    service.rechain()


def entry_twice(service: Service) -> None:
    service.chain_items.append(
        {**copy.deepcopy(service.chain_items[1]), "sequence": len(service.chain_items) + 1}
    )
    service.rechain()


def rounded_up(service: Service) -> None:
    line = service.documents["inv_2"]["lines"][0]
    line["amount_micro"] += 10_000
    service.documents["inv_2"]["total_micro"] += 10_000
    service.rechain()
    service.show_again()


def extra_line(service: Service) -> None:
    document = service.documents["inv_2"]
    line = {**copy.deepcopy(document["lines"][0]), "id": "il_0", "meter": "support", "amount_micro": 10_000}
    document["lines"].append(line)
    document["total_micro"] += 10_000
    service.rechain()
    service.show_again()


def free_allowance_gone(service: Service) -> None:
    """The parts of a line say that nothing was free."""
    line = service.documents["inv_2"]["lines"][0]
    line["parts"] = [{"quantity": line["quantity"], "unit_price": "0.020000000000"}]
    service.rechain()
    service.show_again()


def partition_left_out(service: Service) -> None:
    document = service.documents["inv_2"]
    document["partitions"] = [p for p in document["partitions"] if p["topic"] != "orders"]
    _agree(service, "inv_2")


def renumbered(service: Service) -> None:
    service.documents["inv_1"]["number"] = 2
    service.rechain()
    service.show_again()


def honest(service: Service) -> None:
    """As it is."""


def segments_gone(service: Service) -> None:
    for log in service.logs:
        log.delete_below(log.end_offset)


def half_a_log_gone(service: Service) -> None:
    service.logs[0].delete_below(7)


def seals_gone(service: Service) -> None:
    """The leader is a replica that came later and knows no seal."""
    for log in service.logs:
        log.seals.clear()


def seals_and_one_day_gone(service: Service) -> None:
    seals_gone(service)
    service.logs[1].delete_below(3)


def topic_deleted_since(service: Service) -> None:
    service.logs = [log for log in service.logs if log.name != "orders" or log.where.partition != 1]


def noted(service: Service) -> Notes:
    """What a machine has that proved invoice 1 when it was new."""
    item = service.chain_items[1]
    return Notes(billing=ChainPoint(sequence=2, hash=item["hash"]), invoices={1: item["document_sha256"]})


def stories() -> Iterator[Alteration]:
    """Forgeries and honest bills, by name."""
    known = noted(world())
    yes: list[tuple[str, Callable[[Service], None], str, Notes]] = [
        ("honest: the first invoice, with its credit note", honest, "inv_1", NOTHING_NOTED),
        ("honest: a period with a deleted topic and after a loss", honest, "inv_2", NOTHING_NOTED),
        ("honest: prices that were changed in time", honest, "inv_3", NOTHING_NOTED),
        ("honest: the same, by a machine that noted invoice 1", honest, "inv_3", known),
        ("honest: retention has deleted all segments", segments_gone, "inv_2", NOTHING_NOTED),
        ("honest: records deleted within a segment", half_a_log_gone, "inv_2", NOTHING_NOTED),
        ("honest: a leader without seals", seals_gone, "inv_1", NOTHING_NOTED),
        ("honest: a leader without seals, one day deleted", seals_and_one_day_gone, "inv_1", NOTHING_NOTED),
        ("honest: a topic deleted since", topic_deleted_since, "inv_1", NOTHING_NOTED),
    ]
    for name, alter, invoice, notes in yes:
        yield Alteration(name=name, alter=alter, invoice=invoice, right=True, notes=notes)
    no: list[tuple[str, Callable[[Service], None], str]] = [
        ("period 1 billed twice: invoice 2 without a predecessor, from offset 0", no_predecessor, "inv_2"),
        (
            "predecessor of another name",
            partial(another_predecessor, lambda p: p.update(id="inv_0")),
            "inv_2",
        ),
        (
            "predecessor of another number",
            partial(another_predecessor, lambda p: p.update(number=7)),
            "inv_2",
        ),
        ("predecessor with an empty cut", predecessor_with_an_empty_cut, "inv_2"),
        ("predecessor with an empty cut, itself", predecessor_with_an_empty_cut, "inv_1"),
        ("counts anew below the cut without a loss", counts_anew, "inv_2"),
        ("counts anew under an invented generation", invented_loss, "inv_2"),
        ("the period is said to begin later", period_begins_later, "inv_1"),
        ("the period is said to end earlier", period_ends_earlier, "inv_2"),
        ("the next period is said to begin earlier", period_ends_earlier, "inv_3"),
        ("every partition twice under an invented generation", second_generation, "inv_1"),
        ("a topic that never was, said to be deleted", topic_that_never_was, "inv_2"),
        ("the same period on another invoice", billed_again, "inv_2b"),
        ("the same period as the newest invoice", billed_again_as_the_next, "inv_4"),
        ("an invoice that is not in the chain", off_the_chain, "inv_9"),
        ("the predecessor's cut lowered afterwards", predecessors_cut_lowered, "inv_2"),
        ("the predecessor's cut lowered afterwards, itself", predecessors_cut_lowered, "inv_1"),
        ("dearer prices from the beginning", partial(dearer, "inv_1", 0), "inv_1"),
        ("dearer prices from period 3", partial(dearer, "inv_3", 2), "inv_3"),
        ("prices entered after the period had begun", late_prices, "inv_3"),
        ("another currency", other_currency, "inv_1"),
        ("amounts in another minor unit", other_digits, "inv_2"),
        ("everything of another tenant", other_tenant, "inv_2"),
        ("the cut of another period", another_cut, "inv_2"),
        ("a cut that brokers do not keep", unknown_cut, "inv_2"),
        ("half a message", half_a_message, "inv_2"),
        ("a part of a micro-unit", half_a_micro, "inv_2"),
        ("a cut at 0 of a partition with messages", cut_at_nothing, "inv_1"),
        ("honest documents, 120.00 shown", shown_dearer, "inv_2"),
        ("one message more", one_message_more, "inv_2"),
        ("one byte more of a deleted topic", one_byte_more_of_a_deleted_topic, "inv_2"),
        ("a deleted topic billed twice", deleted_topic_twice, "inv_3"),
        ("a last reading of a topic that is there", not_deleted_after_all, "inv_2"),
        ("the credit note kept back", credit_kept_back, "inv_1"),
        ("a smaller credit", smaller_credit, "inv_1"),
        ("the credit given to another invoice", credit_of_another, "inv_1"),
        ("the chain cut off", chain_cut_off, "inv_1"),
        ("another chain from its beginning", chain_begins_anew, "inv_3"),
        ("entries of the chain swapped", entries_swapped, "inv_1"),
        ("an entry of the chain twice", entry_twice, "inv_1"),
        ("rounded up", rounded_up, "inv_2"),
        ("a line for nothing", extra_line, "inv_2"),
        ("nothing was free", free_allowance_gone, "inv_2"),
        ("a partition left out", partition_left_out, "inv_2"),
        ("the first invoice renumbered", renumbered, "inv_1"),
    ]
    for name, alter, invoice in no:
        yield Alteration(name=name, alter=alter, invoice=invoice)
