"""The broker's configuration: every setting documented, every wrong value refused by name."""

import json
import math
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from daemon import pepper_folder
from daemon.identity_metrics import CertificateFiles
from data_plane.authz.peppers import READ_AGAIN_MS, Peppers
from data_plane.broker.config import BrokerConfig, read_config, reader_of
from data_plane.broker.metadata_config import EtcdMetadata
from penstock.contract.errors import ConfigurationError
from tests.certificates import settings, write


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    """A complete configuration, with the secret files that it names."""
    (tmp_path / "pepper").write_text("ab" * 32 + "\n")
    return {
        "broker_id": 1,
        "cluster_id": "c1",
        "data": str(tmp_path / "data"),
        "metadata": str(tmp_path / "metadata.db"),
        "identity": settings(write(tmp_path / "identity", "broker-1")),
        "pepper_files": {"1": str(tmp_path / "pepper")},
    }


def read(tmp_path: Path, values: Any, **environment: str) -> BrokerConfig:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(values))
    return read_config(file, environment)


def make_certificate(directory: Path, *, password: str = "") -> tuple[Path, Path]:
    """A self-signed certificate for the loopback address and its key."""
    certificate, key = directory / "cert.pem", directory / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    command += ["-passout", f"pass:{password}"] if password else ["-nodes"]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def test_what_is_not_given_has_its_default(tmp_path: Path, values: dict[str, Any]) -> None:
    config = read(tmp_path, values)
    assert config.client_listen == "127.0.0.1:0"
    assert config.tls() is None
    node = config.node_config("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
    assert (node.client_address, node.internal_address, node.peer_address, node.zone) == (
        *("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"),
        "1",
    )
    assert config.own_identity().current.identity.uri == "penstock://c1/broker/1"
    assert node.peppers == {1: b"\xab" * 32}


def test_the_node_gets_what_was_configured(tmp_path: Path, values: dict[str, Any]) -> None:
    values |= {
        "client_advertised": "broker-1.example:7400",
        "internal_advertised": "10.0.0.1:7401",
        "peer_advertised": "10.0.0.1:7402",
        "zone": "a",
        "timings": {"session_ttl_ms": 9_000},
        "limits": {"journal_bytes": 1_000_000},
    }
    node = read(tmp_path, values).node_config("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
    assert (node.client_address, node.internal_address, node.peer_address, node.zone) == (
        "broker-1.example:7400",
        "10.0.0.1:7401",
        "10.0.0.1:7402",
        "a",
    )
    assert node.timings.session_ttl_ms == 9_000
    assert node.journal_bytes == 1_000_000


@pytest.mark.parametrize(
    ("given", "zone", "host"),
    [
        ({}, "1", ""),
        ({"host": "rack-7"}, "rack-7", "rack-7"),
        ({"zone": "east"}, "east", ""),
        ({"zone": "east", "host": "rack-7"}, "east", "rack-7"),
    ],
)
def test_a_host_without_a_zone_is_one_and_a_broker_without_a_host_has_its_own(
    tmp_path: Path, values: dict[str, Any], given: dict[str, str], zone: str, host: str
) -> None:
    node = read(tmp_path, values | given).node_config("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
    assert (node.zone, node.host) == (zone, host)


@pytest.mark.parametrize("setting", ["zone", "host"])
@pytest.mark.parametrize("name", ["east ", " ", "a\nb", "x" * 65])
def test_a_zone_or_host_that_no_reader_can_tell_from_another_is_refused(
    tmp_path: Path, values: dict[str, Any], setting: str, name: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{setting}: .*printable characters without spaces"):
        read(tmp_path, values | {setting: name})


def test_the_environment_stands_above_the_file(tmp_path: Path, values: dict[str, Any]) -> None:
    config = read(
        tmp_path,
        values | {"zone": "a"},
        PENSTOCK_BROKER_BROKER_ID="7",
        PENSTOCK_BROKER_ZONE="b",
        PENSTOCK_BROKER_TIMINGS='{"drain_ms": 5}',
        PENSTOCK_BROKER_DATA="/elsewhere",
        OTHER="x",
    )
    assert (config.broker_id, config.zone, config.timings, config.data) == (
        7,
        "b",
        {"drain_ms": 5},
        Path("/elsewhere"),
    )


def test_a_setting_may_come_from_the_environment_alone(tmp_path: Path, values: dict[str, Any]) -> None:
    cluster = values.pop("cluster_id")
    assert read(tmp_path, values, PENSTOCK_BROKER_CLUSTER_ID=cluster).cluster_id == cluster


def test_the_metadata_store_may_be_an_etcd_from_file_and_environment(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    etcd = {"kind": "etcd", "endpoints": ["localhost:2379", "127.0.0.1:2380"], "namespace": "eu-1"}
    expected = EtcdMetadata(endpoints=("localhost:2379", "127.0.0.1:2380"), namespace="eu-1")
    assert read(tmp_path, values | {"metadata": etcd}).metadata == expected
    assert read(tmp_path, values, PENSTOCK_BROKER_METADATA=json.dumps(etcd)).metadata == expected
    assert read(tmp_path, values, PENSTOCK_BROKER_METADATA="/m.db").metadata == "/m.db"


def test_the_certificate_files_for_etcd_have_their_time_left(tmp_path: Path, values: dict[str, Any]) -> None:
    files = write(tmp_path / "etcd", "broker-1", days=9)
    etcd = {"kind": "etcd", "endpoints": ["localhost:2379"], **settings(files)}
    found = CertificateFiles(read(tmp_path, values | {"metadata": etcd}).certificate_files())
    day_s, ends_s = 86_400, found.ends_s()
    assert sorted(ends_s) == ["metadata.ca_file", "metadata.certificate_file"]
    assert 8 * day_s < ends_s["metadata.certificate_file"] <= 9 * day_s
    assert ends_s["metadata.ca_file"] > 300 * day_s
    write(tmp_path / "etcd", "broker-1", days=99)
    files.ca_file.write_text("no certificate")
    found.look()
    assert found.ends_s()["metadata.certificate_file"] > 98 * day_s
    assert math.isnan(found.ends_s()["metadata.ca_file"])
    assert CertificateFiles(read(tmp_path, values).certificate_files()).ends_s() == {}


def test_the_configuration_cannot_be_changed(tmp_path: Path, values: dict[str, Any]) -> None:
    with pytest.raises(AttributeError):
        read(tmp_path, values).zone = "b"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"broker_id": -1}, "broker_id: 0 to 999999 required, -1 given"),
        ({"broker_id": 1_000_000}, "broker_id: 0 to 999999 required, 1000000 given"),
        ({"broker_id": "1"}, "broker_id: a whole number required, text given"),
        ({"broker_id": True}, "broker_id: a whole number required, true or false given"),
        ({"cluster_id": ""}, "cluster_id: is empty"),
        ({"cluster_id": 5}, "cluster_id: text required, a whole number given"),
        ({"data": None}, "data: the name of a file or folder required, null given"),
        ({"data": ""}, "data: the name of a file or folder required, nothing given"),
        ({"metadata": 7}, "metadata: text or an object required, a whole number given"),
        ({"metadata": {"kind": "zoo"}}, "metadata.kind: 'etcd' required, 'zoo' given"),
        ({"metadata": {"kind": "etcd"}}, "metadata.endpoints: missing"),
        ({"metadata": {"kind": "etcd", "endpoints": []}}, "metadata.endpoints: none given"),
        (
            {"metadata": {"kind": "etcd", "endpoints": ["a"]}},
            "metadata.endpoints: host:port required, 'a' given",
        ),
        (
            {"metadata": {"kind": "etcd", "endpoints": ["10.0.0.1:2379"], "ca_file": "/ca"}},
            "metadata.endpoints: 10.0.0.1 is not a loopback address; the metadata crosses no network in plain text",
        ),
        (
            {"metadata": {"kind": "etcd", "endpoints": ["localhost:1"], "namespace": "a/b"}},
            "metadata.namespace: a name of letters",
        ),
        (
            {"metadata": {"kind": "etcd", "endpoints": ["localhost:1"], "key_file": "/k"}},
            "metadata.certificate_file: missing; give both",
        ),
        (
            {"metadata": {"kind": "etcd", "endpoints": ["localhost:1"], "password": "x"}},
            "metadata.password: no such setting; known: ca_file, call_ms, certificate_file, endpoints, key_file, kind, "
            "namespace",
        ),
        ({"client_listen": "localhost"}, "client_listen: host:port required, 'localhost' given"),
        ({"client_listen": "127.0.0.1:70000"}, "client_listen: host:port required, '127.0.0.1:70000' given"),
        ({"http_listen": "127.0.0.1:http"}, "http_listen: host:port required, '127.0.0.1:http' given"),
        ({"http_listen": "127.0.0.1:²"}, "http_listen: host:port required"),
        ({"client_advertised": "here"}, "client_advertised: host:port required, 'here' given"),
        (
            {"client_listen": "0.0.0.0:7400"},
            "client_listen: 0.0.0.0 is not a loopback address; API keys need TLS",
        ),
        ({"client_listen": "broker.example:7400"}, "API keys need TLS there: give tls_certificate_file"),
        ({"client_listen": "[::]:7400"}, "client_listen: :: is not a loopback address"),
        (
            {"internal_listen": "0.0.0.0:7401"},
            "internal_listen: 0.0.0.0 is no address that Admin calls can use",
        ),
        ({"peer_listen": "[::]:7402"}, "peer_listen: :: is no address that other brokers can use"),
        ({"identity": {"ca_file": "/ca.pem"}}, "identity.certificate_file: missing; give it a value"),
        ({"cluster_secret_file": "/secret"}, "cluster_secret_file: no such setting"),
        ({"peer_advertised": "here"}, "peer_advertised: host:port required, 'here' given"),
        ({"tls_key_file": "/key"}, "tls_certificate_file: missing; give both"),
        (
            {"client_listen": "0.0.0.0:1", "tls_key_file": "/k", "tls_certificate_file": "/c"},
            "no address that clients can use; give client_advertised",
        ),
        ({"log_level": "loud"}, "log_level: one of debug, info, warning, error required, 'loud' given"),
        (
            {"timings": {"sesion_ttl_ms": 1}},
            "timings.sesion_ttl_ms: no such setting; did you mean session_ttl_ms?",
        ),
        (
            {"timings": {"drain_ms": "1"}},
            "timings.drain_ms: a whole number of at least 1 required, '1' given",
        ),
        ({"timings": []}, "timings: an object required, a list given"),
        ({"limits": {"tail_bytes": 0}}, "limits.tail_bytes: a whole number of at least 1 required, 0 given"),
        ({"limits": {"zone": 1}}, "limits.zone: no such setting"),
        ({"limits": {"tail_bytes": 2**53 + 1}}, "limits.tail_bytes: at most 9007199254740992 possible"),
        ({"timings": {"drain_ms": 10**400}}, "timings.drain_ms: at most 9007199254740992 possible"),
        (
            {"cluster_id": "a/keys", "metadata": {"kind": "etcd", "endpoints": ["127.0.0.1:1"]}},
            "cluster_id: 'a/keys' cannot be the name of the namespace in etcd; give metadata.namespace",
        ),
        ({"pepper_files": {"1": "/p", "01": "/q"}}, "pepper_files.01: a version number required"),
        ({"pepper_files": {"٣": "/p"}}, "pepper_files.٣: a version number required"),
        (
            {"pepper_files": {"9" * 5_000: "/p"}},
            "pepper_files.99999999999999999999: a version number required",
        ),
        ({"pepper_files": {}}, "pepper_files: is empty"),
        ({"pepper_files": {"1": "/\0"}}, "pepper_files.1: is empty or has a character of value 0"),
        ({"pepper_files": {"1": ""}}, "pepper_files.1: is empty or has a character of value 0"),
        ({"metadata": "/\0"}, "metadata: has a character of value 0"),
        ({"data": "/\0"}, "data: no file can have the name"),
        ({"pepper_files": {"one": "/p"}}, "pepper_files.one: a version number required"),
        ({"clster_id": 1}, "clster_id: no such setting; did you mean cluster_id?"),
        ({"metering": "yes"}, "metering: true or false required, text given"),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    tmp_path: Path, values: dict[str, Any], change: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        read(tmp_path, values | change)


@pytest.mark.parametrize("name", ["broker_id", "cluster_id", "data", "metadata", "identity", "pepper_files"])
def test_a_missing_setting_is_named(tmp_path: Path, values: dict[str, Any], name: str) -> None:
    del values[name]
    with pytest.raises(ConfigurationError, match=f"config.json: {name}: missing; give it a value$"):
        read(tmp_path, values)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("PENSTOCK_BROKER_BROKER_ID", "one", "PENSTOCK_BROKER_BROKER_ID: is not JSON, as numbers"),
        ("PENSTOCK_BROKER_TIMINGS", '{"drain": 1}', "PENSTOCK_BROKER_TIMINGS: drain: no such setting"),
        ("PENSTOCK_BROKER_BROKER_ID", "-1", "PENSTOCK_BROKER_BROKER_ID: 0 to 999999 required, -1 given"),
        ("PENSTOCK_BROKER_TIMINGS", "{", "PENSTOCK_BROKER_TIMINGS: is not JSON, as numbers"),
        (
            "PENSTOCK_BROKER_ZOEN",
            "a",
            "PENSTOCK_BROKER_ZOEN: no such setting; did you mean PENSTOCK_BROKER_ZONE?",
        ),
    ],
)
def test_a_wrong_variable_is_refused_by_name(
    tmp_path: Path, values: dict[str, Any], name: str, text: str, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        read(tmp_path, values, **{name: text})


@pytest.mark.parametrize(("content", "says"), [("[]", "an object required"), ("{", "is not JSON")])
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=says):
        read_config(file, {})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.json: No such file"):
        read_config(tmp_path / "none.json", {})


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("pepper", b"\xff" * 64, "pepper: is no text"),
        ("pepper", b"xyz", "pepper: a pepper is hex digits"),
        ("pepper", b"abab", "pepper: a pepper is at least 32 hex digits"),
        ("pepper", None, "pepper: No such file"),
    ],
)
def test_a_secret_file_that_holds_no_secret_is_named_and_not_shown(
    tmp_path: Path, values: dict[str, Any], file: str, content: bytes | None, says: str
) -> None:
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(ConfigurationError, match=says) as refused:
        read(tmp_path, values).node_config("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
    assert "xyz" not in str(refused.value)


def test_secrets_are_not_in_what_a_log_would_show(tmp_path: Path, values: dict[str, Any]) -> None:
    config = read(tmp_path, values)
    shown = repr(config.node_config("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"))
    assert "PRIVATE KEY" not in repr(config.own_identity().current)
    assert "\\xab" not in shown


def test_a_certificate_opens_the_listener_to_the_world(tmp_path: Path, values: dict[str, Any]) -> None:
    certificate, key = make_certificate(tmp_path)
    values |= {
        "client_listen": "0.0.0.0:7400",
        "client_advertised": "broker.example:7400",
        "tls_certificate_file": str(certificate),
        "tls_key_file": str(key),
    }
    assert read(tmp_path, values).tls() == (key.read_bytes(), certificate.read_bytes())


def test_a_key_of_another_certificate_is_refused(tmp_path: Path, values: dict[str, Any]) -> None:
    (tmp_path / "other").mkdir()
    certificate, _ = make_certificate(tmp_path)
    _, key = make_certificate(tmp_path / "other")
    values |= {"tls_certificate_file": str(certificate), "tls_key_file": str(key)}
    with pytest.raises(ConfigurationError, match=r"no usable pair .KEY_VALUES_MISMATCH"):
        read(tmp_path, values).tls()


def test_an_encrypted_key_is_refused_and_nobody_is_asked(tmp_path: Path, values: dict[str, Any]) -> None:
    certificate, key = make_certificate(tmp_path, password="secret-word")
    values |= {"tls_certificate_file": str(certificate), "tls_key_file": str(key)}
    with pytest.raises(ConfigurationError, match="no usable pair"):
        read(tmp_path, values).tls()


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path, values: dict[str, Any]) -> None:
    values |= {"tls_certificate_file": "/nowhere/cert.pem", "tls_key_file": "/nowhere/key.pem"}
    with pytest.raises(ConfigurationError, match=r"/nowhere/key\.pem: No such file"):
        read(tmp_path, values).tls()


