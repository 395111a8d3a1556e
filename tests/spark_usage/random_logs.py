"""Random partitions with true totals, the readings that brokers make of them, and the disorder they arrive in."""

from dataclasses import dataclass, field
from random import Random

from data_plane.contract import usage_pb2 as pb
from tests.spark_usage.records import MINUTE, Stored, Writer, reading

START_MS = 1_767_225_600_000 - 40 * MINUTE
"""40 minutes before a year ends: days, months and hours change in the middle of a log."""


@dataclass(slots=True)
class State:
    """A log's prefix: what an odometer says at its end."""

    end: int = 0
    at: int = -1
    messages: int = 0
    size: int = 0
    aborted: int = 0
    rows: dict[int, tuple[int, int]] = field(default_factory=dict)

    def copy(self) -> "State":
        return State(self.end, self.at, self.messages, self.size, self.aborted, dict(self.rows))


@dataclass(slots=True)
class Log:
    """One partition as it truly was. `cuts` is what each cut's reading said, in order."""

    tenant: str
    partition: int
    readings: list[pb.Reading]
    last: State
    cuts: dict[str, tuple[int, int]]


def random_log(
    random: Random, tenant: str, partition: int, cuts: int = 2, losses: float = 0.02, renames: float = 0
) -> Log:
    """A log of 100 batches. After each one a loss is declared with the probability `losses`, and its topic is restored
    under another name, which a reading of the same point says, with the probability `renames`.
    """
    topic = "orders"
    state, generation = State(), 1
    history = [state.copy()]
    log = Log(tenant, partition, [], state, {})
    now = START_MS + random.randrange(MINUTE)
    read_at = 0
    cut_at = sorted(random.sample(range(1, 100), cuts))

    def read(one: State, kind: int = pb.PERIODIC, cut: str = "") -> None:
        log.readings.append(
            reading(
                one.end,
                one.at,
                one.messages,
                one.size,
                [(who, *row) for who, row in sorted(one.rows.items())],
                tenant=tenant,
                name=topic,
                partition=partition,
                generation=generation,
                kind=kind,
                aborted=one.aborted,
                cut=cut,
                cut_end=now + 1 if cut else 0,
            )
        )

    for step in range(100):
        now += random.choice((0, 5, 700, 9_000, 61_000, 400_000) if random.random() < 0.5 else (50,))
        before = state.copy()
        if state.at // MINUTE != now // MINUTE:
            state.rows = {}
            if read_at < before.end:
                read(before, pb.MINUTE_END)
        count, size, who = random.randrange(1, 50), random.randrange(61, 9_000), random.randrange(1, 4)
        if random.random() < 0.1:
            state.aborted += count
        else:
            state.messages, state.size = state.messages + count, state.size + size
            old = state.rows.get(who, (0, 0))
            state.rows[who] = (old[0] + count, old[1] + size)
        state.end, state.at = state.end + count, now
        history.append(state.copy())
        if random.random() < 0.4:
            read(state, random.choice((pb.PERIODIC, pb.LEADER_CHANGE, pb.HOURLY)))
            read_at = state.end
        if step in cut_at:
            name = f"cut_{cut_at.index(step) + 1}"
            read(state, cut=name)
            log.cuts[name] = (state.messages, state.size)
        if random.random() < losses and len(history) > 3:
            del history[random.randrange(len(history) // 2, len(history)) + 1 :]
            log.last = state = history[-1].copy()
            generation += 1
            read(state, pb.GENERATION_START)
        if renames and random.random() < renames:
            read(state, pb.LEADER_CHANGE)
            topic = random.choice(("archive", "orders", "zebra"))
            read(state, pb.LEADER_CHANGE)
    read(state)
    return log


def arrivals(random: Random, logs: list[Log], lost: float = 0.15) -> tuple[list[Stored], list[pb.Reading]]:
    """(`__usage` as it may look, the readings that are in it).

    Readings are packed in any order by three boots; some are lost before they are stored, some stored twice, whole
    records too. What tests rely on is not lost: cuts, starts of generations, and the last reading of each log.
    """
    writers = [Writer(number, f"boot-{number}") for number in (1, 2, 3)]
    waiting: list[pb.Reading] = []
    for log in logs:
        for one in log.readings:
            needed = one.kind in (pb.CUT, pb.GENERATION_START) or one is log.readings[-1]
            if needed or random.random() >= lost:
                waiting += [one] * random.choice((1, 1, 1, 2))
    random.shuffle(waiting)
    values: list[bytes] = []
    for at in range(0, len(waiting), 25):
        values.append(random.choice(writers).record(*waiting[at : at + 25], made_ms=START_MS + at))
    values += random.sample(values, len(values) // 10)
    random.shuffle(values)
    ends = [0, 0, 0]
    stored = []
    for value in values:
        partition = random.randrange(3)
        stored.append(Stored(partition=partition, offset=ends[partition], value=value))
        ends[partition] += 1
    return stored, waiting
