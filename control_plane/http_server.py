"""The HTTP server of the web application: waitress, with a deadline for each step of a request and limits per address.

waitress reads requests and sends answers on one thread for all connections, so only whole requests take a thread of the
pool. Its only own limit is a time without traffic. Here a client that sends or reads too slowly loses its connection,
an address can open a bounded number of connections, and a request that two readers could split differently is refused.
An answer may be delayed: it waits on its connection, and takes no thread.
"""

import json
import logging
import re
import socket
import time
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address
from typing import Any, cast

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher, WSGITask
from waitress.utilities import RequestEntityTooLarge

from control_plane.api import problems
from control_plane.api.client_address import is_trusted
from control_plane.api.delayed_answers import DELAY
from control_plane.config import Network
from penstock.contract.errors import ErrorCode

THREADS = 32
"""More than processors, because a request that changes something waits up to 2 s for its delivery."""
CONNECTIONS_MAX = 1_000
"""Further ones wait in the listener's queue. A connection takes up to two descriptors: a long body is a file."""
CONNECTIONS_OF_ADDRESS_MAX = 128
"""Browsers open six. Trusted proxies may open any number."""
QUIET_S = 15
"""Without a byte on a connection, between two requests or within one."""
HEADERS_S = 10.0
"""For the request line and all headers, from the first byte on."""
RECEIVED_S = 60.0
"""For the whole request with its body, from the first byte on."""
WHOLE_S = 120.0
"""For request and answer together: no request of this service takes nearly as long."""
DELAYED_MAX = 256
"""Answers that are delayed at once, about: a quarter of the connections. Others leave as soon as they are made."""
HEADERS_BYTES_MAX = 32 * 1024
BODY_BYTES_MAX = 3 * 1024 * 1024
"""More than pages (2.5 MiB) and REST operations (1 MiB) take: their own refusals explain more."""
_BODY_IN_MEMORY_BYTES = 64 * 1024
_LOOK_S = 0.5
_FIRST_LINE = re.compile(rb"[^\r\n]+ HTTP/1\.[01]")


class Request(HTTPRequestParser):
    """One request while it arrives. It refuses requests that proxies and servers are known to read differently."""

    def __init__(self, adj: Adjustments) -> None:
        super().__init__(adj)
        self.began = time.monotonic()

    def parse_header(self, header_plus: bytes) -> None:
        refuse_ambiguous(header_plus)
        super().parse_header(header_plus)

    def deadline(self) -> float:
        """When the rest must have arrived, by the monotonic clock."""
        return self.began + (RECEIVED_S if self.headers_finished else HEADERS_S)


def refuse_ambiguous(head: bytes) -> None:
    """Raise `ParsingError` for another version of HTTP, a header on two lines, or a body whose length is unclear."""
    first, *lines = head.split(b"\r\n")
    if not _FIRST_LINE.fullmatch(first):
        raise ParsingError("HTTP/1.0 or HTTP/1.1 required")
    if any(line.startswith((b" ", b"\t")) for line in lines):
        raise ParsingError("A header on two lines")
    headers = [line.partition(b":") for line in lines]
    encodings = [value.strip(b" \t") for name, _, value in headers if name.lower() == b"transfer-encoding"]
    if not encodings:
        return
    if [encoding.lower() for encoding in encodings] != [b"chunked"] or not first.endswith(b"1.1"):
        raise ParsingError("Transfer-Encoding other than chunked, or in HTTP/1.0")
    if any(name.lower() == b"content-length" for name, _, _ in headers):
        raise ParsingError("Transfer-Encoding and Content-Length")


class Task(WSGITask):
    """One request at work. Its application may ask for the answer to be delayed."""

    def get_environment(self) -> dict[str, Any]:
        environ: dict[str, Any] = super().get_environment()
        environ[DELAY] = self._delay
        return environ

    def _delay(self, until: float) -> bool:
        channel = cast(Channel, self.channel)
        if not channel.delay(until):
            return False
        # Requests that came along with this one would be made meanwhile.
        self.close_on_finish = len(channel.requests) > 1
        return True


class Refusal(ErrorTask):
    """A request that the server itself refuses, as of a body over the limit. Calls of REST get a problem document, as
    of every other refusal; what has no readable path gets a text.
    """

    def execute(self) -> None:
        error = cast(Request, self.request).error
        if error is None or not str(getattr(self.request, "path", "")).startswith("/v1/"):
            super().execute()
            return
        said = f"the request was not read: {error.body}"
        if isinstance(error, RequestEntityTooLarge):
            said = f"body: at most {BODY_BYTES_MAX} bytes allowed"
        body = json.dumps(problems.problem(error.code, ErrorCode.INVALID_REQUEST, said)).encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers = [*self.response_headers, ("Content-Type", problems.CONTENT_TYPE)]
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Channel(HTTPChannel):
    """One connection, with its deadlines. What it does now is in waitress's own fields."""

    parser_class = Request
    task_class = Task
    error_task_class = Refusal
    delayed_until = 0.0
    """By the monotonic clock: nothing is sent before, nor read while an answer waits."""
    _answered: Request | None = None

    def service(self) -> None:
        """Answer a request, in a thread of the pool."""
        self._answered = cast(Request, self.requests[0])
        super().service()

    def delay(self, until: float) -> bool:
        """Send nothing before then. False: enough are delayed. In a thread of the pool."""
        if cast(Listener, self.server).delayed >= DELAYED_MAX:
            return False
        self.delayed_until = until
        return True

    def writable(self) -> bool:
        return time.monotonic() >= self.delayed_until and bool(super().writable())

    def _flush_some(self, do_close: bool = True) -> bool:
        return time.monotonic() >= self.delayed_until and bool(
            cast(Any, super())._flush_some(do_close=do_close)
        )

    @property
    def idle(self) -> bool:
        """Between two requests, with nothing left to send."""
        return self.request is None and not self.requests and not self.total_outbufs_len

    def is_late(self, now: float) -> bool:
        """Whether its client has taken too long to send a request or to read an answer."""
        at_work = cast(Request | None, next(iter(self.requests), None))
        if at_work is None and self.total_outbufs_len:
            at_work = self._answered
        if at_work is not None:
            return now > at_work.began + WHOLE_S
        receiving = cast(Request | None, self.request)
        return receiving is not None and now > receiving.deadline()


