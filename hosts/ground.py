"""The ground that a run's hosts stand on: their zones, their network and their disks."""

from pathlib import Path

from hosts.disks import LOOP_BYTES, Disk
from hosts.host import Host
from hosts.switch import Switch

ZONES = ("zone-a", "zone-b", "zone-c")
OUTSIDE_ZONE = "outside"
"""Of what belongs to no zone, such as a balancer."""
_PER_KIND = 10
BROKER, ETCD, WEB, DATABASE, CACHE, BALANCER, RUNNER = range(7)
"""What hosts are for. Each kind has ten addresses, from ...10 on."""


class Ground:
    """Makes hosts, and knows them by name and zone."""

    def __init__(self, folder: Path, switch: Switch) -> None:
        self.folder = folder
        self._switch = switch
        self.hosts: dict[str, Host] = {}

    def host(
        self, name: str, zone: str, kind: int, number: int, disk: str | None = None, size: int = LOOP_BYTES
    ) -> Host:
        """A new host, the `number`th of its kind from 1 on. `disk` is the file system of a disk of its own. Raises
        `CommandFailed`.
        """
        folder = self.folder / "hosts" / name
        made = None
        if disk is not None:
            made = Disk(disk, self.folder / "disks" / f"{name}.{disk}", folder / "disk", size)
        wire = self._switch.connect(name, _PER_KIND * (1 + kind) + number)
        self.hosts[name] = Host(name, zone, wire, folder, made)
        return self.hosts[name]

    def of_zone(self, zone: str) -> list[Host]:
        return [host for host in self.hosts.values() if host.zone == zone]

    def beyond(self, zone: str) -> list[str]:
        """The addresses of the hosts of all other zones."""
        return [host.address for host in self.hosts.values() if host.zone not in (zone, OUTSIDE_ZONE)]

    def unmount(self) -> None:
        """Once everything has ended."""
        for host in self.hosts.values():
            if host.disk is not None:
                host.disk.unmount()
