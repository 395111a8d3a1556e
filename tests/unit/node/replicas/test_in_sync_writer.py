"""Writing changes of the in-sync set: what the store did not answer can never be applied later (RL17, RL36)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from data_plane.metadata import broker_records, model
from data_plane.metadata.port import Compare, KeyValue, Put, RangeResult, StoreUnavailable, TxnResult
from data_plane.node.config import NodeConfig
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.replicas.in_sync_writer import InSyncWriter
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.replication.effects import Look
from data_plane.replication.opening import Accepted, Position
from penstock.contract.ids import BrokerId
from tests.waiting import PATIENCE_S

from .test_follower_stream import CONFIG, FOLLOWER, ME, OTHER, REGISTERED, StillClock, led

NOBODY: Any = None


class Store:
    """One block, and what becomes of each transaction in turn: `lost`, `refused` or `applied`."""

    def __init__(self, key: str, record: model.PartitionRecord, outcomes: Sequence[str]) -> None:
        self.key = key
        self.record = record
        self.revision = 1
        self.outcomes = list(outcomes)
        self.written: list[model.PartitionRecord] = []
        self.compared: list[Compare] = []
        """In the last transaction."""
        self.asked = asyncio.Event()

    async def range(self, key: str) -> RangeResult:
        block = model.encode_block({self.record.partition: self.record})
        return RangeResult(self.revision, (KeyValue(self.key, block, self.revision),))

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Put]) -> TxnResult:
        outcome = self.outcomes.pop(0)
        self.compared = list(compares)
        self.asked.set()
        (put,) = changes
        if outcome == "lost":
            raise StoreUnavailable("no answer")
        if outcome in ("applied", "another's"):
            self.record = model.decode_block(put.value)[self.record.partition]
            self.written.append(self.record)
            self.revision += 1
        return TxnResult(succeeded=outcome == "applied", revision=self.revision)


def _writer(
    replica: Replica, outcomes: Sequence[str], config: NodeConfig = CONFIG
) -> tuple[InSyncWriter, Store]:
    assert replica.record is not None
    store = Store(model.block_key(replica.where.topic_id, 0), replica.record, outcomes)
    view = MetadataView(NOBODY, CONFIG.timings)
    live = broker_records.LiveRecord(incarnation="i", directory_id="d").encode()
    known = {
        key: value
        for one in (ME, FOLLOWER, OTHER)
        for key, value in (
            (broker_records.live_key(one), live),
            (broker_records.broker_key(one), _broker(one).encode()),
        )
    }
    view.image.load([KeyValue(key, value, REGISTERED) for key, value in known.items()], REGISTERED)
    registration = Registration(
        CONFIG, "d", view, NOBODY, StillClock(), NOBODY,
        data_lost=NOBODY, damaged=NOBODY, gained=NOBODY, lost=NOBODY,
    )  # fmt: skip
    return InSyncWriter(config, view, registration, cast(Any, store), StillClock(), NodeStats()), store


def _broker(broker: BrokerId) -> broker_records.BrokerRecord:
    return broker_records.BrokerRecord(
        broker_id=broker, directory_id="d", client_address="c:1", internal_address="i:1", zone="z"
    )


def _replica_with_a_follower_that_may_join() -> Replica:
    replica = led()
    leading = replica.leading
    assert leading is not None
    position = Position(log_end_offset=0, durable_end_offset=0, last_epoch=-1)
    answer = leading.follower_opened(
        FOLLOWER, REGISTERED, 1, position, 1_000.0, handle=1, leader_epoch=1,
        partition_epoch=leading.record.partition_epoch, registered_epoch=REGISTERED,
        epoch_lookup=lambda epoch: (-1, 0), stored_from=0,
    )  # fmt: skip
    assert isinstance(answer, Accepted)
    return replica


@pytest.mark.parametrize(
    ("outcomes", "moved_on"), [(["refused"], 0), (["lost", "refused", "applied"], 1)], ids=["known", "lost"]
)
def test_a_record_is_moved_on_only_when_an_earlier_try_may_still_be_applied(
    outcomes: list[str], moved_on: int
) -> None:
    replica = _replica_with_a_follower_that_may_join()
    writer, store = _writer(replica, outcomes)
    before = store.record

    async def story() -> None:
        for _ in range(outcomes.count("lost") + 1):
            await writer._look([replica])

    asyncio.run(story())
    assert not store.outcomes, "each transaction was asked for"
    assert [record.partition_epoch for record in store.written] == [before.partition_epoch + 1] * moved_on
    assert store.record.in_sync == before.in_sync
    assert replica.leading is not None and replica.leading.maximal == (ME, OTHER)


@pytest.mark.parametrize(("answer", "others"), [("applied", 1), ("another's", 2), ("lost", 2)])
def test_a_record_that_was_read_is_another_writers_though_it_says_what_was_proposed(
    answer: str, others: int
) -> None:
    """Only the answer of this broker's own transaction says that it has written the record."""
    replica = _replica_with_a_follower_that_may_join()
    writer, store = _writer(replica, [answer])
    leading = replica.leading
    assert leading is not None
    proposed = leading.record.changed(in_sync=(ME, FOLLOWER, OTHER))

    async def story() -> None:
        await writer._look([replica])
        if answer == "lost":
            store.record = proposed
            await writer._look([replica])

    asyncio.run(story())
    assert leading.record == proposed and not leading.unresolved
    assert leading._foreign_epoch == others


