"""Makes the CA and the certificates of a cluster, as values: whose they are, what they allow, and how long.

ECDSA with P-256 and SHA-256 throughout: every server's TLS library knows it, and its handshakes are cheap.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from daemon import certificates, identity
from daemon.identity import SCHEME, Identity
from penstock.contract.errors import InvalidRequest

BACKDATED = timedelta(hours=1)
"""A new certificate is valid on machines whose clocks are behind by less than this."""
_CLUSTER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
"""As in `daemon/identity.py`, without points that are no separators: Go reads the URI's host as a domain."""
_CLUSTER_ID_MAX = 64
"""Of one attribute of a name in a certificate (RFC 5280, ub-organization-name)."""
CA_DAYS_MAX = 36_500
_NAME = re.compile(r"([a-z-]+?)(?:-(0|[1-9][0-9]{0,5}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What holders of a certificate do with it. `has_identity`: the certificate names cluster and role in a URI."""

    serves: bool
    calls: bool = True
    is_numbered: bool = False
    has_identity: bool = True


ROLES = {
    "broker": Role(serves=True, is_numbered=True),
    "control-plane": Role(serves=False),
    "runner": Role(serves=False),
    "operator": Role(serves=False),
    # These servers call their own kind for replication.
    "etcd": Role(serves=True, is_numbered=True, has_identity=False),
    "postgresql": Role(serves=True, has_identity=False),
    "redis": Role(serves=True, has_identity=False),
}


@dataclass(frozen=True, slots=True)
class Name:
    """What a certificate is called in the folder: a role, with a number where there are many of it."""

    role: str
    number: int | None = None

    def __str__(self) -> str:
        return self.role if self.number is None else f"{self.role}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> "Name":
        """Raises `InvalidRequest`."""
        found = _NAME.fullmatch(text)
        role = ROLES.get(found.group(1)) if found else None
        if found is None or role is None or role.is_numbered != (found.group(2) is not None):
            known = ", ".join(f"{name}-<n>" if of.is_numbered else name for name, of in ROLES.items())
            raise InvalidRequest(f"{text[:80]!r}: no name of a certificate; one of {known} required")
        return cls(found.group(1), None if found.group(2) is None else int(found.group(2)))


def identity_uri(cluster_id: str, name: Name) -> str | None:
    """Who a process is, as it stands in its certificate; None for servers that are not the cluster's own."""
    if not ROLES[name.role].has_identity:
        return None
    return Identity(cluster_id=cluster_id, role=identity.Role(name.role), broker_id=name.number).uri


@dataclass(frozen=True, slots=True, kw_only=True)
class Ca:
    """A CA that can sign: its certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def cluster_id(self) -> str:
        """Raises `ValueError` when it was not made by `new_ca`."""
        return cluster_id_of(self.certificate)

    def signed(self, leaf: x509.Certificate) -> bool:
        """Whether the certificate is of this CA."""
        return signed_by(self.certificate, leaf)


def signed_by(ca: x509.Certificate, leaf: x509.Certificate) -> bool:
    """Whether the certificate is of the CA."""
    try:
        leaf.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def cluster_id_of(ca: x509.Certificate) -> str:
    """The cluster that a CA was made for. Raises `ValueError` when it was not made by `new_ca`."""
    uris = certificates.described(ca).uris
    if len(uris) != 1 or not uris[0].startswith(SCHEME):
        raise ValueError("is not a CA that `penstock cluster certificates` made")
    return uris[0].removeprefix(SCHEME)


def new_ca(cluster_id: str, now: datetime, days: int) -> Ca:
    """A CA of that cluster, which signs certificates of processes and no other CA. Raises `InvalidRequest`."""
    if len(cluster_id) > _CLUSTER_ID_MAX or not _CLUSTER_ID.fullmatch(cluster_id):
        raise InvalidRequest(
            f"{cluster_id[:80]!r}: no cluster id; 1 to {_CLUSTER_ID_MAX} letters, digits, dashes, underscores and"
            " single points between them required, the first a letter or digit"
        )
    if not 1 <= days <= CA_DAYS_MAX:
        raise InvalidRequest(f"days: {days}; 1 to {CA_DAYS_MAX} required")
    key = ec.generate_private_key(ec.SECP256R1())
    # The number sets the old and the new CA of one cluster apart: chains are looked up by the subject.
    subject = _subject(cluster_id, f"Penstock CA {secrets.token_hex(4)}")
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    uri = x509.UniformResourceIdentifier(f"{SCHEME}{cluster_id}")
    builder = (
        _builder(subject, subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectAlternativeName([uri]), critical=False)
    )
    return Ca(certificate=builder.sign(key, hashes.SHA256()), key=key)


def new_leaf(
    ca: Ca, who: Name, hosts: Sequence[str], now: datetime, days: int
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """A key and a certificate for it with these DNS names and IP addresses. Raises `InvalidRequest`."""
    key, role = ec.generate_private_key(ec.SECP256R1()), ROLES[who.role]
    names: list[x509.GeneralName] = []
    if (uri := identity_uri(ca.cluster_id, who)) is not None:
        names.append(x509.UniformResourceIdentifier(uri))
    for host in dict.fromkeys(hosts):
        try:
            names.append(certificates.host_name(host))
        except ValueError as error:
            raise InvalidRequest(f"host: {error}") from None
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH] if role.serves else []
    if role.calls:
        purposes.append(ExtendedKeyUsageOID.CLIENT_AUTH)
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    of_ca = ca.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(_subject(ca.cluster_id, str(who)), ca.certificate.subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(of_ca), critical=False)
    )
    return key, builder.sign(ca.key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _subject(cluster_id: str, common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, cluster_id),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )
