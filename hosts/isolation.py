"""Puts a run into namespaces of its own: what it mounts, connects and starts is gone with it, however it ends.

Network, mounts and processes: the run's first process is process 1 in there, so that even its SIGKILL ends every
broker, and the kernel takes back interfaces, rules, mounts and loop devices. Nothing of it is seen from outside, and
two runs at once do not meet.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hosts.commands import CommandFailed, find, run

_INSIDE = "PENSTOCK_HOSTS_INSIDE"
NAMESPACES = Path("/run/netns")
"""Where `ip netns` keeps names."""


def go_inside(module: str, arguments: Sequence[str]) -> None:
    """Return within the namespaces; from outside this process becomes `unshare` with `python -m module` again.

    Raises `CommandFailed`.
    """
    if os.environ.get(_INSIDE) and os.getpid() == 1:
        _furnish()
        return
    program = find("unshare")
    if os.geteuid() != 0:
        raise CommandFailed([program, "--mount", "--net", "--pid"], "needs the rights of root")
    # Nothing in here is reached by way of a proxy.
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")} | {
        _INSIDE: "1",
        "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
        "GRPC_VERBOSITY": "ERROR",
    }
    command = [
        *(program, "--mount", "--net", "--pid", "--fork", "--kill-child"),
        # In a changed root / is no mount point, whose propagation cannot be changed.
        *("--propagation", "unchanged", "--mount-proc"),
        *(sys.executable, "-m", module, *arguments),
    ]
    os.execve(program, command, environment)


def _furnish() -> None:
    """No mount gets out; network namespaces get names of their own; the loopback interface works."""
    try:
        run("mount", "--make-rprivate", "/")
    except CommandFailed:
        pass  # in a changed root, which is as private as it was made
    NAMESPACES.mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "tmpfs", str(NAMESPACES))
    run("ip", "link", "set", "lo", "up")
