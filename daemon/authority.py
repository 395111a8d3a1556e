"""A cluster's own certificate authority: a folder with its CA, and a certificate for each of its processes.

ca.pem            what the processes of the cluster accept: the CA, and a second one while the CA is changed
ca-key.pem        signs; only the machine that issues certificates needs it
ca-next-key.pem   of the second CA, until that one signs
<name>.pem        a certificate, <name> as in `Name`
<name>-key.pem    its private key, which others than the owner never can read
.lock             held while a command changes something

    one CA --add_ca--> old signs, both accepted --use_new_ca--> new signs, both accepted --drop_old_ca--> one CA

The CA that signs is the one whose key is `ca-key.pem`: exchanging that one file changes it, so whatever is interrupted
is repeated with the same call. Files are replaced as a whole; a key is written before its certificate.
"""

import fcntl
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from daemon import certificates, signing
from daemon.certificates import Certificate, described
from daemon.signing import BACKDATED, ROLES, Ca, Name, new_ca, new_leaf, signed_by
from penstock.contract.errors import (
    AlreadyExists,
    ConfigurationError,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
)
from penstock.private_file import write_private

CA_DAYS = 3_650
LEAF_DAYS = 365
SOON_DAYS = 14
"""A certificate that ends within this time is noted as such."""


class NoAuthority(NotFound):
    """The folder has no CA."""

    remedy = "Make one with `penstock cluster certificates init`, or name its folder with --folder."


class NoSuchCertificate(NotFound):
    """The folder has no certificate of that name."""

    remedy = "`penstock cluster certificates show` lists them; `issue` makes one."


class Occupied(AlreadyExists):
    """A file would be overwritten."""

    remedy = "Renew it with `penstock cluster certificates renew`, or issue it with --replace."


class HasAuthority(AlreadyExists):
    """A CA would be overwritten."""

    remedy = (
        "Change it with `penstock cluster certificates renew --ca add`, or name another folder with --folder."
    )


class WrongStep(PreconditionFailed):
    """The change of a CA is at another step."""

    remedy = "The steps are `penstock cluster certificates renew` with --ca add, --ca use, --ca drop."


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A certificate of the folder, and what to know of it at the time of asking: what is wrong, mostly."""

    name: str
    role: str
    certificate: Certificate
    file: Path
    notes: tuple[str, ...] = ()


def init(folder: Path, cluster_id: str, *, now: datetime, days: int = CA_DAYS) -> Listed:
    """Make the folder and a CA in it. Raises `HasAuthority`, `InvalidRequest`."""
    ca = new_ca(cluster_id, now, days)
    with _files(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _changing(folder):
        for file in (_ca_file(folder), _ca_key_file(folder)):
            if file.exists():
                raise HasAuthority(f"{file}: there is a CA in this folder")
        write_private(_ca_key_file(folder), _pem_of_key(ca.key))
        write_private(_ca_file(folder), _pem_of([ca.certificate]))
    return _listed_ca(folder, ca.certificate)


def issue(
    folder: Path,
    name: str,
    *,
    hosts: Sequence[str] = (),
    now: datetime,
    days: int = LEAF_DAYS,
    replace: bool = False,
) -> Listed:
    """Make a key and a certificate with these DNS names and IP addresses, signed by the folder's CA.

    Raises `Occupied` unless they may be replaced; `NoAuthority`, `InvalidRequest`.
    """
    who = Name.parse(name)
    if ROLES[who.role].serves and not hosts:
        raise InvalidRequest(f"{name}: no host given; those who call it check its DNS name or IP address")
    with _changing(folder):
        ca, _ = _cas(folder)
        for file in (_file(folder, name), _key_file(folder, name)):
            if file.exists() and not replace:
                raise Occupied(f"{file}: is there already")
        return _write_leaf(folder, ca, who, hosts, now, days)


def renew(folder: Path, names: Iterable[str], *, now: datetime, days: int | None = None) -> list[Listed]:
    """Make a new key and certificate with the same hosts for each name; `days` None = as many as it had.

    Nothing is changed when one of them cannot be renewed. Raises `NoSuchCertificate`, `InvalidRequest`.
    """
    with _changing(folder):
        ca, others = _cas(folder)
        return _renew(folder, ca, others, list(dict.fromkeys(names)), now, days)


def names_of(folder: Path) -> list[str]:
    """The certificates of the folder, without the CA's, sorted by role and number. Raises `NoAuthority`."""
    _accepted(folder)
    found = []
    for file in folder.glob("*.pem"):
        try:
            found.append(Name.parse(file.stem))
        except InvalidRequest:
            continue  # a key, a CA or a file of the user's
    order = list(ROLES)
    found.sort(key=lambda name: (order.index(name.role), name.number or 0))
    return [str(name) for name in found]


