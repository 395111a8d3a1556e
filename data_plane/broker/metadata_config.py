"""Which metadata store a broker uses, as its configuration says it, and opening it: the SQLite file that all brokers of
one machine share, or an etcd.
"""

import ipaddress
import re
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from data_plane.broker.etcd_store import EtcdStore
from data_plane.broker.sqlite_store import SqliteStore
from data_plane.etcd.endpoints import EtcdConfig, Tls
from penstock.contract.errors import ConfigurationError
from process.settings import Refused, Settings

_CELL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class EtcdMetadata(Settings, frozen=True, kw_only=True, tag_field="kind", tag="etcd"):
    """An etcd as metadata store, `kind` etcd. Refuses to exist when a value is wrong."""

    endpoints: tuple[str, ...]
    """host:port of the members."""
    cell: str = ""
    """Name below which this cluster's keys lie; letters, digits, . _ -; the cluster id unless given."""
    ca_file: Path | None = None
    """PEM of the authority of etcd's certificates; required off loopback."""
    certificate_file: Path | None = None
    """PEM of the broker's own certificate, which etcd demands."""
    key_file: Path | None = None
    """Its PEM key."""
    call_ms: Annotated[int, Meta(ge=1)] = 2_000
    """What one call may take before its outcome counts as unknown."""

    def __post_init__(self) -> None:
        _demand(bool(self.endpoints), "endpoints", "none given; host:port of a member required")
        for endpoint in self.endpoints:
            host, _, port = endpoint.rpartition(":")
            _demand(
                bool(host) and port.isascii() and port.isdecimal() and 0 < int(port) < 65_536,
                "endpoints",
                f"host:port required, {endpoint!r} given",
            )
            _demand(
                _is_loopback(host) or None not in (self.ca_file, self.certificate_file, self.key_file),
                "endpoints",
                f"{host} is not a loopback address; the metadata crosses no network in plain text: give ca_file,"
                " certificate_file and key_file",
            )
        _demand(
            not self.cell or _CELL.fullmatch(self.cell) is not None,
            "cell",
            f"a name of letters, digits, points, dashes and underscores required, {self.cell!r} given",
        )
        _demand(
            (self.certificate_file is None) == (self.key_file is None),
            "key_file" if self.key_file is None else "certificate_file",
            "missing; give both the certificate and its key or none",
        )
        _demand(
            self.ca_file is not None or self.certificate_file is None,
            "ca_file",
            "missing; certificate_file needs it",
        )

    def client_config(self) -> EtcdConfig:
        """Reads the TLS files. Raises `ConfigurationError` when one cannot be read."""
        ca, certificate, key = (
            _bytes_of(file) for file in (self.ca_file, self.certificate_file, self.key_file)
        )
        tls = None if ca is None else Tls(ca=ca, certificate=certificate, key=key)
        return EtcdConfig(endpoints=self.endpoints, tls=tls, call_s=self.call_ms / 1000)


async def open_store(
    metadata: str | EtcdMetadata, cluster_id: str, *, base: int = 0
) -> SqliteStore | EtcdStore:
    """The store that the configuration names. `base`: what revisions begin at in a cell of etcd that is not there yet.

    Raises `StoreFault` for a file that cannot be used, `ConfigurationError`. An etcd that cannot be reached is no
    error: its calls raise `StoreUnavailable` until it can.
    """
    if isinstance(metadata, EtcdMetadata):
        return _on_etcd(metadata, cluster_id, base)
    return await SqliteStore.open(Path(metadata))


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


def _demand(holds: bool, name: str, message: str) -> None:
    if not holds:
        raise Refused(name, message)
