"""The profile `dev`: written into the cluster's data directory and beside the user's other profiles, both
TOML.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from data_plane.dev.layout import ClusterSpec, DataDirectory, write_private
from penstock.contract.errors import ConfigurationError
from penstock.profiles import profile_file

PROFILE = "dev"
_HEADER = re.compile(r"[ \t]*\[")


def write_profile(
    directory: DataDirectory,
    spec: ClusterSpec,
    api_key: str,
    *,
    tenant: str | None = None,
    api_url: str | None = None,
) -> Path:
    """Write the profile to both places; returns the user's profile file. `tenant` None = that of bare brokers.

    Raises `ConfigurationError` when that file cannot be read, written, or changed without touching other
    profiles.
    """
    fields: dict[str, str | list[str]] = {
        "bootstrap": [broker.client_address for broker in spec.brokers],
        "api_key": api_key,
        "tenant": tenant or spec.tenant,
        "cluster_secret_file": str(directory.secret_file),
        "data": str(directory.path),
    }
    if api_url is not None:
        fields["api_url"] = api_url
    write_private(directory.profile_file, with_profile("", PROFILE, fields))
    users = profile_file()
    try:
        text = users.read_text(encoding="utf-8") if users.exists() else ""
        fresh = with_profile(text, PROFILE, fields)
        if fresh != text:
            write_private(users.resolve(), fresh)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"profile file {users}: {error}") from error
    return users


def read_api_key(directory: DataDirectory) -> str | None:
    """The ready key, as the data directory's own profile has it; None before there is one."""
    try:
        fields = tomllib.loads(directory.profile_file.read_text(encoding="utf-8"))[PROFILE]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise ConfigurationError(f"{directory.profile_file}: cannot be read: {error}") from error
    return str(fields["api_key"])


def with_profile(text: str, name: str, fields: dict[str, str | list[str]]) -> str:
    """`text` (TOML) with the table `name` holding exactly `fields`, every other line as it was.

    Raises `tomllib.TOMLDecodeError` for text that is none, `ConfigurationError` where the change would
    touch another table.
    """
    before: dict[str, Any] = tomllib.loads(text)
    if before.get(name) == fields:
        return text
    table = f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())
    kept, where = _without(text, name)
    fresh = kept[:where].rstrip("\n") + "\n\n" + table + ("\n" if kept[where:] else "") + kept[where:]
    fresh = fresh.lstrip("\n")
    try:
        after: dict[str, Any] = tomllib.loads(fresh)
    except tomllib.TOMLDecodeError:
        after = {}
    if after != {**before, name: fields}:
        raise ConfigurationError(f"table [{name}] cannot be replaced there; remove it by hand and try again")
    return fresh


def _without(text: str, name: str) -> tuple[str, int]:
    """`text` without the table `name` and its sub-tables, and where it stood (the end if it did not)."""
    own = re.compile(rf"[ \t]*\[{re.escape(name)}[\].]")
    kept: list[str] = []
    where: int | None = None
    inside = False
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            inside = own.match(line) is not None
            if inside and where is None:
                where = sum(map(len, kept))
        if not inside:
            kept.append(line)
    joined = "".join(kept)
    return joined, len(joined) if where is None else where
