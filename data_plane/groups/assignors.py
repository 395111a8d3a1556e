"""Who shall read what: range and sticky assignment of partitions to the members of a group (RL83).

An assignor is a function of (subscriptions, partition counts, assignment so far) to the next assignment. All mappings
keep the members' order, which is the caller's; the result lists places in order.
"""

from collections.abc import Callable, Mapping, Sequence

from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TopicId, TopicPartition

Subscriptions = Mapping[str, Sequence[TopicId]]
Counts = Mapping[TopicId, int]
Assignment = Mapping[str, Sequence[TopicPartition]]
Assignor = Callable[[Subscriptions, Counts, Assignment], dict[str, tuple[TopicPartition, ...]]]


def _subscribers(subscriptions: Subscriptions, counts: Counts) -> dict[TopicId, list[str]]:
    found: dict[TopicId, list[str]] = {topic: [] for topic in sorted(counts)}
    for member, topics in subscriptions.items():
        for topic in topics:
            if topic in found:
                found[topic].append(member)
    return found


def range_assignment(
    subscriptions: Subscriptions, counts: Counts, current: Assignment
) -> dict[str, tuple[TopicPartition, ...]]:
    """Each topic in runs of neighbours, the first members getting one more: equal keys of topics with equal counts
    meet in one member.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic, members in _subscribers(subscriptions, counts).items():
        if not members:
            continue
        each, more = divmod(counts[topic], len(members))
        first = 0
        for rank, member in enumerate(members):
            end = first + each + (rank < more)
            assigned[member] += [TopicPartition(topic, number) for number in range(first, end)]
            first = end
    return {member: tuple(places) for member, places in assigned.items()}


def sticky_assignment(
    subscriptions: Subscriptions, counts: Counts, current: Assignment
) -> dict[str, tuple[TopicPartition, ...]]:
    """Everybody keeps what he has, but for what balance demands: with equal subscriptions loads differ by one at
    most, and no partition moves that need not.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    holders: dict[TopicPartition, str] = {}
    for member, topics in subscriptions.items():
        for place in current.get(member, ()):
            if (
                place.topic_id in topics
                and place.partition < counts.get(place.topic_id, 0)
                and place not in holders
            ):
                holders[place] = member
                assigned[member].append(place)
    rank = {member: number for number, member in enumerate(subscriptions)}
    for topic, members in _subscribers(subscriptions, counts).items():
        for number in range(counts[topic] if members else 0):
            place = TopicPartition(topic, number)
            if place not in holders:
                assigned[min(members, key=lambda m: (len(assigned[m]), rank[m]))].append(place)
    while _move_one(subscriptions, assigned, rank):
        pass
    return {member: tuple(sorted(places)) for member, places in assigned.items()}


def _move_one(
    subscriptions: Subscriptions, assigned: dict[str, list[TopicPartition]], rank: Mapping[str, int]
) -> bool:
    """Move one place from a fuller member to an emptier one that may have it; False when balance is reached.

    Every move makes the sum of squared loads smaller, so there is an end.
    """
    by_load = sorted(assigned, key=lambda member: (len(assigned[member]), rank[member]))
    for giver in reversed(by_load):
        for taker in by_load:
            if len(assigned[giver]) - len(assigned[taker]) < 2:
                break
            topics = subscriptions[taker]
            movable = [place for place in assigned[giver] if place.topic_id in topics]
            if movable:
                assigned[giver].remove(max(movable))
                assigned[taker].append(max(movable))
                return True
    return False


ASSIGNORS: dict[str, Assignor] = {"range": range_assignment, "sticky": sticky_assignment}
DEFAULT_ASSIGNOR = "sticky"


def assignor(name: str) -> Assignor:
    """By name. Raises `InvalidRequest`."""
    found = ASSIGNORS.get(name)
    if found is None:
        raise InvalidRequest(f"assignor: {name[:100]!r} is not one of {', '.join(ASSIGNORS)}")
    return found
