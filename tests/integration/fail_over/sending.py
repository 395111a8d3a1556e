"""Messages sent one after the other over faults, and whether all that were acknowledged are there."""

import itertools
import threading
import time
from dataclasses import dataclass, field

from penstock.contract.errors import PenstockError
from tests.integration.brokers import Brokers, Tenant
from tests.waiting import PATIENCE_S

MORE = 20
"""Messages that are acknowledged before a step counts as over."""
TOPIC = "orders"


@dataclass(slots=True)
class Sending:
    """Sends one message after the other, and keeps what was acknowledged and when."""

    cluster: Brokers
    tenant: Tenant
    acknowledged: list[bytes] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "Sending":
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        number = len(self.acknowledged)
        with (
            self.cluster.client(self.tenant) as client,
            client.producer(delivery_timeout_ms=2_000) as producer,
        ):
            while not self._stop.is_set():
                number += 1
                value = b"%d %d" % (number, time.monotonic_ns())
                try:
                    producer.send(TOPIC, value).result(PATIENCE_S)
                except PenstockError:
                    continue  # it may be there or not
                self.acknowledged.append(value)
                self.at_s.append(time.monotonic())

    def goes_on(self, what: str, since_s: float | None = None) -> None:
        """Wait for more, and print the longest time without any: from now on, or since a moment before."""
        before = len(self.at_s) if since_s is None else sum(at_s < since_s for at_s in self.at_s)
        begin = max(0, before - 1)
        target = len(self.at_s) + MORE
        self.cluster.wait_until(f"{what}: messages are acknowledged", lambda: len(self.at_s) >= target)
        moments = self.at_s[begin:]
        longest = max(later - earlier for earlier, later in itertools.pairwise(moments))
        print(f"{what}: no acknowledgement for {longest:.1f} s")

    def stands_still(self) -> None:
        """Wait until nothing is acknowledged for as long as a delivery may take."""

        def still() -> bool:
            return bool(self.at_s) and time.monotonic() - self.at_s[-1] > 3.0

        self.cluster.wait_until("brokers take no messages", still)


def check_everything_is_there(cluster: Brokers, tenant: Tenant, acknowledged: list[bytes]) -> None:
    found: set[bytes] = set()
    with cluster.client(tenant) as client, client.consumer([TOPIC]) as consumer:
        end = sum(consumer.end_offsets().values())
        count = 0
        while count < end and (messages := consumer.poll(max_messages=1_000, timeout=PATIENCE_S)):
            found |= {message.value for message in messages}
            count += len(messages)
    assert set(acknowledged) <= found
