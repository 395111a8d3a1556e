"""Assignors over random groups: everything assigned once, balance within one, and no move that is not needed."""

from hypothesis import given
from hypothesis import strategies as st

from data_plane.groups.assignors import ASSIGNORS, range_assignment, sticky_assignment
from penstock.contract.ids import TopicId, TopicPartition

TOPICS = [TopicId(bytes([number]) * 16) for number in range(4)]
counts_of = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12), min_size=1)
members_of = st.lists(st.sampled_from([f"m{number}" for number in range(8)]), unique=True, max_size=8)


def everything(counts: dict[TopicId, int]) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)}


@given(counts_of, st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from(TOPICS), unique=True)))
def test_each_partition_has_one_owner_that_subscribed(
    counts: dict[TopicId, int], subscriptions: dict[str, list[TopicId]]
) -> None:
    wanted = {tp for tp in everything(counts) if any(tp.topic_id in t for t in subscriptions.values())}
    for assign in ASSIGNORS.values():
        assigned = assign(subscriptions, counts, {})
        owned = [tp for places in assigned.values() for tp in places]
        assert sorted(owned) == sorted(wanted)
        assert all(
            tp.topic_id in subscriptions[member] for member, places in assigned.items() for tp in places
        )
        assert all(list(places) == sorted(places) for places in assigned.values())


@given(counts_of, members_of)
def test_equal_subscriptions_are_balanced_within_one(counts: dict[TopicId, int], members: list[str]) -> None:
    subscriptions = dict.fromkeys(sorted(members), sorted(counts))
    loads = [len(places) for places in sticky_assignment(subscriptions, counts, {}).values()]
    assert not loads or max(loads) - min(loads) <= 1
    for topic in counts:
        of_topic = [
            sum(tp.topic_id == topic for tp in places)
            for places in range_assignment(subscriptions, counts, {}).values()
        ]
        assert not of_topic or max(of_topic) - min(of_topic) <= 1


@given(counts_of, st.lists(members_of, min_size=2, max_size=6))
def test_no_more_partitions_move_than_balance_demands(
    counts: dict[TopicId, int], generations: list[list[str]]
) -> None:
    current: dict[str, tuple[TopicPartition, ...]] = {}
    for members in generations:
        subscriptions = dict.fromkeys(sorted(members), sorted(counts))
        following = sticky_assignment(subscriptions, counts, current)
        if members:
            each, more = divmod(len(everything(counts)), len(members))
            kept = sorted((len(current.get(member, ())) for member in members), reverse=True)
            # The fullest keep one more; whoever has less than his share can only gain.
            bound = sum(min(had, each + (rank < more)) for rank, had in enumerate(kept))
            stayed = sum(len(set(following[m]) & set(current.get(m, ()))) for m in members)
            assert stayed == bound
        current = following


@given(counts_of, members_of)
def test_an_assignment_that_stands_stays(counts: dict[TopicId, int], members: list[str]) -> None:
    subscriptions = dict.fromkeys(sorted(members), sorted(counts))
    for assign in ASSIGNORS.values():
        first = assign(subscriptions, counts, {})
        assert assign(subscriptions, counts, first) == first


def plainly(
    subscriptions: dict[str, list[TopicId]],
    counts: dict[TopicId, int],
    current: dict[str, tuple[TopicPartition, ...]],
) -> dict[str, tuple[TopicPartition, ...]]:
    """The sticky assignment, each choice made by looking at everybody."""
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    taken: set[TopicPartition] = set()
    for member, topics in subscriptions.items():
        for tp in current.get(member, ()):
            if tp.topic_id in topics and tp.partition < counts.get(tp.topic_id, 0) and tp not in taken:
                taken.add(tp)
                assigned[member].append(tp)
    ranks = list(subscriptions)
    for tp in sorted(everything(counts) - taken):
        able = [member for member, topics in subscriptions.items() if tp.topic_id in topics]
        if able:
            assigned[min(able, key=lambda member: (len(assigned[member]), ranks.index(member)))].append(tp)

    def moves() -> bool:
        by_load = sorted(assigned, key=lambda member: (len(assigned[member]), ranks.index(member)))
        for giver in reversed(by_load):
            for taker in by_load:
                movable = [tp for tp in assigned[giver] if tp.topic_id in subscriptions[taker]]
                if movable and len(assigned[giver]) - len(assigned[taker]) >= 2:
                    assigned[giver].remove(max(movable))
                    assigned[taker].append(max(movable))
                    return True
        return False

    while moves():
        pass
    return {member: tuple(sorted(places)) for member, places in assigned.items()}


@given(
    counts_of,
    st.lists(
        st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from(TOPICS), unique=True)),
        min_size=1,
        max_size=4,
    ),
)
def test_every_choice_is_the_one_that_looking_at_everybody_makes(
    counts: dict[TopicId, int], generations: list[dict[str, list[TopicId]]]
) -> None:
    current: dict[str, tuple[TopicPartition, ...]] = {}
    for subscriptions in generations:
        following = sticky_assignment(subscriptions, counts, current)
        assert following == plainly(subscriptions, counts, current)
        current = following


def test_large_groups_are_assigned_in_steps_that_grow_with_what_moves() -> None:
    """Counted, not timed: what one member's coming compares grows with its share, not with members times places."""
    topics = [TopicId(number.to_bytes(16, "big")) for number in range(1_000)]
    counts = dict.fromkeys(topics, 10)
    before = sticky_assignment({f"m{number:03}": topics for number in range(100)}, counts, {})
    looked = 0

    class Counted(tuple[TopicId, ...]):
        def __contains__(self, topic: object) -> bool:
            nonlocal looked
            looked += 1
            return super().__contains__(topic)

    subscriptions = {f"m{number:03}": Counted(topics) for number in range(101)}
    after = sticky_assignment(subscriptions, counts, before)
    assert sorted(map(len, after.values()))[0] == 99
    assert looked == 0, "subscriptions are looked up by hash"
