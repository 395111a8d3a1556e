"""Secrets of webhooks: how they rest, and the headers that they sign (standardwebhooks.com)."""

import base64
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from standardwebhooks import Webhook as Signer

from control_plane.couriers import sealing
from control_plane.couriers.sealing import SecretLost

PREFIX = "whsec_"
_SECRET_BYTES = 32
_PURPOSE = "penstock.webhooks"

__all__ = ["PREFIX", "SecretLost", "decrypted", "encrypted", "headers", "new_secret"]


def new_secret() -> str:
    """As receivers' libraries take it."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def encrypted(secret: str) -> str:
    """As it rests in the database."""
    return sealing.sealed(_PURPOSE, secret)


def decrypted(stored: str) -> str:
    """Raises `SecretLost`."""
    return sealing.opened(_PURPOSE, stored)


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
