"""Clusters with zones and hosts for tests of placement, and whether copies are closer to each other than needed."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import strategies as st

from data_plane.placement.planner import BrokerView
from penstock.rules.domains import locations


@st.composite
def clusters(draw: st.DrawFn) -> list[BrokerView]:
    """Up to twelve brokers; some name a zone, some a host, some both."""
    count = draw(st.integers(1, 12))
    zones, hosts = draw(st.integers(1, count)), draw(st.integers(1, count))
    brokers = []
    for number in range(count):
        zone = f"z{draw(st.integers(0, zones))}" if draw(st.booleans()) else ""
        brokers.append(
            BrokerView(
                id=number * 3,
                zone=zone,
                host=f"{zone}h{draw(st.integers(0, hosts))}" if draw(st.booleans()) else "",
                replicas=draw(st.integers(0, 60)),
                leaders=draw(st.integers(0, 20)),
                state=draw(st.sampled_from(["active", "active", "active", "draining", "fenced"])),
            )
        )
    return brokers


def closer_than_needed(replicas: Sequence[int], brokers: Sequence[BrokerView]) -> list[tuple[int, int]]:
    """(source, destination): active brokers of which the second would have the copy of the first further from others.

    Fewer copies in the fullest zone count first, then fewer on the fullest host.
    """
    where = locations(brokers)
    active = [broker.id for broker in brokers if broker.state == "active"]
    found = []
    for source in replicas:
        for destination in active:
            if destination in replicas or source not in active:
                continue
            moved = [destination if number == source else number for number in replicas]
            if unevenness(moved, [where[n].zone for n in moved], [where[n].host for n in moved]) < unevenness(
                replicas, [where[n].zone for n in replicas], [where[n].host for n in replicas]
            ):
                found.append((source, destination))
    return found


def unevenness(replicas: Sequence[int], zones: Sequence[str], hosts: Sequence[str]) -> tuple[int, int]:
    """Pairs of copies that share a zone, and pairs that share a host."""
    assert len(set(replicas)) == len(replicas)
    return _pairs(zones), _pairs(hosts)


def _pairs(names: Sequence[str]) -> int:
    return sum(count * (count - 1) // 2 for count in Counter(names).values())
