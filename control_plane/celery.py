"""The Celery application: wake-ups of the outbox, and periodic tasks."""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from celery import Celery, signals

from control_plane import config, logs, wake_up_files
from daemon import server_tls
from daemon.server_tls import ServerTls
from penstock.contract.errors import ConfigurationError

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "control_plane.settings")

SWEEP_S = 2.0
PLACEMENT_S = 1.0
BALANCE_S = 10.0
PAYMENTS_S = 5.0
PAYMENTS_RECONCILED_S = 60.0
BILLING_S = 3.0
CHECKPOINT_S = 10.0
MAIL_S = 5.0
KEY_USE_S = 60.0
BUDGETS_S = 5.0
CLOSED_S = 10.0
BINS_S = 30.0
AUDIT_S = 20.0
ACCESS_REPORTS_S = 60.0
TASKS_A_CONNECTION = 1_000
POLL_S = 0.1
"""How often the embedded transport looks for messages."""


def transport(url: str, tls: ServerTls | None = None) -> dict[str, Any]:
    """Celery's settings of the transport at `url`. The embedded one keeps its messages as files."""
    parts = urlsplit(url)
    if parts.scheme == "filesystem":
        folder = parts.path
        os.makedirs(f"{folder}/messages", exist_ok=True)
        return {
            "broker_url": f"{wake_up_files.NAME}://localhost//",
            "broker_transport_options": {
                "data_folder_in": f"{folder}/messages",
                "data_folder_out": f"{folder}/messages",
                "control_folder": f"{folder}/control",
                "polling_interval": POLL_S,
            },
        }
    if parts.scheme in (server_tls.REDIS, server_tls.REDIS_OVER_TLS):
        return {
            "broker_url": url,
            # Without it Celery would take rediss:// without a check.
            **({} if tls is None else {"broker_use_ssl": server_tls.of_redis(tls)}),
            # A request must not wait for a Redis that does not answer: the sweep delivers without a wake-up.
            "broker_transport_options": {
                "socket_timeout": 2,
                "socket_connect_timeout": 1,
                "max_retries": 1,
                "interval_start": 0,
                "interval_step": 0.1,
                "interval_max": 0.1,
            },
        }
    raise ConfigurationError(
        f"celery_broker_url: scheme {parts.scheme!r}; {' or '.join(config.TRANSPORTS.values())} required"
    )


app = Celery("penstock")
app.conf.update(
    **transport(config.current().celery_broker_url, config.current().redis_tls),
    task_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    task_default_queue="penstock",
    task_create_missing_queues=True,
    worker_concurrency=2,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    # Nothing asks workers anything by Celery: a queue less to look into.
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
    timezone="UTC",
    enable_utc=True,
    beat_scheduler="control_plane.schedule:LeasedScheduler",
    # A wake-up that waited longer than its interval is dropped: the next one does its work.
    beat_schedule={
        "sweep": {"task": "outbox.sweep", "schedule": SWEEP_S, "options": {"expires": SWEEP_S * 2}},
        "reconcile": {
            "task": "cluster.reconcile",
            "schedule": float(config.current().reconcile_interval_s),
            "options": {"expires": float(config.current().reconcile_interval_s)},
        },
        "placement": {
            "task": "placement.drive",
            "schedule": PLACEMENT_S,
            "options": {"expires": PLACEMENT_S * 2},
        },
        "balance": {
            "task": "placement.balance",
            "schedule": BALANCE_S,
            "options": {"expires": BALANCE_S * 2},
        },
        "billing": {"task": "billing.bill_run", "schedule": BILLING_S, "options": {"expires": BILLING_S * 2}},
        "payments": {
            "task": "payments.round",
            "schedule": PAYMENTS_S,
            "options": {"expires": PAYMENTS_S * 2},
        },
        "payments-reconciled": {
            "task": "payments.reconcile",
            "schedule": PAYMENTS_RECONCILED_S,
            "options": {"expires": PAYMENTS_RECONCILED_S},
        },
        "closed": {
            "task": "cluster.drive_closed",
            "schedule": CLOSED_S,
            "options": {"expires": CLOSED_S * 2},
        },
        "bins": {
            "task": "cluster.empty_bins",
            "schedule": BINS_S,
            "options": {"expires": BINS_S * 2},
        },
        "key-use": {
            "task": "cluster.note_key_use",
            "schedule": KEY_USE_S,
            "options": {"expires": KEY_USE_S},
        },
        "budgets": {
            "task": "cluster.note_budgets",
            "schedule": BUDGETS_S,
            "options": {"expires": BUDGETS_S * 2},
        },
        "access-reports": {
            "task": "access_reports.make",
            "schedule": ACCESS_REPORTS_S,
            "options": {"expires": ACCESS_REPORTS_S},
        },
        "audit": {"task": "audit.chain", "schedule": AUDIT_S, "options": {"expires": AUDIT_S * 2}},
        "mail": {"task": "mail.send", "schedule": MAIL_S, "options": {"expires": MAIL_S * 2}},
        "checkpoint": {
            "task": "database.checkpoint",
            "schedule": CHECKPOINT_S,
            "options": {"expires": CHECKPOINT_S},
        },
    },
)
# Celery closes the database around each task unless it may be used for some. Django looks at the connection instead,
# as it does before each request: whether it is broken, and whether it is too old.
app.conf["CELERY_DB_REUSE_MAX"] = TASKS_A_CONNECTION
app.autodiscover_tasks()
SCHEDULED: Mapping[str, float] = {
    entry["task"]: entry["schedule"] for entry in app.conf.beat_schedule.values()
}
"""Tasks of the schedule, and their intervals in seconds."""


@signals.task_prerun.connect
def _look_at_the_database(task: Any = None, **_: Any) -> None:
    from django.db import close_old_connections  # Django is set up by the worker, after this module

    if not getattr(getattr(task, "request", None), "is_eager", False):
        close_old_connections()


@signals.task_success.connect
def _note_success(sender: Any = None, **_: Any) -> None:
    _note(sender, "")


@signals.task_failure.connect
def _note_failure(sender: Any = None, exception: BaseException | None = None, **_: Any) -> None:
    _note(sender, f"{type(exception).__name__}: {exception}")


def _note(task: Any, error: str) -> None:
    """What came of a round of the schedule."""
    if task is None or task.name not in SCHEDULED or task.request.is_eager:
        return
    from control_plane.processes.task_notes import notes

    notes.note(task.name, SCHEDULED[task.name], error)


@signals.beat_embedded_init.connect
def _leave_the_database_to_the_parent(**_: Any) -> None:
    from django.db import connections

    connections.close_all()


@signals.setup_logging.connect
def _set_up_logging(**_: Any) -> None:
    logs.set_up("worker")
