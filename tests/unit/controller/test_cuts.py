"""Cuts follow one another and are kept once; a deleted topic ends in one of them, at its furthest last reading."""

from dataclasses import replace
from typing import Any

import pytest

from data_plane.controller.cuts import (
    begin_cut,
    close_topic,
    cut_end,
    deleted_parts,
    final_end,
    keep_cut,
    keep_ends,
    keep_finals,
    raise_floor,
)
from data_plane.controller.topics import create_topic, delete_topic
from data_plane.metadata import model
from data_plane.metadata.kept_ends import ENDS_PER_CHUNK, KeptEnd, decode_ends
from data_plane.metadata.model import BegunCut, CutRecord, FinalRecord
from data_plane.metadata.port import CHANGES_PER_TXN_MAX
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TenantId, TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings
from penstock.records.cut import CutEnd

from .setup import ACME, ORDERS, Store, record

GONE, SECOND = TopicId(b"g" * 16), TopicId(b"s" * 16)
OTHER = TenantId("other")


def final(end_offset: int, generation: int = 1) -> FinalRecord:
    return FinalRecord(
        log_generation=generation,
        end_offset=end_offset,
        accepted_ms=5,
        totals=(end_offset, 10 * end_offset, 0, 0, 0, 0),
    )


def apply(store: Store, change: Any) -> bool:
    return store.txn(change.compares, change.changes)


def with_a_deleted_topic(partitions: int = 2, *, metered: bool = True) -> Store:
    store = Store()
    for tenant in (ACME, OTHER):
        store.put(model.tenant_key(tenant), model.TenantRecord(tenant=tenant).encode())
    places = [(1, 2, 3)] * partitions
    assert apply(store, create_topic(store.image, GONE, ACME, "gone", TopicSettings(), places))
    assert apply(store, delete_topic(store.image, ACME, "gone", metered=metered))
    return store


def keep(store: Store, *finals: FinalRecord, first: int = 0) -> int:
    """Keep these for the partitions from `first` on; how many transactions it took."""
    wanted = {TopicPartition(GONE, first + number): one for number, one in enumerate(finals)}
    count = 0
    while (change := next(keep_finals(store.image, wanted), None)) is not None:
        assert apply(store, change)
        count += 1
    return count


def test_of_several_last_readings_the_furthest_stays_in_whatever_order_they_come() -> None:
    store = with_a_deleted_topic()
    for one in (final(7), final(9), final(8)):
        keep(store, one)
    assert store.image.finals[TopicPartition(GONE, 0)] == final(9)
    keep(store, final(3, generation=2))
    assert store.image.finals[TopicPartition(GONE, 0)] == final(3, generation=2)
    assert keep(store, final(3, generation=2)) == 0


def test_a_topic_that_is_there_or_owes_nothing_keeps_no_last_reading() -> None:
    store = with_a_deleted_topic(metered=False)
    assert keep(store, final(7)) == 0
    assert deleted_parts(store.image, ACME, "cut_1", ()).missing == ()
    assert list(keep_finals(Store().image, {TopicPartition(GONE, 0): final(7)})) == []


def test_thousands_of_last_readings_go_in_transactions_that_every_store_takes() -> None:
    store = with_a_deleted_topic(partitions=300)
    finals = {TopicPartition(GONE, number): final(number) for number in range(300)}
    for change in keep_finals(store.image, finals):
        assert len(change.changes) <= CHANGES_PER_TXN_MAX
        assert len(change.compares) <= CHANGES_PER_TXN_MAX
    assert keep(store, *finals.values()) == 3
    assert len(store.image.finals) == 300


def test_a_cut_waits_for_every_partition_of_a_deleted_topic_but_the_waived_ones() -> None:
    store = with_a_deleted_topic()
    keep(store, final(7))
    parts = deleted_parts(store.image, ACME, "cut_1", ())
    assert parts.missing == (TopicPartition(GONE, 1),)
    assert list(parts.ends) == [TopicPartition(GONE, 0)]
    waived = deleted_parts(store.image, ACME, "cut_1", {TopicPartition(GONE, 1)})
    assert waived.missing == ()
    assert list(waived.ends) == [TopicPartition(GONE, 0)]
    assert deleted_parts(store.image, OTHER, "cut_1", ()).missing == ()


def test_once_a_cut_has_closed_a_topic_no_later_reading_and_no_later_cut_changes_it() -> None:
    store = with_a_deleted_topic(partitions=1)
    keep(store, final(7))
    late = next(keep_finals(store.image, {TopicPartition(GONE, 0): final(9)}))
    assert apply(store, close_topic(store.image, GONE, "cut_1"))
    assert not apply(store, late), "it was decided before the topic was closed"
    assert keep(store, final(9)) == 0
    assert close_topic(store.image, GONE, "cut_1").changes == ()
    with pytest.raises(InvalidRequest, match="cut cut_1 has counted it"):
        close_topic(store.image, GONE, "cut_2")
    assert deleted_parts(store.image, ACME, "cut_1", ()).ends == {TopicPartition(GONE, 0): final(7)}
    assert deleted_parts(store.image, ACME, "cut_2", ()).ends == {}


