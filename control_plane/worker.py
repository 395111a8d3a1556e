"""The worker process: Celery with its schedule, and a listener that says how it is."""

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from control_plane import config, logs
from control_plane.worker_children import Children, children_of, moments
from daemon.hang_ups import HangUpCollector, HangUps
from daemon.http_listener import HttpListener
from penstock.cli.exit_codes import ProcessEnd
from penstock.contract.errors import ConfigurationError
from penstock.rules.addresses import split_address

if TYPE_CHECKING:
    from control_plane.audit_topics.models import AuditTopic
    from control_plane.audit_topics.sending import Sender
    from control_plane.couriers.couriers import Couriers
    from control_plane.webhooks.models import Webhook

_TURN_S = 1.0
_STARTING_S = 120.0
"""Before its loop turns for the first time, a worker imports and forks: it is healthy for so long."""
_CHILDREN_S = 1.0
"""Between two looks at what it forked."""
_LOOK_S = 2.0
"""Between two looks at the database for /metrics, whatever number of scrapers asks."""
_LEVELS_S = 10.0
"""The same for levels of all tenants."""
_PARENT_S = 0.5
"""Between two looks of a forked process at its parent."""
_log = logging.getLogger(__name__)
registry = CollectorRegistry()
_hang_ups = HangUps("worker")
registry.register(HangUpCollector(_hang_ups))
_tasks = Counter(
    "penstock_worker_tasks",
    "Number of tasks that this worker received, by name; of the tasks of the schedule each is received by one worker.",
    ["task"],
    registry=registry,
)
_attempts = Counter(
    "penstock_webhook_attempts",
    "Number of attempts of this worker to deliver to webhooks, by outcome: delivered; refused, with another status;"
    " unanswered; outdated, when the webhook was changed meanwhile.",
    ["outcome"],
    registry=registry,
)
GAUGES = {
    "worker_ready": "1 while this worker takes tasks, 0 while it starts or stops.",
    "worker_keeps_schedule": "1 if this worker held the lease of the schedule last; of all workers one does.",
    "pepper_oldest_age_seconds": "Age of the oldest pepper that some key needs; NaN while its file cannot be found.",
    "worker_last_sweep_seconds": "When a worker last swept the outbox, in seconds since 1970; 0 before the first time.",
}
LEVELS_OF = {
    "audit_topic_lag_entries": (
        "Entries of a tenant's audit log that its topic __audit does not have yet, where it is switched on.",
        "tenant",
    ),
    "webhook_lag_events": (
        "Events behind the position of the webhook of the tenant that is furthest behind, whatever it takes of "
        "them; of webhooks that are on.",
        "tenant",
    ),
    "schedule_task_well_seconds": (
        "When a task of the schedule went well last, on any worker, in seconds since 1970; 0 if it never did.",
        "task",
    ),
    "webhooks_off": ("Webhooks that are switched off, by reason: asked, gone, failing.", "reason"),
}
"""Levels of the database with one label: what they say, and the label."""
_PREFIX = "penstock_"


