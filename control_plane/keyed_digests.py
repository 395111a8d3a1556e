"""Digests of what can be guessed, such as a body with a password: under a key of the service's, so that who reads them
cannot try.
"""

import hashlib
import hmac

from control_plane import config


def keyed_digest(purpose: str, content: bytes) -> str:
    """64 hex digits. Each purpose has a key of its own; all are made of `secret_key`, and change with it."""
    secret = config.current().secret_key.encode()
    key = hashlib.sha256(f"penstock.{purpose}:".encode() + secret).digest()
    return hmac.new(key, content, hashlib.sha256).hexdigest()