def test_of_two_last_readings_decided_at_once_the_lower_never_takes_the_place_of_the_higher() -> None:
    store = with_a_deleted_topic(partitions=1)
    where = TopicPartition(GONE, 0)
    for before, higher in ((None, final(7)), (final(7), final(9))):
        assert store.image.finals.get(where) == before
        both = [
            next(keep_finals(store.image, {where: one})) for one in (higher, replace(higher, end_offset=8))
        ]
        if before is None:
            both[1] = next(keep_finals(store.image, {where: final(3)}))
        assert [apply(store, change) for change in both] == [True, False]
        assert store.image.finals[where] == higher


def test_of_one_brokers_last_readings_only_those_that_are_higher_are_kept() -> None:
    store = with_a_deleted_topic(partitions=3)
    keep(store, final(7), final(7), final(7))
    assert keep(store, final(6), final(8), final(7)) == 1
    kept_now = [store.image.finals[TopicPartition(GONE, number)] for number in range(3)]
    assert kept_now == [final(7), final(8), final(7)]


def test_two_deleted_topics_are_closed_each_by_itself() -> None:
    store = with_a_deleted_topic(partitions=1)
    places = [(1, 2, 3)]
    assert apply(store, create_topic(store.image, SECOND, ACME, "second", TopicSettings(), places))
    assert apply(store, delete_topic(store.image, ACME, "second", metered=True))
    gone, second = TopicPartition(GONE, 0), TopicPartition(SECOND, 0)
    for change in list(keep_finals(store.image, {gone: final(7), second: final(3)})):
        assert apply(store, change)
    assert apply(store, close_topic(store.image, GONE, "cut_1"))
    assert deleted_parts(store.image, ACME, "cut_2", ()).ends == {second: final(3)}
    assert deleted_parts(store.image, ACME, "cut_1", ()).ends == {gone: final(7), second: final(3)}
    changes = list(keep_finals(store.image, {gone: final(9), second: final(4)}))
    assert [apply(store, change) for change in changes] == [True]
    assert store.image.finals == {gone: final(7), second: final(4)}
    assert apply(store, close_topic(store.image, SECOND, "cut_2"))
    assert deleted_parts(store.image, ACME, "cut_2", ()).ends == {second: final(4)}
    assert deleted_parts(store.image, ACME, "cut_1", ()).ends == {gone: final(7)}


def test_a_last_reading_below_the_cut_before_adds_nothing() -> None:
    before = end_of(9)
    assert final_end(before.where, "gone", final(7), before) == replace(before, last=True)
    assert final_end(before.where, "gone", final(11), before).end_offset == 11
    assert final_end(before.where, "gone", final(3, generation=2), before).position == (2, 3)
    assert final_end(before.where, "gone", final(7), None).end_offset == 7


# -- cuts -------------------------------------------------------------------------------------------------------


def end_of(end_offset: int, partition: int = 0) -> KeptEnd:
    return KeptEnd(
        where=TopicPartition(GONE, partition),
        topic="gone",
        log_generation=1,
        end_offset=end_offset,
        accepted_ms=5,
        totals=(end_offset, 10 * end_offset, 0, 0, 0, 0),
    )


def cut(number: int, **changes: Any) -> CutRecord:
    made = CutRecord(
        cut_id=f"cut_{number}",
        start_ms=(number - 1) * 100,
        end_ms=number * 100,
        sha256=f"{number}" * 64,
        billing_sequence=number,
        billing_hash="a" * 64,
        kept_ms=number * 100 + 7,
    )
    return replace(made, **changes)


def begun(one: CutRecord) -> BegunCut:
    return BegunCut(cut_id=one.cut_id, start_ms=one.start_ms, end_ms=one.end_ms)


def begin(store: Store, one: CutRecord) -> None:
    assert apply(store, begin_cut(store.image, ACME, begun(one)))


def kept(*cuts: CutRecord) -> Store:
    store = Store()
    for one in cuts:
        begin(store, one)
        assert apply(store, keep_cut(store.image, ACME, one))
    return store


def test_a_cut_is_kept_under_its_end_and_as_the_newest() -> None:
    store = kept(cut(1), cut(2))
    assert store.image.cuts == {ACME: cut(2)}
    prefix = model.kept_cuts_prefix(ACME)
    held = {key: item.value for key, item in store.items.items() if key.startswith(prefix)}
    assert [CutRecord.decode(value) for _, value in sorted(held.items())] == [cut(1), cut(2)]


