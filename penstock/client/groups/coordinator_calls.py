"""Calls to a group's coordinator, which is looked up when it is not known; each is tried once."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from penstock.client.ports import BrokerRequest, Network, OnAnswer, OnFailure
from penstock.client.refusals import final, refusal
from penstock.client.timing import NEVER, Backoff
from penstock.contract import methods
from penstock.contract.errors import PenstockError, Throttled
from penstock.contract.v1 import groups_pb2 as pb

CALL_MS = 3_000
"""A coordinator that was stopped or is out of reach does not refuse: after this time the client looks for another."""
FIND_MS = 5_000
THROTTLED_MAX = 3
"""A coordinator is looked for again when it has throttled so many calls, and answered none between them."""
_METHODS = {
    "heartbeat": methods.GROUP_HEARTBEAT,
    "commit": methods.COMMIT_OFFSETS,
    "fetch": methods.FETCH_COMMITTED,
}
Request = pb.GroupHeartbeatRequest | pb.CommitOffsetsRequest | pb.FetchCommittedRequest


@dataclass(slots=True, eq=False)
class _Call:
    method: str
    request: bytes
    not_before: float
    on_answer: OnAnswer
    on_failure: OnFailure


class CoordinatorCalls:
    """Calls that wait for the coordinator to be found fail together when it cannot be."""

    def __init__(self, core: Network, group: str, random: Random) -> None:
        self._core = core
        self._group = group
        self._backoff = Backoff(50, 1_000, random)
        self._coordinator: int | None = None
        self._throttled = 0
        """Calls that the coordinator has throttled since it answered one."""
        self._doubted = False
        """Another broker may coordinate by now."""
        self._finding: BrokerRequest | None = None
        self._find_at = 0.0
        self._failures = 0
        self._waiting: list[_Call] = []
        self._asked: dict[BrokerRequest, None] = {}

    def ask(
        self,
        kind: Literal["heartbeat", "commit", "fetch"],
        request: Request,
        not_before: float,
        on_answer: OnAnswer,
        on_failure: OnFailure,
    ) -> None:
        """Ask at once, or at that time. Exactly one of the callbacks comes, later, unless `close` does."""
        self._waiting.append(
            _Call(_METHODS[kind], request.SerializeToString(), not_before, on_answer, on_failure)
        )
        self._core.attend()

    def not_answered(self, error: PenstockError) -> None:
        """The coordinator refused or did not answer: look for it again. One that throttles does not say whether it is
        still the coordinator: at the third time it is looked for, and goes on to be asked until it is found, for it
        may take heartbeats."""
        self._throttled = self._throttled + 1 if isinstance(error, Throttled) else 0
        if self._throttled == 0:
            self._coordinator = None
        elif self._throttled == THROTTLED_MAX:
            self._throttled = 0
            self._doubted = True

    def step(self, now: float) -> None:
        due = [call for call in self._waiting if call.not_before <= now]
        looks = self._coordinator is None or self._doubted
        if due and looks and self._finding is None and self._find_at <= now:
            self._find(now)
        if self._coordinator is not None:
            self._waiting = [call for call in self._waiting if call.not_before > now]
            for call in due:
                self._send(call, self._coordinator, now)

    def next_step_at(self) -> float:
        if self._finding is not None and self._coordinator is None:
            return NEVER
        due_at = min((call.not_before for call in self._waiting), default=NEVER)
        return due_at if self._coordinator is not None else max(due_at, self._find_at)

    def close(self) -> None:
        self._waiting.clear()
        for sent in [*self._asked, *([self._finding] if self._finding is not None else [])]:
            self._core.cancel_request(sent)
        self._asked.clear()
        self._finding = None

    def _send(self, call: _Call, coordinator: int, now: float) -> None:
        def answered(response: bytes, now: float) -> None:
            self._asked.pop(sent, None)
            self._throttled = 0
            call.on_answer(response, now)

        def failed(error: PenstockError, now: float) -> None:
            self._asked.pop(sent, None)
            call.on_failure(error, now)

        sent = self._core.send_request(
            call.method,
            call.request,
            deadline=now + CALL_MS,
            on_answer=answered,
            on_failure=failed,
            broker=coordinator,
            once=True,
        )
        self._asked[sent] = None

    def _find(self, now: float) -> None:
        def answered(response: bytes, now: float) -> None:
            answer = pb.FindCoordinatorResponse.FromString(response)
            self._finding = None
            if answer.error:
                failed(refusal(answer.error, answer.message), now)
                return
            self._failures = 0
            self._doubted = False
            self._coordinator = answer.broker_id
            self._core.view.brokers.setdefault(answer.broker_id, answer.address)
            self._core.attend()

        def failed(error: PenstockError, now: float) -> None:
            self._finding = None
            self._failures += 1
            self._find_at = now + self._backoff.delay_ms(self._failures)
            if final(error) or self._failures % 5 == 0:
                waiting, self._waiting = self._waiting, []
                for call in waiting:
                    call.on_failure(error, now)
            self._core.attend()

        self._finding = self._core.send_request(
            methods.FIND_COORDINATOR,
            pb.FindCoordinatorRequest(group=self._group).SerializeToString(),
            deadline=now + FIND_MS,
            on_answer=answered,
            on_failure=failed,
        )
