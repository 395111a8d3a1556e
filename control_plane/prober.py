"""A prober: produces and reads as any client does, from outside of the brokers, and counts what came of it.

Where a tenant asked for too little to say how well it was served, these counts judge the window. So a prober has a key
and a topic with a partition a broker, of the service's own tenant or of one that was made for it, and stands where
clients do.
"""

import logging
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry

from billing.probe_counts import MinuteKey, ProbeCounts
from control_plane.prober_health import FAILED, GOOD, NONE, HealthCollector, ProberHealth
from daemon.hang_ups import HangUpCollector, HangUps
from daemon.http_listener import HttpListener
from penstock import Client
from penstock.contract import errors
from penstock.contract.errors import BrokerUnavailable, ConfigurationError, PenstockError
from penstock.rules.addresses import split_address
from penstock.rules.service_levels import FETCH, PRODUCE, Counts

EVERY_S = 5.0
SAID_EVERY_MINUTES = 15
"""A line of the log says what was counted."""
WITHIN_S = 5.0
"""What takes longer has failed."""
BOUNDS_S = 1.0
"""For the log's bounds, after a read that failed: the next round must not wait for them."""
READ_AGAIN_S = 3_600.0
"""What was acknowledged longer ago is not asked for again: retention may have removed it."""
NOT_OURS = (
    errors.Unauthenticated, errors.Forbidden, errors.NotFound, errors.Throttled, errors.InvalidRequest,
    errors.LimitExceeded, errors.ConfigurationError, errors.Closed, errors.BufferFull,
)  # fmt: skip
"""What the prober's own set-up causes: it says nothing about the service, and is logged."""
_log = logging.getLogger(__name__)
Note = Callable[[str, bool], None]
"""Called with the operation and whether it was good."""
Report = Callable[[str, str, str], None]
"""Called with the operation of every probe, what came of it, and the error."""


class Probe:
    """One client's view of each partition of a topic."""

    def __init__(
        self, client: Client, topic: str, note: Note, within_s: float = WITHIN_S, *, report: Report
    ) -> None:
        self._client = client
        self._topic = topic
        self._note = note
        self._within_s = within_s
        self._report = report
        self._producer = client.producer(
            acks="all", delivery_timeout_ms=within_s * 1_000, max_block_ms=within_s * 1_000
        )
        self._consumer = client.consumer()
        self._partitions: list[int] = []
        self._last: dict[int, tuple[int, float]] = {}
        """The newest offset of each partition that was acknowledged to this probe, and when, in monotonic seconds."""

    def round(self) -> None:
        """Produce to each partition, and read from each what was acknowledged last. What was never acknowledged is not
        asked for.
        """
        if not self._partitions and not self._find():
            return
        sent = []
        for partition in self._partitions:
            try:
                sent.append((partition, self._producer.send(self._topic, b"probe", partition=partition)))
            except PenstockError as error:
                self._failed(PRODUCE, error)
        for partition, delivery in sent:
            try:
                self._last[partition] = (delivery.result(self._within_s).offset, time.monotonic())
            except PenstockError as error:
                self._failed(PRODUCE, error)
            else:
                self._went_well(PRODUCE)
        self._read_last()

    def _read_last(self) -> None:
        oldest = time.monotonic() - READ_AGAIN_S
        self._last = {partition: last for partition, last in self._last.items() if last[1] > oldest}
        for partition, (offset, _) in list(self._last.items()):
            self._read(partition, offset)

    def _find(self) -> bool:
        try:
            found = self._client.topic(self._topic, self._within_s).partitions
        except PenstockError as error:
            self._failed(PRODUCE, error)
            return False
        self._partitions = [one.partition for one in found]
        self._consumer.assign([(self._topic, partition) for partition in self._partitions])
        return True

    def _read(self, partition: int, offset: int) -> None:
        ends = time.monotonic() + self._within_s
        try:
            self._consumer.seek(self._topic, partition, offset=offset, timeout=self._within_s)
            while (left_s := ends - time.monotonic()) > 0:
                messages = self._consumer.poll(timeout=left_s)
                if any((one.partition, one.offset) == (partition, offset) for one in messages):
                    self._went_well(FETCH)
                    return
        except PenstockError as error:
            self._failed(FETCH, error)
        else:
            self._failed(FETCH, errors.TimedOut(f"{self._topic}-{partition}: offset {offset} was not read"))
        if self._is_gone(partition, offset):
            del self._last[partition]

    def _is_gone(self, partition: int, offset: int) -> bool:
        """Whether the log does not have it any more: asked for again it would fail for good."""
        try:
            begins = self._consumer.beginning_offsets(BOUNDS_S)[self._topic, partition]
            end = self._consumer.end_offsets(BOUNDS_S)[self._topic, partition]
        except PenstockError:
            return False
        return not begins <= offset < end

    def _went_well(self, operation: str) -> None:
        self._report(operation, GOOD, "")
        self._note(operation, True)

    def _failed(self, operation: str, error: PenstockError) -> None:
        if isinstance(error, NOT_OURS):
            self._report(operation, NONE, error.message)
            _log.error("the probe says nothing", extra={"operation": operation, "error": error.message})
            return
        self._report(operation, FAILED, error.message)
        _log.warning("a probe failed", extra={"operation": operation, "error": error.message})
        self._note(operation, False)


