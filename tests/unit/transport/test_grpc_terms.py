"""What grpc says of a connection that was not made becomes its cause and what to do."""

import grpc
import pytest

from penstock.transport.grpc_terms import describe

_HANDSHAKE = (
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7461: Tls handshake failed"
    " (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000:SSL routines:OPENSSL_internal:"
)
_CONNECT = "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:7461: "


@pytest.mark.parametrize(
    ("details", "cause"),
    [
        (_CONNECT + "Failed to connect to remote host: Connection refused", "nothing listens there"),
        (_CONNECT + "Socket closed", "if it speaks TLS, set ca_file"),
        (_CONNECT + "Failed parsing HTTP/2 (Expected SETTINGS frame)", "what listens there is no broker"),
        (
            _HANDSHAKE + "WRONG_VERSION_NUMBER: Invalid context",
            "it does not speak TLS, which ca_file asks for",
        ),
        (_HANDSHAKE + "CERTIFICATE_VERIFY_FAILED: self signed certificate", "its certificate is not trusted"),
        (_CONNECT + "Hostname Verification Check failed.", "its certificate is for other host names"),
        ("errors resolving broker:7461: Domain name not found", "its host name cannot be resolved"),
    ],
    ids=["refused", "plaintext to TLS", "a web server", "TLS to plaintext", "other authority", "name", "DNS"],
)
def test_a_connection_that_is_not_made_is_told_by_its_cause(details: str, cause: str) -> None:
    told = describe("127.0.0.1:7461", grpc.StatusCode.UNAVAILABLE, details, "abc")
    assert told.startswith("127.0.0.1:7461: ")
    assert cause in told
    assert "SSL routines" not in told


def test_what_a_broker_says_stands_as_it_is_with_the_id_of_the_request() -> None:
    said = "the file said: Connection refused"
    told = describe("127.0.0.1:7461", grpc.StatusCode.PERMISSION_DENIED, said, "abc")
    assert told == f"127.0.0.1:7461: {said} (request abc)"
