"""Replicas that a broker gives up before it registers: they may miss what they acknowledged, and are not alone."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from data_plane.log.outcomes import DamagedRange
from data_plane.node.membership.located import located
from data_plane.node.replicas.distrust import Distrust, is_sole
from data_plane.node.replicas.replica_set import ReplicaSet
from penstock.contract.ids import BrokerId
from penstock.contract.topic_settings import Durability
from penstock.rules.domains import LocatedBroker
from tests.unit.controller.setup import ORDERS, Store, record
from tests.unit.log.miniature import TOPIC, Miniature, where
from tests.unit.node.replicas.test_follower_stream import led

pytestmark = pytest.mark.pure  # stand-ins for what mypyc gives a type

ALONE = record((1,), replicas=(1,), replica_generations=(1,))


def distrusting(
    store: Store, *, clean: bool = True, damaged: tuple[int, ...] = (), opened: tuple[int, ...] = ()
) -> tuple[Distrust, ReplicaSet]:
    """Partitions by number: `damaged` ones, of which those in `opened` could be opened all the same."""
    replicas = ReplicaSet()
    booted = SimpleNamespace(
        opened=[SimpleNamespace(where=where(number)) for number in opened],
        damaged=dict.fromkeys(map(where, damaged), "why"),
    )
    return Distrust(
        store.image, cast(Any, SimpleNamespace(clean=clean)), cast(Any, booted), replicas
    ), replicas


@pytest.mark.parametrize("durability", Durability)
@pytest.mark.parametrize("clean", [True, False])
def test_only_relaxed_topics_lose_data_and_only_in_a_crash(durability: Durability, clean: bool) -> None:
    store = Store()
    store.topic(record(), durability=durability)
    distrust, _ = distrusting(store, clean=clean)
    assert distrust.data_lost(ORDERS) is (durability is not Durability.FSYNC and not clean)


def test_a_directory_of_which_nothing_was_opened_is_distrusted_until_it_was_given_up() -> None:
    distrust, _ = distrusting(Store(), damaged=(1, 2), opened=(2,))
    assert [distrust.is_damaged(where(number)) for number in (0, 1, 2)] == [False, True, False]
    distrust.gave_up()
    assert not distrust.is_damaged(where(1))


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("why", ["well", "its data", "its directory"])
def test_a_damaged_replica_is_given_up_unless_it_is_the_only_one(alone: bool, why: str) -> None:
    store = Store()
    store.topic(ALONE if alone else record(), topic_id=TOPIC)
    gone = (0,) if why == "its directory" else ()
    distrust, replicas = distrusting(store, damaged=gone)
    replica = led(Miniature())
    replicas.add(replica)
    if why == "its data":
        replica.log.scrub.found_damage(DamagedRange(0, 2, "read badly"))
        replica.notice_damage()
    assert distrust.is_damaged(where(0)) is (why != "well" and not alone)


def test_the_only_replica_is_known_by_its_record() -> None:
    assert is_sole(ALONE) and not is_sole(record()) and not is_sole(None)


def test_every_broker_that_the_metadata_knows_is_located() -> None:
    store = Store((1, 2))
    store.broker(2, draining=True)
    store.broker(3)
    assert located(store.image) == [
        LocatedBroker(id=BrokerId(1), zone="z1", host="h1", state="active"),
        LocatedBroker(id=BrokerId(2), zone="z2", host="h2", state="fenced"),
        LocatedBroker(id=BrokerId(3), zone="z3", host="h3", state="fenced"),
    ]
