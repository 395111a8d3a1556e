"""What a topic survives, compared with every way in which copies can have been in sync and be lost."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.topic_settings import Durability
from penstock.rules.domains import Crowd, LocatedBroker, locations, most_together
from penstock.rules.survival import Survival, survival


def in_sync_sets(replication: int, least: int) -> Iterator[frozenset[int]]:
    for count in range(least, replication + 1):
        yield from map(frozenset, combinations(range(replication), count))


def is_lossless(replication: int, least: int, lost: frozenset[int]) -> bool:
    """Whatever was in sync when it was acknowledged, a copy is left."""
    return all(copies - lost for copies in in_sync_sets(replication, least))


def is_writable(replication: int, least: int, away: frozenset[int]) -> bool:
    return replication - len(away) >= least


@given(st.data())
def test_what_is_promised_holds_for_every_in_sync_set_and_no_more_is_possible(data: st.DataObject) -> None:
    replication = data.draw(st.integers(1, 5))
    least = data.draw(st.integers(1, replication))
    zones = [f"z{data.draw(st.integers(0, 3))}" for _ in range(replication)]
    hosts = [f"{zone}h{data.draw(st.integers(0, 2))}" for zone in zones]
    brokers = [LocatedBroker(id=n, zone=zones[n], host=hosts[n]) for n in range(replication)]
    found = survival(
        replication=replication,
        min_insync_replicas=least,
        durability=Durability.FSYNC,
        together=most_together(locations(brokers), [range(replication)]),
    )
    copies = range(replication)
    for count in range(replication + 1):
        ways = [frozenset(lost) for lost in combinations(copies, count)]
        assert (count <= found.failures_without_loss) == all(is_lossless(replication, least, w) for w in ways)
        assert (count <= found.failures_while_writable) == all(
            is_writable(replication, least, w) for w in ways
        )
    for names, lossless, writable in (
        (zones, found.zone_without_loss, found.zone_while_writable),
        (hosts, found.host_without_loss, found.host_while_writable),
    ):
        domains = [frozenset(n for n in copies if names[n] == name) for name in names]
        assert lossless == all(is_lossless(replication, least, domain) for domain in domains)
        assert writable == all(is_writable(replication, least, domain) for domain in domains)


def said(
    replication: int, least: int, together: Crowd | None, durability: Durability = Durability.FSYNC
) -> str:
    return survival(
        replication=replication, min_insync_replicas=least, durability=durability, together=together
    ).text


@pytest.mark.parametrize(
    ("replication", "least", "together", "sentences"),
    [
        (
            *(3, 2, Crowd(1, 1)),
            [
                "Nothing acknowledged is lost if 1 broker loses its disk.",
                "Writes go on while 1 copy is away.",
                "A whole zone may be lost: nothing is lost with it, and writes go on.",
            ],
        ),
        (
            *(3, 3, Crowd(1, 1)),
            [
                "Nothing acknowledged is lost if 2 brokers lose their disk.",
                "Writes are refused while any copy is away.",
                "A whole zone may be lost: nothing is lost with it,"
                " and writes are refused until enough copies are back.",
            ],
        ),
        (
            *(3, 2, Crowd(2, 1)),
            [
                "Nothing acknowledged is lost if 1 broker loses its disk.",
                "Writes go on while 1 copy is away.",
                "A zone has 2 of 3 copies: what was acknowledged last may be lost with it.",
                "A whole host may be lost: nothing is lost with it, and writes go on.",
            ],
        ),
        (
            *(5, 3, None),
            [
                "Nothing acknowledged is lost if 2 brokers lose their disk.",
                "Writes go on while 2 copies are away.",
            ],
        ),
        (
            *(3, 1, Crowd(1, 1)),
            [
                "A message may be acknowledged with one copy, and is lost if that broker loses its disk.",
                "Writes go on while 2 copies are away.",
                "No two copies share a zone.",
            ],
        ),
        (
            *(1, 1, Crowd(1, 1)),
            [
                "There is one copy: messages are lost with the disk of its broker.",
                "Nothing is written or read while that broker is away.",
            ],
        ),
    ],
)
def test_it_is_said_in_words(
    replication: int, least: int, together: Crowd | None, sentences: list[str]
) -> None:
    assert said(replication, least, together) == " ".join(sentences)


def test_a_topic_in_memory_loses_with_power_what_another_loses_with_its_disk() -> None:
    text = said(3, 2, None, Durability.REPLICATED)
    assert text.startswith("Nothing acknowledged is lost if 1 broker loses its power or disk.")


@pytest.mark.parametrize("replicas", [[(1, 2), (3, 9)], [(9,)]])
def test_of_zones_nothing_is_said_while_a_broker_is_not_known(replicas: Sequence[tuple[int, ...]]) -> None:
    where = locations([LocatedBroker(id=n, zone="a", host="") for n in (1, 2, 3)])
    assert most_together(where, replicas) is None
    assert most_together(where, [(1,), (2, 3)]) == Crowd(2, 1)
    found: Survival = survival(
        replication=3, min_insync_replicas=2, durability=Durability.FSYNC, together=None
    )
    assert (found.zone_without_loss, found.host_while_writable) == (None, None)