def ending(folder: Path, *, now: datetime, within_days: int) -> list[str]:
    """The names whose certificates end within that time, or have ended."""
    soon = now + timedelta(days=within_days)
    return [
        name
        for name in names_of(folder)
        if certificates.load(_file(folder, name))[0].not_valid_after_utc <= soon
    ]


def add_ca(folder: Path, *, now: datetime, days: int = CA_DAYS) -> Listed:
    """First step of changing the CA: a second one is accepted, and the old one signs. Raises `WrongStep`."""
    with _changing(folder):
        ca, others = _cas(folder)
        if others:
            raise WrongStep(f"{_ca_file(folder)}: holds {1 + len(others)} CAs; this change has begun")
        new = new_ca(ca.cluster_id, now, days)
        write_private(_next_key_file(folder), _pem_of_key(new.key))
        write_private(_ca_file(folder), _pem_of([ca.certificate, new.certificate]))
    return _listed_ca(folder, new.certificate)


def use_new_ca(folder: Path, *, now: datetime, days: int | None = None) -> list[Listed]:
    """Second step, once every process accepts both CAs: the new one signs, and all certificates are renewed.

    Repeating it goes on where it was interrupted. Raises `WrongStep`.
    """
    with _changing(folder):
        next_key = _next_key_file(folder)
        ca, others = _cas(folder)
        if next_key.exists():
            key = certificates.load_key(next_key)
            if not any(certificates.is_key_of(key, one) for one in (ca.certificate, *others)):
                raise ConfigurationError(f"{next_key}: is the key of no CA in {_ca_file(folder)}; delete it")
            write_private(_ca_key_file(folder), next_key.read_text(encoding="ascii"))
            next_key.unlink()
            ca, others = _cas(folder)
        elif not others:
            raise WrongStep(f"{_ca_file(folder)}: holds one CA; make the new one first")
        left = [name for name in names_of(folder) if not ca.signed(_leaf(folder, name))]
        return _renew(folder, ca, others, left, now, days)


def drop_old_ca(folder: Path) -> list[Certificate]:
    """Last step, once every process has its new certificate: only the CA that signs is accepted. Returns what was
    dropped. Raises `WrongStep` while a certificate here needs it.
    """
    with _changing(folder):
        ca, others = _cas(folder)
        if not others:
            raise WrongStep(f"{_ca_file(folder)}: holds one CA; there is no old one")
        if _next_key_file(folder).exists():
            raise WrongStep(f"{_ca_file(folder)}: the new CA does not sign yet; use it first")
        for name in names_of(folder):
            if not ca.signed(_leaf(folder, name)):
                raise WrongStep(f"{_file(folder, name)}: is signed by the old CA; renew it first")
        write_private(_ca_file(folder), _pem_of([ca.certificate]))
        return [described(one) for one in others]


def listed(folder: Path, *, now: datetime) -> list[Listed]:
    """The CAs, then the certificates, with what is wrong with each. Raises `NoAuthority`."""
    cas = _accepted(folder)
    key_file = _ca_key_file(folder)
    key = certificates.load_key(key_file) if key_file.exists() else None
    of_key = [ca for ca in cas if key is not None and certificates.is_key_of(key, ca)]
    found = []
    for ca in cas:
        state = [] if key is None or of_key else [f"{key_file.name} is of another CA"]
        own_key = _next_key_file(folder) if of_key and ca not in of_key else key_file
        if len(cas) > 1 and of_key:
            state = ["signs, while both CAs are accepted" if ca in of_key else "does not sign"]
        found.append(_listed_ca(folder, ca, *_validity(described(ca), now), *state, *_exposed(own_key)))
    for name in names_of(folder):
        leaf = _leaf(folder, name)
        facts = described(leaf)
        notes = (*_validity(facts, now), *_key_notes(_key_file(folder, name), leaf))
        if not any(signed_by(ca, leaf) for ca in cas):
            notes += ("is not of this authority",)
        elif of_key and not any(signed_by(ca, leaf) for ca in of_key):
            notes += ("is of the CA that does not sign",)
        role = Name.parse(name).role
        found.append(
            Listed(name=name, role=role, certificate=facts, file=_file(folder, name), notes=tuple(notes))
        )
    return found


def cluster_id_of(folder: Path) -> str:
    """The cluster that the folder's CA is for. Raises `NoAuthority`."""
    return _cluster_id(_accepted(folder)[0], _ca_file(folder))


def _accepted(folder: Path) -> list[x509.Certificate]:
    """The CAs of the folder. Raises `NoAuthority`."""
    if not _ca_file(folder).exists():
        raise NoAuthority(f"{_ca_file(folder)}: no such file; there is no CA in this folder")
    return certificates.load(_ca_file(folder))


