"""Where a webhook may lead: https addresses on hosts that are neither of this network nor of its cloud.

A name is resolved for each attempt, all its addresses are judged, and the connection goes to one that was judged, so a
name that resolves otherwise a moment later leads nowhere.
"""

import logging
import queue
import re
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from control_plane.config import Network
from penstock.contract.errors import InvalidRequest
from penstock.contract.limits import WEBHOOK_URL_LENGTH_MAX

Address = IPv4Address | IPv6Address
HTTPS_PORT = 443
_URL = re.compile(r"[\x21-\x7e]+")
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_REFUSED = tuple(
    ip_network(text)
    for text in (
        "192.88.99.0/24",  # relays of 6to4
        "3ffe::/16",  # the 6bone, which is gone
        "168.63.129.16/32",  # Azure's platform, a public address
        "100.100.100.200/32",  # Alibaba's metadata
        "192.0.0.192/32",  # Oracle's metadata
        "fd00:ec2::254/128",  # AWS's metadata
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")
_PUBLIC_IPV6 = IPv6Network("2000::/3")
"""All that is assigned to networks. Beside it are addresses that stand for IPv4 ones, and what a later Python or kernel
may take for public."""
_log = logging.getLogger(__name__)


class Unreachable(Exception):
    """There is no address to connect to, or one that is refused. The text is for the tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The parts of a webhook's address."""

    host: str
    port: int
    target: str
    """Path and query, as the request line has them."""

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == HTTPS_PORT else f"{host}:{self.port}"


def destination(url: str) -> Destination:
    """Raises `InvalidRequest` unless it is an https URL without credentials and fragment, in ASCII."""
    if len(url) > WEBHOOK_URL_LENGTH_MAX:
        raise InvalidRequest(f"url: {len(url)} characters, at most {WEBHOOK_URL_LENGTH_MAX} allowed")
    if not _URL.fullmatch(url):
        raise InvalidRequest(
            "url: printable ASCII without spaces required; a name in another script as xn--…"
        )
    try:
        parts = urlsplit(url)
        port = HTTPS_PORT if parts.port is None else parts.port
    except ValueError:
        raise InvalidRequest("url: it is no URL; https://host/path required") from None
    if parts.scheme != "https":
        raise InvalidRequest("url: https://host/path required")
    if "@" in parts.netloc or "#" in url or "\\" in url:
        raise InvalidRequest("url: no user, password, fragment or backslash allowed")
    host = (parts.hostname or "").removesuffix(".")
    if not _is_host(host) or port == 0:
        raise InvalidRequest("url: it names no host and port; https://host/path required")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Destination(host=host, port=port, target=target)


def check_url(url: str, allowed: Sequence[Network]) -> Destination:
    """As `destination`, and raises `InvalidRequest` for an address in numbers that is refused. No name is resolved."""
    found = destination(url)
    literal = _literal(found.host)
    reason = "" if literal is None else refusal(literal, allowed)
    if reason:
        raise InvalidRequest(f"url: {reason}")
    if literal is None and not allowed:
        if found.host == "localhost" or found.host.endswith(".localhost"):
            raise InvalidRequest("url: localhost is this service's own host")
        if _is_local_name(found.host):
            raise InvalidRequest("url: a whole name required, as hooks.example.com")
    return found


def refusal(address: Address, allowed: Sequence[Network]) -> str:
    """Why the service connects to no such address; empty: it does. `allowed` are the networks that operators opened."""
    inner = _inner(address)
    if _is_opened(address, allowed):
        return ""
    if isinstance(address, IPv6Address) and address not in _PUBLIC_IPV6 and address not in _NAT64:
        return f"{address} is not a public address"
    for one in (address, inner):
        if (
            not one.is_global
            or one.is_multicast
            or any(one in network for network in _REFUSED if network.version == one.version)
        ):
            return f"{address} is not a public address"
    return ""


def addresses(found: Destination, allowed: Sequence[Network], within_s: float) -> list[Address]:
    """The addresses of the host, resolved now, all of which may be connected to.

    Raises `Unreachable`, with one text for a name that leads inside and one that does not exist: tenants do not learn
    this network's names from it.
    """
    literal, local = _literal(found.host), _is_local_name(found.host)
    if local and not allowed:
        raise _not_found(found)
    if literal is not None:
        resolved = [literal]
    else:
        began = time.monotonic()
        name = found.host if local else f"{found.host}."
        resolved = _resolve(found, name, within_s)
        if not resolved and allowed and not local:
            # A name that only this host's own file has; there it stands without the dot. A search domain may complete
            # it then, so it leads to what operators opened, or nowhere.
            local = True
            resolved = _resolve(found, found.host, within_s - (time.monotonic() - began))
        if not resolved:
            raise _not_found(found)
    for address in resolved:
        if refusal(address, allowed) or (local and not _is_opened(address, allowed)):
            _log.info(
                "a webhook leads to an address that is refused",
                extra={"host": found.host, "address": str(address)},
            )
            raise _not_found(found)
    return resolved


def _not_found(found: Destination) -> Unreachable:
    return Unreachable(f"no public address was found for {found.host}")


def _resolve(found: Destination, name: str, within_s: float) -> list[Address]:
    """On a thread of its own: the system's resolver takes as long as it likes, and ends by itself. Empty: there is no
    such name. With a dot at its end a name is whole: no search domain of this host completes it.
    """
    answers: queue.SimpleQueue[list[Address]] = queue.SimpleQueue()

    def ask() -> None:
        try:
            infos = socket.getaddrinfo(name, found.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            answers.put([])
            return
        # A scope would name an interface of this host.
        texts = dict.fromkeys(str(info[4][0]).partition("%")[0] for info in infos)
        answers.put([ip_address(text) for text in texts])

    threading.Thread(target=ask, name="webhook resolver", daemon=True).start()
    try:
        return answers.get(timeout=max(0.0, within_s))
    except queue.Empty:
        raise Unreachable(f"{found.host}: its address was not found in time") from None


def _is_opened(address: Address, allowed: Sequence[Network]) -> bool:
    return any(
        one in network
        for one in (address, _inner(address))
        for network in allowed
        if one.version == network.version
    )


def _is_local_name(host: str) -> bool:
    """Names of one label are of this network, if they are any: they lead to what operators opened, or nowhere."""
    return "." not in host and _literal(host) is None


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 address leads to, if it does; else itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or address in _NAT64_LOCAL:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _is_host(host: str) -> bool:
    if ":" in host:
        return "%" not in host and _literal(host) is not None
    labels = host.split(".")
    if labels[-1].isdigit() or labels[-1].lower().startswith("0x"):
        # The system's resolver reads 127.1 and 0x7f000001 as addresses; here only four whole numbers are one.
        return _literal(host) is not None
    return len(host) <= 253 and all(_LABEL.fullmatch(label) for label in labels)
