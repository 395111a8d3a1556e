"""Scripted minutes of a group, each with the one thing that acknowledged commits have to stand."""

import asyncio

from data_plane.testkit.cluster import TENANT, SimBroker, SimCluster
from penstock.asyncio import Client
from penstock.asyncio.consumer import Consumer
from penstock.contract.errors import PenstockError
from tests.simulation.groups.group_story import REST_S, GroupStory

_PARTITION = ("orders", 0)
_COMMIT_S = 0.3


class LostCommit(GroupStory):
    """A commit comes to a coordinator whose followers have just died; then it dies too, and one of them coordinates:
    what was acknowledged is kept (RL79, RL88).
    """

    async def _story(self) -> None:
        cluster = await self._boot()
        told = asyncio.get_running_loop().create_future()
        self.readers.spawn(lambda client: self._commit_twice(client, cluster, told))
        acknowledged = await told
        kept: list[int] = []
        self.readers.spawn(lambda client: self._look(client, kept))
        await self._until("another broker coordinates", lambda: bool(kept), REST_S)
        assert kept[0] >= acknowledged, f"a commit of {acknowledged} was acknowledged, {kept[0]} is kept"

    async def _commit_twice(self, client: Client, cluster: SimCluster, told: "asyncio.Future[int]") -> None:
        consumer = await self._read_eight(client)
        await consumer.commit({_PARTITION: 3})
        coordinator = self._coordinator(cluster)
        others = [broker for broker in cluster.brokers if broker is not coordinator]
        cluster.store.cut(coordinator.host)  # so that it still believes the others to be in sync
        for broker in others:
            cluster.kill(broker)
        acknowledged = 3
        try:
            await consumer.commit({_PARTITION: 8}, timeout=_COMMIT_S)
            acknowledged = 8
        except PenstockError:
            pass
        cluster.kill(coordinator)
        for broker in others:
            cluster.start(broker)
        told.set_result(acknowledged)

    async def _read_eight(self, client: Client) -> Consumer:
        """A consumer that has read eight messages of the place."""
        producer = client.producer(acks="all", compression="none")
        for number in range(8):
            delivery = await producer.send("orders", b"%d" % number, partition=_PARTITION[1])
            await delivery
        consumer = client.consumer("orders", group="readers", auto_commit=False)
        read = 0
        while read < 8:
            read += len(await consumer.poll(max_messages=8, timeout=0.3))
        return consumer

    async def _look(self, client: Client, kept: list[int]) -> None:
        while not kept:
            try:
                offsets = (await client.group("readers", timeout=3)).offsets
            except PenstockError:
                await asyncio.sleep(0.1)
                continue
            kept.append(offsets.get(_PARTITION, 0))

    def _coordinator(self, cluster: SimCluster) -> SimBroker:
        for broker in cluster.brokers:
            if broker.node is not None and any(
                partition.core.groups(TENANT)
                for partition in broker.node.serving.groups.coordinators.serving()
            ):
                return broker
        raise AssertionError("nobody coordinates the group")


class ShortenedLog(LostCommit):
    """One offset is committed once, another again and again, until the coordinator has written its log anew; then it
    dies, and the next one knows both.
    """

    async def _story(self) -> None:
        cluster = await self._boot()
        told = asyncio.get_running_loop().create_future()
        self.readers.spawn(lambda client: self._commit_often(client, cluster, told))
        await self._until("the log was written anew", told.done, REST_S)
        kept: list[int] = []
        self.readers.spawn(lambda client: self._look(client, kept))
        await self._until("another broker coordinates", lambda: bool(kept), REST_S)
        assert kept[0] == 3, f"a commit of 3 was acknowledged, {kept[0]} is kept"

    async def _commit_often(self, client: Client, cluster: SimCluster, told: "asyncio.Future[None]") -> None:
        consumer = await self._read_eight(client)
        await consumer.commit({_PARTITION: 3})
        coordinator = self._coordinator(cluster)
        assert coordinator.node is not None
        while not coordinator.node.stats.group_logs_shortened:
            await consumer.commit({("orders", 1): 0})
        cluster.kill(coordinator)
        told.set_result(None)
