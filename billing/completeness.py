"""The completeness check of an invoice: compares the cut's vector with what Spark found. Pure."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

PartitionRef = tuple[str, int]
"""A partition: (topic id, partition number)."""
Vector = Mapping[tuple[str, int, int], int]
"""(topic id, partition, log generation) to end offset."""
METERS = ("messages_in", "bytes_in")
"""Meters that count log offsets. Each must cover every offset once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What Spark found of one partition at the cut."""

    topic_id: str
    topic: str
    partition: int
    log_generation: int
    start_offset: int
    end_offset: int
    covered: bool
    reason: str
    missing: str

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of one partition on one day, by one meter. A negative quantity is a reversal."""

    topic_id: str
    partition: int
    day: date
    meter: str
    quantity: int
    first_offset: int
    end_offset: int


def find_gaps(
    vector: Vector,
    previous: Vector,
    coverage: Sequence[Coverage],
    usage: Sequence[Usage],
    waived: Collection[PartitionRef] = frozenset(),
    names: Mapping[str, str] | None = None,
) -> list[str]:
    """Every gap of the period, one text each. The invoice may be issued when there is none.

    Each partition of the vector must be covered from the end of the previous cut to the end offset of this cut. The
    usage of both meters must cover these offsets once, in the same ranges of the same days. Waived partitions are
    not checked. `names` of topics, by id, that have no coverage: of others the coverage says them.
    """
    gaps: list[str] = []
    known_names = {**(names or {}), **{entry.topic_id: entry.topic for entry in coverage}}
    vector = {key: end for key, end in vector.items() if key[:2] not in waived}
    coverage = [entry for entry in coverage if (entry.topic_id, entry.partition) not in waived]
    usage = [row for row in usage if (row.topic_id, row.partition) not in waived]
    found = {(c.topic_id, c.partition, c.log_generation): c for c in coverage}
    for key, end in sorted(vector.items()):
        entry = found.get(key)
        if entry is None:
            name = _named(key[0], key[1], known_names)
            gaps.append(f"{name}: its cut reading at offset {end} is not in the data sets")
        elif entry.covered and entry.end_offset != end:
            gaps.append(f"{entry.name}: covered up to offset {entry.end_offset}, cut at {end}")
    rows: dict[tuple[str, int], list[Usage]] = defaultdict(list)
    for row in usage:
        rows[row.topic_id, row.partition].append(row)
    previous_end = {(topic_id, partition): end for (topic_id, partition, _), end in sorted(previous.items())}
    for entry in coverage:
        key = (entry.topic_id, entry.partition, entry.log_generation)
        if not entry.covered:
            missing = f" ({entry.missing})" if entry.missing else ""
            gaps.append(f"{entry.name}: gap: {entry.reason}{missing}")
            continue
        if key not in vector and entry.end_offset > entry.start_offset:
            gaps.append(f"{entry.name}: covered up to offset {entry.end_offset}, and not in the cut")
        due = previous_end.get((entry.topic_id, entry.partition), 0)
        if entry.start_offset != due:
            gaps.append(
                f"{entry.name}: counted from offset {entry.start_offset}, the previous cut ended at {due}"
            )
        gaps.extend(_offset_gaps(entry, rows[entry.topic_id, entry.partition]))
    known = {(c.topic_id, c.partition) for c in coverage}
    for topic_id, partition in sorted(ref for ref in rows if ref not in known):
        gaps.append(f"{_named(topic_id, partition, known_names)}: usage without coverage")
    return gaps


def _named(topic_id: str, partition: int, names: Mapping[str, str]) -> str:
    """A partition by its topic's name, with the id, which waiving it takes; by the id alone if no name is known."""
    name = names.get(topic_id)
    return f"{topic_id}-{partition}" if name is None else f"{name}-{partition} (topic {topic_id})"


def billable_quantities(
    usage: Sequence[Usage], waived: Collection[PartitionRef] = frozenset()
) -> dict[str, int]:
    """The period's quantity by meter. Leaves out waived partitions, and reversals: those are credited on the invoice
    that billed them.
    """
    quantities: dict[str, int] = defaultdict(int)
    for row in usage:
        if row.quantity >= 0 and (row.topic_id, row.partition) not in waived:
            quantities[row.meter] += row.quantity
    return dict(sorted(quantities.items()))


def reversals(usage: Sequence[Usage]) -> list[Usage]:
    """Rows with a negative quantity: a declared loss removed what an earlier invoice had billed."""
    return [row for row in usage if row.quantity < 0]


def _offset_gaps(entry: Coverage, rows: Sequence[Usage]) -> list[str]:
    gaps = []
    for meter in METERS:
        ranges = [(r.first_offset, r.end_offset) for r in rows if r.meter == meter and r.quantity >= 0]
        reversed_ranges = [
            (r.first_offset, r.end_offset) for r in rows if r.meter == meter and r.quantity < 0
        ]
        # The previous cut counted what is reversed. This cut counts again from there.
        at = min([entry.start_offset, *(first for first, _ in reversed_ranges)])
        for first, end in sorted(ranges):
            if first != at:
                break
            at = end
        if at != entry.end_offset:
            gaps.append(f"{entry.name}: {meter} is counted up to offset {at} of {entry.end_offset}")
    counted = {
        meter: {(r.first_offset, r.end_offset, r.day) for r in rows if r.meter == meter and r.quantity >= 0}
        for meter in METERS
    }
    for first, end, day in sorted(counted[METERS[0]] ^ counted[METERS[1]])[: 0 if gaps else 1]:
        gaps.append(f"{entry.name}: offsets {first} to {end} of {day} are counted by one meter alone")
    return gaps
