"""Failure domains: who shares a zone or a host, and what an operator should correct."""

from data_plane.placement.planner import BrokerView, plan
from penstock.rules.domains import Location, locations, warnings


def test_a_broker_without_host_is_alone_and_a_host_without_zone_is_a_zone() -> None:
    brokers = [BrokerView(id=1), BrokerView(id=2, host="x"), BrokerView(id=3, zone="a", host="y")]
    assert locations(brokers) == {
        1: Location("broker 1", "broker 1"),
        2: Location("x", "x"),
        3: Location("a", "y"),
    }
    assert warnings(brokers) == {}


def test_a_host_named_in_two_zones_counts_in_one_and_is_warned_of() -> None:
    brokers = [
        BrokerView(id=4, zone="b", host="x"),
        BrokerView(id=1, zone="a", host="x"),
        BrokerView(id=2, zone="b", host="y"),
        BrokerView(id=3, zone="a", host="z"),
    ]
    assert locations(brokers)[4] == Location("a", "x")
    assert warnings(brokers) == {
        4: (
            "host x is in zone a by broker 1 and in zone b by broker 4; a counts, so correct the zone or the host of"
            " one of them",
        )
    }
    assert all(not {1, 4} <= set(assignment) for assignment in plan(20, 2, brokers))


def test_a_zone_without_an_active_broker_is_warned_of_at_each_of_its_brokers() -> None:
    brokers = [
        BrokerView(id=1, zone="a"),
        BrokerView(id=2, zone="b", state="fenced"),
        BrokerView(id=3, zone="b", state="draining"),
    ]
    text = "zone b has no active broker; new partitions and moves use the other 1"
    assert warnings(brokers) == {2: (text,), 3: (text,)}


def test_what_is_warned_of_does_not_depend_on_the_order_of_the_brokers() -> None:
    brokers = [BrokerView(id=n, zone="ab"[n % 2], host="x") for n in range(4)]
    assert warnings(brokers) == warnings(brokers[::-1])
    assert sorted(warnings(brokers)) == [1, 3]
