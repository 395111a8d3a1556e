"""Health of the control plane: /healthz (this process answers) and /readyz (each dependency, by name)."""

import shutil
import time
from pathlib import Path

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse

from control_plane import config, server_checks
from control_plane.brokers import client as brokers
from control_plane.celery import SCHEDULED
from control_plane.processes import queries as processes
from penstock.contract.errors import PenstockError
from penstock.contract.limits import MIB

FREE_BYTES_MIN = 16 * MIB
"""Free space on the embedded database's disk: its log grows by some MiB between two checkpoints."""
_BROKERS_S = 2.0
BEGAN = time.time()
"""When this process began, in seconds since 1970: after a night in which nothing ran, no task is late yet."""


def healthz(request: HttpRequest) -> JsonResponse:
    """GET /healthz."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> JsonResponse:
    """GET /readyz: 200 if every check is ok, else 503; `checks` says what is wrong with each. `warnings`, if there are
    some, name tasks of the schedule that are late: requests are answered all the same.
    """
    checks = {"database": _database(), "worker": _worker(), "brokers": _brokers()}
    ready = all(check == "ok" for check in checks.values())
    body: dict[str, object] = {"status": "ready" if ready else "not ready", "checks": checks}
    if warnings := _late_tasks():
        body["warnings"] = warnings
    answer = JsonResponse(body, status=200 if ready else 503)
    # Django would log each 503 as a fault.
    answer._has_been_logged = True  # type: ignore[attr-defined]
    return answer


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM tenants_tenant LIMIT 1")
    except DatabaseError as error:
        said = server_checks.database_failure(config.current())
        return f"failed: {said or type(error).__name__}"
    if connection.vendor == "sqlite":
        free = shutil.disk_usage(Path(connection.settings_dict["NAME"]).parent).free
        if free < FREE_BYTES_MIN:
            return f"the disk has {free} bytes free, {FREE_BYTES_MIN} required: changes fail"
    return "ok"


def _worker() -> str:
    try:
        last = processes.last_beat()
    except DatabaseError as error:
        return f"unknown: {type(error).__name__}"
    if last is None:
        return "no heartbeat yet"
    age_s = time.time() - last.at.timestamp()
    if age_s > processes.FRESH_S:
        return f"no heartbeat for {age_s:.0f} s: changes wait until a worker runs"
    if last.state != "ready":
        return f"{last.state}, last heartbeat {age_s:.0f} s ago"
    return "ok"


def _late_tasks() -> dict[str, str]:
    try:
        return processes.late_tasks(SCHEDULED, time.time(), since=BEGAN)
    except DatabaseError:
        return {}  # the check of the database says so


def _brokers() -> str:
    try:
        seen = brokers.describe(timeout_s=_BROKERS_S)
    except PenstockError as error:
        return f"failed: {error.message[:200]}"
    active = sum(broker.state == "active" for broker in seen.brokers)
    return "ok" if active else "no broker is active"
