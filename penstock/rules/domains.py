"""Failure domains: in which zone and on which host each broker is, and what is wrong with how they are named. Pure.

    zone > host > broker

A zone holds hosts, a host holds brokers. A broker that names no host is alone on one of its own; a host that names no
zone is a zone of its own. A host is one machine, so it is in one zone: where its brokers name several, the one that its
broker with the lowest id names counts for all of them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

ACTIVE = "active"


class Located(Protocol):
    """What must be known of a broker."""

    @property
    def id(self) -> int: ...
    @property
    def zone(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def state(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedBroker:
    """A broker, where nothing else of it matters."""

    id: int
    zone: str
    host: str
    state: str = ACTIVE


class Location(NamedTuple):
    """Where a broker is."""

    zone: str
    host: str


class Crowd(NamedTuple):
    """How many copies of a partition others have in the zone and on the host of a broker. Less is better."""

    in_zone: int
    on_host: int


def locations(brokers: Iterable[Located]) -> dict[int, Location]:
    """The location of each broker, whatever the order of `brokers`."""
    zone_of: dict[str, str] = {}
    found: dict[int, Location] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        host = host_of(broker)
        found[broker.id] = Location(zone_of.setdefault(host, broker.zone or host), host)
    return found


def host_of(broker: Located) -> str:
    """The name of its host; of its own where it names none."""
    return broker.host or unnamed_host(broker.id)


def unnamed_host(broker: int) -> str:
    """The host of a broker that names none."""
    return f"broker {broker}"


def most_together(where: Mapping[int, Location], partitions: Iterable[Sequence[int]]) -> Crowd | None:
    """The most copies that any of these partitions has in one zone, and on one host. None = one is on a broker that is
    not in `where`."""
    in_zone = on_host = 0
    for replicas in partitions:
        if any(broker not in where for broker in replicas):
            return None
        copies = Copies(where, replicas)
        around = [copies.around(broker) for broker in replicas]
        in_zone = max([in_zone, *(crowd.in_zone for crowd in around)])
        on_host = max([on_host, *(crowd.on_host for crowd in around)])
    return Crowd(in_zone, on_host)


class Copies:
    """Where the copies of one partition are, counted by zone and by host."""

    def __init__(self, where: Mapping[int, Location], replicas: Iterable[int]) -> None:
        """A replica's broker that is not in `where` is alone, as far as is known."""
        self._where = where
        stored = [self._location(broker) for broker in replicas]
        self._zones = Counter(location.zone for location in stored)
        self._hosts = Counter(location.host for location in stored)

    def _location(self, broker: int) -> Location:
        host = unnamed_host(broker)
        return self._where.get(broker, Location(host, host))

    def around(self, broker: int) -> Crowd:
        """The copies in the zone and on the host of this broker; one of its own counts as well."""
        location = self._location(broker)
        return Crowd(self._zones[location.zone], self._hosts[location.host])

    def gain(self, source: int, destination: int) -> Crowd:
        """By how much fewer others the copy of `source` has around it if it goes to `destination`: in the zone, on the
        host. Less than (0, 0): the copies would be spread worse."""
        before, after = self._location(source), self._location(destination)
        others = Crowd(self._zones[before.zone] - 1, self._hosts[before.host] - 1)
        then = Crowd(
            self._zones[after.zone] - (before.zone == after.zone),
            self._hosts[after.host] - (before.host == after.host),
        )
        return Crowd(others.in_zone - then.in_zone, others.on_host - then.on_host)


def warnings(brokers: Sequence[Located]) -> dict[int, tuple[str, ...]]:
    """By broker, what an operator should correct or know, each a sentence. Brokers with nothing are left out."""
    where = locations(brokers)
    named: dict[str, list[Located]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        named.setdefault(host_of(broker), []).append(broker)
    found: dict[int, list[str]] = {}
    for host, on_it in named.items():
        first = on_it[0]
        for broker in on_it[1:]:
            mine, counted = broker.zone or host, first.zone or host
            if mine != counted:
                found.setdefault(broker.id, []).append(
                    f"host {host} is in zone {counted} by broker {first.id} and in zone {mine} by broker {broker.id};"
                    f" {counted} counts, so correct the zone or the host of one of them"
                )
    alive = {where[broker.id].zone for broker in brokers if broker.state == ACTIVE}
    for broker in brokers:
        zone = where[broker.id].zone
        if zone not in alive and alive:
            found.setdefault(broker.id, []).append(
                f"zone {zone} has no active broker; new partitions and moves use the other {len(alive)}"
            )
    return {broker: tuple(texts) for broker, texts in found.items()}
