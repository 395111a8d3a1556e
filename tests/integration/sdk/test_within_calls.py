"""Code of the application within a call of the client: partitioners, handlers of signals, finalizers, of the log."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock
from penstock import Client, Consumer, Message
from penstock.blocking import runtime
from penstock.blocking.producer import Producer
from penstock.records.batch import Buffer
from penstock.serializers import JSON
from tests.integration.sdk.fake_brokers import FakeBrokers
from tests.unit.client.fake_cluster import FakeCluster
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.both_cores


@pytest.fixture
def brokers() -> Iterator[FakeBrokers]:
    with FakeBrokers(api_key="key") as running:
        running.act(lambda cluster: cluster.create("orders", 3))
        yield running


@pytest.fixture
def client(brokers: FakeBrokers) -> Iterator[Client]:
    with Client(bootstrap=brokers.bootstrap, api_key="key") as made:
        yield made


Caller = Callable[[Client, Producer[Buffer, Buffer], Consumer], object]
CALLS: dict[str, Caller] = {
    "send": lambda client, producer, consumer: producer.send("orders", b"nested", partition=1),
    "send many": lambda client, producer, consumer: producer.send_many("orders", [b"nested"], partition=1),
    "flush": lambda client, producer, consumer: producer.flush(),
    "close the producer": lambda client, producer, consumer: producer.close(),
    "close a consumer": lambda client, producer, consumer: consumer.close(),
    "poll": lambda client, producer, consumer: consumer.poll(),
    "close the client": lambda client, producer, consumer: client.close(),
    "a new producer": lambda client, producer, consumer: client.producer(),
    "describe": lambda client, producer, consumer: client.topics(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_within_a_call_is_refused_at_once_and_the_outer_one_goes_on(client: Client, call: str) -> None:
    refused: list[BaseException] = []

    def choose(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        try:
            CALLS[call](client, producer, consumer)
        except penstock.ConfigurationError as error:
            refused.append(error)
        return 0

    producer, consumer = client.producer(partitioner=choose), client.consumer("orders")
    producer.send("orders", b"first", partition=0).result(PATIENCE_S)
    began = time.monotonic()
    assert producer.send("orders", b"outer").result(PATIENCE_S).offset == 1
    assert time.monotonic() - began < PATIENCE_S / 2
    assert len(refused) == 1
    assert "within another call of it" in str(refused[0]) and "stop()" in str(refused[0])
    assert client.topic("orders").partitions


def test_waiting_for_an_outcome_within_a_call_is_refused_at_once(client: Client) -> None:
    refused: list[BaseException] = []

    def choose(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        try:
            under_way.result()
        except penstock.ConfigurationError as error:
            refused.append(error)
        return 0

    producer = client.producer(partitioner=choose, linger_ms=60_000)
    under_way = producer.send("orders", b"first", partition=0)
    producer.send("orders", b"outer")
    assert len(refused) == 1
    producer.flush(PATIENCE_S)
    assert under_way.result(PATIENCE_S).offset == 0


@pytest.fixture
def on_alarm() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Sets what the signal does."""
    before = signal.getsignal(signal.SIGALRM)

    def setting(act: Callable[[], object]) -> None:
        signal.signal(signal.SIGALRM, lambda *_: act())

    yield setting
    signal.signal(signal.SIGALRM, before)


def test_a_handler_of_a_signal_that_sends_is_refused_within_send_and_may_send_elsewhere(
    client: Client, on_alarm: Callable[[Callable[[], object]], None]
) -> None:
    def interrupting(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        signal.raise_signal(signal.SIGALRM)
        return 0

    producer = client.producer(partitioner=interrupting)
    on_alarm(lambda: producer.send("orders", b"the signal was seen", partition=2))
    with pytest.raises(penstock.ConfigurationError, match="a signal handler"):
        producer.send("orders", b"work")
    signal.raise_signal(signal.SIGALRM)
    producer.flush(PATIENCE_S)
    with client.consumer("orders") as consumer:
        assert [message.value for message in consumer.poll(timeout=PATIENCE_S)] == [b"the signal was seen"]


def test_a_consumer_may_be_stopped_from_within_a_call(client: Client) -> None:
    consumer = client.consumer("orders")

    def choose(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        consumer.stop()
        return 0

    with client.producer(partitioner=choose) as producer:
        producer.send("orders", b"last").result(PATIENCE_S)
    assert consumer.stopped
    assert list(consumer) == []


def test_a_signal_stops_a_poll_that_waits_without_end(
    client: Client, on_alarm: Callable[[Callable[[], object]], None]
) -> None:
    consumer = client.consumer("orders")
    assert consumer.poll(timeout=0.01) == []
    on_alarm(consumer.stop)
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGALRM)).start()
    assert consumer.poll(timeout=None) == []
    assert consumer.stopped
    assert consumer.poll(timeout=None) == []


