"""What a service publishes of all billing chains at the end of a UTC day, for everyone and without names.

Each chain is one leaf: a hash of the tenant, the day, and the newest entry's sequence and hash. An entry's hash covers
every document up to it and is known to its tenant alone, so a leaf shows others nothing, not even whether it is of the
same tenant as one of another day. Each document has the hash of the one before, and is signed.
"""

import hashlib
from datetime import date
from typing import Annotated, Literal

import msgspec

from penstock.contract.document_fields import Sha256, Strict
from penstock.contract.documents import document_sha256

LEAVES_MAX = 200_000
DOCUMENT_BYTES_MAX = 16 * 2**20
"""More than that many leaves take."""
Day = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")]
Key = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Signature = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{128}\Z")]
_PURPOSE = "penstock billing anchors 1"


class AnchorsDocument(Strict, frozen=True):
    """The newest entry of every billing chain, of those that were made before the day's end."""

    format: Literal[1]
    kind: Literal["billing_anchors"]
    issuer: Annotated[str, msgspec.Meta(max_length=200)]
    day: Day
    previous_sha256: Sha256
    """Of the day published before; 64 zeros for the first."""
    leaves: Annotated[tuple[Sha256, ...], msgspec.Meta(max_length=LEAVES_MAX)]
    """In order."""


class SignedAnchors(Strict, frozen=True):
    """As it is published. The signature is Ed25519 over `signed_bytes`, key and signature as hex digits."""

    document: AnchorsDocument
    document_sha256: Sha256
    key: Key
    signature: Signature


def leaf(tenant: str, day: str, sequence: int, entry_hash: str) -> str:
    """Of a chain whose newest entry that is."""
    return hashlib.sha256(f"{_PURPOSE}\0{tenant}\0{day}\0{sequence}\0{entry_hash}".encode()).hexdigest()


def signed_bytes(document: AnchorsDocument) -> bytes:
    """What the signature is over."""
    return f"{_PURPOSE}\0{document_sha256(document)}".encode()


def is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
