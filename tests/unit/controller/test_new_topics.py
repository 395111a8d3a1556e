"""Many topics in one call: what one transaction takes, and what becomes of each topic."""

from dataclasses import replace

import pytest

from data_plane.controller.batches import BATCH_BYTES_MAX
from data_plane.controller.new_topics import TOPICS_A_TURN, NewTopics, WantedTopic, create_topics
from data_plane.controller.tenants import put_tenant
from data_plane.metadata import model
from data_plane.metadata.port import CHANGES_PER_TXN_MAX, Put
from penstock.contract import limits
from penstock.contract.errors import AlreadyExists, InvalidRequest, LimitExceeded, PenstockError
from penstock.contract.ids import TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings

from .setup import ACME, Store

OTHER = TenantId("globex")


@pytest.fixture
def store() -> Store:
    made = Store()
    limit(made, 0)
    limit(made, 0, OTHER)
    return made


def limit(store: Store, partitions_max: int, tenant: TenantId = ACME) -> None:
    quotas = model.TenantQuotas(produce_bytes_per_s=0, partitions_max=partitions_max)
    put = put_tenant(store.image, tenant, quotas=quotas)
    assert store.txn(put.compares, put.changes)


def topic(number: int, name: str = "", partitions: int = 3, tenant: TenantId = ACME) -> WantedTopic:
    return WantedTopic(
        topic_id=TopicId(number.to_bytes(16, "big")),
        tenant=tenant,
        name=name or f"topic-{number}",
        settings=TopicSettings(),
        assignments=[(1, 2, 3)] * partitions,
        generation=1,
    )


def apply(store: Store, new: NewTopics) -> None:
    assert len(new.compares) <= CHANGES_PER_TXN_MAX and len(new.changes) <= CHANGES_PER_TXN_MAX
    assert len({compare.key for compare in new.compares}) == len(new.compares)
    assert store.txn(new.compares, new.changes)


def make(store: Store, *wanted: WantedTopic) -> list[PenstockError | None]:
    """All of them, one transaction after the other; what each was refused with."""
    waiting, refusals = list(wanted), []
    while waiting:
        new = create_topics(store.image, waiting)
        assert new.settled, "each transaction settles one topic at least"
        apply(store, new)
        refusals += [settled.refusal for settled in new.settled]
        waiting = waiting[len(new.settled) :]
    return refusals


def names(store: Store, tenant: TenantId = ACME) -> list[str]:
    return sorted(store.image.names_of.get(tenant, {}))


def test_as_many_topics_as_one_transaction_takes_are_made_together(store: Store) -> None:
    wanted = [topic(number) for number in range(1, 101)]
    new = create_topics(store.image, wanted)
    compares_a_topic, changes_a_topic = 3, 3  # name, topic, tombstone; name, topic, block
    assert len(new.settled) == (CHANGES_PER_TXN_MAX - 4) // compares_a_topic, (
        "the tenant and three brokers once"
    )
    assert len(new.changes) == len(new.settled) * changes_a_topic
    assert make(store, *wanted) == [None] * 100
    assert len(store.image.topics) == 100
    assert [p.leader for p in store.image.partitions_of(wanted[99].topic_id)] == [1, 1, 1]


def test_repeating_the_call_changes_nothing(store: Store) -> None:
    wanted = [topic(number) for number in range(1, 6)]
    make(store, *wanted)
    again = create_topics(store.image, wanted)
    assert again.changes == () and [s.refusal for s in again.settled] == [None] * 5


def test_a_call_whose_answer_was_lost_is_completed_when_it_is_repeated(store: Store) -> None:
    wanted = [topic(number) for number in range(1, 101)]
    apply(store, create_topics(store.image, wanted))
    there = len(store.image.topics)
    assert 0 < there < 100
    assert make(store, *wanted) == [None] * 100
    assert len(store.image.topics) == 100


