"""The simulated network: hosts, links with latency and cuts, listeners, and connections between processes.

A link is one direction between two hosts. What is on its way over a cut link is held, as retransmission
would, and arrives after the heal; a connection that stays cut too long is reset. Within one direction of
one connection frames keep their order; nothing orders different connections. A killed process' connections
are reset by its kernel; a host that lost its power is silent until it is up again and then resets what it
does not know.

Everything on the wire belongs to the simulation, not to the sender: pausing or killing a process takes
nothing back.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

from daemon.identity import Identity
from data_plane.authz.peers import PeerRules
from data_plane.node.ports import Service
from data_plane.testkit.loop import Process, SimLoop
from penstock.contract import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTiming:
    """Latency of a link, in ms, one way."""

    base_ms: float = 0.1
    jitter_ms: float = 0.2
    tail_chance: float = 0.0
    tail_ms: float = 0.0
    bytes_per_ms: float = 100_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """How the whole network behaves; drawn per seed."""

    timing: LinkTiming = LinkTiming()
    window_bytes: int = 256 * limits.KIB
    """Sent and not yet taken by the receiver, per direction of a connection; one frame may overdraw it."""
    eager_connect_chance: float = 0.0
    """A connect that returns before the peer answered, as on a channel that believes itself open."""
    cancel_chance: float = 0.5
    """When the client's side of a stream or call is gone, the server's handler is cancelled, or else finds
    out.
    """
    give_up_ms: float = 20_000.0
    """A connection whose link was down this long is reset on the sending side."""


class Link:
    """One direction between two hosts."""

    __slots__ = ("cut", "extra_ms", "waiting")

    def __init__(self) -> None:
        self.cut = False
        self.extra_ms = 0.0
        self.waiting: deque[Callable[[], None]] = deque()
        """What to do when the link is healed."""


@dataclass(slots=True, kw_only=True)
class Listener:
    """A process that accepts connections at an address."""

    host: str
    process: Process
    service: Service
    identity: Identity | None
    """Of the broker, on listeners for processes of the cluster; None on those of clients."""
    rules: PeerRules | None = None
    """Who may call what, on the same ones."""
    failed: Callable[[Exception], None] | None = None
    """Called when a handler raises what it must not: the process then ends."""


class End(Protocol):
    """One end of a connection, as the network knows it (`data_plane.testkit.connection.Endpoint`)."""

    @property
    def process(self) -> Process: ...

    @property
    def host(self) -> str: ...

    @property
    def peer_host(self) -> str: ...

    @property
    def peer_end(self) -> Self | None: ...

    def lose(self, reason: str) -> None: ...

    def lose_later(self, reason: str) -> None: ...


class Network:
    """All hosts, links and connections of one simulation."""

    def __init__(self, loop: SimLoop, seed: str | int, settings: NetworkSettings | None = None) -> None:
        self.loop = loop
        self.settings = settings or NetworkSettings()
        self.rng = random.Random(f"{seed}/network")
        self._links: dict[tuple[str, str], Link] = {}
        self._listeners: dict[str, Listener] = {}
        self._hosts: dict[str, str] = {}
        """Address -> host, also while no process listens there."""
        self._dark: dict[str, list[End]] = {}
        """Hosts without power, with the peers' endpoints that do not know it."""
        self._endpoints: dict[Process, dict[End, None]] = {}
        self._ports = 0
        self.resets = 0

    # -- hosts and listeners --------------------------------------------------------------------------

    def listen(self, address: str, listener: Listener) -> None:
        self._hosts[address] = listener.host
        self._listeners[address] = listener

    def listener(self, address: str) -> Listener | None:
        return self._listeners.get(address)

    def host_of(self, address: str) -> str:
        """The host of an address; an address without a listener so far is a host of its own."""
        return self._hosts.get(address, address)

    def ask_dark(self, host: str, endpoint: End) -> bool:
        """False when the host has power. Else the asker hears nothing until it is up, or gives up before."""
        if host not in self._dark:
            return False
        self._dark[host].append(endpoint)
        self.after(self.settings.give_up_ms / 1000, endpoint.lose, "timed out")
        return True

    def process_ended(self, process: Process) -> None:
        """The process is gone, and its kernel resets its connections."""
        for peer in self._take_away(process):
            peer.lose_later("reset: the peer's process is gone")

    def power_lost(self, host: str, process: Process | None) -> None:
        """The host is gone: silence. `process` is the one that ran there."""
        self._dark.setdefault(host, [])
        if process is not None:
            self._dark[host].extend(self._take_away(process))

    def _take_away(self, process: Process) -> list[End]:
        """Its listeners and its ends of connections; the other ends are returned."""
        for address in [a for a, listener in self._listeners.items() if listener.process is process]:
            del self._listeners[address]
        ends = list(self._endpoints.pop(process, {}))
        return [end.peer_end for end in ends if end.peer_end is not None]

    def host_up(self, host: str) -> None:
        """The host has power again: it answers what reaches it for its former life with resets."""
        for endpoint in self._dark.pop(host, []):
            endpoint.lose_later("reset: the peer's host was restarted")

    # -- links ----------------------------------------------------------------------------------------

    def link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link()
        return link

    def cut(self, source: str, target: str) -> None:
        """Nothing gets from source to target any more."""
        self.link(source, target).cut = True

    def heal(self, source: str, target: str) -> None:
        link = self.link(source, target)
        if link.cut:
            link.cut = False
            waiting, link.waiting = link.waiting, deque()
            for resume in waiting:
                resume()

    def heal_all(self) -> None:
        for source, target in list(self._links):
            self.heal(source, target)
            self.link(source, target).extra_ms = 0.0

    def reset_between(self, one: str, other: str) -> int:
        """Reset every connection between two hosts; how many there were."""
        found = [
            endpoint
            for endpoints in self._endpoints.values()
            for endpoint in endpoints
            if endpoint.host == one and endpoint.peer_host == other
        ]
        for endpoint in found:
            endpoint.lose_later("reset by the network")
            if endpoint.peer_end is not None:
                endpoint.peer_end.lose_later("reset by the network")
        return len(found)

    def delay_s(self, link: Link, size: int) -> float:
        timing, rng = self.settings.timing, self.rng
        ms = timing.base_ms + timing.jitter_ms * rng.random() + size / timing.bytes_per_ms + link.extra_ms
        if timing.tail_chance and rng.random() < timing.tail_chance:
            ms += timing.tail_ms * rng.random()
        return ms / 1000

    def after(self, seconds: float, action: Callable[..., None], *args: object) -> None:
        """Do something later, as the network and not as the caller."""
        self.loop.call_at(self.loop.time() + seconds, action, *args, context=self.loop.outside.context)

    def once_open(self, link: Link, action: Callable[[], None]) -> None:
        """Do something when the link is open: now or at the heal."""
        if link.cut:
            link.waiting.append(action)
        else:
            action()

    # -- connections ----------------------------------------------------------------------------------

    def new_peer_name(self, host: str) -> str:
        self._ports += 1
        return f"{host}:{40_000 + self._ports % 20_000}"

    def register(self, endpoint: End) -> None:
        self._endpoints.setdefault(endpoint.process, {})[endpoint] = None

    def forget(self, endpoint: End) -> None:
        self._endpoints.get(endpoint.process, {}).pop(endpoint, None)
