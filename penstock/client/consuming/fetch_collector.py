"""From fetched batches to what `poll` returns: decode, count, move the position; without the lock."""

import gc
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from penstock.client.consuming.fetch_position import FetchedBatch
from penstock.client.messages import Message, MessageBatch
from penstock.client.serialization import MessageDeserializer
from penstock.contract.errors import LimitExceeded, MalformedBatch, PenstockError, SerializationFailed
from penstock.contract.limits import MIB
from penstock.records.parse import Columns, columns_of

INFLATED_BYTES_MAX = 4 * MIB
"""A gathering ends with the batch that passes this: some 500 bytes can inflate to so much, and take half a second to
parse. Without it one poll could take minutes, and a member of a group would be taken for dead meanwhile.
"""
Finished = Callable[[FetchedBatch], None]
_T = TypeVar("_T")


class FetchCollector:
    """One poll under way. `take` gives the next fetched batch (None = none waits), `finished`, `unreadable`,
    `malformed` and `undecodable` give one back.

    These five run under the client's lock; the caller of this class passes them so bound.

    Gathering ends before a malformed batch, so that `poll` returns everything before it first. Where nothing is, the
    batch is in `found_malformed`: the caller reports it, skips it and gathers again. The same holds for a message that
    the deserializer does not take (`found_undecodable`), unless its partition is to stop there. It also ends with the
    batch that makes `INFLATED_BYTES_MAX`, so it may have found nothing although something waits.
    """

    __slots__ = (
        "_deserializer",
        "_finished",
        "_inflated_bytes",
        "_malformed",
        "_take",
        "_undecodable",
        "_unreadable",
        "found_malformed",
        "found_undecodable",
    )

    found_malformed: FetchedBatch | None
    """What the last gathering ended before."""
    found_undecodable: FetchedBatch | None
    """The same, of a message of it."""

    def __init__(
        self,
        take: Callable[[], FetchedBatch | None],
        finished: Finished,
        unreadable: Callable[[FetchedBatch, PenstockError], None],
        malformed: Callable[[FetchedBatch, str], None],
        undecodable: Callable[[FetchedBatch, Message, SerializationFailed], None],
        deserializer: MessageDeserializer | None = None,
    ) -> None:
        self._take = take
        self._finished = finished
        self._unreadable = unreadable
        self._malformed = malformed
        self._undecodable = undecodable
        self.found_malformed = None
        self.found_undecodable = None
        self._inflated_bytes = 0
        self._deserializer = deserializer

    def messages(self, count_max: int) -> list[Message]:
        """Up to `count_max` messages of what waits, some of each partition in turn."""
        return _without_collections(self._messages, count_max)

    def batches(self, count_max: int) -> list[MessageBatch]:
        """Up to `count_max` batches of what waits; the rest of a batch that `messages` began comes first."""
        return _without_collections(self._batches, count_max)

    def _messages(self, count_max: int) -> list[Message]:
        gathered: list[Message] = []
        self.found_malformed = None
        self.found_undecodable = None
        self._inflated_bytes = 0
        while len(gathered) < count_max and self._inflated_bytes < INFLATED_BYTES_MAX:
            fetched = self._take()
            if fetched is None:
                break
            position = fetched.position
            if position.part is None:
                batch = self._decoded(fetched)
                if batch is None:
                    if fetched.malformed:
                        break
                    continue
                position.part, position.partly_read = batch.messages(), fetched
            if fetched.undecodable is not None:
                self.found_undecodable = fetched
                break
            if self._deserializer is None:
                taken = list(islice(position.part, count_max - len(gathered)))
            else:
                taken, refused = _deserialized(
                    self._deserializer, islice(position.part, count_max - len(gathered))
                )
                if refused is not None:
                    gathered += taken
                    self._undecodable(fetched, *refused)
                    continue
            if taken:
                gathered += taken
                position.offset = taken[-1].offset + 1
                position.epoch = fetched.epoch
            if len(gathered) < count_max or position.offset >= fetched.next_offset:
                self._finished(fetched)
        return gathered

    def _batches(self, count_max: int) -> list[MessageBatch]:
        gathered: list[MessageBatch] = []
        self.found_malformed = None
        self.found_undecodable = None
        self._inflated_bytes = 0
        while len(gathered) < count_max and self._inflated_bytes < INFLATED_BYTES_MAX:
            fetched = self._take()
            if fetched is None:
                break
            batch = self._decoded(fetched)
            if batch is not None:
                if len(batch):
                    gathered.append(batch)
                self._finished(fetched)
            elif fetched.malformed:
                break
        return gathered

    def _decoded(self, fetched: FetchedBatch) -> MessageBatch | None:
        """Checked and parsed from the position on; None = nothing of it is for the caller."""
        position = fetched.position
        if fetched.control:
            self._finished(fetched)
            return None
        if fetched.malformed:
            self._meet(fetched, fetched.malformed)
            return None
        try:
            columns = columns_of(fetched.batch, max(0, position.offset))
            self._inflated_bytes += columns.inflated_bytes
            if position.skip_before_ms is not None:
                columns = _from_time(fetched, columns)
            return MessageBatch(position.topic, position.partition, columns)
        except MalformedBatch as malformed:
            self._meet(fetched, malformed.message)
        except PenstockError as error:
            self._unreadable(fetched, error)
        except MemoryError as short:
            listed = f"this process has no memory to read the batch; seek here to try again ({short})"
            self._unreadable(fetched, LimitExceeded(listed))
        return None

    def _meet(self, fetched: FetchedBatch, reason: str) -> None:
        self._malformed(fetched, reason)
        if fetched.malformed:
            self.found_malformed = fetched


def _deserialized(
    deserializer: MessageDeserializer, messages: Iterable[Message]
) -> tuple[list[Message], tuple[Message, SerializationFailed] | None]:
    """The messages decoded, up to the first that cannot be; that one, as it is, and what is wrong with it."""
    deserialized: list[Message] = []
    for message in messages:
        try:
            deserialized.append(deserializer.deserialize(message))
        except SerializationFailed as error:
            return deserialized, (message, error)
    return deserialized, None


def _without_collections(gather: Callable[[int], list[_T]], count_max: int) -> list[_T]:
    """Gather while the cyclic garbage collector is off.

    It would look at every new object several times over, of which none is garbage: measured, that takes
    four fifths of the time. One generation is looked at afterwards, when it is on again.
    """
    if not gc.isenabled():
        return gather(count_max)
    gc.disable()
    try:
        return gather(count_max)
    finally:
        gc.enable()


def _from_time(fetched: FetchedBatch, columns: Columns) -> Columns:
    """Without the messages at the front that are earlier than the time sought."""
    position = fetched.position
    sought = position.skip_before_ms or 0
    for offset, timestamp_ms in zip(columns.offsets, columns.timestamps_ms, strict=True):
        if timestamp_ms >= sought:
            position.skip_before_ms = None
            return columns_of(fetched.batch, offset)
    return columns_of(fetched.batch, fetched.next_offset)
