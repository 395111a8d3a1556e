"""The judge of a history: everything that clients did and saw, compared with the invariants; pure but for the reading.

I1 to I5, I13 and I19 are judged by the checkers of the simulation, on the same terms. Here are those that a client's
view alone decides: polls without a gap (I6), everything read after healing (I9), and groups (I14).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from chaos import history_lines
from data_plane.testkit.checkers import CHECKERS, Evidence
from data_plane.testkit.history import Anomaly, History, Mark, MarkKind, Outcome, ReadBatch, SentBatch
from data_plane.testkit.invariants import InvariantViolated

FOR_EVER = 1 << 62
"""Log start of a partition whose topic was deleted: nothing of it is to be found any more."""
READ_S_MAX = 60.0
"""After healing, and after the last acknowledgement, everything acknowledged is read within this time (I9)."""
REBALANCE_S_MAX = 60.0
"""After healing a group is stable, with every partition assigned, within this time (I14)."""


@dataclass(frozen=True, slots=True)
class Look:
    """A consumer group as its coordinator described it."""

    at_s: float
    state: str
    epoch: int
    members: dict[str, tuple[str, ...]]
    """Partitions that each member owns."""
    offsets: dict[str, int]
    """Committed, by partition."""
    delivered: dict[str, int]
    """Next offset behind what the members had been given by then, by partition."""


@dataclass(frozen=True, slots=True)
class Struck:
    """One fault, from when it began until it was over and writes went on."""

    kind: str
    began_s: float
    ended_s: float


@dataclass(slots=True)
class Record:
    """A whole history, read."""

    about: dict[str, Any] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=lambda: Evidence(history=History(), final={}, log_starts={}))
    readers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Partitions that a reader without a group reads to their end, by reader."""
    reads: dict[str, list[tuple[float, str, int, int]]] = field(default_factory=dict)
    """(time, partition, offset, messages) by reader; of a member also (time, partition, -1, 0) where it was
    assigned or revoked: what it reads begins again there."""
    members: dict[str, str] = field(default_factory=dict)
    """Group by member."""
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Partitions by group."""
    looks: dict[str, list[Look]] = field(default_factory=dict)
    struck: list[Struck] = field(default_factory=list)
    healed_s: float | None = None
    canaries: dict[str, Any] = field(default_factory=dict)
    """What was searched for other tenants' canaries."""
    ended: bool = False
    """The run came to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the judge found. `violations` are explanations, each beginning with its invariant."""

    violations: tuple[str, ...]
    acknowledged: int
    lost: int
    doubled: int
    reordered: int
    unknown: int
    unknown_applied: int
    refused: int
    read: int
    faults: dict[str, tuple[int, float]]
    """How often each kind struck, and the longest time without an acknowledgement then, in seconds."""
    silence_s: float
    """Longest time without an acknowledgement, of the whole run."""
    about: dict[str, Any]
    canaries: dict[str, Any]

    @property
    def passed(self) -> bool:
        return not self.violations


def read_history(path: Path) -> Record:
    """Raises `OSError`, `ValueError` naming the line."""
    reader = _Reader()
    for line in history_lines.lines(path):
        reader.take(line)
    return reader.record


class _Reader:
    """Takes a history line by line."""

    def __init__(self) -> None:
        self.record = Record()
        self._sent: dict[str, SentBatch] = {}
        self._began: dict[int, tuple[str, float]] = {}
        self._delivered: dict[str, dict[str, int]] = {}

    def take(self, line: dict[str, Any]) -> None:
        handler: Callable[[dict[str, Any], float], None] | None = getattr(
            self, "_take_" + line["is"].replace(" ", "_"), None
        )
        if handler is not None:
            handler(line, line["at"])

    def _take_run(self, line: dict[str, Any], at: float) -> None:
        self.record.about = {name: value for name, value in line.items() if name not in ("is", "at")}

    def _take_sent(self, line: dict[str, Any], at: float) -> None:
        number, producer = line["number"], line["producer"]
        name = f"{producer}/{number}"
        where = history_lines.partition_of(line["partition"])
        history = self.record.evidence.history
        history.names.setdefault(where, line["partition"])
        sent = SentBatch(producer, where, number, (name.encode(),), line["acks"], True, at)
        sent.open_attempts = 1
        self._sent[name] = sent
        history.sent.append(sent)

    def _take_outcome(self, line: dict[str, Any], at: float) -> None:
        sent = self._sent[f"{line['producer']}/{line['number']}"]
        sent.offset, sent.duplicate = line.get("offset", -1), line.get("duplicate", False)
        sent.resolve(Outcome(line["outcome"]), at)
        if "code" in line:
            self.record.evidence.history.refused(line["code"])

    def _take_read(self, line: dict[str, Any], at: float) -> None:
        reader, name = line["reader"], line["partition"]
        where = history_lines.partition_of(name)
        values = tuple(value.encode() for value in line["values"])
        history = self.record.evidence.history
        history.names.setdefault(where, name)
        history.reads.append(ReadBatch(reader, where, at, line["offset"], values, -1, -1))
        self.record.reads.setdefault(reader, []).append((at, name, line["offset"], len(values)))
        group = self.record.members.get(reader)
        if group is not None:
            delivered = self._delivered.setdefault(group, {})
            delivered[name] = max(delivered.get(name, 0), line["offset"] + len(values))

    def _take_reader(self, line: dict[str, Any], at: float) -> None:
        self.record.readers[line["reader"]] = tuple(line["partitions"])

    def _take_group(self, line: dict[str, Any], at: float) -> None:
        self.record.groups[line["group"]] = tuple(line["partitions"])

    def _take_member(self, line: dict[str, Any], at: float) -> None:
        self.record.members[line["member"]] = line["group"]

    def _take_assigned(self, line: dict[str, Any], at: float) -> None:
        reads = self.record.reads.setdefault(line["member"], [])
        reads.extend((at, name, -1, 0) for name in line["partitions"])

    _take_revoked = _take_assigned

    def _take_mark(self, line: dict[str, Any], at: float) -> None:
        where = history_lines.partition_of(line["partition"])
        self.record.evidence.history.marks.append(
            Mark(line["client"], where, MarkKind(line["kind"]), line["value"], at, -1)
        )

    def _take_anomaly(self, line: dict[str, Any], at: float) -> None:
        self.record.evidence.history.anomalies.append(Anomaly(line["invariant"], line["explanation"], at))

    def _take_look(self, line: dict[str, Any], at: float) -> None:
        group = line["group"]
        members = {member: tuple(owned) for member, owned in line["members"].items()}
        look = Look(
            at, line["state"], line["epoch"], members, line["offsets"], {**self._delivered.get(group, {})}
        )
        self.record.looks.setdefault(group, []).append(look)
        for name, offset in line["offsets"].items():
            mark = Mark(group, history_lines.partition_of(name), MarkKind.COMMITTED, offset, at, -1)
            self.record.evidence.history.marks.append(mark)

    def _take_fault(self, line: dict[str, Any], at: float) -> None:
        self._began[line["number"]] = (line["kind"], at)

    def _take_fault_over(self, line: dict[str, Any], at: float) -> None:
        kind, began = self._began.pop(line["number"])
        self.record.struck.append(Struck(kind, began, at))

    def _take_healed(self, line: dict[str, Any], at: float) -> None:
        self.record.healed_s = at

    def _take_final(self, line: dict[str, Any], at: float) -> None:
        log = self.record.evidence.final.setdefault(history_lines.partition_of(line["partition"]), {})
        for index, value in enumerate(line["values"]):
            log[line["offset"] + index] = value.encode()

    def _take_log_start(self, line: dict[str, Any], at: float) -> None:
        self.record.evidence.log_starts[history_lines.partition_of(line["partition"])] = line["offset"]

    def _take_deleted(self, line: dict[str, Any], at: float) -> None:
        for name in line["partitions"]:
            self.record.evidence.log_starts[history_lines.partition_of(name)] = FOR_EVER

    def _take_canaries(self, line: dict[str, Any], at: float) -> None:
        self.record.canaries = {name: value for name, value in line.items() if name not in ("is", "at")}

    def _take_end(self, line: dict[str, Any], at: float) -> None:
        self.record.ended = True


# -- checkers beside those of the simulation ------------------------------------------------------------------


def check_polls(record: Record) -> list[str]:
    """I6: a reader skips nothing and steps back nowhere; a member likewise from each assignment on."""
    found = []
    for reader, reads in record.reads.items():
        due: dict[str, int] = {}
        for at, name, offset, count in reads:
            if count == 0:
                due.pop(name, None)
                continue
            expected = due.get(name, offset)
            if offset != expected:
                found.append(
                    f"I6: {reader} was given offset {offset} of {name} at {at:.3f} s where {expected} was due"
                )
            due[name] = offset + count
    return found


def check_everything_was_read(record: Record) -> list[str]:
    """I9: every reader and every group was given each acknowledged value, soon after the end of all faults."""
    found = []
    promised: dict[str, list[SentBatch]] = {}
    history = record.evidence.history
    for sent in history.sent:
        if sent.promised:
            promised.setdefault(history.name(sent.where), []).append(sent)
    seen: dict[tuple[str, str], dict[int, float]] = {}
    for reader, reads in record.reads.items():
        who = record.members.get(reader, reader)
        for at, name, offset, count in reads:
            first = seen.setdefault((who, name), {})
            for index in range(count):
                first.setdefault(offset + index, at)
    for who, names in (*record.readers.items(), *record.groups.items()):
        for name in names:
            first = seen.get((who, name), {})
            late = _first_late(promised.get(name, []), first, record.healed_s)
            if late is not None:
                found.append(f"{'I9' if who in record.readers else 'I14'}: {who} {late} of {name}")
    return found


def _first_late(
    promised: Iterable[SentBatch], first_read: dict[int, float], healed_s: float | None
) -> str | None:
    for sent in promised:
        at = first_read.get(sent.offset)
        value = sent.values[0].decode()
        if at is None:
            return f"never got {value} at offset {sent.offset}"
        if healed_s is not None and at > max(healed_s, sent.ended_s) + READ_S_MAX:
            return (
                f"got {value} at offset {sent.offset} only at {at:.1f} s; all was healed at {healed_s:.1f} s"
            )
    return None


