"""The certificate of a process and the authority that it believes: read, checked, taken up again when files change.

A connection that is made keeps what it was made with; the next one gets what the files hold by then.
"""

import math
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from daemon.identity import Identity, NoIdentity, Role, identity_of
from daemon.settings import Settings
from penstock.contract.errors import ConfigurationError

_FILES = ("ca_file", "certificate_file", "key_file")
SOON_S = 14 * 86_400
"""What expires within this is something that an operator should look at."""
_OTHER_KEY = "its key is of a kind that gRPC does not take; RSA, P-256 or P-384 required"
_FILE_BYTES_MAX = 1 << 20
_STEPS_MAX = 10
"""Of a handshake: TLS 1.2 takes the most, four."""


class IdentityConfig(Settings, frozen=True, kw_only=True):
    """PEM files of mutual TLS within the cluster. A file that changes is taken up without a restart."""

    ca_file: Path
    """The authorities that are believed: to change one, put the new one beside the old one first."""
    certificate_file: Path
    """The certificate of this process, with what leads to the authority; it names the process by a URI."""
    key_file: Path
    """Its key, without a password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What the three files held, all of it checked."""

    identity: Identity
    ca: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    server: ssl.SSLContext = field(repr=False)
    """Of one who is connected to: demands a certificate."""
    client: ssl.SSLContext = field(repr=False)
    """Of one who connects: checks that the certificate is for the host of the address."""
    ends_s: Mapping[str, float]
    """When the certificate and its authority expire (seconds since 1970), by setting."""


def read_credentials(
    files: IdentityConfig, role: Role, *, cluster_id: str = "", broker_id: int | None = None, now_s: float
) -> Credentials:
    """The files' contents, when they are of that process of that cluster (of any, for an empty `cluster_id`) and good
    now. Raises `ConfigurationError` in one line that names the setting."""
    ca, certificate, key = (_bytes_of(f"identity.{name}", getattr(files, name)) for name in _FILES)
    authorities = _certificates(f"identity.ca_file: {files.ca_file}", ca)
    chain = _certificates(f"identity.certificate_file: {files.certificate_file}", certificate)
    where = f"identity.certificate_file: {files.certificate_file}"
    identity = _identity(where, chain[0])
    _check_who(where, identity, role, cluster_id, broker_id)
    _check_time(where, chain[0], now_s)
    _check_key(where, chain[0])
    try:
        server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for context in (server, client):
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.verify_mode = ssl.CERT_REQUIRED
            _believe(f"identity.ca_file: {files.ca_file}", context, ca)
            context.load_cert_chain(files.certificate_file, files.key_file, _no_password)
        server.num_tickets = 0  # each connection shows its certificate
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(
            f"identity.key_file: {files.key_file}: does not fit {files.certificate_file}"
            f" ({getattr(error, 'reason', None) or error}); the certificate's own key, without a password, required"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"identity: {error.filename or files.key_file}: {error.strerror}") from None
    _check_authority(where, files.ca_file, server, client, serves=role is Role.BROKER)
    return Credentials(
        identity=identity,
        ca=ca,
        certificate=certificate,
        key=key,
        server=server,
        client=client,
        ends_s={
            "identity.certificate_file": chain[0].not_valid_after_utc.timestamp(),
            "identity.ca_file": _issuer_ends_s(chain, authorities),
        },
    )


