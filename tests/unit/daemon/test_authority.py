"""A cluster's authority: what it makes is accepted by TLS, and neither keys nor earlier files are lost or shown."""

import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from daemon import authority, certificates
from penstock.contract.errors import ConfigurationError, InvalidRequest, PenstockError

NOW = datetime.now(UTC).replace(microsecond=0)
HOSTS = ("broker-1.example.com", "127.0.0.1", "::1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "certificates"
    authority.init(folder, "prod-1", now=NOW)
    return folder


def one(folder: Path, name: str = "broker-1", hosts: tuple[str, ...] = HOSTS) -> authority.Listed:
    return authority.issue(folder, name, hosts=hosts, now=NOW)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("*.pem")}


def handshake(server: Path, client: Path, server_name: str, caller: str = "control-plane") -> None:
    """Mutual TLS between broker 1 of one folder and a caller of another. Raises `SSLError`."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_verify_locations(server / "ca.pem")
    serving.load_cert_chain(server / "broker-1.pem", server / "broker-1-key.pem")
    serving.verify_mode = ssl.CERT_REQUIRED
    calling = ssl.create_default_context(cafile=str(client / "ca.pem"))
    calling.load_cert_chain(client / f"{caller}.pem", client / f"{caller}-key.pem")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        serving.wrap_bio(to_server, to_client, server_side=True),
        calling.wrap_bio(to_client, to_server, server_hostname=server_name),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass


def test_a_ca_lasts_ten_years_and_only_its_owner_reads_the_key(tmp_path: Path) -> None:
    made = authority.init(tmp_path / "a" / "b", "prod-1", now=NOW)
    assert made.certificate.days_left(NOW) == 3_650
    assert made.certificate.uris == ("penstock://prod-1",)
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a" / "b" / "ca-key.pem").stat().st_mode) == 0o600
    ca = certificates.load(made.file)[0]
    constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical and constraints.value.ca and constraints.value.path_length == 0
    assert authority.cluster_id_of(tmp_path / "a" / "b") == "prod-1"


@pytest.mark.parametrize("left", ["ca.pem", "ca-key.pem"])
def test_a_ca_is_never_overwritten(folder: Path, left: str) -> None:
    for file in ("ca.pem", "ca-key.pem"):
        if file != left:
            (folder / file).unlink()
    before = contents(folder)
    with pytest.raises(authority.HasAuthority, match="there is a CA in this folder"):
        authority.init(folder, "prod-1", now=NOW)
    assert contents(folder) == before


USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
)


def usages(certificate: x509.Certificate) -> list[str]:
    """What its key may be used for."""
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    return [name for name in USAGES if getattr(usage, name)]


@pytest.mark.parametrize(
    ("name", "uri", "serves", "calls"),
    [
        ("broker-0", "penstock://prod-1/broker/0", True, True),
        ("broker-999999", "penstock://prod-1/broker/999999", True, True),
        ("control-plane", "penstock://prod-1/control-plane", False, True),
        ("runner", "penstock://prod-1/runner", False, True),
        ("operator", "penstock://prod-1/operator", False, True),
        ("etcd-1", None, True, True),
        ("postgresql", None, True, True),
        ("redis", None, True, True),
    ],
)
def test_a_certificate_says_who_its_holder_is_and_what_they_do(
    folder: Path, name: str, uri: str | None, serves: bool, calls: bool
) -> None:
    made = one(folder, name)
    assert made.certificate.common_name == name
    assert made.certificate.uris == (() if uri is None else (uri,))
    assert made.certificate.hosts == HOSTS
    assert made.certificate.days_left(NOW) == 365
    leaf = certificates.load(folder / f"{name}.pem")[0]
    purposes = set(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    assert (ExtendedKeyUsageOID.SERVER_AUTH in purposes, ExtendedKeyUsageOID.CLIENT_AUTH in purposes) == (
        serves,
        calls,
    )
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert usages(leaf) == ["digital_signature"]
    assert usages(certificates.load(folder / "ca.pem")[0]) == ["key_cert_sign", "crl_sign"]
    assert stat.S_IMODE((folder / f"{name}-key.pem").stat().st_mode) == 0o600
    assert certificates.is_key_of(certificates.load_key(folder / f"{name}-key.pem"), leaf)


@pytest.mark.parametrize("server_name", HOSTS)
def test_tls_accepts_what_was_made_under_each_of_its_names(folder: Path, server_name: str) -> None:
    one(folder)
    one(folder, "control-plane", ())
    handshake(folder, folder, server_name)


def test_tls_refuses_another_name_another_authority_and_a_caller_as_server(
    folder: Path, tmp_path: Path
) -> None:
    one(folder)
    one(folder, "control-plane", ())
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(folder, folder, "broker-2.example.com")
    other = tmp_path / "other"
    authority.init(other, "prod-1", now=NOW)
    one(other)
    one(other, "control-plane", ())
    for server, client in ((folder, other), (other, folder)):
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(server, client, "127.0.0.1")
    for kind in ("", "-key"):
        (folder / f"broker-1{kind}.pem").write_bytes((folder / f"control-plane{kind}.pem").read_bytes())
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        handshake(folder, folder, "127.0.0.1")


@pytest.mark.parametrize(
    "name",
    ["", "broker", "broker-", "broker-01", "broker-1000000", "broker--1", "runner-1", "etcd", "ca", "../x"],
)
def test_a_name_that_is_none_is_refused_with_those_there_are(folder: Path, name: str) -> None:
    before = contents(folder)
    with pytest.raises(InvalidRequest, match="one of broker-<n>, control-plane, runner, operator, etcd-<n>"):
        one(folder, name)
    assert contents(folder) == before


@pytest.mark.parametrize(
    "host",
    ["", "a b", "a..b", "-a", "a-", "1.2.3", "256.0.0.1", "*.example.com", "a" * 64, "ä.example", "a\nb"],
)
def test_a_host_that_is_none_is_refused(folder: Path, host: str) -> None:
    before = contents(folder)
    with pytest.raises(InvalidRequest, match="is no DNS name and no IP address") as refused:
        one(folder, "broker-1", (host,))
    assert "\n" not in refused.value.message
    assert contents(folder) == before


@pytest.mark.parametrize("cluster_id", ["", "a/b", "a..b", ".a", "a b", "a" * 65, "ä", "a\n"])
def test_a_cluster_id_that_cannot_stand_in_a_certificate_is_refused(tmp_path: Path, cluster_id: str) -> None:
    with pytest.raises(InvalidRequest, match="no cluster id"):
        authority.init(tmp_path / "new", cluster_id, now=NOW)
    assert not (tmp_path / "new").exists()


def test_who_is_called_needs_a_name_to_be_called_by(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="etcd-1: no host given"):
        authority.issue(folder, "etcd-1", now=NOW)
    authority.issue(folder, "operator", now=NOW)


def test_a_certificate_is_replaced_only_when_that_is_asked_for(folder: Path) -> None:
    first = one(folder)
    with pytest.raises(authority.Occupied, match=r"broker-1\.pem: is there already"):
        one(folder)
    (folder / "broker-1.pem").unlink()
    with pytest.raises(authority.Occupied, match=r"broker-1-key\.pem: is there already"):
        one(folder)
    second = authority.issue(folder, "broker-1", hosts=("b.example",), now=NOW, replace=True)
    assert second.certificate.serial != first.certificate.serial
    assert second.certificate.hosts == ("b.example",)


def test_no_certificate_outlives_its_ca(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="days: 3651; at most 3650 required, when the CA ends"):
        authority.issue(folder, "operator", now=NOW, days=3_651)
    with pytest.raises(InvalidRequest, match="days: 0; at least 1 required"):
        authority.issue(folder, "operator", now=NOW, days=0)
    one(folder)
    before = contents(folder)
    with pytest.raises(InvalidRequest, match="days: 365; at most 349 required"):
        authority.renew(folder, ["broker-1"], now=NOW + timedelta(days=3_300, hours=12))
    assert contents(folder) == before


def test_a_renewed_certificate_has_the_same_names_and_another_key(folder: Path) -> None:
    authority.issue(folder, "broker-1", hosts=HOSTS, now=NOW, days=40)
    one(folder, "runner", ())
    before = contents(folder)
    later = NOW + timedelta(days=30)
    (made,) = authority.renew(folder, ["broker-1"], now=later)
    assert made.certificate.uris == ("penstock://prod-1/broker/1",)
    assert made.certificate.hosts == HOSTS
    assert made.certificate.days_left(later) == 40
    after = contents(folder)
    assert {name for name in after if after[name] != before[name]} == {"broker-1.pem", "broker-1-key.pem"}
    assert certificates.is_key_of(
        certificates.load_key(folder / "broker-1-key.pem"), certificates.load(folder / "broker-1.pem")[0]
    )
    (longer,) = authority.renew(folder, ["broker-1"], now=later, days=90)
    assert longer.certificate.days_left(later) == 90


def test_renewing_changes_nothing_when_one_name_cannot_be_renewed(folder: Path, tmp_path: Path) -> None:
    one(folder)
    before = contents(folder)
    with pytest.raises(authority.NoSuchCertificate, match=r"runner\.pem: no such certificate"):
        authority.renew(folder, ["broker-1", "runner"], now=NOW)
    other = tmp_path / "other"
    authority.init(other, "prod-1", now=NOW)
    one(other, "runner", ())
    (folder / "runner.pem").write_bytes((other / "runner.pem").read_bytes())
    with pytest.raises(InvalidRequest, match=r"runner\.pem: is not of this authority"):
        authority.renew(folder, ["broker-1", "runner"], now=NOW)
    (folder / "runner.pem").unlink()
    assert contents(folder) == before


def test_what_ends_soon_is_found(folder: Path) -> None:
    authority.issue(folder, "broker-2", hosts=HOSTS, now=NOW, days=20)
    authority.issue(folder, "broker-10", hosts=HOSTS, now=NOW, days=5)
    authority.issue(folder, "runner", now=NOW, days=300)
    assert authority.ending(folder, now=NOW, within_days=30) == ["broker-2", "broker-10"]
    assert authority.ending(folder, now=NOW + timedelta(days=6), within_days=1) == ["broker-10"]
    notes = {seen.name: seen.notes for seen in authority.listed(folder, now=NOW + timedelta(days=6))}
    assert notes == {"ca": (), "broker-2": (), "broker-10": ("has ended",), "runner": ()}
    assert authority.listed(folder, now=NOW + timedelta(days=7))[1].notes == ("ends soon",)
    assert authority.listed(folder, now=NOW - timedelta(hours=2))[1].notes == ("is not valid yet",)


def test_a_ca_is_changed_in_three_steps_and_every_pair_meets_at_each(folder: Path, tmp_path: Path) -> None:
    one(folder)
    one(folder, "control-plane", ())

    def copied(name: str) -> Path:
        copy = tmp_path / name
        copy.mkdir()
        for file, data in contents(folder).items():
            (copy / file).write_bytes(data)
        return copy

    before = copied("before")
    authority.add_ca(folder, now=NOW)
    added = copied("added")
    assert len(certificates.load(folder / "ca.pem")) == 2
    one(folder, "runner", ())
    handshake(before, folder, "127.0.0.1", "runner")  # still signed by the old CA
    renewed = authority.use_new_ca(folder, now=NOW)
    assert [made.name for made in renewed] == ["broker-1", "control-plane", "runner"]
    used = copied("used")
    authority.drop_old_ca(folder)
    dropped = copied("dropped")
    assert len(certificates.load(folder / "ca.pem")) == 1
    steps = [before, added, used, dropped]
    for first, second in pairwise(steps):
        handshake(first, second, "127.0.0.1")
        handshake(second, first, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(dropped, before, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(before, used, "127.0.0.1")


def test_the_steps_of_changing_a_ca_are_taken_in_their_order(folder: Path) -> None:
    one(folder)
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: authority.use_new_ca(folder, now=NOW), "holds one CA; make the new one first"),
        (lambda: authority.drop_old_ca(folder), "there is no old one"),
    ]
    for step, said in wrong:
        with pytest.raises(authority.WrongStep, match=said):
            step()
    authority.add_ca(folder, now=NOW)
    with pytest.raises(authority.WrongStep, match="this change has begun"):
        authority.add_ca(folder, now=NOW)
    with pytest.raises(authority.WrongStep, match="does not sign yet"):
        authority.drop_old_ca(folder)
    notes = [seen.notes for seen in authority.listed(folder, now=NOW)]
    assert notes == [("signs, while both CAs are accepted",), ("does not sign",), ()]


def test_a_change_of_the_ca_that_was_interrupted_goes_on(folder: Path) -> None:
    one(folder)
    one(folder, "runner", ())
    authority.add_ca(folder, now=NOW)
    old, next_key = contents(folder), (folder / "ca-next-key.pem").read_bytes()
    authority.use_new_ca(folder, now=NOW)
    for file in ("broker-1.pem", "broker-1-key.pem"):
        (folder / file).write_bytes(old[file])
    assert authority.listed(folder, now=NOW)[2].notes == ("is of the CA that does not sign",)
    with pytest.raises(authority.WrongStep, match=r"broker-1\.pem: is signed by the old CA; renew it first"):
        authority.drop_old_ca(folder)
    (folder / "ca-next-key.pem").write_bytes(next_key)  # interrupted before it was deleted
    assert [made.name for made in authority.use_new_ca(folder, now=NOW)] == ["broker-1"]
    assert not (folder / "ca-next-key.pem").exists()
    assert len(authority.drop_old_ca(folder)) == 1
    (folder / "ca-next-key.pem").write_bytes(next_key)  # interrupted before the new CA was accepted
    authority.add_ca(folder, now=NOW)
    assert len(authority.use_new_ca(folder, now=NOW)) == 2


def test_what_is_wrong_with_a_folder_is_said(folder: Path) -> None:
    one(folder)
    one(folder, "runner", ())
    (folder / "broker-1-key.pem").write_bytes((folder / "runner-key.pem").read_bytes())
    (folder / "runner-key.pem").chmod(0o640)
    (folder / "ca-key.pem").chmod(0o604)
    assert [seen.notes for seen in authority.listed(folder, now=NOW)] == [
        ("others may read ca-key.pem: chmod 600",),
        ("broker-1-key.pem is of another certificate",),
        ("others may read runner-key.pem: chmod 600",),
    ]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "ca.pem").unlink(), "no such file; there is no CA in this folder"),
        (lambda folder: (folder / "ca-key.pem").unlink(), "certificates are made where the CA's key is"),
        (lambda folder: (folder / "ca.pem").write_text("x"), "holds no certificate in PEM"),
        (lambda folder: (folder / "ca-key.pem").write_text("x"), "holds no private key in PEM"),
        (
            lambda folder: (folder / "ca-key.pem").write_bytes((folder / "broker-1-key.pem").read_bytes()),
            "is the key of no CA in",
        ),
    ],
)
def test_nothing_is_made_with_a_ca_that_is_not_whole(
    folder: Path, damage: Callable[[Path], object], said: str
) -> None:
    one(folder)
    damage(folder)
    before = contents(folder)
    with pytest.raises(PenstockError, match=said) as refused:
        authority.renew(folder, ["broker-1"], now=NOW)
    assert "\n" not in refused.value.message
    assert contents(folder) == before


def test_a_ca_of_another_maker_is_no_authority_here(folder: Path) -> None:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    ca = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW + timedelta(days=9))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "ca.pem").write_bytes(ca.public_bytes(Encoding.PEM))
    (folder / "ca-key.pem").write_bytes(pem)
    with pytest.raises(ConfigurationError, match="is not a CA that `penstock cluster certificates` made"):
        authority.issue(folder, "operator", now=NOW)
