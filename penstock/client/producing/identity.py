"""Who a producer is to the brokers: its id and epoch, asked for and raised.

States and what moves between them; `current` may be there in each of them:

    KNOWN --want--> WANTED
    WANTED --ask, once the pause is over--> ASKED
    ASKED --given--> KNOWN, a newer epoch
    ASKED --refused, a retry may help--> WANTED, after a pause that grows; `current` goes if it was fenced or forgotten
    ASKED --refused for good--> KNOWN, as it was
"""

from __future__ import annotations

from typing import Protocol

from penstock.client.ports import Network
from penstock.client.producing.batch import Identity
from penstock.client.refusals import final, refusal
from penstock.client.timing import NEVER, Backoff
from penstock.contract import methods
from penstock.contract.errors import ErrorCode, ErrorKind, PenstockError
from penstock.contract.v1 import log_pb2


class IdentityOwner(Protocol):
    """The producer whose identity it is."""

    def identity_given(self) -> None: ...

    def identity_refused(self, error: PenstockError, *, for_good: bool) -> None: ...


class ProducerIdentity:
    """Asks as long as an identity is wanted; the owner hears of every answer."""

    def __init__(self, network: Network, owner: IdentityOwner, *, timeout_ms: float, pauses: Backoff) -> None:
        self.current: Identity | None = None
        self._network = network
        self._owner = owner
        self._timeout_ms = timeout_ms
        self._pauses = pauses
        self._wanted = self._asked = False
        self._failures = 0
        self._retry_at = 0.0

    def want(self) -> None:
        """A first identity, or a newer epoch, is needed before more can be sent."""
        if not self._wanted:
            self._wanted = True
            self._network.attend()

    def ask(self, now: float) -> None:
        """Ask if one is wanted and it is time to."""
        if not self._wanted or self._asked or now < self._retry_at:
            return
        self._asked = True
        known = self.current or Identity(-1, -1)
        request = log_pb2.InitProducerRequest(
            producer_id=known.producer_id, producer_epoch=known.producer_epoch
        )
        self._network.send_request(
            methods.INIT_PRODUCER,
            request.SerializeToString(),
            deadline=now + self._timeout_ms,
            on_answer=self._given,
            on_failure=self._refused,
        )

    def next_ask_at(self) -> float:
        """When `ask` is due by the clock alone."""
        return self._retry_at if self._wanted and not self._asked else NEVER

    def forget(self) -> None:
        """The brokers fenced it: the next one has a new id."""
        self.current = None

    def outage_ended(self) -> None:
        """It waits out no pause that grew while no broker answered."""
        self._failures = 0
        self._retry_at = 0.0

    def _given(self, response: bytes, now: float) -> None:
        answer = log_pb2.InitProducerResponse.FromString(response)
        if answer.error:
            self._refused(refusal(answer.error, answer.message), now)
            return
        self._asked = self._wanted = False
        self._failures = 0
        self.current = Identity(answer.producer_id, answer.producer_epoch)
        self._owner.identity_given()

    def _refused(self, error: PenstockError, now: float) -> None:
        self._asked = False
        if error.kind is ErrorKind.FENCED or error.code in (ErrorCode.UNKNOWN_PRODUCER, ErrorCode.NOT_FOUND):
            self.current = None
        elif final(error):
            self._wanted = False
            self._owner.identity_refused(error, for_good=True)
            return
        self._owner.identity_refused(error, for_good=False)
        self._failures += 1
        self._retry_at = now + self._pauses.delay_ms(self._failures)
        self._network.attend()
