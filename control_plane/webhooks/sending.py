"""One request to an endpoint: TLS to an address that was judged, a POST, and the status of the answer.

No redirect is followed, no answer is kept, and all of it together has one deadline.
"""

import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from ipaddress import IPv6Address
from pathlib import Path

import h11

from control_plane.config import Network
from control_plane.webhooks.destinations import Address, Destination, Unreachable, addresses

WITHIN_S = 15.0
"""What resolving, connecting, sending and the answer may take together."""
ANSWER_BYTES_MAX = 64 * 1024
"""An endpoint whose answer begins with more than that has not answered."""
_READ_BYTES = 16 * 1024
_BODY_S = 1.0
"""For the rest of an answer whose status is known, so that its server can end it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an endpoint answered."""

    status: int
    retry_after: timedelta | None


class NotSent(Exception):
    """There is no answer: whether the endpoint got the event is unknown. The text is for the tenant."""


def post(
    to: Destination,
    headers: Mapping[str, str],
    body: bytes,
    *,
    allowed: Sequence[Network],
    ca_file: Path | None,
    within_s: float = WITHIN_S,
) -> Answer:
    """Send the request to the first address that takes a connection. Raises `NotSent`."""
    deadline = time.monotonic() + within_s
    try:
        connection = _connected(to, addresses(to, allowed, _left(deadline)), deadline)
        try:
            connection.settimeout(_left(deadline))
            with _context(ca_file).wrap_socket(connection, server_hostname=to.host) as secured:
                return _exchange(secured, to, headers, body, deadline)
        finally:
            connection.close()
    except Unreachable as error:
        raise NotSent(str(error)) from None
    except TimeoutError:
        raise NotSent(f"no answer within {within_s:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise NotSent(f"TLS: its certificate is refused: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise NotSent(f"TLS: {error.reason or 'the handshake failed'}") from None
    except OSError as error:
        raise NotSent(f"connection: {error.strerror or type(error).__name__}") from None
    except h11.RemoteProtocolError:
        raise NotSent("its answer is not HTTP/1.1") from None


def _left(deadline: float) -> float:
    """Raises `TimeoutError`."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _connected(to: Destination, judged: Sequence[Address], deadline: float) -> socket.socket:
    refused: OSError = ConnectionRefusedError()
    for index, address in enumerate(judged):
        family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            # The last address has all the time that is left.
            made.settimeout(_left(deadline) / (len(judged) - index))
            made.connect((str(address), to.port))
        except OSError as error:
            made.close()
            refused = error
            continue
        return made
    raise refused


def _exchange(
    secured: ssl.SSLSocket, to: Destination, headers: Mapping[str, str], body: bytes, deadline: float
) -> Answer:
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_READ_BYTES)
    request = h11.Request(
        method="POST",
        target=to.target,
        headers=[
            ("Host", to.authority),
            *headers.items(),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ],
    )
    secured.settimeout(_left(deadline))
    secured.sendall((http.send(request) or b"") + (http.send(h11.Data(data=body)) or b""))
    http.send(h11.EndOfMessage())
    read, answer = 0, None
    while True:
        try:
            event = http.next_event()
        except h11.RemoteProtocolError:
            # What follows the status, truncated or malformed, changes nothing about it.
            if answer is not None:
                return answer
            raise
        if event is h11.NEED_DATA:
            try:
                secured.settimeout(_left(deadline))
                data = secured.recv(_READ_BYTES)
            except OSError:
                if answer is not None:
                    return answer
                raise
            read += len(data)
            if read > ANSWER_BYTES_MAX and answer is None:
                raise NotSent(f"its answer has no status within {ANSWER_BYTES_MAX} bytes")
            if read > ANSWER_BYTES_MAX and answer is not None:
                return answer
            http.receive_data(data)
        elif isinstance(event, h11.Response):
            answer = Answer(status=event.status_code, retry_after=_retry_after(event))
            deadline = min(deadline, time.monotonic() + _BODY_S)
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed) or event is h11.PAUSED:
            if answer is None:
                raise NotSent("it closed the connection without an answer")
            return answer


def _retry_after(response: h11.Response) -> timedelta | None:
    """RFC 9110, 10.2.3: seconds or a date. What is neither is not heeded."""
    text = next((value.decode("latin-1") for name, value in response.headers if name == b"retry-after"), "")
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:12]), 10**9))
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(timedelta(0), moment - datetime.now(UTC))


@cache
def _context(ca_file: Path | None) -> ssl.SSLContext:
    """The authorities of the system, and those of the file beside them."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context
