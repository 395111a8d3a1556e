"""The HTTP client of the SDK's REST calls: kept connections, deadlines, and repetition where it is harmless."""

import http.client
import json
import os
import random
import select
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, Self, cast
from urllib.parse import quote, urlencode, urlsplit

from penstock.contract.errors import (
    ConfigurationError,
    InternalError,
    InvalidRequest,
    OutcomeUnknown,
    PenstockError,
    TimedOut,
)
from penstock.rest.problems import ServiceUnavailable, problem_error
from penstock.transport.address import require_protected
from penstock.transport.authorities import tls_context

TIMEOUT_S = 15.0
REACH_S = 6.0
"""A caller that waits minutes for a large answer learns after so long that there is no service at all."""
"""A change waits up to 2 s for its delivery to the brokers; several times that."""
_ANSWER_BYTES_MAX = 256 * 1024 * 1024
"""The evidence of a large invoice is megabytes; whatever is larger is not ours."""
_BACKOFF_S = 0.1
_BACKOFF_MAX_S = 2.0
_IDLE_CONNECTIONS_MAX = 8
_PAGES_MAX = 100_000
_NOT_APPLIED = (429, 502, 503)
"""The service did nothing: the same request may be sent again."""
_TENANT_HEADER = "Penstock-Tenant"
_IDEMPOTENCY_HEADER = "Idempotency-Key"
_JSON = "application/json"


class _Unsent(Exception):
    """No connection could be made: the request did not leave."""


class _TooLate(_Unsent):
    """The deadline passed before the request could leave."""


