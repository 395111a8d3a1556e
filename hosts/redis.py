"""Redis on a host, over TLS with certificates of both sides; it keeps nothing on its disk."""

from urllib.parse import quote

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
                *("--save", "", "--appendonly", "no"),
            ),
        )

    def url(self, client: Identity) -> str:
        """For one who shows that identity."""
        asked = {
            "ssl_cert_reqs": "required",
            "ssl_ca_certs": client.ca_file,
            "ssl_certfile": client.certificate_file,
            "ssl_keyfile": client.key_file,
        }
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in asked.items())
        return f"rediss://{self.host.address}:{PORT}/0?{query}"

    def serves(self, client: Identity) -> bool:
        """Whether it answers one who shows that identity."""
        try:
            with redis.Redis.from_url(self.url(client), socket_timeout=_ASK_S) as connection:
                return bool(connection.ping())
        except redis.RedisError:
            return False
