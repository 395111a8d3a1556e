"""Which metadata store a broker uses, as its configuration says it, and opening it: the SQLite file that all brokers of
one machine share, or an etcd.
"""

import re
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from daemon.settings import Refused, Settings, require
from data_plane.broker.etcd_store import EtcdStore
from data_plane.broker.sqlite_store import SqliteStore
from data_plane.etcd.endpoints import EtcdConfig, Tls
from penstock.contract.errors import ConfigurationError
from penstock.rules.addresses import is_loopback, split_address

_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class EtcdMetadata(Settings, frozen=True, kw_only=True, tag_field="kind", tag="etcd"):
    """An etcd as metadata store, `kind` etcd. Refuses to exist when a value is wrong."""

    endpoints: tuple[str, ...]
    """host:port of the members."""
    namespace: str = ""
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
        require(bool(self.endpoints), "endpoints", "none given; host:port of a member required")
        for endpoint in self.endpoints:
            try:
                host, port = split_address(endpoint)
            except ValueError as error:
                raise Refused("endpoints", str(error)) from None
            require(port > 0, "endpoints", f"host:port required, {endpoint!r} given")
            require(
                is_loopback(host) or None not in (self.ca_file, self.certificate_file, self.key_file),
                "endpoints",
                f"{host} is not a loopback address; the metadata crosses no network in plain text: give ca_file,"
                " certificate_file and key_file",
            )
        require(
            not self.namespace or is_namespace(self.namespace),
            "namespace",
            f"a name of letters, digits, points, dashes and underscores required, {self.namespace!r} given",
        )
        require(
            (self.certificate_file is None) == (self.key_file is None),
            "key_file" if self.key_file is None else "certificate_file",
            "missing; give both the certificate and its key or none",
        )
        require(
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
    """The store that the configuration names. `base`: what revisions begin at in a new namespace of etcd.

    Raises `StoreFault` for a file that cannot be used, `ConfigurationError`. An etcd that cannot be reached is no
    error: its calls raise `StoreUnavailable` until it can.
    """
    if isinstance(metadata, EtcdMetadata):
        return _on_etcd(metadata, cluster_id, base)
    return await SqliteStore.open(Path(metadata))


def is_namespace(name: str) -> bool:
    """Whether a namespace in etcd can have this name."""
    return _NAMESPACE.fullmatch(name) is not None


def _on_etcd(metadata: EtcdMetadata, cluster_id: str, base: int) -> EtcdStore:
    return EtcdStore(metadata.client_config(), metadata.namespace or cluster_id, base=base)


def _bytes_of(file: Path | None) -> bytes | None:
    try:
        return None if file is None else file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"metadata: {file}: {error.strerror}") from None
