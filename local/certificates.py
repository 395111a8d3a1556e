"""The certificates of a cluster on one machine, made with it: of its brokers, its control plane, its operator and its
etcd.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from daemon import authority
from daemon.identity import Role
from daemon.tls import IdentityConfig, OwnIdentity

ETCD = "etcd-1"
"""The name of its certificate."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_RENEWED_DAYS = 60
"""A certificate that ends within this time is renewed by the next start."""


class Certificates:
    """The folder of a cluster's authority (`daemon/authority.py`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def files(self, name: str) -> IdentityConfig:
        """Of one process, by its certificate's name."""
        return IdentityConfig(
            ca_file=self.folder / "ca.pem",
            certificate_file=self.folder / f"{name}.pem",
            key_file=self.folder / f"{name}-key.pem",
        )

    def settings(self, name: str) -> dict[str, str]:
        """The object `identity` of a configuration."""
        files = self.files(name)
        return {
            "ca_file": str(files.ca_file),
            "certificate_file": str(files.certificate_file),
            "key_file": str(files.key_file),
        }

    def operator(self) -> OwnIdentity:
        """For a command that calls the brokers."""
        return OwnIdentity(self.files(Role.OPERATOR.value), Role.OPERATOR)

    def make(
        self, cluster_id: str, brokers: Iterable[int], hosts: Sequence[str] = LOOPBACK, *, etcd: bool = False
    ) -> None:
        """Make what is not there, for processes at these hosts, and renew what ends soon."""
        now = datetime.now(UTC)
        if not (self.folder / "ca.pem").exists():
            authority.init(self.folder, cluster_id, now=now)
        there = authority.names_of(self.folder)
        authority.renew(
            self.folder, authority.ending(self.folder, now=now, within_days=_RENEWED_DAYS), now=now
        )
        others = [Role.CONTROL_PLANE.value, Role.OPERATOR.value, *([ETCD] if etcd else [])]
        for name in (*(f"{Role.BROKER.value}-{number}" for number in brokers), *others):
            if name not in there:
                authority.issue(self.folder, name, hosts=hosts, now=now)
