"""New API keys: their text, and the credential that is kept of it, and the peppers that this is made with.

The first pepper comes from the configuration; later ones are in its folder, which is read again for a version that this
process does not know. So all processes have a new one from its first use on.
"""

import secrets
from collections.abc import Mapping

from control_plane import config
from daemon import pepper_folder
from penstock.contract.api_keys import RANDOM_BYTES, ApiKey, make_api_key
from penstock.rules.credentials import SCRAM_SALT_BYTES, Credential, make_credential

_known: dict[tuple[str, int], bytes] = {}
"""By file and version; a version never changes."""


def new_key() -> ApiKey:
    """A key of this environment from the operating system's randomness."""
    return make_api_key(config.current().environment, secrets.token_bytes(RANDOM_BYTES))


def credential_of(key: ApiKey) -> Credential:
    """What to keep of `key`."""
    version = current_version()
    return make_credential(
        key,
        pepper_version=version,
        pepper=peppers_for(version)[version],
        salts=secrets.token_bytes(2 * SCRAM_SALT_BYTES),
    )


def current_version() -> int:
    """The pepper that new keys get, and keys of one before at their next use."""
    brokers = config.current().brokers
    if brokers.pepper_folder is None:
        return brokers.pepper_version
    return max(brokers.pepper_version, pepper_folder.current(brokers.pepper_folder) or 0)


def newest_version() -> int:
    """Made last, whether or not it is in use."""
    brokers = config.current().brokers
    folder = brokers.pepper_folder
    made = [] if folder is None else pepper_folder.versions(folder)
    return max([brokers.pepper_version, *made])


def peppers_for(version: int) -> Mapping[int, bytes]:
    """The pepper of that version by it; empty if there is none."""
    brokers = config.current().brokers
    if version == brokers.pepper_version:
        source = brokers.pepper_file
    elif version and brokers.pepper_folder is not None:
        source = brokers.pepper_folder
    else:
        return {}
    found = _known.get((str(source), version))
    if found is None:
        found = _read(version)
        if found is None:
            return {}
        _known[(str(source), version)] = found
    return {version: found}


def _read(version: int) -> bytes | None:
    brokers = config.current().brokers
    if version == brokers.pepper_version:
        return bytes.fromhex(brokers.pepper_file.read_text(encoding="ascii").strip())
    folder = brokers.pepper_folder
    return None if folder is None else pepper_folder.read_one(folder, version)
