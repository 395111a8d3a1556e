"""Connections of a gRPC listener from which no call was admitted: they have a short time, and a bound of their own.

gRPC accepts connections itself, and ends one without a call after the time that clients may rest (5 minutes). One who
only says the preface of HTTP/2 would keep others out for that long. So the broker looks at its own sockets several
times a second, and shuts down those of strangers that are late, or too many:

connected -> admitted (a call was let in: it stays as long as it likes)
          -> hung up on (late, one of too many of its address, or of too many in all: the oldest of the addresses
             with the most of them first)

`Strangers` decides for one listener; `OpenSockets` sees and shuts down; `watch` lets them meet.
"""

import asyncio
import errno
import ipaddress
import os
import socket
import stat
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import unquote

from daemon.hang_ups import ADDRESS_HAS_ENOUGH, MADE_WAY, NOT_IN_TIME, HangUps
from penstock.rules.addresses import counted_address

STRANGER_S = 10.0
"""For handshake, key, and a call that is admitted: a client makes its first call at once."""
SPARED_S = 1.0
"""As many clients as there are connect at once after a broker was away: who has just come is hung up on only where
half of all places are taken."""
_SHARE = 4
"""Strangers may have one of so many places, and one address one of so many of theirs."""
_LOOK_S = 0.25
_LOOKS_SHARE = 0.02
"""Looks take this part of the time at most; one takes a microsecond or two for each descriptor."""
_LOOK_IN_A_FLOOD_S, _LOOKS_SHARE_IN_A_FLOOD = 0.02, 0.2
_FILES = "/proc/self/fd"
_NONE_LEFT = (errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """The other end of a connection."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class AcceptedSocket:
    """A connection that was made to a listener of this process."""

    descriptor: int
    inode: int
    listener_port: int
    peer: PeerAddress


class Strangers:
    """Who is connected to one listener, and has not been admitted. Belongs to the event loop."""

    def __init__(self, hang_ups: HangUps, *, connections_max: int, one_address: bool = False) -> None:
        """`connections_max`: beyond it the listener takes no connection. `one_address`: all of its connections come
        from one address, as behind a front of this process."""
        self.hang_ups = hang_ups
        self._connections_max = connections_max
        self._strangers_max = max(1, connections_max // _SHARE)
        self._of_address_max = self._strangers_max if one_address else max(1, self._strangers_max // _SHARE)
        self._admitted: dict[str, PeerAddress] = {}
        """By what gRPC calls them."""
        self._before_look: Collection[str] = ()
        self._since: dict[PeerAddress, float] = {}
        self._hung_up_on: Collection[PeerAddress] = ()
        """At the last look: gRPC takes a moment to close them."""
        self.short_of_places = False
        """Whether some were hung up on at the last look because there were too many."""
        self.connections = 0
        """How many there were at the last look, with those that were hung up on then."""

    @property
    def count(self) -> int:
        """Strangers at the last look."""
        return len(self._since)

    def admitted(self, connection: str) -> None:
        """A call of this connection was let in; gRPC's name of its peer."""
        if connection not in self._admitted:
            self._admitted[connection] = peer_of_grpc(connection)

    def begin_look(self) -> None:
        """The sockets are looked at from now on: a connection that is admitted meanwhile may not be among them."""
        self._before_look = tuple(self._admitted)

    def judge(self, now: float, sockets: Collection[AcceptedSocket]) -> list[tuple[AcceptedSocket, str]]:
        """Which to hang up on, and why, of all connections that the look that was begun has seen."""
        peers = {accepted.peer for accepted in sockets}
        for connection in self._before_look:
            if self._admitted[connection] not in peers:
                del self._admitted[connection]
        admitted = set(self._admitted.values())
        self.connections = len(sockets)
        before = self._since
        self._since = {peer: before.get(peer, now) for peer in peers - admitted}
        by_peer = {accepted.peer: accepted for accepted in sockets}
        # The oldest last: they are taken from the end.
        waiting = sorted(
            self._since, key=lambda peer: (self._since[peer], peer.host, peer.port), reverse=True
        )
        leaving: dict[PeerAddress, str] = {}
        while waiting and now >= self._since[waiting[-1]] + STRANGER_S:
            leaving[waiting.pop()] = NOT_IN_TIME
        late = len(leaving)
        places_left = self._connections_max - len(sockets) + len(leaving)
        runs_out = places_left < self._connections_max // 2
        may_leave = [peer for peer in reversed(waiting) if runs_out or now >= self._since[peer] + SPARED_S]
        of_address = Counter(counted_address(peer.host) for peer in waiting)
        most = _level(of_address.values(), self._strangers_max, self._of_address_max)
        for peer in may_leave:
            address = counted_address(peer.host)
            if of_address[address] > most:
                enough = of_address[address] > self._of_address_max
                leaving[peer] = ADDRESS_HAS_ENOUGH if enough else MADE_WAY
                of_address[address] -= 1
        # Where each address has one and these are too many: the oldest.
        surplus = max(0, of_address.total() - self._strangers_max)
        for peer in [peer for peer in may_leave if peer not in leaving][:surplus]:
            leaving[peer] = MADE_WAY
        self.short_of_places = len(leaving) > late
        for peer, reason in leaving.items():
            if peer not in self._hung_up_on:
                self.hang_ups.count(reason, counted_address(peer.host))
        self._hung_up_on = leaving.keys()
        return [(by_peer[peer], reason) for peer, reason in leaving.items()]

    @property
    def full(self) -> str:
        """Says that the listener takes no connection; empty while it does."""
        if self.connections < self._connections_max:
            return ""
        return (
            f"the {self.hang_ups.listener} listener has {self.connections} connections, as many as it takes: "
            "newcomers are refused"
        )


def _level(counts: Collection[int], all_max: int, each_max: int) -> int:
    """How many each address may have, at least one, so that all have at most `all_max`: those with the most give way to
    those with few."""
    low, high = 1, each_max
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(count, middle) for count in counts) <= all_max:
            low = middle
        else:
            high = middle - 1
    return low


