"""HAProxy on hosts: where TLS ends beside each web process, and before them all a balancer that opens nothing."""

from collections.abc import Sequence
from pathlib import Path

from hosts.certificates import Identity
from hosts.commands import find
from hosts.host import Host
from hosts.program import Program
from hosts.readiness import answers
from penstock.private_file import write_private

WEB_PORT, PROXIED_PORT = 8443, 8444
"""Of those who are asked by their own address, and of the balancer, which says whose connection it passes on."""
PORT = 443
_DEFAULTS = """\
defaults
  timeout connect 5s
  timeout client 120s
  timeout server 120s
"""


class TlsEnd(Program):
    """Takes TLS on the host's address, and hands requests to the web process of the same host in plain text."""

    def __init__(self, host: Host, identity: Identity, web_address: str) -> None:
        folder = host.folder / "tls-end"
        folder.mkdir(parents=True, exist_ok=True)
        self._pair = folder / "pair.pem"
        self._identity = identity
        self._write_pair()
        config = f"""\
{_DEFAULTS}  mode http
frontend public
  bind {host.address}:{WEB_PORT} ssl crt {self._pair}
  bind {host.address}:{PROXIED_PORT} ssl crt {self._pair} accept-proxy
  option forwardfor
  http-request set-header X-Forwarded-Proto https
  default_backend web
backend web
  server web {web_address}
"""
        write_private(folder / "haproxy.cfg", config)
        super().__init__(
            "tls-end", host, (find("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")), folder=folder
        )

    def serves(self) -> bool:
        """Whether the web process answers through it."""
        return answers(f"https://{self.host.address}:{WEB_PORT}/healthz", self._identity.ca_file)

    def _write_pair(self) -> None:
        files = (self._identity.certificate_file, self._identity.key_file)
        write_private(self._pair, "".join(file.read_text() for file in files))


class Balancer(Program):
    """The one address of the service: passes connections on to the web processes that answer, one after the other."""

    def __init__(self, host: Host, ca_file: Path, webs: Sequence[Host]) -> None:
        folder = host.folder / "balancer"
        folder.mkdir(parents=True, exist_ok=True)
        servers = "".join(
            f"  server {web.name} {web.address}:{PROXIED_PORT} check check-ssl verify required ca-file {ca_file}"
            " send-proxy-v2 check-send-proxy inter 1s fall 2 rise 1\n"
            for web in webs
        )
        config = f"""\
{_DEFAULTS}  mode tcp
frontend public
  bind {host.address}:{PORT}
  default_backend webs
backend webs
  balance roundrobin
  option httpchk
  http-check send meth GET uri /healthz hdr Host 127.0.0.1
  option redispatch
  retries 2
{servers}"""
        write_private(folder / "haproxy.cfg", config)
        self.url = f"https://{host.address}"
        self._ca_file = ca_file
        super().__init__(
            "balancer", host, (find("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")), folder=folder
        )

    def serves(self) -> bool:
        """Whether a web process answers through it."""
        return answers(f"{self.url}/healthz", self._ca_file)