class OwnIdentity:
    """The credentials of this process as its files held them when they were last good. Safe between threads."""

    def __init__(
        self,
        files: IdentityConfig,
        role: Role,
        *,
        cluster_id: str = "",
        broker_id: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises `ConfigurationError` unless they are good now."""
        self._files = files
        self._role = role
        self._clock = clock
        self._cluster_id = cluster_id
        self._broker_id = broker_id
        self._looking = threading.Lock()
        self._seen = self._signs()
        self.fault = ""
        """Why what the files hold now is not taken up; empty when it is."""
        self.current = self._read()

    def look(self) -> bool:
        """Take up what the files hold when they have changed; whether that was done. What is not good is left and read
        again at each look: a certificate and its key are two files, one may not be valid before a while, and a file may
        be unreadable at first."""
        with self._looking:
            signs = self._signs()
            if signs == self._seen and not self.fault:
                return False
            try:
                found = self._read()
            except ConfigurationError as error:
                self.fault = str(error)
                self._seen = signs
                return False
            if self._signs() != signs:
                return False  # changed while they were read; the next look sees it
            self._seen = signs
            self.fault = ""
            if self._same(found):
                return False
            self.current = found
            return True

    def ends_s(self) -> dict[str, float]:
        """Seconds until each expires, by setting; negative when it has."""
        now_s = self._clock()
        return {kind: at_s - now_s for kind, at_s in self.current.ends_s.items()}

    def warnings(self) -> dict[str, str]:
        """What an operator should look at, in words by kind."""
        found: dict[str, str] = {}
        kinds = {
            "identity.certificate_file": ("certificate", self._files.certificate_file),
            "identity.ca_file": ("authority", self._files.ca_file),
        }
        for setting, left_s in self.ends_s().items():
            if left_s < SOON_S:
                when = f"expires in {math.ceil(left_s / 86_400)} days" if left_s > 0 else "has expired"
                kind, file = kinds[setting]
                found[f"{kind} expires"] = f"the {kind} in {file} {when}; put a new one there"
        if self.fault:
            found["identity files"] = f"{self.fault}; what was read before is still used"
        return found

    def _same(self, found: Credentials) -> bool:
        now = self.current
        return (found.ca, found.certificate, found.key) == (now.ca, now.certificate, now.key)

    def _read(self) -> Credentials:
        return read_credentials(
            self._files,
            self._role,
            cluster_id=self._cluster_id,
            broker_id=self._broker_id,
            now_s=self._clock(),
        )

    def _signs(self) -> tuple[object, ...]:
        """What shows that a file was written or replaced."""
        return tuple(_sign(getattr(self._files, name)) for name in _FILES)


def _sign(file: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _bytes_of(setting: str, file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(_FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigurationError(f"{setting}: {file}: {error.strerror}") from None


def _certificates(where: str, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except (ValueError, x509.InvalidVersion) as error:
        raise ConfigurationError(f"{where}: holds no certificate in PEM ({error})") from None


def _believe(where: str, context: ssl.SSLContext, ca: bytes) -> None:
    """A file that was written half is refused; what stands beside its certificates may be in any language."""
    try:
        context.load_verify_locations(cadata=ca.decode("ascii", errors="backslashreplace"))
    except ssl.SSLError as error:
        raise ConfigurationError(f"{where}: holds no certificate in PEM ({error.reason or error})") from None


def _identity(where: str, certificate: x509.Certificate) -> Identity:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return identity_of(names.get_values_for_type(x509.UniformResourceIdentifier))
    except x509.ExtensionNotFound:
        raise ConfigurationError(f"{where}: the certificate has no subject alternative names") from None
    except (NoIdentity, ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _check_who(where: str, identity: Identity, role: Role, cluster_id: str, broker_id: int | None) -> None:
    wanted = role.value if broker_id is None else f"{role.value}/{broker_id}"
    if identity.role is not role or identity.broker_id != broker_id:
        raise ConfigurationError(f"{where}: is of {identity}, one of {wanted} required")
    if cluster_id and identity.cluster_id != cluster_id:
        raise ConfigurationError(f"{where}: is of {identity}, one of cluster {cluster_id} required")


def _check_time(where: str, certificate: x509.Certificate, now_s: float) -> None:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now_s >= ends.timestamp():
        raise ConfigurationError(f"{where}: expired at {ends:%Y-%m-%d %H:%M} UTC; renew it, or set the clock")
    if now_s < begins.timestamp():
        raise ConfigurationError(
            f"{where}: is not valid before {begins:%Y-%m-%d %H:%M} UTC; wait, or set the clock"
        )


def _check_key(where: str, certificate: x509.Certificate) -> None:
    """gRPC brings a TLS of its own, which makes no handshake with keys that OpenSSL takes."""
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigurationError(f"{where}: {_OTHER_KEY}") from None
    if isinstance(key, rsa.RSAPublicKey):
        return
    if not (
        isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1)
    ):
        raise ConfigurationError(f"{where}: {_OTHER_KEY}")


def _check_authority(
    where: str, ca_file: Path, server: ssl.SSLContext, client: ssl.SSLContext, *, serves: bool
) -> None:
    """A handshake with ourselves, in memory: what others who believe the same authorities will find. What does not
    serve may have a certificate for calling alone."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client.check_hostname = False  # for which host it is shows only where it is used
    client.verify_mode = ssl.CERT_REQUIRED if serves else ssl.CERT_NONE
    sides = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    client.verify_mode = ssl.CERT_REQUIRED
    client.check_hostname = True
    try:
        for _ in range(_STEPS_MAX):
            sides = [side for side in sides if not _done(side)]
            if not sides:
                return
    except ssl.SSLError as error:
        said = getattr(error, "verify_message", None) or error.reason or str(error)
        raise ConfigurationError(
            f"{where}: no authority in {ca_file} vouches for it ({said}); a certificate of one of them required"
        ) from None
    raise ConfigurationError(f"{where}: no handshake comes about with it")


def _done(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _issuer_ends_s(chain: list[x509.Certificate], authorities: list[x509.Certificate]) -> float:
    """When the authority expires that issued the last certificate of the chain; of several the one that lasts."""
    issued = [one for one in authorities if one.subject == chain[-1].issuer]
    return max(one.not_valid_after_utc.timestamp() for one in issued or authorities)


def _no_password() -> str:
    """A process starts without a person who types: an encrypted key is refused, and its password not asked for."""
    return ""
