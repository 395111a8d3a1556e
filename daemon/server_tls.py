"""How PostgreSQL and Redis are reached over TLS: their certificate and host name are always checked, or the address is
a loopback one and the connection is in plain text. There is nothing between the two.
"""

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from daemon.settings import Refused, Settings, require
from penstock.rules.addresses import is_loopback

REDIS, REDIS_OVER_TLS = "redis", "rediss"


class ServerTls(Settings, frozen=True, kw_only=True):
    """The PEM files with which a server of another maker is called. Each connection reads them again."""

    ca_file: Path
    """The CAs of which one must have signed the server's certificate."""
    certificate_file: Path | None = None
    """What the control plane shows to a server that wants to know its callers."""
    key_file: Path | None = None
    """Its key, without a password."""

    def __post_init__(self) -> None:
        require(
            (self.certificate_file is None) == (self.key_file is None),
            "key_file" if self.key_file is None else "certificate_file",
            "missing; give both the certificate and its key or none",
        )


def check_database(url: str, tls: ServerTls | None) -> None:
    """Raises `Refused` when the database would be reached otherwise than the settings say."""
    _check_parameters("database_url", url, "database_tls")
    if not url.startswith("postgresql:"):
        require(tls is None, "database_tls", "the database is a file; take it out, or name a PostgreSQL")
        return
    _check_hosts("database_url", url, "database_tls", tls is not None)


def check_transport(url: str, tls: ServerTls | None) -> None:
    """Raises `Refused` when the Redis would be reached otherwise than the settings say."""
    _check_parameters("celery_broker_url", url, "redis_tls")
    scheme = url.partition(":")[0]
    if scheme not in (REDIS, REDIS_OVER_TLS):
        require(tls is None, "redis_tls", "the transport is no Redis; take it out, or name a Redis")
        return
    require(
        scheme == REDIS_OVER_TLS or tls is None,
        "celery_broker_url",
        "redis:// is plain text; with redis_tls rediss:// is required",
    )
    require(
        scheme == REDIS or tls is not None,
        "redis_tls",
        "missing; rediss:// needs the file of the CAs that are accepted",
    )
    _check_hosts("celery_broker_url", url, "redis_tls", tls is not None)


def of_libpq(tls: ServerTls | None) -> dict[str, Any]:
    """The parameters of a connection to PostgreSQL. None is a loopback address: then it is plain text and says so,
    because libpq would take TLS without a check where the server has it.
    """
    if tls is None:
        return {"sslmode": "disable"}
    if tls.certificate_file is None:
        # Else a certificate in the home folder would be shown.
        return {"sslmode": "verify-full", "sslrootcert": str(tls.ca_file), "sslcertmode": "disable"}
    return {
        "sslmode": "verify-full",
        "sslrootcert": str(tls.ca_file),
        "sslcert": str(tls.certificate_file),
        "sslkey": str(tls.key_file),
    }


def of_redis(tls: ServerTls) -> dict[str, Any]:
    """The arguments of a connection to Redis, of its client and of Celery alike."""
    return {
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
        "ssl_check_hostname": True,
        "ssl_ca_certs": str(tls.ca_file),
        "ssl_certfile": None if tls.certificate_file is None else str(tls.certificate_file),
        "ssl_keyfile": None if tls.key_file is None else str(tls.key_file),
    }


def addresses_of(url: str) -> list[tuple[str, int | None]]:
    """Host and port of each server that a URL names. It may name several."""
    authority = url.partition("://")[2].partition("/")[0]
    return [_address(text) for text in authority.rpartition("@")[2].split(",")]


def _address(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    return host, int(port) if port.isascii() and port.isdecimal() else None


def _check_parameters(name: str, url: str, instead: str) -> None:
    """Both libraries take TLS settings from the URL, above all others, and some of them turn checks off."""
    for parameter, _ in parse_qsl(url.partition("?")[2], keep_blank_values=True):
        if parameter.lower().startswith("ssl"):
            raise Refused(
                name, f"{parameter[:40]} stands in the URL; TLS is set by {instead}, and its checks stay on"
            )


def _check_hosts(name: str, url: str, tls_name: str, over_tls: bool) -> None:
    require(
        "@" not in url.partition("://")[2].partition("/")[2],
        name,
        "no address; scheme://host:port required, other signs than : / @ as %3A %2F %40",
    )
    for host, _ in addresses_of(url):
        require(
            over_tls or is_loopback(host),
            name,
            f"{host} is not a loopback address; it is reached over TLS alone: give {tls_name}",
        )
