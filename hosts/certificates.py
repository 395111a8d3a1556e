"""The certificates of a run, as `penstock cluster certificates` makes them: one authority for the links within the
cluster, and another one for what clients see.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from daemon import authority
from daemon.identity import Role
from daemon.tls import IdentityConfig, OwnIdentity

_WEB = "broker-999999"
"""What the web's certificate is called in the folder of clients: an authority of a cluster knows names of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The files of one process: whom it trusts, what it shows, and its key."""

    ca_file: Path
    certificate_file: Path
    key_file: Path

    @property
    def settings(self) -> dict[str, str]:
        """As configurations of our processes name them."""
        return {
            "ca_file": str(self.ca_file),
            "certificate_file": str(self.certificate_file),
            "key_file": str(self.key_file),
        }


class Certificates:
    """Two folders with a CA each. Files are replaced where they are, so processes see what is renewed."""

    def __init__(self, folder: Path, cluster_id: str) -> None:
        self._inside = folder / "cluster"
        self._clients = folder / "clients"
        authority.init(self._inside, cluster_id, now=_now())
        authority.init(self._clients, f"{cluster_id}-clients", now=_now())

    @property
    def clients_ca_file(self) -> Path:
        """Whom clients trust."""
        return self._clients / "ca.pem"

    def issue(self, name: str, hosts: Sequence[str] = ()) -> Identity:
        """For a process of the cluster, `name` as in `daemon.signing.Name`."""
        return _issue(self._inside, name, hosts)

    def issue_for_clients(self, broker: int, hosts: Sequence[str]) -> Identity:
        """For the client listener of a broker."""
        return _issue(self._clients, f"broker-{broker}", hosts)

    def issue_for_web(self, hosts: Sequence[str]) -> Identity:
        """For those who serve the console and REST."""
        return _issue(self._clients, _WEB, hosts)

    def operator(self) -> OwnIdentity:
        """For calls of this process."""
        files = self.issue(Role.OPERATOR.value)
        config = IdentityConfig(
            ca_file=files.ca_file, certificate_file=files.certificate_file, key_file=files.key_file
        )
        return OwnIdentity(config, Role.OPERATOR)

    # -- while everything runs ---------------------------------------------------------------------------------

    def renew(self) -> None:
        """New keys and certificates for all processes, from the same CAs."""
        for folder in (self._inside, self._clients):
            authority.renew(folder, authority.names_of(folder), now=_now())

    def add_ca(self) -> None:
        """A second CA is accepted."""
        authority.add_ca(self._inside, now=_now())

    def use_new_ca(self) -> None:
        """The second CA signs, and every certificate is from it."""
        authority.use_new_ca(self._inside, now=_now())

    def drop_old_ca(self) -> None:
        """The first CA is accepted no longer."""
        authority.drop_old_ca(self._inside)


def _issue(folder: Path, name: str, hosts: Sequence[str]) -> Identity:
    authority.issue(folder, name, hosts=hosts, now=_now())
    return Identity(
        ca_file=folder / "ca.pem",
        certificate_file=folder / f"{name}.pem",
        key_file=folder / f"{name}-key.pem",
    )


def _now() -> datetime:
    return datetime.now(UTC)
