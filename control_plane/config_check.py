"""What `penstock config check` looks at in the configuration of the web application and the worker."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import psycopg
import redis

from control_plane import config as configuration
from control_plane import server_checks
from control_plane.config import Config
from daemon.config_check import (
    CONNECT_S,
    Finding,
    bindable,
    identity,
    is_absent,
    ok,
    private,
    reachable,
    read_values,
    readable,
    usable_folder,
    wrong,
)
from daemon.identity import Role
from daemon.server_tls import of_redis
from penstock.contract.errors import ConfigurationError

_OF_SERVICE = ("secret_key", "database_url", "celery_broker_url", "public_url", "operator_token_file")
SECRET_KEY_LENGTH_MIN = 32
_TABLE = "django_migrations"


class ServerKind:
    """See `daemon.config_check.Kind`. Web application and worker differ in the addresses that they listen on."""

    def __init__(self, name: str, *listeners: str) -> None:
        self.name = name
        self._listeners = listeners

    def recognizes(self, values: Mapping[str, Any]) -> bool:
        return any(name in values for name in _OF_SERVICE)

    def check(self, file: Path, environment: Mapping[str, str], *, connect: bool) -> Iterator[Finding]:
        config, found = read_values(
            file,
            Config,
            environment,
            prefix=configuration.ENVIRONMENT_PREFIX,
            others=configuration.OF_PIPELINE,
            given={"file": str(file.absolute())},
        )
        yield from found
        if config is None:
            return
        yield ok("the file", "every value is possible")
        yield from _values(config)
        yield from _files(config)
        for listener in self._listeners:
            yield bindable(listener, getattr(config, listener))
        if connect:
            yield from _stores(config)


WEB = ServerKind("web", "listen", "web_metrics_listen")
WORKER = ServerKind("worker", "worker_listen")


def _values(config: Config) -> Iterator[Finding]:
    if len(config.secret_key) < SECRET_KEY_LENGTH_MIN:
        yield wrong(
            "secret_key",
            f"it has {len(config.secret_key)} characters; give {SECRET_KEY_LENGTH_MIN} or more that are random",
        )
    for setting, read in (("database_url", _database), ("celery_broker_url", _transport)):
        try:
            read(config)
        except ConfigurationError as error:
            yield wrong(setting, error.message.removeprefix(f"{setting}: "))


def _database(config: Config) -> dict[str, Any]:
    return configuration.database(config.database_url, config.database_tls)


def _transport(config: Config) -> str:
    scheme = urlsplit(config.celery_broker_url).scheme
    if scheme not in configuration.TRANSPORTS:
        raise ConfigurationError(
            f"celery_broker_url: scheme {scheme!r}; {' or '.join(configuration.TRANSPORTS.values())} required"
        )
    return scheme


def _files(config: Config) -> Iterator[Finding]:
    yield from identity(config.identity, Role.CONTROL_PLANE)
    yield private("brokers.pepper_file", config.brokers.pepper_file)
    for setting, file in (
        ("usage_key_file", config.usage_key_file),
        ("operator_token_file", config.operator_token_file),
    ):
        # `bootstrap` writes both.
        yield usable_folder(setting, file.absolute().parent) if is_absent(file) else private(setting, file)
    if config.brokers.ca_file is not None:
        yield readable("brokers.ca_file", config.brokers.ca_file)
    for setting, secret in (
        ("payments.stripe_key_file", config.payments.stripe_key_file),
        ("payments.stripe_webhook_secret_file", config.payments.stripe_webhook_secret_file),
    ):
        if secret is not None:
            yield private(setting, secret)
    if config.price_book_file is not None:
        yield readable("price_book_file", config.price_book_file)
    if config.data_set_bucket is None:
        yield usable_folder("datasets", config.datasets)
    yield usable_folder("state", config.state_directory)
    for name, url in (("database_url", config.database_url), ("celery_broker_url", config.celery_broker_url)):
        try:
            parts = urlsplit(url)
        except ValueError:
            continue  # named above: it is no address
        if parts.scheme == "sqlite":
            yield usable_folder(name, Path(unquote(parts.path.replace("//", "/", 1))).parent)
        elif parts.scheme == "filesystem":
            yield usable_folder(name, Path(parts.path))


def _stores(config: Config) -> Iterator[Finding]:
    yield _ask_database(config)
    yield _ask_transport(config)
    for address in config.brokers.internal:
        yield reachable("brokers.internal", address)


def _ask_database(config: Config) -> Finding:
    """Whether it answers, and has tables. Without Django, which can be set up once a process only."""
    try:
        chosen = _database(config)
    except ConfigurationError:
        return wrong("database_url", "it was not asked; correct its address first")
    on_sqlite = chosen["ENGINE"].endswith("sqlite3")
    if on_sqlite and is_absent(Path(chosen["NAME"])):
        return ok("database_url", "the file is not there yet; `python -m control_plane migrate` makes it")
    try:
        migrated = _sqlite_has_tables(chosen) if on_sqlite else _postgresql_has_tables(chosen)
    except (psycopg.Error, sqlite3.Error, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        said = server_checks.database_failure(config) if config.database_tls is not None else None
        if said is not None:
            return wrong("database_url", said.removeprefix("database_url: "))
        return wrong(
            "database_url", f"the database does not answer: {reason}; start it, or correct the address"
        )
    tables = "" if migrated else "; it has no tables yet, `python -m control_plane migrate` makes them"
    return ok("database_url", f"the database answers{tables}")


def _sqlite_has_tables(chosen: dict[str, Any]) -> bool:
    file = f"file:{quote(chosen['NAME'])}?mode=ro"
    with closing(sqlite3.connect(file, uri=True, timeout=CONNECT_S)) as connection:
        found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_TABLE,)).fetchone()
    return found is not None


def _postgresql_has_tables(chosen: dict[str, Any]) -> bool:
    with psycopg.connect(
        host=chosen["HOST"],
        port=chosen["PORT"],
        user=chosen["USER"],
        password=chosen["PASSWORD"],
        dbname=chosen["NAME"],
        **chosen["OPTIONS"],
    ) as connection:
        return connection.execute("SELECT to_regclass(%s)", (_TABLE,)).fetchone() != (None,)


def _ask_transport(config: Config) -> Finding:
    url, tls = config.celery_broker_url, config.redis_tls
    if urlsplit(url).scheme == "filesystem":
        return ok("celery_broker_url", "wake-ups travel by files")
    try:
        asked = redis.Redis.from_url(
            url,
            socket_timeout=CONNECT_S,
            socket_connect_timeout=CONNECT_S,
            **({} if tls is None else of_redis(tls)),
        )
        try:
            asked.ping()
        finally:
            asked.close()
    except (redis.RedisError, ValueError, OSError) as error:
        said = server_checks.transport_failure(config) if tls is not None else None
        if said is not None:
            return wrong("celery_broker_url", said.removeprefix("celery_broker_url: "))
        return wrong("celery_broker_url", f"Redis does not answer: {error}; start it, or correct the address")
    return ok("celery_broker_url", "Redis answers")
