"""Tenants beside each other on a cluster that is hurt, each with canaries in all that is its own.

Each sends, reads, joins a group and commits with them, and asks for what is another's: by the other's names, topic ids,
groups and members. Everything that it is answered, refusals included, is searched for the others' canaries at once.
"""

import asyncio
import random
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from chaos.canaries import Canary, Kind, Leak, Search, Surface, canaries_of
from chaos.recording import Recorder
from chaos.workload import Access
from data_plane.contract.admin_client import AdminClient
from hosts.cluster import Cluster
from penstock.contract import methods
from penstock.contract.api_keys import parse_api_key
from penstock.contract.errors import PenstockError
from penstock.contract.frames import FrameKind, pack_frame
from penstock.contract.topic_settings import TopicSettings
from penstock.contract.v1 import groups_pb2 as groups
from penstock.contract.v1 import log_pb2 as log
from penstock.contract.v1 import proof_pb2 as proof
from penstock.records.build import BatchBuilder
from penstock.transport import grpc_terms

TENANTS = ("a", "b")
_PAUSE_S = (0.1, 0.8)
_CALL_S = 2.0
_SEND_S = 4.0
_POLL_S = 0.3
_METRICS_EVERY_S = 2.0
_ONE_BATCH = 4_096
_HEARD_S = 90.0
"""With nothing wrong any more, each tenant is answered all of its own by then."""
_SESSION_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """One tenant, as the run and the other tenants know it."""

    name: str
    words: dict[Kind, str]
    access: Access
    topic_id: bytes

    def __getitem__(self, kind: Kind) -> str:
        return self.words[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One unary call, and the words that it names."""

    method: str
    request: Message
    asked: tuple[str, ...] = ()


class Neighbours:
    """Of one run. `move_in`, then `run` until `stop`; `last_look` searches what is left when all has healed."""

    def __init__(self, cluster: Cluster, access: Access, recorder: Recorder, seed: int) -> None:
        self._cluster = cluster
        self._access = access
        self._recorder = recorder
        self._rng = random.Random(f"{seed}/neighbours")
        self._search = Search()
        self._neighbours: list[Neighbour] = []
        self._refused = self._sent = 0
        self._stopping = asyncio.Event()

    # -- making them -----------------------------------------------------------------------------------------------

    async def move_in(self) -> None:
        """Make the tenants, with a topic and a key each. Raises `PenstockError`."""
        for name in TENANTS:
            self._neighbours.append(await self._cluster.desk.ask(partial(self._make, name)))

    def _make(self, name: str, admin: AdminClient) -> Neighbour:
        words = canaries_of([kind for kind in Kind if kind is not Kind.SECRET])
        tenant = words[Kind.TENANT]
        admin.put_tenant(tenant)
        key = self._cluster.make_key(admin, words[Kind.KEY_NAME], tenant=tenant)
        words[Kind.SECRET] = parse_api_key(key).secret
        settings = TopicSettings(replication=3, min_insync_replicas=2)
        topic_id = self._cluster.create_topic(admin, words[Kind.TOPIC], 1, settings, tenant=tenant)
        self._search.plant(Canary(tenant=name, kind=kind, word=word) for kind, word in words.items())
        access = replace(self._access, api_key=key)
        return Neighbour(name=name, words=words, access=access, topic_id=topic_id)

    # -- while the cluster is hurt ---------------------------------------------------------------------------------

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for neighbour in self._neighbours:
                tasks.create_task(self._live(neighbour))
            tasks.create_task(self._watch_metrics())

    def stop(self) -> None:
        self._stopping.set()

    async def _live(self, neighbour: Neighbour) -> None:
        while not self._stopping.is_set():
            await self._lap(neighbour)
            await self._pause(self._rng.uniform(*_PAUSE_S))

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            pass

    async def _lap(self, neighbour: Neighbour) -> None:
        """Send and read with the SDK, then ask one broker by hand."""
        await self._send_and_read(neighbour)
        broker = self._rng.choice(sorted(self._cluster.brokers))
        await self._ask_all(neighbour, self._cluster.brokers[broker].client_address)

    async def _send_and_read(self, me: Neighbour) -> None:
        words = me.words
        others = [other for other in self._neighbours if other is not me]
        async with me.access.client() as client:
            try:
                producer = client.producer(
                    compression="none", delivery_timeout_ms=int(_SEND_S * 1e3), max_block_ms=2_000
                )
                delivery = await producer.send(
                    me[Kind.TOPIC],
                    words[Kind.VALUE].encode(),
                    key=words[Kind.MESSAGE_KEY].encode(),
                    headers={"trace": words[Kind.HEADER].encode()},
                )
                receipt = await delivery
                self._sent += 1
                consumer = client.consumer()
                consumer.assign([(me[Kind.TOPIC], 0)])
                await consumer.seek(me[Kind.TOPIC], 0, offset=max(0, receipt.offset - 2), timeout=_SEND_S)
                for message in await consumer.poll(timeout=_POLL_S):
                    self._heard(me, "a message", repr(message).encode())
                    self._heard(me, "a message", b"|".join(_parts(message)))
            except PenstockError as error:
                self._heard_error(me, "the SDK", error)
            for other in others:
                asks: Sequence[Callable[[], Any]] = (
                    partial(client.topic, other[Kind.TOPIC], timeout=_CALL_S),
                    partial(client.group, other[Kind.GROUP], timeout=_CALL_S),
                    partial(client.durability, other[Kind.TOPIC], timeout=_CALL_S),
                    partial(client.topics, timeout=_CALL_S),
                    partial(client.groups, timeout=_CALL_S),
                )
                asked = (other[Kind.TOPIC], other[Kind.GROUP])
                ask = self._rng.choice(asks)
                try:
                    self._heard(me, "the SDK", repr(await ask()).encode(), asked)
                except PenstockError as error:
                    self._heard_error(me, "the SDK", error, asked)

    async def _ask_all(self, me: Neighbour, address: str) -> None:
        """Every question, about what is its own and about what is another's, to one broker."""
        trusted = grpc.ssl_channel_credentials(me.access.ca_file.read_bytes())
        async with grpc.aio.secure_channel(address, trusted, options=grpc_terms.CHANNEL_OPTIONS) as channel:
            for about in self._neighbours:
                for question in _questions(me, about):
                    await self._ask(me, channel, question)
            for about in self._neighbours:
                await self._stream(me, channel, methods.CONSUME, _open(about))
                await self._watch(me, channel, about)
                if about is not me:
                    await self._stream(me, channel, methods.PRODUCE, _forged(about))

    async def _ask(self, me: Neighbour, channel: grpc.aio.Channel, question: Question) -> None:
        call: Any = channel.unary_unary(question.method)
        try:
            answer = await call(question.request.SerializeToString(), timeout=_CALL_S, metadata=_metadata(me))
        except grpc.aio.AioRpcError as error:
            self._heard_status(me, question.method, error, question.asked)
            return
        self._heard(me, question.method, answer, question.asked)

    async def _stream(self, me: Neighbour, channel: grpc.aio.Channel, method: str, frame: bytes) -> None:
        """The first answer to one frame."""
        opened: Any = channel.stream_stream(method)
        call = opened(timeout=_CALL_S, metadata=_metadata(me))
        try:
            await call.write(frame)
            answer = await call.read()
            if answer is not grpc.aio.EOF:
                self._heard(me, method, answer)
        except grpc.aio.AioRpcError as error:
            self._heard_status(me, method, error)
        except asyncio.InvalidStateError as error:
            self._heard(me, method, str(error).encode())  # the stream ended before the frame was written
        finally:
            call.cancel()

    async def _watch(self, me: Neighbour, channel: grpc.aio.Channel, about: Neighbour) -> None:
        """The first news of a topic that is watched."""
        opened: Any = channel.unary_stream(methods.WATCH_METADATA)
        request = log.WatchMetadataRequest(topics=[about[Kind.TOPIC]])
        call = opened(request.SerializeToString(), timeout=_CALL_S, metadata=_metadata(me))
        asked = (about[Kind.TOPIC],)
        try:
            answer = await call.read()
            if answer is not grpc.aio.EOF:
                self._heard(me, methods.WATCH_METADATA, answer, asked)
        except grpc.aio.AioRpcError as error:
            self._heard_status(me, methods.WATCH_METADATA, error, asked)
        finally:
            call.cancel()

    # -- what is heard ---------------------------------------------------------------------------------------------

    def _heard(self, me: Neighbour, where: str, answer: bytes, asked: Sequence[str] = ()) -> None:
        self._tell(self._search.answered(me.name, where, answer, asked))

    def _heard_error(
        self, me: Neighbour, where: str, error: PenstockError, asked: Sequence[str] = ()
    ) -> None:
        self._refused += 1
        self._heard(me, where, f"{error!r} {error}".encode(), asked)

    def _heard_status(
        self, me: Neighbour, where: str, error: grpc.aio.AioRpcError, asked: Sequence[str] = ()
    ) -> None:
        self._refused += 1
        said = f"{error.code()} {error.details()} {error.initial_metadata()} {error.trailing_metadata()}"
        self._heard(me, where, said.encode(), asked)

    def _tell(self, leaks: Sequence[Leak]) -> None:
        for leak in leaks:
            self._recorder.anomaly("I24", str(leak))

    async def _watch_metrics(self) -> None:
        while not self._stopping.is_set():
            await self._look_at_metrics()
            await self._pause(_METRICS_EVERY_S)

    async def _look_at_metrics(self) -> None:
        for number, broker in self._cluster.brokers.items():
            text = await asyncio.to_thread(_metrics, broker.metrics_url)
            if text:
                self._tell(self._search.of_operators(Surface.METRICS, f"/metrics of broker {number}", text))

    # -- the end ---------------------------------------------------------------------------------------------------

    async def last_look(self) -> None:
        """When all has healed: go on until each tenant was answered all of its own, or say that it was not."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _HEARD_S
        while True:
            for neighbour in self._neighbours:
                await self._lap(neighbour)
            left = self._search.not_heard()
            if not left:
                break
            if loop.time() > deadline:
                for missing in left:
                    self._recorder.anomaly("I24", f"the search for canaries shows nothing: {missing}")
                break
        await self._look_at_metrics()

    def search_files(self) -> None:
        """Once all processes have ended: their logs, and what the metadata store keeps."""
        cluster = self._cluster
        programs = (*cluster.brokers.values(), *(cluster.etcd.nodes if cluster.etcd is not None else ()))
        for program in programs:
            if program.output.exists():
                text = program.output.read_bytes()
                self._tell(self._search.of_operators(Surface.LOG, f"the log of {program.name}", text))
        for file in cluster.metadata_files():
            found = self._search.of_operators(Surface.STORE, str(file), file.read_bytes())
            self._tell(found)
        searched = {surface.value: count for surface, count in self._search.searched.items()}
        self._recorder.note(
            "canaries",
            tenants=len(self._neighbours),
            planted=self._search.planted,
            sent=self._sent,
            refused=self._refused,
            searched=searched,
        )


def _metadata(me: Neighbour) -> tuple[tuple[str, str], ...]:
    return ((methods.AUTHORIZATION, f"Bearer {me.access.api_key}"),)


def _metrics(url: str) -> bytes:
    """Empty while the broker does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_CALL_S) as answer:
            text: bytes = answer.read()
            return text
    except OSError:
        return b""