def main(
    key_file: Path | None, topic: str | None, name: str = "", stop: threading.Event | None = None
) -> None:
    """Probe until SIGTERM. Without a key and a topic those of the service's own tenant. Raises `ConfigurationError`,
    and `BrokerUnavailable` when no topic can be made.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "control_plane.settings")
    import django

    django.setup()
    from django.db import DatabaseError, close_old_connections

    from billing import probe_actions
    from control_plane import config
    from control_plane.brokers.as_tenant import connection_with
    from control_plane.reconciliation import bootstrap

    health = ProberHealth()
    listener = _listener(config.current().prober_listen, health)
    if topic is None or key_file is None:
        key_file, topic = config.current().usage_key_file, bootstrap.PROBE_TOPIC
        bootstrap.make_probe_topic()
    prober = name or socket.gethostname()
    try:
        key = key_file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{key_file}: {error}") from error
    counts = ProbeCounts(probe_actions.known_counts(prober, _minute()))
    settings = connection_with(key)
    ended = stop or threading.Event()

    def write(taken: Mapping[MinuteKey, Counts]) -> bool:
        close_old_connections()
        try:
            probe_actions.write_counts(prober, taken)
        except DatabaseError as error:
            _log.warning("probes are kept until they can be written", extra={"error": str(error)})
            return False
        return True

    said = Said(_minute())

    def note(operation: str, good: bool) -> None:
        counts.note(operation, _minute(), good=good)
        said.note(operation, good=good)

    _log.info("probing", extra={"prober": prober, "topic": topic, "every_s": EVERY_S})
    with Client(bootstrap=settings.bootstrap, api_key=settings.api_key, ca_file=settings.ca_file) as client:
        probe = Probe(client, topic, note, report=health.probed)

        def round_() -> None:
            probe.round()
            health.ended()
            said.say(_minute())

        probing(round_, counts, write, ended, _minute)
    listener.close()
    _log.info("no more probes", extra={"prober": prober, "topic": topic})


def _listener(address: str, health: ProberHealth) -> HttpListener:
    """Open it. Raises `ConfigurationError` when its address cannot be bound."""
    registry = CollectorRegistry()
    hang_ups = HangUps("prober")
    registry.register(HealthCollector(health))
    registry.register(HangUpCollector(hang_ups))
    host, port = split_address(address)
    try:
        # It has no loop beside its rounds.
        listener = HttpListener(
            host,
            port,
            registry,
            hang_ups=hang_ups,
            not_ready=health.not_ready,
            loop_age_s=lambda: 0.0,
            late=health.late,
        )
    except OSError as error:
        raise ConfigurationError(f"prober_listen: {address}: {error.strerror or error}") from error
    _log.info("serving", extra={"address": f"{host}:{listener.port}"})
    return listener


class Said:
    """What came of probes since the last line of the log, which comes at times: a quiet log then shows that none is
    made.
    """

    def __init__(self, minute: int) -> None:
        self._since = minute
        self._good: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()

    def note(self, operation: str, *, good: bool) -> None:
        (self._good if good else self._failed)[operation] += 1

    def say(self, minute: int) -> None:
        if minute < self._since + SAID_EVERY_MINUTES:
            return
        _log.info(
            "probed",
            extra={
                "minutes": minute - self._since,
                **{f"{operation}_good": self._good[operation] for operation in (PRODUCE, FETCH)},
                **{f"{operation}_failed": self._failed[operation] for operation in (PRODUCE, FETCH)},
            },
        )
        self._since = minute
        self._good.clear()
        self._failed.clear()


def probing(
    probe: Callable[[], None],
    counts: ProbeCounts,
    write: Callable[[Mapping[MinuteKey, Counts]], bool],
    ended: threading.Event,
    minute: Callable[[], int],
    every_s: float = EVERY_S,
) -> None:
    """Probe and write until it has ended. What could not be written is written with the next round's."""
    while not ended.is_set():
        began = time.monotonic()
        probe()
        taken = counts.to_write()
        if write(taken):
            counts.written(taken, minute())
        ended.wait(max(0.0, every_s - (time.monotonic() - began)))


def _minute() -> int:
    return int(time.time()) // 60


def run(key_file: Path | None, topic: str | None, name: str) -> None:
    """As a process: its log, and its end with SIGTERM and Ctrl-C."""
    import signal

    from control_plane import logs
    from penstock.cli.exit_codes import ProcessEnd

    logs.set_up("prober")
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        main(key_file, topic, name, ended)
    except (ConfigurationError, BrokerUnavailable) as error:
        print(f"penstock: {error.message}", file=sys.stderr)
        sys.exit(ProcessEnd.CANNOT_START)
