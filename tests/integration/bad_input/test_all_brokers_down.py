"""No broker answers: the SDK says so after the time it was given, and goes on by itself when they return."""

import time
from collections.abc import Callable
from functools import partial

import pytest

from penstock import BrokerUnavailable, Consumer, PenstockError, Producer, Receipt, TimedOut
from tests.integration.brokers import Brokers, Tenant
from tests.integration.bystander import Bystander
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

TOPIC = "patient"
SLACK_S = 60.0
"""How much later than asked for an error may come on a busy machine."""


def raised_by(action: Callable[[], object], within_s: float) -> PenstockError:
    began = time.monotonic()
    with pytest.raises(PenstockError) as raised:
        action()
    assert time.monotonic() - began < within_s + SLACK_S
    return raised.value


def names_the_brokers(error: PenstockError, cluster: Brokers) -> None:
    assert isinstance(error, BrokerUnavailable)
    assert any(address in error.message for address in cluster.bootstrap), error.message
    assert error.remedy


def polled_until_it_fails(consumer: Consumer) -> None:
    """Short polls in a row, at most ten seconds of them."""
    for _ in range(200):
        assert consumer.poll(timeout=0.05) == []


def sent_in_time(hasty: Producer[bytes, bytes], value: bytes) -> Receipt:
    """On a busy machine one second may pass before brokers that have just begun answer; nothing was applied then."""
    for _ in range(10):
        try:
            return hasty.send(TOPIC, value).result(PATIENCE_S)
        except TimedOut as late:
            assert "nothing was applied" in late.message
    raise AssertionError("ten sends of one second each, and none arrived")


@pytest.mark.slow
def test_clients_are_told_in_time_and_go_on_when_the_brokers_return(
    cluster: Brokers, tenant: Tenant, bystander: Bystander
) -> None:
    cluster.create_topic(tenant, TOPIC)
    with cluster.client(tenant) as client, cluster.client(tenant) as newcomer:
        patient = client.producer(linger_ms=0, delivery_timeout_ms=PATIENCE_S * 1000)
        hasty = client.producer(linger_ms=0, delivery_timeout_ms=1_000)
        consumer = client.consumer([TOPIC])
        patient.send(TOPIC, b"before").result(PATIENCE_S)
        sent_in_time(hasty, b"before")
        read: list[bytes | None] = []
        cluster.wait_until("both are read", lambda: len(read_more(consumer, read)) == 2)

        cluster.kill()
        kept = patient.send(TOPIC, b"kept until they return")
        late = raised_by(lambda: hasty.send(TOPIC, b"in vain").result(PATIENCE_S), within_s=1.0)
        assert late.message.startswith(f"{TOPIC}-0: ")
        assert "delivery_timeout_ms=1000" in late.message
        for ask in (client.topics, client.brokers, newcomer.topics):
            names_the_brokers(raised_by(partial(ask, timeout=1.0), within_s=1.0), cluster)
        stranger = newcomer.producer(max_block_ms=1_000)
        names_the_brokers(raised_by(lambda: stranger.send(TOPIC, b"x"), within_s=1.0), cluster)
        names_the_brokers(
            raised_by(lambda: newcomer.consumer([TOPIC]).poll(timeout=1.0), within_s=1.0), cluster
        )
        restless = newcomer.consumer([TOPIC])
        assert restless.poll(timeout=0.02) == []
        names_the_brokers(raised_by(lambda: polled_until_it_fails(restless), within_s=1.0), cluster)
        assert consumer.poll(timeout=0.5) == []
        with pytest.raises(TimedOut, match="still under way"):
            kept.result(0)

        cluster.start()
        assert kept.result(PATIENCE_S).offset == 2
        assert sent_in_time(hasty, b"after").offset == 3
        assert [topic.name for topic in newcomer.topics(timeout=PATIENCE_S)] == [TOPIC]
        cluster.wait_until("all are read", lambda: len(read_more(consumer, read)) >= 4)
        assert read == [b"before", b"before", b"kept until they return", b"after"]
    bystander.check()


def read_more(consumer: Consumer, read: list[bytes | None]) -> list[bytes | None]:
    read += [message.value for message in consumer.poll(timeout=0.1)]
    return read
