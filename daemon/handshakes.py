"""Why a TLS handshake was refused: a reason to count by, and what to do about it in one line."""

import ssl
from collections import Counter
from collections.abc import Mapping
from typing import Any

from daemon.identity import Identity, NoIdentity, Role, identity_of_peer

WRONG_AUTHORITY = "wrong_authority"
EXPIRED = "expired"
NOT_YET_VALID = "not_yet_valid"
WRONG_CLUSTER = "wrong_cluster"
WRONG_ROLE = "wrong_role"
WRONG_BROKER = "wrong_broker"
NO_CERTIFICATE = "no_certificate"
NO_IDENTITY = "no_identity"
PLAIN_TEXT = "plain_text"
NAME_MISMATCH = "name_mismatch"
REFUSED_BY_PEER = "refused_by_peer"
NOT_IN_TIME = "not_in_time"
NO_CALL = "no_call"
"""On the internal listener: gRPC does not say why a handshake came to nothing."""
OTHER = "other"
REASONS = (
    WRONG_AUTHORITY,
    EXPIRED,
    NOT_YET_VALID,
    WRONG_CLUSTER,
    WRONG_ROLE,
    WRONG_BROKER,
    NO_CERTIFICATE,
    NO_IDENTITY,
    PLAIN_TEXT,
    NAME_MISMATCH,
    REFUSED_BY_PEER,
    NOT_IN_TIME,
    NO_CALL,
    OTHER,
)

_SENTENCES = {
    WRONG_AUTHORITY: "no authority in our identity.ca_file vouches for its certificate; give it one of this cluster's",
    EXPIRED: "its certificate has expired, or a clock is wrong; renew it",
    NOT_YET_VALID: "its certificate is not valid yet, or a clock is wrong; set the clock",
    NO_CERTIFICATE: "it showed no certificate; give it one of this cluster's",
    PLAIN_TEXT: "it speaks no TLS; give it an identity of this cluster, or the address of another listener",
    NAME_MISMATCH: "its certificate is not for the host of this address; issue one that names it",
    REFUSED_BY_PEER: "it does not take our certificate; its log says why",
    NOT_IN_TIME: "no handshake came about in time",
}
_BY_VERIFY_CODE = {9: NOT_YET_VALID, 10: EXPIRED, 62: NAME_MISMATCH, 64: NAME_MISMATCH}
"""OpenSSL's X509_V_ERR_*; every other one means that no authority vouches for it."""
_PLAIN = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "HTTPS_PROXY_REQUEST",
    "UNKNOWN_PROTOCOL",
    "RECORD_LAYER_FAILURE",
)


class HandshakeRefused(Exception):
    """The peer is not let in, or not spoken to. `reason` is one of REASONS."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def refusal_of(error: BaseException) -> HandshakeRefused | None:
    """What a failed handshake means; None when the peer is only gone."""
    if isinstance(error, TimeoutError | ConnectionAbortedError):  # the latter is the loop's
        reason = NOT_IN_TIME
    elif isinstance(error, ssl.SSLCertVerificationError):
        reason = _BY_VERIFY_CODE.get(error.verify_code, WRONG_AUTHORITY)
    elif isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or not isinstance(error, ssl.SSLError):
        return None
    else:
        said = error.reason or ""
        if said == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            reason = NO_CERTIFICATE
        elif said in _PLAIN:
            reason = PLAIN_TEXT
        elif "ALERT" in said:
            reason = REFUSED_BY_PEER
        else:
            return HandshakeRefused(OTHER, f"the handshake failed: {said or error}")
    return HandshakeRefused(reason, _SENTENCES[reason])


def check_broker(
    certificate: Mapping[str, Any] | None, cluster_id: str, broker_id: int | None = None
) -> None:
    """Raises `HandshakeRefused` unless a certificate, as `ssl.SSLSocket.getpeercert()` describes it, is of a broker of
    the cluster; with a `broker_id`, of this one."""
    try:
        shown = identity_of_peer(certificate)
    except NoIdentity as wrong:
        raise HandshakeRefused(NO_IDENTITY, str(wrong)) from None
    if shown.cluster_id != cluster_id:
        reason = WRONG_CLUSTER
    elif shown.role is not Role.BROKER:
        reason = WRONG_ROLE
    elif broker_id is not None and shown.broker_id != broker_id:
        reason = WRONG_BROKER
    else:
        return
    if broker_id is None:
        meant = f"a broker of cluster {cluster_id} required"
    else:
        meant = (
            f"{Identity(cluster_id=cluster_id, role=Role.BROKER, broker_id=broker_id)} is registered with it"
        )
    raise HandshakeRefused(reason, f"what listens there is {shown}, and {meant}")


class RefusedHandshakes:
    """Counts of one process by side (a listener's name, or OUTGOING) and reason."""

    OUTGOING = "outgoing"

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def count(self, side: str, reason: str) -> None:
        self.counts[side, reason] += 1
