"""A tenant's consume rate on real brokers: it is reached and kept by one partition and by three, and no one else is
slowed. And its rate of requests, its limit of processor time, and how fast its connections begin."""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc
import pytest

from data_plane.node.leasing.pacing import FLOOR
from data_plane.node.serving.read_turns import READ_MS
from data_plane.throttling.pacing import BURST_MS
from penstock import Client
from penstock.contract import methods
from penstock.contract.errors import ErrorCode, Throttled
from penstock.rules.principal_limits import PrincipalLimits
from tests.integration.brokers import Brokers, Tenant
from tests.integration.raw_wire import with_key
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.processes

RATE = 1_500_000
MESSAGE_BYTES, BATCH_BYTES = 1_000, 16_000
SETTLED_S, WINDOW_S = 2.0, 5.0
TRIES = 4
PLACES = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
FILLED_BYTES = int(RATE * (SETTLED_S + 2 * WINDOW_S))


class Reader:
    """Reads a topic from its beginning, as fast as it is given."""

    def __init__(self, client: Client, topic: str) -> None:
        self.read: list[tuple[float, int]] = []
        self._client = client
        self._topic = topic

    def run(self, size: int) -> None:
        with self._client.consumer([self._topic]) as consumer:
            self.began = time.monotonic()
            while self.bytes < size:
                messages = consumer.poll(max_messages=1_000, timeout=PATIENCE_S)
                assert messages, f"nothing came after {self.bytes:,} bytes"
                self.read.append((time.monotonic(), sum(len(message.value or b"") for message in messages)))

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.read)

    def between(self, first_s: float, last_s: float) -> float:
        """Bytes a second in that part of its time."""
        passed = sum(size for at, size in self.read if first_s <= at - self.began < last_s)
        return passed / (last_s - first_s)


@contextmanager
def consume_rate(cluster: Brokers, tenant: Tenant, bytes_per_s: int) -> Iterator[None]:
    """The tenant has this rate, and afterwards none."""
    known = cluster.admin.put_tenant(tenant.name, consume_bytes_per_s=bytes_per_s)
    cluster.admin.wait_until_seen(known)
    try:
        yield
    finally:
        cluster.admin.put_tenant(tenant.name, consume_bytes_per_s=0)


def fill(client: Client, topic: str, partitions: int, size: int = FILLED_BYTES) -> None:
    with client.producer(compression="none", batch_bytes=BATCH_BYTES) as producer:
        payload = os.urandom(MESSAGE_BYTES)
        for number in range(size // MESSAGE_BYTES):
            producer.send(topic, payload, partition=number % partitions)
        producer.flush(PATIENCE_S)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 3])
def test_the_rate_is_reached_within_two_seconds_and_never_exceeded(
    cluster: Brokers, tenant: Tenant, partitions: int, record_property: Callable[[str, object], None]
) -> None:
    """A slow machine makes it less and never more: of a few tries one has a window within a twentieth. That none is
    below is shown on a clock of its own (tests/simulation/test_consume_rate.py)."""
    cluster.create_topic(tenant, "read", partitions, assignments=PLACES[:partitions])
    with cluster.client(tenant) as client:
        fill(client, "read", partitions)
        with consume_rate(cluster, tenant, RATE):
            windows: list[float] = []
            while not windows or (max(windows) < 0.95 * RATE and len(windows) < 2 * TRIES):
                reader = Reader(client, "read")
                reader.run(int(RATE * (SETTLED_S + 1.8 * WINDOW_S)))
                never_above_the_rate(reader)
                starts = (SETTLED_S, SETTLED_S + 0.75 * WINDOW_S)
                windows += [reader.between(first, first + WINDOW_S) for first in starts]
    throttled_ms = sum(
        cluster.metric(number, "penstock_consume_throttled_ms_total") for number in cluster.ids
    )
    record_property("bytes_per_s", [round(window) for window in windows])
    print(f"{partitions} partitions: {windows[0]:,.0f} and {windows[1]:,.0f} B/s of {RATE:,}")
    assert max(windows) >= 0.95 * RATE
    assert throttled_ms > 0


def never_above_the_rate(reader: Reader) -> None:
    passed = 0
    for at, size in reader.read:
        passed += size
        spare_ms = BURST_MS + READ_MS
        most = RATE * (1 + 1 / FLOOR) * (at - reader.began + spare_ms / 1000) + 3 * 2 * BATCH_BYTES
        assert passed <= most, f"{passed:,} bytes after {at - reader.began:.2f} s"


def test_a_consumer_of_another_tenant_is_not_slowed_and_a_limit_that_ends_lets_go_at_once(
    cluster: Brokers, tenant: Tenant
) -> None:
    """At the rate what is read would take longer than any wait of tests."""
    other = cluster.tenant(f"{tenant.name}other")
    size = 2_000_000
    for each in (tenant, other):
        cluster.create_topic(each, "read", 3, assignments=PLACES)
        with cluster.client(each) as client:
            fill(client, "read", 3, size)
    with cluster.client(tenant) as slow, cluster.client(other) as fast:
        with consume_rate(cluster, tenant, int(size / PATIENCE_S / 4)):
            delayed = Reader(slow, "read")
            delayed.run(MESSAGE_BYTES)
            Reader(fast, "read").run(size)
            assert delayed.bytes < size / 2
        delayed.run(size)


