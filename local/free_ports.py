"""Ports of loopback for servers that are about to start, locked against other processes that look for one."""

import atexit
import errno
import random
import socket
import time
from collections import deque
from pathlib import Path
from typing import ClassVar

import psutil

from penstock.contract.errors import PenstockError

HOST = "127.0.0.1"
_FROM = 20_000
_EPHEMERAL_DEFAULT = 32_768
_EPHEMERAL_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES = 1_000
_LET_GO_S = 3.0
"""A process that was killed is out of sight a moment before its ports are free."""
_POLL_S = 0.05
_COMMAND_LENGTH_MAX = 120
_kept: deque[socket.socket] = deque(maxlen=64)
"""Bound to the ports given out last, until this process ends or has given out as many more."""


def free_port(taken: set[int]) -> int:
    """A free port below the ephemeral range, added to `taken`; no other caller gets it until its server listens.

    A port of the ephemeral range could be given to an outgoing connection while its server is down
    (even to a client that is trying to reach that very port, which then talks to itself); the server could
    not start again.
    """
    for _ in range(_TRIES):
        port = random.randrange(_FROM, max(_first_ephemeral_port(), _FROM + 1_000))
        if port not in taken and _keep(port):
            taken.add(port)
            return port
    raise PenstockError(f"no free port between {_FROM} and {_first_ephemeral_port()}")


def _first_ephemeral_port() -> int:
    try:
        return int(_EPHEMERAL_FILE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _EPHEMERAL_DEFAULT


def _keep(port: int) -> bool:
    """Bind the port without SO_REUSEADDR, which fails as long as any socket is bound to it; then set the option, so
    that a server, which sets it too, can bind and listen beside this socket."""
    kept = socket.socket()
    try:
        kept.bind((HOST, port))
    except OSError:
        kept.close()
        return False
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if len(_kept) == _kept.maxlen:
        _kept.popleft().close()
    _kept.append(kept)
    return True


class PortTaken(PenstockError):
    """Another process listens where a process of the service has to: its port was chosen once, and clients know it."""

    remedy: ClassVar[str] = (
        "End the process that listens there, and repeat; or make another service, with --data."
    )


def require_free(name: str, port: int) -> None:
    """Raise `PortTaken` if something goes on listening on a port of loopback that `name` is about to listen on."""
    deadline = time.monotonic() + _LET_GO_S
    while not _may_listen(port):
        if time.monotonic() > deadline:
            raise PortTaken(f"{name}: {HOST}:{port} is taken{_by(port)}")
        time.sleep(_POLL_S)


def _may_listen(port: int) -> bool:
    with socket.socket() as tried:
        # As servers do: connections of an earlier life that still close do not matter.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
            tried.listen()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def _by(port: int) -> str:
    """Which process listens there, as far as this user may see it."""
    for connection in psutil.net_connections("tcp4"):
        listens = connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,)
        if listens and connection.pid is not None:
            try:
                command = " ".join(psutil.Process(connection.pid).cmdline())
            except psutil.Error:
                break
            return f" by process {connection.pid} ({command[:_COMMAND_LENGTH_MAX]})"
    return " by another process"


@atexit.register
def _let_go() -> None:
    while _kept:
        _kept.pop().close()
