"""Health, readiness and metrics over HTTP, also while the loop is stuck and while somebody sends garbage."""

import asyncio
import http.client
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from daemon import http_listener
from daemon.hang_ups import MADE_WAY, NO_SPACE, NOT_IN_TIME, HangUpCollector, HangUps
from daemon.http_listener import ANSWERED_MAX, METRICS_MAX, STALL_S, WAITING_OF_ADDRESS_MAX, HttpListener
from data_plane.broker.metrics import StatsCollector
from data_plane.node.stats import Histogram
from tests.floods import HOSTS, SAYINGS, attack
from tests.waiting import PATIENCE_S, wait_until


@dataclass
class Stats:
    produced_batches: int = 3
    streams: int = 2
    sync_ms: Histogram = field(default_factory=Histogram)


class Held(Collector):
    """Keeps a scrape waiting."""

    def __init__(self, hold: Callable[[], threading.Event | None]) -> None:
        self._hold = hold
        self.held = 0
        """How many scrapes were kept."""

    def collect(self) -> Iterable[Metric]:
        hold = self._hold()
        if hold is not None:
            self.held += 1
            assert hold.wait(PATIENCE_S)
        return ()


class Broker:
    """An event loop on a thread of its own, with something to count."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.stats = Stats()
        self.reason = "booting"
        self.age_s = 0.1
        self.late: dict[str, str] = {}
        self.read_on: list[int] = []
        self.hold: threading.Event | None = None
        """While it is not set, metrics wait for it."""
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        registry = CollectorRegistry()
        registry.register(StatsCollector(self.loop, (self.stats,), self._levels, lambda: ()))
        self.hang_ups = HangUps("http")
        registry.register(HangUpCollector(self.hang_ups))
        self.held = Held(lambda: self.hold)
        registry.register(self.held)
        self.http = HttpListener(
            "127.0.0.1",
            0,
            registry,
            hang_ups=self.hang_ups,
            not_ready=lambda: self.reason,
            loop_age_s=lambda: self.age_s,
            late=lambda: self.late,
        )

    def _levels(self) -> dict[str, int]:
        self.read_on.append(threading.get_ident())
        return {"replicas": 7}

    @property
    def loop_thread(self) -> int | None:
        return self._thread.ident

    def end_loop(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
        self.loop.close()

    def get(self, path: str, method: str = "GET") -> tuple[int, bytes, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.http.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.getheader("Content-Type") or ""
        finally:
            connection.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.http.close()
    broker.end_loop()


def test_health_is_whether_the_loop_turns(broker: Broker) -> None:
    assert broker.get("/healthz")[0] == 200
    broker.age_s = STALL_S + 1
    status, body, _ = broker.get("/healthz")
    assert status == 503
    assert json.loads(body) == {"healthy": False, "loop_age_s": 6.0}


def test_health_names_what_stands_still_beside_a_loop_that_turns(broker: Broker) -> None:
    broker.late = {"scheduler": "it has not looked at the schedule for 75 s"}
    status, body, _ = broker.get("/healthz")
    assert status == 503
    assert json.loads(body) == {"healthy": False, "loop_age_s": 0.1, "late": broker.late}
    broker.late = {}
    assert broker.get("/healthz")[0] == 200


def test_readiness_says_what_it_waits_for(broker: Broker) -> None:
    status, body, _ = broker.get("/readyz")
    assert (status, json.loads(body)) == (503, {"ready": False, "reason": "booting"})
    broker.reason = ""
    status, body, _ = broker.get("/readyz")
    assert (status, json.loads(body)) == (200, {"ready": True, "reason": ""})


def test_metrics_are_open_metrics(broker: Broker) -> None:
    broker.stats.sync_ms.observe(0.15)
    broker.stats.sync_ms.observe(0.15)
    broker.stats.sync_ms.observe(99_999.0)
    status, body, kind = broker.get("/metrics")
    assert status == 200
    assert kind.startswith("application/openmetrics-text")
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    assert families["penstock_produced_batches"].type == "counter"
    assert families["penstock_produced_batches"].samples[0].value == 3
    assert families["penstock_streams"].type == "gauge"
    assert families["penstock_replicas"].samples[0].value == 7
    samples = families["penstock_sync_seconds"].samples
    buckets = {s.labels["le"]: s.value for s in samples if s.name.endswith("_bucket")}
    assert (buckets["0.0001"], buckets["0.0002"], buckets["5.0"], buckets["+Inf"]) == (0, 2, 2, 3)
    total = next(s.value for s in samples if s.name.endswith("_sum"))
    assert total == pytest.approx(99.9993)


def test_counters_are_read_on_the_loop_that_owns_them(broker: Broker) -> None:
    broker.get("/metrics")
    assert broker.read_on == [broker.loop_thread]


def test_metrics_of_a_loop_that_has_ended_are_unavailable_and_health_still_answers(broker: Broker) -> None:
    broker.end_loop()
    status, body, _ = broker.get("/metrics")
    assert status == 503
    assert "has ended" in json.loads(body)["error"]
    assert broker.get("/healthz")[0] == 200


@pytest.mark.parametrize(("path", "method", "status"), [("/", "GET", 404), ("/metrics", "POST", 405)])
def test_nothing_else_is_offered(broker: Broker, path: str, method: str, status: int) -> None:
    assert broker.get(path, method)[0] == status


def test_head_is_answered_like_get(broker: Broker) -> None:
    assert broker.get("/healthz", "HEAD")[:2] == (200, b"")


@pytest.mark.parametrize(
    "garbage",
    [
        os.urandom(2_000),
        b"\x16\x03\x01" + bytes(200),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET " + b"x" * 70_000,
        b"",
    ],
    ids=["random", "tls", "http2", "long-line", "nothing"],
)
def test_garbage_harms_nothing(broker: Broker, garbage: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", broker.http.port), timeout=PATIENCE_S) as peer:
            peer.sendall(garbage)
    assert broker.get("/healthz")[0] == 200
    assert capfd.readouterr().err == ""


def test_clients_that_reset_their_connections_after_a_whole_request_stop_no_answer(broker: Broker) -> None:
    at_once = struct.pack("ii", 1, 0)
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", broker.http.port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            connection.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert broker.get("/healthz")[0] == 200


def test_requests_for_which_no_thread_can_be_started_take_nothing_from_later_ones(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", start)
        for _ in range(ANSWERED_MAX + 1):
            with socket.create_connection(("127.0.0.1", broker.http.port), PATIENCE_S) as connection:
                connection.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
                assert connection.recv(1) == b"", "hung up on"
    assert broker.get("/healthz")[0] == 200
    assert broker.hang_ups.counts[NO_SPACE] == ANSWERED_MAX + 1


def test_thirteen_hundred_slow_requests_keep_no_health_check_waiting(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.reason = ""
    slow = []
    try:
        for number in range(1_300):
            peer = socket.socket()
            slow.append(peer)
            peer.bind((f"127.0.2.{1 + number % 5}", 0))
            peer.settimeout(PATIENCE_S)
            peer.connect(("127.0.0.1", broker.http.port))
            peer.sendall(b"GET /rea")
            if number % 100 == 99:
                assert broker.get("/readyz")[0] == 200
        warnings = json.loads(broker.get("/readyz")[1])["warnings"]
        assert "the http listener is short of places" in warnings["http_connections"]
        text = broker.get("/metrics")[1].decode()
    finally:
        for peer in slow:
            peer.close()
    (line,) = [line for line in text.splitlines() if f'reason="{MADE_WAY}"' in line]
    assert float(line.rpartition(" ")[2]) > 1_000
    assert [
        record.__dict__["listener"] for record in caplog.records if record.name == "penstock.connections"
    ] == ["http"]


@pytest.mark.parametrize("hosts", HOSTS.values(), ids=HOSTS.keys())
@pytest.mark.parametrize("saying", SAYINGS)
def test_health_is_answered_whatever_holds_the_other_places(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, saying: str, hosts: tuple[str, ...]
) -> None:
    monkeypatch.setattr(http_listener, "WAITING_MAX", 8)
    monkeypatch.setattr(http_listener, "WAITING_OF_ADDRESS_MAX", 4)
    with attack(("127.0.0.1", broker.http.port), saying, hosts, 20):
        for _ in range(20):
            assert broker.get("/healthz")[0] == 200
        if (
            saying != "the preface of HTTP/2 alone"
        ):  # it is a whole request, which is answered that it is none
            wait_until("some made way", lambda: broker.hang_ups.counts.total() > 0)


def test_one_address_has_half_of_the_places_of_requests_that_are_not_whole(broker: Broker) -> None:
    other = socket.create_connection(("127.0.0.1", broker.http.port), source_address=("127.0.3.1", 0))
    other.sendall(b"GET /healthz HTTP/1.0\r\n")
    slow = [
        socket.create_connection(("127.0.0.1", broker.http.port)) for _ in range(3 * WAITING_OF_ADDRESS_MAX)
    ]
    other.sendall(b"\r\n")
    other.settimeout(PATIENCE_S)
    assert other.recv(100).startswith(b"HTTP/1.0 200")
    for peer in (other, *slow):
        peer.close()


def test_a_request_that_is_not_whole_in_time_is_hung_up_on_however_steadily_it_comes(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listener, "HEADERS_S", 0.3)
    with socket.create_connection(("127.0.0.1", broker.http.port)) as peer:
        peer.settimeout(0.05)
        for _ in range(10_000):
            try:
                peer.sendall(b"x")
                assert peer.recv(1) == b""
                break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            raise AssertionError("it was never hung up on")
    assert broker.hang_ups.counts[NOT_IN_TIME] == 1


def test_health_answers_while_all_that_metrics_may_take_is_taken(broker: Broker) -> None:
    broker.hold = threading.Event()
    scrapers = [threading.Thread(target=broker.get, args=("/metrics",)) for _ in range(METRICS_MAX)]
    for scraper in scrapers:
        scraper.start()
    try:
        wait_until("all are being answered", lambda: broker.held.held == METRICS_MAX)
        status, body, _ = broker.get("/metrics")
        assert (status, b"come again" in body) == (503, True)
        broker.reason = ""
        assert broker.get("/readyz")[0] == 200
    finally:
        broker.hold.set()
        for scraper in scrapers:
            scraper.join(PATIENCE_S)
    assert broker.get("/metrics")[0] == 200


def test_an_address_in_use_is_an_error(broker: Broker) -> None:
    with pytest.raises(OSError, match="in use"):
        HttpListener(
            "127.0.0.1",
            broker.http.port,
            CollectorRegistry(),
            hang_ups=HangUps("http"),
            not_ready=lambda: "",
            loop_age_s=lambda: 0.0,
        )
