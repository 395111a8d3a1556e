"""A passkey in software, after the W3C's Web Authentication: it makes and uses keys of P-256, without attestation."""

import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor
from fido2.utils import websafe_encode

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


@dataclass
class SoftwarePasskey:
    """One credential for one origin."""

    origin: str = "https://penstock.example"
    rp_id: str = "penstock.example"
    count: int = 0
    id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def create(self, options: dict[str, Any]) -> dict[str, Any]:
        """What a browser answers to `credentials.create`."""
        client = self._client("webauthn.create", options["publicKey"]["challenge"])
        public = cbor.encode(self._public())
        attested = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + public
        statement = {"fmt": "none", "attStmt": {}, "authData": self._data(ATTESTED) + attested}
        return self._answer(
            {
                "clientDataJSON": websafe_encode(client),
                "attestationObject": websafe_encode(cbor.encode(statement)),
            }
        )

    def get(self, options: dict[str, Any]) -> dict[str, Any]:
        """What a browser answers to `credentials.get`."""
        client = self._client("webauthn.get", options["publicKey"]["challenge"])
        data = self._data(0)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        return self._answer(
            {
                "clientDataJSON": websafe_encode(client),
                "authenticatorData": websafe_encode(data),
                "signature": websafe_encode(signature),
            }
        )

    def _public(self) -> dict[int, object]:
        """The public key as COSE writes it: an EC2 key for ES256 on P-256 (RFC 9053)."""
        numbers = self.key.public_key().public_numbers()
        x, y = (number.to_bytes(32, "big") for number in (numbers.x, numbers.y))
        return {1: 2, 3: -7, -1: 1, -2: x, -3: y}

    def _client(self, kind: str, challenge: str) -> bytes:
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin}).encode()

    def _data(self, flags: int) -> bytes:
        self.count += 1
        flag = bytes([PRESENT | VERIFIED | flags])
        return hashlib.sha256(self.rp_id.encode()).digest() + flag + self.count.to_bytes(4, "big")

    def _answer(self, response: dict[str, str]) -> dict[str, Any]:
        name = websafe_encode(self.id)
        return {
            "id": name,
            "rawId": name,
            "type": "public-key",
            "clientExtensionResults": {},
            "response": response,
        }
