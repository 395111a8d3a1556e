"""Secrets of couriers as they rest in the database: encrypted by a key that is made of `secret_key`."""

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken

from control_plane import config


class SecretLost(Exception):
    """The stored secret cannot be read: `secret_key` is another than when it was made."""


def sealed(purpose: str, secret: str) -> str:
    """As it rests. Only `opened` with the same purpose reads it."""
    return _cipher(purpose).encrypt(secret.encode()).decode("ascii")


def opened(purpose: str, stored: str) -> str:
    """Raises `SecretLost`."""
    try:
        return _cipher(purpose).decrypt(stored.encode("ascii")).decode()
    except InvalidToken:
        raise SecretLost from None


def _cipher(purpose: str) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(_key(purpose)))


def _key(purpose: str) -> bytes:
    return hashlib.sha256(f"{purpose}:".encode() + config.current().secret_key.encode()).digest()
