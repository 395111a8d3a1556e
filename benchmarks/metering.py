"""What metering costs: the same batches to brokers that read usage into `__usage` and to such that do not.

Both count: the odometer is part of the log. What is compared is what the setting `metering` turns off: reading the
partitions, records of `__usage` with their replication, the tally of requests and of what consumers took.

Two clusters are up at once. Side by side, at one rate for both, they show the brokers' processor time a batch: both
meet the machine as it is then. In turns of a second or two each, as fast as they can, they show the throughput.
Processes of one and the same program differ by a percent from start to start, and metering has work each ten seconds
and each minute. So there are three laps, each with clusters of its own that start in one order or the other; the loads
come in another order in each, so that the slices of a load make a whole minute. A load's topic is made when its turn
comes. The figures are those of the three slices together, and of the turns the median, with the least and the most of
the laps.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack, ExitStack
from itertools import cycle
from pathlib import Path
from typing import Self

import penstock.asyncio
from benchmarks.cluster import BenchCluster
from benchmarks.event_loop import run
from benchmarks.figures import Benchmark, Measured, median
from benchmarks.throughput import RECORDS_PER_BATCH, batch_of, leader_address
from benchmarks.wire import Placed, ProduceWire, replay, until_writable

LAPS = 3
"""One for each load that begins one."""
_FULL, _SMALL, _FOLLOWED = "full", "small", "followed"
_PARTITIONS = {_FULL: 3, _FOLLOWED: 200, _SMALL: 1_000}
_BATCHES = {_FULL: 120, _FOLLOWED: 8_000, _SMALL: 8_000}
"""Of a turn."""
_PACED = {_FULL: 18, _SMALL: 1_600, _FOLLOWED: 960}
"""Batches a second and cluster, side by side: both take half of the machine."""
_SLICE_S = 20.0
_WARM_S = 2.0
_SMALL_PER_FRAME = 64
_WINDOW = {_FULL: 16, _SMALL: 32, _FOLLOWED: 32}
_SILENCE_S = 30.0

_Pairs = dict[str, list[tuple[float, float]]]
"""By load; one number of each cluster."""


class _Side:
    """One cluster with its loads. Of `full` each broker leads a partition, of the others the first broker leads all."""

    def __init__(self, cluster: BenchCluster) -> None:
        self._cluster = cluster
        self._wires: dict[str, list[ProduceWire]] = {}
        self._frames: dict[str, list[list[list[Placed]]]] = {}
        self._open = AsyncExitStack()
        self._client: penstock.asyncio.Client
        self._consumer: penstock.asyncio.Consumer

    async def __aenter__(self) -> Self:
        client = penstock.asyncio.Client(bootstrap=self._cluster.bootstrap, api_key=self._cluster.api_key)
        self._client = await self._open.enter_async_context(client)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def prepare(self, load: str) -> None:
        """Make the load's topic and what a turn of it sends. Each partition has one batch then."""
        batch = batch_of(RECORDS_PER_BATCH if load == _FULL else 1, 100)
        per_frame = 1 if load == _FULL else _SMALL_PER_FRAME
        cluster = self._cluster
        ids = [broker.id for broker in cluster.spec.brokers]
        leaders = range(len(ids)) if load == _FULL else range(1)
        turns = [leaders[partition % len(leaders)] for partition in range(_PARTITIONS[load])]
        topic = cluster.topic(load, len(turns), assignments=[ids[turn:] + ids[:turn] for turn in turns])
        self._wires[load], self._frames[load] = [], []
        for leader in leaders:
            led = [partition for partition, turn in enumerate(turns) if turn == leader]
            address = leader_address(cluster, topic, led[0])
            await until_writable(address, cluster.api_key, [(topic, partition, batch) for partition in led])
            wire = await self._open.enter_async_context(ProduceWire(address, cluster.api_key))
            self._wires[load].append(wire)
            placed: list[Placed] = [
                (topic, led[number % len(led)], batch) for number in range(_BATCHES[load] // len(leaders))
            ]
            self._frames[load].append(
                [placed[at : at + per_frame] for at in range(0, len(placed), per_frame)]
            )
        if load == _FOLLOWED:
            self._consumer = await self._open.enter_async_context(self._client.consumer([_FOLLOWED]))
            await self._follow(_PARTITIONS[_FOLLOWED])

    async def turn(self, load: str) -> float:
        """Batches a second, as fast as they are taken; of `followed` until a consumer has read them too."""
        began = time.perf_counter()
        await self._through(
            load, replay(self._wires[load], self._frames[load], _WINDOW[load]), _BATCHES[load]
        )
        return _BATCHES[load] / (time.perf_counter() - began)

    async def paced(self, load: str, seconds: float, late: float) -> None:
        """A frame at each turn of the clock; `late` is the share of it that they wait."""
        wires = self._wires[load]
        frames = [cycle(frames) for frames in self._frames[load]]
        size = len(self._frames[load][0][0])
        count = round(_PACED[load] * seconds / size)

        async def send() -> None:
            answers: list[asyncio.Future[float]] = []
            began = time.perf_counter()
            for number in range(count):
                due = began + (number + late) * seconds / count
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                answers += await wires[number % len(wires)].send(next(frames[number % len(wires)]))
            await asyncio.gather(*answers)

        await self._through(load, send(), count * size)

    async def _through(self, load: str, sending: Awaitable[object], batches: int) -> None:
        if load == _FOLLOWED:
            await asyncio.gather(sending, self._follow(batches))
        else:
            await sending

    async def _follow(self, batches: int) -> None:
        while batches > 0:
            read = await self._consumer.poll_batches(timeout=_SILENCE_S)
            if not read:
                raise TimeoutError(f"nothing came for {_SILENCE_S:g} s, {batches} batches are missing")
            batches -= len(read)


def metering_overhead(folder: Path) -> list[Measured]:
    """What metering adds to the brokers' processor time a batch, in percent. A negative one is noise."""
    return _compared(folder, "metering_overhead_percent", metered=True)


def metering_noise(folder: Path) -> list[Measured]:
    """The same between two clusters that do not meter: what the benchmark cannot tell from nothing."""
    return _compared(folder, "metering_noise_percent", metered=False)


def _compared(folder: Path, name: str, *, metered: bool) -> list[Measured]:
    cpu: _Pairs = {load: [] for load in _BATCHES}
    rates: _Pairs = {load: [] for load in _BATCHES}
    for lap in range(LAPS):
        with ExitStack() as stack:
            clusters = {}
            for first in (True, False) if lap % 2 else (False, True):
                own = folder / f"{lap}-{'first' if first else 'second'}"
                own.mkdir()
                clusters[first] = stack.enter_context(BenchCluster(own, metering=metered and first))
            run(_lap(lap, (clusters[True], clusters[False]), cpu, rates))
    beside: dict[str, float] = {}
    for load in _BATCHES:
        used, used_without = (sum(side) / LAPS for side in zip(*cpu[load], strict=True))
        more = [100 * (one / other - 1) for one, other in cpu[load]]
        slower = [100 * (1 - one / other) for one, other in rates[load]]
        beside |= {
            f"{load}_cpu_percent": 100 * (used / used_without - 1),
            f"{load}_cpu_least": min(more),
            f"{load}_cpu_most": max(more),
            f"{load}_cpu_us_without": used_without,
            f"{load}_rate_percent": median(slower),
            f"{load}_rate_least": min(slower),
            f"{load}_rate_most": max(slower),
            f"{load}_per_s_without": median([other for _, other in rates[load]]),
        }
    worst = max(_BATCHES, key=lambda load: beside[f"{load}_cpu_percent"])
    unit = f"% more processor time of the brokers, {worst} batches"
    return [Measured(name=name, value=beside[f"{worst}_cpu_percent"], unit=unit, beside=beside)]


async def _lap(lap: int, clusters: Sequence[BenchCluster], cpu: _Pairs, rates: _Pairs) -> None:
    """Adds of each load the brokers' microseconds a batch side by side, and the batches a second of two turns."""
    async with AsyncExitStack() as stack:
        sides = [await stack.enter_async_context(_Side(cluster)) for cluster in clusters]
        gc.collect()
        loads = [*_BATCHES]
        for load in (*loads[lap:], *loads[:lap]):
            await asyncio.gather(*(side.prepare(load) for side in sides))
            await asyncio.gather(*(side.paced(load, _WARM_S, 0.0) for side in sides))
            before = [cluster.cpu_s() for cluster in clusters]
            await asyncio.gather(*(side.paced(load, _SLICE_S, 0.5 * at) for at, side in enumerate(sides)))
            used = [cluster.cpu_s() - was for cluster, was in zip(clusters, before, strict=True)]
            batches = _PACED[load] * _SLICE_S
            cpu[load].append((1e6 * used[0] / batches, 1e6 * used[1] / batches))
            rates[load].append((await sides[0].turn(load), await sides[1].turn(load)))


BENCHMARK = Benchmark(figures=("metering_overhead_percent",), run=metering_overhead, seconds=280, quick=False)
NOISE = Benchmark(figures=("metering_noise_percent",), run=metering_noise, seconds=280, named_only=True)