def test_a_kept_cut_stays_as_it_was_first() -> None:
    store = kept(cut(1))
    assert keep_cut(store.image, ACME, cut(1, billing_sequence=9, billing_hash="b" * 64)).changes == ()
    assert store.image.cuts[ACME].billing_sequence == 1
    with pytest.raises(InvalidRequest, match="this answer has the hash"):
        keep_cut(store.image, ACME, cut(1, sha256="f" * 64))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (cut(3), "begins at 200, the tenant's newest kept cut, cut_1, ends at 100"),
        (cut(2, start_ms=99), "begins at 99"),
        (cut(2, start_ms=101), "begins at 101"),
        (cut(2, start_ms=0), "begins at 0"),
        (cut(2, end_ms=100), "is not after its start"),
    ],
)
def test_a_cut_that_does_not_follow_the_newest_is_not_begun(wrong: CutRecord, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        begin_cut(kept(cut(1)).image, ACME, begun(wrong))


def test_one_cut_of_a_tenant_is_under_way_and_no_other_begins_or_is_kept() -> None:
    store = kept(cut(1))
    begin(store, cut(2))
    assert begin_cut(store.image, ACME, begun(cut(2))).changes == ()
    for other in (cut(2, cut_id="cut_x"), cut(2, end_ms=201)):
        with pytest.raises(InvalidRequest, match="cut cut_2 is under way, from 100 to 200"):
            begin_cut(store.image, ACME, begun(other))
        with pytest.raises(InvalidRequest, match="is not the one that is under way"):
            keep_cut(store.image, ACME, other)
    assert apply(store, keep_cut(store.image, ACME, cut(2)))
    begin(store, cut(3))


def test_the_first_cut_of_a_tenant_is_alone_under_way_too() -> None:
    store = kept()
    begin(store, cut(1))
    for other in (cut(1, cut_id="cut_x"), cut(1, end_ms=101), cut(1, start_ms=1)):
        with pytest.raises(InvalidRequest, match="cut cut_1 is under way, from 0 to 100"):
            begin_cut(store.image, ACME, begun(other))
    assert store.image.begun_cuts[ACME] == begun(cut(1))
    assert apply(store, keep_cut(store.image, ACME, cut(1)))
    begin(store, cut(2))
    assert store.image.begun_cuts[ACME] == begun(cut(2))


def test_of_two_first_cuts_begun_at_once_one_is_under_way() -> None:
    store = kept()
    both = [begin_cut(store.image, ACME, begun(one)) for one in (cut(1), cut(1, cut_id="x", end_ms=150))]
    assert [apply(store, change) for change in both] == [True, False]


def test_of_two_cuts_begun_at_once_one_is_under_way() -> None:
    store = kept(cut(1))
    both = [begin_cut(store.image, ACME, begun(one)) for one in (cut(2), cut(2, cut_id="x", end_ms=250))]
    assert [apply(store, change) for change in both] == [True, False]


def test_the_ends_of_a_cut_are_written_before_it_is_kept_and_never_after() -> None:
    store = kept(cut(1))
    begin(store, cut(2))
    ends = [end_of(5, number) for number in range(2 * ENDS_PER_CHUNK + 1)]
    changes = list(keep_ends(store.image, ACME, cut(2), ends))
    assert [len(change.changes) for change in changes] == [1, 1, 1]
    assert all(apply(store, change) for change in changes)
    prefix = model.cut_ends_prefix(ACME, 200)
    held = [item.value for key, item in sorted(store.items.items()) if key.startswith(prefix)]
    assert [end for value in held for end in decode_ends(value)] == ends
    assert apply(store, keep_cut(store.image, ACME, cut(2)))
    assert not any(apply(store, change) for change in changes)


def test_every_value_of_an_end_counts_in_the_hash() -> None:
    end = end_of(7)
    assert cut_end(end) == CutEnd(
        where=end.where, log_generation=1, end_offset=7, accepted_ms=5, messages=7, bytes=70, last=False
    )
    assert cut_end(replace(end, last=True)).last


def test_tenants_have_cuts_of_their_own() -> None:
    store = kept(cut(1))
    assert apply(store, begin_cut(store.image, OTHER, begun(cut(1))))
    assert apply(store, keep_cut(store.image, OTHER, cut(1, sha256="0" * 64)))
    assert not model.kept_cut_key("acme-2", 5).startswith(model.kept_cuts_prefix("acme"))


def test_a_topics_floor_of_time_only_rises() -> None:
    store = Store()
    store.topic(record())
    for end_ms, floor_ms in ((20, 20), (20, 20), (19, 20), (21, 21)):
        change = raise_floor(store.image, ORDERS, end_ms)
        assert bool(change.changes) is (floor_ms > store.image.topics[ORDERS].accepted_floor_ms)
        assert apply(store, change)
        assert store.image.topics[ORDERS].accepted_floor_ms == floor_ms
    earlier, later = raise_floor(store.image, ORDERS, 30), raise_floor(store.image, ORDERS, 40)
    assert apply(store, later) and not apply(store, earlier), "the topic has changed meanwhile"
    assert raise_floor(store.image, GONE, 40).changes == ()