def test_a_lost_answer_leaves_every_partition_of_the_block_unresolved() -> None:
    replicas = [_replica_with_a_follower_that_may_join() for _ in range(2)]
    writer, store = _writer(replicas[0], ["lost"])
    asyncio.run(writer._look(replicas))
    assert not store.outcomes, "one transaction for both"
    assert [replica.leading is not None and replica.leading.unresolved for replica in replicas] == [
        True,
        True,
    ]


def test_a_member_that_is_forgotten_while_the_store_is_asked_does_not_join_and_harms_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = _replica_with_a_follower_that_may_join()
    writer, store = _writer(replica, [])
    ask, brokers = store.range, writer._view.image.brokers

    async def forgotten_meanwhile(key: str) -> RangeResult:
        brokers.pop(FOLLOWER, None)
        return await ask(key)

    monkeypatch.setattr(store, "range", forgotten_meanwhile)
    asyncio.run(writer._look([replica]))
    assert not store.written
    assert replica.leading is not None and replica.leading.maximal == (ME, OTHER)


def test_a_member_that_is_forgotten_after_an_unknown_try_can_never_be_added_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = _replica_with_a_follower_that_may_join()
    writer, store = _writer(replica, ["lost", "applied"])
    before = store.record
    asyncio.run(writer._look([replica]))
    assert replica.leading is not None and FOLLOWER in replica.leading.maximal
    del writer._view.image.brokers[FOLLOWER]
    asyncio.run(writer._look([replica]))
    assert store.record.in_sync == before.in_sync
    assert store.record.partition_epoch == before.partition_epoch + 1, "moved on (RL17)"
    assert replica.leading.maximal == (ME, OTHER)


def test_a_lost_answer_keeps_the_proposed_member_counted_until_it_is_known_what_holds() -> None:
    replica = _replica_with_a_follower_that_may_join()
    writer, store = _writer(replica, ["lost", "applied"])

    async def story() -> None:
        await writer._look([replica])
        assert replica.leading is not None
        assert replica.leading.maximal == (ME, OTHER, FOLLOWER) and replica.leading.in_sync_count == 2
        await writer._look([replica])
        assert set(replica.leading.record.in_sync) == {ME, OTHER, FOLLOWER}

    asyncio.run(story())
    assert not store.outcomes


def test_a_proposal_holds_only_while_each_member_is_registered_as_it_was() -> None:
    replica = _replica_with_a_follower_that_may_join()
    writer, store = _writer(replica, ["applied"])
    asyncio.run(writer._look([replica]))
    for member in (ME, OTHER, FOLLOWER):
        assert Compare(broker_records.live_key(member), REGISTERED) in store.compared
        assert Compare(broker_records.broker_key(member), REGISTERED) in store.compared


def test_a_follower_that_has_caught_up_joins_at_once() -> None:
    replica = _replica_with_a_follower_that_may_join()
    rarely = replace(CONFIG, timings=replace(CONFIG.timings, in_sync_check_ms=int(10_000 * PATIENCE_S)))
    writer, store = _writer(replica, ["applied"], rarely)

    async def story() -> None:
        running = asyncio.create_task(writer.run())
        await asyncio.sleep(0)
        writer.look_at(replica, Look.NOW)
        await asyncio.wait_for(store.asked.wait(), PATIENCE_S)
        running.cancel()

    asyncio.run(story())
    assert set(store.record.in_sync) == {ME, OTHER, FOLLOWER}