def test_a_folder_of_peppers_that_is_gone_or_unreadable_takes_none_away(tmp_path: Path) -> None:
    folder = tmp_path / "peppers"
    peppers = Peppers({1: b"a" * 32}, reader_of(folder))
    peppers.read_again(0)
    assert list(peppers.known()) == [1], "it is made with the first pepper"
    pepper_folder.make(folder, 2)
    pepper_folder.make(folder, 3)
    peppers.read_again(READ_AGAIN_MS)
    known = peppers.known()
    assert list(known) == [1, 2, 3]

    def unreadable() -> None:
        (folder / "2").unlink()
        (folder / "2").mkdir()

    def no_folder() -> None:
        folder.rename(tmp_path / "away")

    def not_mounted() -> None:
        folder.mkdir()

    def no_folder_at_all() -> None:
        folder.rmdir()
        folder.write_text("")

    for turn, harm in enumerate((unreadable, no_folder, not_mounted, no_folder_at_all), 2):
        harm()
        peppers.read_again(turn * READ_AGAIN_MS)
        assert peppers.known() == known, harm.__name__
    folder.unlink()
    (tmp_path / "away").rename(folder)
    (folder / "2").rmdir()
    peppers.read_again(9 * READ_AGAIN_MS)
    assert list(peppers.known()) == [1, 3]
