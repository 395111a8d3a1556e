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
from penstock.verification.findings import Verdict
from tests.unit.verification.forgeries import stories
from tests.unit.verification.honest import Alteration, Service, world

REFUSED = "refused"
"""The document is no document: nothing is proven, and the exit status is that of *wrong*."""

NO_PART: dict[str, str] = {
    "rewritten newest-inv.partitions.topic": "the name of a topic beside its id, which counts",
    "rewritten newest-inv.issuer_number": "a later one of the series: which numbers others have is not shown",
    "rewritten newest-credit.number": "numbers of credit notes are the service's; the chain holds each note once",
    "rewritten newest-credit.cut_id": "at which cut a loss was seen: the brokers name the loss itself",
    "rewritten newest-credit.ranges.topic": "the name of a topic beside its id, which counts",
    "rewritten newest-credit.ranges.log_generation": "the brokers name the generation that the loss began",
}
"""Values whose alteration is not noticed when the biller rewrites everything else to agree, and no cut and no machine
has noted the chain since; with the reason why that decides nothing. All of them are found afterwards.
"""


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
    "newest-credit": Source(lambda service: service.chain_items[3]["document"], "inv_1", 2),
    "newest-entry": Source(lambda service: service.chain_items[4], "inv_2", 2),
    "prices-1": Source(lambda service: service.chain_items[0]["document"], "inv_1"),
    "prices-2": Source(lambda service: service.chain_items[2]["document"], "inv_3"),
    "credit": Source(lambda service: service.chain_items[3]["document"], "inv_1"),
    "shown": Source(lambda service: service.shown["inv_1"], "inv_1"),
    "chain": Source(lambda service: service.chain_items[4], "inv_2"),
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
