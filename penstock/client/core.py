"""The client's core: joins metadata, producers and consumers, and turns what they want into actions for the
runtime.

A runtime keeps to this: it calls every method under one lock (asyncio needs none); after each call it takes
`actions`, `woken`, `completed` and `changed`, and calls `step` when `attention` was raised or
`next_step_at` has come. Times are milliseconds of one clock that never goes back.
"""

from __future__ import annotations

from random import Random

from google.protobuf.message import DecodeError

from penstock.client.actions import Action, CloseStream, OpenStream, OpenWatch
from penstock.client.cluster_view import ClusterView, TopicView
from penstock.client.consuming.consumer import ConsumerCore
from penstock.client.metadata_watches import MetadataWatches
from penstock.client.outage import Outage
from penstock.client.ports import BrokerRequest, OnAnswer, OnFailure, StreamOwner, UnencodedFrame
from penstock.client.producing.batch import ProducerBatch, ReceiptsLedger
from penstock.client.producing.producer import ProducerCore
from penstock.client.refusals import final
from penstock.client.requests import BrokerRequests, unanswered
from penstock.client.settings import ConsumerSettings, ProducerSettings
from penstock.client.timing import NEVER
from penstock.contract import methods
from penstock.contract.errors import InvalidRequest, PenstockError, UsedAfterFork
from penstock.contract.frames import FrameError
from penstock.contract.v1 import log_pb2

SUSPECT_MS = 2_000
"""An address that failed is not asked for this long while another is known."""
REFRESH_MS = 100
"""Metadata is asked for at most this often; the watches usually bring it."""
REFRESH_DEADLINE_MS = 10_000


