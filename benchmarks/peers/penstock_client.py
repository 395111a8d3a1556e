"""The loads of the comparison on Penstock, through its SDK: `python -m benchmarks.peers.penstock_client LOAD ...`.

Every client of the comparison takes the same arguments and writes the same lines, one JSON object each; a load without
an end of its own ends when standard input does. What the lines say: `benchmarks.peers.load_client`.
"""

import argparse
import asyncio
import gc
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import penstock
import penstock.asyncio

_WAIT_S = 60.0
_COUNTED = 1_000
"""Of so many messages the last one's acknowledgement counts for all: a callback for each would be the load."""
_GAP_LOOK_S = 0.25
_WARM_UP_S = 3


class Arguments(argparse.Namespace):
    """As they come from the command line."""

    load: str
    bootstrap: str
    topic: str
    partitions: int
    values: Path
    bytes: int
    codec: str
    per_s: int
    seconds: int
    messages: int
    window_s: float


class Counted:
    """Messages that are through; a thread writes a line for each window until standard input ends."""

    def __init__(self) -> None:
        self.total = 0
        self.ended = threading.Event()
        self._lock = threading.Lock()

    def add(self, messages: int) -> None:
        with self._lock:
            self.total += messages

    def watch(self, window_s: float) -> None:
        threading.Thread(target=self._report, args=(window_s,), daemon=True).start()
        threading.Thread(target=self._wait_end, daemon=True).start()

    def _report(self, window_s: float) -> None:
        at, before = time.perf_counter(), self.total
        while not self.ended.wait(window_s):
            now, total = time.perf_counter(), self.total
            say(messages=total - before, seconds=now - at)
            at, before = now, total

    def _wait_end(self) -> None:
        while os.read(0, 4096):
            pass
        self.ended.set()


