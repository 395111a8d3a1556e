"""The blocking client: where producers, consumers and descriptions come from."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from google.protobuf.message import Message

from penstock.blocking.consumer import Consumer, Hook
from penstock.blocking.delivery import require_outside_calls
from penstock.blocking.producer import Producer
from penstock.blocking.runtime import Runtime, now_ms
from penstock.client import descriptions, record_safety
from penstock.client.arguments import consumer_settings, producer_settings
from penstock.client.call_arguments import wait_ms
from penstock.client.consuming.malformed import OnMalformed
from penstock.client.consuming.undecodable import OnUndecodable
from penstock.client.conversations import BROKER_MS, PAUSE_MS, BrokerCall, Conversation, Patience
from penstock.client.descriptions import BrokerDescription, TopicDescription
from penstock.client.groups import descriptions as group_descriptions
from penstock.client.groups.descriptions import GroupDescription, GroupSummary
from penstock.client.producing.delivery import flush_timeout_after
from penstock.client.record_safety import PartitionDurability
from penstock.client.serialization import message_deserializer, message_serializer
from penstock.client.settings import FullPolicy, MalformedPolicy, OffsetReset, Partitioner
from penstock.contract.errors import BrokerUnavailable, PenstockError, ReceiptsNotWritten, TimedOut
from penstock.producer_arguments import ProducerArguments
from penstock.profiles import connection_settings
from penstock.records.batch import Buffer
from penstock.serializers import Serializer, new_message_id

if TYPE_CHECKING:
    from penstock.admin.blocking import Admin

_T = TypeVar("_T")
_M = TypeVar("_M", bound=Message)
_Value = TypeVar("_Value")
_Key = TypeVar("_Key")


class Client:
    """One key's way to one cluster. Safe between threads; a context manager that closes it at its end.

    Each setting is taken from the arguments, else from PENSTOCK_BOOTSTRAP, PENSTOCK_API_KEY,
    PENSTOCK_API_URL, PENSTOCK_CA_FILE, PENSTOCK_ZONE, else from the profile (`profile`, PENSTOCK_PROFILE, or
    `default`) in the profile file. `zone` says where this client runs: consumers read from a replica in sync there.

    Nothing is connected and no thread started before first use. A client that was used before `os.fork()` raises
    `UsedAfterFork` in the child. Without `ca_file` only addresses of this machine are spoken to.

    Raises `ConfigurationError`.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        api_key: str | None = None,
        api_url: str | None = None,
        ca_file: str | None = None,
        profile: str | None = None,
        zone: str | None = None,
    ) -> None:
        settings = connection_settings(
            bootstrap=bootstrap, api_key=api_key, api_url=api_url, ca_file=ca_file, zone=zone, profile=profile
        )
        self._runtime = Runtime(settings)
        self._producers: list[Producer[Any, Any]] = []
        self._members: list[Consumer] = []
        """Consumers that leave their group when the client is closed."""
        self._admin: Admin | None = None
        self._finalizer = weakref.finalize(self, self._runtime.let_go)
        self._finalizer.atexit = False  # the runtime's own exit comes after all that the program does

    @overload
    def producer(
        self, *, value_serializer: None = None, key_serializer: None = None, **rest: Unpack[ProducerArguments]
    ) -> Producer[Buffer, Buffer]: ...

    @overload
    def producer(
        self,
        *,
        value_serializer: Serializer[_Value],
        key_serializer: None = None,
        **rest: Unpack[ProducerArguments],
    ) -> Producer[_Value, Buffer]: ...

    @overload
    def producer(
        self,
        *,
        value_serializer: None = None,
        key_serializer: Serializer[_Key],
        **rest: Unpack[ProducerArguments],
    ) -> Producer[Buffer, _Key]: ...

    @overload
    def producer(
        self,
        *,
        value_serializer: Serializer[_Value],
        key_serializer: Serializer[_Key],
        **rest: Unpack[ProducerArguments],
    ) -> Producer[_Value, _Key]: ...

    def producer(
        self,
        acks: Literal["all", 0, 1] | str = "all",
        compression: str = "zstd",
        linger_ms: float = 5,
        batch_bytes: int = 256 * 1024,
        batch_messages: int = 50_000,
        idempotent: bool = True,
        delivery_timeout_ms: float = 120_000,
        buffer_bytes: int = 64 * 1024 * 1024,
        on_full: FullPolicy = "block",
        max_block_ms: float = 30_000,
        max_attempts: int | None = None,
        retry_backoff_ms: float = 20,
        retry_backoff_max_ms: float = 1_000,
        partitioner: Partitioner | None = None,
        value_serializer: Serializer[Any] | None = None,
        key_serializer: Serializer[Any] | None = None,
        message_ids: bool = False,
        receipts: str | PathLike[str] | None = None,
        sample_keys: bool = True,
        report_hot_keys: bool = True,
    ) -> Producer[Any, Any]:
        """A producer of its own identity and buffer.

        The guide docs/guides/producers-and-consumers.md explains each argument. `receipts` names a file that the
        producer writes its own totals of acknowledged messages to; it is opened, and read if it exists, at once.
        `sample_keys`: look at some keys, one of about 256 where many are sent, so that `stats` knows the frequent ones.
        `report_hot_keys`: tell brokers the keys that are 10 % or more of a partition, so that who may read the topic's
        messages sees them.

        Raises `ConfigurationError`.
        """
        self._runtime.enter()
        producer: Producer[Any, Any] = Producer(
            self._runtime,
            producer_settings(
                acks=acks,
                compression=compression,
                linger_ms=linger_ms,
                batch_bytes=batch_bytes,
                batch_messages=batch_messages,
                idempotent=idempotent,
                delivery_timeout_ms=delivery_timeout_ms,
                buffer_bytes=buffer_bytes,
                on_full=on_full,
                max_block_ms=max_block_ms,
                max_attempts=max_attempts,
                retry_backoff_ms=retry_backoff_ms,
                retry_backoff_max_ms=retry_backoff_max_ms,
                partitioner=partitioner,
                receipts=receipts,
                sample_keys=sample_keys,
                report_hot_keys=report_hot_keys,
            ),
            self,
            message_serializer(value_serializer, key_serializer, new_message_id if message_ids else None),
        )
        self._producers = [*(other for other in self._producers if not other.closed), producer]
        return producer

    def consumer(
        self,
        topics: str | Sequence[str] = (),
        group: str | None = None,
        auto_offset_reset: OffsetReset = "earliest",
        auto_commit: bool | None = None,
        fetch_bytes: int = 32 * 1024 * 1024,
        partition_fetch_bytes: int = 8 * 1024 * 1024,
        instance_id: str | None = None,
        assignor: Literal["range", "sticky"] = "sticky",
        auto_commit_interval_ms: float = 5_000,
        session_timeout_ms: float = 10_000,
        rebalance_timeout_ms: float = 60_000,
        max_poll_interval_ms: float = 300_000,
        on_assigned: Hook | None = None,
        on_revoked: Hook | None = None,
        value_deserializer: Serializer[Any] | Sequence[Serializer[Any]] | None = None,
        key_deserializer: Serializer[Any] | None = None,
        malformed: MalformedPolicy = "skip",
        on_malformed: OnMalformed | None = None,
        on_undecodable: OnUndecodable = "stop",
        zone: str | None = None,
    ) -> Consumer:
        """A consumer of all partitions of `topics`, or of those that `assign` names later; with `group` one of
        those that share them. The guide docs/guides/producers-and-consumers.md explains each argument.

        `auto_offset_reset` says where to begin where nothing is committed, and where to go on when the position is
        no longer in the log. `auto_commit` is on in a group, unless it is False. A batch whose records are not what
        its header says is skipped whole, in the log and with `on_malformed`, or stops its partition (`malformed`). A
        message that its deserializer does not take stops its partition, is skipped ("skip"), or is given as it is
        stored to `on_undecodable(message, error)` and then skipped.
        `zone` names a host or a zone: partitions are read from a replica in sync there, else from their leader.

        Raises `ConfigurationError`.
        """
        self._runtime.enter()
        names, settings = consumer_settings(
            topics=topics,
            group=group,
            auto_offset_reset=auto_offset_reset,
            auto_commit=auto_commit,
            fetch_bytes=fetch_bytes,
            partition_fetch_bytes=partition_fetch_bytes,
            malformed=malformed,
            on_malformed=on_malformed,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            on_undecodable=on_undecodable,
            zone=zone or self._runtime.settings.zone,
            instance_id=instance_id,
            assignor=assignor,
            auto_commit_interval_ms=auto_commit_interval_ms,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            max_poll_interval_ms=max_poll_interval_ms,
        )
        deserializer = message_deserializer(value_deserializer, key_deserializer)
        consumer = Consumer(
            self._runtime,
            names,
            settings,
            self,
            on_assigned,
            on_revoked,
            deserializer,
            on_malformed,
            on_undecodable,
        )
        if group is not None:
            self._members = [*(other for other in self._members if not other.closed), consumer]
        return consumer

    @property
    def admin(self) -> Admin:
        """Topics, keys, limits, usage and invoices of the tenant, over REST. Raises `ConfigurationError` without
        an `api_url`.
        """
        # Imported at first use: what only sends and reads messages needs no HTTP.
        from penstock.admin.blocking import Admin
        from penstock.rest.client import RestClient

        self._runtime.enter()
        if self._admin is None:
            settings = self._runtime.settings
            self._admin = Admin(RestClient(settings.api_url, settings.api_key, settings.ca_file))
        return self._admin

    def topics(self, timeout: float = 10.0) -> list[TopicDescription]:
        """All topics that the key may see, by name. Raises `BrokerUnavailable`, `Throttled`, `Unauthenticated`."""
        return descriptions.topics_in(self._ask(descriptions.metadata_call(None), timeout))

    def topic(self, name: str, timeout: float = 10.0) -> TopicDescription:
        """One topic. Raises `NotFound`, and as `topics` does."""
        return descriptions.topic_in(self._ask(descriptions.metadata_call((name,)), timeout), name)

    def brokers(self, timeout: float = 10.0) -> list[BrokerDescription]:
        """All registered brokers by id. Raises as `topics` does."""
        return descriptions.brokers_in(self._ask(descriptions.metadata_call(()), timeout))

    def close(self, timeout: float | None = None) -> None:
        """Flush every producer for up to `timeout` seconds (None = its delivery timeout) and close it, close every
        consumer, end every connection. Closing twice is harmless.

        Raises `ReceiptsNotWritten`, or what an `on_revoked` raised, when everything else is done.
        """
        require_outside_calls(self._runtime.lock)
        failures: list[Exception] = []
        for producer in self._producers:
            try:
                producer.close(timeout)
            except ReceiptsNotWritten as error:
                failures.append(error)
        if self._runtime.unusable is None:
            for member in self._members:
                try:
                    member.close()
                except Exception as error:  # the application's hook
                    failures.append(error)
            self._runtime.close()
        if self._admin is not None:
            self._admin.close()
        self._finalizer.detach()
        if failures:
            raise failures[0]

    def delete_records(
        self, before: Mapping[tuple[str, int], int], timeout: float = 30.0
    ) -> dict[tuple[str, int], int]:
        """Delete what lies before an offset, (topic, partition) -> offset; -1 = everything that is committed.

        Returns where each log begins then, on every in-sync replica. What is deleted was metered before. Raises
        `NotFound`, `Forbidden`, `OffsetOutOfRange`, and as `topics` does.
        """
        return self._converse(record_safety.delete_records(before), timeout)

    def durability(self, topic: str, timeout: float = 10.0) -> list[PartitionDurability]:
        """Describe what was read back from the disks and compared between the replicas, by partition. Raises
        `NotFound`, and as `topics` does.
        """
        return self._converse(record_safety.durability(topic), timeout)

    def groups(self, timeout: float = 10.0) -> list[GroupSummary]:
        """All consumer groups of the tenant that the key may see, by name. Raises as `topics` does."""
        return self._converse(group_descriptions.list_groups(), timeout)

    def group(self, name: str, timeout: float = 10.0) -> GroupDescription:
        """One consumer group with its members and offsets. Raises `GroupNotFound`, and as `topics` does."""
        return self._converse(group_descriptions.describe_group(name), timeout)

    def reset_group(self, name: str, offsets: Mapping[tuple[str, int], int], timeout: float = 10.0) -> None:
        """Move committed offsets, (topic, partition) -> next offset, of a group without members.

        Raises `GroupNotFound`, `GroupNotEmpty`, `NotFound`, `OffsetOutOfRange`, and as `topics` does.
        """
        self._converse(group_descriptions.reset_group(name, offsets), timeout)

    def delete_group(self, name: str, timeout: float = 10.0) -> None:
        """Forget a group without members, and its offsets. Raises `GroupNotFound`, `GroupNotEmpty`."""
        self._converse(group_descriptions.delete_group(name), timeout)

    def _converse(self, conversation: Conversation[_T], timeout: float) -> _T:
        """Hold a conversation to its end, or until the time is up."""
        self._runtime.enter()
        patience = Patience(timeout, now_ms())
        try:
            call = next(conversation)
            while True:
                left = patience.left_ms(now_ms()) / 1000
                if isinstance(call, PenstockError):
                    patience.hear(call, now_ms())
                    time.sleep(PAUSE_MS / 1000)
                    call = next(conversation)
                else:
                    try:
                        answer = self._ask(call, left)
                    except PenstockError as error:
                        call = conversation.throw(error)
                    else:
                        call = conversation.send(answer)
        except StopIteration as done:
            outcome: _T = done.value
            return outcome
        except BrokerUnavailable as error:
            ended_by = patience.end(error, now_ms())
            if ended_by is error:
                raise
            raise ended_by from error
        finally:
            conversation.close()

    def _ask(self, call: BrokerCall[_M], timeout: float) -> _M:
        runtime = self._runtime
        longest_ms = wait_ms(timeout) if call.broker is None else min(wait_ms(timeout), BROKER_MS)
        answers: list[_M] = []
        failures: list[PenstockError] = []
        collect = _collector(runtime, answers)
        runtime.enter()
        with runtime.lock:
            runtime.start()
            sent = runtime.core.send_request(
                call.method,
                call.request,
                deadline=now_ms() + longest_ms,
                on_answer=lambda response, now: collect(call.answer.FromString(response), now),
                on_failure=_collector(runtime, failures),
                broker=call.broker,
                once=call.broker is not None,
            )
            runtime.wake()
            while not answers and not failures:
                runtime.check()
                if not runtime.wait(sent.deadline + 1_000):
                    break
        if answers:
            return answers[0]
        raise failures[0] if failures else TimedOut(f"{call.method}: no answer within {timeout:g} s")

    def __repr__(self) -> str:
        settings = self._runtime.settings
        return f"<penstock.Client of {', '.join(settings.bootstrap) or settings.api_url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runtime.unusable is None:
            for member in self._members:
                member.end(finished=kind is None)
        self.close(flush_timeout_after(kind))


def _collector(runtime: Runtime, into: list[_T]) -> Callable[[_T, float], None]:
    def tell(what: _T, now: float) -> None:
        into.append(what)
        runtime.core.changed = True

    return tell
