"""Redis on a host, over TLS with certificates of both sides; it keeps nothing on its disk."""

import redis

from hosts.certificates import Identity
from hosts.commands import find
from hosts.host import Host
from hosts.program import Program

PORT = 6379
_ASK_S = 2.0


class Redis(Program):
    """One server."""

    def __init__(self, host: Host, identity: Identity) -> None:
        """Raises `CommandFailed`."""
        super().__init__(
            "redis",
            host,
            (
                *(find("redis-server"), "--port", "0", "--tls-port", str(PORT), "--bind", host.address),
                *(
                    "--tls-cert-file",
                    str(identity.certificate_file),
                    "--tls-key-file",
                    str(identity.key_file),
                ),
                *("--tls-ca-cert-file", str(identity.ca_file), "--tls-auth-clients", "yes"),
                # Callers are known by their certificates.
                *("--protected-mode", "no", "--save", "", "--appendonly", "no"),
            ),
        )

    @property
    def url(self) -> str:
        return f"rediss://{self.host.address}:{PORT}/0"

    def serves(self, client: Identity) -> bool:
        """Whether it answers one who shows that identity."""
        try:
            with redis.Redis(
                host=self.host.address,
                port=PORT,
                socket_timeout=_ASK_S,
                ssl=True,
                ssl_ca_certs=str(client.ca_file),
                ssl_certfile=str(client.certificate_file),
                ssl_keyfile=str(client.key_file),
                ssl_check_hostname=True,
            ) as connection:
                return bool(connection.ping())
        except redis.RedisError:
            return False
