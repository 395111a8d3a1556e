"""The address of the client itself, where a trusted proxy stands before the service."""

import re
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from django.http import HttpRequest, HttpResponse

from control_plane import config
from control_plane.config import Network

_WITH_PORT = re.compile(r"\[(?P<v6>[^\]]*)\](?::\d{1,5})?|(?P<v4>[0-9.]+):\d{1,5}")
"""Some proxies write the client's port after its address; an IPv6 address is then in brackets."""


def client_of(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> str:
    """The last address in the chain that is not a trusted proxy's; `peer` is the address that opened the connection.

    Each proxy appends the address that it got the request from, so X-Forwarded-For is read from its end. What precedes
    the first address that is not trusted could be forged.
    """
    nearest = peer
    heard = [entry.strip() for entry in forwarded_for.split(",") if entry.strip()]
    while heard and is_trusted(nearest, trusted) and (before := _parsed(heard.pop())) is not None:
        nearest = str(before)
    return nearest


def is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    """Whether it is a trusted proxy's."""
    parsed = _parsed(address)
    return parsed is not None and any(parsed in network for network in trusted)


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    match = _WITH_PORT.fullmatch(address)
    try:
        parsed = ip_address(match["v6"] or match["v4"] or "" if match else address)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


class ClientAddress:
    """Puts the client's address into REMOTE_ADDR, which limits and the audit log read, and its scheme beside it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response
        self._trusted = config.current().trusted_networks

    def __call__(self, request: HttpRequest) -> HttpResponse:
        peer = str(request.META.get("REMOTE_ADDR", ""))
        forwarded_for = str(request.META.get("HTTP_X_FORWARDED_FOR", ""))
        request.META["REMOTE_ADDR"] = client_of(peer, forwarded_for, self._trusted)
        if request.META.get("HTTP_X_FORWARDED_PROTO") == "https" and is_trusted(peer, self._trusted):
            request.META["wsgi.url_scheme"] = "https"
        return self._get_response(request)
