"""Cordons: put on, taken off, by generation; and when a broker may be forgotten."""

import pytest

from data_plane.controller.cordons import cordon, forget_broker
from data_plane.metadata import broker_records, model
from data_plane.metadata.port import Delete
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.ids import BrokerId

from .setup import Store, record

FOUR = BrokerId(4)


def put(store: Store, *, cordoned: bool, generation: int = 0) -> bool:
    """Whether anything had to be written."""
    change = cordon(store.image, FOUR, cordoned=cordoned, generation=generation)
    if change.changes:
        assert store.txn(change.compares, change.changes)
    return bool(change.changes)


def test_a_cordon_outlasts_the_broker_and_is_taken_off_again() -> None:
    store = Store((1, 2, 3, 4))
    assert put(store, cordoned=True)
    assert not put(store, cordoned=True)
    store.broker(4)
    assert store.image.cordoned(FOUR)
    assert put(store, cordoned=False)
    assert not store.image.cordoned(FOUR)


def test_a_lower_generation_is_ignored() -> None:
    store = Store((1, 2, 3, 4))
    assert put(store, cordoned=True, generation=2)
    assert cordon(store.image, FOUR, cordoned=False, generation=1).ignored
    assert store.image.cordoned(FOUR)


def test_an_unknown_broker_has_no_cordon() -> None:
    with pytest.raises(NotFound):
        cordon(Store().image, FOUR, cordoned=True)


def test_a_broker_is_forgotten_only_when_it_was_drained_stopped_and_holds_nothing() -> None:
    store = Store((1, 2, 3, 4))
    store.topic(record(replicas=(1, 2, 4), in_sync=(1, 2)))
    with pytest.raises(InvalidRequest, match="drain it first"):
        forget_broker(store.image, FOUR)
    put(store, cordoned=True)
    with pytest.raises(InvalidRequest, match="it still runs"):
        forget_broker(store.image, FOUR)
    assert store.txn((), (Delete(broker_records.live_key(4)),))
    with pytest.raises(InvalidRequest, match="it still holds orders-0"):
        forget_broker(store.image, FOUR)
    block = model.block_key(next(iter(store.image.topics)), 0)
    store.put(block, model.encode_block({0: record(partition_epoch=9)}))
    change = forget_broker(store.image, FOUR)
    assert store.txn(change.compares, change.changes)
    assert FOUR not in store.image.brokers and not store.image.cordoned(FOUR)
    assert not forget_broker(store.image, FOUR).changes
