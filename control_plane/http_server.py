"""The HTTP server of the web application: waitress, with a deadline for each step of a request and limits per address.

waitress reads requests and sends answers on one thread for all connections, so only whole requests take a thread of the
pool. Its only own limits are a time without traffic, and a number of connections beyond which it accepts none. Here a
client that sends or reads too slowly loses its connection, an address can open a bounded number of connections, and a
request that two readers could split differently is refused. Where there is no place left, a connection that waits for
its client makes way for the newcomer, so one who holds connections open keeps no one else out.
An answer may be delayed: it waits on its connection, and takes no thread.
"""

import json
import logging
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
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
from daemon.hang_ups import ADDRESS_HAS_ENOUGH, MADE_WAY, NO_SPACE, NOT_IN_TIME, HangUps
from penstock.contract.errors import ErrorCode
from penstock.rules.addresses import counted_address

THREADS = 32
"""More than processors, because a request that changes something waits up to 2 s for its delivery."""
CONNECTIONS_MAX = 1_000
"""For a further one another makes way. A connection takes up to two descriptors: a long body is a file."""
CONNECTIONS_OF_ADDRESS_MAX = 128
"""Browsers open six. Where there are fewer places in all, its share is the same. Trusted proxies may open any
number."""
ACCEPTED_AT_ONCE = 16
"""Connections that are taken in before the others are looked at again."""
_WAITRESS_SLACK = 64
"""waitress counts its own descriptors as well, and must not stop to accept while one can make way."""
QUIET_S = 15
"""Without a byte on a connection, between two requests or within one."""
HEADERS_S = 10.0
"""For the request line and all headers, from the first byte on; and for the first byte of a new connection."""
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
    making_way = False
    """It is closed when this turn of the loop ends."""
    _answered: Request | None = None

    def __init__(
        self, server: Any, sock: socket.socket, addr: Any, adj: Adjustments, map: Any = None
    ) -> None:
        self.address = counted_address(addr[0])
        self.is_trusted = is_trusted(addr[0], cast(Listener, server).trusted_proxies)
        self.heard_at = time.monotonic()
        """When its client was heard of last, at first when it connected."""
        self._silent = True
        super().__init__(server, sock, addr, adj, map=map)

    def received(self, data: bytes) -> bool:
        self.heard_at = time.monotonic()
        self._silent = False
        return bool(super().received(data))

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

    def waits_since(self, now: float) -> float | None:
        """Since when it has waited for its client: for a request, for the rest of one, or for an answer to be read.
        None: the service is at work for it.
        """
        if self.requests or self.delayed_until > now:
            return None
        receiving = cast(Request | None, self.request)
        if receiving is not None:
            return receiving.began
        if self.total_outbufs_len and self._answered is not None:
            return self._answered.began
        return self.heard_at

    @property
    def has_asked(self) -> bool:
        """Whether a whole request came of it, since it opened or since its last answer."""
        return not self._silent and self.request is None

    def is_late(self, now: float) -> bool:
        """Whether its client has taken too long to send a request or to read an answer."""
        if self._silent and now > self.heard_at + HEADERS_S:
            return True
        at_work = cast(Request | None, next(iter(self.requests), None))
        if at_work is None and self.total_outbufs_len:
            at_work = self._answered
        if at_work is not None:
            return now > at_work.began + WHOLE_S
        receiving = cast(Request | None, self.request)
        return receiving is not None and now > receiving.deadline()


