"""An anchor: what someone keeps of a tenant's billing chain outside of the service. Of two forms, each a JSON object.

1. An entry of the chain: {"sequence": 12, "hash": "..."}. The hash covers the tenant, the entry and all before it, so
   nothing that was issued up to it can be made up afterwards. It is no secret: sent to others, printed or given a time
   by a third party, it holds the service to its word. An item of `GET /v1/billing/chain` is one, too.
2. A day's document of `GET /v1/anchors/DAY`, which holds the newest entry of every chain without names, signed by the
   service. Who has kept one, or asks others for it, need not have known the tenant.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from penstock.contract.anchor_documents import (
    DOCUMENT_BYTES_MAX,
    AnchorsDocument,
    SignedAnchors,
    is_day,
    leaf,
    signed_bytes,
)
from penstock.contract.document_fields import Ordinal, Sha256
from penstock.contract.documents import ChainEntry, document_sha256
from penstock.contract.errors import ConfigurationError, InvalidRequest
from penstock.rules.timestamps import DAY_MS, time_ms
from penstock.verification.commitments import ChainPoint


class _Point(msgspec.Struct, frozen=True):
    """What else stands in the object is for people."""

    sequence: Ordinal
    hash: Sha256


class _Form(msgspec.Struct, frozen=True):
    """Which of both an object is."""

    signature: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class DayAnchors:
    """A day's published document, whose signature is right."""

    issuer: str
    day: str
    key: str
    leaves: frozenset[str]

    @property
    def end_ms(self) -> int:
        """The end of the day."""
        # The last day that there is has no day after it.
        return time_ms(datetime.fromisoformat(self.day).replace(tzinfo=UTC)) + DAY_MS

    def newest(self, tenant: str, entries: Sequence[ChainEntry]) -> ChainEntry | None:
        """The entry of the tenant's chain that the document holds; None: it holds none of them."""
        for entry in reversed(entries):
            if leaf(tenant, self.day, entry.sequence, entry.hash) in self.leaves:
                return entry
        return None


Anchor = ChainPoint | DayAnchors


def read_anchor(content: bytes, name: str, key: str | None = None) -> Anchor:
    """What `content` says; `name` is where it is from. With `key` only a document that it signed. Raises
    `InvalidRequest`, and `ConfigurationError` where signatures cannot be checked.
    """
    try:
        form = msgspec.json.decode(content, type=_Form)
        if form.signature is not msgspec.UNSET:
            return _day(msgspec.json.decode(content, type=SignedAnchors), name, key)
        point = msgspec.json.decode(content, type=_Point)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{name}: is no anchor: {error}") from None
    if key is not None:
        raise InvalidRequest(f"{name}: is an entry of a chain, which no key signs; a day's document required")
    return ChainPoint(sequence=point.sequence, hash=point.hash)


def read_file(file: Path) -> bytes:
    """Raises `InvalidRequest`."""
    try:
        with file.open("rb") as opened:
            return opened.read(DOCUMENT_BYTES_MAX)
    except OSError as error:
        raise InvalidRequest(f"{file}: cannot be read: {error.strerror}") from None


def _day(signed: SignedAnchors, name: str, key: str | None) -> DayAnchors:
    document = signed.document
    if not is_day(document.day):
        raise InvalidRequest(f"{name}: {document.day} is no day")
    if document_sha256(document) != signed.document_sha256:
        raise InvalidRequest(f"{name}: was altered: its document has another hash than it says")
    if key is not None and key.lower() != signed.key:
        raise InvalidRequest(f"{name}: is signed by the key {signed.key}, not by {key[:64]}")
    if not _is_signed(document, signed):
        raise InvalidRequest(f"{name}: its signature is not that of its key over its document")
    return DayAnchors(
        issuer=document.issuer, day=document.day, key=signed.key, leaves=frozenset(document.leaves)
    )


def _is_signed(document: AnchorsDocument, signed: SignedAnchors) -> bool:
    try:
        # Who verifies no such document needs no library for it.
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise ConfigurationError(
            "the signature of a day's anchors is checked by the package `cryptography`: pip install cryptography"
        ) from None
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signed.key))
        public.verify(bytes.fromhex(signed.signature), signed_bytes(document))
    except (InvalidSignature, ValueError):
        return False
    return True
