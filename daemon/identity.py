"""Who a process of a cluster is, as its certificate says it: a URI in the subject alternative names.

penstock://<cluster id>/broker/<n>
penstock://<cluster id>/control-plane | runner | operator
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

SCHEME = "penstock://"
_CLUSTER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")
_SHOWN_MAX = 200


class Role(Enum):
    """What a process is for."""

    BROKER = "broker"
    CONTROL_PLANE = "control-plane"
    RUNNER = "runner"
    OPERATOR = "operator"


class NoIdentity(ValueError):
    """A certificate does not say who its holder is; the message says what it says instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Refuses to exist when it could not stand in a certificate. A broker has its id, nothing else has one."""

    cluster_id: str
    role: Role
    broker_id: int | None = None

    def __post_init__(self) -> None:
        if _CLUSTER_ID.fullmatch(self.cluster_id) is None:
            raise NoIdentity(
                f"cluster id {self.cluster_id[:_SHOWN_MAX]!r}: 1 to 128 letters, digits, points, dashes and underscores"
                " required, the first a letter or digit"
            )
        if (self.role is Role.BROKER) != (self.broker_id is not None):
            raise NoIdentity(f"{self.role.value}: a broker has an id, and nothing else has one")
        if self.broker_id is not None and _NUMBER.fullmatch(str(self.broker_id)) is None:
            raise NoIdentity(f"broker {self.broker_id}: 0 to 999999 required")

    @property
    def uri(self) -> str:
        """As it stands in a certificate."""
        return f"{SCHEME}{self.cluster_id}/{self.role.value}" + (
            "" if self.broker_id is None else f"/{self.broker_id}"
        )

    @property
    def name(self) -> str:
        """What it is called in a sentence, and its files in a folder of certificates: `broker-3`, `runner`."""
        return self.role.value if self.broker_id is None else f"{self.role.value}-{self.broker_id}"

    def __str__(self) -> str:
        return self.uri

    @classmethod
    def parse(cls, uri: str) -> Self:
        """The identity that a URI names, in its one form. Raises `NoIdentity`."""
        cluster_id, *path = uri.removeprefix(SCHEME).split("/")
        roles = {role.value: role for role in Role}
        shown = repr(uri[:_SHOWN_MAX])
        if not uri.startswith(SCHEME) or not path or path[0] not in roles or len(path) > 2:
            raise NoIdentity(f"{shown}: {SCHEME}<cluster id>/<role> required, a role of {', '.join(roles)}")
        number = None
        if len(path) == 2:
            if _NUMBER.fullmatch(path[1]) is None:
                raise NoIdentity(f"{shown}: the id of a broker is a number of 0 to 999999")
            number = int(path[1])
        try:
            return cls(cluster_id=cluster_id, role=roles[path[0]], broker_id=number)
        except NoIdentity as wrong:
            raise NoIdentity(f"{shown}: {wrong}") from None


def identity_of(uris: Iterable[str]) -> Identity:
    """The one identity among the URIs of a certificate. Raises `NoIdentity`."""
    ours = [uri for uri in uris if uri.startswith(SCHEME)]
    if not ours:
        raise NoIdentity(f"the certificate names no {SCHEME}... among its subject alternative names")
    if len(ours) > 1:
        raise NoIdentity(f"the certificate names {len(ours)} identities, one required")
    return Identity.parse(ours[0])


def identity_of_peer(certificate: Mapping[str, Any] | None) -> Identity:
    """Of a certificate as `ssl.SSLSocket.getpeercert()` describes it. Raises `NoIdentity`."""
    if not certificate:
        raise NoIdentity("no certificate was shown")
    return identity_of(value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI")


def identity_of_grpc(auth_context: Mapping[str, Any]) -> Identity:
    """Of gRPC's `auth_context` of a call: lists of bytes by name. Raises `NoIdentity`."""
    if not auth_context.get("x509_pem_cert"):
        raise NoIdentity("no certificate was shown")
    return identity_of(uri.decode(errors="replace") for uri in auth_context.get("peer_uri", ()))