class OpenSockets:
    """The sockets that this process accepted on some ports. Any thread may look, one at a time."""

    def __init__(self, ports: Collection[int]) -> None:
        self._ports = frozenset(ports)
        self._looked_at: dict[int, tuple[int, AcceptedSocket | None]] = {}
        """By descriptor: the inode that it was then, and what it is."""

    def look(self) -> list[AcceptedSocket]:
        """Those that are open. Raises `OSError` where the process has no descriptor left to look with."""
        before, looked_at = self._looked_at, {}
        for name in os.listdir(_FILES):
            descriptor = int(name)
            try:
                status = os.fstat(descriptor)
            except OSError:
                continue  # closed meanwhile
            if not stat.S_ISSOCK(status.st_mode):
                continue
            inode, accepted = before.get(descriptor, (-1, None))
            if inode != status.st_ino:
                accepted = self._accepted(descriptor, status.st_ino)
            looked_at[descriptor] = status.st_ino, accepted
        self._looked_at = looked_at
        return [accepted for _, accepted in self._looked_at.values() if accepted is not None]

    def hang_up_on(self, accepted: AcceptedSocket) -> None:
        """Shut the connection down; gRPC closes it then. Does nothing when it is gone. Raises as `look`."""
        for connection in _duplicate(accepted.descriptor, accepted.inode):
            with closing(connection):
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # it has just ended

    def _accepted(self, descriptor: int, inode: int) -> AcceptedSocket | None:
        for connection in _duplicate(descriptor, inode):
            with closing(connection):
                try:
                    if connection.family not in (socket.AF_INET, socket.AF_INET6):
                        return None
                    port = connection.getsockname()[1]
                    if port not in self._ports:
                        return None
                    host, peer_port, *_ = connection.getpeername()
                except OSError:
                    return None  # it listens, or has ended
                return AcceptedSocket(descriptor, inode, port, _peer(host, peer_port))
        return None


def _duplicate(descriptor: int, inode: int) -> Iterator[socket.socket]:
    """The socket of that descriptor; none when the descriptor is another one by now."""
    try:
        copy = os.dup(descriptor)
    except OSError as error:
        if error.errno in _NONE_LEFT:
            raise
        return
    status = os.fstat(copy)
    # Files of other kinds count their inodes for themselves.
    if stat.S_ISSOCK(status.st_mode) and status.st_ino == inode:
        yield socket.socket(fileno=copy)
    else:
        os.close(copy)


def peer_of_grpc(connection: str) -> PeerAddress:
    """`ipv4:192.0.2.1:5000` and `ipv6:%5B::1%5D:5000` as an address."""
    host, _, port = unquote(connection).partition(":")[2].rpartition(":")
    return _peer(host.strip("[]"), int(port) if port.isdecimal() else 0)


def _peer(host: str, port: int) -> PeerAddress:
    plain = host.partition("%")[0]
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return PeerAddress(plain, port)
    return PeerAddress(str(getattr(address, "ipv4_mapped", None) or address), port)


async def watch(strangers: Mapping[int, Strangers]) -> NoReturn:
    """Look again and again, until cancelled. `strangers` of each listener by its port."""
    sockets = OpenSockets(strangers)
    while True:
        began = time.monotonic()
        for listener in strangers.values():
            listener.begin_look()
        try:
            accepted = await asyncio.to_thread(sockets.look)
        except OSError as error:
            if error.errno not in _NONE_LEFT:
                raise
            # Whatever took the last descriptor: the broker goes on, and looks once there is one.
            await asyncio.sleep(_LOOK_S)
            continue
        now = time.monotonic()
        leaving = [
            each
            for port, listener in strangers.items()
            for each, _ in listener.judge(now, [item for item in accepted if item.listener_port == port])
        ]
        for each in leaving:
            try:
                sockets.hang_up_on(each)
            except OSError as error:
                if error.errno not in _NONE_LEFT:
                    raise
                break  # at the next look
        took_s = time.monotonic() - began
        if any(listener.short_of_places for listener in strangers.values()):
            # Those that were hung up on come back at once, and would take all places again before newcomers come.
            await asyncio.sleep(max(_LOOK_IN_A_FLOOD_S, took_s / _LOOKS_SHARE_IN_A_FLOOD))
        else:
            await asyncio.sleep(max(_LOOK_S, took_s / _LOOKS_SHARE))
