"""One writer whose acknowledgements tell how long writes stood still while something was done to a cluster."""

import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import penstock
from data_plane.contract.admin_client import AdminClient

STEADY_WITHIN_S = 60.0
FAULT_S = 3.5
"""How long a broker stays away at least: well over the time a suspicion takes."""
CONTROLLER_EVERY = 3
"""Each third fault hits the controller."""
_STEADY = 20
"""Acknowledgements that show that writes go on."""
_POLL_S = 0.05
RESULT_S = 60.0


class Writer(threading.Thread):
    """Sends one message after the other to `topic` and notes when each is acknowledged."""

    def __init__(self, bootstrap: str, api_key: str, ca_file: str | None = None) -> None:
        super().__init__(daemon=True)
        self._addresses = bootstrap
        self._api_key = api_key
        self._ca_file = ca_file
        self.topic = ""
        """May change while it runs."""
        self.acknowledged: list[tuple[float, str]] = []
        """(monotonic time, topic) of each acknowledgement."""
        self.failure: Exception | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            client = penstock.Client(bootstrap=self._addresses, api_key=self._api_key, ca_file=self._ca_file)
            with client, client.producer(linger_ms=0) as producer:
                while not self.ended.is_set():
                    topic = self.topic
                    producer.send(topic, b"x" * 100).result(timeout=RESULT_S)
                    self.acknowledged.append((time.monotonic(), topic))
        except Exception as error:
            self.failure = error

    def write_to(self, topic: str) -> None:
        """From now on to this topic."""
        self.topic = topic
        if not self.ident:
            self.start()

    def end(self) -> None:
        self.ended.set()
        self.join(RESULT_S)

    def wait_steady(self, since: float) -> None:
        """Until messages to its topic are acknowledged one after the other, all of them after `since`."""
        topic = self.topic

        def steady() -> bool:
            if self.failure is not None:
                raise self.failure
            return all(at > since and on == topic for at, on in self.acknowledged[-_STEADY:]) and (
                len(self.acknowledged) >= _STEADY
            )

        wait(steady, f"no steady acknowledgements of {topic}")

    def longest_gap_s(self, since: float) -> float:
        """Longest time without an acknowledgement from `since` to now."""
        times = [since, *(at for at, _ in list(self.acknowledged) if at >= since), time.monotonic()]
        return max(later - earlier for earlier, later in pairwise(times))


def wait_whole(admin: AdminClient, tenant: str) -> tuple[dict[str, int], int]:
    """(leader by topic of the tenant, controller) once all brokers are there and all replicas in sync.

    Raises `TimeoutError`.
    """
    found: tuple[dict[str, int], int] = ({}, 0)

    def whole() -> bool:
        nonlocal found
        described = admin.describe_cluster(partitions=True)
        own = (p for p in described.partitions if p.tenant == tenant)
        found = ({p.topic: p.leader for p in own}, described.controller)
        return (
            described.controller > 0
            and all(broker.state == "active" for broker in described.brokers)
            and all(p.leader > 0 and len(p.in_sync) == len(p.replicas) for p in described.partitions)
        )

    wait(whole, "the cluster did not become whole again")
    return found


def target_of(number: int, brokers: Sequence[int], controller: int) -> int:
    """Whom fault `number` hits: in turn the controller, one of the others, the other one."""
    others = [broker for broker in brokers if broker != controller]
    return others[number % 2] if number % CONTROLLER_EVERY else controller


def wait(holds: Callable[[], bool], otherwise: str) -> None:
    """Raises `TimeoutError` with what to say otherwise."""
    deadline = time.monotonic() + STEADY_WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{otherwise} within {STEADY_WITHIN_S:g} s")
        time.sleep(_POLL_S)
