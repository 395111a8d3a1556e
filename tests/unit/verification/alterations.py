"""The table of alterations: what a biller who lies may do to documents, and the verdict of the proof on each.

`python -m tests.unit.verification.alterations` prints it. Three kinds stand in it:

- *fields*: every value of every document, one by one, as the service sends it, with nothing else changed;
- *rewritten*: the same, and then the biller writes its whole chain, every hash and what REST shows again, so that its
  documents agree among themselves;
- *stories*: forgeries that were thought out, each made to agree with itself as far as it can, and honest bills under
  hard circumstances, which must not be refused.
"""

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TopicId
from penstock.rules.rating import PriceBook
from penstock.verification.commitments import NOTHING_NOTED, ChainPoint, Notes
from penstock.verification.findings import Verdict
from tests.unit.verification.honest import PERIOD_MS, Service, rate_again
from tests.unit.verification.stored_log import BEGIN_MS, BOOK, DAY_MS, StoredLog

RETURNS, BRIEF = TopicId(bytes(16)), TopicId(b"b" * 16)
REFUSED = "refused"
"""The document is no document: nothing is proven, and the exit status is that of *wrong*."""

NO_PART: dict[str, str] = {
    "rewritten newest-inv.partitions.topic": "the name of a deleted topic; its id counts, and a live one's is compared",
    "rewritten newest-credit.number": "numbers of credit notes are the service's; the chain holds each note once",
    "rewritten newest-credit.cut_id": "at which cut a loss was seen: the brokers name the loss itself",
    "rewritten newest-credit.ranges.topic": "the name of a topic beside its id, which counts",
    "rewritten newest-credit.ranges.log_generation": "the brokers name the generation that the loss began",
}
"""Values whose alteration is not noticed when the biller rewrites everything else to agree, and no cut and no machine
has noted the chain since; with the reason why that decides nothing. All of them are found afterwards.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """`alter` changes a service; `invoice` is then verified. `right`: it bills what is due, and must be accepted."""

    name: str
    alter: Callable[[Service], None]
    invoice: str
    right: bool = False
    notes: Notes = NOTHING_NOTED
    periods: int = 3


def world(periods: int = 3) -> Service:
    """Several partitions, a loss that is credited, a topic that is deleted, prices that change for the third period."""
    orders, more = StoredLog(0), StoredLog(1)
    returns, brief = StoredLog(0, RETURNS, "returns"), StoredLog(0, BRIEF, "brief")
    orders.write(4, BEGIN_MS + 1)
    orders.write(6, BEGIN_MS + DAY_MS, rolls=True)
    more.write(3, BEGIN_MS + 7)
    returns.write(5, BEGIN_MS + 2)
    returns.write(5, BEGIN_MS + 3)
    service = Service(orders, more, returns, book=BOOK)
    service.cut()
    second_ms = BEGIN_MS + PERIOD_MS
    size = len(returns.batches[1])
    service.lose_from(returns, 5)
    returns.write(2, second_ms + 5)
    orders.write(3, second_ms + 6)
    service.logs.append(brief)
    brief.write(2, second_ms + 7)
    service.delete_topic(brief)
    dearer = BOOK.document() | {"version": 2}
    dearer["meters"][0]["tiers"][0]["unit_price"] = "0.030000000000"
    service.assign(PriceBook.read(dearer), second_ms + PERIOD_MS)
    service.cut()
    service.book = BOOK
    service.credit("inv_1", returns, 5, 5, size)
    if periods > 2:
        orders.write(8, second_ms + PERIOD_MS + 1)
        service.cut()
    return service


def verdict_of(alteration: Alteration) -> str:
    """`proven`, `partly`, `wrong` or `refused`."""
    service = world(alteration.periods)
    alteration.alter(service)
    try:
        return service.verify(alteration.invoice, alteration.notes).verdict.value
    except InvalidRequest:
        return REFUSED


# -- fields -------------------------------------------------------------------------------------------------------

Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value that is no object, lists as such and their elements."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    else:
        yield path, value
        if isinstance(value, list):
            for index, inner in enumerate(value):
                yield from leaves(inner, (*path, index))


def others(value: Any) -> Iterator[tuple[str, Any]]:
    """Other values of the same kind, and of none."""
    if isinstance(value, bool):
        yield "turned", not value
    elif isinstance(value, int):
        yield "one more", value + 1
        yield "a half more", value + 0.5
        yield "as text", str(value)
        if value > 0:
            yield "one less", value - 1
            yield "nothing", 0
    elif isinstance(value, str):
        yield "another", _other_text(value)
        yield "empty", ""
    elif isinstance(value, list):
        if value:
            yield "without its last", value[:-1]
            yield "its last twice", [*value, copy.deepcopy(value[-1])]
        if len(value) > 1:
            yield "turned round", value[::-1]
    elif value is None:
        yield "something", {"id": "inv_0", "number": 1, "document_sha256": "0" * 64}


def _other_text(text: str) -> str:
    """Of the same form: the last letter or digit is another one."""
    for at in range(len(text) - 1, -1, -1):
        if text[at].isalnum():
            return (
                text[:at] + ("1" if text[at] == "0" else "0" if text[at].isdigit() else "b") + text[at + 1 :]
            )
    return text + "x"


def put(value: Any, path: Path, new: Any) -> None:
    for step in path[:-1]:
        value = value[step]
    value[path[-1]] = new


def shown_path(path: Path) -> str:
    """Without the numbers of list elements: one name a field."""
    return ".".join(str(step) for step in path if isinstance(step, str))


@dataclass(frozen=True, slots=True)
class Source:
    """A document of a service after so many periods, and the invoice that is verified once it was altered."""

    find: Callable[[Service], Any]
    invoice: str
    periods: int = 3


SOURCES = {
    "inv-1": Source(lambda service: service.documents["inv_1"], "inv_1"),
    "inv-2": Source(lambda service: service.documents["inv_2"], "inv_2"),
    "inv-before": Source(lambda service: service.documents["inv_2"], "inv_3"),
    # The newest entries of the chain are those that no cut has noted yet.
    "newest-inv": Source(lambda service: service.documents["inv_2"], "inv_2", 2),
    "newest-credit": Source(lambda service: service.chain_items[4]["document"], "inv_1", 2),
    "newest-entry": Source(lambda service: service.chain_items[3], "inv_2", 2),
    "prices-1": Source(lambda service: service.chain_items[0]["document"], "inv_1"),
    "prices-2": Source(lambda service: service.chain_items[2]["document"], "inv_3"),
    "credit": Source(lambda service: service.chain_items[4]["document"], "inv_1"),
    "shown": Source(lambda service: service.shown["inv_1"], "inv_1"),
    "chain": Source(lambda service: service.chain_items[3], "inv_2"),
}


def _alter_field(source: str, path: Path, new: Any, *, rewrite: bool, service: Service) -> None:
    document = SOURCES[source].find(service)
    if path:
        put(document, path, new)
    else:
        document["surprise"] = 1
    if rewrite:
        try:
            service.rechain()
        except (InvalidRequest, KeyError, TypeError):
            return  # no document any more: it cannot be given a hash
        if source != "shown":
            service.show_again()


_WRITTEN_AGAIN = frozenset({"document", "hash", "document_sha256"})
"""Values that a biller who writes everything again gives their right content."""


def fields(*, rewritten: bool) -> Iterator[Alteration]:
    """Every value of every document by itself; or with everything else written again to agree."""
    kind = "rewritten" if rewritten else "field"
    for source, one in SOURCES.items():
        if rewritten and source == "shown":
            continue
        document = one.find(world(one.periods))
        for path, value in leaves(document):
            if rewritten and _WRITTEN_AGAIN & set(path):
                continue
            for what, new in others(value):
                yield Alteration(
                    name=f"{kind} {source}.{shown_path(path)}{_index(path)}: {what}",
                    alter=partial(_alter, source, path, new, rewritten),
                    invoice=one.invoice,
                    periods=one.periods,
                )
        if source != "shown":  # what REST adds to its answers is compared with nothing
            yield Alteration(
                name=f"{kind} {source}: a field that no schema knows",
                alter=partial(_alter, source, (), None, rewritten),
                invoice=one.invoice,
                periods=one.periods,
            )


def _alter(source: str, path: Path, new: Any, rewrite: bool, service: Service) -> None:
    _alter_field(source, path, new, rewrite=rewrite, service=service)


def _index(path: Path) -> str:
    numbers = [str(step) for step in path if isinstance(step, int)]
    return f" [{', '.join(numbers)}]" if numbers else ""


# -- stories ------------------------------------------------------------------------------------------------------


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
    service._enter("invoice", "inv_2b", again, again["issued_at_ms"] + PERIOD_MS * 2)
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
    service._enter("invoice", "inv_4", again, third["issued_at_ms"])
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
    service.chain_items[4]["document"]["currency"] = "GBP"
    _agree(service, "inv_1")
    service.chain_items[4]["document"]["price_book_sha256"] = service.documents["inv_1"]["price_book_sha256"]
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
    del service.chain_items[4]
    for number, item in enumerate(service.chain_items, 1):
        item["sequence"] = number
    service.rechain()
    service.show_again()


def smaller_credit(service: Service) -> None:
    note = service.chain_items[4]["document"]
    note["lines"][0]["amount_micro"] -= 10_000
    note["total_micro"] -= 10_000
    service.rechain()
    service.show_again()


def credit_of_another(service: Service) -> None:
    service.chain_items[4]["document"]["invoice"]["id"] = "inv_2"
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


def main() -> int:
    """Print the table; 0 when every verdict is the due one."""
    table = [*stories(), *fields(rewritten=False), *fields(rewritten=True)]
    wrong, counts = 0, {"right": 0, "altered": 0}
    for alteration in table:
        verdict = verdict_of(alteration)
        excused = field_name(alteration) in NO_PART
        good = is_due(alteration, verdict) or excused
        wrong += not good
        counts["right" if alteration.right else "altered"] += 1
        note = "" if good else "   <-- NOT DUE"
        aside = "   (no part of the proof)" if excused else ""
        print(f"{verdict:8} {alteration.invoice:7} {alteration.name}{aside}{note}")
    print(
        f"{len(table)} alterations: {counts['altered']} that bill wrongly or contradict, {counts['right']} honest; "
        f"{wrong} with another verdict than is due"
    )
    return 1 if wrong else 0


def field_name(alteration: Alteration) -> str:
    """Of a field's alteration the field, as `NO_PART` names it."""
    return alteration.name.split(":")[0].split(" [")[0]


def is_due(alteration: Alteration, verdict: str) -> bool:
    """An honest bill is never wrong, an altered one never proven, and a forgery that was thought out always wrong."""
    if alteration.right:
        return verdict in (Verdict.PROVEN, Verdict.PARTLY)
    if alteration.name.startswith(("field ", "rewritten ")):
        return verdict != Verdict.PROVEN
    return verdict in (Verdict.WRONG, REFUSED)


if __name__ == "__main__":
    sys.exit(main())
