"""What several faults do to hosts."""

from collections.abc import Sequence

from hosts.disks import Disk
from hosts.host import Host


def between(bounds: tuple[float, float], share: float) -> float:
    """So far from the first bound to the second."""
    low, high = bounds
    return low + (high - low) * share


def disk_of(host: Host) -> Disk:
    """The disk that hosts of a chaos run have."""
    assert host.disk is not None, f"{host.name} has no disk of its own"
    return host.disk


def lose_power(hosts: Sequence[Host]) -> None:
    """All at one instant; the disks are back on return, with what they had durably."""
    programs = [program for host in hosts for program in host.programs]
    for program in programs:
        program.kept_down = True
    for host in hosts:
        disk_of(host).cut_power()
    for program in programs:
        program.kill_soon()
    for program in programs:
        program.wait_gone()
    for host in hosts:
        disk_of(host).restore()
