"""The files of an identity: refused with what is wrong with them, and taken up again when they have changed."""

import os
import shutil
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtensionOID, NameOID

from daemon.identity import Role
from daemon.tls import IdentityConfig, OwnIdentity, read_credentials
from penstock.contract.errors import ConfigurationError
from tests.certificates import authority, own, write

NOW_S = 1_800_000_000.0
_ALTERNATIVE_NAME_X400 = x509.UnrecognizedExtension(
    ExtensionOID.SUBJECT_ALTERNATIVE_NAME, bytes.fromhex("3004a3023000")
)


def read(files: IdentityConfig, *, cluster_id: str = "c1", broker_id: int = 1) -> None:
    read_credentials(files, Role.BROKER, cluster_id=cluster_id, broker_id=broker_id, now_s=_file_time(files))


def _file_time(files: IdentityConfig) -> float:
    return max(files.ca_file.stat().st_mtime, 1.0) if files.ca_file.exists() else NOW_S


def test_good_files_are_read(tmp_path: Path) -> None:
    found = own(write(tmp_path, "broker-1"), "broker-1").current
    assert found.identity.uri == "penstock://c1/broker/1"
    assert "PRIVATE" not in repr(found)


BROKEN: dict[str, tuple[Callable[[Path], IdentityConfig], str]] = {
    "of another broker": (
        lambda folder: write(folder, "broker-2"),
        "is of penstock://c1/broker/2, one of broker/1 required",
    ),
    "of another role": (
        lambda folder: write(folder, "operator"),
        "is of penstock://c1/operator, one of broker/1 required",
    ),
    "of another cluster": (
        lambda folder: write(folder, "broker-1", ca=authority("c2")),
        "is of penstock://c2/broker/1, one of cluster c1 required",
    ),
    "of an authority that is not believed": (
        lambda folder: write(folder, "broker-1", believed=[authority(name="other")]),
        "no authority in {folder}/ca.pem vouches for it",
    ),
    "expired": (
        lambda folder: write(folder, "broker-1", begins_in=timedelta(days=-5)),
        "expired at ",
    ),
    "not yet valid": (
        lambda folder: write(folder, "broker-1", begins_in=timedelta(days=5)),
        "is not valid before ",
    ),
    "no identity": (
        lambda folder: write(folder, "etcd-1"),
        "the certificate names no penstock://... among its subject alternative names",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_certificate_that_does_not_do_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    make, says = BROKEN[case]
    files = make(tmp_path)
    with pytest.raises(ConfigurationError) as refused:
        read(files)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"identity.certificate_file: {files.certificate_file}: ")
    assert says.format(folder=tmp_path) in line


def test_a_key_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    files = write(tmp_path, "broker-1")
    shutil.copy(write(tmp_path / "other", "broker-1").key_file, files.key_file)
    with pytest.raises(ConfigurationError, match=r"identity\.key_file: .*does not fit .*KEY_VALUES_MISMATCH"):
        read(files)


@pytest.mark.parametrize("name", ["ca_file", "certificate_file", "key_file"])
def test_a_file_that_is_not_there_or_holds_something_else_is_named(tmp_path: Path, name: str) -> None:
    files = write(tmp_path, "broker-1")
    file: Path = getattr(files, name)
    file.write_bytes(b"\xff no PEM \x00")
    with pytest.raises(ConfigurationError, match=f"identity.{name}: {file}: "):
        read(files)
    file.unlink()
    with pytest.raises(ConfigurationError, match=f"identity.{name}: {file}: No such file"):
        read(files)


def test_a_ca_file_that_was_written_half_is_named(tmp_path: Path) -> None:
    files = write(tmp_path, "broker-1")
    whole = files.ca_file.read_bytes()
    for said in (whole[:200], whole + whole[:200], whole + _of_version_7(whole)):
        files.ca_file.write_bytes(said)
        with pytest.raises(
            ConfigurationError, match=f"identity.ca_file: {files.ca_file}: holds no certificate"
        ):
            read(files)


def _of_version_7(pem: bytes) -> bytes:
    der = ssl.PEM_cert_to_DER_cert(pem.decode())
    version = bytes.fromhex("a003020102")
    assert der.count(version) == 1
    return ssl.DER_cert_to_PEM_cert(der.replace(version, bytes.fromhex("a003020107"))).encode()


def test_a_ca_file_may_say_more_in_any_language(tmp_path: Path) -> None:
    files = write(tmp_path, "broker-1")
    files.ca_file.write_bytes("# Autorité de Zürich\n".encode() + files.ca_file.read_bytes())
    read(files)


def test_alternative_names_that_cannot_be_read_are_refused_and_end_no_process(tmp_path: Path) -> None:
    found = own(write(tmp_path, "broker-1"), "broker-1")
    before = found.current
    _issue(tmp_path / "broker-1.pem", ec.generate_private_key(ec.SECP256R1()), _ALTERNATIVE_NAME_X400)
    assert not found.look() and found.current is before
    assert "x400Address" in found.fault


@pytest.mark.parametrize(
    "make", [lambda: ec.generate_private_key(ec.SECP521R1()), Ed25519PrivateKey.generate]
)
def test_a_key_with_which_grpc_makes_no_handshake_is_refused(
    tmp_path: Path, make: Callable[[], ec.EllipticCurvePrivateKey | Ed25519PrivateKey]
) -> None:
    files = write(tmp_path, "broker-1")
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier("penstock://c1/broker/1")])
    key = make()
    _issue(files.certificate_file, key, names)
    files.key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    with pytest.raises(ConfigurationError, match="does not take; RSA, P-256 or P-384 required"):
        read(files)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ec.generate_private_key(ec.SECP256R1()),
        lambda: ec.generate_private_key(ec.SECP384R1()),
        lambda: rsa.generate_private_key(65_537, 2_048),
    ],
    ids=["P-256", "P-384", "RSA"],
)
def test_a_key_with_which_grpc_makes_a_handshake_is_taken(
    tmp_path: Path, make: Callable[[], ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey]
) -> None:
    files = write(tmp_path, "broker-1")
    uri, key = x509.UniformResourceIdentifier("penstock://c1/broker/1"), make()
    _issue(files.certificate_file, key, x509.SubjectAlternativeName([uri]))
    files.key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    read(files)


