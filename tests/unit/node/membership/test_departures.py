"""A fenced broker leaves all that it led and was in sync with in few transactions, before it registers again (RL42)."""

import asyncio
from collections.abc import Sequence
from typing import Any

from data_plane.metadata import broker_records
from data_plane.metadata.port import CHANGES_PER_TXN_MAX, Change, Compare, Delete, TxnResult
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from penstock.contract.ids import BrokerId, TopicId
from tests.unit.controller.setup import Store, record
from tests.unit.node.storage import CONFIG

TOPICS = 500
ME = CONFIG.broker_id


class Written:
    """The metadata store, as the broker writes to it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.sizes = list[int]()

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        assert len(compares) <= CHANGES_PER_TXN_MAX
        self.sizes.append(len(changes))
        return TxnResult(self._store.txn(compares, changes), self._store.revision)


def departing(store: Store, written: Written) -> Registration:
    """Its view is always as new as the store."""
    nobody: Any = None
    to_store: Any = written
    view = MetadataView(nobody, CONFIG.timings)
    view.image = store.image
    return Registration(
        CONFIG, "directory", view, to_store, nobody, nobody,
        data_lost=lambda topic_id: False, damaged=lambda where: False,
        gained=lambda: None, lost=lambda reason: None,
    )  # fmt: skip


def filled() -> Store:
    store = Store((ME, 7, 8))
    everybody = (ME, BrokerId(7), BrokerId(8))
    for number in range(TOPICS):
        one = record(everybody, replicas=everybody, leader=ME)
        store.topic(one, topic_id=TopicId(number.to_bytes(16, "big")), name=f"topic-{number}")
    return store


def test_many_partitions_are_left_in_few_transactions() -> None:
    store = filled()
    store.txn((), (Delete(broker_records.live_key(ME)),))
    written = Written(store)
    assert asyncio.run(departing(store, written)._depart(store.revision, False))
    left = [store.image.partitions_of(topic_id)[0] for topic_id in store.image.topics]
    assert all(ME not in one.in_sync and one.leader != ME for one in left)
    assert sum(written.sizes) == TOPICS
    assert len(written.sizes) <= TOPICS / (CHANGES_PER_TXN_MAX - 2) + 1


def test_a_broker_that_is_registered_meanwhile_does_not_go_on() -> None:
    store = filled()
    assert not asyncio.run(departing(store, Written(store))._depart(store.revision, False))
