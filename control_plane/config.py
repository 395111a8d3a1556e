"""The configuration of the web application and the worker: one JSON file, named by PENSTOCK_CONFIG, read once and
frozen. `docs/reference/settings.md` lists the settings, made from the model.
"""

import os
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from msgspec import Meta

from penstock.contract.errors import ConfigurationError
from process import settings
from process.settings import Refused, Secret, Settings

VARIABLE = "PENSTOCK_CONFIG"
RECONCILE_S = 10
Network = IPv4Network | IPv6Network
Count = Annotated[int, Meta(ge=1)]
Text = Annotated[str, Meta(min_length=1)]
Texts = Annotated[tuple[str, ...], Meta(min_length=1)]


class BrokersConfig(Settings, frozen=True, kw_only=True):
    """How the control plane reaches the brokers, and the secrets it shares with them by file."""

    bootstrap: Texts
    """host:port of client listeners, as tenants are told."""
    internal: Texts
    """host:port of internal listeners: those to begin with, brokers that join later are learnt from them."""
    cluster_secret_file: Path
    """File with the secret that calls of brokers carry."""
    pepper_file: Path
    """File with the pepper that new API keys are made with, hex."""
    pepper_version: Count
    """Its number, under which the brokers' `pepper_files` hold it too."""


class SparkConfig(Settings, frozen=True, kw_only=True):
    """Where the usage pipeline computes."""

    master: Text
    """Spark's master: local[2], spark://host:port and so on."""


class Config(Settings, frozen=True, kw_only=True):
    """Everything that is set from outside. Times in seconds."""

    file: Path
    """The file itself; it stands in no file."""
    environment: Text
    """Stands in every API key; `test` and `dev` are not for tenants' real data."""
    secret_key: Secret
    """What sessions and forms are signed with."""
    database_url: Secret
    """sqlite:////absolute/file or postgresql://user:password@host:port/name."""
    celery_broker_url: Secret
    """filesystem:///absolute/folder or redis://host:port/number."""
    public_url: Text
    """Where people see the service; https behind a proxy that ends TLS."""
    listen: Text
    """host:port of the web application."""
    brokers: BrokersConfig
    """The brokers."""
    datasets: Path
    """Folder of the data sets that the usage pipeline makes."""
    usage_key_file: Path
    """File with the key of the service account that reads `__usage`; `bootstrap` writes it."""
    operator_token_file: Path
    """File with the operators' token; `bootstrap` writes it."""
    spark: SparkConfig
    """Spark."""
    pipeline_interval_s: Count
    """Between two rounds of the usage pipeline."""
    price_book_file: Path | None = None
    """Prices to follow; those that are built in unless given."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of the proxies that end TLS: of these alone X-Forwarded-For and -Proto are believed."""
    reconcile_interval_s: Count = RECONCILE_S
    """Between two comparisons of what is wanted with what the brokers hold."""

    def __post_init__(self) -> None:
        try:
            _networks(self.trusted_proxies)
        except ValueError as error:
            raise Refused("trusted_proxies", f"{error}; addresses and networks required") from error

    @property
    def trusted_networks(self) -> tuple[Network, ...]:
        """The networks of `trusted_proxies`."""
        return _networks(self.trusted_proxies)

    @property
    def over_tls(self) -> bool:
        """Whether people reach the service by TLS, here or at a proxy."""
        return urlsplit(self.public_url).scheme == "https"

    @property
    def state_directory(self) -> Path:
        """Where the worker's heartbeat and the scheduler's notes rest: the folder of the configuration."""
        return self.file.parent


@cache
def current() -> Config:
    """The configuration of this process. Raises `ConfigurationError`."""
    name = os.environ.get(VARIABLE)
    if not name:
        raise ConfigurationError(f"{VARIABLE}: missing; it names the configuration file")
    return read(Path(name))


def read(file: Path) -> Config:
    """The configuration in `file`. Raises `ConfigurationError`."""
    return settings.read(file, Config, given={"file": str(file.absolute())})


@cache
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


def keep_private(settings: dict[str, Any]) -> None:
    """The embedded database is its owner's alone, as are the files that SQLite puts beside it: it holds the hashes of
    passwords. A file that is not there yet is made so.
    """
    if not settings["ENGINE"].endswith("sqlite3"):
        return
    file = Path(settings["NAME"])
    if file.parent.is_dir():
        os.close(os.open(file, os.O_RDONLY | os.O_CREAT, 0o600))
    for one in (file, file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm")):
        if one.exists() and one.stat().st_uid == os.geteuid():
            one.chmod(0o600)


def database(url: str) -> dict[str, Any]:
    """Django's settings of the database at `url`. Raises `ConfigurationError` without showing the password."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite" and parts.path.startswith("/"):
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": unquote(parts.path.replace("//", "/", 1)),
            "OPTIONS": {
                # A transaction takes the write lock at its beginning: none fails half way for want of it.
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                # Checkpoints are made by `embedded_database` alone (docs/decisions/0011).
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; "
                "PRAGMA wal_autocheckpoint=0;",
            },
        }
    if parts.scheme == "postgresql" and parts.hostname and len(parts.path) > 1:
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path[1:]),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": parts.hostname,
            "PORT": str(parts.port or 5432),
            "CONN_MAX_AGE": 60,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {"connect_timeout": 5},
        }
    raise ConfigurationError(
        f"database_url: scheme {parts.scheme!r}; sqlite:////absolute/file or "
        "postgresql://user:password@host:port/name required"
    )
