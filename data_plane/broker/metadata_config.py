"""Which metadata store a broker uses, as its configuration says it, and opening it.

`metadata` is the path of a SQLite file that all brokers of one machine share, or an object:

| field            | meaning                                                            | default        |
| ---------------- | ------------------------------------------------------------------ | -------------- |
| kind             | etcd                                                               | required       |
| endpoints        | host:port of the members                                           | required       |
| cell             | name below which this cluster's keys lie; letters, digits, . _ -   | the cluster id |
| ca_file          | PEM of the authority of etcd's certificates; required off loopback | none           |
| certificate_file | PEM of the broker's own certificate, which etcd demands            | none           |
| key_file         | its PEM key                                                        | none           |
| call_ms          | what one call may take before its outcome counts as unknown        | 2000           |
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from data_plane.broker.etcd_store import EtcdStore
from data_plane.broker.sqlite_store import SqliteStore
from data_plane.etcd.endpoints import EtcdConfig, Tls
from penstock.contract.errors import ConfigurationError

_CELL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FILES = ("ca_file", "certificate_file", "key_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdMetadata:
    """See the table of the module. Refuses to exist when a value is wrong (`ConfigurationError` naming it)."""

    endpoints: tuple[str, ...]
    cell: str = ""
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    call_ms: int = 2_000

    def __post_init__(self) -> None:
        _demand(bool(self.endpoints), "metadata: endpoints: none given")
        for endpoint in self.endpoints:
            host, _, port = endpoint.rpartition(":")
            _demand(
                bool(host) and port.isascii() and port.isdecimal() and 0 < int(port) < 65_536,
                f"metadata: endpoints: {endpoint!r} is not host:port",
            )
            _demand(
                _is_loopback(host) or None not in (self.ca_file, self.certificate_file, self.key_file),
                f"metadata: endpoints: {host} is not a loopback address; the metadata crosses no network in plain"
                " text: give ca_file, certificate_file and key_file",
            )
        _demand(
            not self.cell or _CELL.fullmatch(self.cell) is not None,
            f"metadata: cell: {self.cell!r} is no name of letters, digits, points, dashes and underscores",
        )
        _demand(
            (self.certificate_file is None) == (self.key_file is None),
            "metadata: certificate_file, key_file: give both or none",
        )
        _demand(
            self.ca_file is not None or self.certificate_file is None,
            "metadata: certificate_file: needs ca_file as well",
        )
        _demand(
            type(self.call_ms) is int and self.call_ms > 0,
            f"metadata: call_ms: {self.call_ms!r} is no whole number above 0",
        )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From the object in the configuration. Raises `ConfigurationError`."""
        known = [item.name for item in fields(cls)]
        _demand(values.get("kind") == "etcd", f"metadata: kind: {values.get('kind')!r} is not 'etcd'")
        given = {name: value for name, value in values.items() if name != "kind"}
        for name in given:
            _demand(name in known, f"metadata: {name!r} is no setting; known: kind, {', '.join(known)}")
        endpoints = given.pop("endpoints", None)
        _demand(
            isinstance(endpoints, list) and all(isinstance(endpoint, str) for endpoint in endpoints),
            "metadata: endpoints: a list of host:port is required",
        )
        _demand(isinstance(given.get("cell", ""), str), "metadata: cell: is no text")
        for name in _FILES:
            if given.get(name) is not None:
                _demand(isinstance(given[name], str), f"metadata: {name}: {given[name]!r} is no file name")
                given[name] = Path(given[name])
        return cls(endpoints=tuple(endpoints), **given)

    def client_config(self) -> EtcdConfig:
        """Reads the TLS files. Raises `ConfigurationError` when one cannot be read."""
        ca, certificate, key = (
            _bytes_of(file) for file in (self.ca_file, self.certificate_file, self.key_file)
        )
        tls = None if ca is None else Tls(ca=ca, certificate=certificate, key=key)
        return EtcdConfig(endpoints=self.endpoints, tls=tls, call_s=self.call_ms / 1000)


async def open_store(
    metadata: Path | EtcdMetadata, cluster_id: str, *, base: int = 0
) -> SqliteStore | EtcdStore:
    """The store that the configuration names. `base`: what revisions begin at in a cell of etcd that is not there yet.

    Raises `StoreFault` for a file that cannot be used, `ConfigurationError`. An etcd that cannot be reached is no
    error: its calls raise `StoreUnavailable` until it can.
    """
    if isinstance(metadata, EtcdMetadata):
        return _on_etcd(metadata, cluster_id, base)
    return await SqliteStore.open(metadata)


def _on_etcd(metadata: EtcdMetadata, cluster_id: str, base: int) -> EtcdStore:
    return EtcdStore(metadata.client_config(), metadata.cell or cluster_id, base=base)


def _bytes_of(file: Path | None) -> bytes | None:
    try:
        return None if file is None else file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"metadata: {file}: {error.strerror}") from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigurationError(message)
