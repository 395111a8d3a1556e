"""One system's turn in one round: it is started, every load is put on it, and the readings are handed over."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.figures import percentile
from benchmarks.messages import message_values
from benchmarks.peers.comparison import Reading, Row, Window, is_warm, longest_gap_s, reading_of
from benchmarks.peers.load_client import LoadArguments, LoadClient
from benchmarks.peers.system import Kind, System, cpu_s, pss_bytes

SMALL, LARGE = 100, 1_000
PARTITIONS = 3
WINDOW_S = 1.5
_MORE_WINDOWS = 3
"""So many windows more than at least, while the rate is not steady."""
STEADY_PER_S = 1_000
STEADY_S = 6
_STEADY_END_S = 150.0
"""A system that the load is too much for has so long to acknowledge all of it."""
_LATE_MS = 50.0
"""A client that sends one message in a hundred later than that does not keep to its load."""
MANY_PARTITIONS = 500
SINGLE_PARTITIONS = 1_000
TOPICS, TOPIC_PARTITIONS = 1_000, 3
_REST_S = 5.0
_IDLE_S = 10.0
_ACKNOWLEDGED_BEFORE = 20
_GAP_AT_LEAST_S = 4.0
_GAP_STEADY_LOOKS = 8
"""Looks of a quarter of a second, all of them with acknowledgements, until writes are taken to go on."""
_GAP_AT_MOST_S = 60.0

Readings = dict[str, Reading]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One load: the rows that it gives, and about how long it takes."""

    rows: tuple[Row, ...]
    run: Callable[["Turn"], Readings]
    seconds: int
    quick: bool = False
    """Whether the quick form has it."""
    codec: str = "none"
    """A system whose client does not have it leaves this load out."""
    fresh: bool = False
    """Whether it is measured on servers of its own, in the first round alone."""

    @property
    def title(self) -> str:
        return self.rows[0].title


class Turn:
    """Servers that run, and what the loads before have left in them."""

    def __init__(self, kind: Kind, system: System, folder: Path) -> None:
        self.kind = kind
        self.system = system
        self._folder = folder
        self._clients = 0
        self._rates = 0
        """How many loads as fast as possible there were."""
        self._stored: dict[str, int] = {}
        """Messages by topic."""

    def produce(self, size: int, codec: str) -> Reading:
        topic = f"produce-{size}-{codec}"
        self.system.make_topics(topic, PARTITIONS)
        reading, self._stored[topic] = self._rate(
            self._arguments("produce", topic, PARTITIONS, size, codec=codec)
        )
        return reading

    def read(self, size: int) -> Reading:
        topic = f"produce-{size}-none"
        arguments = self._arguments("read", topic, PARTITIONS, size, messages=self._stored[topic])
        return self._rate(arguments)[0]

    def single(self) -> Reading:
        self.system.make_topics("single", SINGLE_PARTITIONS)
        return self._rate(self._arguments("single", "single", SINGLE_PARTITIONS, SMALL))[0]

    def steady(self, partitions: int) -> tuple[Reading, Reading]:
        """Milliseconds until the acknowledgement: median and 99th percentile."""
        topic = f"steady-{partitions}"
        self.system.make_topics(topic, partitions)
        arguments = self._arguments("steady", topic, partitions, LARGE, per_s=STEADY_PER_S, seconds=STEADY_S)
        with self._client(arguments) as client:
            client.line_with("measuring")
            servers, own = self._cpu_s(client)
            client.line_with("measured", _STEADY_END_S)
            servers_after, own_after = self._cpu_s(client)
            said = client.line_with("acknowledged_ms")
            client.wait()
        times, on_time = said["acknowledged_ms"], percentile(said["late_ms"], 0.99) < _LATE_MS
        used = (servers_after - servers) / len(times) * 1e6, (own_after - own) / len(times) * 1e6
        middle, high = (
            Reading(value=percentile(times, share), servers_us=used[0], client_us=used[1], steady=on_time)
            for share in (0.5, 0.99)
        )
        return middle, high

    def kill(self) -> Reading:
        """Seconds without an acknowledgement when the leader of the partition is killed."""
        self.system.make_topics("killed", 1)
        with self._client(self._arguments("gap", "killed", 1, SMALL)) as client:
            through = 0
            while through < _ACKNOWLEDGED_BEFORE:
                through += client.line()["messages"]
            self.system.leader_of("killed").kill()
            began, looks = time.monotonic(), 0
            while looks < _GAP_STEADY_LOOKS or time.monotonic() < began + _GAP_AT_LEAST_S:
                looks = looks + 1 if client.line()["messages"] else 0
                if time.monotonic() > began + _GAP_AT_MOST_S:
                    raise TimeoutError(
                        f"no steady acknowledgements {_GAP_AT_MOST_S:g} s after the leader's end"
                    )
            client.stop()
            times = client.line_with("times_ms")["times_ms"]
            client.wait()
        return Reading(value=longest_gap_s(times))

    def topics(self) -> tuple[Reading, Reading, Reading]:
        """Seconds to make a thousand topics; megabytes and cores that the servers then use at rest."""
        made_s = self.system.make_topics("topic", TOPIC_PARTITIONS, TOPICS)
        time.sleep(_REST_S)
        servers = self.system.servers()
        before, began = cpu_s(servers), time.perf_counter()
        time.sleep(_IDLE_S)
        idle = (cpu_s(servers) - before) / (time.perf_counter() - began)
        return Reading(value=made_s), Reading(value=pss_bytes(servers) / 1e6), Reading(value=idle)

    def _rate(self, arguments: LoadArguments) -> tuple[Reading, int]:
        """(its reading, messages that are through)."""
        at_least = self.kind.windows if self._rates else self.kind.warm_up
        self._rates += 1
        with self._client(arguments) as client:
            found: list[Window] = []
            while not (len(found) >= at_least and is_warm(found)) and len(found) < at_least + _MORE_WINDOWS:
                line = client.line_with("messages")
                servers, own = self._cpu_s(client)
                found.append(
                    Window(
                        messages=line["messages"],
                        seconds=line["seconds"],
                        servers_cpu_s=servers,
                        client_cpu_s=own,
                    )
                )
            client.stop()
            through = int(client.line_with("done")["done"])
            client.wait()
        return reading_of(found), through

    def _cpu_s(self, client: LoadClient) -> tuple[float, float]:
        return cpu_s(self.system.servers()), cpu_s([client.process])

    def _arguments(
        self,
        load: str,
        topic: str,
        partitions: int,
        size: int,
        *,
        codec: str = "none",
        per_s: int = 1,
        seconds: int = 1,
        messages: int = 1,
    ) -> LoadArguments:
        return LoadArguments(
            load=load,
            topic=topic,
            partitions=partitions,
            values=self._values(size),
            bytes=size,
            codec=codec,
            per_s=per_s,
            seconds=seconds,
            messages=messages,
            window_s=WINDOW_S,
        )

    def _values(self, size: int) -> Path:
        file = self._folder / f"values-{size}"
        if not file.exists():
            file.write_bytes(b"".join(message_values(size)))
        return file

    def _client(self, arguments: LoadArguments) -> LoadClient:
        self._clients += 1
        log = self._folder / f"client-{self._clients}-{arguments.load}.log"
        return LoadClient(self.system.client(), self.system.bootstrap, arguments, log)


