"""A service that began with one broker and has three: all is held three times, and outlives the first broker."""

import json
from collections.abc import Iterator

import pytest

from penstock import Client
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rest.client import RestClient
from tests.control_plane.service.placing import Sender
from tests.control_plane.service.running import Service, embedded
from tests.control_plane.service.running import service as started

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with started(tmp_path_factory.mktemp("growing"), embedded, brokers=1) as running:
        yield running


def copies(service: Service, tenant: str) -> set[tuple[str, int, int, int]]:
    """(topic, replicas, of them in sync, demanded in sync) of the tenant's partitions that are on their way nowhere."""
    seen = service.seen(partitions=True, objects=True)
    demanded = {topic.topic_id: topic for topic in seen.topics if topic.tenant == tenant}
    return {
        (
            demanded[p.topic_id].name,
            len(p.replicas) if not p.target else -1,
            len(p.in_sync),
            json.loads(demanded[p.topic_id].settings_json)["min_insync_replicas"],
        )
        for p in seen.partitions
        if p.topic_id in demanded
    }


def test_two_brokers_more_give_every_topic_that_asks_for_them_two_copies_more(service: Service) -> None:
    acme = service.sign_up()
    made = acme.rest.post("/v1/topics", {"name": "orders", "partitions": 4})
    assert (made["settings"]["replication"], made["settings"]["min_insync_replicas"]) == (1, 1)
    acme.rest.post("/v1/topics", {"name": "scratch", "partitions": 1})
    with Sender(service, acme, 4) as sender:
        service.wait_until("some are sent", lambda: len(sender.deliveries) > 50)
        for _ in range(2):
            service.cluster.add_broker(lambda done, steps, note: None)
        own = {("__usage", 3, 3, 2), ("__groups", 3, 3, 2)}
        service.wait_until(
            "the service's own topics have three copies",
            lambda: copies(service, SYSTEM_TENANT) == own,
            instead=lambda: copies(service, SYSTEM_TENANT),
        )
        assert copies(service, acme.tenant) == {("orders", 1, 1, 1), ("scratch", 1, 1, 1)}

        with pytest.raises(InvalidRequest, match="has not 2 copies of every partition yet"):
            acme.rest.patch("/v1/topics/orders", {"settings": {"replication": 3, "min_insync_replicas": 2}})
        acme.rest.patch("/v1/topics/orders", {"settings": {"replication": 3}})
        service.wait_until(
            "the tenant's topic has three copies",
            lambda: (
                ("orders", 3, 3, 1) in copies(service, acme.tenant) and len(copies(service, acme.tenant)) == 2
            ),
            instead=lambda: copies(service, acme.tenant),
        )
        service.wait_until("it is noted", lambda: demands_two(acme.rest))
    assert sender.ended and len(sender.deliveries) > 100
    sent = {(r.partition, r.offset) for r in (delivery.result(1) for delivery in sender.deliveries)}

    acme.rest.patch("/v1/topics/orders", {"settings": {"replication": 2}})
    service.wait_until(
        "it has two copies again",
        lambda: (
            ("orders", 2, 2, 2) in copies(service, acme.tenant) and len(copies(service, acme.tenant)) == 2
        ),
        instead=lambda: copies(service, acme.tenant),
    )
    causes = {move["cause"] for move in service.operator().items("/v1/cluster/moves")}
    assert causes == {"replication"}

    service.cluster.kill_broker(1)
    left = [broker.client_address for broker in service.cluster.directory.load().brokers if broker.id != 1]
    read: set[tuple[int, int]] = set()
    with Client(bootstrap=left, api_key=acme.api_key) as client, client.consumer("orders") as consumer:

        def all_read() -> bool:
            read.update((m.partition, m.offset) for m in consumer.poll(timeout=0.5))
            return read >= sent

        service.wait_until("all is read from the others", all_read, instead=lambda: len(sent - read))


def demands_two(rest: RestClient) -> bool:
    """Ask for two in sync; refused while its copies are not noted yet."""
    try:
        rest.patch("/v1/topics/orders", {"settings": {"min_insync_replicas": 2}})
    except InvalidRequest:
        return False
    return True
