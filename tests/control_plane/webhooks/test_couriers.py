"""Couriers as a worker has them: on threads, beside each other, and killed between an answer and its note."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from control_plane import config
from control_plane.couriers import leases
from control_plane.couriers.couriers import REST_S, Couriers
from control_plane.webhooks import actions, queries
from control_plane.webhooks.delivering import Turn
from control_plane.webhooks.line import WebhookLine
from control_plane.webhooks.models import Webhook, WebhookAttempt
from local import guardian
from tests.control_plane import configuration
from tests.control_plane.webhooks.hooked import happen, make, turn, types
from tests.control_plane.world import ACTOR, make_house
from tests.waiting import PATIENCE_S, wait_until
from tests.webhook_receiver import Got, Receiver, Reply, receiver

ROOT = Path(__file__).parents[3]
_WORKER = """
import django, threading
django.setup()
from control_plane import config
from control_plane.couriers.couriers import Couriers
from control_plane.webhooks.line import WebhookLine
configured = config.current()
Couriers(WebhookLine(allowed=configured.webhook_networks, ca_file=configured.webhooks.ca_file), every_s=0.05).start()
print("begun", flush=True)
threading.Event().wait()
"""


def couriers(endpoint: Receiver, **options: int) -> Couriers[Webhook]:
    line = WebhookLine(allowed=config.current().webhook_networks, ca_file=endpoint.ca_file)
    return Couriers(line, every_s=0.05, **options)


@pytest.mark.django_db(transaction=True)
def test_a_slow_endpoint_holds_up_no_other_one(endpoint: Receiver) -> None:
    one, two = make_house("acme").tenant, make_house("other").tenant
    with receiver() as slow:
        slow.script = lambda got: None
        for number in range(4):
            make(one, slow, name=f"slow-{number}")
        _, secret = make(two, endpoint)
        # The other tenant's is the last of the line.
        Webhook.objects.filter(tenant=two).update(due_at=timezone.now())
        running = couriers(endpoint, couriers=3, per_tenant=2)
        running.start()
        try:
            endpoint.wait_for(1)
            happen(two, "topic.create")
            endpoint.wait_for(2)
            assert types(endpoint, secret) == ["audit.webhook.create", "audit.topic.create"]
            assert len(slow.got) <= 2, "two of one tenant at a time"
        finally:
            slow.ended.set()
            running.stop(PATIENCE_S)


@pytest.mark.django_db(transaction=True)
def test_two_workers_send_each_event_once(endpoint: Receiver) -> None:
    tenant = make_house("acme").tenant
    row, secret = make(tenant, endpoint, events=["audit.topic.*"])
    happen(tenant, *[f"topic.n{n}" for n in range(12)])
    both = [couriers(endpoint), couriers(endpoint)]
    for one in both:
        one.start()
    try:
        endpoint.wait_for(12)
        wait_until("all of it noted", lambda: queries.waiting(Webhook.objects.get(pk=row.pk)) == 0)
    finally:
        for one in both:
            one.stop(PATIENCE_S)
    assert types(endpoint, secret) == [f"audit.topic.n{n}" for n in range(12)]


@pytest.mark.django_db(transaction=True)
def test_couriers_that_end_at_once_do_not_make_it_look_without_a_rest(
    endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = couriers(endpoint)
    looks: list[float] = []

    def look() -> None:
        looks.append(time.monotonic())
        running._wake.set()

    monkeypatch.setattr(running, "_hand_out", look)
    running.start()
    wait_until("some looks", lambda: len(looks) >= 4)
    running.stop(PATIENCE_S)
    assert all(later - sooner >= REST_S * 0.9 for sooner, later in pairwise(looks))


@pytest.mark.django_db
def test_a_thread_that_does_not_start_costs_no_courier_and_no_lease(
    endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, _ = make(make_house("acme").tenant, endpoint)
    running = couriers(endpoint, couriers=1)

    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        with pytest.raises(RuntimeError):
            running._hand_out()
    assert running._busy == {}
    assert Webhook.objects.get(pk=row.pk).lease_until is None
    assert turn(row) == 1


@pytest.mark.django_db
@pytest.mark.parametrize("error", [ValueError, DatabaseError])
def test_what_fails_in_the_service_itself_is_not_tried_again_at_once(
    error: type[Exception], endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = make_house("acme")
    row, _ = make(house.tenant, endpoint)
    actions.ping(ACTOR, house.tenant, row.public_id)
    claimed = leases.claim(row)
    assert claimed is not None

    def take(turn: Turn) -> int:
        raise error("a bug")

    running = couriers(endpoint)
    monkeypatch.setattr(Turn, "take", take)
    # The connection is the test's own.
    monkeypatch.setattr(connection, "close", lambda: None)
    began = timezone.now()
    running._deliver(claimed)
    assert queries.due(timezone.now(), most=1, without=()) == []
    after = Webhook.objects.get(pk=row.pk)
    assert after.due_at >= began + leases.POSTPONED and after.failures == 0
    assert queries.due(timezone.now() + leases.POSTPONED, most=1, without=()) == [row]


def _configuration(folder: Path, endpoint: Receiver) -> Path:
    """Of a process of its own on this test's database."""
    known = connection.settings_dict
    if connection.vendor == "sqlite":
        url = f"sqlite:///{known['NAME']}"
    else:
        url = f"postgresql://{known['USER']}@{known['HOST']}:{known['PORT']}/{known['NAME']}"
    file = configuration.write(folder, url)
    values = json.loads(file.read_text())
    values["secret_key"] = config.current().secret_key
    values["webhooks"] = {"allowed_networks": ["127.0.0.1"], "ca_file": str(endpoint.ca_file)}
    file.write_text(json.dumps(values))
    return file


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_between_the_answer_and_its_note_loses_nothing(
    endpoint: Receiver, tmp_path: Path
) -> None:
    tenant = make_house("acme").tenant
    row, secret = make(tenant, endpoint, events=["audit.topic.*"])
    happen(tenant, "topic.create", "topic.delete")
    environment = {
        **os.environ,
        "PENSTOCK_CONFIG": str(_configuration(tmp_path, endpoint)),
        "DJANGO_SETTINGS_MODULE": "control_plane.settings",
        **guardian.mark(),
    }
    killed: list[int] = []

    def kill(got: Got) -> Reply:
        if not killed:
            killed.append(worker.pid)
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        return Reply()

    endpoint.script = kill
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert worker.stdout is not None and worker.stdout.readline() == "begun\n"
        endpoint.wait_for(1)
        worker.wait()
    finally:
        worker.kill()
        worker.wait()
        if worker.stdout is not None:
            worker.stdout.close()
    assert not WebhookAttempt.objects.exists(), "it was killed before it wrote anything"
    assert turn(row) == 0, "its lease lasts"
    Webhook.objects.update(lease_until=timezone.now())
    assert turn(row) == 2
    assert types(endpoint, secret) == ["audit.topic.create", "audit.topic.create", "audit.topic.delete"]
    assert endpoint.got[0].headers["webhook-id"] == endpoint.got[1].headers["webhook-id"]
