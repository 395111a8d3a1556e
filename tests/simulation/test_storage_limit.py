"""A tenant that keeps more than `storage_bytes_max` in a simulated cluster: refused within seconds, by each controller
alike, without a loss and without harm to others, until retention has freed space; and what brokers say of its use."""

import asyncio
import json
import random
from dataclasses import replace
from typing import Any

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.metadata.model import topic_key
from data_plane.storage_limits.reports import STORAGE_BYTES_MAX
from data_plane.storage_limits.standing import HOLDS_MS
from data_plane.testkit.clock import SimClock
from data_plane.testkit.cluster import PEPPER, TENANT, SimBroker
from data_plane.testkit.sdk_clients import SdkTransport
from data_plane.testkit.transport import SimTransport
from penstock.asyncio import Client
from penstock.contract.api_keys import RANDOM_BYTES, make_api_key
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TenantId
from penstock.rules.credentials import SCRAM_SALT_BYTES, make_credential
from tests.simulation.test_cuts import METERED, Period, topic
from tests.simulation.test_placement_calls import asked

TIMINGS = replace(METERED, retention_check_ms=1_000)
ORDERS, OTHERS = "orders", "others"
VALUE = b"v" * 500
REFUSED_S = 6.0
"""From the limit that is passed until the first refusal: a report, and an answer."""


class Sender:
    """An application of the tenant that sends one message after the other to all partitions of a topic."""

    def __init__(
        self,
        period: Period,
        name: str,
        *,
        timeout_ms: int = 300_000,
        key: str = "",
        partitions: int = 2,
        most: int = 10**6,
    ) -> None:
        self.acknowledged: list[bytes] = []
        self.errors: list[PenstockError] = []
        self._name = name
        self._timeout_ms = timeout_ms
        self._partitions = partitions
        self._most = most
        process = period.loop.process(f"sender to {name}")
        period.loop.spawn(process, self._run(client_of(period, process, key)))

    async def _run(self, client: Client) -> None:
        producer = client.producer(
            acks="all", compression="none", linger_ms=0, delivery_timeout_ms=self._timeout_ms
        )
        for number in range(self._most):
            value = VALUE + b"%d" % number
            try:
                await (await producer.send(self._name, value, partition=number % self._partitions))
                self.acknowledged.append(value)
            except PenstockError as error:
                self.errors.append(error)


def client_of(period: Period, process: Any, key: str = "") -> Client:
    shown = f"Bearer {key or period.cluster.api_key}"
    transport = SimTransport(period.cluster.network, process, "c0", authorization=shown)
    return Client.over(
        SdkTransport(transport),
        bootstrap=tuple(broker.client_address for broker in period.cluster.brokers),
        random=random.Random(0),
        wall_ms=SimClock(period.loop).now_ms,
    )


async def neighbour(period: Period) -> Sender:
    """An application of another tenant, which sends to a topic of its own."""
    tenant = "neighbour"
    await period.cluster.admin_call(
        methods.PUT_TENANT, pb.PutTenantRequest(tenant=tenant).SerializeToString()
    )
    key = make_api_key("sim", bytes(range(RANDOM_BYTES)))
    salts = bytes(2 * SCRAM_SALT_BYTES)
    credential = make_credential(key, pepper_version=1, pepper=PEPPER, salts=salts)
    request = pb.PutKeyRequest(
        key_id=credential.key_id,
        tenant=tenant,
        name="neighbour",
        pepper_version=1,
        secret_hmac=bytes.fromhex(credential.secret_hmac),
        scram_json=json.dumps(credential.scram),
    )
    await period.cluster.admin_call(methods.PUT_KEY, request.SerializeToString())
    await period.cluster.create_topic(topic("clicks"), tenant)
    return Sender(period, "clicks", key=key.reveal(), partitions=1)


def nodes(period: Period) -> list[Any]:
    return [broker.node for broker in period.cluster.brokers if broker.node is not None]


def seated(period: Period) -> SimBroker:
    return next(
        broker
        for broker in period.cluster.brokers
        if broker.node is not None and broker.node.booted.is_set() and broker.node.control.seat.seated
    )


def refusals(period: Period) -> int:
    return sum(node.stats.limit_refusals.of(TENANT, STORAGE_BYTES_MAX) for node in nodes(period))


async def limit(period: Period, most: int, generation: int) -> None:
    quotas = pb.TenantQuotas(storage_bytes_max=most)
    request = pb.PutTenantRequest(tenant=TENANT, generation=generation, quotas=quotas)
    await period.cluster.admin_call(methods.PUT_TENANT, request.SerializeToString())


async def use(period: Period, at: SimBroker) -> pb.DescribeTenantUseResponse:
    request = pb.DescribeTenantUseRequest(tenant=TENANT)
    return await asked(period, at, methods.DESCRIBE_TENANT_USE, request, pb.DescribeTenantUseResponse)


async def retained(period: Period, name: str, retention_bytes: int, generation: int) -> None:
    """Every partition of the topic may keep so much from now on."""
    settings = replace(topic(name).settings, retention_bytes=retention_bytes)
    request = pb.UpdateTopicRequest(
        tenant=TENANT,
        topic_id=period.cluster.topic_ids[name],
        settings_json=json.dumps(settings.to_dict()),
        generation=generation,
    )
    await period.cluster.admin_call(methods.UPDATE_TOPIC, request.SerializeToString())


async def read(period: Period, name: str, count: int) -> list[bytes]:
    found: list[bytes] = []

    async def work(client: Client) -> None:
        consumer = client.consumer(name)
        while len(found) < count:
            found.extend(message.value or b"" for message in await consumer.poll())

    process = period.loop.process(f"reader of {name}")
    period.loop.spawn(process, work(client_of(period, process)))
    await period.until(f"{count} messages of {name} are read", lambda: len(found) >= count)
    return found


