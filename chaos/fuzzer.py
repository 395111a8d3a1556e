"""Admin work beside the load: topics made, filled, changed, deleted and made again under their old names; keys that
come and go; settings and leaders of topics that are written to; partitions that move.

What it sends and reads is recorded like everything else, each incarnation of a topic as a topic of its own: a value
that gets from one into another is one that was never sent there.
"""

import asyncio
import random
from dataclasses import dataclass, replace

from chaos.history_lines import partition_name, value_of
from chaos.recording import Recorder
from chaos.workload import SEGMENT_BYTES, STRICT, Access
from data_plane.contract.admin_client import AdminClient
from data_plane.testkit.history import Outcome
from hosts.cluster import TENANT, Cluster
from penstock.asyncio import Client
from penstock.asyncio.delivery import Delivery
from penstock.contract.api_keys import parse_api_key
from penstock.contract.errors import Belief, NotFound, PenstockError
from penstock.contract.topic_settings import Durability, TopicSettings

_PAUSE_S = (0.2, 3.0)
_CALL_S = 10.0
_READ_S = 15.0
_NAMES = ("scratch-1", "scratch-2")
_MESSAGES = 20
_DELIVERY_MS = 20_000
_PRODUCER = "fuzzer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A topic of the fuzzer's own. `incarnation` is its name among those that had the same one."""

    incarnation: str
    topic_id: bytes
    partitions: int
    replication: int


