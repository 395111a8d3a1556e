"""A process that dies in a request loses nothing: the sweep delivers what it had committed, once."""

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.control_plane.service.running import Service, SignedUp, embedded
from tests.control_plane.service.running import service as started
from tests.control_plane.steps import step
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("killed_request.py")
STEPS = ("committed", "claimed", "placed", "made", "seen", "settled")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with started(tmp_path_factory.mktemp("killed"), embedded) as running:
        yield running


def is_delivered(acme: SignedUp) -> bool:
    return bool(acme.rest.get("/v1/topics/orders")["delivered_generation"] == 1)


def test_what_killed_requests_had_committed_is_delivered_once(service: Service) -> None:
    """Each request is of a tenant of its own, and one worker finds what all of them left."""
    killed = {name: service.sign_up() for name in STEPS}
    made = {}
    service.stop("worker")
    for name, acme in killed.items():
        with step(name):
            under_way = service.deliveries_under_way()
            assert service.script(PROGRAM, name, acme.tenant, "orders") == -signal.SIGKILL, (
                service.last_words()
            )
            there = name in ("made", "seen", "settled")
            assert set(service.topics_on_brokers(acme.tenant)) == ({"orders"} if there else set())
            made[name] = acme.rest.get("/v1/topics/orders")
            assert made[name]["delivered_generation"] == (name == "settled")
            assert service.deliveries_under_way() - under_way == (name not in ("committed", "settled"))
    service.sql(
        "UPDATE outbox_delivery SET lease_until = created_at WHERE lease_until IS NOT NULL"
    )  # it is over
    service.start_worker()
    service.wait_ready()
    for name, acme in killed.items():
        with step(name):
            service.wait_until("it is delivered", partial(is_delivered, acme))
            assert service.topics_on_brokers(acme.tenant) == {"orders": made[name]["topic_id"]}
            assert acme.rest.get("/v1/topics/orders")["conditions"] == []
            assert [e["action"] for e in acme.rest.items("/v1/audit")].count("topic.create") == 1
            with service.sdk(acme.api_key) as client, client.producer() as producer:
                assert producer.send("orders", b"one", partition=1).result(PATIENCE_S).offset == 0
