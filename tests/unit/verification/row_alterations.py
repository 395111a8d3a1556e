"""Alterations of rows, generated from the documents themselves: each row of each list is doubled, dropped and swapped,
and each value of it is changed, replaced by one that stands elsewhere, and doubled under it.

The biller is as strong as one can be without the brokers: it wrote everything so from the beginning, before the brokers
noted its chain, and its sums, hashes and ids agree. What is left against it are the log, and the cuts, losses and times
that the brokers keep. A new field or list of a document is altered here without a line of its own.

`python -m tests.unit.verification.row_alterations` prints the table.
"""

import copy
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal

from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.invariant import InvariantBroken
from penstock.rules.rating import PriceBook
from penstock.verification.commitments import ChainPoint, KeptCut, KeptLoss
from penstock.verification.findings import Verdict
from tests.unit.verification import row_worlds
from tests.unit.verification.honest import Service, rate_again

REFUSED = "refused"
"""The document is no document: nothing is proven, and the exit status is that of *wrong*."""
NAMED = "named"
"""Nothing contradicts, and something is named as not shown that is shown of the honest invoice."""
DEARER = "dearer"
"""Nothing is named beyond what the honest invoice has, and the tenant pays more. `PARTLY` behind it: with exit status
10, as lines of this kind are named in any case.
"""
UNNOTICED = "unnoticed"
"""The same, and the tenant pays no more."""
UNCHANGED = "unchanged"
"""Once everything agrees, nothing is altered: the biller has written the honest value again."""
VALUES_MAX = 3
"""So many values that a field has elsewhere are tried in its place."""
SORTED: Mapping[str, tuple[str, ...]] = {
    "partitions": ("topic", "topic_id", "partition"),
    "readings": ("topic_id", "partition"),
    "measured": ("meter", "topic", "topic_id", "day"),
}
"""Lists that stand in the order of these fields: the biller sorts them again."""
Path = tuple[str | int, ...]
Kind = Literal["invoice", "note", "prices", "chain", "alone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A value of a world with rows, how the rest is made to agree with it, and the invoices that are verified then."""

    world: Callable[[], Service]
    find: Callable[[Service], Any]
    invoices: tuple[str, ...]
    kind: Kind
    nested: bool = True
    """Whether rows within rows are altered here, too."""
    put: Callable[[Service, Any], None] = lambda service, value: None
    """Puts back what `find` copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAlteration:
    """`change` alters the source's value."""

    source: str
    place: str
    """The list, and the field if one is altered, without the numbers of rows."""
    what: str
    row: int
    change: Callable[[Any], None]

    @property
    def name(self) -> str:
        return f"{self.source}: {self.place} [{self.row}] {self.what}"


# -- what is altered ------------------------------------------------------------------------------------------------


def _cuts(service: Service) -> Any:
    return [asdict(cut) for cut in service.cuts]


def _put_cuts(service: Service, value: Any) -> None:
    service.cuts = [
        KeptCut(**{**cut, "billing": None if cut["billing"] is None else ChainPoint(**cut["billing"])})
        for cut in value
    ]


def _losses(service: Service) -> Any:
    return [
        {
            "topic_id": loss.where.topic_id.hex(),
            "partition": loss.where.partition,
            "log_generation": loss.log_generation,
            "offset": loss.offset,
        }
        for loss in service.losses
    ]


def _put_losses(service: Service, value: Any) -> None:
    service.losses = [
        KeptLoss(
            where=TopicPartition(TopicId(bytes.fromhex(loss["topic_id"])), loss["partition"]),
            log_generation=loss["log_generation"],
            offset=loss["offset"],
        )
        for loss in value
    ]


def _entries(service: Service) -> Any:
    return [{**item, "document": None} for item in service.chain_items]


def _put_entries(service: Service, value: Any) -> None:
    documents = {item["object_id"]: item["document"] for item in service.chain_items}
    service.chain_items = [
        {**item, "document": copy.deepcopy(documents.get(item["object_id"]))} for item in value
    ]


def _noted(number: int) -> Callable[[Service], Any]:
    return lambda service: service.chain_items[number]["document"]


def _issued(name: str) -> Callable[[Service], Any]:
    return lambda service: service.documents[name]


def _records(service: Service) -> Any:
    return service.records


def _shown(service: Service) -> Any:
    return service.shown["inv_1"]


_ALL = ("inv_1", "inv_2", "inv_3")
_FOUR = (*_ALL, "inv_4")
_PLAIN, _CHARGED, _USAGE = row_worlds.plain, row_worlds.charged, row_worlds.measured
_GRANTED = row_worlds.granted
SOURCES: Mapping[str, Source] = {
    "invoice 1": Source(world=_PLAIN, find=_issued("inv_1"), invoices=("inv_1", "inv_2"), kind="invoice"),
    "invoice 2": Source(world=_PLAIN, find=_issued("inv_2"), invoices=("inv_2", "inv_3"), kind="invoice"),
    "charged invoice": Source(
        world=_CHARGED, find=_issued("inv_2"), invoices=("inv_2", "inv_3"), kind="invoice"
    ),
    "usage rows": Source(world=_USAGE, find=_issued("inv_3"), invoices=("inv_3",), kind="invoice"),
    "statement of tax": Source(
        world=row_worlds.taxed, find=_issued("inv_2"), invoices=("inv_2",), kind="invoice"
    ),
    "credit note": Source(world=_PLAIN, find=_noted(3), invoices=("inv_1", "inv_2"), kind="note"),
    "charged credit note": Source(world=_CHARGED, find=_noted(3), invoices=("inv_1", "inv_2"), kind="note"),
    "credit note of parts": Source(world=_GRANTED, find=_noted(6), invoices=_FOUR, kind="note"),
    "credit note of an amount": Source(world=_GRANTED, find=_noted(7), invoices=_FOUR, kind="note"),
    "last credit note": Source(world=_GRANTED, find=_noted(8), invoices=_FOUR, kind="note"),
    "reopened invoice": Source(
        world=row_worlds.reopened, find=_issued("inv_2"), invoices=("inv_2", "inv_3"), kind="invoice"
    ),
    "prices after a coupon": Source(
        world=row_worlds.redeemed, find=_noted(2), invoices=("inv_3", "inv_4"), kind="prices"
    ),
    "prices with coupons": Source(
        world=row_worlds.redeemed, find=_noted(4), invoices=("inv_4",), kind="prices"
    ),
    "entries with coupons": Source(
        world=row_worlds.redeemed,
        find=_entries,
        invoices=_FOUR,
        kind="chain",
        put=_put_entries,
    ),
    "later prices": Source(world=_CHARGED, find=_noted(2), invoices=("inv_3",), kind="prices"),
    "entries": Source(world=_PLAIN, find=_entries, invoices=_ALL, kind="chain", put=_put_entries),
    "shown": Source(world=_CHARGED, find=_shown, invoices=("inv_1",), kind="alone"),
    "cuts": Source(world=_PLAIN, find=_cuts, invoices=_ALL, kind="alone", put=_put_cuts),
    "bundle": Source(
        world=row_worlds.bundled, find=_records, invoices=("inv_2",), kind="alone", nested=False
    ),
    "losses": Source(world=_PLAIN, find=_losses, invoices=("inv_1", "inv_2"), kind="alone", put=_put_losses),
}


def lists(value: Any, path: Path = ()) -> Iterator[tuple[Path, list[Any]]]:
    """Every list in it, itself too."""
    if isinstance(value, list):
        yield path, value
        for index, inner in enumerate(value):
            yield from lists(inner, (*path, index))
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from lists(inner, (*path, name))


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def fields(row: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value of a row that is no list and no object; those of lists in it are rows of their own."""
    if isinstance(row, dict):
        for name, inner in row.items():
            yield from fields(inner, (*path, name))
    elif not isinstance(row, list):
        yield path, row


def named(path: Path) -> str:
    return ".".join(str(step) for step in path if isinstance(step, str)) or "rows"


@cache
def _values(source: str) -> dict[str, list[Any]]:
    """By the name of a field, the values that it has anywhere in the documents of the source's world."""
    service = _fresh(SOURCES[source])
    found: dict[str, list[Any]] = {}
    known = [service.documents, service.chain_items, SOURCES[source].find(service)]
    for path, value in _all_fields(known, ()):
        name = next((str(step) for step in reversed(path) if isinstance(step, str)), "")
        values = found.setdefault(name, [])
        if value not in values:
            values.append(value)
    return found


def _all_fields(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _all_fields(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _all_fields(inner, (*path, index))
    else:
        yield path, value


def other_values(source: str, field: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A value more and less, another text or day, and the values that the field has elsewhere."""
    if isinstance(value, bool):
        yield "turned", not value
        return
    if isinstance(value, int):
        yield "one more", value + 1
        yield "one less", value - 1
        yield "twice", 2 * value + 1
    elif isinstance(value, str) and len(value) == 10 and value[4:5] == "-":
        day = date.fromisoformat(value)
        yield "the next day", (day + timedelta(days=1)).isoformat()
        yield "the day before", (day - timedelta(days=1)).isoformat()
    elif isinstance(value, str):
        yield "another text", f"{value}x"
    elsewhere = [one for one in _values(source).get(field, ()) if one != value and type(one) is type(value)]
    for number, one in enumerate(elsewhere[:VALUES_MAX], 1):
        yield f"moved to value {number} of elsewhere", one


def alterations(source: str) -> Iterator[RowAlteration]:
    """Every alteration of the rows of a source, and of the values beside them."""
    one = SOURCES[source]
    value_of_all = one.find(_fresh(one))
    for inner, value in fields(value_of_all):
        for what, new in other_values(source, str(inner[-1]), value):
            yield RowAlteration(
                source=source, place=named(inner), what=what, row=0, change=_put_at(inner, new)
            )
    for name in value_of_all if isinstance(value_of_all, dict) else ():
        yield RowAlteration(source=source, place=name, what="left out", row=0, change=_leave_out(name))
    for path, rows in lists(value_of_all):
        if path and not one.nested:
            continue
        place = named(path)
        for index, row in enumerate(rows):

            def made(
                what: str, change: Callable[[Any], None], place: str = place, index: int = index
            ) -> RowAlteration:
                return RowAlteration(source=source, place=place, what=what, row=index, change=change)

            yield made("doubled", _double(path, index, (), None))
            yield made("dropped", _drop(path, index))
            if index + 1 < len(rows):
                yield made("swapped with the next", _swap(path, index))
            for inner, value in fields(row):
                if len(inner) > 1 and not one.nested:
                    continue
                field = named(inner) if inner else next((s for s in reversed(path) if isinstance(s, str)), "")
                last = str(field).rpartition(".")[2]
                inside = f"{place}.{named(inner)}" if inner else place
                for what, new in other_values(source, last, value):
                    yield made(what, _set(path, index, inner, new), inside)
                    yield made(f"doubled, {what}", _double(path, index, inner, new), inside)


def _put(rows: list[Any], index: int, inner: Path, new: Any) -> None:
    if inner:
        at(rows[index], inner[:-1])[inner[-1]] = new
    else:
        rows[index] = new


def _double(path: Path, index: int, inner: Path, new: Any) -> Callable[[Any], None]:
    """The row once more behind itself, with another value where there is one."""

    def change(value: Any) -> None:
        rows = at(value, path)
        rows.insert(index + 1, copy.deepcopy(rows[index]))
        if inner or new is not None:
            _put(rows, index + 1, inner, new)

    return change


def _set(path: Path, index: int, inner: Path, new: Any) -> Callable[[Any], None]:
    return lambda value: _put(at(value, path), index, inner, new)


def _put_at(inner: Path, new: Any) -> Callable[[Any], None]:
    return lambda value: _put([value], 0, inner, new)


def _leave_out(name: str) -> Callable[[Any], None]:
    return lambda value: value.pop(name)


def _drop(path: Path, index: int) -> Callable[[Any], None]:
    return lambda value: at(value, path).pop(index)


def _swap(path: Path, index: int) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        rows = at(value, path)
        rows[index], rows[index + 1] = rows[index + 1], rows[index]

    return change


# -- the rest is made to agree ----------------------------------------------------------------------------------------

DERIVED = ("lines", "charges", "balances", "tax_statement")
"""What follows from an invoice's rows: altered itself, it stays as it is, and the total is its sum."""


def _agree(service: Service, alteration: RowAlteration) -> None:
    """Everything else is written so that it follows, and the brokers noted it so: only their readings are honest."""
    source = SOURCES[alteration.source]
    value = source.find(service)
    match source.kind:
        case "alone":
            return
        case "invoice":
            _resort(value)
            if alteration.place.split(".")[0] in DERIVED:
                charges = value.get("charges", [])
                value["total_micro"] = sum(one["amount_micro"] for one in [*value["lines"], *charges])
            else:
                _bill_again(service, value)
        case "note":
            changes = sum(one["amount_micro"] for one in value.get("charges", ()))
            granted = value.get("granted", {}).get("amount_micro", 0)
            value["total_micro"] = sum(line["amount_micro"] for line in value["lines"]) - changes + granted
        case "prices":
            for document in service.documents.values():
                _bill_again(service, document)
        case "chain":
            for number, item in enumerate(service.chain_items, 1):
                item["sequence"] = number
    service.rechain()
    service.show_again()
    by_sequence = {item["sequence"]: item["hash"] for item in service.chain_items}
    service.cuts = [
        cut
        if cut.billing is None or cut.billing.sequence not in by_sequence
        else replace(cut, billing=replace(cut.billing, hash=by_sequence[cut.billing.sequence]))
        for cut in service.cuts
    ]


def _bill_again(service: Service, document: dict[str, Any]) -> None:
    prices = [
        item["document"]
        for item in service.chain_items
        if item["kind"] == "prices" and item["document"]["effective_from_ms"] <= document["period_start_ms"]
    ]
    if prices:
        rate_again(document, PriceBook.read(prices[-1]["price_book"]))
        service.charge(document)


def _resort(value: Any) -> None:
    for path, rows in lists(value):
        keys = SORTED.get(str(path[-1]) if path else "")
        if keys is not None:
            rows.sort(key=lambda row: [row[key] for key in keys])


def _state(service: Service) -> str:
    cuts, losses = _cuts(service), _losses(service)
    said = [service.documents, service.chain_items, service.shown, service.records, cuts, losses]
    return json.dumps(said, sort_keys=True)


def payable(service: Service) -> int:
    """All invoices less the credit notes that are in the chain."""
    notes = [item["document"] for item in service.chain_items if item["kind"] == "credit_note"]
    issued = {item["object_id"] for item in service.chain_items}
    total: int = sum(one["total_micro"] for name, one in service.documents.items() if name in issued)
    credited: int = sum(note["total_micro"] for note in notes)
    return total - credited


@cache
def _built(world: Callable[[], Service]) -> Service:
    return world()


def _fresh(source: Source) -> Service:
    """The source's world, whose logs no alteration touches and so are made once."""
    service = copy.copy(_built(source.world))
    for name in ("documents", "chain_items", "shown", "records"):
        setattr(service, name, json.loads(json.dumps(getattr(service, name))))
    service.cuts, service.losses = list(service.cuts), list(service.losses)
    return service


@cache
def _honest(source: str) -> tuple[str, frozenset[tuple[str, str, str]], int]:
    """The state of the source's world, what the proof names of its invoices, and what is to be paid."""
    service = _fresh(SOURCES[source])
    gaps: set[tuple[str, str, str]] = set()
    for invoice in SOURCES[source].invoices:
        report = service.verify(invoice)
        assert report.verdict is not Verdict.WRONG, (source, report.problems)
        gaps |= {(invoice, problem.kind.value, problem.where) for problem in report.problems}
    return _state(service), frozenset(gaps), payable(service)


def verdict_of(alteration: RowAlteration) -> str:
    """`wrong`, `refused`, `named` (a gap that honest invoices have not), `unnoticed`, `dearer` or `unchanged`."""
    source = SOURCES[alteration.source]
    honest, known_gaps, due = _honest(alteration.source)
    service = _fresh(source)
    value = source.find(service)
    try:
        alteration.change(value)
        source.put(service, value)
        _agree(service, alteration)
        if _state(service) == honest:
            return UNCHANGED
        gaps: set[tuple[str, str, str]] = set()
        verdicts: set[Verdict] = set()
        for invoice in source.invoices:
            report = service.verify(invoice)
            if report.verdict is Verdict.WRONG:
                return Verdict.WRONG.value
            gaps |= {(invoice, problem.kind.value, problem.where) for problem in report.problems}
            verdicts.add(report.verdict)
    except (InvalidRequest, InvariantBroken, KeyError, TypeError, ValueError, OverflowError):
        return REFUSED
    if gaps - known_gaps:
        return NAMED
    if payable(service) <= due:
        return UNNOTICED
    return f"{DEARER}, {PARTLY}" if Verdict.PARTLY in verdicts else DEARER


PARTLY = Verdict.PARTLY.value
_PROMISED = (
    "prices may change with a period, for which the brokers noted them in time; a promised hash holds them"
)
_LABEL = "a name is a label; the id beside it counts"
_WITHIN = "within what the topic's day can hold, or stated: the service's word, and the line says so"
_BROKERS = "the brokers' own word, which is trusted; no document contradicts it"
_STATED = (
    "place, time and name of a tax, and how much of a line is taxed within a coin: the word of who states it"
)
_OPEN = "when the tenant was open: the service's word, which stands in the tenant's audit log (decision 98)"
_UNREDEEMED = "a coupon that no earlier prices have: it was never redeemed"
_BESIDE = (
    "what brokers said beside what is billed: of later cuts, behind the period's end, of empty partitions"
)
ARGUED: Mapping[str, str] = {
    "* partitions.topic": _LABEL,
    "* ranges.topic": _LABEL,
    "* ranges.log_generation": "the brokers name the generation that the loss began",
    "invoice 1: partitions.days.day": "of lost messages, of which nothing tells the day any more; they are credited",
    "invoice 2: partitions": "the last of a deleted topic may be given up, in the tenant's favour",
    "entries: rows.at_ms": "when prices entered; the period that they hold from is in their document",
    "cuts: rows.kept_ms": _BROKERS,
    "losses: *": _BROKERS,
    "usage rows: measured": "a row that is not billed",
    "usage rows: measured.topic": _LABEL,
    "usage rows: measured.*": _WITHIN,
    "later prices: *": _PROMISED,
    "prices after a coupon: *": _PROMISED,
    "prices with coupons: *": _PROMISED,
    "entries with coupons: rows.at_ms": "when prices entered; the period that they hold from is in their document",
    "*credit note*: granted.reason": "why a credit was granted is the operator's word",
    "credit note of parts: charges": "in which order parts are credited; each is credited once",
    "credit note of parts: lines": "in which order parts are credited; each is credited once",
    "reopened invoice: open_time*": _OPEN,
    "invoice 1: period_start_ms": "the first period begins with the tenant; a later beginning makes it cheaper",
    "*credit note: number": "the tenant's first number of a credit note; each later one is greater",
    "invoice 1: issuer_number": "the first document may be from before there were such numbers",
    "*credit note: issuer_number": "the first document may be from before there were such numbers",
    "shown: void_at": "void is said and not proven (decision 99)",
    "*credit note: cut_id": "at which cut a loss was seen: the brokers name the loss itself",
    "statement of tax: tax_statement.tax_at_ms": _STATED,
    "statement of tax: tax_statement.address.*": _STATED,
    "statement of tax: tax_statement.lines.parts.*": _STATED,
    "bundle: rows*": _BESIDE,
}
"""Places where an alteration may go unnoticed, each with the reason."""
MAY_COST_MORE: Mapping[str, str] = {
    f"{DEARER}, {PARTLY} usage rows: measured.day *": _WITHIN,
    f"{DEARER}, {PARTLY} usage rows: measured.quantity *": _WITHIN,
    f"{DEARER}, {PARTLY} usage rows: measured.topic_id *": _WITHIN,
    f"{DEARER}, {PARTLY} usage rows: measured.meter *": _WITHIN,
    f"{DEARER}, {PARTLY} usage rows: measured.topic [[]6] *": "of a meter that is stated, for which there is no bound",
    f"{DEARER} reopened invoice: open_time*": _OPEN,
    **{
        f"{DEARER} {source}: {place}": _PROMISED
        for source in ("later prices", "prices after a coupon", "prices with coupons")
        for place in ("price_book.*", "terms.tax.*", "effective_from_ms *")
    },
    f"{DEARER} prices after a coupon: terms.discounts* [[]0] *": "a discount of an operator's may end with a period",
    f"{DEARER} prices with coupons: terms.discounts* [[]1] *": _UNREDEEMED,
    f"{DEARER} prices with coupons: terms.discounts.meters *": _UNREDEEMED,
    f"{DEARER} later prices: terms.credits* [[]3] *": "a grant that no earlier prices have: it was never given",
}
"""Of these, where the tenant may pay more."""


def is_due(alteration: RowAlteration, verdict: str) -> bool:
    """Whether the verdict is one that may be: found or named, or argued."""
    if verdict in (Verdict.WRONG.value, REFUSED, NAMED, UNCHANGED):
        return True
    if verdict.startswith(DEARER):
        return any(fnmatchcase(f"{verdict} {alteration.name}", pattern) for pattern in MAY_COST_MORE)
    return argument(alteration) is not None


def argument(alteration: RowAlteration) -> str | None:
    """Which entry of `ARGUED` is of its place."""
    where = f"{alteration.source}: {alteration.place}"
    return next((pattern for pattern in ARGUED if fnmatchcase(where, pattern)), None)


def main() -> int:
    """Print the table; 0 when every verdict may be."""
    counts: Counter[str] = Counter()
    wrong = 0
    for source in SOURCES:
        for alteration in alterations(source):
            verdict = verdict_of(alteration)
            counts[verdict] += 1
            good = is_due(alteration, verdict)
            wrong += not good
            reason = ARGUED.get(argument(alteration) or "", "") if verdict == UNNOTICED else ""
            aside = f"   ({reason})" if reason else "" if good else "   <-- NOT DUE"
            print(f"{verdict:15} {alteration.name}{aside}")
    found = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"{counts.total()} alterations of rows: {found}; {wrong} without an argument")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
