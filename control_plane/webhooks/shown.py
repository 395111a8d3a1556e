"""How the audit log, and who may only read webhooks, see the address of one."""

from urllib.parse import urlsplit

from control_plane.keyed_digests import keyed_digest

_DIGITS = 16


def shown_url(url: str) -> str:
    """Scheme, host, port, and a digest of path and query, which may be a secret of the receiver: a keyed one, since it
    may be a short secret.
    """
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc}/"
    rest = url[len(address) - 1 :].removeprefix("/")
    return f"{address}…hmac:{keyed_digest('webhook-address', rest.encode())[:_DIGITS]}" if rest else address
