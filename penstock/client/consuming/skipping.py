"""Batches and messages that a consumer cannot read: it stops before them, or skips them."""

from __future__ import annotations

from penstock.client.consuming.fetch_position import FetchedBatch, FetchPosition
from penstock.client.consuming.fetcher import Fetcher
from penstock.client.consuming.malformed import SkipLog, skipped_batch
from penstock.client.consuming.polling import BeforePoll
from penstock.client.consuming.readable import ReadablePositions
from penstock.client.consuming.undecodable import undecodable
from penstock.client.groups.member import GroupMember
from penstock.client.messages import Message
from penstock.client.settings import ConsumerSettings
from penstock.contract import errors
from penstock.contract.errors import PenstockError


class Skipping:
    """Each method takes a fetched batch and does nothing if its position was moved meanwhile. All are called under the
    client's lock.
    """

    __slots__ = ("_before_poll", "_fetcher", "_log", "_readable", "_settings", "member")

    def __init__(
        self,
        settings: ConsumerSettings,
        fetcher: Fetcher,
        readable: ReadablePositions,
        before_poll: BeforePoll,
    ) -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._readable = readable
        self._before_poll = before_poll
        self._log = SkipLog()
        self.member: GroupMember | None = None
        """It hears that a skip is progress."""

    @property
    def messages(self) -> int:
        """Offsets that were skipped so far."""
        return self._log.messages

    def malformed(self, fetched: FetchedBatch, reason: str) -> None:
        """A batch is intact and its records are not what its header says: it waits for `skip`, in front of all else of
        its partition, or the partition stops before it, as the settings say.
        """
        position = fetched.position
        if fetched.seek_epoch != position.seek_epoch:
            return
        if self._settings.malformed == "stop":
            advice = f"seek to offset {fetched.next_offset} to go on behind it"
            self.unreadable(fetched, errors.MalformedBatch(f"{reason}; {advice}"))
            return
        position.put_back(fetched)
        if not fetched.malformed:
            fetched.malformed = reason
            self._readable.put_first(position)

    def skip(self, fetched: FetchedBatch, now: float) -> bool:
        """The application heard of a malformed batch. True: it is taken out, and the caller finishes it."""
        position = fetched.position
        if not position.comes_next(fetched):
            return False
        position.take_first()
        self._log.note(skipped_batch(fetched), now)
        return True

    def undecodable(self, fetched: FetchedBatch, message: Message, error: errors.SerializationFailed) -> None:
        """A message is not what the application's deserializer takes: it waits for `skip_undecodable`, or the partition
        stops before it, as the settings say.
        """
        position = fetched.position
        if fetched.seek_epoch != position.seek_epoch:
            return
        position.offset = message.offset
        position.epoch = fetched.epoch
        if self._settings.undecodable == "stop":
            self.unreadable(fetched, error)
            return
        fetched.undecodable = undecodable(message, error)
        self._readable.put_first(position)

    def skip_undecodable(self, fetched: FetchedBatch, now: float) -> None:
        """The application heard of it: the position moves behind the message."""
        position, undecodable = fetched.position, fetched.undecodable
        if undecodable is None or position.partly_read is not fetched:
            return
        fetched.undecodable = None
        if fetched.seek_epoch != position.seek_epoch:
            return
        position.offset = undecodable.message.offset + 1
        self._log.note_undecodable(undecodable.error, now)
        self.skipped(position, now)

    def skipped(self, position: FetchPosition, now: float) -> None:
        """`poll` has returned nothing so far: this may be committed, and is not read again after an interrupt."""
        self._before_poll.forget(position)
        if self.member is not None:
            self.member.progressed(now, {})

    def unreadable(self, fetched: FetchedBatch, error: PenstockError) -> None:
        """A batch did not pass its checks: `poll` never returns it, and the partition stops before it (I19)."""
        position = fetched.position
        if fetched.seek_epoch == position.seek_epoch:
            self._fetcher.close_partition(position)
            position.move_to(position.offset, position.epoch)
            self._before_poll.still(position)
            position.halt(type(error)(f"{position.label}: at offset {position.offset}: {error.message}"))