REQUESTS = 40


def test_above_the_rate_of_requests_calls_are_refused_by_name_and_a_producer_only_goes_slower(
    cluster: Brokers, tenant: Tenant
) -> None:
    cluster.create_topic(tenant, "asked", 1, assignments=PLACES[:1])
    known = cluster.admin.put_tenant(tenant.name, generation=1, requests_per_s=REQUESTS)
    cluster.admin.wait_until_seen(known)
    address = cluster.bootstrap[0]
    with cluster.client(tenant) as client, client.producer(linger_ms=0) as producer:
        producer.send("asked", b"first").result(PATIENCE_S)
        began = time.monotonic()
        for number in range(2 * REQUESTS):
            producer.send("asked", str(number).encode()).result(PATIENCE_S)
        passed_s = time.monotonic() - began
        least_s = (2 - BURST_MS / 1000) / (1 + 1 / FLOOR) - 2 / REQUESTS
        assert passed_s >= least_s, "each message was a frame"
        known = cluster.admin.put_tenant(tenant.name, generation=2, requests_per_s=4)
        cluster.admin.wait_until_seen(known)
        refused = flooded(address, tenant)
        assert {code for code, _ in refused} == {ErrorCode.THROTTLED}, refused
        assert all(
            "requests_per_s: the tenant may use 4 a second over all brokers" in said for _, said in refused
        )
        assert all(re.search(r" is all used; clears in \d+ ms", said) for _, said in refused)
        cluster.admin.put_tenant(tenant.name, generation=3)
        producer.send("asked", b"last").result(PATIENCE_S)
    counted = f'penstock_limit_refusals_total{{limit="requests_per_s",tenant="{tenant.name}"}} '
    assert any(counted in cluster.http(number, "/metrics")[1] for number in cluster.ids)


def test_a_service_account_is_kept_to_its_own_rates_with_a_key_made_later_and_others_are_not(
    cluster: Brokers, tenant: Tenant
) -> None:
    cluster.create_topic(tenant, "shared", 1, assignments=PLACES[:1])
    bounded = PrincipalLimits(produce_bytes_per_s=40_000, requests_per_s=4)
    known = cluster.admin.put_tenant(
        tenant.name, generation=1, requests_per_s=2_000, principals={"service_account:sa_robot": bounded}
    )
    cluster.admin.wait_until_seen(known)
    robot = cluster.another_key(tenant.name, owner="service_account:sa_robot")
    other = cluster.another_key(tenant.name, owner="service_account:sa_other")
    address = cluster.bootstrap[0]
    refused = flooded(address, robot)
    assert {code for code, _ in refused} == {ErrorCode.THROTTLED}, refused
    assert all("requests_per_s: principal sa_robot may use 4 a second" in said for _, said in refused), (
        refused
    )
    with pytest.raises(AssertionError, match="none was refused"):
        flooded(address, other)
    counted = f'penstock_limit_refusals_total{{limit="principal:requests_per_s",tenant="{tenant.name}"}} '
    assert any(counted in cluster.http(number, "/metrics")[1] for number in cluster.ids)
    bounded = PrincipalLimits(produce_bytes_per_s=40_000)
    known = cluster.admin.put_tenant(
        tenant.name, generation=2, principals={"service_account:sa_robot": bounded}
    )
    cluster.admin.wait_until_seen(known)
    with cluster.client(robot) as client, client.producer(linger_ms=0) as producer:
        began = time.monotonic()
        for _ in range(10):
            producer.send("shared", os.urandom(10_000)).result(PATIENCE_S)
        passed_s = time.monotonic() - began
    # 100,000 bytes, of which a burst and the last batch do not wait.
    assert passed_s >= (90_000 / 40_000 - BURST_MS / 1000) / (1 + 1 / FLOOR)


