"""How the audit log, and who may only read webhooks, see the address of one. Pure."""

import hashlib
from urllib.parse import urlsplit


def shown_url(url: str) -> str:
    """Scheme, host, port, and a digest of path and query, which may be a secret of the receiver."""
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc}/"
    rest = url[len(address) - 1 :].removeprefix("/")
    return f"{address}…sha256:{hashlib.sha256(rest.encode()).hexdigest()[:16]}" if rest else address
