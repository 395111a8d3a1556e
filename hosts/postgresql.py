"""PostgreSQL on hosts: a primary and a standby that streams from it, both over TLS with certificates of both sides."""

import secrets
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from hosts.accounts import Account
from hosts.certificates import Identity
from hosts.commands import CommandFailed, run
from hosts.host import Host
from hosts.program import Program
from hosts.switch import NETWORK
from penstock.private_file import write_private

PORT = 5432
_PROGRAMS = Path("/usr/lib/postgresql")
DATABASE = OWNER = "penstock"
_REPLICATOR = "standby"
_CONNECT_S = 2
_HBA = f"""\
local   all          all                       reject
hostssl all          all         {NETWORK}  scram-sha-256 clientcert=verify-ca
hostssl replication  {_REPLICATOR}     {NETWORK}  scram-sha-256 clientcert=verify-ca
"""


class PostgreSql(Program):
    """One server. It is the primary after `make_primary`, a standby after `follow`; `start` starts it."""

    def __init__(self, host: Host, identity: Identity) -> None:
        """Raises `CommandFailed` when PostgreSQL is not installed, or its account does not get to its folder."""
        self._identity = identity
        self._account_of = Account.of("postgres")
        self._folder = host.data / "postgresql"
        self._data = self._folder / "data"
        self._folder.mkdir(mode=0o700)
        self._account_of.own(self._folder)
        super().__init__(
            "postgresql",
            host,
            (_program("postgres"), "-D", str(self._data)),
            account=self._account_of,
            stop=signal.SIGINT,
        )
        reach = (
            *("setpriv", f"--reuid={self._account_of.user}", f"--regid={self._account_of.group}"),
            *("--clear-groups", "test", "-w", str(self._folder)),
        )
        try:
            run(*reach)
        except CommandFailed:
            raise CommandFailed(reach, "a folder above it is closed to that account; use --folder") from None

    def make_primary(self, passwords: "Passwords") -> None:
        """An empty server. Raises `CommandFailed`."""
        file = self._folder / "password"
        write_private(file, passwords.owner + "\n")
        self._account_of.own(file)
        self._run(
            *(_program("initdb"), "--pgdata", str(self._data), "--username", OWNER, "--pwfile", str(file)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-instructions"),
        )
        file.unlink()
        self._configure()

    def make_database(self, passwords: "Passwords", client: Identity) -> None:
        """Once the primary serves: the service's database, and the role of standbys."""
        with self.connect("postgres", passwords, client) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
            connection.execute(
                f"CREATE ROLE {_REPLICATOR} REPLICATION LOGIN PASSWORD '{passwords.replicator}'"
            )

    def connect(
        self, database: str, passwords: "Passwords", client: Identity
    ) -> "psycopg.Connection[tuple[Any, ...]]":
        """As the owner. Raises `psycopg.OperationalError` while it does not serve."""
        return psycopg.connect(
            host=self.host.address,
            port=PORT,
            dbname=database,
            user=OWNER,
            password=passwords.owner,
            sslmode="verify-full",
            sslrootcert=str(client.ca_file),
            sslcert=str(client.certificate_file),
            sslkey=str(client.key_file),
            autocommit=True,
            connect_timeout=_CONNECT_S,
        )

    def serves(self, passwords: "Passwords", client: Identity) -> bool:
        """Whether the owner gets in."""
        try:
            with self.connect("postgres", passwords, client):
                return True
        except psycopg.OperationalError:
            return False

    def follow(self, primary: "PostgreSql", passwords: "Passwords", client: Identity) -> None:
        """A copy of the primary, which must serve, and from its start on it streams what changes there."""
        mine = self._install(client, "client")
        self._run(
            *(_program("pg_basebackup"), "--pgdata", str(self._data), "--wal-method", "stream"),
            *("--write-recovery-conf", "--checkpoint", "fast", "--dbname"),
            _conninfo(primary.host.address, mine, passwords),
        )
        self._configure()

    def _configure(self) -> None:
        ca, certificate, key = self._install(self._identity, "server")
        settings = {
            "listen_addresses": f"'{self.host.address}'",
            "port": str(PORT),
            "unix_socket_directories": "''",
            "ssl": "on",
            "ssl_ca_file": f"'{ca}'",
            "ssl_cert_file": f"'{certificate}'",
            "ssl_key_file": f"'{key}'",
            "password_encryption": "scram-sha-256",
            "hot_standby": "on",
        }
        text = "".join(f"{name} = {value}\n" for name, value in settings.items())
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(text)
        (self._data / "pg_hba.conf").write_text(_HBA)

    def _install(self, identity: Identity, what: str) -> tuple[Path, Path, Path]:
        """Copies of the files that its account may read, and it alone."""
        targets = (
            self._folder / f"{what}-ca.pem",
            self._folder / f"{what}.pem",
            self._folder / f"{what}-key.pem",
        )
        sources = (identity.ca_file, identity.certificate_file, identity.key_file)
        for source, target in zip(sources, targets, strict=True):
            shutil.copyfile(source, target)
            target.chmod(0o600)
            self._account_of.own(target)
        return targets

    def _run(self, *command: str) -> None:
        run(*self.host.wire.command(*command, account=self._account_of), cwd=self._folder)


class Passwords:
    """Of the database's owner, and of standbys."""

    def __init__(self) -> None:
        self.owner = secrets.token_hex(16)
        self.replicator = secrets.token_hex(16)


def _conninfo(address: str, files: tuple[Path, Path, Path], passwords: Passwords) -> str:
    ca, certificate, key = files
    parts: Mapping[str, object] = {
        "host": address,
        "port": PORT,
        "user": _REPLICATOR,
        "password": passwords.replicator,
        "sslmode": "verify-full",
        "sslrootcert": ca,
        "sslcert": certificate,
        "sslkey": key,
    }
    return " ".join(f"{name}={value}" for name, value in parts.items())


def _program(name: str) -> str:
    """Debian keeps the server's programs off the path. Raises `CommandFailed`."""
    found = sorted(_PROGRAMS.glob(f"*/bin/{name}"))
    if not found:
        raise CommandFailed([name], "not found; run: make setup")
    return str(found[-1])