def test_another_thread_stops_a_poll_that_waits_without_end(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOOK_S", 3_600.0)
    consumer = client.consumer("orders")
    assert consumer.poll(timeout=0.01) == []
    threading.Timer(0.1, consumer.stop).start()
    assert consumer.poll(timeout=None) == []
    assert consumer.stopped


def test_a_handler_of_the_log_that_calls_the_client_changes_nothing(
    brokers: FakeBrokers, client: Client
) -> None:
    """Its call fails, and reading goes on where the position was reset."""
    with client.producer() as producer:
        producer.send_many("orders", [b"0", b"1", b"2"], partition=0)
        producer.flush(PATIENCE_S)

        class Sending(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                producer.send("orders", b"log", partition=1)

        def expire(cluster: FakeCluster) -> None:
            partition = cluster.topics["orders"].partitions[0]
            partition.log.clear()
            partition.log_start = partition.next_offset

        handler = Sending()
        logging.getLogger("penstock").addHandler(handler)
        try:
            consumer = client.consumer()
            consumer.assign([("orders", 0)])
            brokers.act(expire)
            consumer.seek("orders", 0, offset=1)
            assert consumer.poll(timeout=0.3) == []
            producer.send("orders", b"3", partition=0).result(PATIENCE_S)
            assert [message.value for message in consumer.poll(timeout=PATIENCE_S)] == [b"3"]
        finally:
            logging.getLogger("penstock").removeHandler(handler)


def test_a_handler_of_the_log_that_sends_and_waits_keeps_no_thread_of_the_client(
    brokers: FakeBrokers, client: Client
) -> None:
    """It has its own lock while the client has something to write: neither may wait for the other with its lock."""
    producer, consumer = client.producer(), client.consumer()
    producer.send_many("orders", [b"0", b"1", b"2"], partition=0)
    producer.flush(PATIENCE_S)
    entered, goes_on = threading.Event(), threading.Event()
    receipts: list[penstock.Receipt] = []

    class Shipping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == "shop":
                entered.set()
                assert goes_on.wait(PATIENCE_S)
            receipts.append(producer.send("orders", record.name.encode(), partition=1).result(PATIENCE_S))

    def expire(cluster: FakeCluster) -> None:
        partition = cluster.topics["orders"].partitions[0]
        partition.log.clear()
        partition.log_start = partition.next_offset

    handler, loggers = Shipping(), [logging.getLogger(name) for name in ("shop", "penstock")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        shop = threading.Thread(target=loggers[0].warning, args=("sold",), daemon=True)
        shop.start()
        assert entered.wait(PATIENCE_S)
        brokers.act(expire)
        consumer.assign([("orders", 0)])
        consumer.seek("orders", 0, offset=1)
        assert consumer.position("orders", 0) == 1
        with client.producer() as other:
            assert other.send("orders", b"meanwhile", partition=2).result(PATIENCE_S).offset == 0
        goes_on.set()
        shop.join(PATIENCE_S)
        assert not shop.is_alive()
        wait_until("both lines are sent", lambda: len(receipts) == 2)
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


class _End(BaseException):
    """Ends a program as `SystemExit` does, and pytest lets it through."""


def _end(*_: object) -> int:
    raise _End


@pytest.mark.parametrize("code", ["partitioner", "serializer"])
def test_what_ends_the_program_in_the_applications_code_ends_it_and_not_the_client(
    client: Client, code: str
) -> None:
    class Ending:
        content_type = "application/json"

        def serialize(self, value: Any) -> bytes:
            raise _End

        def deserialize(self, data: bytes) -> Any:
            raise _End

    producer = (
        client.producer(partitioner=_end)
        if code == "partitioner"
        else client.producer(value_serializer=Ending())
    )
    with pytest.raises(_End):
        producer.send("orders", b"x")
    with client.producer() as other:
        assert other.send("orders", b"1", partition=0).result(PATIENCE_S).offset == 0
    assert producer.buffered_bytes == 0
    consumer = client.consumer("orders", value_deserializer=Ending())
    with pytest.raises(_End):
        consumer.poll(timeout=PATIENCE_S)
    consumer.close()
    with client.consumer("orders", value_deserializer=JSON) as reader:
        (message,) = reader.poll(timeout=PATIENCE_S)
    assert isinstance(message, Message) and message.value == 1