class _AnswerLost(Exception):
    """The request may have arrived; no whole answer came back."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes
    retry_after_s: float | None


class RestClient:
    """One key's way to the control plane. Safe between threads and usable in a forked child; closing it or
    leaving its `with` closes its connections.

    A request is repeated within its deadline while the service cannot be reached or says that it did nothing
    (429, 502, 503). When an answer is lost, only what is harmless twice is sent again: reads, replacements,
    deletions, and a POST because it carries an idempotency key.
    """

    def __init__(
        self,
        api_url: str | None,
        api_key: str | None = None,
        ca_file: str | None = None,
        *,
        tenant: str | None = None,
        timeout_s: float = TIMEOUT_S,
        reach_s: float | None = None,
        program: str = "penstock-python",
    ) -> None:
        """`api_key` is an API key, a session token of a sign-in or an operator's token; None for sign-up.

        `tenant` chooses the tenant of a session token that has several. `reach_s`: a call to which no connection could
        be made is given up after so long, with two attempts at least, however long its answer may take; None: by its
        deadline alone. `program` is what it calls itself. Raises `ConfigurationError`.
        """
        if not api_url:
            raise ConfigurationError(
                "api_url: no address of the control plane; pass api_url=, set PENSTOCK_API_URL, or name a profile"
            )
        self._api_key = _header("api_key", api_key)
        self._tenant = _header("tenant", tenant)
        self._program = program
        self._timeout_s = timeout_s
        self._reach_s = reach_s
        parts = urlsplit(api_url)
        try:
            port = parts.port
        except ValueError as error:
            raise ConfigurationError(f"api_url: {api_url!r}: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigurationError(f"api_url: {api_url!r} is not http(s)://host[:port]")
        self._host = parts.hostname
        self._port = port or (443 if parts.scheme == "https" else 80)
        if not (parts.path.isascii() and parts.path.isprintable()):
            raise ConfigurationError(
                f"api_url: {api_url!r}: its path takes printable ASCII, other letters as %xx"
            )
        self._path = parts.path.rstrip("/")
        self.api_url = f"{parts.scheme}://{parts.netloc}{self._path}"
        self._tls: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self._tls = tls_context(ca_file)
        else:
            host = f"[{self._host}]" if ":" in self._host else self._host
            require_protected(f"{host}:{self._port}", None)
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"RestClient({self.api_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept; a later call opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # -- calls -----------------------------------------------------------------------------------------------

    def get(
        self, path: str, query: Mapping[str, object] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """The JSON value at `path` (which begins with a slash; make parts with `segment`).

        Raises what the problem document says (`penstock.contract.errors`), `ServiceUnavailable`, `TimedOut`.
        """
        return self._call("GET", path, query, None, timeout_s)

    def lines(
        self, path: str, query: Mapping[str, object] | None = None, *, timeout_s: float | None = None
    ) -> list[Any]:
        """The JSON values of an answer with one on each line. Raises as `get` does."""
        return cast(list[Any], self._call("GET", path, query, None, timeout_s, parse=_json_lines))

    def text(
        self, path: str, query: Mapping[str, object] | None = None, *, timeout_s: float | None = None
    ) -> str:
        """The text of an answer that is no JSON, such as a CSV file. Raises as `get` does."""
        return cast(str, self._call("GET", path, query, None, timeout_s, parse=bytes.decode))

    def download(self, path: str, file: BinaryIO, *, timeout_s: float | None = None) -> int:
        """Write an answer of any size to an empty file as it comes; its bytes. What an answer that was lost half
        way has written is written again. Raises as `get` does.
        """
        self._call("GET", path, None, None, timeout_s, into=file)
        return file.tell()

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        timeout_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Create or do something; repetitions of one call carry one idempotency key. Raises as `get` does, and
        `OutcomeUnknown`.
        """
        key = idempotency_key or uuid.uuid4().hex
        return self._call("POST", path, None, {} if body is None else body, timeout_s, key)

    def patch(self, path: str, body: Any, *, timeout_s: float | None = None) -> Any:
        """Replace the fields named in `body`. Raises as `post` does."""
        return self._call("PATCH", path, None, body, timeout_s)

    def put(self, path: str, body: Any, *, timeout_s: float | None = None) -> Any:
        """Replace the object by `body`. Raises as `post` does."""
        return self._call("PUT", path, None, body, timeout_s)

    def delete(self, path: str, *, timeout_s: float | None = None) -> Any:
        """Delete or revoke. Raises as `post` does."""
        return self._call("DELETE", path, None, None, timeout_s)

    def items(
        self, path: str, query: Mapping[str, object] | None = None, *, timeout_s: float | None = None
    ) -> Iterator[Any]:
        """Every item of a list, page after page. Each page has the deadline of one call. Raises as `get` does."""
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(_PAGES_MAX):
            asked = dict(query or {})
            if cursor is not None:
                asked["cursor"] = cursor
            page = self.get(path, asked, timeout_s=timeout_s)
            if not isinstance(page, dict) or not isinstance(page.get("items"), list):
                raise InternalError(f"{self.api_url}{path}: the answer is no list")
            yield from page["items"]
            following = page.get("next")
            if following is None:
                return
            if not isinstance(following, str) or not following.isprintable():
                raise InternalError(f"{self.api_url}{path}: the next page has no name")
            if following in seen:
                raise InternalError(f"{self.api_url}{path}: a page names itself or one before it as the next")
            seen.add(following)
            cursor = following
        raise InternalError(f"{self.api_url}{path}: over {_PAGES_MAX} pages")

    # -- one call --------------------------------------------------------------------------------------------

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        body: Any,
        timeout_s: float | None,
        idempotency_key: str | None = None,
        parse: Callable[[bytes], Any] = json.loads,
        into: BinaryIO | None = None,
    ) -> Any:
        given = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + given
        target = self._path + path + _query_text(query)
        headers = self._headers(idempotency_key)
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            headers["Content-Type"] = _JSON
        url = self.api_url + path
        pause = _BACKOFF_S
        was_lost = False
        failure: PenstockError | None = None
        attempts = 0
        reach_by = deadline if self._reach_s is None else min(deadline, time.monotonic() + self._reach_s)
        while True:
            attempts += 1
            try:
                answer = self._attempt(method, target, payload, headers, deadline, into)
                if answer.status not in _NOT_APPLIED:
                    return self._read(method, answer, url, was_lost, parse)
                failure = _refusal(answer, url)
                reach_by = deadline
                wait = max(pause, answer.retry_after_s or 0.0)
            except _Unsent as error:
                if failure is None or not isinstance(error, _TooLate):
                    failure = ServiceUnavailable(f"{url}: cannot be reached: {error}")
                wait = pause
            except _AnswerLost as error:
                failure = (
                    ServiceUnavailable(f"{url}: no answer: {error}")
                    if method == "GET"
                    else OutcomeUnknown(f"{method} {url}: the answer was lost: {error}")
                )
                wait = pause
                was_lost = True
                reach_by = deadline
            except KeyboardInterrupt as stopped:
                if method != "GET":
                    stopped.add_note(
                        f"{method} {path}: the service may have done it; look before you repeat it."
                    )
                raise
            except TimeoutError as error:
                before = "" if failure is None else f"; before that: {failure.message}"
                if method == "GET" and not was_lost:
                    raise TimedOut(f"{url}: no answer within {given:g} s{before}") from error
                raise OutcomeUnknown(f"{method} {url}: no answer within {given:g} s{before}") from error
            # A little of chance, so that many clients do not come back together.
            wait *= random.uniform(0.8, 1.2)
            gives_up = reach_by if attempts > 1 else deadline
            if time.monotonic() + wait >= gives_up:
                if was_lost and method != "GET" and not isinstance(failure, OutcomeUnknown):
                    raise OutcomeUnknown(f"{method} {url}: an answer was lost, then: {failure.message}")
                raise failure
            time.sleep(wait)
            pause = min(2 * pause, _BACKOFF_MAX_S)

    def _headers(self, idempotency_key: str | None) -> dict[str, str]:
        headers = {"Accept": _JSON, "User-Agent": self._program}
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        if self._tenant is not None:
            headers[_TENANT_HEADER] = self._tenant
        if idempotency_key is not None:
            headers[_IDEMPOTENCY_HEADER] = idempotency_key
        return headers

    def _read(
        self, method: str, answer: _Answer, url: str, was_lost: bool, parse: Callable[[bytes], Any]
    ) -> Any:
        if answer.status >= 400:
            if method == "DELETE" and answer.status == 404 and was_lost:
                return None  # the attempt whose answer was lost did it
            raise _refusal(answer, url)
        if answer.status >= 300:
            raise InternalError(f"{url}: status {answer.status} where an answer was expected")
        if not answer.body:
            return [] if parse is _json_lines else None
        try:
            return parse(answer.body)
        except ValueError as error:
            raise InternalError(f"{url}: the answer is no JSON: {error}") from error
        except RecursionError:
            # Of a read nothing is left unknown: it is refused like any value that is not what was asked for.
            kind = InvalidRequest if method == "GET" else InternalError
            raise kind(f"{url}: the answer is nested too deep") from None

    def _attempt(
        self,
        method: str,
        target: str,
        payload: bytes | None,
        headers: dict[str, str],
        deadline: float,
        into: BinaryIO | None,
    ) -> _Answer:
        """Send once, on a kept connection where there is one. The body of a good answer goes `into` a file.

        Raises `_Unsent`, `_AnswerLost`, and `TimeoutError` when the deadline passes.
        """
        connection = self._take_idle() or self._connect(deadline)
        try:
            sock = connection.sock
            if sock is None:
                raise ConnectionError("the connection was closed")
            sock.settimeout(_left_to_begin(deadline))
            connection.request(method, target, body=payload, headers=headers)
            sock.settimeout(_left(deadline))
            answer = connection.getresponse()
            body = _whole_body(answer, sock, deadline, into if answer.status < 300 else None)
        except TimeoutError:
            connection.close()
            raise
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _AnswerLost(f"{type(error).__name__}: {error}") from error
        except BaseException:
            connection.close()  # interrupted half way: what comes next on it belongs to this request
            raise
        self._keep(connection)
        return _Answer(answer.status, body, _seconds(answer.getheader("Retry-After")))

    def _connect(self, deadline: float) -> http.client.HTTPConnection:
        left = _left_to_begin(deadline)
        if self._reach_s is not None:
            left = min(left, self._reach_s / 2)
        connection = (
            http.client.HTTPConnection(self._host, self._port, timeout=left)
            if self._tls is None
            else http.client.HTTPSConnection(self._host, self._port, timeout=left, context=self._tls)
        )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise ConfigurationError(
                f"{self.api_url}: its certificate is not trusted: {error.verify_message}; set ca_file"
            ) from error
        except OSError as error:
            connection.close()
            raise _Unsent(str(error)) from error
        return connection

    def _take_idle(self) -> http.client.HTTPConnection | None:
        """A kept connection that the other side has not closed; None when there is none."""
        with self._lock:
            if self._pid != os.getpid():
                # The parent goes on using these; closing our copies does not end its connections.
                self._idle = []
                self._pid = os.getpid()
            while self._idle:
                connection = self._idle.pop()
                if connection.sock is not None and not _has_news(connection):
                    return connection
                connection.close()
        return None

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle) < _IDLE_CONNECTIONS_MAX:
                self._idle.append(connection)
                return
        connection.close()


