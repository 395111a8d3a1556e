"""A tenant's produce rate on real brokers: it holds, nobody else is slowed, and the SDK only goes slower."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Any

import pytest

from data_plane.throttling.pacing import BURST_MS
from penstock import Client
from penstock.contract.errors import ErrorCode, LimitExceeded
from penstock.rules.budgets import MONTH, PARTS, REFUSE_PRODUCE, SLOW, Budget
from tests.integration.brokers import Brokers, Tenant
from tests.integration.raw_wire import ProduceWire, batch_of
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.processes

RATE = 1_500_000
WINDOW_BYTES = 6 * RATE
PLACES = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


class Load:
    """Sends as fast as the client lets it, until told to stop; counts what was acknowledged and when."""

    def __init__(
        self, client: Client, topic: str, size: int, *, batch_bytes: int = 64_000, buffer_bytes: int = 4 << 20
    ) -> None:
        self.acknowledged: list[tuple[float, int]] = []
        self.waits: list[float] = []
        """Seconds from a message's send to its acknowledgement."""
        self.errors: list[BaseException] = []
        self._topic = topic
        self._size = size
        self._producer = client.producer(
            compression="none", linger_ms=5, batch_bytes=batch_bytes, buffer_bytes=buffer_bytes
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        payload, number = os.urandom(self._size), 0
        while not self._stop.is_set():
            delivery = self._producer.send(self._topic, payload, partition=number % 3)
            delivery.add_done_callback(partial(self._done, time.monotonic()))
            number += 1
        self._producer.flush(PATIENCE_S)

    def _done(self, sent: float, delivery: Any) -> None:
        error = delivery.exception()
        if error is None:
            now = time.monotonic()
            self.waits.append(now - sent)
            self.acknowledged.append((now, self._size))
        else:
            self.errors.append(error)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(PATIENCE_S)

    def bytes(self) -> int:
        return sum(size for _, size in list(self.acknowledged))


def never_above_the_rate(loads: Sequence[Load], began: float, batch_bytes: int) -> None:
    """At no time since `began` has more passed than the rate allows, a short burst and two batches a broker.

    A slow machine makes it less and never more. That no less passes is shown exactly on a clock of its own
    (tests/unit/throttling/test_pacing.py), and here for the best second.
    """
    passed = 0
    for at, size in sorted(each for load in loads for each in load.acknowledged):
        passed += size
        assert passed <= RATE * (at - began + BURST_MS / 1000) + 3 * 2 * batch_bytes, (
            f"after {at - began:.2f} s"
        )


def best_second(load: Load) -> int:
    """The most bytes that were acknowledged within one second."""
    acknowledged, most, first, within = sorted(load.acknowledged), 0, 0, 0
    for at, size in acknowledged:
        within += size
        while acknowledged[first][0] <= at - 1.0:
            within -= acknowledged[first][1]
            first += 1
        most = max(most, within)
    return most


def test_the_rate_holds_over_all_brokers_and_another_tenant_is_not_slowed(
    cluster: Brokers, tenant: Tenant, record_property: Callable[[str, object], None]
) -> None:
    other = cluster.tenant(f"{tenant.name}other")
    cluster.create_topic(tenant, "paced", 3, assignments=PLACES)
    cluster.create_topic(other, "free", 3, assignments=PLACES)
    cluster.admin.wait_until_seen(
        cluster.admin.put_tenant(tenant.name, generation=1, produce_bytes_per_s=RATE)
    )
    with cluster.client(tenant) as slow, cluster.client(other) as fast:
        paced = Load(slow, "paced", 1_000)
        beside = fast.producer(linger_ms=0)
        waits = []

        def sent_beside() -> bool:
            sent = time.monotonic()
            beside.send("free", b"x" * 1_000).result(PATIENCE_S)
            waits.append(time.monotonic() - sent)
            return paced.bytes() >= WINDOW_BYTES

        began = time.monotonic()
        with paced.running():
            cluster.wait_until("the window's bytes are acknowledged", sent_beside)
            ended = time.monotonic()
            cluster.admin.put_tenant(tenant.name, generation=2)
    paced.acknowledged[:] = [each for each in paced.acknowledged if each[0] <= ended]
    throttled_ms = sum(cluster.metric(number, "penstock_throttled_ms_total") for number in cluster.ids)
    record_property("bytes_per_s", round(paced.bytes() / (ended - began)))
    print(
        f"{paced.bytes() / (ended - began):,.0f} B/s of {RATE:,} allowed, each message acknowledged after"
        f" {median(paced.waits) * 1000:.0f} ms; {len(waits)} of another tenant after {median(waits) * 1000:.1f} ms;"
        f" batches were held {throttled_ms:,.0f} ms in all"
    )
    never_above_the_rate([paced], began, 64_000)
    assert best_second(paced) > 0.6 * RATE
    assert not paced.errors
    assert throttled_ms > 0
    assert median(waits) < median(paced.waits) / 4


def test_many_senders_of_large_batches_share_the_rate_and_each_gets_through(
    cluster: Brokers, tenant: Tenant
) -> None:
    """Their batches want many times what may be held, so most are refused at first and come back when told."""
    cluster.create_topic(tenant, "shared", 3, assignments=PLACES)
    cluster.admin.wait_until_seen(
        cluster.admin.put_tenant(tenant.name, generation=1, produce_bytes_per_s=RATE)
    )
    with ExitStack() as opened:
        loads = []
        for _ in range(4):
            client = opened.enter_context(cluster.client(tenant))
            loads.append(Load(client, "shared", 20_000, batch_bytes=400_000, buffer_bytes=16 << 20))
        began = time.monotonic()
        for load in loads:
            opened.enter_context(load.running())
        cluster.wait_until(
            "each gets through, and together they reach the window's bytes",
            lambda: (
                all(load.acknowledged for load in loads)
                and sum(load.bytes() for load in loads) >= 2 * WINDOW_BYTES
            ),
        )
        never_above_the_rate(loads, began, 400_000)
        refused = sum(cluster.metric(number, "penstock_throttle_refusals_total") for number in cluster.ids)
        cluster.admin.put_tenant(tenant.name, generation=2)
    print(f"{[f'{load.bytes():,.0f}' for load in loads]} bytes, {refused:.0f} refusals")
    assert refused > 0
    assert not [error for load in loads for error in load.errors]


def test_a_rate_that_is_lifted_lets_the_sender_go_at_once_and_nothing_is_lost(
    cluster: Brokers, tenant: Tenant
) -> None:
    """At the old rate they would take longer than any wait of tests."""
    rate = 20_000
    count = int(1.5 * PATIENCE_S * rate / 1_000)
    topic_id = cluster.create_topic(tenant, "lifted", 3, assignments=PLACES)
    cluster.admin.wait_until_seen(
        cluster.admin.put_tenant(tenant.name, generation=1, produce_bytes_per_s=rate)
    )
    with cluster.client(tenant) as client:
        producer = client.producer(compression="none", linger_ms=0, batch_bytes=8_000)
        sent = [producer.send("lifted", os.urandom(1_000), partition=number % 3) for number in range(count)]
        cluster.wait_until("some have passed", lambda: sum(delivery.done() for delivery in sent) > 20)
        assert not all(delivery.done() for delivery in sent)
        cluster.admin.put_tenant(tenant.name, generation=2)
        deadline = time.monotonic() + PATIENCE_S
        for delivery in sent:
            delivery.result(max(0.0, deadline - time.monotonic()))
        with client.consumer(["lifted"]) as consumer:
            assert sum(consumer.end_offsets().values()) == len(sent), "no duplicate, no loss"
    assert topic_id


def test_a_batch_whose_turn_is_too_far_away_is_refused_with_when_to_come_back(
    cluster: Brokers, tenant: Tenant
) -> None:
    topic_id = cluster.create_topic(tenant, "refused", 1, assignments=PLACES[:1])
    cluster.admin.wait_until_seen(
        cluster.admin.put_tenant(tenant.name, generation=1, produce_bytes_per_s=10_000)
    )
    address = cluster.spec.broker(1).client_address
    with ProduceWire(address, tenant.api_key) as wire:
        batch = batch_of(os.urandom(60_000))
        (first,), (second,) = wire.put([(topic_id, 0, batch)]), wire.put([(topic_id, 0, batch)])
        results = wire.results(2)
        assert results[first].error == ErrorCode.OK
        refused = results[second]
        assert refused.error == ErrorCode.THROTTLED
        assert 2_000 < refused.retry_after_ms < 6_000
        assert f"clears in {refused.retry_after_ms} ms" in refused.message
        time.sleep(refused.retry_after_ms / 1000)
        assert wire.produce(topic_id, 0, batch).error == ErrorCode.OK, "the stream goes on"


def test_a_budget_stops_its_tenant_at_three_brokers_and_a_higher_amount_lets_it_go_on(
    cluster: Brokers, tenant: Tenant
) -> None:
    """How exactly it stops is shown on a clock of its own (tests/unit/leases, tests/simulation), and measured by
    `make bench`."""
    cluster.create_topic(tenant, "budgeted", 3, assignments=PLACES)

    def give(amount: int) -> None:
        budget = Budget(
            budget_id="bud_1",
            name="prod",
            period=MONTH,
            amount=amount,
            unit="messages",
            policy=REFUSE_PRODUCE,
            message_in=PARTS,
        )
        cluster.admin.wait_until_seen(cluster.admin.put_tenant(tenant.name, budgets=[budget]))

    give(300)
    acknowledged = 0
    try:
        with cluster.client(tenant) as client, client.producer(linger_ms=0) as producer:
            said = ""

            def refused() -> bool:
                nonlocal acknowledged, said
                for partition in range(3):
                    try:
                        producer.send("budgeted", b"x", partition=partition).result(PATIENCE_S)
                        acknowledged += 1
                    except LimitExceeded as refusal:
                        said = refusal.message
                return bool(said)

            wait_until("the budget stops the tenant", refused)
            assert "budget 'prod'" in said and "raises it" in said
            assert 200 < acknowledged <= 303
            give(10_000)
            producer.send("budgeted", b"raised", partition=0).result(PATIENCE_S)
    finally:
        cluster.admin.put_tenant(tenant.name, produce_bytes_per_s=0)


def test_a_budget_slows_its_topic_and_no_other_of_the_same_producer(cluster: Brokers, tenant: Tenant) -> None:
    """That what waits keeps its order and is bounded is shown on a clock of its own
    (tests/unit/node/serving/test_topic_rates.py)."""
    for topic in ("slowed", "free"):
        cluster.create_topic(tenant, topic, 1, assignments=PLACES[:1])
    rate, amount = 50_000, 100_000
    budget = Budget(
        budget_id="bud_2",
        name="slow",
        period=MONTH,
        amount=amount,
        unit="bytes",
        policy=SLOW,
        slow_bytes_per_s=rate,
        topic="slowed",
        byte_in=PARTS,
        byte_out=PARTS,
    )
    cluster.admin.wait_until_seen(cluster.admin.put_tenant(tenant.name, budgets=[budget]))
    passed, delayed, stop = list[float](), list[int](), threading.Event()
    try:
        with (
            cluster.client(tenant) as client,
            client.producer(
                linger_ms=5, compression="none", batch_bytes=8_000, buffer_bytes=1 << 20
            ) as producer,
        ):

            def done(delivery: Any) -> None:
                if delivery.exception() is None:
                    passed.append(time.monotonic())
                    delayed.append(delivery.throttled_ms)

            def flood() -> None:
                while not stop.is_set():
                    producer.send("slowed", os.urandom(1_000)).add_done_callback(done)

            thread = threading.Thread(target=flood)
            thread.start()
            wait_until("the budget slows its topic", lambda: any(delayed))
            began, waits = time.monotonic(), list[float]()
            while time.monotonic() < began + 4.0:
                sent = time.monotonic()
                producer.send("free", b"x").result(PATIENCE_S)
                waits.append(time.monotonic() - sent)
            slowed = sum(at >= began for at in passed) * 1_000
            stop.set()
            thread.join()
            producer.close(0)
            read, free_within_s, began = 0, 0.0, time.monotonic()
            with client.consumer(["slowed", "free"]) as consumer:
                while time.monotonic() < began + 3.0:
                    messages = list(consumer.poll(max_messages=1_000, timeout=0.2))
                    read += sum(
                        len(message.value or b"") for message in messages if message.topic == "slowed"
                    )
                    if any(message.topic == "free" for message in messages):
                        free_within_s = time.monotonic() - began
        assert 0 < read < 3.0 * rate * 1.3 + 20_000, "its reads go at that rate, too"
        assert free_within_s, "and those of the other topic do not wait for them"
        assert slowed < 4.0 * rate * 1.3 + 16_000, "the topic goes at the rate of the budget"
        assert sorted(waits)[len(waits) // 2] < 1.0, (
            "and the other one as ever, with the same producer and buffer"
        )
    finally:
        cluster.admin.put_tenant(tenant.name, produce_bytes_per_s=0)
    print(f"{read / 3:.0f} B/s read and {slowed / 4:.0f} B/s taken of {rate}")
    print(f"{len(waits)} of the other topic, the slowest {max(waits):.3f} s")