def test_a_topic_that_is_refused_stops_no_other(store: Store) -> None:
    make(store, topic(1, "orders"))
    wrong = replace(topic(3), topic_id=TopicId(b"short"))
    wanted = [topic(2), topic(4, "orders"), wrong, topic(5, "__usage"), topic(6), topic(7, tenant=OTHER)]
    found = [type(refusal) for refusal in make(store, *wanted)]
    assert found == [type(None), AlreadyExists, InvalidRequest, InvalidRequest, type(None), type(None)]
    assert names(store) == ["orders", "topic-2", "topic-6"] and names(store, OTHER) == ["topic-7"]


def test_of_two_topics_of_one_name_the_second_is_refused(store: Store) -> None:
    first, second = make(store, topic(1, "orders", 1), topic(2, "orders", 2))
    assert first is None and isinstance(second, AlreadyExists)
    assert store.image.topics[store.image.names[ACME, "orders"]].partitions == 1


def test_two_tenants_may_use_one_name(store: Store) -> None:
    assert make(store, topic(1, "orders"), topic(2, "orders", tenant=OTHER)) == [None, None]


def test_an_id_is_given_once(store: Store) -> None:
    first, second = make(store, topic(1, "orders"), topic(1, "returns"))
    assert first is None and isinstance(second, AlreadyExists)


def test_the_limit_counts_what_the_same_transaction_adds(store: Store) -> None:
    limit(store, 7)
    refusals = make(store, topic(1), topic(2), topic(3), topic(4, partitions=1), topic(5, tenant=OTHER))
    assert [type(refusal) for refusal in refusals] == [type(None)] * 2 + [LimitExceeded] + [type(None)] * 2
    assert str(refusals[2]).startswith("topic-3: partitions_max of the tenant is 7, 6 are used and 3 more")
    assert store.image.partitions_used(ACME) == 7
    use = model.UseRecord.decode(store.items[model.use_key(ACME)].value)
    assert use.partitions == 7


def test_a_later_generation_of_a_topic_that_is_there_has_its_own_transaction(store: Store) -> None:
    limit(store, 10)
    make(store, topic(1, partitions=1))
    grown = replace(topic(1, partitions=4), generation=2)
    assert len(create_topics(store.image, [topic(2), grown, topic(3)]).settled) == 1
    assert len(create_topics(store.image, [grown, topic(3)]).settled) == 1
    refusals = make(store, topic(2), grown, topic(3), topic(4))
    assert [type(refusal) for refusal in refusals] == [type(None)] * 3 + [LimitExceeded]
    assert store.image.partitions_used(ACME) == 3 + 4 + 3


def test_a_turn_looks_at_a_bounded_number_of_topics(store: Store) -> None:
    make(store, topic(1, "orders"))
    refused = [topic(number, "orders") for number in range(2, 200)]
    assert len(create_topics(store.image, refused).settled) == TOPICS_A_TURN


def test_large_topics_are_not_put_together(store: Store) -> None:
    largest = limits.PARTITIONS_PER_TOPIC_MAX
    wanted = [topic(1, partitions=largest), topic(2, partitions=largest), topic(3)]
    assert len(create_topics(store.image, wanted).settled) == 1
    assert make(store, *wanted) == [None] * 3


def test_topics_are_put_together_as_long_as_their_values_fit_into_one_transaction(store: Store) -> None:
    sizes = [3_000, 3_000, 3_000, 2_200]
    waiting = [topic(number, partitions=size) for number, size in enumerate(sizes, start=1)]
    first = create_topics(store.image, waiting)
    apply(store, first)
    second = create_topics(store.image, waiting[len(first.settled) :])
    assert (len(first.settled), len(second.settled)) == (3, 1)
    together = [*first.changes, *second.changes]
    assert len({change.key for change in together}) <= CHANGES_PER_TXN_MAX, "they are not too many"
    value_bytes = [
        sum(len(change.value) for change in new.changes if isinstance(change, Put)) for new in (first, second)
    ]
    assert value_bytes[0] <= BATCH_BYTES_MAX < sum(value_bytes)
