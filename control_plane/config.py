"""The configuration of the control plane: one JSON file, named by PENSTOCK_CONFIG, read once and frozen."""

import json
import os
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

VARIABLE = "PENSTOCK_CONFIG"
RECONCILE_S = 10
Network = IPv4Network | IPv6Network


class Misconfigured(Exception):
    """The configuration is missing or wrong; the message names the file and the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersConfig:
    """How the control plane reaches the brokers, and the secrets it shares with them by file."""

    bootstrap: tuple[str, ...]
    """host:port of client listeners, as tenants are told."""
    internal: tuple[str, ...]
    """host:port of internal listeners: those to begin with, brokers that join later are learnt from them."""
    cluster_secret_file: Path
    pepper_file: Path
    """Hex."""
    pepper_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that is set from outside. Times in seconds."""

    file: Path
    environment: str
    """Stands in every API key; `test` and `dev` are not for tenants' real data."""
    secret_key: str = field(repr=False)
    database_url: str = field(repr=False)
    """sqlite:////absolute/file or postgresql://user:password@host:port/name."""
    celery_broker_url: str = field(repr=False)
    """filesystem:///absolute/folder or redis://host:port/number."""
    public_url: str
    listen: str
    brokers: BrokersConfig
    datasets: Path
    usage_key_file: Path
    operator_token_file: Path
    spark_master: str
    pipeline_interval_s: int
    price_book_file: Path | None
    trusted_proxies: tuple[Network, ...] = ()
    """Addresses and networks of the proxies that end TLS: of these alone X-Forwarded-For and -Proto are believed."""
    reconcile_interval_s: int = RECONCILE_S
    """Between two comparisons of what is wanted with what the brokers hold."""

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
    """The configuration of this process."""
    name = os.environ.get(VARIABLE)
    if not name:
        raise Misconfigured(f"{VARIABLE} is not set: it names the configuration file")
    return read(Path(name))


def read(file: Path) -> Config:
    """The configuration in `file`. Raises `Misconfigured`."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Misconfigured(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise Misconfigured(f"{file}: not JSON: {error}") from error
    top = _Section(f"{file}", values)
    brokers = top.section("brokers")
    spark = top.section("spark")
    config = Config(
        file=file.absolute(),
        environment=top.text("environment"),
        secret_key=top.text("secret_key"),
        database_url=top.text("database_url"),
        celery_broker_url=top.text("celery_broker_url"),
        public_url=top.text("public_url"),
        listen=top.text("listen"),
        brokers=BrokersConfig(
            bootstrap=brokers.texts("bootstrap"),
            internal=brokers.texts("internal"),
            cluster_secret_file=Path(brokers.text("cluster_secret_file")),
            pepper_file=Path(brokers.text("pepper_file")),
            pepper_version=brokers.number("pepper_version"),
        ),
        datasets=Path(top.text("datasets")),
        usage_key_file=Path(top.text("usage_key_file")),
        operator_token_file=Path(top.text("operator_token_file")),
        spark_master=spark.text("master"),
        pipeline_interval_s=top.number("pipeline_interval_s"),
        price_book_file=top.path_or_none("price_book_file"),
        trusted_proxies=top.networks("trusted_proxies"),
        reconcile_interval_s=top.number("reconcile_interval_s", RECONCILE_S),
    )
    for section in (top, brokers, spark):
        section.refuse_unknown()
    return config


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
    """Django's settings of the database at `url`. Raises `Misconfigured` without showing the password."""
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
    raise Misconfigured(
        f"database_url: scheme {parts.scheme!r}; sqlite:////absolute/file or "
        "postgresql://user:password@host:port/name required"
    )


class _Section:
    """One object of the file, read by name; what nobody read is refused."""

    def __init__(self, where: str, values: object) -> None:
        if not isinstance(values, dict):
            raise Misconfigured(f"{where}: an object is required")
        self._where, self._values = where, values
        self._known: list[str] = []

    def text(self, name: str) -> str:
        value = self._take(name)
        if not isinstance(value, str) or not value:
            raise Misconfigured(f"{self._where}: {name}: text required")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._take(name)
        if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
            raise Misconfigured(f"{self._where}: {name}: a list of at least one text required")
        return tuple(value)

    def number(self, name: str, usual: int | None = None) -> int:
        """`usual`: what holds when it is left out."""
        if usual is not None and name not in self._values:
            self._known.append(name)
            return usual
        value = self._take(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise Misconfigured(f"{self._where}: {name}: a whole number above 0 required")
        return value

    def networks(self, name: str) -> tuple[Network, ...]:
        """None when it is left out."""
        self._known.append(name)
        value = self._values.get(name, [])
        try:
            if isinstance(value, list) and all(isinstance(item, str) for item in value):
                return tuple(ip_network(item) for item in value)
        except ValueError as error:
            raise Misconfigured(f"{self._where}: {name}: {error}") from error
        raise Misconfigured(f"{self._where}: {name}: a list of addresses and networks required")

    def path_or_none(self, name: str) -> Path | None:
        self._known.append(name)
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise Misconfigured(f"{self._where}: {name}: a path or null required")
        return Path(value)

    def section(self, name: str) -> "_Section":
        return _Section(f"{self._where}: {name}", self._take(name))

    def refuse_unknown(self) -> None:
        for name in sorted(self._values):
            if name not in self._known:
                raise Misconfigured(
                    f"{self._where}: {name}: no such setting; known: {', '.join(sorted(self._known))}"
                )

    def _take(self, name: str) -> object:
        self._known.append(name)
        if name not in self._values:
            raise Misconfigured(f"{self._where}: {name} is missing")
        return self._values[name]