class Listener(TcpWSGIServer):
    """A listening socket with a limit on all connections, and on those of one address."""

    channel_class = Channel
    trusted_proxies: Sequence[Network] = ()
    delayed = 0
    """Answers of all listeners that were delayed when the loop turned last."""
    connections_max = CONNECTIONS_MAX
    """Of all listeners together."""
    connections_of_address_max = CONNECTIONS_OF_ADDRESS_MAX
    hang_ups: HangUps
    _has_more = False
    """Whether another connection may be there to be accepted."""

    def handle_accept(self) -> None:
        """Take in what has connected, some at once."""
        for _ in range(ACCEPTED_AT_ONCE):
            self._has_more = False
            super().handle_accept()
            if not self._has_more:
                return

    def accept(self) -> tuple[socket.socket, Any] | None:
        """A new connection; None if there is none, or no place for it."""
        accepted = super().accept()
        if accepted is None:
            return None
        self._has_more = True
        connection, address = accepted
        if not self._has_space(address[0]):
            connection.close()
            return None
        return connection, address

    def _has_space(self, host: str) -> bool:
        """Whether there is a place for a newcomer, after another one has made way if need be."""
        now = time.monotonic()
        newcomer = counted_address(host)
        channels = [
            channel
            for channel in cast(Any, self)._map.values()
            if isinstance(channel, Channel) and not channel.making_way
        ]
        trusted = is_trusted(host, self.trusted_proxies)
        of_address = [channel for channel in channels if channel.address == newcomer]
        if not trusted and len(of_address) >= self.connections_of_address_max:
            return self._make_way(_longest_waiting(of_address, now), ADDRESS_HAS_ENOUGH, newcomer)
        if len(channels) < self.connections_max:
            return True
        strangers = [channel for channel in channels if not channel.is_trusted]
        leaving = _longest_waiting(_of_the_most_crowded(strangers, now), now)
        if leaving is None and trusted:
            leaving = _longest_waiting(channels, now)
        return self._make_way(leaving, MADE_WAY if leaving is not None else NO_SPACE, newcomer)

    def _make_way(self, leaving: Channel | None, reason: str, newcomer: str) -> bool:
        """Whether it could leave. It is closed later: a descriptor that is used again at once would get its events."""
        self.hang_ups.count(reason, newcomer if leaving is None else leaving.address)
        if leaving is None:
            return False
        leaving.making_way = True
        return True


def _of_the_most_crowded(channels: Sequence[Channel], now: float) -> Sequence[Channel]:
    """Those of the address of which most wait for their client."""
    waiting = Counter(channel.address for channel in channels if channel.waits_since(now) is not None)
    if not waiting:
        return ()
    ((address, _),) = waiting.most_common(1)
    return [channel for channel in channels if channel.address == address]


def _longest_waiting(channels: Sequence[Channel], now: float) -> Channel | None:
    """The one that has waited for its client for the longest time, so that none makes way that has just come."""
    waiting = [(since, channel) for channel in channels if (since := channel.waits_since(now)) is not None]
    return min(waiting, key=lambda waited: waited[0])[1] if waiting else None


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
        connections_max = min(CONNECTIONS_MAX, descriptors // 3)
        of_address_max = max(1, CONNECTIONS_OF_ADDRESS_MAX * connections_max // CONNECTIONS_MAX)
        self.hang_ups = HangUps("web")
        """Of all its listeners."""
        # It would warn of each request that waits for a thread.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        adjustments = Adjustments(
            listen=listen,
            threads=THREADS,
            connection_limit=connections_max + _WAITRESS_SLACK,
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
            listener.connections_max = connections_max
            listener.connections_of_address_max = of_address_max
            listener.hang_ups = self.hang_ups
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

    @property
    def is_stopping(self) -> bool:
        """Whether it takes no connection any more."""
        return self._stopping

    def warnings(self) -> dict[str, str]:
        """What an operator should look at, by kind."""
        crowded = self.hang_ups.crowded()
        return {"web_connections": crowded} if crowded else {}

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
            late = channel.is_late(now)
            if late and not channel.has_asked:
                self.hang_ups.count(NOT_IN_TIME, channel.address)
            if late or channel.making_way:
                # Not by `will_close`: that waits until the client reads something.
                channel.handle_close()

    def _channels(self) -> list[Channel]:
        return [channel for channel in self._map.values() if isinstance(channel, Channel)]
