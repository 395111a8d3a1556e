"""Registration, draining and the controller key: authority is taken once, and fenced before it is given anew."""

import pytest

from data_plane.controller.registration import (
    AlreadyRegistered,
    FenceFirst,
    Register,
    draining_changes,
    may_stop,
    registration,
    takeover_changes,
)
from data_plane.metadata import broker_records
from data_plane.metadata.broker_records import BrokerRecord, LiveRecord
from data_plane.metadata.features import Supported
from penstock.contract.ids import NO_BROKER, BrokerId

from .setup import Store, record


def ask(store: Store, incarnation: str, broker: int = 1) -> AlreadyRegistered | FenceFirst | Register:
    about = BrokerRecord(
        broker_id=BrokerId(broker), directory_id="d", client_address="c", internal_address="i", zone="z"
    )
    return registration(
        store.items.get(broker_records.live_key(broker)),
        store.items.get(broker_records.broker_key(broker)),
        about,
        LiveRecord(incarnation=incarnation, directory_id="d"),
        9,
        Supported(version="0.2.0", lowest=1, highest=2),
        store.image.features_revision,
    )


def test_a_first_registration_puts_both_keys_and_the_live_one_ends_with_the_session() -> None:
    store = Store(())
    step = ask(store, "a")
    assert isinstance(step, Register)
    assert store.txn(step.compares, step.changes)
    assert store.items[broker_records.live_key(1)].session_id == 9
    assert store.image.epoch_of(1) == store.revision
    assert store.image.brokers[BrokerId(1)].active


def test_a_retry_of_the_same_incarnation_has_the_same_epoch() -> None:
    store = Store(())
    step = ask(store, "a")
    assert isinstance(step, Register)
    store.txn(step.compares, step.changes)
    epoch = store.revision
    store.topic(record())
    assert ask(store, "a") == AlreadyRegistered(epoch)
    assert not store.txn(step.compares, step.changes)


def test_another_incarnation_is_fenced_first_and_gets_a_higher_epoch() -> None:
    store = Store()
    before = store.image.epoch_of(1)
    step = ask(store, "new")
    assert isinstance(step, FenceFirst)
    assert store.txn(step.compares, step.changes)
    assert store.image.epoch_of(1) == 0
    step = ask(store, "new")
    assert isinstance(step, Register)
    assert store.txn(step.compares, step.changes)
    assert store.image.epoch_of(1) > before


def test_a_late_fence_of_an_older_registration_does_nothing() -> None:
    store = Store()
    late = ask(store, "x")
    assert isinstance(late, FenceFirst)
    store.register(1, "newer")
    assert not store.txn(late.compares, late.changes)


def test_of_two_that_register_at_once_one_succeeds() -> None:
    store = Store(())
    one, two = ask(store, "a"), ask(store, "b")
    assert isinstance(one, Register)
    assert isinstance(two, Register)
    assert store.txn(one.compares, one.changes)
    assert not store.txn(two.compares, two.changes)


def test_registering_ends_a_drain() -> None:
    store = Store()
    store.broker(1, draining=True)
    store.txn((), ask(store, "b").changes)  # type: ignore[union-attr]
    step = ask(store, "b")
    assert isinstance(step, Register)
    store.txn(step.compares, step.changes)
    assert store.image.brokers[BrokerId(1)].active


# -- draining -------------------------------------------------------------------------------------------


def test_a_drain_is_written_under_the_own_registration_and_only_once() -> None:
    store = Store()
    changes = draining_changes(store.image, BrokerId(2))
    assert changes is not None
    assert store.txn(*changes)
    broker = store.image.brokers[BrokerId(2)]
    assert broker.record.draining
    assert not broker.active
    assert (broker.record.zone, broker.record.host) == ("z2", "h2")
    assert draining_changes(store.image, BrokerId(2)) is None


def test_a_fenced_broker_cannot_say_that_it_drains() -> None:
    store = Store()
    changes = draining_changes(store.image, BrokerId(2))
    assert changes is not None
    store.register(2, "anew")
    assert not store.txn(*changes)


def test_a_drained_broker_may_stop_when_it_leads_nothing() -> None:
    store = Store()
    store.topic(record(), record(partition=1, leader=2))
    assert not may_stop(store.image, BrokerId(1))
    assert may_stop(store.image, BrokerId(3))


# -- the controller key ---------------------------------------------------------------------------------


def take(store: Store, me: int, *, suspected: bool = False) -> bool:
    changes = takeover_changes(store.image, BrokerId(me), f"i{me}", 7, suspected=suspected)
    return changes is not None and store.txn(*changes)


def test_a_free_controller_key_is_taken() -> None:
    store = Store()
    assert store.image.controller_id == NO_BROKER
    assert take(store, 2)
    assert store.image.controller_id == 2
    assert store.items[broker_records.CONTROLLER_KEY].session_id == 7


def test_the_holder_and_an_unsuspecting_broker_take_nothing() -> None:
    store = Store()
    assert take(store, 2)
    assert not take(store, 2, suspected=True)
    assert not take(store, 1)


def test_a_suspected_controller_is_fenced_in_the_same_transaction() -> None:
    store = Store()
    take(store, 2)
    epoch = store.image.controller_epoch
    assert take(store, 1, suspected=True)
    assert store.image.controller_id == 1
    assert store.image.controller_epoch > epoch
    assert store.image.epoch_of(2) == 0


def test_of_two_that_take_over_one_succeeds() -> None:
    store = Store()
    take(store, 2)
    one = takeover_changes(store.image, BrokerId(1), "i1", 7, suspected=True)
    three = takeover_changes(store.image, BrokerId(3), "i3", 8, suspected=True)
    assert one is not None
    assert three is not None
    assert store.txn(*one)
    assert not store.txn(*three)
    assert store.image.epoch_of(1) != 0


def test_a_fenced_broker_takes_nothing() -> None:
    store = Store((1,))
    assert takeover_changes(store.image, BrokerId(2), "i2", 7, suspected=True) is None


@pytest.mark.parametrize("suspected", [False, True])
def test_my_key_of_an_earlier_life_is_taken_without_fencing_myself(suspected: bool) -> None:
    store = Store()
    take(store, 2)
    store.register(2, "i2-again")
    changes = takeover_changes(store.image, BrokerId(2), "i2-again", 7, suspected=suspected)
    assert changes is not None
    assert store.txn(*changes)
    assert store.image.epoch_of(2) != 0


def test_the_key_of_a_fenced_controller_is_taken_without_a_suspicion() -> None:
    store = Store()
    take(store, 2)
    live = store.items[broker_records.live_key(2)]
    step = ask(store, "other", 2)
    assert isinstance(step, FenceFirst)
    assert live.mod_revision == step.compares[0].mod_revision
    store.txn(step.compares, step.changes)
    assert take(store, 3)
