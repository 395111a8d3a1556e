"""Unary requests that are asked of one broker after another until answered, refused for good, or too late."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from random import Random

from penstock.client.actions import StartCall
from penstock.client.outage import each_of
from penstock.client.ports import BrokerRequest, Connections
from penstock.client.refusals import final, refusal
from penstock.client.timing import NEVER, Backoff
from penstock.contract.errors import BrokerUnavailable, PenstockError, Throttled
from penstock.contract.limits import CALL_WAIT_MS_MAX

_TRY_MS_FIRST = CALL_WAIT_MS_MAX + 700
_TRY_MS_LONGEST = 10_000
"""A broker that is stopped or out of reach does not answer and does not refuse: the next one is asked after this
time. One that lets the call wait for its tenant's limits answers before.
"""


class BrokerRequests:
    """Requests under way. Each ends in exactly one call of `on_answer` or `on_failure`."""

    def __init__(self, core: Connections, random: Random) -> None:
        self._core = core
        self._backoff = Backoff(50, 1_000, random)
        self._waiting: list[BrokerRequest] = []
        self._asked: dict[int, BrokerRequest] = {}

    def add(self, request: BrokerRequest) -> None:
        self._waiting.append(request)

    def drop(self, request: BrokerRequest) -> None:
        """The caller waits no longer; neither callback comes."""
        if request in self._waiting:
            self._waiting.remove(request)
        self._asked.pop(request.token, None)

    def step(self, now: float) -> None:
        for request in list(self._waiting):
            if now >= request.deadline:
                self._waiting.remove(request)
                request.on_failure(self._too_late(request), now)
            elif now >= request.retry_at:
                self._ask(request, now)

    def next_step_at(self) -> float:
        return min((min(request.retry_at, request.deadline) for request in self._waiting), default=NEVER)

    def _ask(self, request: BrokerRequest, now: float) -> None:
        address = self._core.address_for(request.broker)
        if address is None:
            request.errors["metadata"] = BrokerUnavailable(f"broker {request.broker} is not registered")
            if request.once:
                self._waiting.remove(request)
                request.on_failure(self._too_late(request), now)
                self._core.refresh(now)
                return
            self._again(request, now)
            self._core.refresh(now)
            return
        self._waiting.remove(request)
        request.attempts += 1
        request.address = address
        longest = min(_TRY_MS_FIRST * 2 ** min(request.attempts - 1, 8), _TRY_MS_LONGEST)
        if request.once:
            longest = _TRY_MS_LONGEST
        timeout_ms = request.try_ms = max(1, ceil(min(longest, request.deadline - now)))
        request.token = self._core.new_token()
        self._asked[request.token] = request
        self._core.act(
            StartCall(
                token=request.token,
                address=address,
                method=request.method,
                request=request.payload,
                timeout_ms=timeout_ms,
            )
        )

    def outage_ended(self) -> None:
        for request in self._waiting:
            request.retry_at, request.attempts = 0.0, 0

    def answered(self, token: int, response: bytes, now: float) -> None:
        """Raises `DecodeError` for an answer that cannot be read; the request is under way still, until `failed`."""
        request = self._asked.get(token)
        if request is not None:
            self._core.address_works(request.address)
            self._core.answered()
            request.on_answer(response, now)
            self._asked.pop(token, None)

    def failed(self, token: int, code: int | None, message: str, now: float) -> None:
        request = self._asked.pop(token, None)
        if request is None:
            return
        error = refusal(code, message)
        if code is not None:
            self._core.answered()
        if code is not None and final(error):
            request.on_failure(error, now)
            return
        if code is None:
            self._core.address_failed(request.address, message, now)
        if request.once:
            request.on_failure(error, now)
            return
        self._note(request, error, answered=code is not None)
        self._waiting.append(request)
        self._again(request, now)

    def _note(self, request: BrokerRequest, error: PenstockError, *, answered: bool) -> None:
        """Keep the error of each address, those of the last round alone. Of a try that the deadline made a short one no
        answer says less than what the broker answered before."""
        if not answered and request.try_ms < _TRY_MS_FIRST and request.address in request.errors:
            return
        request.errors.pop(request.address, None)
        request.errors[request.address] = error
        while len(request.errors) > max(1, self._core.address_count):
            del request.errors[next(iter(request.errors))]

    def _again(self, request: BrokerRequest, now: float) -> None:
        rounds = request.attempts // max(1, self._core.address_count)
        request.retry_at = now + (self._backoff.delay_ms(rounds) if rounds else 10.0)

    def _too_late(self, request: BrokerRequest) -> PenstockError:
        method = request.method.rsplit("/", 1)[-1]
        return unanswered(f"no broker answered {method} in time", request.errors, "no answer yet")


def unanswered(what: str, errors: Mapping[str, PenstockError], otherwise: str) -> PenstockError:
    """The error of a caller that waited in vain, made of what came by address: `Throttled` if a broker throttles, for
    that one runs. `otherwise`: what is said when nothing came."""
    tried = each_of({address: error.message for address, error in errors.items()}) or otherwise
    if any(isinstance(error, Throttled) for error in errors.values()):
        return Throttled(f"{what} ({tried})")
    return BrokerUnavailable(f"{what} ({tried}); check the bootstrap addresses and whether the brokers run")
