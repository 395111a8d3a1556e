"""Producers that send unique values without pause while brokers fail, and remember what was acknowledged."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock import Client, Delivery, Producer, Receipt
from penstock.contract.errors import PenstockError

BURST = 10
BURST_EVERY_S = 0.04
"""250 messages a second and producer: every moment of every fault meets some, and two cores bear it."""
DELIVERY_TIMEOUT_MS = 60_000
"""Longer than any outage here, so that retrying is what is tested and not giving up."""
_PADDING = b"." * 80


def value_of(writer: int, number: int) -> bytes:
    """The value of a writer's message: nobody else sends it, and it tells its place in the order of
    sending.
    """
    return b"%d:%08d:" % (writer, number) + _PADDING


def origin_of(value: bytes) -> tuple[int, int]:
    """(writer, number) of a value."""
    writer, number, _ = value.split(b":", 2)
    return int(writer), int(number)


@dataclass(slots=True)
class Sent:
    """What one writer knows of its messages, by number."""

    count: int = 0
    receipts: dict[int, Receipt] = field(default_factory=dict)
    failures: dict[int, PenstockError] = field(default_factory=dict)
    newest_acknowledged: int = -1
    longest_silence_s: float = 0.0


class Writer(threading.Thread):
    """One idempotent producer in a thread of its own, until `stop`."""

    def __init__(
        self, number: int, bootstrap: Sequence[str], api_key: str, topic: str, partitions: int
    ) -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        self.number, self.sent = number, Sent()
        self.crash: BaseException | None = None
        self._brokers, self._api_key = list(bootstrap), api_key
        self._topic, self._partitions = topic, partitions
        self._stopping = threading.Event()
        self._outstanding: deque[tuple[int, Delivery]] = deque()
        self._last_acknowledged = time.monotonic()

    def run(self) -> None:
        """Send bursts; raise nothing: what went wrong stands in `crash`."""
        try:
            with Client(bootstrap=self._brokers, api_key=self._api_key) as client:
                producer = client.producer(idempotent=True, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)
                with producer:
                    while not self._stopping.wait(BURST_EVERY_S):
                        self._burst(producer)
                        self._settle()
                    producer.flush(timeout=DELIVERY_TIMEOUT_MS / 1000)
                self._settle()
        except BaseException as error:
            self.crash = error

    def stop(self) -> None:
        """Let everything that was sent end, then end the thread."""
        self._stopping.set()

    @property
    def acknowledged(self) -> int:
        """Messages acknowledged so far."""
        return len(self.sent.receipts)

    @property
    def newest_acknowledged(self) -> int:
        """The highest number acknowledged so far; -1 = none."""
        return self.sent.newest_acknowledged

    def _burst(self, producer: Producer) -> None:
        for _ in range(BURST):
            number = self.sent.count
            partition = (self.number + number // BURST) % self._partitions
            delivery = producer.send(self._topic, value_of(self.number, number), partition=partition)
            self._outstanding.append((number, delivery))
            self.sent.count += 1

    def _settle(self) -> None:
        """Look at the deliveries that ended, in order of sending."""
        now = time.monotonic()
        progress = False
        while self._outstanding and self._outstanding[0][1].done():
            number, delivery = self._outstanding.popleft()
            try:
                self.sent.receipts[number] = delivery.result(timeout=0)
                self.sent.newest_acknowledged = max(self.sent.newest_acknowledged, number)
                progress = True
            except PenstockError as error:
                self.sent.failures[number] = error
        if progress:
            self.sent.longest_silence_s = max(self.sent.longest_silence_s, now - self._last_acknowledged)
            self._last_acknowledged = now
