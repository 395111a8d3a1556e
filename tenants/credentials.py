"""New API keys: their text, and the credential that is kept of it, made with the pepper from the configuration."""

import secrets

from control_plane import config
from penstock.contract.api_keys import RANDOM_BYTES, ApiKey, make_api_key
from penstock.rules.credentials import SCRAM_SALT_BYTES, Credential, make_credential


def new_key() -> ApiKey:
    """A key of this environment from the operating system's randomness."""
    return make_api_key(config.current().environment, secrets.token_bytes(RANDOM_BYTES))


def credential_of(key: ApiKey) -> Credential:
    """What to keep of `key`."""
    brokers = config.current().brokers
    return make_credential(
        key,
        pepper_version=brokers.pepper_version,
        pepper=pepper(),
        salts=secrets.token_bytes(2 * SCRAM_SALT_BYTES),
    )


def pepper() -> bytes:
    """The pepper of the configured version."""
    return bytes.fromhex(config.current().brokers.pepper_file.read_text(encoding="ascii").strip())
