"""A process that dies in a request loses nothing: the sweep delivers what it had committed, once."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane.service.running import Service, embedded
from tests.control_plane.service.running import service as started
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("killed_request.py")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with started(tmp_path_factory.mktemp("killed"), embedded) as running:
        yield running


@pytest.mark.parametrize("step", ["committed", "claimed", "placed", "made", "seen", "settled"])
def test_what_a_killed_request_had_committed_is_delivered_once(service: Service, step: str) -> None:
    acme = service.sign_up()
    service.stop("worker")
    assert service.script(PROGRAM, step, acme.tenant, "orders") == -signal.SIGKILL, service.last_words()
    there = step in ("made", "seen", "settled")
    assert set(service.topics_on_brokers(acme.tenant)) == ({"orders"} if there else set())
    before = acme.rest.get("/v1/topics/orders")
    assert before["delivered_generation"] == (step == "settled")
    assert service.deliveries_under_way() == (step not in ("committed", "settled"))
    service.sql(
        "UPDATE outbox_delivery SET lease_until = created_at WHERE lease_until IS NOT NULL"
    )  # it is over
    service.start_worker()
    service.wait_ready()
    service.wait_until(
        "it is delivered", lambda: acme.rest.get("/v1/topics/orders")["delivered_generation"] == 1
    )
    assert service.topics_on_brokers(acme.tenant) == {"orders": before["topic_id"]}
    assert acme.rest.get("/v1/topics/orders")["conditions"] == []
    assert [e["action"] for e in acme.rest.items("/v1/audit")].count("topic.create") == 1
    with service.sdk(acme.api_key) as client, client.producer() as producer:
        assert producer.send("orders", b"one", partition=1).result(PATIENCE_S).offset == 0
