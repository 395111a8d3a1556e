"""How the audit log, and who may only read webhooks, see the address of one."""

from urllib.parse import urlsplit

from control_plane.couriers import sealing

_PURPOSE = "penstock.webhooks.address"


def shown_url(url: str) -> str:
    """Scheme, host, port, and a digest of path and query, which may be a secret of the receiver. The digest has a key
    of the service: a path that is easily guessed cannot be found by trying.
    """
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc}/"
    rest = url[len(address) - 1 :].removeprefix("/")
    return f"{address}…hmac:{sealing.digest(_PURPOSE, rest)[:16]}" if rest else address
