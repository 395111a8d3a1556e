"""Identities of processes that tests make up: authorities, certificates of any kind, and gRPC with them."""

import ssl
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from daemon.identity import Role
from daemon.signing import Ca, Name, new_ca, new_leaf
from daemon.tls import IdentityConfig, OwnIdentity
from local.certificates import LOOPBACK, Certificates

CLUSTER = "c1"
_DAYS = 2
_folders: list[tempfile.TemporaryDirectory[str]] = []
"""They go with the process."""


def authority(cluster_id: str = CLUSTER, name: str = "") -> Ca:
    """One for each cluster and each `name`, valid since ten days."""
    return _authority(cluster_id, name)


@cache
def _authority(cluster_id: str, name: str) -> Ca:
    return new_ca(cluster_id, datetime.now(UTC) - timedelta(days=10), 3_650)


def write(
    folder: Path,
    name: str,
    *,
    ca: Ca | None = None,
    believed: Sequence[Ca] = (),
    hosts: Sequence[str] = LOOPBACK,
    begins_in: timedelta = timedelta(),
    days: int = _DAYS,
    any_purpose: bool = False,
) -> IdentityConfig:
    """The three files of one process in a folder, over what is there. `believed`: the authorities in its CA file, the
    one that issues its certificate unless given. `any_purpose`: as of a PKI that lets each serve and call."""
    ca = ca or authority()
    files = Certificates(folder).files(name)
    folder.mkdir(parents=True, exist_ok=True)
    key, leaf = new_leaf(ca, Name.parse(name), hosts, datetime.now(UTC) + begins_in, days)
    if any_purpose:
        leaf = _for_any_purpose(leaf, ca)
    files.key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    files.certificate_file.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    files.ca_file.write_bytes(
        b"".join(one.certificate.public_bytes(serialization.Encoding.PEM) for one in believed or (ca,))
    )
    return files


def _for_any_purpose(leaf: x509.Certificate, ca: Ca) -> x509.Certificate:
    builder = x509.CertificateBuilder(
        issuer_name=leaf.issuer,
        subject_name=leaf.subject,
        public_key=leaf.public_key(),
        serial_number=leaf.serial_number,
        not_valid_before=leaf.not_valid_before_utc,
        not_valid_after=leaf.not_valid_after_utc,
    )
    for extension in leaf.extensions:
        if not isinstance(extension.value, x509.ExtendedKeyUsage):
            builder = builder.add_extension(extension.value, extension.critical)
    return builder.sign(ca.key, hashes.SHA256())


def settings(files: IdentityConfig) -> dict[str, str]:
    """The object `identity` of a configuration."""
    return {
        "ca_file": str(files.ca_file),
        "certificate_file": str(files.certificate_file),
        "key_file": str(files.key_file),
    }


def own(files: IdentityConfig, name: str, cluster_id: str = "") -> OwnIdentity:
    """What the process of that name makes of its files."""
    who = Name.parse(name)
    return OwnIdentity(files, Role(who.role), cluster_id=cluster_id, broker_id=who.number)


def identity(name: str, cluster_id: str = CLUSTER) -> OwnIdentity:
    """Of a process at this machine, good and believed by all others of its cluster that tests get here."""
    return _identity(name, cluster_id)


@cache
def _identity(name: str, cluster_id: str) -> OwnIdentity:
    _folders.append(tempfile.TemporaryDirectory(prefix="identity-"))
    return own(write(Path(_folders[-1].name), name, ca=authority(cluster_id)), name, cluster_id)


def channel_credentials(of: OwnIdentity) -> grpc.ChannelCredentials:
    credentials = of.current
    return grpc.ssl_channel_credentials(credentials.ca, credentials.key, credentials.certificate)


def server_credentials(of: OwnIdentity) -> grpc.ServerCredentials:
    """Of a stand-in that demands certificates."""
    credentials = of.current
    pair = (credentials.key, credentials.certificate)
    return grpc.ssl_server_credentials([pair], credentials.ca, require_client_auth=True)


def calling(of: OwnIdentity) -> ssl.SSLContext:
    return of.current.client


def serving(of: OwnIdentity) -> ssl.SSLContext:
    return of.current.server