class ClientCore:
    """State machine of one client."""

    def __init__(self, bootstrap: tuple[str, ...], random: Random) -> None:
        self.view = ClusterView()
        self._random = random
        self._bootstrap = bootstrap
        self._turn = random.randrange(len(bootstrap))
        self._suspects: dict[str, float] = {}
        self._outage = Outage(len(bootstrap))
        self._now = 0.0
        self._tokens = 0
        self._planned = NEVER
        self._streams: dict[int, StreamOwner] = {}
        self._watch_tokens: dict[int, None] = {}
        self._metadata_watches = MetadataWatches(self, random)
        self._requests = BrokerRequests(self, random)
        self._interest: dict[str, list[StreamOwner]] = {}
        self._topics_asked: dict[str, BrokerRequest] = {}
        self._topic_errors: dict[str, PenstockError] = {}
        self._interest_changed = False
        self._refresh_wanted = False
        self._refreshing = False
        self._refreshed_at = -NEVER
        self.producers: list[ProducerCore] = []
        self.consumers: list[ConsumerCore] = []
        self.actions: list[Action] = []
        self.attention = False
        """`step` has something to do, or `next_step_at` may have moved to an earlier time."""
        self.woken: dict[int, float] = {}
        """Streams whose writer should look for a frame, and when (0 = now)."""
        self.completed: list[ProducerBatch] = []
        """Batches whose outcome is known: the runtime takes them and runs their callbacks outside the lock.
        """
        self.changed = False
        """Something that a waiting caller may wait for has changed: topics, space in a buffer, messages,
        positions.
        """

    # ---- producers and consumers ---------------------------------------------------------------------------------

    def add_producer(self, settings: ProducerSettings, ledger: ReceiptsLedger | None) -> ProducerCore:
        producer = ProducerCore(self, settings, self._random, ledger)
        self.producers.append(producer)
        return producer

    def add_consumer(self, topics: tuple[str, ...], settings: ConsumerSettings) -> ConsumerCore:
        consumer = ConsumerCore(self, topics, settings, self._random)
        self.consumers.append(consumer)
        return consumer

    def remove(self, owner: StreamOwner, now: float) -> None:
        """Close one producer or consumer: what has no outcome fails, its streams end."""
        self._now = now
        owner.close(now)
        self.producers = [other for other in self.producers if other is not owner]
        self.consumers = [other for other in self.consumers if other is not owner]
        for name in list(self._interest):
            self.forget_topic(name, owner)

    def close(self, now: float) -> None:
        owners: list[StreamOwner] = [*self.producers, *self.consumers]
        for owner in owners:
            self.remove(owner, now)
        self._metadata_watches.close()
        self.changed = True

    def after_fork(self, used: UsedAfterFork | None) -> UsedAfterFork | None:
        """In a child process: what was never used (None) goes on under names of its own. Else everything has failed
        with the error that is returned.
        """
        if used is not None:
            error = used
        elif any(producer.keeps_receipts for producer in self.producers):
            error = UsedAfterFork(
                "client: its producer keeps receipts in a file of the process before os.fork(); make them after"
            )
        else:
            for consumer in self.consumers:
                if consumer.member is not None:
                    consumer.member.after_fork()
            return None
        for producer in self.producers:
            for batch in producer.pending():
                batch.finish(error)
        return error

    # ---- driving ------------------------------------------------------------------------------------------------

    def step(self, now: float) -> None:
        """Do what the clock and `attention` demand."""
        self._now = now
        self.attention = False
        for producer in self.producers:
            producer.step(now)
        for consumer in self.consumers:
            consumer.step(now)
        if self._interest_changed:
            self._interest_changed = False
            self._metadata_watches.topics_changed(tuple(sorted(self._interest)), now)
        if self._refresh_wanted and not self._refreshing and now >= self._refreshed_at + REFRESH_MS:
            self._start_refresh(now)
        self._metadata_watches.step(now)
        self._requests.step(now)

    def next_step_at(self) -> float:
        at = min(self._metadata_watches.next_step_at(), self._requests.next_step_at())
        for producer in self.producers:
            at = min(at, producer.next_step_at())
        for consumer in self.consumers:
            at = min(at, consumer.next_step_at())
        if self._refresh_wanted and not self._refreshing:
            at = min(at, self._refreshed_at + REFRESH_MS)
        if self._interest_changed:
            at = 0.0
        self._planned = at
        return at

    # ---- what the runtime reports -------------------------------------------------------------------------------

    def frame_received(self, token: int, frame: bytes, now: float) -> None:
        """A frame of a stream, or an answer of a watch."""
        self._now = now
        try:
            if token in self._watch_tokens:
                if self._metadata_watches.pushed(token):
                    self._apply(log_pb2.MetadataResponse.FromString(frame), now)
                return
            owner = self._streams.get(token)
            if owner is not None:
                self.answered()
                owner.frame_received(token, frame, now)
        except (FrameError, DecodeError) as error:
            self._lost(token, None, f"the broker broke the protocol: {error}", now)
            self.close_stream(token)

    def stream_lost(self, token: int, code: int | None, message: str, now: float) -> None:
        """A stream or watch could not be opened or has ended. `code` is an `ErrorCode` if the broker gave
        one.
        """
        self._now = now
        self._lost(token, code, message, now)

    def _lost(self, token: int, code: int | None, message: str, now: float) -> None:
        if token in self._watch_tokens:
            del self._watch_tokens[token]
            self._metadata_watches.lost(token, code, message, now)
            self.attend()
            return
        owner = self._streams.pop(token, None)
        if owner is not None:
            owner.stream_lost(token, code, message, now)

    def call_answered(self, token: int, response: bytes, now: float) -> None:
        self._now = now
        try:
            self._requests.answered(token, response, now)
        except DecodeError as error:
            self._requests.failed(token, None, f"the broker broke the protocol: {error}", now)
        self.attend()

    def call_failed(self, token: int, code: int | None, message: str, now: float) -> None:
        self._now = now
        self._requests.failed(token, code, message, now)
        self.attend()

    def next_frame(self, token: int, now: float) -> tuple[UnencodedFrame | bytes | None, float]:
        """What a stream's writer sends next, or None and when to look again. An `UnencodedFrame` is encoded
        outside the lock.
        """
        self._now = now
        owner = self._streams.get(token)
        return owner.next_outgoing(token, now) if owner is not None else (None, NEVER)

    def encoded(self, token: int, outgoing: UnencodedFrame) -> None:
        """An `UnencodedFrame` has become a frame; call it before the frame is sent."""
        outgoing.encoded(token)

    # ---- what producers and consumers use ------------------------------------------------------------------------

    def new_token(self) -> int:
        self._tokens += 1
        return self._tokens

    def act(self, action: Action) -> None:
        self.actions.append(action)

    def attend(self) -> None:
        self.attention = True

    def attend_at(self, at: float) -> None:
        """`step` must come by this time; the runtime may be waiting for a later one."""
        if at < self._planned:
            self.attention = True

    def outcome_known(self, batch: ProducerBatch) -> None:
        self.completed.append(batch)
        self.changed = True

    def wake_writer(self, token: int, at: float = 0.0) -> None:
        if at < self.woken.get(token, NEVER):
            self.woken[token] = at

    def open_stream(self, owner: StreamOwner, address: str, method: str) -> int:
        token = self.new_token()
        self._streams[token] = owner
        self.act(OpenStream(token=token, address=address, method=method))
        return token

    def open_watch(self, address: str, method: str, request: bytes) -> int:
        token = self.new_token()
        self._watch_tokens[token] = None
        self.act(OpenWatch(token=token, address=address, method=method, request=request))
        return token

    def close_stream(self, token: int, *, gently: bool = False, last: tuple[bytes, ...] = ()) -> None:
        self._streams.pop(token, None)
        self._watch_tokens.pop(token, None)
        self.act(CloseStream(token=token, gently=gently, last=last))

    def send_request(
        self,
        method: str,
        payload: bytes,
        *,
        deadline: float,
        on_answer: OnAnswer,
        on_failure: OnFailure,
        broker: int | None = None,
        once: bool = False,
    ) -> BrokerRequest:
        """Ask `broker` (None = any) until answered or `deadline`, or `once`; exactly one of the callbacks comes,
        later.
        """
        request = BrokerRequest(method, payload, deadline, on_answer, on_failure, broker, once)
        self._requests.add(request)
        self.attend()
        return request

    def cancel_request(self, request: BrokerRequest) -> None:
        self._requests.drop(request)

    # ---- addresses ----------------------------------------------------------------------------------------------

    @property
    def address_count(self) -> int:
        return len(self._addresses())

    def _addresses(self) -> list[str]:
        """Registered brokers by id; the bootstrap addresses while none is known."""
        known = [self.view.brokers[broker] for broker in sorted(self.view.brokers)]
        return known or list(self._bootstrap)

    def address_for(self, broker: int | None, avoid: list[str] | None = None) -> str | None:
        """Where to ask: the broker's address, or the next one in turn, the ones that failed lately last."""
        if broker is not None:
            return self.view.address_of(broker)
        addresses = self._addresses()
        if all(self._suspected(address) for address in addresses):
            addresses += [address for address in self._bootstrap if address not in addresses]
        self._turn += 1
        turned = [addresses[(self._turn + index) % len(addresses)] for index in range(len(addresses))]
        taken = avoid or []
        return min(turned, key=lambda address: (address in taken, self._suspected(address)))

    def _suspected(self, address: str) -> bool:
        return self._suspects.get(address, -NEVER) > self._now

    def address_failed(self, address: str, why: str, now: float) -> None:
        self._suspects[address] = now + SUSPECT_MS
        self._outage.failed(address, why, now)

    def answered(self) -> None:
        """Some broker said something, be it a refusal. What waits out a pause grown in an outage goes on at once."""
        if self._outage.answered():
            self._requests.outage_ended()
            for producer in self.producers:
                producer.outage_ended()
            self.attend()

    def address_works(self, address: str) -> None:
        self._suspects.pop(address, None)

    # ---- metadata -----------------------------------------------------------------------------------------------

    def watch_topic(self, name: str, owner: StreamOwner) -> TopicView | None:
        """The topic as known now, or None while it is being asked for. From now on `owner` hears of its
        changes.

        Raises what the brokers finally answered, once; the next call asks again.
        """
        error = self._topic_errors.pop(name, None)
        if error is not None:
            raise error
        owners = self._interest.setdefault(name, [])
        if owner not in owners:
            owners.append(owner)
            if len(owners) == 1:
                self._interest_changed = True
                self.attend()
        view = self.view.topics.get(name)
        if view is None and name not in self._topics_asked:
            self._ask_topic(name)
        return view

    def forget_topic(self, name: str, owner: StreamOwner) -> None:
        owners = self._interest.get(name)
        if owners is None or owner not in owners:
            return
        owners.remove(owner)
        if not owners:
            del self._interest[name]
            self.view.forget(name)
            asked = self._topics_asked.pop(name, None)
            if asked is not None:
                self._requests.drop(asked)
            self._interest_changed = True
            self.attend()

    def topic_waits(self, name: str) -> PenstockError:
        """Why a topic is not known yet, for a caller that waited too long."""
        asked = self._topics_asked.get(name)
        return unanswered(
            f"{name}: no broker described its partitions",
            asked.errors if asked is not None else {},
            f"no answer from {', '.join(self._addresses())}",
        )

    def refresh(self, now: float) -> None:
        """Ask for the metadata of all topics in use, soon and not too often."""
        if not self._refresh_wanted:
            self._refresh_wanted = True
            self.attend()

    def _ask_topic(self, name: str) -> None:
        def failed(error: PenstockError, now: float) -> None:
            self._topics_asked.pop(name, None)
            view = self.view.topics.get(name)
            if view is not None and view.error is None:
                return  # a watch described it meanwhile, and its owners go on hearing of it
            self._topic_errors[name] = error
            self._interest.pop(name, None)
            self._interest_changed = self.changed = True

        def answered(response: bytes, now: float) -> None:
            metadata = log_pb2.MetadataResponse.FromString(response)
            self._topics_asked.pop(name, None)
            self._apply(metadata, now)

        self._topics_asked[name] = self.send_request(
            methods.METADATA,
            log_pb2.MetadataRequest(topics=[name]).SerializeToString(),
            deadline=NEVER,  # the caller that waits has its own, shorter limit
            on_answer=answered,
            on_failure=failed,
        )

    def _start_refresh(self, now: float) -> None:
        self._refresh_wanted = False
        self._refreshing = True
        self._refreshed_at = now

        def over(error: PenstockError, now: float) -> None:
            self._refreshing = False
            if final(error) and not isinstance(error, InvalidRequest):
                self._refresh_wanted = False

        def answered(response: bytes, now: float) -> None:
            metadata = log_pb2.MetadataResponse.FromString(response)
            self._refreshing = False
            self._apply(metadata, now)

        self.send_request(
            methods.METADATA,
            log_pb2.MetadataRequest(topics=sorted(self._interest)).SerializeToString(),
            deadline=now + REFRESH_DEADLINE_MS,
            on_answer=answered,
            on_failure=over,
        )

    def _apply(self, response: log_pb2.MetadataResponse, now: float) -> None:
        names = self.view.apply(response)
        for name in names:
            view = self.view.topics[name]
            for owner in list(self._interest.get(name, ())):
                owner.topic_changed(view, now)
            if name not in self._interest:
                self.view.forget(name)
        self.changed = True
        self.attend()
