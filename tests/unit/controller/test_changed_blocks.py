"""The controller looks at what changed, and at everything only when a broker did; never at much in one turn."""

import asyncio
from collections.abc import Iterator

import pytest

from data_plane.controller import elections
from data_plane.controller.changed_blocks import ChangedBlocks
from data_plane.controller.elections import plan
from data_plane.metadata import broker_records, model
from data_plane.metadata.image import BlockId
from data_plane.metadata.model import PARTITIONS_PER_BLOCK, PartitionRecord
from data_plane.metadata.port import Delete, Put
from data_plane.node.control.controller_seat import LOOKED_A_TURN, planned
from penstock.contract.ids import BrokerId, TopicId
from penstock.contract.topic_settings import Durability

from .setup import LOGS, ORDERS, Store, record

TOPICS = 2_000
MANY = 10**6


def topic_id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def add(store: Store, number: int, partitions: int = 1) -> BlockId:
    records = [record(partition=partition) for partition in range(partitions)]
    store.topic(*records, topic_id=topic_id(number), name=f"topic-{number}")
    return topic_id(number), 0


def looks(changed: ChangedBlocks, store: Store, records_max: int) -> Iterator[list[BlockId]]:
    while taken := changed.take(store.image, records_max):
        yield taken


@pytest.fixture
def store() -> Store:
    made = Store()
    for number in range(1, 6):
        add(made, number)
    return made


def test_at_first_every_block_is_looked_at_and_then_none(store: Store) -> None:
    changed = ChangedBlocks()
    assert changed.take(store.image, MANY) == [(topic_id(number), 0) for number in range(1, 6)]
    assert changed.take(store.image, MANY) == []


def test_a_new_or_changed_block_or_topic_is_one_to_look_at(store: Store) -> None:
    changed = ChangedBlocks()
    changed.take(store.image, MANY)
    made = add(store, 9)
    assert changed.take(store.image, MANY) == [made]
    store.put(model.block_key(topic_id(2), 0), model.encode_block({0: record((1, 2))}))
    assert changed.take(store.image, MANY) == [(topic_id(2), 0)]
    store.topic(record(), topic_id=topic_id(3), name="topic-3", durability=Durability.REPLICATED)
    assert changed.take(store.image, MANY) == [(topic_id(3), 0)]
    store.txn((), (Delete(model.block_key(topic_id(4), 0)),))
    assert changed.take(store.image, MANY) == []


@pytest.mark.parametrize("change", ["registered", "fenced", "draining", "cordoned"])
def test_a_change_of_a_broker_makes_every_block_one_to_look_at(store: Store, change: str) -> None:
    changed = ChangedBlocks()
    changed.take(store.image, MANY)
    if change == "registered":
        store.register(1, "again")
    elif change == "fenced":
        store.txn((), (Delete(broker_records.live_key(1)),))
    elif change == "draining":
        store.broker(1, draining=True)
    else:
        cordon = broker_records.CordonRecord(broker_id=BrokerId(1), cordoned=True)
        store.put(broker_records.cordon_key(1), cordon.encode())
    assert len(changed.take(store.image, MANY)) == 5


def test_a_whole_listing_makes_every_block_one_to_look_at(store: Store) -> None:
    changed = ChangedBlocks()
    changed.take(store.image, MANY)
    store.image.load(list(store.items.values()), store.revision + 1)
    assert len(changed.take(store.image, MANY)) == 5
    assert changed.take(store.image, MANY) == []
    store.revision += 1
    made = add(store, 7)
    assert changed.take(store.image, MANY) == [made]


def test_what_does_not_fit_waits_and_what_changes_meanwhile_comes_once(store: Store) -> None:
    changed = ChangedBlocks()
    assert changed.take(store.image, 2) == [(topic_id(1), 0), (topic_id(2), 0)]
    store.put(model.block_key(topic_id(1), 0), model.encode_block({0: record((1, 2))}))
    store.put(model.block_key(topic_id(4), 0), model.encode_block({0: record((1, 2))}))
    assert [block for look in looks(changed, store, 2) for block in look] == [
        (topic_id(3), 0),
        (topic_id(4), 0),
        (topic_id(5), 0),
        (topic_id(1), 0),
    ]


def test_one_look_takes_at_most_a_block_more_than_fits() -> None:
    store = Store()
    for number in range(1, 10):
        add(store, number, PARTITIONS_PER_BLOCK)
    sizes = [len(look) for look in looks(ChangedBlocks(), store, 2 * PARTITIONS_PER_BLOCK + 1)]
    assert sizes == [3, 3, 3]


@pytest.mark.pure  # it counts the calls of a function of a compiled module
def test_a_topic_made_beside_thousands_costs_the_controller_one_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted: how many records are judged for each topic, and in one turn after a broker has gone."""
    store, judged, decided = Store(), 0, elections.successor

    def counted(before: PartitionRecord, **given: object) -> PartitionRecord | None:
        nonlocal judged
        judged += 1
        return decided(before, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(elections, "successor", counted)
    changed = ChangedBlocks()
    for number in range(1, TOPICS + 1):
        add(store, number)
        while blocks := changed.take(store.image, LOOKED_A_TURN):
            assert plan(store.image, blocks) == []
    assert judged == TOPICS
    store.txn((), (Delete(broker_records.live_key(1)),))
    turns = []
    while blocks := changed.take(store.image, LOOKED_A_TURN):
        judged = 0
        plan(store.image, blocks)
        turns.append(judged)
    assert sum(turns) == TOPICS and max(turns) <= LOOKED_A_TURN


def test_blocks_of_a_topic_that_is_gone_are_left_alone() -> None:
    store = Store()
    store.topic(record(), topic_id=LOGS, name="logs")
    store.topic(record(), topic_id=ORDERS)
    store.txn((), (Delete(model.topic_key(LOGS)), Delete(broker_records.live_key(1))))
    assert [write.key for write in plan(store.image, ChangedBlocks().take(store.image, MANY))] == [
        model.block_key(ORDERS, 0)
    ]


def test_a_block_that_changes_while_writes_are_planned_is_written_once(store: Store) -> None:
    changes = elections.fence_changes(store.image, BrokerId(1))
    assert changes is not None and store.txn(*changes)
    changed = ChangedBlocks()

    async def plan_beside_a_change() -> list[str]:
        planning = asyncio.ensure_future(planned(store.image, changed))
        await asyncio.sleep(0)  # the first turn of it
        store.put(model.block_key(topic_id(2), 0), model.encode_block({0: record(partition_epoch=8)}))
        return [write.key for write in await planning]

    first = asyncio.run(plan_beside_a_change())
    assert len(first) == len(set(first)) == 5
    again = asyncio.run(planned(store.image, changed))
    assert [write.key for write in again] == [model.block_key(topic_id(2), 0)], "the other one is outdated"
    assert store.txn(again[0].compares, (Put(again[0].key, again[0].value),))


def test_writes_that_are_planned_together_compare_one_revision(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data_plane.node.control.controller_seat.LOOKED_A_TURN", 2)
    changes = elections.fence_changes(store.image, BrokerId(1))
    assert changes is not None and store.txn(*changes)
    changed = ChangedBlocks()

    async def plan_beside_a_change() -> int:
        planning = asyncio.ensure_future(planned(store.image, changed))
        await asyncio.sleep(0)
        add(store, 9)
        return len(await planning)

    assert asyncio.run(plan_beside_a_change()) == 2
    assert len(asyncio.run(planned(store.image, changed))) == 4