def _header(name: str, value: str | None) -> str | None:
    """`value`, which goes with every call. Raises `ConfigurationError`, which does not show it."""
    if value is not None and not (value.isascii() and value.isprintable()):
        raise ConfigurationError(f"{name}: it has characters other than printable ASCII")
    return value


def _json_lines(body: bytes) -> list[Any]:
    return [json.loads(line) for line in body.splitlines()]


def segment(text: str) -> str:
    """`text` as one part of a path."""
    return quote(text, safe="")


def _refusal(answer: _Answer, url: str) -> PenstockError:
    """What an answer of status 400 or more stands for; by its status alone where its document is nested too deep."""
    try:
        return problem_error(answer.status, answer.body, url)
    except RecursionError:
        return problem_error(answer.status, b"", url)


def _whole_body(
    answer: http.client.HTTPResponse, sock: socket.socket, deadline: float, into: BinaryIO | None = None
) -> bytes:
    """The body, read within the deadline however slowly it comes; nothing where it went `into` a file. Raises
    `TimeoutError`, `InternalError`.
    """
    parts: list[bytes] = []
    size = 0
    if into is not None:
        into.seek(0)
        into.truncate()
    while True:
        if sock.fileno() >= 0:
            sock.settimeout(_left(deadline))
        part = answer.read1(1 << 20)
        if not part:
            break
        if into is not None:
            _write(into, part)
            continue
        parts.append(part)
        size += len(part)
        if size > _ANSWER_BYTES_MAX:
            raise InternalError(f"an answer of over {_ANSWER_BYTES_MAX} bytes")
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    # read1 leaves a whole answer open, and the connection would refuse to read the next one.
    answer.close()
    return b"".join(parts)


def _write(into: BinaryIO, part: bytes) -> None:
    """Raises `InvalidRequest` on a full disk: not the connection failed."""
    try:
        into.write(part)
    except OSError as error:
        raise InvalidRequest(f"the answer cannot be written: {error.strerror}") from error


def _has_news(connection: http.client.HTTPConnection) -> bool:
    """Whether something came on an idle connection: its end, or bytes that were not asked for."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _left_to_begin(deadline: float) -> float:
    """As `_left`, while nothing was sent. Raises `_TooLate`."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise _TooLate("the time was up before a connection stood")
    return left


def _seconds(header: str | None) -> float | None:
    try:
        return None if header is None else max(0.0, float(header))
    except ValueError:
        return None


def _query_text(query: Mapping[str, object] | None) -> str:
    if not query:
        return ""
    pairs = [(name, _text(value)) for name, value in query.items() if value is not None]
    return "?" + urlencode(pairs) if pairs else ""


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
