"""Callers over a rate are refused before Django: with the same answer again, until the count of the rate ends.

Who is over a rate often asks again at once, and each refusal would cost the way through middleware, database and view.
So the answer is remembered by process, for the credential and, where the rate is the tenant's, for the tenant that the
request names. Nothing is let in by it: a credential that ended meanwhile hears of it when the count has ended.

Even so each call costs its way through the HTTP server. Who goes on asking therefore gets the answer only when the
count has ended: a client that waits for its answers then asks once a count on each connection, however quick it is.
"""

import hashlib
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.core.handlers.wsgi import get_path_info
from django.urls import Resolver404, ResolverMatch, resolve
from rest_framework.views import APIView

from control_plane.api import addresses, metrics
from control_plane.api.delayed_answers import delay
from control_plane.api.middleware import HEADER, request_id_of
from control_plane.rest.throttles import CallerThrottle
from control_plane.rest.views import REFUSED_BY_RATE, CallerView, RefusedByRate, TenantView

KEPT_S_MAX = 1.0
"""Until the whole way is gone again, however long the count lasts: a limit that was raised counts from then on."""
REMEMBERED_MAX = 10_000
"""Answers, of about 1 KiB each; beyond it the oldest are removed, and those callers refused the long way."""
AT_ONCE = 10
"""Answers of a count that leave at once: calls that were under way when the rate was reached are not slowed down."""
APART_S = 0.01
SPREAD_S_MAX = 0.5
"""Delayed answers leave one after the other, so that their callers do not all come back at once and go the whole way
before the first of them is refused again."""
_STATUS = "429 Too Many Requests"
_log = logging.getLogger("control_plane.requests")

Environment = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class _Answer:
    until: float
    refused: RefusedByRate
    headers: list[tuple[str, str]]
    body: bytes
    times: int = 0
    """How often it was given again."""


class EarlyRefusals:
    """The WSGI application before Django's."""

    def __init__(
        self, application: Callable[..., Iterable[bytes]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._application = application
        self._clock = clock
        self._lock = threading.Lock()
        self._secret = secrets.token_bytes(32)
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()
        """The oldest first. By keyed hash: no credential rests here."""

    def __call__(self, environ: Environment, start_response: Callable[..., Any]) -> Iterable[bytes]:
        began = self._clock()
        if self._answers and (again := self._known(environ, began)) is not None:
            answer, match = again
            metrics.count(environ["REQUEST_METHOD"], match.route, 429, self._clock() - began)
            metrics.count_limit(answer.refused.tenant, answer.refused.limit)
            late = answer.times - AT_ONCE
            if late > 0:
                delay(environ, answer.until + min((late - 1) * APART_S, SPREAD_S_MAX))
            start_response(_STATUS, [*answer.headers, (HEADER, request_id_of(environ))])
            return [answer.body]
        headers: list[tuple[str, str]] = []

        def started(status: str, given: list[tuple[str, str]], *rest: Any) -> Any:
            headers.extend(given)
            return start_response(status, given, *rest)

        response = self._application(environ, started)
        refused = environ.get(REFUSED_BY_RATE)
        if isinstance(refused, RefusedByRate):
            self._remember(environ, refused, headers, bytes(getattr(response, "content", b"")))
        return response

    def _known(self, environ: Environment, now: float) -> tuple[_Answer, ResolverMatch] | None:
        """The answer of a moment ago that this request would get too."""
        match = _match_of(environ)
        if match is None:
            return None
        keys = [key for key in (self._key(environ, match, of_tenant) for of_tenant in (False, True)) if key]
        with self._lock:
            self._forget_ended(now)
            for key in keys:
                answer = self._answers.get(key)
                if answer is not None and now < answer.until:
                    answer.times += 1
                    return answer, match
        return None

    def _remember(
        self, environ: Environment, refused: RefusedByRate, headers: list[tuple[str, str]], body: bytes
    ) -> None:
        match = _match_of(environ)
        key = None if match is None else self._key(environ, match, refused.of_tenant)
        if key is None or not body:
            return
        now = self._clock()
        answer = _Answer(
            until=now + min(refused.clears_in_s, KEPT_S_MAX),
            refused=refused,
            headers=[(name, value) for name, value in headers if name != HEADER],
            body=body,
        )
        with self._lock:
            before = self._answers.get(key)
            if before is not None and now < before.until:
                return  # of a call that was refused at the same time: what it would give again begins once
            self._answers.pop(key, None)
            self._answers[key] = answer
            self._forget_ended(now)
            if len(self._answers) > REMEMBERED_MAX:
                _log_times(self._answers.popitem(last=False)[1])
        if before is not None:
            _log_times(before)

    def _forget_ended(self, now: float) -> None:
        while self._answers:
            key, oldest = next(iter(self._answers.items()))
            if now < oldest.until:
                return
            del self._answers[key]
            _log_times(oldest)

    def _key(self, environ: Environment, match: ResolverMatch, of_tenant: bool) -> bytes | None:
        """What a refusal is remembered by. None: the view does not count for the caller's rate, or for the tenant's."""
        view = getattr(match.func, "cls", None)
        if not (isinstance(view, type) and issubclass(view, CallerView)):
            return None
        parts = [environ["HTTP_AUTHORIZATION"]]
        if of_tenant:
            if not (issubclass(view, TenantView) and view.counted):
                return None
            in_path = view.wanted_tenant is not TenantView.wanted_tenant
            parts += [environ.get("HTTP_PENSTOCK_TENANT", ""), match.route if in_path else ""]
            parts += [str(match.kwargs) if in_path else ""]
        elif CallerThrottle not in view.throttle_classes or view.get_throttles is not APIView.get_throttles:
            return None
        text = "\0".join(f"{len(part)}:{part}" for part in parts)
        return hashlib.blake2b(text.encode(errors="surrogatepass"), key=self._secret, digest_size=32).digest()


def _match_of(environ: Environment) -> ResolverMatch | None:
    """The view of REST that the request is for; None without a credential."""
    if not environ.get("HTTP_AUTHORIZATION") or not environ["PATH_INFO"].startswith(addresses.REST):
        return None
    try:
        return resolve(get_path_info(environ))
    except Resolver404:
        return None


def _log_times(answer: _Answer) -> None:
    """One line for all of them, where each request else has its own."""
    if answer.times:
        _log.info(
            "requests refused early",
            extra={
                "tenant": answer.refused.tenant,
                "limit": answer.refused.limit,
                "requests": answer.times,
            },
        )