def _cas(folder: Path) -> tuple[Ca, list[x509.Certificate]]:
    """The CA that signs, and the others that are accepted. Raises `NoAuthority`, `ConfigurationError`."""
    cas, file = _accepted(folder), _ca_key_file(folder)
    if not file.exists():
        raise NoAuthority(f"{file}: no such file; certificates are made where the CA's key is")
    key = certificates.load_key(file)
    of_key = next((ca for ca in cas if certificates.is_key_of(key, ca)), None)
    if of_key is None or not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigurationError(f"{file}: is the key of no CA in {_ca_file(folder)}")
    _cluster_id(of_key, _ca_file(folder))
    return Ca(certificate=of_key, key=key), [ca for ca in cas if ca is not of_key]


def _listed_ca(folder: Path, ca: x509.Certificate, *notes: str) -> Listed:
    return Listed(name="ca", role="ca", certificate=described(ca), file=_ca_file(folder), notes=notes)


def _renew(
    folder: Path,
    ca: Ca,
    others: Sequence[x509.Certificate],
    names: Sequence[str],
    now: datetime,
    days: int | None,
) -> list[Listed]:
    wanted: list[tuple[Name, tuple[str, ...], int]] = []
    for name in names:
        who = Name.parse(name)
        if not _file(folder, name).exists():
            raise NoSuchCertificate(f"{_file(folder, name)}: no such certificate")
        leaf = _leaf(folder, name)
        if not any(signed_by(one, leaf) for one in (ca.certificate, *others)):
            raise InvalidRequest(f"{_file(folder, name)}: is not of this authority; issue it with --replace")
        facts = described(leaf)
        lasted = facts.not_after - facts.not_before - BACKDATED
        wanted.append((who, facts.hosts, days if days is not None else max(1, lasted.days)))
        _check_days(ca, now, wanted[-1][2])
    return [_write_leaf(folder, ca, who, hosts, now, length) for who, hosts, length in wanted]


def _write_leaf(folder: Path, ca: Ca, who: Name, hosts: Sequence[str], now: datetime, days: int) -> Listed:
    _check_days(ca, now, days)
    key, leaf = new_leaf(ca, who, hosts, now, days)
    write_private(_key_file(folder, str(who)), _pem_of_key(key))
    file = _file(folder, str(who))
    write_private(file, _pem_of([leaf]))
    return Listed(name=str(who), role=who.role, certificate=described(leaf), file=file)


def _check_days(ca: Ca, now: datetime, days: int) -> None:
    if days < 1:
        raise InvalidRequest(f"days: {days}; at least 1 required")
    left = described(ca.certificate).days_left(now)
    if days > left:
        raise InvalidRequest(
            f"days: {days}; at most {max(left, 0)} required, when the CA ends: ask for fewer or change the CA first"
        )


def _cluster_id(ca: x509.Certificate, file: Path) -> str:
    try:
        return signing.cluster_id_of(ca)
    except ValueError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def _validity(facts: Certificate, now: datetime) -> list[str]:
    if facts.left(now) <= timedelta(0):
        return ["has ended"]
    if now < facts.not_before:
        return ["is not valid yet"]
    return ["ends soon"] if facts.left(now) < timedelta(days=SOON_DAYS) else []


def _key_notes(file: Path, leaf: x509.Certificate) -> list[str]:
    """A key that is not here is no problem: it may be where it is used alone."""
    if not file.exists():
        return []
    if not certificates.is_key_of(certificates.load_key(file), leaf):
        return [f"{file.name} is of another certificate"]
    return _exposed(file)


def _exposed(file: Path) -> list[str]:
    if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077:
        return [f"others may read {file.name}: chmod 600"]
    return []


@contextmanager
def _changing(folder: Path) -> Iterator[None]:
    """Holds the folder against other commands. Raises `NoAuthority`, `ConfigurationError` (not writable)."""
    if not folder.is_dir():
        raise NoAuthority(f"{folder}: no such folder")
    with _files(folder), (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _files(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"{error.filename or folder}: {error.strerror}") from None


def _leaf(folder: Path, name: str) -> x509.Certificate:
    return certificates.load(_file(folder, name))[0]


def _ca_file(folder: Path) -> Path:
    return folder / "ca.pem"


def _ca_key_file(folder: Path) -> Path:
    return folder / "ca-key.pem"


def _next_key_file(folder: Path) -> Path:
    return folder / "ca-next-key.pem"


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.pem"


def _key_file(folder: Path, name: str) -> Path:
    return folder / f"{name}-key.pem"


def _pem_of(chain: Sequence[x509.Certificate]) -> str:
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in chain).decode("ascii")


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode("ascii")