def test_a_full_tenant_is_refused_under_each_controller_loses_nothing_and_goes_on_after_retention() -> None:
    async def story(period: Period) -> None:
        sender = Sender(period, ORDERS)
        await period.until("some messages", lambda: len(sender.acknowledged) > 150)
        began = period.loop.time()
        await limit(period, 60_000, 1)
        await period.until("the tenant is refused", lambda: refusals(period) > 0, REFUSED_S)
        await asyncio.sleep(2)
        here = len(sender.acknowledged)
        await asyncio.sleep(10)
        assert len(sender.acknowledged) == here, f"full since {period.loop.time() - began} s"
        controller = seated(period)
        period.cluster.kill(controller)
        await period.until(
            "another controller", lambda: any(node.control.seat.seated for node in nodes(period))
        )
        for _ in range(2 * HOLDS_MS // 1_000):
            await asyncio.sleep(1)
            assert len(sender.acknowledged) == here, "the new controller has taken the refusal over"
        period.cluster.start(controller)
        assert sorted(await read(period, ORDERS, here)) == sorted(sender.acknowledged[:here])
        await retained(period, ORDERS, 20_000, 1)
        await period.until("it goes on", lambda: len(sender.acknowledged) > here + 20)
        assert not sender.errors, "what was refused waited in the client"

    Period(TIMINGS, topic(ORDERS, partitions=2)).run(story)


def test_the_refusal_names_limit_use_and_what_clears_it_and_hits_that_tenant_alone() -> None:
    async def story(period: Period) -> None:
        sender = Sender(period, ORDERS, timeout_ms=3_000)
        await period.until("some messages", lambda: len(sender.acknowledged) > 20)
        kept = (await use(period, period.cluster.brokers[0])).storage_bytes
        await limit(period, kept // 2, 1)
        await period.until("a refusal", lambda: bool(sender.errors), 20.0)
        said = sender.errors[0].message
        for text in (
            "storage_bytes_max: the tenant's topics keep ",
            f"at most {kept // 2} allowed; clears when",
        ):
            assert text in said, said
        other = await neighbour(period)
        await period.until("another tenant is served", lambda: len(other.acknowledged) > 20, 10.0)
        assert not other.errors
        near = [node.gauges()["tenants_at_storage_limit"] for node in nodes(period)]
        assert sorted(near) == [0, 0, 1], "the controller counts it"
        await limit(period, kept * 100, 2)
        here = len(sender.acknowledged)
        await period.until("a higher limit lets it in", lambda: len(sender.acknowledged) > here + 5, 10.0)

    Period(TIMINGS, topic(ORDERS, partitions=2)).run(story)


def test_a_deleted_topic_makes_room_and_one_in_the_recycle_bin_does_not() -> None:
    async def story(period: Period) -> None:
        others = Sender(period, OTHERS, partitions=1, most=300)
        await period.until("a large topic", lambda: len(others.acknowledged) == 300)
        sender = Sender(period, ORDERS)
        await period.until("some messages", lambda: len(sender.acknowledged) > 30)
        kept = (await use(period, period.cluster.brokers[0])).storage_bytes
        await limit(period, kept, 1)
        await period.until("a refusal", lambda: refusals(period) > 0, REFUSED_S)
        await asyncio.sleep(2)
        here = len(sender.acknowledged)
        topic_id = period.cluster.topic_ids[OTHERS]
        binned = pb.BinTopicRequest(tenant=TENANT, topic_id=topic_id, generation=1)
        await period.cluster.admin_call(methods.BIN_TOPIC, binned.SerializeToString())
        await asyncio.sleep(10)
        assert len(sender.acknowledged) == here, "what lies in the bin is kept"
        gone = pb.DeleteTopicRequest(tenant=TENANT, topic_id=topic_id, generation=2)
        await period.cluster.admin_call(methods.DELETE_TOPIC, gone.SerializeToString())
        await period.until("it is gone", lambda: not period.cluster.store.snapshot(topic_key(topic_id)).items)
        await period.until("it goes on", lambda: len(sender.acknowledged) > here, 15.0)

    Period(TIMINGS, topic(ORDERS, partitions=2), topic(OTHERS)).run(story)


def test_without_a_limit_brokers_report_nothing() -> None:
    async def story(period: Period) -> None:
        await period.produce(ORDERS, 10)
        await asyncio.sleep(5)
        assert sum(node.stats.storage_reports for node in nodes(period)) == 0
        await limit(period, 10**9, 1)
        await period.until("reports", lambda: all(node.stats.storage_reports for node in nodes(period)), 5.0)
        assert all(node.storage.refusal(TenantId(TENANT)) is None for node in nodes(period))

    Period(TIMINGS, topic(ORDERS)).run(story)


def test_the_use_of_a_tenant_is_summed_over_brokers_and_says_who_is_silent() -> None:
    async def story(period: Period) -> None:
        await period.produce(ORDERS, 40, partitions=2)
        whole = await use(period, period.cluster.brokers[0])
        sizes = [
            replica.log.size_bytes
            for node in nodes(period)
            for replica in node.replicas.all()
            if replica.leading is not None and replica.topic.tenant == TENANT
        ]
        assert len(sizes) == 2 and whole.storage_bytes == sum(sizes) > 0
        assert not whole.silent and not whole.leaderless
        away = period.cluster.brokers[2]
        period.cluster.pause(away)
        partly = await use(period, period.cluster.brokers[0])
        assert list(partly.silent) == [away.broker_id] or partly.leaderless

    Period(TIMINGS, topic(ORDERS, partitions=2)).run(story)
