"""The feature level: raised only over brokers that support it, checked by each broker that comes, closed to 0.1."""

import json

import pytest

from data_plane.controller.features import at_level, below, set_level
from data_plane.controller.registration import Register, registration
from data_plane.metadata import broker_records
from data_plane.metadata.broker_records import BrokerRecord, ClusterRecord, LiveRecord
from data_plane.metadata.features import (
    FEATURES_KEY,
    HIGHEST,
    LEVELS,
    FeaturesRecord,
    Supported,
    VersionRecord,
    refusal,
    version_key,
)
from data_plane.metadata.port import Delete
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import BrokerId

from .setup import Store


def cluster(*versions: tuple[int, int] | None) -> Store:
    """At level 1, with a broker for each (lowest, highest) level; None = one that registers neither."""
    store = Store(())
    store.put(broker_records.CLUSTER_KEY, ClusterRecord(cluster_id="c").encode())
    for number, levels in enumerate(versions, start=1):
        store.broker(number)
        store.register(number)
        if levels is not None:
            said(store, number, *levels)
    return store


def said(store: Store, number: int, lowest: int, highest: int, incarnation: str = "") -> None:
    record = VersionRecord(
        incarnation=incarnation or f"i{number}", version="0.2.0", level_min=lowest, level_max=highest
    )
    store.put(version_key(number), record.encode(), session_id=number)


def raised(store: Store, level: int) -> bool:
    change = set_level(store.image, level)
    return store.txn(change.compares, change.changes)


def test_a_level_is_raised_once_every_registered_broker_supports_it() -> None:
    store = cluster((1, 2), (1, 2))
    assert store.image.level == 1
    assert raised(store, 2)
    assert (store.image.level, store.image.cluster_id) == (2, "c")
    assert set_level(store.image, 2).changes == ()


def test_a_broker_without_a_version_is_one_of_the_release_before_and_keeps_the_level_down() -> None:
    store = cluster((1, 2), None, (1, 1))
    with pytest.raises(
        InvalidRequest, match=r"broker 2 \(Penstock 0\.1\) supports 1 to 1, broker 3 .*or stop them"
    ):
        set_level(store.image, 2)
    assert below(store.image, 2) == [BrokerId(2), BrokerId(3)]


def test_what_an_earlier_registration_said_does_not_count_for_a_later_one_without_a_version() -> None:
    store = cluster((1, 2))
    store.register(1, incarnation="of release 0.1")
    assert store.image.supported_by(BrokerId(1)).highest == 1
    with pytest.raises(InvalidRequest):
        set_level(store.image, 2)


def test_a_broker_that_is_away_does_not_keep_the_level_down() -> None:
    store = cluster((1, 2), None)
    assert store.txn((), (ended(2),))
    assert raised(store, 2)


def test_two_operators_raise_a_level_once() -> None:
    store = cluster((1, 2))
    first, second = set_level(store.image, 2), set_level(store.image, 2)
    assert store.txn(first.compares, first.changes)
    assert not store.txn(second.compares, second.changes)


@pytest.mark.parametrize("key", [FEATURES_KEY, broker_records.CLUSTER_KEY])
def test_a_level_is_not_raised_over_what_has_changed_since(key: str) -> None:
    store = cluster((1, 2))
    assert store.txn((), at_level("c", 1))
    change = set_level(store.image, 2)
    store.put(key, store.items[key].value)
    assert not store.txn(change.compares, change.changes)


@pytest.mark.parametrize("level", [0, HIGHEST + 1])
def test_a_level_that_this_release_does_not_know_is_refused(level: int) -> None:
    with pytest.raises(InvalidRequest, match=f"level {level}: this release knows levels 1 to {HIGHEST}"):
        set_level(cluster((1, 2)).image, level)


def test_a_level_that_cannot_be_left_is_not_lowered() -> None:
    store = cluster((1, 2))
    assert raised(store, 2)
    assert not LEVELS[1].may_be_left
    with pytest.raises(InvalidRequest, match="the cluster is at level 2, and level 2 cannot be left"):
        set_level(store.image, 1)


def test_a_registration_is_not_applied_under_another_level_than_was_checked() -> None:
    store = cluster((1, 2))
    checked = store.image.features_revision
    assert raised(store, 2)
    record = BrokerRecord(
        broker_id=BrokerId(7), directory_id="d", client_address="c", internal_address="i", zone="z"
    )
    live, supported = LiveRecord(incarnation="a", directory_id="d"), Supported(version="0.2.0")
    late = registration(None, None, record, live, 9, supported, checked)
    assert isinstance(late, Register)
    assert not store.txn(late.compares, late.changes)
    step = registration(None, None, record, live, 9, supported, store.image.features_revision)
    assert isinstance(step, Register)
    assert store.txn(step.compares, step.changes)
    assert store.image.supported_by(BrokerId(7)) == supported
    assert store.items[version_key(7)].session_id == 9


def test_above_level_1_the_release_before_reads_another_cluster_id_that_says_what_it_needs() -> None:
    store = cluster((1, 2))
    assert json.loads(store.items[broker_records.CLUSTER_KEY].value) == {"cluster_id": "c"}
    assert raised(store, 2)
    assert json.loads(store.items[broker_records.CLUSTER_KEY].value) == {
        "cluster_id": "c (needs Penstock 0.2 or later)"
    }


def test_a_broker_says_what_to_do_about_a_level_that_it_does_not_support() -> None:
    supported = Supported(version="0.3.0", lowest=2, highest=3)
    assert refusal(2, supported) == refusal(3, supported) == ""
    assert refusal(4, supported) == (
        "the cluster is at feature level 4, this broker, Penstock 0.3.0, supports 2 to 3;"
        " start a newer version of the broker"
    )
    assert "raise the level with `penstock cluster features --raise`" in refusal(1, supported)


def test_a_cluster_that_begins_at_a_level_is_as_one_that_was_raised_to_it() -> None:
    begun, grown = Store(()), cluster((1, 2))
    assert begun.txn((), at_level("c", 2))
    assert raised(grown, 2)
    for key in (broker_records.CLUSTER_KEY, FEATURES_KEY):
        assert begun.items[key].value == grown.items[key].value


def test_later_releases_may_add_to_the_records() -> None:
    assert FeaturesRecord.decode(b'{"level":3,"since":"2027"}').level == 3
    later = b'{"incarnation":"a","version":"9","level_min":3,"level_max":4,"colour":"blue"}'
    assert VersionRecord.decode(later).supported == Supported(version="9", lowest=3, highest=4)


def ended(broker: int) -> Delete:
    return Delete(broker_records.live_key(broker))
