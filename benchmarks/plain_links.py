"""Links between brokers without TLS, which the product does not have: what TLS is compared with."""

from collections.abc import Mapping
from typing import Any

from daemon.identity import Identity, NoIdentity, Role
from data_plane.broker.peer_listener import PeerListener
from data_plane.broker.peer_transport import PeerTransport
from data_plane.broker.peer_wire import Form, Hello
from data_plane.node.ports import Peer


class PlainListener(PeerListener):
    """Believes what a caller says of itself: its request id begins with its number."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **(named | {"tls": lambda: None}))

    def identify(self, connection: object, hello: Hello) -> Identity:
        number = hello.request_id.partition(":")[0]
        if not number.isdecimal():
            raise NoIdentity(f"{hello.request_id}: no number of a broker")
        return Identity(cluster_id=self.rules.cluster_id, role=Role.BROKER, broker_id=int(number))


class PlainTransport(PeerTransport):
    """Asks no one for a certificate."""

    own = 0
    """The number of the broker that dials."""

    def __init__(self, cluster_id: str, tls: object, *arguments: Any) -> None:
        super().__init__(cluster_id, lambda: None, *arguments)

    def hello(self, form: Form, method: str, request_id: str) -> bytes:
        return super().hello(form, method, f"{self.own}:{request_id}")

    def check(self, peer: Peer, certificate: Mapping[str, Any] | None) -> None:
        """There is none."""