def _parts(message: Any) -> list[bytes]:
    return [message.key or b"", message.value or b"", *(value or b"" for _, value in message.headers)]


def _questions(me: Neighbour, about: Neighbour) -> list[Question]:
    """What `me` asks about the things of `about`, under its own key. Names of its own stand beside the other's ids."""
    mine = about is me
    topic, group = about[Kind.TOPIC], about[Kind.GROUP]
    # What its own answers show later must not be a word of another's: that one is only asked for, never stored.
    curious = "" if mine else "-curious"
    member, client, note = me[Kind.MEMBER] + curious, me[Kind.CLIENT], me[Kind.NOTE]
    asked = () if mine else (topic, group)
    offset = groups.OffsetCommit(
        topic_id=about.topic_id, partition=0, offset=1, leader_epoch=-1, metadata=note
    )
    at = groups.GroupPartition(topic_id=about.topic_id, partition=0)
    return [
        Question(method=method, request=request, asked=asked)
        for method, request in (
            (methods.METADATA, log.MetadataRequest(topics=[topic])),
            (methods.METADATA, log.MetadataRequest(all_topics=True)),
            (
                methods.LIST_OFFSETS,
                log.ListOffsetsRequest(
                    partitions=[
                        log.ListOffset(topic_id=about.topic_id, partition=0, leader_epoch=-1, timestamp_ms=-1)
                    ]
                ),
            ),
            (methods.FIND_COORDINATOR, groups.FindCoordinatorRequest(group=group)),
            (
                methods.GROUP_HEARTBEAT,
                groups.GroupHeartbeatRequest(
                    group=me[Kind.GROUP] + curious,
                    member_id=member,
                    topics=[topic],
                    assignor="range",
                    session_timeout_ms=_SESSION_MS,
                    rebalance_timeout_ms=_SESSION_MS,
                    client_id=client,
                ),
            ),
            (
                methods.COMMIT_OFFSETS,
                groups.CommitOffsetsRequest(
                    group=f"{me[Kind.GROUP]}-notes", member_epoch=-1, offsets=[offset]
                ),
            ),
            (
                methods.FETCH_COMMITTED,
                groups.FetchCommittedRequest(group=f"{group}-notes", member_epoch=-1, partitions=[at]),
            ),
            (methods.LIST_GROUPS, groups.ListGroupsRequest()),
            (methods.DESCRIBE_GROUP, groups.DescribeGroupRequest(group=group)),
            (
                methods.DESCRIBE_DURABILITY,
                log.DescribeDurabilityRequest(
                    partitions=[log.DurabilityQuestion(topic_id=about.topic_id, partition=0, leader_epoch=-1)]
                ),
            ),
            (
                methods.READ_STAMPED,
                proof.ReadStampedRequest(
                    topic_id=about.topic_id, partition=0, offset=0, bytes_max=_ONE_BATCH
                ),
            ),
            (
                methods.READ_SEALS,
                proof.ReadSealsRequest(topic_id=about.topic_id, partition=0, above_offset=-1),
            ),
            *(
                ()
                if mine
                else (
                    (
                        methods.RESET_OFFSETS,
                        groups.ResetOffsetsRequest(group=group, offsets=[offset]),
                    ),
                    (methods.DELETE_GROUP, groups.DeleteGroupRequest(group=group)),
                    (
                        methods.DELETE_RECORDS,
                        log.DeleteRecordsRequest(
                            partitions=[
                                log.DeleteRecords(
                                    topic_id=about.topic_id, partition=0, leader_epoch=-1, before_offset=1
                                )
                            ]
                        ),
                    ),
                )
            ),
        )
    ]


def _open(about: Neighbour) -> bytes:
    head = log.ConsumeOpenHead()
    head.partitions.add(
        handle=1,
        topic_id=about.topic_id,
        partition=0,
        generation=1,
        offset=0,
        last_epoch=-1,
        leader_epoch=-1,
        credit_bytes=_ONE_BATCH,
    )
    return pack_frame(FrameKind.CONSUME_OPEN, head.SerializeToString())


def _forged(about: Neighbour) -> bytes:
    """A batch for another's topic, with nothing in it that is a canary."""
    builder = BatchBuilder()
    builder.append(1_000, None, b"forged")
    batch = builder.build()
    head = log.ProduceHead(acks=-1)
    head.batches.add(id=1, topic_id=about.topic_id, partition=0, size=len(batch), leader_epoch=-1)
    return pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [batch])
