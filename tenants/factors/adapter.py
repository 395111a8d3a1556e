"""What allauth asks of this service about second factors: names, and how secrets rest."""

import base64
import hashlib
from urllib.parse import urlsplit

from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet
from django.contrib.auth.base_user import AbstractBaseUser

from control_plane import config
from tenants.models import Person


class FactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth has no types
    """Secrets of codes are encrypted by a key made of `secret_key`; passkeys belong to the host of `public_url`."""

    def encrypt(self, text: str) -> str:
        return _cipher().encrypt(text.encode()).decode("ascii")

    def decrypt(self, encrypted_text: str) -> str:
        """Raises `InvalidToken` (of cryptography) when `secret_key` is another than before."""
        return _cipher().decrypt(encrypted_text.encode("ascii")).decode()

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        return {"id": urlsplit(config.current().public_url).hostname or "localhost", "name": "Penstock"}

    def get_public_key_credential_user_entity(self, user: AbstractBaseUser) -> dict[str, object]:
        assert isinstance(user, Person)
        return {"id": user.public_id.encode(), "display_name": user.email, "name": user.email}


def _cipher() -> Fernet:
    secret = config.current().secret_key.encode()
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"penstock.second-factors:" + secret).digest()))