class Worker:
    """What the listener reports of this process. `not_ready` and `gauges` are called on the listener's threads."""

    def __init__(self, began: float | None = None) -> None:
        """`began` is when, in seconds since 1970; None is now."""
        self.state = "starting"
        self._pid = os.getpid()
        self._began = time.time() if began is None else began
        self._children: Children | None = None
        self._is_connected: Callable[[], bool] = lambda: True
        self._turned = time.monotonic() + _STARTING_S
        self._listener: HttpListener | None = None
        self._looking = threading.Lock()
        self._seen: tuple[float, dict[str, float] | None] | None = None
        self._levels: tuple[float, dict[str, dict[str, float]]] | None = None
        self._webhooks: Couriers[Webhook] | None = None
        self._audit_topics: Couriers[AuditTopic] | None = None
        self._sender: Sender | None = None

    def serve(self) -> None:
        """Open the listener. Raises `OSError` when its address cannot be bound."""
        host, port = split_address(config.current().worker_listen)
        self._listener = HttpListener(
            host,
            port,
            registry,
            hang_ups=_hang_ups,
            not_ready=self.not_ready,
            loop_age_s=self.loop_age_s,
            late=self.late,
        )
        _log.info("serving", extra={"address": f"{host}:{self._listener.port}"})

    def leave_to_parent(self) -> None:
        """In a process that the worker forked: the listener's socket is the worker's alone."""
        if self._listener is not None:
            self._listener.abandon()
            self._listener = None

    def end_with_parent(self) -> None:
        """In a process that the worker forked: it would go on when the worker is killed, and no stop would reach it."""
        threading.Thread(target=_end_with, args=(self._pid,), name="parent", daemon=True).start()

    def start_couriers(self) -> None:
        """For webhooks and for topics with audit logs, on threads of this process."""
        from control_plane.audit_topics.line import AuditTopicLine
        from control_plane.audit_topics.sending import Sender
        from control_plane.couriers.couriers import Couriers
        from control_plane.webhooks.line import WebhookLine

        configured = config.current()
        ca_file = None if configured.webhooks is None else configured.webhooks.ca_file
        self._webhooks = Couriers(
            WebhookLine(allowed=configured.webhook_networks, ca_file=ca_file, count=count_attempt)
        )
        self._sender = Sender()
        self._audit_topics = Couriers(AuditTopicLine(self._sender), per_tenant=1)
        self._webhooks.start()
        self._audit_topics.start()

    def stop_couriers(self) -> None:
        """Hand out nothing more. Attempts under way have a moment; what is not written down comes again."""
        for couriers in (self._webhooks, self._audit_topics):
            if couriers is not None:
                couriers.stop(_TURN_S)
        if self._sender is not None:
            self._sender.close()

    def turn(self) -> None:
        """Show that the worker's loop turns."""
        self._turned = time.monotonic()

    def loop_age_s(self) -> float:
        """Seconds since the loop turned last. It does not turn while Celery waits for a transport that is away, and no
        start helps then: couriers go on, and /readyz says what is late.
        """
        if self._is_connected():
            return max(0.0, time.monotonic() - self._turned)
        self.turn()
        return 0.0

    def follow(self, is_connected: Callable[[], bool]) -> None:
        """`is_connected` says whether the transport of tasks is there."""
        self._is_connected = is_connected

    def look_after(self, children: Children) -> None:
        """End this process when it has lost one that it forked and cannot do without: its supervisor starts it again,
        whole. Called once it is ready; looks on a thread.
        """
        self._children = children
        threading.Thread(target=self._look_after, args=(children,), name="children", daemon=True).start()

    def _look_after(self, children: Children) -> None:
        while self.state == "ready":
            lost = children.lost()
            if lost and self.state == "ready":
                _log.critical("this worker ends, to be started again", extra={"reason": lost})
                _on_a_thread(_give_up_schedule)
                logging.shutdown()
                os._exit(ProcessEnd.FAILED)
            time.sleep(_CHILDREN_S)

    def late(self) -> Mapping[str, str]:
        """What of this worker stands still, with the reason; a start of the whole worker helps."""
        return {} if self._children is None else self._children.late()

    def not_ready(self) -> str:
        """Why this worker delivers nothing, or which tasks of the schedule are late; empty when all is done in time."""
        if self.state != "ready":
            return self.state
        from django.db import Error

        from control_plane.processes.queries import FRESH_S

        try:
            found = self.gauges()
            late = self.late_tasks()
        except Error as error:
            return f"database: {type(error).__name__}"
        age_s = time.time() - found["worker_last_sweep_seconds"]
        if age_s > FRESH_S:
            return f"no worker swept the outbox for {age_s:.0f} s"
        return "; ".join(f"{task} {reason}" for task, reason in sorted(late.items()))

    def late_tasks(self) -> dict[str, str]:
        """Tasks of the schedule that no worker did in time since this one began. Raises what the database raises."""
        from django.db import connection

        from control_plane.celery import SCHEDULED
        from control_plane.processes import queries

        try:
            return queries.late_tasks(SCHEDULED, time.time(), since=self._began)
        finally:
            connection.close()  # each request comes on a thread of its own

    def gauges(self) -> dict[str, float]:
        """The levels that the database knows, by name. Raises what the database raises."""
        from django.db import connection

        from control_plane import schedule
        from control_plane.processes import holder, queries
        from tenants.key_use import peppers

        try:
            try:
                pepper_age_s = peppers.oldest_age_s()
            except OSError:
                pepper_age_s = math.nan
            last = queries.last_beat()
            keeper = queries.holder_of(schedule.LEASE)
        finally:
            connection.close()  # each request comes on a thread of its own
        return {
            "worker_keeps_schedule": float(keeper == holder.own_id()),
            "pepper_oldest_age_seconds": pepper_age_s,
            "worker_last_sweep_seconds": 0.0 if last is None else last.at.timestamp(),
        }

    def exported(self) -> dict[str, float]:
        """The levels for /metrics, a few seconds old at most. While the database is away, what needs no database.

        Neither is it asked while the worker starts: the worker forks then, and what a thread of it holds meanwhile, as
        the lock of a module that it imports, stays locked in the forked process.
        """
        if self.state == "starting":
            return self._own_levels()
        with self._looking:
            if self._seen is None or time.monotonic() - self._seen[0] > _LOOK_S:
                self._seen = time.monotonic(), self._look()
            found = self._seen[1]
        return (found or {}) | self._own_levels()

    def exported_levels(self) -> dict[str, dict[str, float]]:
        """The levels with a label, by name and label, some seconds old. None while the worker starts, and while the
        database was away when `exported` looked last.
        """
        from django.db import Error

        with self._looking:
            if self._seen is None or self._seen[1] is None:
                return {}
            if self._levels is None or time.monotonic() - self._levels[0] > _LEVELS_S:
                try:
                    found = self.levels()
                except Error:
                    found = {}
                self._levels = time.monotonic(), found
            return self._levels[1]

    def levels(self) -> dict[str, dict[str, float]]:
        """The same, as the database has them now. Raises what the database raises."""
        from django.db import connection

        from control_plane.audit_topics import queries as audit_topics
        from control_plane.celery import SCHEDULED
        from control_plane.processes import queries as processes
        from control_plane.webhooks import queries as webhooks

        try:
            return {
                "schedule_task_well_seconds": processes.well_at(SCHEDULED),
                "audit_topic_lag_entries": {of: float(lag) for of, lag in audit_topics.lags().items()},
                "webhook_lag_events": {of: float(lag) for of, lag in webhooks.lags().items()},
                "webhooks_off": {of: float(count) for of, count in webhooks.switched_off().items()},
            }
        finally:
            connection.close()  # each request comes on a thread of its own

    def _own_levels(self) -> dict[str, float]:
        return {"worker_ready": float(self.state == "ready")}

    def _look(self) -> dict[str, float] | None:
        """None while the database is away."""
        from django.db import Error

        try:
            return self.gauges()
        except Error:
            return None

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None


