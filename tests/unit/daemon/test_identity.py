"""A certificate's URI says which cluster and process it is of, in one form; anything else is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.identity import Identity, NoIdentity, Role, identity_of_grpc, identity_of_peer

BROKER = Identity(cluster_id="c1", role=Role.BROKER, broker_id=7)


@pytest.mark.parametrize(
    ("uri", "identity"),
    [
        ("penstock://c1/broker/7", BROKER),
        ("penstock://c1/broker/0", Identity(cluster_id="c1", role=Role.BROKER, broker_id=0)),
        ("penstock://c1/control-plane", Identity(cluster_id="c1", role=Role.CONTROL_PLANE)),
        ("penstock://a.b-c_d/runner", Identity(cluster_id="a.b-c_d", role=Role.RUNNER)),
        ("penstock://c1/operator", Identity(cluster_id="c1", role=Role.OPERATOR)),
    ],
)
def test_an_identity_is_read_as_it_is_written(uri: str, identity: Identity) -> None:
    assert Identity.parse(uri) == identity
    assert identity.uri == uri


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "penstock://",
        "penstock://c1",
        "penstock://c1/",
        "penstock:///broker/1",
        "penstock://c1/broker",
        "penstock://c1/broker/",
        "penstock://c1/broker/01",
        "penstock://c1/broker/-1",
        "penstock://c1/broker/1000000",
        "penstock://c1/broker/1/2",
        "penstock://c1/operator/1",
        "penstock://c1/admin",
        "penstock://c1/Broker/1",
        "penstock://c 1/operator",
        "penstock://.c1/operator",
        "spiffe://c1/broker/1",
        "PENSTOCK://c1/operator",
    ],
)
def test_any_other_uri_is_no_identity(uri: str) -> None:
    with pytest.raises(NoIdentity):
        Identity.parse(uri)


@given(st.text(max_size=60))
def test_any_text_is_the_one_form_of_an_identity_or_refused(text: str) -> None:
    for uri in (text, f"penstock://{text}", f"penstock://c/{text}"):
        try:
            assert Identity.parse(uri).uri == uri
        except NoIdentity as refused:
            assert "\n" not in str(refused)


def test_a_certificate_says_who_its_holder_is_by_its_uri_alone() -> None:
    shown: dict[str, Any] = {
        "subject": ((("commonName", "penstock://c1/operator"),),),
        "subjectAltName": (
            ("DNS", "penstock://c1/operator"),
            ("IP Address", "127.0.0.1"),
            ("URI", "https://example.com/"),
            ("URI", "penstock://c1/broker/7"),
        ),
    }
    assert identity_of_peer(shown) == BROKER
    with pytest.raises(NoIdentity, match="names no penstock://"):
        identity_of_peer({"subjectAltName": (("DNS", "penstock://c1/broker/7"),)})
    with pytest.raises(NoIdentity, match="names 2 identities, one required"):
        identity_of_peer({"subjectAltName": shown["subjectAltName"] + (("URI", "penstock://c2/operator"),)})
    with pytest.raises(NoIdentity, match="no certificate was shown"):
        identity_of_peer(None)
    with pytest.raises(NoIdentity, match="no certificate was shown"):
        identity_of_peer({})


def test_grpc_says_the_same_in_its_own_way() -> None:
    shown = {"x509_pem_cert": [b"-----BEGIN"], "peer_uri": [b"penstock://c1/broker/7"]}
    assert identity_of_grpc(shown) == BROKER
    with pytest.raises(NoIdentity, match="no certificate was shown"):
        identity_of_grpc({"transport_security_type": [b"ssl"], "peer_uri": [b"penstock://c1/broker/7"]})
    with pytest.raises(NoIdentity):
        identity_of_grpc(shown | {"peer_uri": [b"\xff\xfe"]})
