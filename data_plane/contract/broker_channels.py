"""gRPC channels to brokers: each is made only with the holder of a certificate that was found to be of a broker.

gRPC's client checks authority and host, and does not show the certificate. So a TLS handshake of our own looks at it
first, and the channel then takes this one certificate and no other: its roots hold nothing else, and gRPC accepts an
end certificate as root (X509_V_FLAG_PARTIAL_CHAIN).
"""

import socket
import ssl
import threading
import time
from dataclasses import dataclass

import grpc

from daemon.handshakes import HandshakeRefused, check_broker, refusal_of
from daemon.tls import Credentials, OwnIdentity
from data_plane.contract.methods import LOOKS
from penstock.rules.addresses import split_address
from penstock.transport.grpc_terms import NO_PROXY

_LONGEST_CALL_S = 60.0
_LOOK_S = 1.0
"""Between two looks at whether the files of the identity have changed."""
_OPTIONS = (
    NO_PROXY,
    # A description of every object of a large cluster.
    ("grpc.max_receive_message_length", 256 * 1024 * 1024),
    # A broker that comes back is found at once.
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
)

Metadata = tuple[tuple[str, str | bytes], ...]


class NoBroker(Exception):
    """No broker of the cluster is at the address; the message says what is. Nothing was sent."""


@dataclass(slots=True, kw_only=True)
class _Pinned:
    channel: grpc.Channel
    certificate: bytes
    """In PEM: the only one that the channel is made with."""
    doubted: bool = False
    """It did not answer, so another certificate may be there now."""
    looks: int = 0
    """Handshakes without a call of which the broker has not heard yet."""

    def take_looks(self) -> Metadata:
        looks, self.looks = self.looks, 0
        return ((LOOKS, str(looks)),) if looks else ()


class BrokerChannels:
    """One process's channels, by host:port of an internal listener. Safe between threads."""

    def __init__(self, identity: OwnIdentity) -> None:
        """Each channel shows the `identity` as its files hold it by then."""
        self._identity = identity
        self._shown = identity.current
        """What the channels were made with. Others may look at the files of the same identity before this does."""
        self._looked = time.monotonic()
        self._pinned: dict[str, _Pinned] = {}
        self._retired: list[tuple[float, grpc.Channel]] = []
        """Replaced ones, and until when a call may still be under way on them."""
        self._opening = threading.Lock()

    def close(self) -> None:
        with self._opening:
            for address in sorted(self._pinned):
                self._pinned[address].channel.close()
            for _, channel in self._retired:
                channel.close()
            self._pinned.clear()
            self._retired.clear()

    def to(self, address: str, timeout_s: float) -> tuple[grpc.Channel, Metadata]:
        """The channel to a broker, and what the next call on it has to carry. Raises `NoBroker`."""
        while True:
            with self._opening:
                self._take_up_files()
                shown, found = self._shown, self._pinned.get(address)
                if found is not None and not found.doubted:
                    return found.channel, found.take_looks()
            certificate = _look(address, shown, timeout_s)
            with self._opening:
                if shown is self._shown:
                    return self._pin(address, certificate)

    def doubt(self, address: str) -> None:
        """A call there came to nothing: who is there is looked up before the next one."""
        with self._opening:
            if address in self._pinned:
                self._pinned[address].doubted = True

    def _pin(self, address: str, certificate: bytes) -> tuple[grpc.Channel, Metadata]:
        found = self._pinned.get(address)
        if found is None or found.certificate != certificate:
            if found is not None:
                self._retire(found)
            credentials = grpc.ssl_channel_credentials(
                root_certificates=certificate,
                private_key=self._shown.key,
                certificate_chain=self._shown.certificate,
            )
            found = _Pinned(
                channel=grpc.secure_channel(address, credentials, options=_OPTIONS), certificate=certificate
            )
            self._pinned[address] = found
        found.doubted = False
        found.looks += 1
        return found.channel, found.take_looks()

    def _take_up_files(self) -> None:
        now = time.monotonic()
        if now - self._looked >= _LOOK_S:
            self._looked = now
            while self._retired and self._retired[0][0] < now:
                self._retired.pop(0)[1].close()
            self._identity.look()
            if self._identity.current is not self._shown:
                self._shown = self._identity.current
                for one in self._pinned.values():
                    self._retire(one)
                self._pinned.clear()

    def _retire(self, pinned: _Pinned) -> None:
        """Calls that are under way end on the channel that they began on."""
        self._retired.append((time.monotonic() + _LONGEST_CALL_S, pinned.channel))


def _look(address: str, shown: Credentials, timeout_s: float) -> bytes:
    """The certificate, in PEM, of the broker of this cluster that is there now. Raises `NoBroker`."""
    try:
        host, port = split_address(address)
        with (
            socket.create_connection((host, port), timeout=timeout_s) as plain,
            shown.client.wrap_socket(plain, server_hostname=host) as secured,
        ):
            check_broker(secured.getpeercert(), shown.identity.cluster_id)
            found = secured.getpeercert(binary_form=True)
    except HandshakeRefused as refused:
        raise NoBroker(f"{address}: {refused.message}") from refused
    except (OSError, ValueError) as error:
        refusal = refusal_of(error)
        reason = refusal.message if refusal is not None else getattr(error, "strerror", None) or str(error)
        raise NoBroker(f"{address}: {reason}") from error
    return ssl.DER_cert_to_PEM_cert(found or b"").encode()
