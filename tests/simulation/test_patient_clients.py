"""The SDK's streams in a line of requests that is longer than its patience: none is given up, and all go on."""

import asyncio
import random

from data_plane.testkit.cluster import TENANT
from data_plane.testkit.sdk_clients import SdkConnection, SdkTransport
from data_plane.testkit.transport import SimTransport
from penstock.asyncio import Client
from penstock.client.producing.producer import STALL_MS
from penstock.contract import methods
from penstock.contract.ids import TenantId
from tests.simulation.test_client_streams import Streams, paced, run_story

PRODUCERS = 22


class Counted(SdkTransport):
    """Counts the streams that are opened."""

    def __init__(self, transport: SimTransport) -> None:
        super().__init__(transport)
        self.opened = 0

    async def connect(self, address: str, method: str, timeout_ms: int) -> SdkConnection:
        self.opened += method == methods.PRODUCE
        return await super().connect(address, method, timeout_ms)


def test_producers_wait_longer_than_they_would_for_a_silent_broker() -> None:
    async def story(streams: Streams) -> None:
        cluster, loop = streams.period.cluster, asyncio.get_running_loop()
        process = streams.period.loop.process("producers")
        transport = Counted(
            SimTransport(cluster.network, process, "c1", authorization=f"Bearer {cluster.api_key}")
        )
        producers = [
            Client.over(
                transport,
                bootstrap=[streams.address],
                random=random.Random(number),
                wall_ms=streams.node.leasing._clock.now_ms,
                zone=None,
            ).producer(idempotent=False, linger_ms=0)
            for number in range(PRODUCERS)
        ]
        for delivery in [await producer.send("orders", b"first", partition=0) for producer in producers]:
            await delivery
        assert transport.opened == PRODUCERS
        await paced(streams, 0, 0, requests_per_s=1)
        began_s = loop.time()
        for delivery in [await producer.send("orders", b"second", partition=0) for producer in producers]:
            await delivery
        assert loop.time() - began_s > 1.2 * STALL_MS / 1000
        assert transport.opened == PRODUCERS, "none was given up"
        assert streams.node.view.image.tenants[TenantId(TENANT)].quotas.requests_per_s == 1

    run_story(story)