def _produced(size: int, codec: str, *, quick: bool = False) -> Step:
    shown = "1 KB" if size == LARGE else f"{size} B"
    row = Row(
        key=f"produce_{size}b_{codec}_per_s",
        title=f"produce {shown}, {codec}",
        unit="messages/s",
        more_is_better=True,
    )
    return Step(
        rows=(row,),
        run=lambda turn: {row.key: turn.produce(size, codec)},
        seconds=10,
        quick=quick,
        codec=codec,
    )


def _read(size: int, *, quick: bool = False) -> Step:
    shown = "1 KB" if size == LARGE else f"{size} B"
    row = Row(key=f"read_{size}b_per_s", title=f"read {shown}", unit="messages/s", more_is_better=True)
    return Step(rows=(row,), run=lambda turn: {row.key: turn.read(size)}, seconds=8, quick=quick)


def _steady(partitions: int) -> Step:
    shown = "1 partition" if partitions == 1 else f"{partitions} partitions"
    rows = tuple(
        Row(
            key=f"ack_{name}_{partitions}_partitions_ms",
            title=f"{STEADY_PER_S:,} messages of 1 KB a second, {shown}: {name}",
            unit="ms",
        )
        for name in ("p50", "p99")
    )

    def run(turn: Turn) -> Readings:
        return {row.key: reading for row, reading in zip(rows, turn.steady(partitions), strict=True)}

    return Step(rows=rows, run=run, seconds=12 if partitions == 1 else 18, quick=True)


_SINGLE = Row(
    key="single_message_batches_per_s",
    title=f"batches of one message, {SINGLE_PARTITIONS:,} partitions",
    unit="messages/s",
    more_is_better=True,
)
_KILLED = Row(key="leader_kill_gap_s", title="longest gap after kill -9 of the leader", unit="s")
_TOPICS = (
    Row(key="topics_made_s", title=f"{TOPICS:,} topics of {TOPIC_PARTITIONS} partitions: made", unit="s"),
    Row(key="topics_memory_mb", title="memory of three servers with them (PSS)", unit="MB"),
    Row(key="topics_idle_cores", title="processor time at rest with them", unit="cores"),
)

STEPS = (
    _produced(SMALL, "none", quick=True),
    _produced(SMALL, "zstd"),
    _produced(LARGE, "none", quick=True),
    _produced(LARGE, "zstd"),
    _read(SMALL),
    _read(LARGE, quick=True),
    _steady(1),
    _steady(MANY_PARTITIONS),
    Step(rows=(_SINGLE,), run=lambda turn: {_SINGLE.key: turn.single()}, seconds=18),
    Step(rows=(_KILLED,), run=lambda turn: {_KILLED.key: turn.kill()}, seconds=10, quick=True),
    Step(
        rows=_TOPICS,
        run=lambda turn: {row.key: one for row, one in zip(_TOPICS, turn.topics(), strict=True)},
        seconds=50,
        fresh=True,
    ),
)
"""In this order; reads need what was produced, and kills come last."""


def steps_of(kind: Kind, *, quick: bool, fresh: bool) -> list[Step]:
    """What is measured of a system in one turn."""
    return [
        step
        for step in STEPS
        if step.codec in kind.codecs and step.fresh == fresh and (step.quick or not quick)
    ]


def take_turn(
    kind: Kind, system: System, folder: Path, steps: list[Step], report: Report
) -> tuple[Readings, list[str]]:
    """(readings by row, what could not be measured and why)."""
    readings: Readings = {}
    failures: list[str] = []
    with system:
        turn = Turn(kind, system, folder)
        for step in steps:
            report(step.title)
            try:
                readings |= step.run(turn)
            except (
                KeyError,
                OSError,
                RuntimeError,
                ValueError,
                psutil.Error,
                subprocess.TimeoutExpired,
            ) as error:
                failures.append(f"{kind.title}: {step.title}: {error}")
                report(f"{step.title}: not measured: {error}")
    return readings, failures
