"""Topics that do not exist: unknown names and ids, and another tenant's, which look exactly the same."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from penstock import Client, NotFound
from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2 as pb
from tests.integration.brokers import Brokers, Tenant
from tests.integration.raw_wire import ConsumeWire, ProduceWire, batch_of, call, with_key
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("unharmed")]

FOREIGN = "secret-plans"
VALUE = b"for nobody else's eyes"

Answer = tuple[int, str]
"""(error code, message) with the id asked for replaced by `<id>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """Another tenant's topic with one message in it."""

    owner: Tenant
    topic_id: bytes


@pytest.fixture(scope="module")
def foreign(cluster: Brokers) -> Foreign:
    owner = cluster.tenant("tn_other")
    topic_id = cluster.create_topic(owner, FOREIGN)
    with cluster.client(owner) as client, client.producer() as producer:
        producer.send(FOREIGN, VALUE).result(PATIENCE_S)
    return Foreign(owner=owner, topic_id=topic_id)


@pytest.fixture
def client(cluster: Brokers, tenant: Tenant) -> Iterator[Client]:
    with cluster.client(tenant) as client:
        yield client


def names_it(refusal: NotFound, topic: str) -> None:
    assert refusal.message == f"topic '{topic}' does not exist"
    assert refusal.remedy == "Check the name, and what the access list shows you; create the object first."


@pytest.mark.parametrize("topic", ["nowhere", FOREIGN])
def test_a_producer_is_told_that_the_topic_does_not_exist(
    client: Client, foreign: Foreign, topic: str
) -> None:
    with client.producer() as producer, pytest.raises(NotFound) as refused:
        producer.send(topic, b"x").result(PATIENCE_S)
    names_it(refused.value, topic)


@pytest.mark.parametrize("topic", ["nowhere", FOREIGN])
def test_a_consumer_is_told_that_the_topic_does_not_exist(
    client: Client, foreign: Foreign, topic: str
) -> None:
    with client.consumer([topic]) as consumer:
        with pytest.raises(NotFound) as refused:
            consumer.poll(timeout=PATIENCE_S)
        names_it(refused.value, topic)
        with pytest.raises(NotFound) as refused:
            consumer.beginning_offsets(timeout=PATIENCE_S)
        names_it(refused.value, topic)


@pytest.mark.parametrize("topic", ["nowhere", FOREIGN])
def test_metadata_of_the_topic_is_refused_and_it_is_not_listed(
    client: Client, foreign: Foreign, topic: str
) -> None:
    with pytest.raises(NotFound) as refused:
        client.topic(topic)
    names_it(refused.value, topic)
    assert topic not in [described.name for described in client.topics()]


def metadata_by_name(cluster: Brokers, tenant: Tenant, address: str, name: str) -> pb.TopicMetadata:
    request = pb.MetadataRequest(topics=[name])
    answer = call(address, methods.METADATA, request, pb.MetadataResponse, with_key(tenant.api_key))
    return answer.topics[0]


def test_metadata_says_of_a_foreign_topic_what_it_says_of_none(
    cluster: Brokers, tenant: Tenant, foreign: Foreign
) -> None:
    for address in cluster.bootstrap:
        unknown = metadata_by_name(cluster, tenant, address, "nowhere")
        hidden = metadata_by_name(cluster, tenant, address, FOREIGN)
        unknown.message = unknown.message.replace("nowhere", FOREIGN)
        unknown.name = FOREIGN
        assert hidden == unknown
        assert (hidden.error, hidden.topic_id, len(hidden.partitions)) == (ErrorCode.NOT_FOUND, b"", 0)


def produced(address: str, tenant: Tenant, topic_id: bytes, partition: int) -> Answer:
    with ProduceWire(address, tenant.api_key) as wire:
        result = wire.produce(topic_id, partition, batch_of(b"x"))
    return result.error, result.message


def consumed(address: str, tenant: Tenant, topic_id: bytes, partition: int) -> Answer:
    with ConsumeWire(address, tenant.api_key) as wire:
        wire.open(topic_id, partition, credit=1 << 20)
        (push,), batches = wire.pushes()
    assert batches == b""
    assert (push.log_start_offset, push.high_watermark, push.leader_epoch) == (0, 0, 0)
    return push.error, push.message


def listed(address: str, tenant: Tenant, topic_id: bytes, partition: int) -> Answer:
    request = pb.ListOffsetsRequest()
    request.partitions.add(topic_id=topic_id, partition=partition, leader_epoch=-1, timestamp_ms=-1)
    answer = call(address, methods.LIST_OFFSETS, request, pb.ListOffsetsResponse, with_key(tenant.api_key))
    (told,) = answer.partitions
    assert (told.offset, told.leader_epoch) == (-1, -1)
    return told.error, told.message


@pytest.mark.parametrize("partition", [0, 7])
@pytest.mark.parametrize("ask", [produced, consumed, listed])
def test_a_foreign_topic_id_is_answered_as_one_that_nobody_has(
    cluster: Brokers,
    tenant: Tenant,
    foreign: Foreign,
    ask: Callable[[str, Tenant, bytes, int], Answer],
    partition: int,
) -> None:
    nobodys = uuid.uuid4().bytes
    for address in cluster.bootstrap:
        told = []
        for topic_id in (nobodys, foreign.topic_id):
            code, message = ask(address, tenant, topic_id, partition)
            told.append((code, message.replace(topic_id.hex(), "<id>")))
        assert told == [(ErrorCode.NOT_FOUND, "topic id <id> does not exist")] * 2
    with cluster.client(foreign.owner) as client, client.consumer([FOREIGN]) as consumer:
        assert [message.value for message in consumer.poll(timeout=PATIENCE_S)] == [VALUE]
        assert consumer.end_offsets() == {(FOREIGN, 0): 1}


@pytest.mark.parametrize("topic_id", [b"", b"short", bytes(16), bytes(1000)])
@pytest.mark.parametrize("ask", [produced, consumed, listed])
def test_what_is_no_topic_id_does_not_exist(
    cluster: Brokers, tenant: Tenant, ask: Callable[[str, Tenant, bytes, int], Answer], topic_id: bytes
) -> None:
    code, message = ask(cluster.bootstrap[0], tenant, topic_id, 0)
    assert code == ErrorCode.NOT_FOUND
    assert message == f"topic id {topic_id.hex()[:32]} does not exist"


@pytest.mark.parametrize("ask", [produced, consumed, listed])
def test_a_partition_that_the_topic_does_not_have_is_named(
    cluster: Brokers, foreign: Foreign, ask: Callable[[str, Tenant, bytes, int], Answer]
) -> None:
    for partition in (1, 2**32 - 1):
        code, message = ask(cluster.bootstrap[0], foreign.owner, foreign.topic_id, partition)
        assert code == ErrorCode.NOT_FOUND
        assert message == f"{FOREIGN}: no partition {partition}, it has 1"