def _issue(
    file: Path,
    key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey | rsa.RSAPrivateKey,
    names: x509.ExtensionType,
) -> None:
    ca, now = authority(), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker-1")])
    certificate = (
        x509.CertificateBuilder(ca.certificate.subject, subject, key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(ca.key, hashes.SHA256())
    )
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def test_files_that_change_are_taken_up(tmp_path: Path) -> None:
    found = own(write(tmp_path, "broker-1"), "broker-1")
    before = found.current
    assert not found.look() and found.current is before
    write(tmp_path, "broker-1")
    assert found.look()
    assert found.current.certificate != before.certificate
    assert not found.look()


@pytest.mark.parametrize("name", ["ca_file", "certificate_file", "key_file"])
def test_each_file_that_changes_alone_is_taken_up(tmp_path: Path, name: str) -> None:
    """Authorities are changed by the first alone, a certificate for the same key by the second; a key may be written in
    another form."""
    files = write(tmp_path, "broker-1", believed=[authority(), authority(name="former")])
    identity = own(files, "broker-1")
    before = identity.current
    if name == "ca_file":
        files.ca_file.write_bytes(authority().certificate.public_bytes(serialization.Encoding.PEM))
    elif name == "certificate_file":
        files.certificate_file.write_bytes(b"A renewal would stand here.\n" + before.certificate)
    else:
        key = serialization.load_pem_private_key(before.key, None)
        files.key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
    assert identity.look() and identity.fault == ""
    content = {
        "ca_file": identity.current.ca,
        "certificate_file": identity.current.certificate,
        "key_file": identity.current.key,
    }
    assert content[name] == getattr(files, name).read_bytes()
    assert not identity.look()


@pytest.mark.parametrize("sign", ["another file of the same size and time", "a longer one at the same time"])
def test_each_sign_of_a_change_counts_alone(tmp_path: Path, sign: str) -> None:
    """A file that is put in place of another may carry its time; one that is written over keeps its number."""
    files = write(tmp_path, "broker-1")
    identity = own(files, "broker-1")
    stat = files.certificate_file.stat()
    if sign.startswith("another"):
        changed = files.certificate_file.with_suffix(".new")
        changed.write_bytes(identity.current.certificate[:-1] + b" ")
        changed.replace(files.certificate_file)
    else:
        with files.certificate_file.open("ab") as certificate:
            certificate.write(b"A comment.\n")
    os.utime(files.certificate_file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert identity.look()
    assert identity.current.certificate == files.certificate_file.read_bytes()


def test_a_file_that_is_only_written_again_changes_nothing(tmp_path: Path) -> None:
    files = write(tmp_path, "broker-1")
    found = own(files, "broker-1")
    before = found.current
    files.key_file.write_bytes(files.key_file.read_bytes())
    os.utime(files.key_file, (1, 1))
    assert not found.look() and found.current is before


def test_half_a_renewal_is_waited_out_and_told(tmp_path: Path) -> None:
    files = write(tmp_path, "broker-1")
    found = own(files, "broker-1")
    before = found.current
    new = write(tmp_path / "new", "broker-1")
    shutil.copy(new.key_file, files.key_file)
    assert not found.look() and found.current is before
    assert "does not fit" in found.fault
    assert "what was read before is still used" in found.warnings()["identity files"]
    shutil.copy(new.certificate_file, files.certificate_file)
    assert found.look() and found.current.certificate == new.certificate_file.read_bytes()
    assert found.fault == "" and "identity files" not in found.warnings()


def test_files_that_change_while_they_are_read_are_left_for_the_next_look(tmp_path: Path) -> None:
    """What was read then may be of two renewals, and a change after it was read would never be seen."""
    files = write(tmp_path, "broker-1")
    now_s, changes = files.ca_file.stat().st_mtime, 0

    def clock() -> float:
        """It is asked between the look at the files and their reading."""
        nonlocal changes
        if changes:
            changes -= 1
            write(tmp_path, "broker-1")
        return now_s

    found = OwnIdentity(files, Role.BROKER, broker_id=1, clock=clock)
    before = found.current
    write(tmp_path, "broker-1")
    changes = 1
    assert not found.look() and found.current is before and found.fault == ""
    assert found.look()
    assert found.current.certificate == files.certificate_file.read_bytes()


def test_a_certificate_that_is_not_valid_yet_is_taken_up_once_it_is(tmp_path: Path) -> None:
    files = write(tmp_path, "broker-1", begins_in=timedelta(days=-3), days=5)
    now_s = files.ca_file.stat().st_mtime
    clock = [now_s - timedelta(days=2).total_seconds()]
    found = OwnIdentity(files, Role.BROKER, broker_id=1, clock=lambda: clock[0])
    before = found.current
    write(tmp_path, "broker-1")
    assert not found.look() and found.current is before
    assert "is not valid before" in found.fault
    clock[0] = now_s
    assert found.look() and found.current is not before
    assert found.fault == ""


def test_what_expires_soon_is_something_to_look_at(tmp_path: Path) -> None:
    files = write(tmp_path, "broker-1", days=20)
    clock = [files.ca_file.stat().st_mtime]
    found = OwnIdentity(files, Role.BROKER, broker_id=1, clock=lambda: clock[0])
    assert found.warnings() == {}
    assert found.ends_s()["identity.certificate_file"] == pytest.approx(20 * 86_400, abs=3_600)
    assert found.ends_s()["identity.ca_file"] > 1_000 * 86_400
    clock[0] += 7 * 86_400
    assert found.warnings() == {
        "certificate expires": f"the certificate in {files.certificate_file} expires in 13 days; put a new one there"
    }
    clock[0] += 14 * 86_400
    assert found.warnings()["certificate expires"].endswith("has expired; put a new one there")
    assert found.ends_s()["identity.certificate_file"] < 0


def test_a_bundle_of_two_authorities_expires_with_the_one_that_issued(tmp_path: Path) -> None:
    old, new = authority(name="old"), authority(name="new")
    files = write(tmp_path, "broker-1", ca=new, believed=[old, new])
    found = own(files, "broker-1").current
    assert found.ends_s["identity.ca_file"] == new.certificate.not_valid_after_utc.timestamp()
