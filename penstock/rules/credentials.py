"""What the service keeps of an API key, a peppered HMAC and SCRAM verifiers, and how a secret is checked.

A key's secret holds 256 random bits, so the HMAC needs no slow derivation. The pepper comes from a file of
the brokers and is never in the metadata; its version lets it be rotated. SCRAM's user name is the key id
and its password the whole key.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.contract.api_keys import ApiKey

SCRAM_ITERATIONS_MIN = 4096
"""The least that RFC 7677 allows; the password has 256 random bits, so more would only cost time."""
SCRAM_SALT_BYTES = 16
PEPPER_BYTES_MIN = 16
_NO_HMAC = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What `put_key` stores of a key. Nothing of it gives the secret back."""

    key_id: str
    pepper_version: int
    secret_hmac: str
    """Hex."""
    scram: dict[str, Any]


def make_credential(
    key: ApiKey, *, pepper_version: int, pepper: bytes, salts: bytes, iterations: int = SCRAM_ITERATIONS_MIN
) -> Credential:
    """What to store of `key`. `salts` are 2 x SCRAM_SALT_BYTES random bytes, one for each mechanism."""
    if len(salts) != 2 * SCRAM_SALT_BYTES:
        raise ValueError(f"{len(salts)} bytes of salt, {2 * SCRAM_SALT_BYTES} required")
    password = key.reveal()
    return Credential(
        key_id=key.key_id,
        pepper_version=pepper_version,
        secret_hmac=secret_hmac(pepper, key.secret).hex(),
        scram={
            "sha256": scram_verifier("sha256", password, salts[:SCRAM_SALT_BYTES], iterations),
            "sha512": scram_verifier("sha512", password, salts[SCRAM_SALT_BYTES:], iterations),
        },
    )


def secret_hmac(pepper: bytes, secret: str) -> bytes:
    """HMAC-SHA-256(pepper, secret), 32 bytes."""
    return hmac.digest(checked_pepper(pepper), secret.encode(), "sha256")


def checked_pepper(pepper: bytes) -> bytes:
    """`pepper`, if it is long enough; `ValueError` otherwise."""
    if len(pepper) < PEPPER_BYTES_MIN:
        raise ValueError(f"pepper of {len(pepper)} bytes, at least {PEPPER_BYTES_MIN} required")
    return pepper


def pepper_fingerprint(pepper: bytes) -> bytes:
    """The same for the same pepper. A pepper has 128 random bits or more, so this does not give it back."""
    return hmac.digest(pepper, b"penstock pepper fingerprint", "sha256")[:16]


def scram_verifier(algorithm: str, password: str, salt: bytes, iterations: int) -> dict[str, Any]:
    """Salt, iterations, StoredKey and ServerKey of RFC 5802 (hex), for `sha256` or `sha512`.

    The password is ASCII, which SASLprep leaves as it is.
    """
    if algorithm not in ("sha256", "sha512"):
        raise ValueError(f"algorithm {algorithm!r}: sha256 or sha512 required")
    if iterations < SCRAM_ITERATIONS_MIN:
        raise ValueError(f"{iterations} iterations, at least {SCRAM_ITERATIONS_MIN} required")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode("ascii"), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    return {
        "salt": salt.hex(),
        "iterations": iterations,
        "stored_key": hashlib.new(algorithm, client_key).hexdigest(),
        "server_key": hmac.digest(salted, b"Server Key", algorithm).hex(),
    }


def secret_matches(
    peppers: Mapping[int, bytes], *, pepper_version: int, stored_hmac: str, secret: str
) -> bool:
    """Is this the secret? Takes the same time if not, and with an unknown pepper version too."""
    pepper = peppers.get(pepper_version)
    given = secret_hmac(bytes(32) if pepper is None else pepper, secret)
    expected = _NO_HMAC if pepper is None else bytes.fromhex(stored_hmac)
    return hmac.compare_digest(given, expected) and pepper is not None
