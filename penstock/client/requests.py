"""Unary requests that are asked of one broker after another until answered, refused for good, or too late."""

from __future__ import annotations

from random import Random

from penstock.client.actions import StartCall
from penstock.client.outage import each_of
from penstock.client.ports import Connections, Enquiry
from penstock.client.refusals import final, refusal
from penstock.client.timing import NEVER, Backoff
from penstock.contract.errors import BrokerUnavailable, PenstockError

_TRY_MS_FIRST = 1_500
_TRY_MS_LONGEST = 10_000
"""A broker that is stopped or cut off does not answer and does not refuse: the next one is asked after this
time.
"""


class Enquiries:
    """Those under way. Each ends in exactly one call of `on_answer` or `on_failure`."""

    def __init__(self, core: Connections, random: Random) -> None:
        self._core = core
        self._backoff = Backoff(50, 1_000, random)
        self._waiting: list[Enquiry] = []
        self._asked: dict[int, Enquiry] = {}

    def add(self, enquiry: Enquiry) -> None:
        self._waiting.append(enquiry)

    def drop(self, enquiry: Enquiry) -> None:
        """Nobody waits for it any more; neither callback comes."""
        if enquiry in self._waiting:
            self._waiting.remove(enquiry)
        self._asked.pop(enquiry.token, None)

    def step(self, now: float) -> None:
        for enquiry in list(self._waiting):
            if now >= enquiry.deadline:
                self._waiting.remove(enquiry)
                enquiry.on_failure(self._too_late(enquiry), now)
            elif now >= enquiry.retry_at:
                self._ask(enquiry, now)

    def next_step_at(self) -> float:
        return min((min(enquiry.retry_at, enquiry.deadline) for enquiry in self._waiting), default=NEVER)

    def _ask(self, enquiry: Enquiry, now: float) -> None:
        address = self._core.address_for(enquiry.broker)
        if address is None:
            enquiry.errors["metadata"] = f"broker {enquiry.broker} is not registered"
            if enquiry.once:
                self._waiting.remove(enquiry)
                enquiry.on_failure(self._too_late(enquiry), now)
                self._core.refresh(now)
                return
            self._again(enquiry, now)
            self._core.refresh(now)
            return
        self._waiting.remove(enquiry)
        enquiry.attempts += 1
        enquiry.address = address
        longest = min(_TRY_MS_FIRST * 2 ** min(enquiry.attempts - 1, 8), _TRY_MS_LONGEST)
        if enquiry.once:
            longest = _TRY_MS_LONGEST
        timeout_ms = max(1, int(min(longest, enquiry.deadline - now)))
        enquiry.token = self._core.new_token()
        self._asked[enquiry.token] = enquiry
        self._core.act(
            StartCall(
                token=enquiry.token,
                address=address,
                method=enquiry.method,
                request=enquiry.request,
                timeout_ms=timeout_ms,
            )
        )

    def outage_ended(self) -> None:
        for enquiry in self._waiting:
            enquiry.retry_at, enquiry.attempts = 0.0, 0

    def answered(self, token: int, response: bytes, now: float) -> None:
        enquiry = self._asked.pop(token, None)
        if enquiry is not None:
            self._core.address_works(enquiry.address)
            self._core.answered()
            enquiry.on_answer(response, now)

    def failed(self, token: int, code: int | None, message: str, now: float) -> None:
        enquiry = self._asked.pop(token, None)
        if enquiry is None:
            return
        error = refusal(code, message)
        if code is not None:
            self._core.answered()
        if code is not None and final(error):
            enquiry.on_failure(error, now)
            return
        if code is None:
            self._core.address_failed(enquiry.address, message, now)
        if enquiry.once:
            enquiry.on_failure(error, now)
            return
        enquiry.errors[enquiry.address] = error.message
        self._waiting.append(enquiry)
        self._again(enquiry, now)

    def _again(self, enquiry: Enquiry, now: float) -> None:
        rounds = enquiry.attempts // max(1, self._core.address_count)
        enquiry.retry_at = now + (self._backoff.delay_ms(rounds) if rounds else 10.0)

    def _too_late(self, enquiry: Enquiry) -> PenstockError:
        tried = each_of(enquiry.errors)
        return BrokerUnavailable(
            f"no broker answered {enquiry.method.rsplit('/', 1)[-1]} in time"
            f" ({tried or 'no answer yet'}); check the bootstrap addresses and whether the brokers run"
        )