def test_at_its_limit_of_processor_time_a_tenants_calls_are_answered_beside_its_streams_and_a_flood_is_refused(
    cluster: Brokers, tenant: Tenant, record_property: Callable[[str, object], None]
) -> None:
    """A limit that fifteen producers of single messages are far above, at each broker."""
    cluster.create_topic(tenant, "busy", 3, assignments=PLACES)
    known = cluster.admin.put_tenant(tenant.name, generation=1, broker_processor_ms_per_s=15)
    cluster.admin.wait_until_seen(known)
    stopped = threading.Event()

    def produce(partition: int) -> None:
        with cluster.client(tenant) as client, client.producer(linger_ms=0) as producer:
            while not stopped.is_set():
                producer.send("busy", b"x", partition=partition).result(PATIENCE_S)

    def throttled() -> float:
        return sum(cluster.metric(number, "penstock_processor_throttled_total") for number in cluster.ids)

    with ThreadPoolExecutor(16) as pool, cluster.client(tenant) as client:
        working = [pool.submit(produce, number % 3) for number in range(15)]
        try:
            wait_until("the streams of the tenant wait", lambda: throttled() > 100)
            took_s = []
            for _ in range(20):
                began = time.monotonic()
                client.topics(timeout=PATIENCE_S)
                took_s.append(time.monotonic() - began)
            record_property("calls_s", [round(seconds, 3) for seconds in sorted(took_s)])
            print(f"calls beside 15 streams took {sorted(took_s)[10]:.3f} s, at most {max(took_s):.3f} s")
            known = cluster.admin.put_tenant(tenant.name, generation=2, broker_processor_ms_per_s=1)
            cluster.admin.wait_until_seen(known)
            flood = [pool.submit(flooded, address, tenant) for address in cluster.bootstrap]
            with pytest.raises(Throttled, match="broker_processor_ms_per_s: the tenant may use"):
                while True:
                    client.topics(timeout=2.0)
            refused = [each for broker in flood for each in broker.result(PATIENCE_S)]
            assert {code for code, _ in refused} == {ErrorCode.THROTTLED}, refused
        finally:
            stopped.set()
            cluster.admin.put_tenant(tenant.name, generation=3)
        for worked in working:
            worked.result(PATIENCE_S)
    assert sum(cluster.metric(number, "penstock_processor_refused_total") for number in cluster.ids) > 0


def flooded(address: str, tenant: Tenant) -> list[tuple[ErrorCode | None, str]]:
    """The refusals of a hundred calls at once on one connection."""
    with grpc.insecure_channel(address) as channel:
        ask: Any = channel.unary_unary(methods.METADATA)
        asked = [ask.future(b"", timeout=PATIENCE_S, metadata=with_key(tenant.api_key)) for _ in range(100)]
        errors: list[Any] = [error for call in asked if (error := call.exception()) is not None]
    assert errors, "none was refused"
    return [(code_of(error), str(error.details())) for error in errors]


def code_of(error: Any) -> ErrorCode | None:
    trailing = {one.key: one.value for one in error.trailing_metadata() or ()}
    return ErrorCode(int(trailing[methods.ERROR_CODE])) if methods.ERROR_CODE in trailing else None


def test_a_storm_of_connections_is_refused_by_name_and_a_client_that_is_connected_does_not_notice(
    cluster: Brokers, tenant: Tenant
) -> None:
    cluster.create_topic(tenant, "calm", 1, assignments=PLACES[:1])
    address = cluster.bootstrap[0]
    with cluster.client(tenant) as client, client.producer() as producer:
        producer.send("calm", b"before").result(PATIENCE_S)
        known = cluster.admin.put_tenant(tenant.name, generation=1, connection_attempts_per_s=2)
        cluster.admin.wait_until_seen(known)
        with ExitStack() as opened:
            asked: list[Any] = []
            for number in range(40):
                # Channels with the same options share a connection.
                options = [("penstock.storm", number)]
                channel = opened.enter_context(grpc.insecure_channel(address, options=options))
                ask: Any = channel.unary_unary(methods.METADATA)
                asked.append(ask.future(b"", timeout=PATIENCE_S, metadata=with_key(tenant.api_key)))
            refused: list[Any] = [error for call in asked if (error := call.exception()) is not None]
        assert refused and {code_of(error) for error in refused} == {ErrorCode.THROTTLED}
        said = "connection_attempts_per_s: 2 connections of the tenant a second may begin at this broker"
        assert all(str(error.details()).startswith(said) for error in refused)
        producer.send("calm", b"after").result(PATIENCE_S)


def test_a_tenant_above_its_storage_is_refused_reads_on_and_goes_on_after_deletion(
    cluster: Brokers, tenant: Tenant
) -> None:
    cluster.create_topic(tenant, "kept")
    cluster.create_topic(tenant, "next")
    with cluster.client(tenant) as client:
        filling = client.producer(compression="none")
        for _ in range(20):
            filling.send("kept", os.urandom(10_000)).result(PATIENCE_S)
        kept = cluster.admin.tenant_use(tenant.name)

        def all_say() -> bool:
            nonlocal kept
            kept = cluster.admin.tenant_use(tenant.name)
            return not kept.silent

        wait_until("every broker says what it keeps", all_say)
        assert kept.storage_bytes > 200_000 and kept.connections
        cluster.admin.put_tenant(tenant.name, storage_bytes_max=100_000)
        # It gives up soon, and says why the brokers refused it where they had the time to.
        producer = client.producer(compression="none", delivery_timeout_ms=2_000)
        error: BaseException | None = None

        def refused() -> bool:
            nonlocal error
            error = producer.send("next", b"x").exception(PATIENCE_S)
            return "storage_bytes_max: the tenant's topics keep" in str(error)

        wait_until("the tenant is refused", refused, instead=lambda: error)
        with client.consumer("kept") as consumer:
            found: list[object] = []
            while len(found) < 20:
                found.extend(consumer.poll())
        cluster.admin.delete_topic(tenant.name, "kept")
        wait_until("it goes on", lambda: not refused() and error is None, instead=lambda: error)
