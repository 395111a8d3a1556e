"""The blocking SDK over real gRPC, against brokers that can be told to stall, die and refuse."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Client, Consumer
from penstock.client.producing.producer import STALL_MS
from penstock.contract.errors import ErrorCode
from penstock.serializers import TEXT
from tests.integration.sdk.fake_brokers import FakeBrokers
from tests.unit.client.test_truncated_answers import Truncation
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.both_cores

ROOT = Path(__file__).parents[3]

LEFT_FOR_SILENCE_S = STALL_MS / 2_000
"""Half of the time after which a broker is left that owes an answer and says nothing."""


@pytest.fixture
def brokers() -> Iterator[FakeBrokers]:
    with FakeBrokers(api_key="key") as running:
        running.act(lambda cluster: cluster.create("orders", 3))
        yield running


@pytest.fixture
def client(brokers: FakeBrokers) -> Iterator[Client]:
    with Client(bootstrap=brokers.bootstrap, api_key="key") as made:
        yield made


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("penstock")]


def test_what_is_sent_is_read(client: Client) -> None:
    with client.producer() as producer:
        receipt = producer.send("orders", b"one book", key=b"anna", headers=[("shop", b"north")]).result(
            PATIENCE_S
        )
        assert receipt.offset == 0
    with client.consumer(["orders"]) as consumer:
        (message,) = consumer.poll(timeout=PATIENCE_S)
    assert message[:2] == receipt[:2]
    assert (message.key, message.value, message.headers) == (b"anna", b"one book", [("shop", b"north")])


def test_nothing_starts_before_first_use_and_nothing_stays_after_close(brokers: FakeBrokers) -> None:
    before = threads()
    client = Client(bootstrap=brokers.bootstrap, api_key="key")
    producer, consumer = client.producer(), client.consumer("orders")
    assert threads() == before
    producer.send("orders", b"x").result(PATIENCE_S)
    consumer.poll(timeout=PATIENCE_S)
    assert len(threads()) > len(before)
    client.close()
    client.close()
    deadline = time.monotonic() + PATIENCE_S
    while threads() != before and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert threads() == before
    with pytest.raises(penstock.Closed):
        producer.send("orders", b"x")
    with pytest.raises(penstock.Closed):
        consumer.poll()
    with pytest.raises(penstock.Closed):
        client.producer()


def test_closing_a_client_sends_what_lingers(brokers: FakeBrokers) -> None:
    with Client(bootstrap=brokers.bootstrap, api_key="key") as client:
        producer = client.producer(linger_ms=60_000)
        deliveries = [producer.send("orders", b"%d" % number, partition=0) for number in range(3)]
    assert [delivery.result(0).offset for delivery in deliveries] == [0, 1, 2]


def test_acks_0_arrives_although_the_client_closes_at_once(brokers: FakeBrokers) -> None:
    with (
        Client(bootstrap=brokers.bootstrap, api_key="key") as client,
        client.producer(acks=0) as producer,
    ):
        for number in range(100):
            producer.send("orders", b"%d" % number, partition=0)
    arrived = 0
    deadline = time.monotonic() + PATIENCE_S
    while arrived < 100 and time.monotonic() < deadline:
        arrived = brokers.act(lambda cluster: cluster.topics["orders"].partitions[0].next_offset)
    assert arrived == 100


def test_many_messages_of_several_threads_each_keep_their_order(client: Client) -> None:
    with client.producer(batch_messages=100) as producer:

        def send(thread: int) -> None:
            for number in range(2_000):
                producer.send("orders", b"%d:%d" % (thread, number), partition=number % 3)

        senders = [threading.Thread(target=send, args=(thread,)) for thread in range(3)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        producer.flush(PATIENCE_S)
        assert producer.buffered_bytes == 0
    read: list[penstock.Message] = []
    with client.consumer("orders") as consumer:
        while len(read) < 6_000:
            read += consumer.poll(max_messages=1_000, timeout=5)
    for partition in range(3):
        for thread in range(3):
            numbers = [
                int((message.value or b"").split(b":")[1])
                for message in read
                if message.partition == partition and (message.value or b"").startswith(b"%d:" % thread)
            ]
            assert numbers == sorted(numbers)
            assert len(numbers) >= 666


def test_send_many_gives_one_delivery_a_value(client: Client) -> None:
    with client.producer() as producer:
        plain = producer.send_many("orders", [b"%d" % number for number in range(5_000)], partition=1)
        keyed = producer.send_many(
            "orders", [b"a", None, b"c"], keys=[b"k", b"k", None], headers=[("h", b"1")]
        )
        producer.flush(PATIENCE_S)
        assert [delivery.result(0).offset for delivery in plain] == list(range(5_000))
        assert all(delivery.result(0).offset >= 0 for delivery in keyed)
        with pytest.raises(ValueError, match="1 keys for 2 values"):
            producer.send_many("orders", [b"a", b"b"], keys=[b"k"])


def test_what_is_no_message_is_refused_at_the_send_and_harms_nothing(client: Client) -> None:
    with client.producer() as producer:
        nothing: Any = 5
        for wrong in (
            lambda: producer.send("orders", "text"),  # type: ignore[arg-type]
            lambda: producer.send("orders", b"x", key=5),  # type: ignore[arg-type]
            lambda: producer.send("orders", b"x", headers=nothing),
            lambda: producer.send("orders", b"x", partition=nothing.__str__()),
            lambda: producer.send("orders", b"x", timestamp_ms=1.5),  # type: ignore[arg-type]
            lambda: producer.send(nothing, b"x"),
            lambda: producer.send_many("orders", ["text"]),  # type: ignore[list-item]
            lambda: producer.send_many("orders", [b"a"], timestamp_ms="now"),  # type: ignore[arg-type]
            lambda: producer.send_many("orders", b"one value"),  # type: ignore[arg-type]
            lambda: producer.send_many("orders", [b"a"], keys=[5]),  # type: ignore[list-item]
        ):
            with pytest.raises(TypeError, match=r"required|is not a (n|whole n)"):
                wrong()
        sent = producer.send("orders", bytearray(b"a"), key=bytearray(b"k"), headers={"shop": b"north"})
        pairs = (pair for pair in [("shop", b"south")])
        more = producer.send_many("orders", [memoryview(b"b")], keys=[b"k"], headers=pairs)
        assert [delivery.result(PATIENCE_S).offset for delivery in (sent, *more)] == [0, 1]
    with client.consumer("orders") as consumer:
        read: list[penstock.Message] = []
        while len(read) < 2:
            read += consumer.poll(timeout=5)
    assert [(message.value, message.headers) for message in read] == [
        (b"a", [("shop", b"north")]),
        (b"b", [("shop", b"south")]),
    ]


def test_a_serializer_decides_what_a_producer_takes_for_the_checker_of_types_too(client: Client) -> None:
    with client.producer(value_serializer=TEXT) as texts, client.producer(key_serializer=TEXT) as keyed:
        texts.send("orders", "text", key=b"k").result(PATIENCE_S)
        keyed.send("orders", b"x", key="k").result(PATIENCE_S)
        with pytest.raises(penstock.SerializationFailed):
            texts.send("orders", b"x")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="value_serializer=TEXT"):
            keyed.send("orders", "text", key="k")  # type: ignore[arg-type]


def test_batches_come_in_columns_and_in_arrow(client: Client) -> None:
    with client.producer() as producer:
        producer.send_many("orders", [b"%d" % number for number in range(100)], partition=0, timestamp_ms=5)
        producer.flush(PATIENCE_S)
    with client.consumer("orders") as consumer:
        (batch,) = consumer.poll_batches(timeout=PATIENCE_S)
    assert (batch.topic, batch.partition, len(batch)) == ("orders", 0, 100)
    assert batch.values[99] == b"99"
    assert list(batch.offsets) == list(range(100))
    assert batch.timestamps_ms[0] == 5
    table = batch.to_arrow()
    assert table.num_rows == 100
    assert table.column("value")[99].as_py() == b"99"


def test_a_callback_comes_once_and_its_failure_harms_nobody(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []
    with client.producer() as producer:
        first, second = (producer.send("orders", value, partition=0) for value in (b"a", b"b"))

        def fail(delivery: penstock.Delivery) -> None:
            raise RuntimeError("the callback's own fault")

        first.add_done_callback(fail)
        second.add_done_callback(lambda delivery: seen.append(delivery.result(0).offset))
        producer.flush(PATIENCE_S)
        assert seen == [1]
        second.add_done_callback(lambda delivery: seen.append(-1))
        assert seen == [1, -1], "what is done calls back at once"
    assert "the callback's own fault" in caplog.text


def test_iteration_goes_on_over_polls(client: Client) -> None:
    with client.producer(batch_messages=10) as producer:
        producer.send_many("orders", [b"%d" % number for number in range(50)], partition=2)
        producer.flush(PATIENCE_S)
    with client.consumer("orders") as consumer:
        iterator = iter(consumer)
        assert [next(iterator).value for _ in range(50)] == [b"%d" % number for number in range(50)]


def test_positions_are_told_and_moved(client: Client) -> None:
    with client.producer() as producer:
        producer.send_many(
            "orders", [b"%d" % number for number in range(10)], partition=0, timestamp_ms=1_000
        )
        producer.send("orders", b"late", partition=0, timestamp_ms=9_000)
        producer.flush(PATIENCE_S)

    def polled(count: int) -> list[penstock.Message]:
        """The last one may come in a batch of its own."""
        found: list[penstock.Message] = []
        while len(found) < count:
            more = consumer.poll(timeout=PATIENCE_S)
            assert more, f"{len(found)} of {count}"
            found += more
        return found

    with client.consumer("orders") as consumer:
        assert consumer.assignment() == [("orders", 0), ("orders", 1), ("orders", 2)]
        assert consumer.end_offsets() == {("orders", 0): 11, ("orders", 1): 0, ("orders", 2): 0}
        assert consumer.beginning_offsets()["orders", 0] == 0
        assert consumer.position("orders", 0) == 0
        consumer.seek("orders", 0, timestamp_ms=5_000)
        assert [message.value for message in consumer.poll(timeout=PATIENCE_S)] == [b"late"]
        assert consumer.position("orders", 0) == 11
        consumer.seek("orders", to="beginning")
        assert len(polled(11)) == 11
        consumer.seek("orders", 0, offset=9)
        assert [message.offset for message in polled(2)] == [9, 10]
        consumer.seek("orders", to="end")
        assert consumer.poll(timeout=0.2) == []
        consumer.pause("orders", 0)
        consumer.seek("orders", 0, offset=0)
        assert consumer.poll(timeout=0.2) == []
        consumer.resume("orders", 0)
        assert len(polled(11)) == 11
        with pytest.raises(penstock.NotFound, match="orders-7: not read by this consumer"):
            consumer.seek("orders", 7, offset=0)
        with pytest.raises(penstock.ConfigurationError, match="commit: needs a consumer group"):
            consumer.commit()


def test_topics_and_brokers_are_described(client: Client, brokers: FakeBrokers) -> None:
    brokers.act(lambda cluster: cluster.create("bills", 1, max_message_bytes=5))
    assert [topic.name for topic in client.topics()] == ["bills", "orders"]
    topic = client.topic("bills")
    assert topic.settings == {"max_message_bytes": 5}
    assert (topic.partitions[0].leader, topic.partitions[0].leader_epoch) == (0, 1)
    assert [broker.address for broker in client.brokers()] == brokers.bootstrap
    with pytest.raises(penstock.NotFound, match="nowhere"):
        client.topic("nowhere")


def test_a_description_that_cannot_be_read_is_asked_for_again(client: Client, brokers: FakeBrokers) -> None:
    truncation = brokers.act(lambda cluster: Truncation(cluster, "Metadata"))
    assert [topic.name for topic in client.topics()] == ["orders"]
    assert truncation.left == 0


def planted(*_: object) -> None:
    raise RuntimeError("planted")


@pytest.mark.pure  # it plants a mistake into a compiled object
def test_a_mistake_of_ours_in_an_answer_stops_the_client_and_says_so(
    brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(bootstrap=brokers.bootstrap, api_key="key") as client:
        client.topics()
        monkeypatch.setattr(client._runtime.core, "call_answered", planted)
        for _ in range(2):
            with pytest.raises(penstock.Closed, match=r"internal error.*planted"):
                client.topics(timeout=60)


@pytest.mark.pure  # likewise
def test_a_client_says_that_it_stopped_also_where_what_broke_cannot_be_closed(
    brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(bootstrap=brokers.bootstrap, api_key="key") as client:
        client.topics()
        with monkeypatch.context() as broken:
            broken.setattr(client._runtime.core, "call_answered", planted)
            broken.setattr(client._runtime.core, "close", planted)
            with ThreadPoolExecutor(1) as asking:
                asked = asking.submit(client.topics, timeout=10 * PATIENCE_S)
                refused = asked.exception(PATIENCE_S)
        assert isinstance(refused, penstock.Closed) and "planted" in refused.message


def test_an_interrupt_does_not_wait_for_what_cannot_be_sent(brokers: FakeBrokers) -> None:
    began = time.monotonic()
    with (
        pytest.raises(KeyboardInterrupt),
        Client(bootstrap=brokers.bootstrap, api_key="key") as client,
        client.producer() as producer,
    ):
        producer.send("orders", b"a", partition=0).result(PATIENCE_S)
        brokers.act(lambda cluster: cluster.silent.update({0: None}))
        stuck = producer.send("orders", b"b", partition=0)
        raise KeyboardInterrupt
    assert time.monotonic() - began < 60
    error = stuck.exception(0)
    assert error is not None


class Interrupted(Exception):
    """What an interrupt raises, wherever the program is."""


def interrupt(*_: object) -> None:
    raise Interrupted


def test_an_interrupt_in_the_middle_of_a_send_leaves_the_client_usable(client: Client) -> None:
    producer = client.producer()
    producer.send("orders", b"first", partition=0).result(PATIENCE_S)
    lock = client._runtime.lock
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(200):
            with contextlib.suppress(Interrupted):
                signal.setitimer(signal.ITIMER_REAL, 0.0002)
                while True:
                    producer.send("orders", b"more", partition=0)
            free = lock.acquire(timeout=30)
            lock.release()
            assert free, "a send was left with the lock taken"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    producer.close(timeout=0)
    assert client.topics(timeout=PATIENCE_S)


class InterruptedAt:
    """Decodes values, and is interrupted once, at the message of that number; or right after it, in `wake`."""

    content_type = ""

    def __init__(self, number: int) -> None:
        self.seen = 0
        self.number = number
        self.armed = True

    def serialize(self, value: bytes) -> bytes:
        return value

    def deserialize(self, data: bytes) -> bytes:
        self.seen += 1
        self.interrupt()
        return data

    def interrupt(self) -> None:
        if self.armed and self.seen >= self.number:
            self.armed = False
            raise KeyboardInterrupt


@pytest.mark.parametrize("number", [1, 5, 9])
def test_a_poll_that_is_interrupted_while_it_decodes_loses_nothing(client: Client, number: int) -> None:
    with client.producer(batch_messages=3) as producer:
        producer.send_many("orders", [b"%d" % n for n in range(9)], partition=0)
    with client.consumer("orders", value_deserializer=InterruptedAt(number)) as consumer:
        assert nine_messages(consumer) == [b"%d" % n for n in range(9)]


def test_a_poll_that_is_interrupted_before_it_returns_loses_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client.producer(batch_messages=3) as producer:
        producer.send_many("orders", [b"%d" % n for n in range(9)], partition=0)
    values = InterruptedAt(1)
    wake = client._runtime.wake
    with client.consumer("orders", value_deserializer=values) as consumer:
        values.seen = -1_000

        def wake_interrupted() -> None:
            wake()
            if values.seen > -1_000 and threading.current_thread() is threading.main_thread():
                values.seen = 1
                values.interrupt()

        monkeypatch.setattr(client._runtime, "wake", wake_interrupted)
        assert nine_messages(consumer) == [b"%d" % n for n in range(9)]
    assert not values.armed


def nine_messages(consumer: Consumer) -> list[bytes | None]:
    """What polls return, of which one is interrupted."""
    found: list[bytes | None] = []
    interrupts = 0
    while len(found) < 9:
        try:
            polled = consumer.poll(timeout=PATIENCE_S)
        except KeyboardInterrupt:
            interrupts += 1
            continue
        assert polled
        found += [message.value for message in polled]
    assert interrupts == 1
    return found


# ---- faults -------------------------------------------------------------------------------------------------


def test_a_killed_leader_is_replaced_without_an_error(client: Client, brokers: FakeBrokers) -> None:
    with client.producer(batch_messages=1) as producer, client.consumer("orders") as consumer:
        first = [producer.send("orders", b"%d" % number, partition=0) for number in range(20)]
        first[-1].result(PATIENCE_S)
        brokers.kill(0)
        rest = [producer.send("orders", b"%d" % number, partition=0) for number in range(20, 40)]
        offsets = [delivery.result(PATIENCE_S).offset for delivery in first + rest]
        assert offsets == list(range(40))
        read: list[penstock.Message] = []
        while len(read) < 40:
            found = consumer.poll(timeout=PATIENCE_S)
            assert found, f"only {len(read)} of 40 read"
            read += found
    assert [message.value for message in read] == [b"%d" % number for number in range(40)]


def test_a_silent_leader_is_left_as_soon_as_another_broker_says_so(
    client: Client, brokers: FakeBrokers
) -> None:
    with client.producer() as producer:
        producer.send("orders", b"a", partition=0).result(PATIENCE_S)
        brokers.act(lambda cluster: cluster.silent.update({0: None}))
        delivery = producer.send("orders", b"b", partition=0)
        with pytest.raises(penstock.TimedOut, match="still under way"):
            delivery.result(0.3)
        brokers.act(lambda cluster: cluster.unregister(0))
        assert delivery.result(LEFT_FOR_SILENCE_S).offset == 1


def test_a_refusal_is_retried_and_a_final_one_raised(client: Client, brokers: FakeBrokers) -> None:
    with client.producer() as producer:
        brokers.act(lambda cluster: cluster.refusals.append((ErrorCode.NOT_ENOUGH_REPLICAS, "wait")))
        assert producer.send("orders", b"a", partition=0).result(PATIENCE_S).offset == 0
        brokers.act(lambda cluster: cluster.refusals.append((ErrorCode.FORBIDDEN, "orders: not yours")))
        delivery = producer.send("orders", b"b", partition=0)
        with pytest.raises(penstock.Forbidden, match="orders: not yours"):
            delivery.result(PATIENCE_S)
        error = delivery.exception()
        assert isinstance(error, penstock.Forbidden)
        assert error.belief is penstock.Belief.NOT_APPLIED
        assert producer.failed_count == 1
        assert producer.send("orders", b"c", partition=0).result(PATIENCE_S).offset == 1


def test_a_wrong_key_is_said_at_once(brokers: FakeBrokers) -> None:
    with Client(bootstrap=brokers.bootstrap, api_key="wrong") as client:
        with client.producer() as producer, pytest.raises(penstock.Unauthenticated, match="not valid"):
            producer.send("orders", b"x")
        with client.consumer("orders") as consumer, pytest.raises(penstock.Unauthenticated):
            consumer.poll(timeout=PATIENCE_S)
        with pytest.raises(penstock.Unauthenticated):
            client.topics()


def test_with_all_brokers_down_the_error_names_them_and_what_to_do() -> None:
    with Client(bootstrap=["127.0.0.1:1", "127.0.0.1:2"], api_key="key") as client:
        producer = client.producer(max_block_ms=700)
        with pytest.raises(penstock.BrokerUnavailable) as caught:
            producer.send("orders", b"x")
        for part in ("127.0.0.1:1", "127.0.0.1:2", "bootstrap", "orders"):
            assert part in caught.value.message
        with pytest.raises(penstock.BrokerUnavailable, match=r"127\.0\.0\.1:1"):
            client.topics(timeout=0.5)
        with client.consumer("orders") as consumer, pytest.raises(penstock.BrokerUnavailable):
            consumer.poll(timeout=1)
        with client.consumer("orders") as consumer:
            assert consumer.poll(timeout=0.3) == []
            with pytest.raises(penstock.BrokerUnavailable, match="orders"):
                for _ in range(5):
                    consumer.poll(timeout=0.3)


def test_a_full_buffer_blocks_then_fails(client: Client, brokers: FakeBrokers) -> None:
    with client.producer(buffer_bytes=10_000, max_block_ms=1_500, batch_messages=1) as producer:
        producer.send("orders", b"x", partition=0).result(PATIENCE_S)
        brokers.act(lambda cluster: cluster.silent.update({0: None}))
        for _ in range(9):
            producer.send("orders", bytes(1_000), partition=0)
        began = time.monotonic()
        with pytest.raises(penstock.BufferFull, match="buffer_bytes=10000"):
            producer.send("orders", bytes(1_000), partition=0)
        assert time.monotonic() - began >= 1.4
        brokers.act(lambda cluster: cluster.unregister(0))


def test_a_send_into_a_full_buffer_goes_on_when_there_is_room(client: Client, brokers: FakeBrokers) -> None:
    with client.producer(buffer_bytes=10_000, max_block_ms=PATIENCE_S * 1000, batch_messages=1) as producer:
        producer.send("orders", b"x", partition=0).result(PATIENCE_S)
        brokers.act(lambda cluster: cluster.silent.update({0: None}))
        for _ in range(9):
            producer.send("orders", bytes(1_000), partition=0)
        timer = threading.Timer(0.1, lambda: brokers.act(lambda cluster: cluster.unregister(0)))
        timer.start()
        waited = producer.send("orders", bytes(1_000), partition=0)
        assert waited.result(PATIENCE_S).offset == 10
        timer.join()


def test_every_request_carries_an_id(client: Client, brokers: FakeBrokers) -> None:
    client.topics()
    client.topics()
    assert all(len(request) == 16 for request in brokers.request_ids)
    assert len(set(brokers.request_ids)) == len(brokers.request_ids)


def test_a_key_is_never_sent_in_plaintext_beyond_this_machine() -> None:
    for bootstrap in ("192.0.2.1:7461", "broker.example:7461"):
        with Client(bootstrap=bootstrap, api_key="key") as client:
            with (
                client.producer() as producer,
                pytest.raises(penstock.ConfigurationError, match="set ca_file"),
            ):
                producer.send("orders", b"x")
            with pytest.raises(penstock.ConfigurationError, match="without TLS"):
                client.topics()


def test_an_advertised_address_elsewhere_is_refused_likewise(client: Client, brokers: FakeBrokers) -> None:
    def advertise(cluster: object) -> None:
        for broker in brokers.cluster.registered:
            brokers.cluster.registered[broker] = f"192.0.2.{broker}:7461"

    brokers.act(advertise)
    with client.producer() as producer:
        delivery = producer.send("orders", b"x", partition=0)
        with pytest.raises(penstock.ConfigurationError, match=r"192\.0\.2\.\d:7461: not on this machine"):
            delivery.result(PATIENCE_S)


def test_a_client_used_after_a_fork_says_so(brokers: FakeBrokers) -> None:
    command = [sys.executable, "-m", "tests.integration.sdk.forking", ",".join(brokers.bootstrap), "key"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout.splitlines() == [
        "child: " + ",".join(["UsedAfterFork"] * 7),
        "exit: 0",
        "parent: 1",
    ], done.stderr


def test_clients_made_before_a_fork_and_not_used_yet_work_in_every_process(brokers: FakeBrokers) -> None:
    command = [sys.executable, "-m", "tests.integration.sdk.forking_unused", ",".join(brokers.bootstrap)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout.splitlines() == [
        "child 0 0 0 1",
        "exit 0",
        "child 1 2 0 3",
        "exit 0",
        "parent 4 0 5",
        "client: used before os.fork(), so its connections are the parent's; a new one fails as well, since grpc does"
        " not survive that: start the process by spawn, or fork before the first use of any client",
    ], done.stderr
