"""What a certificate says, read from a PEM file of any authority: names, identity, when it ends, its fingerprint."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import NameOID

from penstock.contract.errors import ConfigurationError

Host = str
"""A DNS name, or an IP address in its usual form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The facts of one certificate; times are UTC."""

    common_name: str
    uris: tuple[str, ...]
    hosts: tuple[Host, ...]
    serial: str
    fingerprint: str
    """SHA-256, hex."""
    not_before: datetime
    not_after: datetime

    def left(self, now: datetime) -> timedelta:
        """Until it ends; below zero once it has."""
        return self.not_after - now

    def days_left(self, now: datetime) -> int:
        """Whole days until it ends; below zero once it has."""
        return self.left(now).days


def described(certificate: x509.Certificate) -> Certificate:
    """The facts of a parsed certificate."""
    common_names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return Certificate(
        common_name=str(common_names[0].value) if common_names else "",
        uris=tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
        hosts=(*names.get_values_for_type(x509.DNSName), *addresses),
        serial=f"{certificate.serial_number:x}",
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
    )


FileEnd = tuple[Path, Callable[[Path], datetime]]
"""A file of certificates, and what reads when it ends."""


def end_of_chain(file: Path) -> datetime:
    """When the certificate at the file's beginning ends. Raises `ConfigurationError`."""
    return load(file)[0].not_valid_after_utc


def end_of_cas(file: Path) -> datetime:
    """When the last CA of the file ends: of several the old one ends first. Raises `ConfigurationError`."""
    return max(ca.not_valid_after_utc for ca in load(file))


def load(file: Path) -> list[x509.Certificate]:
    """The certificates of a PEM file, at least one, in their order. Raises `ConfigurationError`."""
    try:
        return x509.load_pem_x509_certificates(_bytes_of(file))
    except (ValueError, x509.InvalidVersion):
        raise ConfigurationError(
            f"{file}: holds no certificate in PEM; -----BEGIN CERTIFICATE----- required"
        ) from None


def load_key(file: Path) -> PrivateKeyTypes:
    """The private key of a PEM file. Raises `ConfigurationError`."""
    try:
        return serialization.load_pem_private_key(_bytes_of(file), password=None)
    except TypeError:
        raise ConfigurationError(f"{file}: its key is encrypted; a key without a password required") from None
    except ValueError:
        raise ConfigurationError(
            f"{file}: holds no private key in PEM; -----BEGIN PRIVATE KEY----- required"
        ) from None


def is_key_of(key: PrivateKeyTypes, certificate: x509.Certificate) -> bool:
    """Whether the certificate was made for this private key."""
    return key.public_key() == certificate.public_key()


def host_name(text: str) -> x509.GeneralName:
    """The name in a certificate of a DNS name or an IP address. Raises `ValueError`."""
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    labels = text.split(".")
    if len(text) > 253 or not all(_is_label(label) for label in labels) or labels[-1].isdecimal():
        raise ValueError(f"{text[:80]!r} is no DNS name and no IP address")
    return x509.DNSName(text)


def utc_now() -> datetime:
    """The time that the processes and commands of a service go by."""
    return datetime.now(UTC)


def _is_label(text: str) -> bool:
    known = text.isascii() and text.replace("-", "").replace("_", "").isalnum()
    return known and len(text) <= 63 and not text.startswith("-") and not text.endswith("-")


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from None