def check_groups(record: Record) -> list[str]:
    """I14: one owner a partition, nothing committed that no member got, and stable again after healing."""
    found = []
    for group, looks in record.looks.items():
        for look in looks:
            owners: dict[str, str] = {}
            for member, owned in look.members.items():
                for name in owned:
                    other = owners.setdefault(name, member)
                    if other != member:
                        found.append(
                            f"I14: at {look.at_s:.3f} s {other} and {member} own {name} in epoch {look.epoch}"
                        )
            for name, offset in look.offsets.items():
                if offset > look.delivered.get(name, 0):
                    found.append(
                        f"I14: at {look.at_s:.3f} s {group} has {offset} committed for {name}, and its members"
                        f" were given nothing behind {look.delivered.get(name, 0)}"
                    )
        if record.healed_s is not None and not _stable_soon(
            looks, record.groups.get(group, ()), record.healed_s
        ):
            found.append(f"I14: {group} is not stable within {REBALANCE_S_MAX:g} s after healing")
    return found


def _stable_soon(looks: list[Look], partitions: tuple[str, ...], healed_s: float) -> bool:
    for look in looks:
        owned = {name for members in look.members.values() for name in members}
        if (
            healed_s <= look.at_s <= healed_s + REBALANCE_S_MAX
            and look.state == "stable"
            and owned.issuperset(partitions)
        ):
            return True
    return False


def check_completeness(record: Record) -> list[str]:
    """I9: no send is without an outcome, and the run came to its end."""
    pending = [sent for sent in record.evidence.history.sent if sent.outcome is Outcome.PENDING]
    found = [
        f"I9: {sent.values[0].decode()} to {record.evidence.name(sent.where)} has no outcome"
        for sent in pending[:1]
    ]
    return found if record.ended else [*found, "the history has no end: the run was stopped"]


OWN_CHECKERS: tuple[Callable[[Record], list[str]], ...] = (
    check_polls,
    check_everything_was_read,
    check_groups,
    check_completeness,
)


def judge(record: Record) -> Verdict:
    """Hold everything against everything; each checker of the simulation tells the first violation it finds."""
    violations = []
    for checker in CHECKERS:
        try:
            checker(record.evidence)
        except InvariantViolated as violated:
            violations.append(str(violated))
    for own in OWN_CHECKERS:
        violations += own(record)
    history, final = record.evidence.history, record.evidence.final
    stored: dict[bytes, int] = {}
    for log in final.values():
        for value in log.values():
            stored[value] = stored.get(value, 0) + 1
    checked = [
        sent
        for sent in history.sent
        if sent.promised and record.evidence.log_starts.get(sent.where, 0) <= sent.offset
    ]
    unknown = [sent for sent in history.sent if sent.outcome is Outcome.UNKNOWN]
    acknowledged = sorted(sent.ended_s for sent in history.sent if sent.promised)
    return Verdict(
        violations=tuple(violations),
        acknowledged=len(checked),
        lost=sum(final.get(sent.where, {}).get(sent.offset) != sent.values[0] for sent in checked),
        doubled=sum(times > 1 for times in stored.values()),
        reordered=_reordered(record),
        unknown=len(unknown),
        unknown_applied=sum(sent.values[0] in stored for sent in unknown),
        refused=sum(sent.outcome is Outcome.NOT_APPLIED for sent in history.sent),
        read=sum(len(read.values) for read in history.reads),
        faults=_faults(record.struck, acknowledged),
        silence_s=max((later - earlier for earlier, later in pairwise(acknowledged)), default=0.0),
        about=record.about,
        canaries=record.canaries,
    )


def _reordered(record: Record) -> int:
    """Values that stand behind a later one of their producer."""
    orders = {sent.values[0]: (sent.producer, sent.order) for sent in record.evidence.history.sent}
    count = 0
    for log in record.evidence.final.values():
        newest: dict[str, int] = {}
        for offset in sorted(log):
            producer, order = orders.get(log[offset], ("", 0))
            count += order < newest.get(producer, order)
            newest[producer] = max(order, newest.get(producer, order))
    return count


def _faults(struck: list[Struck], acknowledged: list[float]) -> dict[str, tuple[int, float]]:
    """By kind, in the order of their names: how often, and the longest gap between acknowledgements within one."""
    gaps = list(pairwise(acknowledged))
    found: dict[str, tuple[int, float]] = {}
    at = 0
    for one in sorted(struck, key=lambda one: one.began_s):
        while at < len(gaps) and gaps[at][1] <= one.began_s:
            at += 1
        longest, index = 0.0, at
        while index < len(gaps) and gaps[index][0] < one.ended_s:
            longest = max(longest, gaps[index][1] - gaps[index][0])
            index += 1
        count, worst = found.get(one.kind, (0, 0.0))
        found[one.kind] = (count + 1, max(worst, longest))
    return dict(sorted(found.items()))