class Listener(TcpWSGIServer):
    """A listening socket with a limit on the connections of one address."""

    channel_class = Channel
    trusted_proxies: Sequence[Network] = ()
    delayed = 0
    """Answers of all listeners that were delayed when the loop turned last."""

    def accept(self) -> tuple[socket.socket, Any] | None:
        """A new connection; None if there is none, or its address has enough."""
        accepted = super().accept()
        if accepted is None:
            return None
        connection, address = accepted
        if self._has_enough(address[0]):
            connection.close()
            return None
        return connection, address

    def _has_enough(self, host: str) -> bool:
        if is_trusted(host, self.trusted_proxies):
            return False
        one = counted_address(host)
        channels = cast(dict[int, Channel], self.active_channels)
        open_now = sum(counted_address(channel.addr[0]) == one for channel in channels.values())
        return open_now >= CONNECTIONS_OF_ADDRESS_MAX


def counted_address(host: str) -> str:
    """What the limit counts as one address: an IPv4 address, or the /64 network of an IPv6 address."""
    if ":" not in host:
        return host
    address = IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.exploded[:19]


class Server:
    """Listens from its creation on. `run` serves until `stop`, which a signal handler may call."""

    def __init__(
        self,
        application: Callable[..., Any],
        *,
        listen: str,
        trusted_proxies: Sequence[Network],
        descriptors: int,
    ) -> None:
        # It would warn of each request that waits for a thread.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        adjustments = Adjustments(
            listen=listen,
            threads=THREADS,
            connection_limit=min(CONNECTIONS_MAX, descriptors // 3),
            channel_timeout=QUIET_S,
            cleanup_interval=1,
            max_request_header_size=HEADERS_BYTES_MAX,
            max_request_body_size=BODY_BYTES_MAX + 1,
            inbuf_overflow=_BODY_IN_MEMORY_BYTES,
            # Headers of proxies are read by `control_plane.api.client_address`, which knows networks.
            clear_untrusted_proxy_headers=False,
            log_socket_errors=False,
            ident=None,
        )
        self._map: dict[int, Any] = {}
        self._threads = ThreadedTaskDispatcher()
        self._threads.set_thread_count(THREADS)
        self._listeners = [
            Listener(application, self._map, dispatcher=self._threads, adj=adjustments, sockinfo=socket_info)
            for socket_info in cast(list[Any], adjustments.listen)
        ]
        for listener in self._listeners:
            listener.trusted_proxies = trusted_proxies
        self._stopping = False
        self._turned = time.monotonic()

    @property
    def loop_age_s(self) -> float:
        """Seconds since the loop that all connections share turned last."""
        return time.monotonic() - self._turned

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._listeners[0].getsockname()[1])

    def stop(self) -> None:
        """Let `run` end."""
        self._stopping = True
        self._listeners[0].pull_trigger()

    def run(self, drain_s: float) -> int:
        """Serve. After `stop`, accept no new connection and finish requests for at most `drain_s`.

        Returns the number of connections whose requests were not finished by then.
        """
        while not self._stopping:
            self._turn()
        for listener in self._listeners:
            # Only the listening socket: its own `close` would also close what wakes this loop from threads.
            wasyncore.dispatcher.close(listener)
        deadline = time.monotonic() + drain_s
        while self._channels() and time.monotonic() < deadline:
            # What has arrived is read before connections without a request are closed.
            self._turn()
            for channel in self._channels():
                if channel.idle:
                    channel.handle_close()
        unfinished = len(self._channels())
        if not unfinished:
            self._threads.shutdown()
            for listener in self._listeners:
                cast(Any, listener.trigger).close()
        return unfinished

    def _turn(self) -> None:
        self._turned = now = time.monotonic()
        left = [channel.delayed_until - now for channel in self._channels() if channel.delayed_until > now]
        for listener in self._listeners:
            listener.delayed = len(left)
        # Whole milliseconds are waited for, so that it wakes up once for each.
        pause_s = min([_LOOK_S, *(left_s + 0.001 for left_s in left)])
        wasyncore.loop(timeout=pause_s, use_poll=True, map=self._map, count=1)
        now = time.monotonic()
        for channel in self._channels():
            if channel.is_late(now):
                # Not by `will_close`: that waits until the client reads something.
                channel.handle_close()

    def _channels(self) -> list[Channel]:
        return [channel for channel in self._map.values() if isinstance(channel, Channel)]
