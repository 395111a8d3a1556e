"""Metrics of the web process: requests, the outbox, and metrics that other apps add.

They tell what tenants owe and do, so they are not among the addresses that everyone reaches: the process's operators'
listener serves them (`web_metrics_listen`).
"""

import math
import threading
from collections.abc import Callable, Iterable

from django.utils import timezone
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from control_plane.api.database_readings import DatabaseReadings
from control_plane.outbox import queries as outbox
from control_plane.processes import setbacks

_FRESH_S = 5.0
"""Several scrapers share one reading."""
_WAIT_S = 2.0
"""Far below what scrapers wait for an answer."""
LIMIT_PAIRS_MAX = 2_000
_pairs: set[tuple[str, str]] = set()
_pairs_lock = threading.Lock()
_before: list[Callable[[], None]] = []
_readings: list[Callable[[], None]] = []
registry = CollectorRegistry()
_requests = Counter(
    "penstock_http_requests",
    "Number of HTTP requests that were answered.",
    ["method", "route", "status"],
    registry=registry,
)
_seconds = Histogram(
    "penstock_http_request_seconds",
    "Seconds from an HTTP request to its answer.",
    ["method", "route"],
    registry=registry,
)
_limits = Counter(
    "penstock_http_limit_refusals",
    "Number of REST calls that were refused because of a limit, by tenant (empty: of no tenant, or not counted apart)"
    " and limit.",
    ["tenant", "limit"],
    registry=registry,
)
_waiting = Gauge(
    "penstock_outbox_waiting", "Number of changes that the brokers still have to get.", registry=registry
)
_oldest = Gauge(
    "penstock_outbox_oldest_seconds",
    "Age in seconds of the oldest change that the brokers still have to get, 0 when there is none.",
    registry=registry,
)
_age = Gauge(
    "penstock_database_reading_seconds",
    "Age in seconds of what the database said, of which outbox, drafts and price book are; infinite before it said "
    "anything, when their values are no numbers.",
    registry=registry,
)
_set_back = Gauge(
    "penstock_rounds_set_back",
    "Number of objects that failed in the last attempt of this round and rest until the next one; the log says why.",
    ["round"],
    registry=registry,
)
for _unknown in (_waiting, _oldest):
    _unknown.set(math.nan)


def count(method: str, route: str, status: int, took_s: float) -> None:
    """A request was answered. `route` is the address's pattern, so that their number is bounded."""
    known = method if method in ("GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS") else "other"
    _requests.labels(known, route, str(status)).inc()
    _seconds.labels(known, route).observe(took_s)


def count_limit(tenant: str, limit: str) -> None:
    """A call was refused because of a limit. Tenants beyond the first `LIMIT_PAIRS_MAX` pairs are not counted apart."""
    with _pairs_lock:
        if (tenant, limit) not in _pairs and len(_pairs) >= LIMIT_PAIRS_MAX:
            tenant = ""
        _pairs.add((tenant, limit))
    _limits.labels(tenant, limit).inc()


def before_each(fresh: Callable[[], None]) -> None:
    """`fresh` sets an app's gauges of `registry` before each answer. It asks no database."""
    _before.append(fresh)


def from_database(read: Callable[[], None]) -> None:
    """`read` sets an app's gauges of `registry` from the database, from time to time and on a thread of its own."""
    _readings.append(read)


def _read_all() -> None:
    number, oldest = outbox.waiting()
    _waiting.set(number)
    _oldest.set(0 if oldest is None else (timezone.now() - oldest).total_seconds())
    _set_back.clear()
    for kind, resting in setbacks.counts().items():
        _set_back.labels(kind).set(resting)
    for read in _readings:
        read()


database = DatabaseReadings(_read_all, fresh_s=_FRESH_S, wait_s=_WAIT_S)


class _Fresh(Collector):
    """All of `registry`, after what is looked up for each answer was."""

    def collect(self) -> Iterable[Metric]:
        database.look()
        _age.set(database.age_s)
        for fresh in _before:
            fresh()
        return registry.collect()


exported = CollectorRegistry()
"""What the operators' listener answers with."""
exported.register(_Fresh())
