"""The blocking consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self, TypeVar

from penstock.blocking.delivery import require_outside_calls
from penstock.blocking.runtime import Runtime, now_ms
from penstock.client.call_arguments import message_count, named_partitions, partition_offsets, wait_ms
from penstock.client.consuming.consumer import ConsumerCore
from penstock.client.consuming.fetch_collector import FetchCollector
from penstock.client.consuming.fetch_position import (
    FetchedBatch,
    FetchPosition,
    SeekTo,
    seek_target,
)
from penstock.client.consuming.malformed import OnMalformed, skipped_batch
from penstock.client.consuming.polling import POLL_MESSAGES, PolledMessages, TopicWait
from penstock.client.consuming.undecodable import OnUndecodable, Undecodable
from penstock.client.groups.assignment import RebalanceKind
from penstock.client.groups.member import CLOSE_MS, PROGRESS_MS, GroupMember
from penstock.client.messages import Message, MessageBatch
from penstock.client.serialization import MessageDeserializer
from penstock.client.settings import ConsumerSettings, no_group
from penstock.client.telling import write_lines
from penstock.contract.errors import Closed, PenstockError, SerializationFailed, TimedOut
from penstock.contract.ids import NamedPartition
from penstock.contract.methods import BEGINNING, END

_METADATA_S = 30.0
"""How long a call without a timeout of its own waits for the first news of its topics."""
_T = TypeVar("_T")
Hook = Callable[[list[tuple[str, int]]], object]
"""Called with (topic, partition) pairs within `poll`."""


class Consumer:
    """Reads messages. For one thread at a time. Made by `Client.consumer`; a context manager that closes it
    at its end.
    """

    def __init__(
        self,
        runtime: Runtime,
        topics: tuple[str, ...],
        settings: ConsumerSettings,
        client: object,
        on_assigned: Hook | None = None,
        on_revoked: Hook | None = None,
        deserializer: MessageDeserializer | None = None,
        on_malformed: OnMalformed | None = None,
        on_undecodable: OnUndecodable = "stop",
    ) -> None:
        self._runtime = runtime
        self._client = client  # which lives as long as what it made is used
        self._lock = runtime.lock
        with runtime.lock:
            self._core: ConsumerCore = runtime.core.add_consumer(topics, settings)
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_malformed = on_malformed
        self._on_undecodable = None if isinstance(on_undecodable, str) else on_undecodable
        self._topic_wait = TopicWait()
        self._polled = PolledMessages()
        self._closing = False
        self._progress_due_ms = float("-inf")
        self._collector = FetchCollector(
            self._take,
            self._finished,
            self._unreadable,
            self._malformed,
            self._undecodable,
            deserializer,
        )

    # ---- reading ------------------------------------------------------------------------------------------------

    def poll(self, max_messages: int = POLL_MESSAGES, timeout: float | None = 1.0) -> list[Message]:
        """Wait up to `timeout` seconds (None = without limit) for messages. Returns all that are fetched, at most
        `max_messages`, and takes no further batch once those read make 4 MiB uncompressed.

        Raises the error that a partition stopped with, once everything before it was returned:
        `OffsetOutOfRange`, `LogTruncated`, `CorruptBatch`, `MalformedBatch` (with `malformed="stop"`),
        `SerializationFailed`, `NotFound`, `Unauthenticated`; a seek or pause of that partition goes on. Raises
        `BrokerUnavailable`, `Throttled` when no broker has described the topics within the timeout, and what
        `on_malformed` or `on_undecodable` raises, which is then called with the same again. A poll that Ctrl-C
        interrupts loses nothing: the next one returns it.
        """
        count = message_count("max_messages", max_messages)
        if self._polled and not self._core.stopped:
            self._check()
            if self._core.member is not None:
                self._progressed(self._core.member)
            if self._polled:
                return self._polled.take(count)
        return self._poll(lambda: self._collector.messages(count), timeout)

    def poll_batches(self, max_batches: int = 100, timeout: float | None = 1.0) -> list[MessageBatch]:
        """The same in columns: whole batches as they were stored, no object a message. Raises as `poll`
        does.
        """
        count = message_count("max_batches", max_batches)
        self._step_back()
        return self._poll(lambda: self._collector.batches(count), timeout)

    def __iter__(self) -> Iterator[Message]:
        """Message after message, until `stop`; raises as `poll` does. The one before is done when the next is taken."""
        left, member = self._polled.left, self._core.member
        while not self._core.stopped:
            if not left:
                self._poll(self._fill, None)
            while left and not self._core.stopped:
                yield left.popleft()
                if member is not None and now_ms() >= self._progress_due_ms:
                    self._progressed(member)

    def _fill(self) -> list[Message]:
        """For a loop. Within the poll, so that an interrupt finds them taken and kept, or neither."""
        messages = self._collector.messages(POLL_MESSAGES)
        self._polled.begin(messages)
        return messages

    def _progressed(self, member: GroupMember) -> None:
        """The application wants more of what was polled: a sign of life, and a moment to hear what it must give up."""
        self._runtime.enter()
        with self._lock:
            now = now_ms()
            self._progress_due_ms = now + PROGRESS_MS
            member.progressed(now, self._polled.first_offsets())
            if not member.has_news:
                return
            member.hooks_begin()
        try:
            self._tell(member)
        finally:
            with self._lock:
                member.poll_ends(now_ms())
                self._runtime.wake()

    def _step_back(self) -> None:
        """The same where whole batches are wanted: those messages are read again."""
        self._runtime.enter()
        with self._lock:
            for (topic, partition), offset in self._polled.first_offsets().items():
                if (topic, partition) in self._core.positions:
                    self._core.seek(self._core.position(topic, partition), offset=offset)
        self._polled.begin([])

    def _poll(self, gather: Callable[[], list[_T]], timeout: float | None) -> list[_T]:
        self._runtime.enter()
        write_lines()
        if self._core.stopped:
            self._check()
            return []  # before the member takes this for a sign that all handed out before is done
        deadline = now_ms() + wait_ms(timeout)
        member = self._core.member
        try:
            if member is None:
                return self._gather(gather, timeout, deadline)
            with self._lock:
                member.poll_begins(now_ms())
            try:
                return self._gather(gather, timeout, deadline)
            finally:
                with self._lock:
                    member.poll_ends(now_ms())
                    self._runtime.wake()
        except PenstockError:
            raise  # of a poll that had found nothing
        except BaseException:  # Ctrl-C, or a greenlet that is killed: what was taken would be lost
            with self._lock:
                self._core.give_back()
                self._runtime.wake()
            self._polled.begin(())
            raise

    def _gather(self, gather: Callable[[], list[_T]], timeout: float | None, deadline: float) -> list[_T]:
        while True:
            with self._lock:
                unknown = self._prepare()
                looked_at = self._runtime.changes
            if self._core.stopped:
                return []
            if self._core.member is not None:
                self._tell(self._core.member)
            gathered = gather()
            if gathered:
                with self._lock:
                    self._runtime.wake()
                return gathered
            malformed = self._collector.found_malformed
            if malformed is not None:
                self._skip(malformed)
            met = self._collector.found_undecodable
            if met is not None and met.undecodable is not None:
                self._skip_undecodable(met, met.undecodable)
            with self._lock:
                self._core.raise_halted()
                if self._core.has_readable() and now_ms() < deadline:
                    continue
                self._runtime.wake()
                if not self._runtime.wait(deadline, looked_at):
                    if self._topic_wait.in_vain(unknown, timeout, now_ms()):
                        raise self._runtime.core.topic_waits(str(unknown))
                    if self._core.member is not None:
                        self._core.member.raise_if_unreachable(now_ms())
                    return []

    def _skip(self, fetched: FetchedBatch) -> None:
        """Report a malformed batch to the application, then go on behind it."""
        if self._on_malformed is not None:
            self._on_malformed(skipped_batch(fetched))
        with self._lock:
            self._core.skip(fetched, now_ms())
            self._runtime.wake()

    def _skip_undecodable(self, fetched: FetchedBatch, undecodable: Undecodable) -> None:
        """The same of a message that its deserializer does not take."""
        if self._on_undecodable is not None:
            self._on_undecodable(undecodable.message, undecodable.error)
        with self._lock:
            self._core.skipping.skip_undecodable(fetched, now_ms())
            self._runtime.wake()

    def _tell(self, member: GroupMember) -> None:
        """Report to the application what was assigned and what it must give up."""
        while True:
            with self._lock:
                event = member.next_event()
            if event is None:
                return
            assigned = event.kind is RebalanceKind.ASSIGNED
            hook = self._on_assigned if assigned else self._on_revoked
            kept = False
            try:
                if hook is not None:
                    hook(list(event.partitions))
                kept = True
            finally:
                with self._lock:
                    member.finish(event, now_ms(), kept=kept)
                    self._runtime.wake()
                if not assigned:
                    self._polled.drop(event.partitions)

    def _prepare(self) -> str | None:
        self._check()
        self._runtime.start()
        unknown = self._core.prepare()
        self._runtime.wake()
        return unknown

    def _take(self) -> FetchedBatch | None:
        with self._lock:
            return self._core.next_fetched()

    def _finished(self, fetched: FetchedBatch) -> None:
        with self._lock:
            self._core.finished(fetched, now_ms())

    def _unreadable(self, fetched: FetchedBatch, error: PenstockError) -> None:
        with self._lock:
            self._core.skipping.unreadable(fetched, error)

    def _malformed(self, fetched: FetchedBatch, reason: str) -> None:
        with self._lock:
            self._core.skipping.malformed(fetched, reason)

    def _undecodable(self, fetched: FetchedBatch, message: Message, error: SerializationFailed) -> None:
        with self._lock:
            self._core.skipping.undecodable(fetched, message, error)

    @property
    def skipped_messages(self) -> int:
        """How many messages were skipped so far: offsets of malformed batches, and what could not be decoded."""
        return self._core.skipping.messages

    # ---- positions ----------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these (topic, partition) pairs from now on; positions of those read before are kept."""
        self._runtime.enter()
        with self._lock:
            self._check()
            pairs = named_partitions("assign", partitions)
            self._core.assign(pairs)
            self._polled.drop([tp for tp in self._polled.first_offsets() if tp not in pairs])
            self._runtime.wake()

    def assignment(self, timeout: float | None = None) -> list[tuple[str, int]]:
        """The (topic, partition) pairs that are read. Waits for the first news of the topics."""
        self._runtime.enter()
        with self._lock:
            self._known(timeout)
            return self._core.assignment()

    def seek(
        self,
        topic: str,
        partition: int | None = None,
        *,
        offset: int | None = None,
        timestamp_ms: int | None = None,
        to: SeekTo | None = None,
        timeout: float | None = None,
    ) -> None:
        """Go on reading elsewhere; of all partitions of the topic if `partition` is None. Exactly one place:

        `offset` (the next message is that or the first one after it), `timestamp_ms` (the first message
        with that time or a later one), or `to` "beginning" or "end". Waits for the first news of the topic.
        An offset beyond the end makes the next `poll` raise `OffsetOutOfRange`, whatever `auto_offset_reset` says.
        """
        self._runtime.enter()
        target = seek_target(offset, timestamp_ms, to)
        with self._lock:
            positions = self._positions(topic, partition, timeout)
            self._polled.drop([(position.topic, position.partition) for position in positions])
            for position in positions:
                self._core.seek(position, offset=offset, timestamp_ms=target)
            self._runtime.wake()

    def position(self, topic: str, partition: int, timeout: float | None = None) -> int:
        """The offset of the next message that `poll` returns. Raises `TimedOut` while it is not known."""
        self._runtime.enter()
        with self._lock:
            (position,) = self._positions(topic, partition, timeout)
            deadline = now_ms() + wait_ms(timeout, _METADATA_S)
            while not position.has_offset:
                self._check()
                if position.error is not None:
                    raise position.error
                self._runtime.wake()
                if not self._runtime.wait(deadline):
                    raise TimedOut(f"{topic}-{partition}: its position did not become known in time")
            return self._polled.first_offsets().get((topic, partition), position.offset)

    def end_offsets(self, timeout: float | None = None) -> dict[tuple[str, int], int]:
        """The offset that the next message of every partition read will have (its high watermark)."""
        return self._offsets(END, timeout)

    def beginning_offsets(self, timeout: float | None = None) -> dict[tuple[str, int], int]:
        """The offset of the first message that is still there, of every partition read."""
        return self._offsets(BEGINNING, timeout)

    def _offsets(self, which: int, timeout: float | None) -> dict[tuple[str, int], int]:
        deadline = now_ms() + wait_ms(timeout, _METADATA_S)
        self._runtime.enter()
        with self._lock:
            self._known(timeout)
            partitions: list[NamedPartition] = sorted(self._core.positions)
            offsets, failures = self._core.list_offsets(partitions, which, deadline)
            while len(offsets) < len(partitions) and not failures:
                self._check()
                self._runtime.wake()
                if not self._runtime.wait(deadline + 1_000):
                    raise TimedOut("no broker answered with the offsets in time")
            if failures:
                raise failures[0]
            return {tp: offsets[tp] for tp in partitions}

    def pause(self, topic: str, partition: int | None = None, timeout: float | None = None) -> None:
        """`poll` returns nothing of these partitions until `resume`; their position stays. In a group that holds as
        well when a partition has gone to another member and comes back.
        """
        self._runtime.enter()
        with self._lock:
            polled = self._polled.first_offsets()
            for position in self._positions(topic, partition, timeout):
                self._core.pause(position)
                partition_name = (position.topic, position.partition)
                if partition_name in polled:  # a loop has them: they are read again
                    self._core.seek(position, offset=polled[partition_name])
                    self._polled.drop([partition_name])

    def resume(self, topic: str, partition: int | None = None, timeout: float | None = None) -> None:
        """`poll` returns messages of these partitions again."""
        self._runtime.enter()
        with self._lock:
            self._known(timeout)
            self._core.resume(topic, partition)
            self._runtime.wake()

    # ---- groups -------------------------------------------------------------------------------------------------

    def commit(
        self, offsets: Mapping[tuple[str, int], int] | None = None, timeout: float | None = 30.0
    ) -> None:
        """Keep the positions behind all that was returned, or these (topic, partition) -> next offset, in the group.

        Raises `FencedMemberEpoch`, `UnknownMember` (another member may own it by now), `TimedOut`, `InvalidRequest`,
        and `ConfigurationError` without a group.
        """
        member = self._member("commit")
        checked = None if offsets is None else partition_offsets("commit", offsets)
        deadline = now_ms() + wait_ms(timeout)
        with self._lock:
            self._check()
            request = member.commit(checked, deadline, self._polled.first_offsets())
            while not request.done:
                self._check()
                self._runtime.wake()
                if not self._runtime.wait(deadline + 1_000):
                    raise TimedOut("the commit was not answered in time; it may have been kept")
        if request.error is not None:
            raise request.error

    def committed(self, timeout: float | None = 30.0) -> dict[tuple[str, int], int]:
        """The committed offset of every partition that is assigned to this consumer; without those that have none."""
        member = self._member("committed")
        deadline = now_ms() + wait_ms(timeout)
        with self._lock:
            self._check()
            answer = member.ask_committed(deadline)
            while not answer.done:
                self._check()
                self._runtime.wake()
                if not self._runtime.wait(deadline + 1_000):
                    raise TimedOut("no broker answered with the committed offsets in time")
        if answer.error is not None:
            raise answer.error
        return answer.offsets

    def _member(self, what: str) -> GroupMember:
        self._runtime.enter()
        if self._core.member is None:
            raise no_group(what)
        return self._core.member

    def _positions(self, topic: str, partition: int | None, timeout: float | None) -> list[FetchPosition]:
        self._known(timeout)
        if partition is not None:
            return [self._core.position(topic, partition)]
        return self._core.positions_of(topic)

    def _known(self, timeout: float | None) -> None:
        """Under the lock: wait until all partitions of all topics are known."""
        deadline = now_ms() + wait_ms(timeout, _METADATA_S)
        while True:
            unknown = self._prepare()
            if unknown is None:
                return
            if not self._runtime.wait(deadline):
                raise self._runtime.core.topic_waits(unknown)

    # ---- the end ------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End reading: a poll that waits returns at once, every later one returns nothing, and a loop ends with its
        present message. Then close the consumer, which commits what was handed out and leaves the group.

        It may be called from any thread and from a signal handler.
        """
        self._core.stopped = True
        if (
            self._runtime.unusable is None
        ):  # in a forked child the lock may be another thread's of the parent, for good
            with self._lock:
                self._runtime.let_look_again()

    @property
    def stopped(self) -> bool:
        """True once `stop` was called."""
        return self._core.stopped

    def close(self) -> None:
        """End reading; in a group commit what was returned (unless `auto_commit` is False), and leave. Closing twice
        is harmless.
        """
        self.end(finished=True)

    def end(self, *, finished: bool) -> None:
        """Close; `finished` False: what the last poll returned is not done, and not committed."""
        if self._core.closed or self._closing or self._runtime.unusable is not None:
            return
        require_outside_calls(self._lock)
        self._closing = True
        member = self._core.member
        try:
            if member is not None:
                self._leave(member, finished)
        finally:
            with self._lock:
                self._runtime.core.remove(self._core, now_ms())
                self._runtime.wake()
            self._polled.begin(())

    def _leave(self, member: GroupMember, finished: bool) -> None:
        kept = False
        with self._lock:
            member.hooks_begin()
        try:
            partitions = member.given_up_at_close()
            if partitions and self._on_revoked is not None:
                self._on_revoked(partitions)
            kept = True
        finally:
            with self._lock:
                deadline = now_ms() + CLOSE_MS
                left = self._polled.first_offsets()
                member.poll_ends(now_ms())
                member.begin_close(now_ms(), finished=finished, kept=kept, left=left)
                self._runtime.wake()
                while not member.gone and self._runtime.unusable is None and self._runtime.wait(deadline):
                    self._runtime.wake()

    @property
    def closed(self) -> bool:
        """True once it was closed; it cannot be used any more then."""
        return self._core.closed

    def _check(self) -> None:
        self._runtime.check()
        if self._core.closed:
            raise Closed("consumer: closed")

    def __repr__(self) -> str:
        return f"<penstock.Consumer of {self._core}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(finished=kind is None)
