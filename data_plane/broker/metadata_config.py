"""Which metadata store a broker uses, as its configuration says it, and opening it: the SQLite file that all brokers of
one machine share, or an etcd.
"""

import re
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from daemon import certificates
from daemon.certificates import FileEnd, utc_now
from daemon.settings import Refused, Settings, require
from daemon.tls_probe import Protocol, TlsFiles, failure
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
        """Raises `ConfigurationError` when one of the TLS files cannot be read."""
        for file in (self.ca_file, self.certificate_file, self.key_file):
            _check_readable(file)
        read_tls = None if self.ca_file is None else self._read_tls
        return EtcdConfig(endpoints=self.endpoints, read_tls=read_tls, call_s=self.call_ms / 1000)

    def certificate_files(self) -> dict[str, FileEnd]:
        """See `BrokerConfig.certificate_files`."""
        found: dict[str, FileEnd] = {}
        if self.ca_file is not None:
            found["metadata.ca_file"] = (self.ca_file, certificates.end_of_cas)
        if self.certificate_file is not None:
            found["metadata.certificate_file"] = (self.certificate_file, certificates.end_of_chain)
        return found

    def failures(self, timeout_s: float) -> list[str]:
        """Why members cannot be called, a line each; empty when one can. It takes `timeout_s` a member at most."""
        files = None
        if self.ca_file is not None:
            files = TlsFiles(
                ca_file=self.ca_file, certificate_file=self.certificate_file, key_file=self.key_file
            )
        found = []
        for endpoint in self.endpoints:
            host, port = split_address(endpoint)
            seen = failure(host, port, Protocol.ETCD, files, timeout_s=timeout_s, now=utc_now())
            if seen is None:
                return []
            found.append(f"metadata.endpoints: {seen.message}")
        return found

    def _read_tls(self) -> Tls:
        assert self.ca_file is not None
        return Tls(
            ca=self.ca_file.read_bytes(),
            certificate=None if self.certificate_file is None else self.certificate_file.read_bytes(),
            key=None if self.key_file is None else self.key_file.read_bytes(),
        )


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


def _check_readable(file: Path | None) -> None:
    try:
        if file is not None:
            file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"metadata: {file}: {error.strerror}") from None