class Fuzzer:
    """`run` goes on until `stop`; every call may be refused, nothing it does may break a promise."""

    def __init__(self, cluster: Cluster, access: Access, recorder: Recorder, seed: int) -> None:
        self._cluster = cluster
        self._access = access
        self._recorder = recorder
        self._desk = cluster.open_desk()
        self._rng = random.Random(f"{seed}/fuzzer")
        self._incarnations = 0
        self._number = self._readers = 0
        self._made: dict[str, Made] = {}
        """By topic name: what stands."""
        self._unsure: dict[str, None] = {}
        """Names of which a call left open whether there is such a topic, and which one."""
        self._strict_id = b""
        self.done: dict[str, int] = {}
        """Calls that were answered with success, by what they did."""
        self.refused: dict[str, int] = {}
        self._stopping = asyncio.Event()

    def watch_over(self, topic_id: bytes) -> None:
        """The topic whose settings it changes while it is written to."""
        self._strict_id = topic_id

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        while not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._stopping.wait(), self._rng.uniform(*_PAUSE_S))
            except TimeoutError:
                pass
            act = self._rng.choice(
                (
                    self._scratch,
                    self._scratch,
                    self._scratch,
                    self._key,
                    self._settings,
                    self._reassign,
                    self._lead,
                )
            )
            try:
                await act()
            except PenstockError as error:
                self._count(self.refused, error.code.name)
                self._recorder.note("admin refused", act=act.__name__.strip("_"), message=str(error))

    def _count(self, table: dict[str, int], what: str) -> None:
        table[what] = table.get(what, 0) + 1

    # -- topics ------------------------------------------------------------------------------------------------------

    async def _scratch(self) -> None:
        """Make a topic of that name, or do something with the one there is, or delete it."""
        name = self._rng.choice(_NAMES)
        if name in self._unsure:
            await self._clear(name)
        elif name not in self._made:
            await self._create(name)
        elif self._rng.random() < 0.6:
            await self._fill(name)
        else:
            await self._delete(name)
            if self._rng.random() < 0.7:
                await self._create(name)

    async def _create(self, name: str) -> None:
        rng = self._rng
        settings = TopicSettings(
            replication=rng.choice((1, 2, 3)),
            min_insync_replicas=1,
            durability=Durability.FSYNC,
            segment_bytes=SEGMENT_BYTES,
        )
        if settings.replication == 3:
            settings = replace(settings, min_insync_replicas=2)
        partitions, topic_id = rng.randint(1, 3), rng.randbytes(16)
        self._incarnations += 1
        cluster = self._cluster
        self._unsure[name] = None
        await self._desk.ask(
            lambda admin: cluster.create_topic(admin, name, partitions, settings, topic_id, _CALL_S)
        )
        del self._unsure[name]
        self._made[name] = Made(
            incarnation=f"{name}#{self._incarnations}",
            topic_id=topic_id,
            partitions=partitions,
            replication=settings.replication,
        )
        self._count(self.done, "topic made")
        await self._fill(name)

    async def _fill(self, name: str) -> None:
        """Some values, and all of them read again by a new reader."""
        made = self._made[name]
        partition = self._rng.randrange(made.partitions)
        named = partition_name(made.incarnation, partition)
        async with self._access.client() as client:
            producer = client.producer(delivery_timeout_ms=_DELIVERY_MS, max_block_ms=3_000)
            deliveries: list[tuple[int, Delivery]] = []
            for _ in range(_MESSAGES):
                self._number += 1
                number = self._number
                self._recorder.note("sent", producer=_PRODUCER, number=number, partition=named, acks=-1)
                try:
                    delivery = await producer.send(name, value_of(_PRODUCER, number), partition=partition)
                except PenstockError as error:
                    self._failed(number, error)
                    continue
                deliveries.append((number, delivery))
            end = 0
            for number, delivery in deliveries:
                try:
                    offset = (await delivery).offset
                except PenstockError as error:
                    self._failed(number, error)
                    continue
                self._recorder.note(
                    "outcome", producer=_PRODUCER, number=number, outcome=Outcome.APPLIED.value, offset=offset
                )
                end = max(end, offset + 1)
            await self._read(client, made.incarnation, (name, partition), end)
        self._count(self.done, "topic filled and read")

    def _failed(self, number: int, error: PenstockError) -> None:
        definite = error.belief is Belief.NOT_APPLIED
        outcome = Outcome.NOT_APPLIED if definite else Outcome.UNKNOWN
        self._recorder.note(
            "outcome", producer=_PRODUCER, number=number, outcome=outcome.value, code=error.code.name
        )
        self._count(self.refused, error.code.name)

    async def _read(self, client: Client, incarnation: str, tp: tuple[str, int], end: int) -> None:
        """A new reader, from the beginning up to `end`, if brokers can be reached in time."""
        self._readers += 1
        reader = f"fuzzer-{self._readers}"
        consumer = client.consumer()
        consumer.assign([tp])
        loop = asyncio.get_running_loop()
        deadline, at = loop.time() + _READ_S, 0
        while at < end and loop.time() < deadline:
            messages = await consumer.poll(timeout=1.0)
            found = ((partition_name(incarnation, m.partition), m.offset, m.value or b"") for m in messages)
            self._recorder.read(reader, found)
            at = messages[-1].offset + 1 if messages else at

    async def _delete(self, name: str) -> None:
        made = self._made.pop(name)
        # From here on no reader may rely on it, whatever becomes of the call.
        gone = [partition_name(made.incarnation, partition) for partition in range(made.partitions)]
        self._recorder.note("deleted", partitions=gone)
        self._unsure[name] = None
        await self._clear(name, made.topic_id)

    async def _clear(self, name: str, topic_id: bytes = b"") -> None:
        """No topic of this name is there on return."""

        def delete(admin: AdminClient) -> None:
            try:
                outcome = admin.delete_topic(TENANT, name, timeout_s=_CALL_S, topic_id=topic_id)
            except NotFound:
                return
            admin.wait_until_seen(outcome)

        await self._desk.ask(delete)
        del self._unsure[name]
        self._count(self.done, "topic deleted")

    async def _reassign(self) -> None:
        """A partition of a topic of its own moves to other brokers, or, now and then, the move is called off."""
        if not self._made:
            return
        made = self._made[self._rng.choice(sorted(self._made))]
        partition = self._rng.randrange(made.partitions)
        replicas = self._rng.sample(sorted(self._cluster.brokers), made.replication)
        wanted = replicas if self._rng.random() < 0.8 else None
        await self._desk.ask(
            lambda admin: admin.alter_replicas(made.topic_id, partition, wanted, timeout_s=_CALL_S)
        )
        self._count(self.done, "partition moved" if wanted else "move called off")

    async def _lead(self) -> None:
        """Another leader for a partition that the strict producers write to, handed over in good order."""
        partition, broker = (
            self._rng.randrange(STRICT.partitions),
            self._rng.choice(sorted(self._cluster.brokers)),
        )
        await self._desk.ask(
            lambda admin: admin.move_leader(self._strict_id, partition, broker, timeout_s=_CALL_S)
        )
        self._count(self.done, "leader moved")

    async def delete_what_is_left(self) -> list[str]:
        """After the faults: every topic that was made here can be deleted; those that cannot."""
        left = []
        for name in (*self._made, *self._unsure):
            try:
                await (self._delete(name) if name in self._made else self._clear(name))
            except PenstockError as error:
                left.append(f"{name}: {error}")
        return left

    # -- keys and settings ---------------------------------------------------------------------------------------------

    async def _key(self) -> None:
        """A new key, used once, and revoked."""
        cluster = self._cluster
        key = await self._desk.ask(lambda admin: cluster.make_key(admin, "fuzzer"))
        async with replace(self._access, api_key=key).client() as client:
            await client.topics(timeout=3.0)
        self._count(self.done, "key made and used")
        key_id = parse_api_key(key).key_id
        await self._desk.ask(lambda admin: admin.revoke_key(key_id, timeout_s=_CALL_S))
        self._count(self.done, "key revoked")

    async def _settings(self) -> None:
        """Others for the topic that the strict producers write to."""
        settings = replace(
            STRICT.settings,
            segment_bytes=self._rng.choice((SEGMENT_BYTES, 2 * SEGMENT_BYTES, 4 * SEGMENT_BYTES)),
            index_interval_bytes=self._rng.choice((1_024, 4_096)),
            segment_ms=self._rng.choice((5_000, 60_000)),
        )
        topic_id = self._strict_id
        await self._desk.ask(lambda admin: admin.update_topic(TENANT, topic_id, settings, timeout_s=_CALL_S))
        self._count(self.done, "settings changed")
