"""Secrets of webhooks: how they rest, and the headers that they sign (standardwebhooks.com)."""

import base64
import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from cryptography.fernet import Fernet, InvalidToken
from standardwebhooks import Webhook as Signer

from control_plane import config

PREFIX = "whsec_"
_SECRET_BYTES = 32


class SecretLost(Exception):
    """The stored secret cannot be read: `secret_key` is another than when it was made."""


def new_secret() -> str:
    """As receivers' libraries take it."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def encrypted(secret: str) -> str:
    """As it rests in the database."""
    return _cipher().encrypt(secret.encode()).decode("ascii")


def decrypted(stored: str) -> str:
    """Raises `SecretLost`."""
    try:
        return _cipher().decrypt(stored.encode("ascii")).decode()
    except InvalidToken:
        raise SecretLost from None


def headers(event_id: str, body: str, stored: Sequence[str], now_s: float) -> dict[str, str]:
    """The headers of one attempt, signed with each of the stored secrets. `now_s` is the real time: receivers refuse
    what is older than minutes, so each attempt has a signature of its own. Raises `SecretLost`.
    """
    at = datetime.fromtimestamp(int(now_s), UTC)
    signatures = [Signer(decrypted(one)).sign(event_id, at, body) for one in stored]
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(now_s)),
        "webhook-signature": " ".join(signatures),
    }


def _cipher() -> Fernet:
    key = config.current().secret_key.encode()
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"penstock.webhooks:" + key).digest()))
