"""History checkers: what clients did and saw, judged after the end. Each is one function named by its invariant.

All raise `InvariantViolated`. `final` is what a fresh consumer read of each partition after everything was healed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from data_plane.testkit.history import History, MarkKind, Outcome, SentBatch
from data_plane.testkit.invariants import Invariant, InvariantViolated
from penstock.contract.ids import TopicId, TopicPartition


@dataclass(slots=True, kw_only=True)
class Evidence:
    """A history with what stands in the logs at the end."""

    history: History
    final: dict[TopicPartition, dict[int, bytes]]
    """Partition -> offset -> value."""
    log_starts: dict[TopicPartition, int]
    """First offset that retention left."""
    deleted: frozenset[TopicId] = frozenset()
    """Deleted topics: their records are nowhere any more."""

    def name(self, where: TopicPartition) -> str:
        return self.history.name(where)


def check_anomalies(evidence: Evidence) -> None:
    """What a client noticed by itself."""
    for anomaly in evidence.history.anomalies:
        raise InvariantViolated(
            Invariant[anomaly.invariant], f"at {anomaly.at_s:.6f} s {anomaly.explanation}"
        )


def check_no_lost_write(evidence: Evidence) -> None:
    """I1: every acknowledged value stands where its receipt says, and so does every value that was ever read."""
    for batch in evidence.history.sent:
        if not batch.promised or batch.where.topic_id in evidence.deleted:
            continue
        log = evidence.final.get(batch.where, {})
        start = evidence.log_starts.get(batch.where, 0)
        for index, value in enumerate(batch.values):
            offset = batch.offset + index
            if offset >= start and log.get(offset) != value:
                raise InvariantViolated(
                    Invariant.I1,
                    f"{_of(batch)}, acknowledged at {batch.ended_s:.6f} s with offset {offset} of"
                    f" {evidence.name(batch.where)}: there stands {_shown(log.get(offset))}{_elsewhere(log, value)}",
                )
    for read in evidence.history.reads:
        if read.where.topic_id in evidence.deleted:
            continue
        log = evidence.final.get(read.where, {})
        start = evidence.log_starts.get(read.where, 0)
        for index, value in enumerate(read.values):
            offset = read.offset + index
            if offset >= start and offset not in log:
                raise InvariantViolated(
                    Invariant.I1,
                    f"{read.consumer} read {_shown(value)} at offset {offset} of {evidence.name(read.where)}"
                    f" at {read.at_s:.6f} s; at the end nothing stands there",
                )


def check_no_aborted_read(evidence: Evidence) -> None:
    """I2: a value whose sender got the answer "not applied" is never visible."""
    refused = {
        value: batch
        for batch in evidence.history.sent
        if batch.outcome is Outcome.NOT_APPLIED
        for value in batch.values
    }
    for where, offset, value, reader in _everything_read(evidence):
        batch = refused.get(value)
        if batch is not None:
            raise InvariantViolated(
                Invariant.I2,
                f"{_of(batch)} was not applied, as its sender learned at {batch.ended_s:.6f} s, yet {reader} has it at"
                f" offset {offset} of {evidence.name(where)}",
            )


def check_one_value_per_offset(evidence: Evidence) -> None:
    """I3: all readers see the same value at an offset, and only values that were sent there."""
    sent = {value: batch for batch in evidence.history.sent for value in batch.values}
    known: dict[tuple[TopicPartition, int], tuple[bytes, str]] = {}
    for where, offset, value, reader in _everything_read(evidence):
        first = known.setdefault((where, offset), (value, reader))
        if first[0] != value:
            raise InvariantViolated(
                Invariant.I3,
                f"offset {offset} of {evidence.name(where)}: {first[1]} has {_shown(first[0])},"
                f" {reader} has {_shown(value)}",
            )
        batch = sent.get(value)
        if batch is None or batch.where != where:
            raise InvariantViolated(
                Invariant.I19,
                f"{reader} has {_shown(value)} at {evidence.name(where)}:{offset}; no client sent that there",
            )


def check_no_duplicate(evidence: Evidence) -> None:
    """I4: a value of an idempotent producer stands at one offset. Without sequence numbers a retry may repeat it."""
    numbered = {value for batch in evidence.history.sent if batch.idempotent for value in batch.values}
    places: dict[tuple[TopicPartition, bytes], int] = {}
    for where, offset, value, reader in _everything_read(evidence):
        if value not in numbered:
            continue
        first = places.setdefault((where, value), offset)
        if first != offset:
            raise InvariantViolated(
                Invariant.I4,
                f"{_shown(value)} stands at offsets {first} and {offset} of {evidence.name(where)} (by {reader})",
            )


def check_producer_order(evidence: Evidence) -> None:
    """I5: the values of one idempotent producer stand in the log in the order sent."""
    sent = {value: batch for batch in evidence.history.sent if batch.idempotent for value in batch.values}
    for where in sorted(evidence.final):
        last: dict[str, tuple[int, int]] = {}
        log = evidence.final[where]
        for offset in sorted(log):
            batch = sent.get(log[offset])
            if batch is None:
                continue
            position = (batch.order, batch.values.index(log[offset]))
            before = last.get(batch.producer)
            if before is not None and position <= before:
                raise InvariantViolated(
                    Invariant.I5,
                    f"{evidence.name(where)}: {_shown(log[offset])} at offset {offset} is batch {position[0]} of"
                    f" {batch.producer} and stands after its batch {before[0]}",
                )
            last[batch.producer] = position


def check_marks_never_go_back(evidence: Evidence) -> None:
    """I13: end, high watermark and log start never go back for one client, nor does what it read."""
    reported: dict[tuple[str, TopicPartition, MarkKind], int] = {}
    for mark in evidence.history.marks:
        key = (mark.client, mark.where, mark.kind)
        before = reported.get(key, 0)
        if mark.value < before:
            raise InvariantViolated(
                Invariant.I13,
                f"{mark.client} was given {mark.kind.value} {mark.value} of {evidence.name(mark.where)}"
                f" by b{mark.broker} at {mark.at_s:.6f} s, after {before}",
            )
        reported[key] = mark.value


CHECKERS: tuple[Callable[[Evidence], None], ...] = (
    check_one_value_per_offset,
    check_no_duplicate,
    check_no_aborted_read,
    check_no_lost_write,
    check_producer_order,
    check_marks_never_go_back,
    check_anomalies,
)


def check_history(evidence: Evidence) -> None:
    """All of them, the most telling first."""
    for checker in CHECKERS:
        checker(evidence)


def _everything_read(evidence: Evidence) -> list[tuple[TopicPartition, int, bytes, str]]:
    """(partition, offset, value, reader) of every read, the last one included."""
    found = [
        (read.where, read.offset + index, value, f"{read.consumer} at {read.at_s:.6f} s")
        for read in evidence.history.reads
        for index, value in enumerate(read.values)
    ]
    for where in sorted(evidence.final):
        found.extend(
            (where, offset, value, "the last reader") for offset, value in evidence.final[where].items()
        )
    return found


def _of(batch: SentBatch) -> str:
    return f"batch {batch.order} of {batch.producer} ({_shown(batch.values[0])})"


def _shown(value: bytes | None) -> str:
    """The unique part of a value."""
    return "nothing" if value is None else value.rstrip(b".").decode(errors="replace")[:60]


def _elsewhere(log: dict[int, bytes], value: bytes) -> str:
    at = next((offset for offset in log if log[offset] == value), None)
    return "; it stands nowhere" if at is None else f"; it stands at {at}"
