"""Peppered HMACs and SCRAM verifiers: published vectors, and nothing that gives the secret back."""

import base64
import hashlib
import hmac

import pytest

from penstock.contract.api_keys import make_api_key
from penstock.rules.credentials import make_credential, scram_verifier, secret_hmac, secret_matches

KEY = make_api_key("dev", bytes(range(48)))
PEPPERS = {1: b"p" * 32, 3: b"q" * 32}


def test_the_secret_and_nothing_else_matches() -> None:
    stored = secret_hmac(PEPPERS[1], KEY.secret).hex()
    assert secret_matches(PEPPERS, pepper_version=1, stored_hmac=stored, secret=KEY.secret)
    assert not secret_matches(PEPPERS, pepper_version=1, stored_hmac=stored, secret=KEY.secret[::-1])
    assert not secret_matches(PEPPERS, pepper_version=3, stored_hmac=stored, secret=KEY.secret)


def test_an_unknown_pepper_version_never_matches() -> None:
    for stored in ("", "00" * 32, secret_hmac(bytes(32), KEY.secret).hex()):
        assert not secret_matches(PEPPERS, pepper_version=2, stored_hmac=stored, secret=KEY.secret)


def test_a_short_pepper_is_refused() -> None:
    with pytest.raises(ValueError, match="pepper of 15 bytes"):
        secret_hmac(b"x" * 15, "secret")


def test_scram_verifier_checks_the_proof_of_rfc_7677() -> None:
    """The example exchange of RFC 7677, section 3: user `user`, password `pencil`."""
    verifier = scram_verifier("sha256", "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    auth_message = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(bytes.fromhex(verifier["stored_key"]), auth_message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).hexdigest() == verifier["stored_key"]
    server = hmac.digest(bytes.fromhex(verifier["server_key"]), auth_message, "sha256")
    assert base64.b64encode(server) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_credential_has_both_verifiers_and_never_the_secret() -> None:
    made = make_credential(KEY, pepper_version=3, pepper=PEPPERS[3], salts=bytes(range(32)))
    assert made.key_id == KEY.key_id
    assert sorted(made.scram) == ["sha256", "sha512"]
    assert made.scram["sha256"]["salt"] == bytes(range(16)).hex()
    assert made.scram["sha512"]["salt"] == bytes(range(16, 32)).hex()
    assert len(made.scram["sha512"]["stored_key"]) == 128
    assert made.scram["sha256"] == scram_verifier("sha256", KEY.reveal(), bytes(range(16)), 4096)
    assert KEY.secret not in repr(made)


@pytest.mark.parametrize(("algorithm", "iterations"), [("md5", 4096), ("sha256", 4095)])
def test_weak_verifiers_are_refused(algorithm: str, iterations: int) -> None:
    with pytest.raises(ValueError, match=r"required"):
        scram_verifier(algorithm, "password", bytes(16), iterations)


def test_the_wrong_amount_of_salt_is_refused() -> None:
    with pytest.raises(ValueError, match="salt"):
        make_credential(KEY, pepper_version=1, pepper=PEPPERS[1], salts=bytes(31))
