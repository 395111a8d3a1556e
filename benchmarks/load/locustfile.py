"""Locust users that produce and consume through the blocking SDK.

    .venv/bin/locust -f benchmarks/load/locustfile.py --headless -u 5 -t 30s --stop-timeout 60 --topic load

The cluster and key come from PENSTOCK_BOOTSTRAP and PENSTOCK_API_KEY, or from the profile, as everywhere. Locust
patches the process for gevent before it loads this file; the SDK then sets up grpc's gevent support by itself.
"""

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import gevent
from locust import User, constant, events, task

from penstock import Client, PenstockError

MESSAGES_PER_TASK = 20
PADDING = b" " + b"x" * 200
POLL_S = 0.2
ANSWER_S = 30.0
LAST_S = 30.0
"""How long a user that stops looks for what it sent."""


class Missing(Exception):
    """Acknowledged messages did not come back."""


@events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]
def _add_options(parser: Any, **_: Any) -> None:
    parser.add_argument("--topic", default="load", help="an existing topic; one run at a time")
    parser.add_argument(
        "--messages", type=int, default=0, help="end when so many are acknowledged; 0 = by time"
    )
    parser.add_argument("--report", default="", help="file for what was acknowledged and consumed, as JSON")


class PenstockUser(User):
    """Sends messages in small bursts, reads the whole topic, and expects each of its own back."""

    wait_time = constant(0.01)
    _numbers = itertools.count()
    _everyone: ClassVar[list["PenstockUser"]] = []

    def on_start(self) -> None:
        options: Any = self.environment.parsed_options
        self._topic, self._name = options.topic, f"{next(self._numbers)}-{time.time_ns()}"
        self._sent = 0
        self.acknowledged: set[str] = set()
        self.consumed: set[str] = set()
        self._client = Client()
        self._producer = self._client.producer(linger_ms=2)
        self._consumer = self._client.consumer(self._topic)
        self._everyone.append(self)

    @task(3)
    def produce(self) -> None:
        self._timed("produce", self._burst)

    @task(2)
    def consume(self) -> None:
        self._timed("consume", self._read)

    def on_stop(self) -> None:
        """Look for what has not come back yet, then leave."""
        self._timed("all came back", self._read_the_rest)
        self._client.close()

    def _burst(self) -> int:
        values = [f"{self._name}:{number}" for number in range(self._sent, self._sent + MESSAGES_PER_TASK)]
        self._sent += len(values)
        encoded = [value.encode() + PADDING for value in values]
        for value, delivery in zip(
            values, self._producer.send_many(self._topic, encoded, keys=None), strict=True
        ):
            delivery.result(ANSWER_S)
            self.acknowledged.add(value)
        enough = self.environment.parsed_options.messages
        if enough and sum(len(user.acknowledged) for user in self._everyone) >= enough:
            gevent.spawn(self.environment.runner.quit)  # which waits for this user too
        return sum(map(len, encoded))

    def _read(self) -> int:
        size = 0
        for message in self._consumer.poll(timeout=POLL_S):
            value = message.value or b""
            size += len(value)
            self.consumed.add(value.partition(b" ")[0].decode())
        return size

    def _read_the_rest(self) -> int:
        size, deadline = 0, time.monotonic() + LAST_S
        while missing := self.acknowledged - self.consumed:
            if time.monotonic() > deadline:
                raise Missing(
                    f"{len(missing)} of {len(self.acknowledged)} acknowledged, such as {min(missing)}; {self._places()}"
                )
            size += self._read()
        return size

    def _places(self) -> str:
        """Where the consumer stands in each partition, and where that one ends."""
        return ", ".join(
            f"{topic}-{partition} read to {self._consumer.position(topic, partition)} of {end}"
            for (topic, partition), end in self._consumer.end_offsets().items()
        )

    def _timed(self, what: str, act: Callable[[], int]) -> None:
        """Tell Locust how long it took and how many bytes it moved, or how it failed."""
        began, size, failure = time.perf_counter(), 0, None
        try:
            size = act()
        except (PenstockError, Missing) as error:
            failure = error
        self.environment.events.request.fire(
            request_type="penstock",
            name=what,
            response_time=(time.perf_counter() - began) * 1000,
            response_length=size,
            exception=failure,
            context={},
        )


@events.quitting.add_listener  # type: ignore[untyped-decorator]
def _report(environment: Any, **_: Any) -> None:
    file = environment.parsed_options.report
    if file:
        users = PenstockUser._everyone
        Path(file).write_text(
            json.dumps(
                {
                    "users": len(users),
                    "acknowledged": sorted(value for user in users for value in user.acknowledged),
                    "consumed": sorted(set[str]().union(*(user.consumed for user in users))),
                }
            )
        )
