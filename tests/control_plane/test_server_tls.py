"""PostgreSQL and Redis are reached over TLS with every check, or on a loopback address: nothing else starts."""

import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from control_plane import celery, config
from daemon import server_tls
from daemon.server_tls import ServerTls
from penstock.contract.errors import ConfigurationError
from tests.control_plane.configuration import write

TLS = {"ca_file": "/pki/ca.pem", "certificate_file": "/pki/c.pem", "key_file": "/pki/c-key.pem"}
OVER_TLS = ServerTls(
    ca_file=Path("/pki/ca.pem"), certificate_file=Path("/pki/c.pem"), key_file=Path("/pki/c-key.pem")
)


def read(folder: Path, **settings: Any) -> config.Config:
    file = write(folder, "postgresql://user:hidden@127.0.0.1:5432/penstock")
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    return config.read(file)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"database_url": "postgresql://u:hidden@db.example.com/x"},
            "database_url: db.example.com is not a loopback address; it is reached over TLS alone: give database_tls",
        ),
        (
            {"database_url": "postgresql://u:hidden@127.0.0.1,10.0.0.7:5432/x"},
            "database_url: 10.0.0.7 is not",
        ),
        ({"database_url": "postgresql://u:hidden@[fe80::1]:5432/x"}, "database_url: fe80::1 is not"),
        (
            {"database_url": "postgresql://u:hidden@db.example.com/x?sslmode=require", "database_tls": TLS},
            "database_url: sslmode stands in the URL; TLS is set by database_tls, and its checks stay on",
        ),
        (
            {"database_url": "postgresql://u:hidden@127.0.0.1/x?a=b&SSLMode=allow"},
            "SSLMode stands in the URL",
        ),
        ({"database_url": "postgresql://u:hidden/x@db.example.com/x"}, "database_url: no address; "),
        ({"database_url": "sqlite:////x", "database_tls": TLS}, "database_tls: the database is a file"),
        ({"database_tls": {**TLS, "key_file": None}}, "database_tls.key_file: missing; give both"),
        ({"database_tls": {**TLS, "ca_file": None}}, "database_tls.ca_file: "),
        ({"database_tls": {**TLS, "mode": "skip"}}, "database_tls.mode: no such setting"),
        (
            {"celery_broker_url": "redis://:hidden@redis.example.com/0"},
            "celery_broker_url: redis.example.com is not a loopback address; it is reached over TLS alone: give ",
        ),
        ({"celery_broker_url": "rediss://:hidden@127.0.0.1/0"}, "redis_tls: missing; rediss:// needs"),
        (
            {"celery_broker_url": "redis://:hidden@127.0.0.1/0", "redis_tls": TLS},
            "celery_broker_url: redis:// is plain text; with redis_tls rediss:// is required",
        ),
        (
            {"celery_broker_url": "rediss://:hidden@r/0?ssl_cert_reqs=none", "redis_tls": TLS},
            "celery_broker_url: ssl_cert_reqs stands in the URL; TLS is set by redis_tls",
        ),
        (
            {"celery_broker_url": "rediss://:hidden@r/0?%73sl_check_hostname=false", "redis_tls": TLS},
            "celery_broker_url: ssl_check_hostname stands in the URL",
        ),
        ({"redis_tls": TLS}, "redis_tls: the transport is no Redis"),
    ],
)
def test_a_server_that_would_be_reached_without_a_check_is_refused_at_the_start(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path, **settings)
    assert said in str(refused.value)
    assert "hidden" not in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_plain_text_stays_on_the_loopback_and_says_so(tmp_path: Path, host: str) -> None:
    url, transport = f"postgresql://u@{host}:5432/x", f"redis://{host}:6379/0"
    read(tmp_path, database_url=url, celery_broker_url=transport)
    assert config.database(url)["OPTIONS"]["sslmode"] == "disable"
    assert "broker_use_ssl" not in celery.transport(transport)


def test_tls_has_every_check(tmp_path: Path) -> None:
    url, transport = "postgresql://u@db.example.com/x", "rediss://redis.example.com/0"
    settings = read(tmp_path, database_url=url, celery_broker_url=transport, database_tls=TLS, redis_tls=TLS)
    assert settings.database_tls == settings.redis_tls == OVER_TLS
    options = config.database(url, settings.database_tls)["OPTIONS"]
    assert {name: value for name, value in options.items() if name.startswith("ssl")} == {
        "sslmode": "verify-full",
        "sslrootcert": "/pki/ca.pem",
        "sslcert": "/pki/c.pem",
        "sslkey": "/pki/c-key.pem",
    }
    celery_tls = celery.transport(transport, settings.redis_tls)["broker_use_ssl"]
    assert celery_tls["ssl_cert_reqs"] is ssl.CERT_REQUIRED and celery_tls["ssl_check_hostname"] is True


def test_without_a_certificate_of_its_own_none_is_shown() -> None:
    tls = ServerTls(ca_file=Path("/pki/ca.pem"))
    assert server_tls.of_libpq(tls) == {
        "sslmode": "verify-full",
        "sslrootcert": "/pki/ca.pem",
        "sslcertmode": "disable",
    }
    assert server_tls.of_redis(tls)["ssl_certfile"] is None
