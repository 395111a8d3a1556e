"""A consuming client: follows every partition, notes each value and every mark that it is given."""

import asyncio
from dataclasses import dataclass

from data_plane.node.ports import ConnectionLost
from data_plane.testkit.connection import Endpoint
from data_plane.testkit.history import Anomaly, Mark, MarkKind, ReadBatch
from data_plane.testkit.wire_client import CALL_MS, Leader, WireClient
from penstock.contract import methods
from penstock.contract.errors import CorruptBatch, ErrorCode
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.v1 import log_pb2 as pb
from penstock.records.batch import read_header, split_batches
from penstock.records.parse import columns_of

BEGINNING, END = -2, -1
_CREDIT = 64 * 1024
_SILENCE_S = 3.0
"""A stream without a push is opened again after this long, wherever the leader then is."""


@dataclass(slots=True)
class _Position:
    """Where one partition is read: the next offset, and the epoch of what stands before it."""

    offset: int = 0
    last_epoch: int = -1


class WireConsumer:
    """One consuming process; `until` set = it stops at those offsets."""

    def __init__(self, client: WireClient, partitions: int, *, restless: bool) -> None:
        self._client = client
        self._partitions = partitions
        self._restless = restless
        self.positions = [_Position() for _ in range(partitions)]

    async def run(self) -> None:
        """Follow without an end, and ask for the end offset now and then."""
        async with asyncio.TaskGroup() as group:
            for partition in range(self._partitions):
                group.create_task(self._follow(partition))
            group.create_task(self._ask_ends())

    async def read_to_the_end(self, timeout_s: float) -> dict[int, int]:
        """Read every partition up to the end it has now; the partitions still unfinished at the deadline."""
        behind: dict[int, int] = {}

        async def one(partition: int) -> None:
            while (end := await self.ask(partition, END)) is None:
                await self._client.pause()
            behind[partition] = end
            while self.positions[partition].offset < end:
                await self._follow_once(partition, until=end)
                if self.positions[partition].offset < end:
                    await self._client.pause()
            del behind[partition]

        for partition in range(self._partitions):
            behind[partition] = -1
        try:
            async with asyncio.timeout(timeout_s), asyncio.TaskGroup() as group:
                for partition in range(self._partitions):
                    group.create_task(one(partition))
        except TimeoutError:
            pass
        return behind

    async def _follow(self, partition: int) -> None:
        while True:
            await self._follow_once(partition, until=None)
            await self._client.pause()
            if self._restless and self._client.rng.random() < 0.1:
                position = self.positions[partition]
                position.offset, position.last_epoch = self._client.rng.randint(0, position.offset), -1

    async def _follow_once(self, partition: int, until: int | None) -> None:
        """One stream to the present leader."""
        leader = await self._client.leader(partition, refresh=True)
        if leader is None:
            return
        try:
            stream = await self._client.transport.connect(leader.address, methods.CONSUME, CALL_MS)
        except ConnectionLost:
            return
        try:
            await self._read(stream, partition, leader, until)
        except (ConnectionLost, TimeoutError):
            return
        finally:
            stream.close()

    async def _read(self, stream: Endpoint, partition: int, leader: Leader, until: int | None) -> None:
        client, position = self._client, self.positions[partition]
        where = client.where(partition)
        head = pb.ConsumeOpenHead()
        head.partitions.add(
            handle=1,
            topic_id=where.topic_id,
            partition=partition,
            generation=1,
            offset=position.offset,
            last_epoch=position.last_epoch,
            leader_epoch=leader.epoch if client.rng.random() < 0.5 else -1,
            credit_bytes=_CREDIT,
        )
        await stream.send(pack_frame(FrameKind.CONSUME_OPEN, head.SerializeToString()))
        while until is None or position.offset < until:
            async with asyncio.timeout(_SILENCE_S):
                _, push_head, payload = unpack_frame(await stream.receive())
            at = 0
            for push in pb.ConsumePushHead.FromString(bytes(push_head)).pushes:
                if push.error:
                    await self._refused(partition, push)
                    return
                part, at = payload[at : at + push.size], at + push.size
                if push.high_watermark >= 0:
                    self._mark(partition, MarkKind.HIGH_WATERMARK, push.high_watermark, leader.broker)
                if push.log_start_offset >= 0:
                    self._mark(partition, MarkKind.LOG_START, push.log_start_offset, leader.broker)
                if push.size:
                    self._take(partition, part, leader)
                    credit = pb.ConsumeCreditHead()
                    credit.credits.add(handle=1, generation=1, credit_bytes=push.size)
                    await stream.send(pack_frame(FrameKind.CONSUME_CREDIT, credit.SerializeToString()))
            if self._restless and client.rng.random() < 0.02:
                return

    def _take(self, partition: int, payload: memoryview, leader: Leader) -> None:
        """Note the values of whole batches; the first may begin before the position."""
        client, position = self._client, self.positions[partition]
        where = client.where(partition)
        try:
            for batch in split_batches(payload):
                columns = columns_of(batch, position.offset)
                header = read_header(batch)
                values = tuple(value or b"" for value in columns.values)
                if values:
                    first = header.base_offset + header.offset_span - len(values)
                    client.history.reads.append(
                        ReadBatch(
                            client.name,
                            where,
                            client.loop.time(),
                            first,
                            values,
                            header.leader_epoch,
                            leader.broker,
                        )
                    )
                    if first > position.offset:
                        skipped = f"offset {position.offset} was skipped, {first} came next"
                        self._anomaly("I6", partition, skipped)
                position.offset = header.base_offset + header.offset_span
                position.last_epoch = header.leader_epoch
        except CorruptBatch as corrupt:
            self._anomaly("I19", partition, f"broker {leader.broker} served a bad batch: {corrupt}")

    async def _refused(self, partition: int, push: pb.ConsumePush) -> None:
        self._client.note_refusal(push.error)
        position = self.positions[partition]
        if push.error == ErrorCode.LOG_TRUNCATED:
            self._anomaly("I1", partition, f"what was read is gone: {push.message}")
            position.offset, position.last_epoch = push.divergence_offset, -1
        elif push.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            start = await self.ask(partition, BEGINNING)
            if start is None:
                return
            if start <= position.offset:
                refused = f"offset {position.offset} was given out and is refused: {push.message}"
                self._anomaly("I13", partition, refused)
            position.offset, position.last_epoch = start, -1

    # -- marks ----------------------------------------------------------------------------------------

    async def ask(self, partition: int, timestamp_ms: int) -> int | None:
        """ListOffsets at the present leader; None when no broker answers now."""
        client = self._client
        leader = await client.leader(partition, refresh=True)
        if leader is None:
            return None
        request = pb.ListOffsetsRequest()
        request.partitions.add(
            topic_id=client.topic_id, partition=partition, leader_epoch=-1, timestamp_ms=timestamp_ms
        )
        answer = await client.call(leader.address, methods.LIST_OFFSETS, request.SerializeToString())
        if answer is None:
            return None
        listed = pb.ListOffsetsResponse.FromString(answer).partitions[0]
        if listed.error:
            client.note_refusal(listed.error)
            return None
        if timestamp_ms == END:
            self._mark(partition, MarkKind.END, listed.offset, leader.broker)
        return listed.offset

    async def _ask_ends(self) -> None:
        while True:
            await asyncio.sleep(self._client.rng.uniform(0.1, 1.0))
            await self.ask(self._client.rng.randrange(self._partitions), END)

    def _mark(self, partition: int, kind: MarkKind, value: int, broker: int) -> None:
        client = self._client
        client.history.marks.append(
            Mark(client.name, client.where(partition), kind, value, client.loop.time(), broker)
        )

    def _anomaly(self, invariant: str, partition: int, explanation: str) -> None:
        name = self._client.history.name(self._client.where(partition))
        self._client.history.anomalies.append(
            Anomaly(
                invariant, f"{name}, read by {self._client.name}: {explanation}", self._client.loop.time()
            )
        )
