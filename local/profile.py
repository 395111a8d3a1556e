"""The profile `dev`: written into the cluster's data directory and beside the user's other profiles, both
TOML.
"""

import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from local.layout import ClusterSpec, DataDirectory
from penstock.contract.errors import ConfigurationError
from penstock.private_file import write_private
from penstock.profile_changes import Field, with_profile
from penstock.profiles import SIGN_IN, profile_file

PROFILE = "dev"


def write_profile(
    directory: DataDirectory,
    spec: ClusterSpec,
    api_key: str,
    *,
    tenant: str | None = None,
    api_url: str | None = None,
) -> Path:
    """Write the profile to both places; returns the user's profile file. `tenant` None = that of bare brokers.

    A profile of that name that points to another service stays as it is in the user's file; `pointed_elsewhere` tells.
    A home that cannot be written to, as one that is mounted to be read only, does without; `is_written` tells.

    Raises `ConfigurationError` when that file cannot be read or changed without touching other profiles.
    """
    fields: dict[str, Field] = {
        "bootstrap": [broker.client_address for broker in spec.brokers],
        "api_key": api_key,
        "tenant": tenant or spec.tenant,
        "data": str(directory.path),
    }
    if api_url is not None:
        fields["api_url"] = api_url
    kept = directory.profile_file.read_text(encoding="utf-8") if directory.profile_file.exists() else ""
    write_private(directory.profile_file, with_profile("", PROFILE, fields | _sign_in(kept)))
    users = profile_file()
    try:
        text = users.read_text(encoding="utf-8-sig") if users.exists() else ""
        if _others(text, directory) is not None:
            return users
        fresh = with_profile(text, PROFILE, fields | _sign_in(text))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"profile file {users}: {error}") from error
    if fresh != text:
        # Commands find the service by the directory's own profile too: PENSTOCK_PROFILE_FILE names it.
        with suppress(OSError):
            write_private(users.resolve(), fresh)
    return users


def is_written(directory: DataDirectory) -> bool:
    """True where the user's profile is that of this directory, to the last field but a person's sign-in."""
    try:
        users = tomllib.loads(profile_file().read_text(encoding="utf-8-sig")).get(PROFILE)
        written = tomllib.loads(directory.profile_file.read_text(encoding="utf-8"))[PROFILE]
        return isinstance(users, dict) and _unsigned(users) == _unsigned(written)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError):
        return False


def pointed_elsewhere(directory: DataDirectory) -> str | None:
    """To which other service the user's profile points, so that this one's was not written; None = to this one."""
    try:
        return _others(profile_file().read_text(encoding="utf-8-sig"), directory)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None


def _sign_in(text: str) -> dict[str, Field]:
    """The person who has signed in there (`penstock login`), who stays."""
    fields = tomllib.loads(text).get(PROFILE)
    return {SIGN_IN: fields[SIGN_IN]} if isinstance(fields, dict) and SIGN_IN in fields else {}


def _unsigned(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name != SIGN_IN}


def _others(text: str, directory: DataDirectory) -> str | None:
    """Another service in the profile: other data that is still there, or what was written by hand."""
    fields = tomllib.loads(text).get(PROFILE)
    if not isinstance(fields, dict):
        return None
    data = fields.get("data")
    if isinstance(data, str):
        gone = not DataDirectory(Path(data)).profile_file.exists()
        return None if gone or Path(data).resolve() == directory.path.resolve() else data
    return str(fields.get("api_url") or fields.get("bootstrap") or "nothing that is known")


def read_api_key(directory: DataDirectory) -> str | None:
    """The ready key, as the data directory's own profile has it; None before there is one."""
    try:
        fields = tomllib.loads(directory.profile_file.read_text(encoding="utf-8"))[PROFILE]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise ConfigurationError(f"{directory.profile_file}: cannot be read: {error}") from error
    return str(fields["api_key"])
