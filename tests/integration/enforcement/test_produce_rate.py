"""A tenant's produce rate on real brokers: it holds, nobody else is slowed, and the SDK only goes slower."""

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from penstock import Client
from penstock.contract.errors import ErrorCode
from tests.integration.brokers import Brokers, Tenant
from tests.integration.raw_wire import ProduceWire, batch_of
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

RATE = 1_500_000
WINDOW_S = 5.0
TOLERANCE = 0.10
PLACES = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


class Load:
    """Sends as fast as the client lets it, until told to stop; counts what was acknowledged and when."""

    def __init__(
        self, client: Client, topic: str, size: int, *, batch_bytes: int = 64_000, buffer_bytes: int = 4 << 20
    ) -> None:
        self.acknowledged: list[tuple[float, int]] = []
        self.errors: list[BaseException] = []
        self._topic, self._size = topic, size
        self._producer = client.producer(
            compression="none", linger_ms=5, batch_bytes=batch_bytes, buffer_bytes=buffer_bytes
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        payload, number = os.urandom(self._size), 0
        while not self._stop.is_set():
            delivery = self._producer.send(self._topic, payload, partition=number % 3)
            delivery.add_done_callback(self._done)
            number += 1
        self._producer.flush(PATIENCE_S)

    def _done(self, delivery: Any) -> None:
        error = delivery.exception()
        if error is None:
            self.acknowledged.append((time.monotonic(), self._size))
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

    def bytes_between(self, start: float, end: float) -> int:
        return sum(size for at, size in list(self.acknowledged) if start <= at < end)


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
        with paced.running():
            time.sleep(1.0)
            began = time.monotonic()
            waits = []
            while time.monotonic() - began < WINDOW_S:
                sent = time.monotonic()
                beside.send("free", b"x" * 1_000).result(PATIENCE_S)
                waits.append(time.monotonic() - sent)
                time.sleep(0.01)
            ended = time.monotonic()
        measured = paced.bytes_between(began, ended) / (ended - began)
    middle_ms, worst_ms = sorted(waits)[len(waits) // 2] * 1000, max(waits) * 1000
    throttled_ms = sum(cluster.metric(number, "penstock_throttled_ms_total") for number in cluster.ids)
    record_property("bytes_per_s", round(measured))
    print(
        f"{measured:,.0f} B/s of {RATE:,} allowed; beside it {len(waits)} sends of another tenant, "
        f"p50 {middle_ms:.1f} ms, max {worst_ms:.0f} ms; batches were held {throttled_ms:,.0f} ms in all"
    )
    assert abs(measured - RATE) / RATE < TOLERANCE
    assert throttled_ms > 0
    assert middle_ms < 100 and worst_ms < 5_000


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
        for load in loads:
            opened.enter_context(load.running())
        time.sleep(4.0)
        began = time.monotonic()
        time.sleep(7.0)
        ended = time.monotonic()
        shares = [load.bytes_between(began, ended) / (ended - began) for load in loads]
        refused = sum(cluster.metric(number, "penstock_throttle_refusals_total") for number in cluster.ids)
        cluster.wait_until(
            "each gets through", lambda: all(load.bytes_between(began, math.inf) > 0 for load in loads)
        )
        cluster.admin.put_tenant(tenant.name, generation=2)
    print(
        f"{sum(shares):,.0f} B/s of {RATE:,}: {[f'{share:,.0f}' for share in shares]}, {refused:.0f} refusals"
    )
    assert refused > 0
    assert abs(sum(shares) - RATE) / RATE < 2 * TOLERANCE, "batches of 0.4 MB blur the edges of the window"
    assert not [error for load in loads for error in load.errors]


def test_a_rate_that_is_lifted_lets_the_sender_go_at_once_and_nothing_is_lost(
    cluster: Brokers, tenant: Tenant
) -> None:
    topic_id = cluster.create_topic(tenant, "lifted", 3, assignments=PLACES)
    cluster.admin.wait_until_seen(
        cluster.admin.put_tenant(tenant.name, generation=1, produce_bytes_per_s=30_000)
    )
    with cluster.client(tenant) as client:
        producer = client.producer(compression="none", linger_ms=0, batch_bytes=8_000)
        sent = [producer.send("lifted", os.urandom(1_000), partition=number % 3) for number in range(900)]
        time.sleep(3.0)
        done = sum(delivery.done() for delivery in sent)
        assert 0 < done < 300, "3 s at 30 messages a second, and what was in the first batches"
        cluster.admin.put_tenant(tenant.name, generation=2)
        began = time.monotonic()
        for delivery in sent:
            delivery.result(PATIENCE_S)
        assert time.monotonic() - began < 10
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
        assert wire.produce(topic_id, 0, batch).error == ErrorCode.OK
        refused = wire.produce(topic_id, 0, batch)
        assert refused.error == ErrorCode.THROTTLED
        assert 2_000 < refused.retry_after_ms < 6_000
        assert f"clears in {refused.retry_after_ms} ms" in refused.message
        time.sleep(refused.retry_after_ms / 1000)
        assert wire.produce(topic_id, 0, batch).error == ErrorCode.OK, "the stream goes on"