def say(**values: object) -> None:
    """One line, at once."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def _values(arguments: Arguments) -> list[bytes]:
    content, size = arguments.values.read_bytes(), arguments.bytes
    return [content[at : at + size] for at in range(0, len(content), size)]


def _client(arguments: Arguments) -> penstock.Client:
    return penstock.Client(bootstrap=arguments.bootstrap, api_key=os.environ["PENSTOCK_API_KEY"])


def produce(arguments: Arguments) -> None:
    """As fast as it goes, without keys."""
    values, counted, topic, sent = _values(arguments), Counted(), arguments.topic, 0
    with (
        _client(arguments) as client,
        client.producer(compression=arguments.codec, linger_ms=5, batch_bytes=1_000_000) as producer,
    ):
        for partition in range(arguments.partitions):
            producer.send(topic, values[0], partition=partition).result(_WAIT_S)
        counted.watch(arguments.window_s)

        def through(delivery: penstock.Delivery) -> None:
            counted.add(_COUNTED)

        blocks = [values[at : at + _COUNTED] for at in range(0, len(values), _COUNTED)]
        for block in itertools.cycle(blocks):
            for value in block[:-1]:
                producer.send(topic, value)
            producer.send(topic, block[-1]).add_done_callback(through)
            sent += len(block)
            if counted.ended.is_set():
                break
        producer.flush(_WAIT_S)
        if producer.failed_count:
            raise RuntimeError(f"{producer.failed_count} messages were not taken")
    say(done=sent + arguments.partitions)


def read(arguments: Arguments) -> None:
    """Everything from the beginning, again and again."""
    counted, topic = Counted(), arguments.topic
    with _client(arguments) as client, client.consumer([topic]) as consumer:
        counted.watch(arguments.window_s)
        while not counted.ended.is_set():
            left = arguments.messages
            while left > 0 and not counted.ended.is_set():
                messages = consumer.poll(max_messages=50_000, timeout=_WAIT_S)
                if not messages:
                    raise TimeoutError(f"nothing to read for {_WAIT_S:g} s, {left} messages before the end")
                left -= len(messages)
                counted.add(len(messages))
            consumer.seek(topic, to="beginning")
    say(done=counted.total)


def gap(arguments: Arguments) -> None:
    """One message after the other; at the end the times of all acknowledgements."""
    value, counted, times_ms = _values(arguments)[0], Counted(), []
    with _client(arguments) as client, client.producer(linger_ms=0, compression="none") as producer:
        counted.watch(_GAP_LOOK_S)
        while not counted.ended.is_set():
            producer.send(arguments.topic, value).result(_WAIT_S)
            times_ms.append(time.perf_counter() * 1e3)
            counted.add(1)
    say(times_ms=times_ms)


async def steady(arguments: Arguments) -> None:
    """Open loop: each message at its time, over the partitions in turn."""
    values, topic, partitions = _values(arguments), arguments.topic, arguments.partitions
    total, warm_up = arguments.per_s * arguments.seconds, arguments.per_s * _WARM_UP_S
    sent_at = [0.0] * (warm_up + total)
    acknowledged_ms = [0.0] * (warm_up + total)
    late_ms = [0.0] * (warm_up + total)

    def acknowledged(number: int, delivery: penstock.asyncio.Delivery) -> None:
        acknowledged_ms[number] = (time.perf_counter() - sent_at[number]) * 1e3

    async with (
        _asyncio_client(arguments) as client,
        client.producer(linger_ms=0, compression="none") as producer,
    ):
        for partition in range(partitions):
            await (await producer.send(topic, values[0], partition=partition))
        gc.collect()
        gc.freeze()
        began = time.perf_counter()
        for number in range(warm_up + total):
            due = began + number / arguments.per_s
            ahead = due - time.perf_counter()
            if ahead > 0:
                await asyncio.sleep(ahead)
            if number == warm_up:
                say(measuring=True)
            sent_at[number] = time.perf_counter()
            late_ms[number] = (sent_at[number] - due) * 1e3
            delivery = await producer.send(topic, values[number % len(values)], partition=number % partitions)
            delivery.add_done_callback(partial(acknowledged, number))
        await producer.flush(_WAIT_S)
        say(measured=True)
        if producer.failed_count:
            raise RuntimeError(f"{producer.failed_count} messages were not taken")
    say(acknowledged_ms=acknowledged_ms[warm_up:], late_ms=late_ms[warm_up:])


async def single(arguments: Arguments) -> None:
    """One message on its way for each partition, so each is a batch of its own."""
    value, counted, topic = _values(arguments)[0], Counted(), arguments.topic

    async with (
        _asyncio_client(arguments) as client,
        client.producer(linger_ms=0, compression="none") as producer,
    ):

        async def one_by_one(partition: int) -> None:
            while not counted.ended.is_set():
                await (await producer.send(topic, value, partition=partition))
                counted.add(1)

        for partition in range(arguments.partitions):
            await (await producer.send(topic, value, partition=partition))
        gc.collect()
        gc.freeze()
        counted.watch(arguments.window_s)
        async with asyncio.TaskGroup() as group:
            for partition in range(arguments.partitions):
                group.create_task(one_by_one(partition))
    say(done=counted.total)


def _asyncio_client(arguments: Arguments) -> penstock.asyncio.Client:
    return penstock.asyncio.Client(bootstrap=arguments.bootstrap, api_key=os.environ["PENSTOCK_API_KEY"])


LOADS: dict[str, Callable[[Arguments], None]] = {
    "produce": produce,
    "read": read,
    "gap": gap,
    "steady": lambda arguments: asyncio.run(steady(arguments)),
    "single": lambda arguments: asyncio.run(single(arguments)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("load", choices=LOADS)
    for name in ("bootstrap", "topic", "codec"):
        parser.add_argument(f"--{name}", default="none")
    parser.add_argument("--values", type=Path)
    for name in ("partitions", "bytes", "per-s", "seconds", "messages"):
        parser.add_argument(f"--{name}", type=int, default=1)
    parser.add_argument("--window-s", type=float, default=3.0)
    arguments = parser.parse_args(namespace=Arguments())
    LOADS[arguments.load](arguments)


if __name__ == "__main__":
    main()
