"""Two web processes, two workers, PostgreSQL with a standby and a Redis: each of them is lost in turn, and what was
answered stays.

Each test prints how long the service was away, for the table "What fails over" of docs/reliability.md.
"""

import http.client
import json
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from daemon.http_listener import STALL_S
from penstock.contract.errors import PenstockError
from penstock.rest.client import RestClient
from tests.control_plane.service.running import RECONCILE_S, Form, Service, SignedUp
from tests.control_plane.service.running import service as started
from tests.integration.fail_over.database_pair import DatabasePair, RedisServer, pair
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.drawn(shares=3, family="services that lose processes"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A service with two of each, and what it stands on."""

    service: Service
    other_url: str
    database: DatabasePair
    redis: RedisServer

    def any_url(self) -> Iterator[str]:
        """Addresses as a balancer gives them, in turn."""
        while True:
            yield self.service.url
            yield self.other_url


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        database = stack.enter_context(pair())
        redis = RedisServer()
        stack.callback(redis.end)
        redis.start()

        @contextmanager
        def form(folder: Path) -> Iterator[Form]:
            yield Form(database_url=database.url, celery_broker_url=redis.url, empty=True)

        service = stack.enter_context(started(tmp_path_factory.mktemp("fail-over"), form, brokers=1))
        other_url = stack.enter_context(service.second_web())
        stack.enter_context(service.second_worker())
        yield World(service=service, other_url=other_url, database=database, redis=redis)


@dataclass(slots=True)
class Changes:
    """Makes topics by turns over both web processes, as often as it can, and keeps what was answered."""

    world: World
    tenant: SignedUp
    made: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "Changes":
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        token = self.tenant.api_key
        for number, url in enumerate(self.world.any_url()):
            if self._stop.wait(0.05):
                return
            name = f"made-{secrets.token_hex(3)}-{number}"
            with RestClient(url, token, timeout_s=5) as rest:
                try:
                    rest.post("/v1/topics", {"name": name, "partitions": 1})
                except PenstockError:
                    continue  # not answered: it may be there or not
            self.made.append(name)

    def wait_for_more(self, count: int = 3) -> float:
        """Seconds until so many further changes were answered."""
        target = len(self.made) + count
        return self.world.service.wait_until("changes are answered", lambda: len(self.made) >= target)


def limits_lifted(world: World, tenant: SignedUp) -> None:
    world.service.operator(tenant.tenant).patch("/v1/quotas", {"partitions_max": 1000})


def all_delivered(world: World, tenant: SignedUp, names: list[str]) -> None:
    """Every name is with the brokers, once, and the outbox is empty."""
    service = world.service
    service.wait_until(
        "everything is delivered",
        lambda: service.sql("SELECT count(*) FROM outbox_delivery WHERE delivered_at IS NULL") == [(0,)],
    )
    listed: list[str] = []

    def agree() -> bool:
        # A request whose caller gave up may still be at work.
        listed[:] = [item["name"] for item in tenant.rest.items("/v1/topics")]
        return set(service.topics_on_brokers(tenant.tenant)) == set(listed)

    service.wait_until("the brokers have what is listed", agree)
    assert len(listed) == len(set(listed)) and set(names) <= set(listed)


def asked(url: str, path: str, token: str, method: str = "GET") -> tuple[int, str, dict[str, Any]]:
    """(status, Retry-After, body) of one request that is not repeated."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request(
            method,
            path,
            body=b"{}" if method == "POST" else None,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        text = answer.read()
        is_json = "json" in (answer.getheader("Content-Type") or "")
        return answer.status, answer.getheader("Retry-After") or "", json.loads(text) if is_json else {}
    finally:
        connection.close()


def keeper(world: World) -> str:
    """The worker that keeps the schedule."""
    found: list[str] = []

    def one() -> bool:
        found[:] = [
            name
            for name in world.service.workers()
            if world.service.gauge(name, "worker_keeps_schedule") == 1
        ]
        return len(found) == 1

    world.service.wait_until("one worker keeps the schedule", one)
    return found[0]


def number_of_the_schedule(world: World) -> int:
    return int(world.service.sql("SELECT number FROM processes_lease WHERE name = 'schedule'")[0][0])


def other_than(world: World, worker: str) -> str:
    (other,) = [name for name in world.service.workers() if name != worker]
    return other


def test_a_session_and_an_idempotency_key_hold_on_both_web_processes(world: World) -> None:
    tenant = world.service.sign_up()
    with RestClient(world.other_url, tenant.api_key) as other:
        topic = {"name": "once", "partitions": 1}
        made = world.service.client_of(tenant.api_key).post("/v1/topics", topic, idempotency_key="k-1")
        assert other.post("/v1/topics", topic, idempotency_key="k-1") == made
        assert [item["name"] for item in other.items("/v1/topics")] == ["once"]
    signed_in = world.service.client_of(None).post(
        "/v1/sign-in", {"email": tenant.email, "password": "a horse, a battery"}
    )
    with RestClient(world.other_url, signed_in["token"], tenant=tenant.tenant) as other:
        first = world.service.client_of(signed_in["token"], tenant.tenant)
        repeated = [
            one.post("/v1/topics", {"name": "two", "partitions": 1}, idempotency_key="k-2")
            for one in (first, other)
        ]
        assert repeated[0] == repeated[1]


def more_than(counted: Callable[[], float], number: float) -> bool:
    return counted() > number


def test_one_schedule_runs_whatever_the_number_of_workers(world: World) -> None:
    keeper(world)
    workers = world.service.workers()

    def received() -> float:
        # Of a task that is sent at each interval, whether there is something to do or not.
        return sum(
            world.service.gauge(name, 'worker_tasks_total{task="cluster.reconcile"}') for name in workers
        )

    world.service.wait_until("tasks are counted", lambda: received() > 0)
    surplus: list[float] = []
    while not surplus or (min(surplus) > 2 and len(surplus) < 5):
        before, began = received(), time.monotonic()
        world.service.wait_until("the schedule goes on", partial(more_than, received, before + 7))
        surplus.append(received() - before - (time.monotonic() - began) / RECONCILE_S)
    # One an interval; two schedules would send twice as many, each time. A busy machine sends fewer, and takes several
    # at once that have waited.
    assert min(surplus) <= 2, f"more than one an interval: {surplus}"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_ends_leaves_the_schedule_to_the_other(world: World, how: signal.Signals) -> None:
    first, number = keeper(world), number_of_the_schedule(world)
    other = other_than(world, first)
    began = time.monotonic()
    (world.service.kill if how is signal.SIGKILL else world.service.stop)(first)
    world.service.wait_until(
        "the other one keeps the schedule", lambda: world.service.gauge(other, "worker_keeps_schedule") == 1
    )
    print(f"a worker ended by {how.name}: the schedule stood still for {time.monotonic() - began:.1f} s")
    assert number_of_the_schedule(world) > number
    world.service.start_again(first)
    assert keeper(world) == other, "it does not come back by itself"


def test_a_worker_that_was_paused_does_not_send_when_it_wakes_up(world: World) -> None:
    first, number = keeper(world), number_of_the_schedule(world)
    other = other_than(world, first)
    began = time.monotonic()
    world.service.signal(first, signal.SIGSTOP)
    try:
        world.service.wait_until(
            "the other one keeps the schedule",
            lambda: world.service.gauge(other, "worker_keeps_schedule") == 1,
        )
        print(f"a worker paused: the schedule stood still for {time.monotonic() - began:.1f} s")
        tenant = world.service.sign_up()
        assert tenant.rest.post("/v1/topics", {"name": "meanwhile", "partitions": 1})["delivered"]
    finally:
        world.service.signal(first, signal.SIGCONT)
    world.service.wait_until("it is ready again", lambda: world.service.gauge(first, "worker_ready") == 1)
    assert number_of_the_schedule(world) == number + 1
    assert keeper(world) == other


def test_two_of_each_deliver_at_once_and_each_change_is_there_once(world: World) -> None:
    tenant = world.service.sign_up()
    limits_lifted(world, tenant)
    with Changes(world, tenant) as first, Changes(world, tenant) as second, Changes(world, tenant) as third:
        service = world.service
        with service.brokers_paused():
            # Not delivered by their requests: sweeps and wake-ups of both workers have them.
            service.wait_until(
                "changes wait",
                lambda: (
                    int(service.sql("SELECT count(*) FROM outbox_delivery WHERE delivered_at IS NULL")[0][0])
                    >= 3
                ),
            )
        for one in (first, second, third):
            one.wait_for_more(8)
    all_delivered(world, tenant, [*first.made, *second.made, *third.made])


def test_a_web_process_is_killed_and_the_other_one_answers(world: World) -> None:
    tenant = world.service.sign_up()
    limits_lifted(world, tenant)
    with Changes(world, tenant) as changes:
        changes.wait_for_more()
        began = time.monotonic()
        world.service.kill("web")
        try:
            with RestClient(world.other_url, tenant.api_key) as other:
                assert [item["name"] for item in other.items("/v1/topics")]
            print(f"a web process killed: the other one answered after {time.monotonic() - began:.1f} s")
        finally:
            world.service.start_web()
            world.service.wait_ready()
        changes.wait_for_more()
    all_delivered(world, tenant, changes.made)


def test_a_postgresql_that_restarts_is_a_503_and_nothing_is_lost(world: World) -> None:
    tenant = world.service.sign_up()
    limits_lifted(world, tenant)
    with Changes(world, tenant) as changes:
        changes.wait_for_more()
        began = time.monotonic()
        with world.database.stopped():
            for method, path in (("GET", "/v1/topics"), ("POST", "/v1/topics")):
                status, retry_after, body = asked(world.service.url, path, tenant.api_key, method)
                assert (status, body["code"], body["title"]) == (
                    503,
                    "timeout",
                    "The database does not answer",
                )
                assert int(retry_after) >= 1
            status, retry_after, _ = asked(world.other_url, "/sign-in", "")
            assert status in (200, 503), "a page without the database, or one that says that it is away"
            status, retry_after, _ = asked(world.other_url, f"/t/{tenant.tenant}/topics", "")
            assert (status in (302, 503)) and (status != 503 or int(retry_after) >= 1)
            status, _, body = asked(world.service.url, "/readyz", "")
            assert status == 503 and body["checks"]["database"].startswith("failed")
            assert asked(world.service.url, "/healthz", "")[0] == 200
            for worker in world.service.workers():
                address = world.service.address_of(worker)
                assert asked(address, "/healthz", "")[0] == 200
                status, _, body = asked(address, "/readyz", "")
                assert (status, body["reason"]) == (503, "database: OperationalError")
        changes.wait_for_more()
        print(f"PostgreSQL restarted: changes again after {time.monotonic() - began:.1f} s")
    keeper(world)
    world.service.wait_ready()
    all_delivered(world, tenant, changes.made)


def test_what_was_answered_is_there_after_a_switch_to_the_standby(world: World) -> None:
    world.database.add_standby()
    tenant = world.service.sign_up()
    limits_lifted(world, tenant)
    with Changes(world, tenant) as changes:
        changes.wait_for_more(10)
        began = time.monotonic()
        world.database.switch()
        changes.wait_for_more(10)
        print(f"PostgreSQL switched to its standby: changes again after {time.monotonic() - began:.1f} s")
    world.service.wait_ready()
    keeper(world)
    all_delivered(world, tenant, changes.made)


def test_a_redis_that_loses_everything_costs_wake_ups_and_counts_alone(world: World) -> None:
    tenant = world.service.sign_up()
    limits_lifted(world, tenant)
    address = f"anna-{secrets.token_hex(4)}@acme.example"

    def attempts(count: int) -> list[str]:
        answers = []
        for _, url in zip(range(count), world.any_url(), strict=False):
            status, _, body = asked_to_sign_in(url, address)
            answers.append(f"{status} {body['code']}")
        return answers

    assert attempts(20) == ["400 invalid_request"] * 20, "the limit is 30 a minute"
    with Changes(world, tenant) as changes:
        changes.wait_for_more()
        world.redis.kill()
        changes.wait_for_more()
        # Longer than a loop may stand still: a worker that waits for Redis is not started again for that.
        waited = threading.Event()
        threading.Timer(STALL_S + 2, waited.set).start()
        assert waited.wait(PATIENCE_S)
        assert unhealthy(world) == {}
        began = time.monotonic()
        world.redis.start()
        service = world.service
        with service.brokers_paused():
            # Left to a sweep: the request gives up, and its wake-up may be lost.
            name = f"later-{secrets.token_hex(3)}"
            made = tenant.rest.post("/v1/topics", {"name": name, "partitions": 1}, timeout_s=60)
            assert made["delivered"] is False
        service.wait_until("a sweep delivers it", lambda: name in service.topics_on_brokers(tenant.tenant))
        print(
            f"Redis lost and back, empty: sweeps delivered {time.monotonic() - began:.1f} s after its start"
        )
    world.service.wait_until("workers are healthy", lambda: not unhealthy(world))
    assert attempts(30) == ["400 invalid_request"] * 30, "limits begin again"
    assert tenant.rest.get("/v1/topics"), "a session is no matter of Redis"
    all_delivered(world, tenant, [*changes.made, name])


def unhealthy(world: World) -> dict[str, Any]:
    """What workers say that are not healthy, by name."""
    answers = {
        name: asked(world.service.address_of(name), "/healthz", "") for name in world.service.workers()
    }
    return {name: body for name, (status, _, body) in answers.items() if status != 200}


def asked_to_sign_in(url: str, address: str) -> tuple[int, str, dict[str, Any]]:
    """An attempt without a password: nothing is hashed, and it counts all the same."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        body = json.dumps({"email": address}).encode()
        connection.request("POST", "/v1/sign-in", body=body, headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Retry-After") or "", json.loads(answer.read())
    finally:
        connection.close()
