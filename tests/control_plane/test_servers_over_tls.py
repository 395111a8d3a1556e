"""A real PostgreSQL and a real Redis over mutual TLS: they are used, and what is wrong is refused in one line."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kombu
import psycopg
import pytest
from celery import Celery

from control_plane import config, config_check, server_checks
from control_plane.celery import transport
from control_plane.rate_counters import RedisStore, Unreachable
from daemon import authority
from daemon.server_tls import ServerTls
from local.free_ports import HOST, free_port
from tests.control_plane.api.web_process import running_web
from tests.control_plane.configuration import write
from tests.integration import servers
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]
NOW = datetime.now(UTC)
SERVERS = ("postgresql", "redis")
TIMES = {"good": NOW, "old": NOW - timedelta(days=30), "early": NOW + timedelta(days=1)}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of two authorities, `ours` and `other`, and below them what each wrong certificate needs."""
    folder = tmp_path_factory.mktemp("pki")
    for owner in ("ours", "other"):
        authority.init(folder / owner, "prod-1", now=NOW)
        authority.issue(folder / owner, "control-plane", now=NOW)
        for server in SERVERS:
            authority.issue(folder / owner, server, hosts=[HOST, "localhost"], now=NOW)
    for kind, when in TIMES.items():
        made = folder / kind
        made.mkdir()
        for name in ("ca.pem", "ca-key.pem"):
            (made / name).write_bytes((folder / "ours" / name).read_bytes())
        for server in (*SERVERS, "control-plane"):
            authority.issue(made, server, hosts=[HOST], now=when, days=10)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    for name in ("ca.pem", "ca-key.pem"):
        (elsewhere / name).write_bytes((folder / "ours" / name).read_bytes())
    for server in SERVERS:
        authority.issue(elsewhere, server, hosts=["db.example.com", "10.0.0.1"], now=NOW)
    return folder


def served(folder: Path, server: str, ca: Path | None = None) -> servers.ServerCertificate:
    return servers.ServerCertificate(
        ca_file=ca or folder / "ca.pem",
        certificate_file=folder / f"{server}.pem",
        key_file=folder / f"{server}-key.pem",
    )


def of_caller(folder: Path, ca: Path | None = None, name: str = "control-plane") -> ServerTls:
    return ServerTls(
        ca_file=ca or folder / "ca.pem",
        certificate_file=folder / f"{name}.pem",
        key_file=folder / f"{name}-key.pem",
    )


class Caller:
    """A configuration for one of the two servers, and that server's real clients."""

    def __init__(self, folder: Path, server: str, port: int, tls: ServerTls | None) -> None:
        self.server = server
        self.tls = tls
        values = json.loads(write(folder, "sqlite:////nowhere").read_text())
        if server == "postgresql":
            values["database_url"] = f"postgresql://penstock@{HOST}:{port}/postgres"
        else:
            values["celery_broker_url"] = f"{'redis' if tls is None else 'rediss'}://{HOST}:{port}/0"
        if tls is not None:
            files = {
                name: str(getattr(tls, name))
                for name in ("ca_file", "certificate_file", "key_file")
                if getattr(tls, name) is not None
            }
            values["database_tls" if server == "postgresql" else "redis_tls"] = files
        self.file = folder / "config.json"
        self.file.write_text(json.dumps(values))
        self.config = config.read(self.file)

    def why_not(self) -> str | None:
        if self.server == "postgresql":
            return server_checks.database_failure(self.config)
        return server_checks.transport_failure(self.config)

    def checked(self) -> str:
        """What `penstock config check` finds wrong with the server."""
        setting = "database_url" if self.server == "postgresql" else "celery_broker_url"
        findings = config_check.WEB.check(self.file, {}, connect=True)
        return " ".join(found.text for found in findings if found.setting == setting)

    def assert_refused(self) -> None:
        """None of the clients that the service uses gets through."""
        if self.server == "postgresql":
            with pytest.raises(psycopg.OperationalError):
                self.connect_database()
            return
        with pytest.raises(Unreachable):
            RedisStore(self.config.celery_broker_url, self.tls).count("x", 1.0)
        with pytest.raises(kombu.exceptions.OperationalError), self.celery().connection() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)

    def connect_database(self) -> Any:
        """As Django does, with the same parameters."""
        made = config.database(self.config.database_url, self.tls)
        return psycopg.connect(
            host=made["HOST"], port=made["PORT"], user=made["USER"], dbname=made["NAME"], **made["OPTIONS"]
        )

    def celery(self) -> Celery:
        app = Celery("over-tls", set_as_current=False)
        app.conf.update(**transport(self.config.celery_broker_url, self.tls), task_default_queue="over-tls")
        return app


@contextmanager
def running(server: str, tls: servers.ServerCertificate | None) -> Iterator[int]:
    with getattr(servers, server)(tls) as found:
        yield found.port


def test_celery_and_rate_limits_use_a_redis_over_mutual_tls(pki: Path, tmp_path: Path) -> None:
    with running("redis", served(pki / "ours", "redis")) as port:
        caller = Caller(tmp_path, "redis", port, of_caller(pki / "ours"))
        assert caller.why_not() is None
        counted, left_s = RedisStore(caller.config.celery_broker_url, caller.tls).count("x", 60.0)
        assert counted == 1 and 0 < left_s <= 60
        app = caller.celery()
        app.send_task("outbox.deliver", args=["topic", "t-1"])
        with app.connection() as connection, connection.SimpleQueue("over-tls") as queue:
            message = queue.get(timeout=PATIENCE_S)
            message.ack()
        assert message.headers["task"] == "outbox.deliver"
        app.close()


