"""What truly happened: logs of batches with an identity each, and what brokers say of them.

The oracle counts batches and never reads an odometer; billing sees readings and never a batch.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from data_plane.contract import usage_pb2 as pb
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.cut import CutEnd
from tests.spark_usage.records import MINUTE, Stored, Writer

LOST = 0.15
"""Share of the readings that are never stored, of those that others stand for."""
LATE = 0.1
"""Share of the readings that come with a later round, cuts among them."""
PACKED = 25
"""Readings of a record."""
PARTITIONS = 3
"""Of `__usage`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A committed batch, and what an odometer says at its end."""

    at: int
    """ms."""
    messages: int
    size: int
    end: int
    """The offset after its last message."""
    all_messages: int
    all_size: int
    minute_rows: dict[int, tuple[int, int]]
    """Principal -> messages and bytes of its minute up to here."""


@dataclass(slots=True)
class Partition:
    """One partition's log. `told` takes what its brokers say."""

    tenant: str
    topic: str
    topic_id: bytes
    number: int
    told: list[pb.Reading]
    generation: int = 1
    batches: list[Batch] = field(default_factory=list)
    """Without those of declared losses."""
    read: int = 0
    """Batches at the last reading."""

    def append(self, at: int, messages: int, size: int, principal: int) -> None:
        before = self.batches[-1] if self.batches else None
        rows: dict[int, tuple[int, int]] = {}
        if before is not None:
            if before.at // MINUTE == at // MINUTE:
                rows = dict(before.minute_rows)
            elif self.read < len(self.batches):
                self._say(len(self.batches), pb.MINUTE_END)
        old = rows.get(principal, (0, 0))
        rows[principal] = (old[0] + messages, old[1] + size)
        self.batches.append(
            Batch(
                at=at,
                messages=messages,
                size=size,
                end=(before.end if before else 0) + messages,
                all_messages=(before.all_messages if before else 0) + messages,
                all_size=(before.all_size if before else 0) + size,
                minute_rows=rows,
            )
        )

    def look(self, kind: int) -> None:
        """A reading of now."""
        self._say(len(self.batches), kind)

    def lose(self, count: int) -> None:
        """A loss of the last batches is declared: a new generation begins where they did."""
        del self.batches[len(self.batches) - count :]
        self.generation += 1
        self._say(len(self.batches), pb.GENERATION_START)

    def below(self, end_ms: int) -> int:
        """The number of batches accepted before then."""
        return bisect_left(self.batches, end_ms, key=lambda batch: batch.at)

    def cut_end(self, end_ms: int) -> CutEnd:
        """What the leader answers to a cut."""
        count = self.below(end_ms)
        last = self.batches[count - 1] if count else None
        return CutEnd(
            where=TopicPartition(TopicId(self.topic_id), self.number),
            log_generation=self.generation,
            end_offset=last.end if last else 0,
            accepted_ms=last.at if last else -1,
            messages=last.all_messages if last else 0,
            bytes=last.all_size if last else 0,
        )

    def say_cut(self, cut: str, end_ms: int) -> None:
        """The reading of a cut."""
        self._say(self.below(end_ms), pb.CUT, cut, end_ms)

    def _say(self, count: int, kind: int, cut: str = "", cut_end_ms: int = 0) -> None:
        last = self.batches[count - 1] if count else None
        totals = [last.all_messages, last.all_size] if last else [0, 0]
        rows = last.minute_rows if last else {}
        at = last.at if last else -1
        self.told.append(
            pb.Reading(
                tenant=self.tenant,
                topic_id=self.topic_id,
                topic=self.topic,
                partition=self.number,
                log_generation=self.generation,
                end_offset=last.end if last else 0,
                accepted_ms=at,
                totals=[*totals, 0, 0, 0, 0],
                minute_rows=[
                    pb.PrincipalRow(minute=max(0, at) // MINUTE, principal=who, messages=messages, bytes=size)
                    for who, (messages, size) in sorted(rows.items())
                ],
                kind=pb.ReadingKind.Name(kind),
                cut_id=cut,
                cut_end_ms=cut_end_ms,
            )
        )
        self.read = max(self.read, count)


@dataclass(slots=True)
class Usage:
    """`__usage` as it fills: readings out of order, some never stored, some twice, some rounds late, by brokers that
    are killed and begin again, with clocks that differ.
    """

    random: Random
    told: list[pb.Reading] = field(default_factory=list)
    """By brokers, and not stored yet."""
    stored: list[Stored] = field(default_factory=list)
    boots: int = 0
    lost: int = 0
    doubled: int = 0
    late: int = 0
    _writers: list[Writer] = field(default_factory=list)
    _ends: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def store(self, now_ms: int, *, all_of_it: bool) -> None:
        """What was told goes into the topic; not `all_of_it`: a part comes another time."""
        waiting = self.told.copy()
        self.told.clear()
        self.random.shuffle(waiting)
        going: list[pb.Reading] = []
        for one in waiting:
            if not all_of_it and self.random.random() < LATE:
                self.told.append(one)
                self.late += 1
            elif one.kind not in (pb.CUT, pb.GENERATION_START) and self.random.random() < LOST:
                self.lost += 1
            else:
                twice = self.random.random() < 0.25
                self.doubled += twice
                going += [one] * (1 + twice)
        values = list(self._records(going, now_ms))
        replayed = self.random.sample(values, len(values) // 10)
        self.doubled += len(replayed)
        values += replayed
        self.random.shuffle(values)
        for value in values:
            partition = self.random.randrange(PARTITIONS)
            self.stored.append(Stored(partition=partition, offset=self._ends[partition], value=value))
            self._ends[partition] += 1

    @property
    def ends(self) -> dict[str, int]:
        """Of the partitions of `__usage`."""
        return {str(partition): end for partition, end in enumerate(self._ends) if end}

    def _records(self, readings: list[pb.Reading], now_ms: int) -> Iterator[bytes]:
        for at in range(0, len(readings), PACKED):
            if len(self._writers) < 3:
                self.boots += 1
                self._writers.append(Writer(self.boots % 3 + 1, f"boot-{self.boots}"))
            writer = self.random.choice(self._writers)
            skew_ms = self.random.randrange(-90_000, 90_000)
            yield writer.record(*readings[at : at + PACKED], made_ms=now_ms + skew_ms)
            if self.random.random() < 0.1:
                self._writers.remove(writer)
