"""The two client processes as the demo sees them: started, listened to, ended; and the broker that is killed."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from data_plane.contract.admin_client import AdminClient
from demo.tenants import TOPIC
from penstock.contract.errors import PenstockError

_END_S = 60.0
_MOVED_S = 20.0
_POLL_S = 0.1


class TrafficFailed(PenstockError):
    """Messages were not produced or read as they must be."""

    remedy: ClassVar[str] = (
        "Read the output named, and the brokers' (penstock dev status); then run the demo again."
    )


class Talker:
    """A client process that tells its counts, one JSON document a line."""

    def __init__(self, module: str, arguments: Sequence[str], output: Path) -> None:
        self.name = module.rpartition(".")[2]
        self._output = output
        self._errors = output.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._lock = threading.Lock()
        self._reported: dict[str, Any] = {}
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(5)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass  # it ended before it read what was left

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                reported = json.loads(line)
            except ValueError:
                continue
            with self._lock:
                self._reported.update(reported)

    @property
    def reported(self) -> dict[str, Any]:
        """What it has reported so far, the newest of each name. Raises `TrafficFailed` when it has failed."""
        ended = self._process.poll()
        if ended is not None:
            self._reader.join(5)
        with self._lock:
            reported = dict(self._reported)
        if "error" in reported:
            raise TrafficFailed(f"{self.name}: {reported['error']} (output in {self._output})")
        if ended not in (None, 0) or (ended == 0 and not reported.get("done")):
            raise TrafficFailed(f"{self.name}: ended with status {ended} (output in {self._output})")
        return reported

    def count(self, name: str) -> int:
        """The newest number of that name, 0 before there is one."""
        return int(self.reported.get(name, 0))

    def wait(self, name: str, within_s: float, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Wait until it has reported `name` as true. Raises `TrafficFailed`."""
        deadline = time.monotonic() + within_s
        while not (reported := self.reported).get(name):
            tell(reported)
            if time.monotonic() > deadline:
                raise TrafficFailed(f"{self.name}: not {name} after {within_s:g} s; it reported {reported}")
            time.sleep(_POLL_S)
        return reported

    def begin(self, plan: Path) -> None:
        """Tell it to begin, and with what."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{plan}\n")
        self._process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """End it, and give its last report. Raises `TrafficFailed`."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise TrafficFailed(f"{self.name}: has not ended after {_END_S:g} s") from None
        return self.reported


class BrokerHands(Protocol):
    """What can be done to brokers, and asked of them."""

    def admin(self) -> AdminClient:
        """To be used in a `with`."""

    def kill_broker(self, number: int) -> int | None:
        """SIGKILL; the process id it had, None when it did not run. It stays down until it is started."""

    def start_broker(self, number: int) -> None:
        """Start it and wait until it is ready."""


class Victim:
    """The broker that leads most of the flights' partitions; it is killed and started again."""

    def __init__(self, cluster: BrokerHands) -> None:
        self._cluster = cluster
        self.number = -1
        self._led: list[tuple[bytes, int]] = []

    def kill(self) -> None:
        """SIGKILL."""
        leaders = self._leaders()
        by_broker: dict[int, int] = {}
        for leader in leaders.values():
            by_broker[leader] = by_broker.get(leader, 0) + 1
        by_broker.pop(-1, None)
        if not by_broker:
            raise TrafficFailed("no partition of the flights has a leader")
        self.number = max(sorted(by_broker), key=lambda broker: by_broker[broker])
        self._led = [tp for tp, leader in sorted(leaders.items()) if leader == self.number]
        if self._cluster.kill_broker(self.number) is None:
            raise TrafficFailed(f"broker {self.number}: was gone before it was killed")

    def leaders_moved(self) -> int:
        """How many of its partitions another broker leads by now; waits a while for all of them."""
        deadline = time.monotonic() + _MOVED_S
        while True:
            leaders = self._leaders()
            moved = sum(leaders.get(tp, -1) not in (-1, self.number) for tp in self._led)
            if moved == len(self._led) or time.monotonic() > deadline:
                return moved
            time.sleep(_POLL_S)

    def start_again(self) -> None:
        """Start it and wait until it is ready."""
        self._cluster.start_broker(self.number)

    def _leaders(self) -> dict[tuple[bytes, int], int]:
        with self._cluster.admin() as admin:
            partitions = admin.describe_cluster(partitions=True).partitions
            return {(p.topic_id, p.partition): p.leader for p in partitions if p.topic == TOPIC}
