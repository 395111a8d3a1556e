"""Where a client's settings come from: arguments before PENSTOCK_* environment variables before the profile
file.

The profile file is TOML, one table a profile, by default `~/.config/penstock/profiles.toml`:

    [dev]
    bootstrap = ["127.0.0.1:7461", "127.0.0.1:7462"]
    api_key = "penstock_dev_..."
    ca_file = "/etc/penstock/ca.pem"
    api_url = "http://127.0.0.1:8000"

A line `use = "dev"` before the tables names the profile that is read when none is named; without it that is `default`,
the only profile of the file, or `dev`.

Fields that the SDK does not know are left alone: other tools keep theirs beside them.
"""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import ConfigurationError
from penstock.rules.addresses import split_address

PROFILE = "PENSTOCK_PROFILE"
PROFILE_FILE = "PENSTOCK_PROFILE_FILE"
BOOTSTRAP = "PENSTOCK_BOOTSTRAP"
API_KEY = "PENSTOCK_API_KEY"
API_URL = "PENSTOCK_API_URL"
CA_FILE = "PENSTOCK_CA_FILE"
ZONE = "PENSTOCK_ZONE"
_NO_HOST = re.compile(r"[\s/@?#]")
DEFAULT_PROFILE = "default"
"""Read when no profile is named or used, if the file has it."""
DEV_PROFILE = "dev"
"""`penstock dev up` writes it, so that the first programs and commands of a newcomer need no name."""
SIGN_IN = "sign_in"
"""A field of a profile: the person who has signed in there (`penstock login`). The command line reads it alone."""
USED = "use"
"""A line before the first table: the profile that is read when none is named (`penstock profile use`)."""


def profile_file(environment: Mapping[str, str] | None = None) -> Path:
    """The profile file's path, whether it exists or not."""
    environment = os.environ if environment is None else environment
    named = environment.get(PROFILE_FILE)
    if named:
        return Path(named).expanduser()
    config = environment.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path("~/.config").expanduser()) / "penstock" / "profiles.toml"


def profile_in_use(
    name: str | None, environment: Mapping[str, str] | None = None
) -> tuple[str | None, dict[str, Any]]:
    """(name, fields) of the profile that counts: the one of this name, else the one named in the environment, else the
    one that the file says is used, else `default`, else the file's only one, else `dev`. (None, {}) if there is none.

    Raises `ConfigurationError` when a named profile or the file cannot be read.
    """
    chosen, fields, _ = _profile(name, os.environ if environment is None else environment)
    return chosen, fields


def _profile(name: str | None, environment: Mapping[str, str]) -> tuple[str | None, dict[str, Any], bool]:
    """Also whether nothing names it: it is the only one, or `dev`."""
    wanted = name or environment.get(PROFILE) or None
    path = profile_file(environment)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if wanted is None:
            return None, {}, False
        raise ConfigurationError(f"profile {wanted!r}: there is no profile file {path}") from None
    except OSError as error:
        raise ConfigurationError(f"profile file {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigurationError(f"profile file {path}: not UTF-8; TOML is") from None
    try:
        profiles = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"profile file {path}: {error}") from error
    if wanted is None and isinstance(profiles.get(USED), str):
        wanted = profiles[USED]
    names = [profile for profile, value in profiles.items() if isinstance(value, dict)]
    if wanted is None and DEFAULT_PROFILE in names:
        wanted = DEFAULT_PROFILE
    is_implied = wanted is None
    if wanted is None:
        wanted = names[0] if len(names) == 1 else DEV_PROFILE
        if wanted not in names:
            return None, {}, False
    fields = profiles.get(wanted)
    if not isinstance(fields, dict):
        raise ConfigurationError(
            f"profile {wanted!r}: not in {path}, which has {', '.join(sorted(names)) or 'none'}"
        )
    return wanted, fields, is_implied


def read_profile(name: str | None, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The fields of `profile_in_use`. Raises as that does."""
    return profile_in_use(name, environment)[1]


def connection_settings(
    *,
    bootstrap: str | Sequence[str] | None = None,
    api_key: str | None = None,
    api_url: str | None = None,
    ca_file: str | None = None,
    zone: str | None = None,
    profile: str | None = None,
    environment: Mapping[str, str] | None = None,
    brokers: bool = True,
) -> ConnectionSettings:
    """Join arguments, environment and profile, each setting from the first that has it. Without `brokers` no address
    of a broker is required.

    Raises `ConfigurationError`.
    """
    environment = os.environ if environment is None else environment
    _, fields, is_implied = _profile(profile, environment)
    url = str(api_url or environment.get(API_URL) or "").rstrip("/")
    elsewhere = bool(url) and url != str(fields.get("api_url") or "").rstrip("/")
    if is_implied and (elsewhere or bootstrap or environment.get(BOOTSTRAP)):
        fields = {}  # nothing names the profile, and the service is another one: nothing of it is for that
    joined = ConnectionSettings(
        bootstrap=_addresses(bootstrap or environment.get(BOOTSTRAP) or fields.get("bootstrap") or ()),
        api_key=_key(api_key) or _key(environment.get(API_KEY)) or _key(fields.get("api_key")),
        api_url=_text("api_url", api_url or environment.get(API_URL) or fields.get("api_url")),
        ca_file=_text("ca_file", ca_file or environment.get(CA_FILE) or fields.get("ca_file")),
        zone=_text("zone", zone or environment.get(ZONE) or fields.get("zone")),
    )
    if brokers and not joined.bootstrap:
        raise ConfigurationError(
            "bootstrap: no broker address; pass bootstrap=, set PENSTOCK_BOOTSTRAP, or name a profile"
            f" ({profile_file(environment)})"
        )
    return joined


def _addresses(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise ConfigurationError(f"bootstrap: {value!r} is not host:port, nor a list of such")
    addresses = tuple(item.strip() for item in value if item.strip())
    for address in addresses:
        if "://" in address:
            raise ConfigurationError(
                f"bootstrap: {address!r} is a URL, host:port required"
                " (the URL of the control plane is a setting of its own, api_url)"
            )
        try:
            host, port = split_address(address)
        except ValueError:
            host, port = "", 0
        if not port or _NO_HOST.search(host):
            raise ConfigurationError(f"bootstrap: {address!r} is not host:port")
    return addresses


def _key(value: object) -> str | None:
    """Files and secrets often end with a newline, which is no part of the key."""
    key = (_text("api_key", value) or "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError("api_key: has letters that no key has; was something else copied with it?")
    return key or None


def _text(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    raise ConfigurationError(f"{name}: {value!r} is not text")
