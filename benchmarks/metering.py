"""What metering costs: the same batches to brokers that read usage into `__usage` and to such that do not.

Both count: the odometer is part of the log. What is compared is what the setting `metering` turns off: reading the
partitions, records of `__usage` with their replication, the tally of requests and of what consumers took.

Two clusters are up at once. Side by side, at one rate for both, they show the brokers' processor time a batch: each
slice of a few seconds meets both of them with the machine as it is then, and gives one ratio. In turns of a second or
two each, in the order A B B A and as fast as they can, they show the throughput. The figures are medians, their
spread is the quartiles.
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
from benchmarks.figures import Benchmark, Measured, median, percentile
from benchmarks.throughput import RECORDS_PER_BATCH, batch_of, leader_address
from benchmarks.wire import Placed, ProduceWire, replay, until_writable

SLICES = 14
TURNS = 10
_FULL, _SMALL, _FOLLOWED = "full", "small", "followed"
_PARTITIONS = {_FULL: 3, _SMALL: 1_000, _FOLLOWED: 200}
_BATCHES = {_FULL: 120, _SMALL: 8_000, _FOLLOWED: 8_000}
"""Of a turn."""
_PACED = {_FULL: 18, _SMALL: 1_600, _FOLLOWED: 960}
"""Batches a second and cluster, side by side: both take half of the machine."""
_SLICE_S = 4.0
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
        self._consumer: penstock.asyncio.Consumer

    async def __aenter__(self) -> Self:
        await self._place(_FULL, batch_of(RECORDS_PER_BATCH, 100), 1)
        for load in (_SMALL, _FOLLOWED):
            await self._place(load, batch_of(1, 100), _SMALL_PER_FRAME)
        client = await self._open.enter_async_context(
            penstock.asyncio.Client(bootstrap=self._cluster.bootstrap, api_key=self._cluster.api_key)
        )
        self._consumer = await self._open.enter_async_context(client.consumer([_FOLLOWED]))
        await self._follow(_PARTITIONS[_FOLLOWED])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def _place(self, load: str, batch: bytes, per_frame: int) -> None:
        """Make the load's topic and what a turn of it sends. Each partition has one batch then."""
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

    async def turn(self, load: str) -> float:
        """Batches a second, as fast as they are taken; of `followed` until a consumer has read them too."""
        began = time.perf_counter()
        await self._through(
            load, replay(self._wires[load], self._frames[load], _WINDOW[load]), _BATCHES[load]
        )
        return _BATCHES[load] / (time.perf_counter() - began)

    async def paced(self, load: str, late: float) -> None:
        """For the time of a slice, a frame at each turn of the clock; `late` is the share of it that they wait."""
        wires = self._wires[load]
        frames = [cycle(frames) for frames in self._frames[load]]
        size = len(self._frames[load][0][0])
        count = round(_PACED[load] * _SLICE_S / size)

        async def send() -> None:
            answers: list[asyncio.Future[float]] = []
            began = time.perf_counter()
            for number in range(count):
                due = began + (number + late) * _SLICE_S / count
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
    with ExitStack() as stack:
        clusters = []
        for side, metering in (("a", metered), ("b", False)):
            (folder / side).mkdir()
            clusters.append(stack.enter_context(BenchCluster(folder / side, metering=metering)))
        cpu, rates = run(_both(clusters))
    beside: dict[str, float] = {}
    for load in _BATCHES:
        for what, values in (
            ("cpu", [100 * (one / other - 1) for one, other in cpu[load]]),
            ("rate", [100 * (1 - one / other) for one, other in rates[load]]),
        ):
            beside[f"{load}_{what}_percent"] = median(values)
            beside[f"{load}_{what}_p25"] = percentile(values, 0.25)
            beside[f"{load}_{what}_p75"] = percentile(values, 0.75)
        for number, side in enumerate(("", "_without")):
            beside[f"{load}_cpu_us{side}"] = median([pair[number] for pair in cpu[load]])
            beside[f"{load}_per_s{side}"] = median([pair[number] for pair in rates[load]])
    worst = max(_BATCHES, key=lambda load: beside[f"{load}_cpu_percent"])
    unit = f"% more processor time of the brokers, {worst} batches"
    return [Measured(name=name, value=beside[f"{worst}_cpu_percent"], unit=unit, beside=beside)]


async def _both(clusters: Sequence[BenchCluster]) -> tuple[_Pairs, _Pairs]:
    """Of each load the brokers' microseconds a batch in each slice, and the batches a second of each pair of turns. The
    first of both is left out: files are made, code is warmed up."""
    cpu: _Pairs = {load: [] for load in _BATCHES}
    rates: _Pairs = {load: [] for load in _BATCHES}
    async with AsyncExitStack() as stack:
        sides = [await stack.enter_async_context(_Side(cluster)) for cluster in clusters]
        gc.collect()
        gc.freeze()
        for number in range(TURNS + 1):
            order = sides if number % 2 else sides[::-1]
            for load, found in rates.items():
                turns = {side: await side.turn(load) for side in order}
                if number:
                    found.append((turns[sides[0]], turns[sides[1]]))
        for load, found in cpu.items():
            for number in range(SLICES + 1):
                late = (0.0, 0.5) if number % 2 else (0.5, 0.0)
                before = [cluster.cpu_s() for cluster in clusters]
                await asyncio.gather(
                    *(side.paced(load, share) for side, share in zip(sides, late, strict=True))
                )
                used = [cluster.cpu_s() - was for cluster, was in zip(clusters, before, strict=True)]
                if number:
                    a, b = (1e6 * one / (_PACED[load] * _SLICE_S) for one in used)
                    found.append((a, b))
    return cpu, rates


BENCHMARK = Benchmark(figures=("metering_overhead_percent",), run=metering_overhead, seconds=240, quick=False)
NOISE = Benchmark(figures=("metering_noise_percent",), run=metering_noise, seconds=240, named_only=True)