def test_commands_use_a_postgresql_over_mutual_tls_and_say_in_one_line_what_is_wrong(
    pki: Path, tmp_path: Path
) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "control_plane", *arguments],
            cwd=tmp_path,
            env={**os.environ, config.VARIABLE: str(tmp_path / "config.json")}
            | {"DJANGO_SETTINGS_MODULE": "control_plane.settings"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    with running("postgresql", served(pki / "ours", "postgresql")) as port:
        caller = Caller(tmp_path, "postgresql", port, of_caller(pki / "ours"))
        assert caller.why_not() is None
        done = command("migrate", "-v0")
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        with caller.connect_database() as connection:
            assert connection.execute(
                "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            ).fetchone() == (True,)
            assert connection.execute("SELECT count(*) FROM tenants_tenant").fetchone() == (0,)
        Caller(tmp_path, "postgresql", port, of_caller(pki / "ours", ca=pki / "other" / "ca.pem"))
        done = command("migrate", "-v0")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"penstock: database_url: {HOST}:{port}: no CA in ca_file signed its certificate ("
    )
    assert done.stderr.count("\n") == 1


def test_a_web_process_uses_its_database_over_tls_and_says_what_it_cannot_call(
    pki: Path, tmp_path: Path
) -> None:
    ours, port = pki / "ours", free_port(set())
    own = {
        "certificate_file": str(ours / "control-plane.pem"),
        "key_file": str(ours / "control-plane-key.pem"),
    }
    with (
        running("postgresql", served(ours, "postgresql")) as database,
        running_web(
            tmp_path,
            database_url=f"postgresql://penstock@{HOST}:{database}/postgres",
            database_tls={"ca_file": str(ours / "ca.pem"), **own},
            celery_broker_url=f"rediss://{HOST}:{port}/0",
            redis_tls={"ca_file": str(ours / "ca.pem"), **own},
        ) as web,
    ):
        (line,) = [line for line in web.log.read_text().splitlines() if "a server cannot be called" in line]
        assert json.loads(line)["reason"] == (
            f"celery_broker_url: {HOST}:{port}: Connection refused; check the address, and that it runs"
        )
        assert json.loads(answer(web.port, "/readyz"))["checks"]["database"] == "ok"
        metrics = answer(web.metrics_port, "/metrics")
    assert 'penstock_certificate_expires_seconds{certificate="database_tls.certificate_file"}' in metrics
    assert (
        'penstock_server_check_failures_total{reason="unreachable",setting="celery_broker_url"} 1.0'
        in metrics
    )


def answer(port: int, path: str) -> str:
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


WRONG_SERVERS = {
    "other": "no CA in ca_file signed its certificate",
    "elsewhere": "its certificate is not for 127.0.0.1; issue one that names it, or use a name that it has",
    "old": "its certificate has expired, or a clock is wrong; renew it there",
    "early": "its certificate is not valid yet; set the clocks of both machines",
}


def assert_refused(caller: Caller, said: str) -> None:
    line = caller.why_not()
    assert line is not None and said in line and "\n" not in line
    caller.assert_refused()
    if caller.tls is not None:
        assert said in caller.checked()


@pytest.mark.parametrize("server", SERVERS)
def test_callers_that_a_server_cannot_know_are_refused_in_one_line(
    server: str, pki: Path, tmp_path: Path
) -> None:
    ours = pki / "ours"
    with running(server, served(ours, server)) as port:
        wrong = {
            "no CA in ca_file signed its certificate": of_caller(ours, ca=pki / "other" / "ca.pem"),
            "does not accept our certificate (unknown ca)": of_caller(pki / "other", ca=ours / "ca.pem"),
            "requires a client certificate; give certificate_file and key_file": ServerTls(
                ca_file=ours / "ca.pem"
            ),
            "control-plane.pem: has ended at": of_caller(pki / "old"),
            "accepts TLS alone; name the files for it in the settings": None,
        }
        for said, tls in wrong.items():
            assert_refused(Caller(tmp_path, server, port, tls), said)
        missing = ServerTls(ca_file=tmp_path / "none.pem")
        assert_refused(Caller(tmp_path, server, port, missing), "none.pem: No such file or directory")
        assert Caller(tmp_path, server, port, of_caller(ours)).why_not() is None


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("kind", WRONG_SERVERS)
def test_a_server_that_cannot_be_believed_is_refused_in_one_line(
    server: str, kind: str, pki: Path, tmp_path: Path
) -> None:
    with running(server, served(pki / kind, server, ca=pki / "ours" / "ca.pem")) as port:
        assert_refused(Caller(tmp_path, server, port, of_caller(pki / "ours")), WRONG_SERVERS[kind])


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_in_plain_text_is_refused_in_one_line(server: str, pki: Path, tmp_path: Path) -> None:
    with running(server, None) as port:
        assert_refused(Caller(tmp_path, server, port, of_caller(pki / "ours")), "speaks no TLS")
        assert Caller(tmp_path, server, port, None).why_not() is None


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_that_does_not_run_is_said_to_be_away(server: str, pki: Path, tmp_path: Path) -> None:
    caller = Caller(tmp_path, server, free_port(set()), of_caller(pki / "ours"))
    assert_refused(caller, "Connection refused; check the address, and that it runs")
