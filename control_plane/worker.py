"""The worker process: Celery with its schedule, and a listener that says how it is."""

import logging
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from control_plane import config, logs
from daemon.http_listener import HttpListener
from penstock.contract.errors import ConfigurationError
from penstock.rules.addresses import split_address

if TYPE_CHECKING:
    from control_plane.webhooks.couriers import Couriers

_TURN_S = 1.0
_log = logging.getLogger(__name__)
registry = CollectorRegistry()
_tasks = Counter(
    "penstock_worker_tasks",
    "Number of tasks that this worker received, by name; of the tasks of the schedule each is received by one worker.",
    ["task"],
    registry=registry,
)
GAUGES = {
    "worker_ready": "1 while this worker takes tasks, 0 while it starts or stops.",
    "worker_keeps_schedule": "1 if this worker held the lease of the schedule last; of all workers one does.",
    "worker_last_sweep_seconds": "When a worker last swept the outbox, in seconds since 1970; 0 before the first time.",
}
_PREFIX = "penstock_"


class Worker:
    """What the listener reports of this process. `not_ready` and `gauges` are called on the listener's threads."""

    def __init__(self) -> None:
        self.state = "starting"
        self._turned = time.monotonic()
        self._listener: HttpListener | None = None
        self._couriers: Couriers | None = None

    def serve(self) -> None:
        """Open the listener. Raises `OSError` when its address cannot be bound."""
        host, port = split_address(config.current().worker_listen)
        self._listener = HttpListener(
            host, port, registry, not_ready=self.not_ready, loop_age_s=lambda: time.monotonic() - self._turned
        )
        _log.info("serving", extra={"address": f"{host}:{self._listener.port}"})

    def leave_to_parent(self) -> None:
        """In a process that the worker forked: the listener's socket is the worker's alone."""
        if self._listener is not None:
            self._listener.abandon()
            self._listener = None

    def deliver_webhooks(self) -> None:
        """Start the couriers, on threads of this process."""
        from control_plane.webhooks.couriers import Couriers

        configured = config.current()
        ca_file = None if configured.webhooks is None else configured.webhooks.ca_file
        self._couriers = Couriers(allowed=configured.webhook_networks, ca_file=ca_file)
        self._couriers.start()

    def stop_webhooks(self) -> None:
        """Hand out nothing more. Attempts under way have a moment; what is not written down comes again."""
        if self._couriers is not None:
            self._couriers.stop(_TURN_S)

    def turn(self) -> None:
        """Show that the worker's loop turns."""
        self._turned = time.monotonic()

    def not_ready(self) -> str:
        """Why this worker delivers nothing; empty when it does."""
        if self.state != "ready":
            return self.state
        from django.db import Error

        try:
            found = self.gauges()
        except Error as error:
            return f"database: {type(error).__name__}"
        age_s = time.time() - found["worker_last_sweep_seconds"]
        from control_plane.processes.queries import FRESH_S

        return f"no worker swept the outbox for {age_s:.0f} s" if age_s > FRESH_S else ""

    def gauges(self) -> dict[str, float]:
        """The levels, by name. Raises what the database raises."""
        from django.db import connection

        from control_plane import schedule
        from control_plane.processes import holder, queries

        try:
            last = queries.last_beat()
            keeper = queries.holder_of(schedule.LEASE)
        finally:
            connection.close()  # each request comes on a thread of its own
        return {
            "worker_ready": float(self.state == "ready"),
            "worker_keeps_schedule": float(keeper == holder.own_id()),
            "worker_last_sweep_seconds": 0.0 if last is None else last.at.timestamp(),
        }

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None


class _Gauges(Collector):
    """The worker's levels. While the database is away, those that need no database."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def describe(self) -> Iterator[Metric]:
        for name, said in GAUGES.items():
            yield GaugeMetricFamily(_PREFIX + name, said)

    def collect(self) -> Iterator[Metric]:
        from django.db import Error

        try:
            found = self._worker.gauges()
        except Error:
            found = {"worker_ready": float(self._worker.state == "ready")}
        for name, value in found.items():
            yield GaugeMetricFamily(_PREFIX + name, GAUGES[name], value=value)


def main() -> int:
    """Serve until SIGTERM, and then finish the tasks that have begun. Exit status 1 when it cannot start."""
    logs.set_up("worker")
    try:
        worker = _connected()
        from control_plane.celery import app

        worker.serve()
    except ConfigurationError as error:
        sys.exit(f"penstock: {error}")
    except OSError as error:
        sys.exit(f"penstock: worker_listen: {error.strerror}")
    try:
        # No talk between workers: it would only fill the embedded transport.
        app.worker_main(
            [
                *("worker", "--beat", "--loglevel", "INFO", "--hostname", f"worker-{_suffix()}@%h"),
                *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            ]
        )
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    finally:
        worker.stop()
    return 0


def _suffix() -> str:
    from control_plane.processes import holder

    return holder.own_id()[:8]


def _connected() -> Worker:
    """The worker's state, which follows Celery's signals."""
    from celery import signals

    worker = Worker()
    registry.register(_Gauges(worker))

    def ready(sender: Any, **_: Any) -> None:
        from control_plane.processes import actions

        worker.state = "ready"
        worker.turn()
        sender.timer.call_repeatedly(_TURN_S, worker.turn)
        _on_a_thread(lambda: actions.beat("ready"))
        worker.deliver_webhooks()

    def stopping(**_: Any) -> None:
        from control_plane.processes import actions

        worker.state = "stopping"
        worker.stop_webhooks()
        _on_a_thread(actions.say_stopping)

    def stopped(**_: Any) -> None:
        from control_plane import schedule
        from control_plane.processes import actions

        lease = actions.lease(schedule.LEASE, schedule.LENGTH_S)
        _on_a_thread(lambda: lease.release(actions.execute))

    def begin(**_: Any) -> None:
        from control_plane import server_checks

        server_checks.log_failures(config.current())

    def received(request: Any, **_: Any) -> None:
        _tasks.labels(request.name).inc()

    for signal, handler in (
        (signals.worker_init, begin),
        (signals.worker_ready, ready),
        (signals.worker_shutting_down, stopping),
        (signals.worker_shutdown, stopped),
        (signals.task_received, received),
        (signals.worker_process_init, lambda **_: worker.leave_to_parent()),
        (signals.beat_embedded_init, lambda **_: worker.leave_to_parent()),
    ):
        signal.connect(handler, weak=False)
    return worker


def _on_a_thread(write: Any) -> None:
    """Write to the database without keeping the worker from its work: the database may be away."""

    def run() -> None:
        from django.db import Error, connection

        try:
            write()
        except Error as error:
            _log.warning("the database does not know of it", extra={"error": str(error)})
        finally:
            connection.close()

    thread = threading.Thread(target=run, name="heartbeat", daemon=True)
    thread.start()
    thread.join(_TURN_S)
