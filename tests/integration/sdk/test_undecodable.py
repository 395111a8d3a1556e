"""Messages that a deserializer does not take: they stop a partition, are skipped, or go to the application."""

from collections.abc import Iterator
from typing import Any

import pytest

import penstock
from penstock import Message, SerializationFailed
from penstock.serializers import JSON
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.groups.test_surfaces import Surface
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

TOPIC = "orders"
VALUES = [b"1", b"{", b"2", b"[", b"3"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("cluster"), internal_topics=True) as running:
        yield running


@pytest.fixture(scope="module")
def tenant(cluster: Brokers) -> Tenant:
    """With a topic that has all messages in one partition."""
    tenant = cluster.tenant("tn_one")
    cluster.create_topic(tenant, TOPIC)
    with cluster.client(tenant) as client, client.producer() as producer:
        producer.send_many(TOPIC, VALUES, partition=0)
        producer.flush(PATIENCE_S)
    return tenant


@pytest.fixture(params=[False, True], ids=["blocking", "asyncio"])
def surface(request: pytest.FixtureRequest) -> Iterator[Surface]:
    made = Surface(request.param)
    yield made
    made.end()


def read(surface: Surface, consumer: Any, count: int) -> list[object]:
    values: list[object] = []
    while len(values) < count:
        more = surface(consumer.poll(timeout=PATIENCE_S))
        assert more, f"nothing more came behind {values}"
        values += [message.value for message in more]
    return values


def test_a_partition_stops_and_its_error_says_where(
    cluster: Brokers, tenant: Tenant, surface: Surface
) -> None:
    with surface.client(cluster, tenant) as client:
        consumer = client.consumer(TOPIC, value_deserializer=JSON)
        values = read(surface, consumer, 1)
        for offset in (1, 3):
            with pytest.raises(SerializationFailed) as stopped:
                surface(consumer.poll(timeout=PATIENCE_S))
            error = stopped.value
            assert (error.topic, error.partition, error.offset) == (TOPIC, 0, offset)
            assert error.topic is not None
            assert error.partition is not None
            surface(consumer.seek(error.topic, error.partition, offset=offset + 1))
            values += read(surface, consumer, 1)
        assert values == [1, 2, 3]
        surface(consumer.close())


def test_they_are_skipped_on_request_and_the_group_commits_behind_them(
    cluster: Brokers, tenant: Tenant, surface: Surface
) -> None:
    group = f"skipping-{surface.awaited}"
    with surface.client(cluster, tenant) as client:
        consumer = client.consumer(TOPIC, group=group, value_deserializer=JSON, on_undecodable="skip")
        assert read(surface, consumer, 3) == [1, 2, 3]
        assert consumer.skipped_messages == 2
        surface(consumer.close())
    with cluster.client(tenant) as looking:
        assert looking.group(group).offsets[TOPIC, 0] == 5


def test_the_application_gets_them_as_they_are_stored_and_again_if_it_fails(
    cluster: Brokers, tenant: Tenant, surface: Surface
) -> None:
    heard: list[tuple[int, object, int | None]] = []

    def note(message: Message, error: SerializationFailed) -> None:
        heard.append((message.offset, message.value, error.offset))
        if len(heard) == 1:
            raise RuntimeError("not now")

    async def note_later(message: Message, error: SerializationFailed) -> None:
        note(message, error)

    with surface.client(cluster, tenant) as client:
        hook = note_later if surface.awaited else note
        consumer = client.consumer(TOPIC, value_deserializer=JSON, on_undecodable=hook)
        assert read(surface, consumer, 1) == [1]
        with pytest.raises(RuntimeError, match="not now"):
            surface(consumer.poll(timeout=PATIENCE_S))
        assert surface(consumer.position(TOPIC, 0)) == 1
        assert read(surface, consumer, 2) == [2, 3]
        assert heard == [(1, b"{", 1), (1, b"{", 1), (3, b"[", 3)]
        surface(consumer.close())


def test_the_argument_is_checked(cluster: Brokers, tenant: Tenant) -> None:
    with (
        cluster.client(tenant) as client,
        pytest.raises(penstock.ConfigurationError, match="on_undecodable: 'ignore' is not"),
    ):
        client.consumer(TOPIC, on_undecodable="ignore")  # type: ignore[arg-type]