def _be_called(name: str) -> None:
    """What `ps -o comm` and the kernel's log call this process: all that a worker forked have one command line."""
    try:
        Path("/proc/self/comm").write_text(name, encoding="ascii")
    except OSError:
        pass  # a name is no reason to end


def _end_with(parent: int) -> None:
    """End this process, as by SIGKILL, when its parent has ended: it has another parent then.

    No file descriptor is watched: Celery closes all of them by their numbers in the process of its schedule.
    """
    while os.getppid() == parent:
        time.sleep(_PARENT_S)
    os._exit(1)


class _Gauges(Collector):
    """The worker's levels."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def describe(self) -> Iterator[Metric]:
        for name, said in GAUGES.items():
            yield GaugeMetricFamily(_PREFIX + name, said)
        for name, (said, label) in LEVELS_OF.items():
            yield GaugeMetricFamily(_PREFIX + name, said, labels=(label,))

    def collect(self) -> Iterator[Metric]:
        for name, value in self._worker.exported().items():
            yield GaugeMetricFamily(_PREFIX + name, GAUGES[name], value=value)
        for name, levels in self._worker.exported_levels().items():
            said, label = LEVELS_OF[name]
            family = GaugeMetricFamily(_PREFIX + name, said, labels=(label,))
            for of, level in levels.items():
                family.add_metric((of,), level)
            yield family


def count_attempt(outcome: str) -> None:
    """One attempt of a courier to deliver to a webhook: delivered, refused, unanswered or outdated."""
    _attempts.labels(outcome).inc()


def main() -> int:
    """Serve until SIGTERM, and then finish the tasks that have begun. Returns what to exit with."""
    logs.set_up("worker")
    try:
        worker = _connected()
        from control_plane.celery import app

        worker.serve()
    except ConfigurationError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return ProcessEnd.CANNOT_START
    except OSError as error:
        address = config.current().worker_listen
        print(f"penstock: worker_listen: {address}: {error.strerror or error}", file=sys.stderr)
        return ProcessEnd.CANNOT_START
    try:
        # No talk between workers: it would only fill the embedded transport.
        app.worker_main(
            [
                *("worker", "--beat", "--loglevel", "INFO", "--hostname", f"worker-{_suffix()}@%h"),
                *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            ]
        )
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else ProcessEnd.ABORTED
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
        worker.start_couriers()
        worker.follow(lambda: sender.connection is not None)
        worker.look_after(children_of(sender.controller))

    def stopping(**_: Any) -> None:
        from control_plane.processes import actions

        worker.state = "stopping"
        worker.stop_couriers()
        _on_a_thread(actions.say_stopping)

    def stopped(**_: Any) -> None:
        _on_a_thread(_give_up_schedule)

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
        # In the processes of the pool.
        (signals.task_prerun, lambda **_: moments.task.note()),
        (signals.task_postrun, lambda **_: moments.task.note()),
        (signals.worker_process_init, lambda **_: worker.leave_to_parent()),
        (signals.worker_process_init, lambda **_: worker.end_with_parent()),
        (signals.worker_process_init, lambda **_: _be_called("pool")),
        # Celery has closed the listener's socket there.
        (signals.beat_embedded_init, lambda **_: worker.end_with_parent()),
        (signals.beat_embedded_init, lambda **_: _be_called("scheduler")),
    ):
        signal.connect(handler, weak=False)
    return worker


def _give_up_schedule() -> None:
    """Leave the schedule to another worker at once, also where the scheduler itself is gone."""
    from control_plane import schedule
    from control_plane.processes import actions

    actions.lease(schedule.LEASE, schedule.LENGTH_S).release(actions.execute)


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
